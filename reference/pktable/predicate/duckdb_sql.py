"""Translate a condition or value to SQL for DuckDB, with every coercion, type and error written out.

The name of a column is SQL of DuckDB's already, so that whoever makes the tree may put any text there.

Clauses: WH-28.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import FLOATS, INTEGER_BITS, NESTED, TIMESTAMPS, DataType, Value
from pktable.predicate.arrow_eval import may_fail
from pktable.predicate.literals import MOST_DIGITS, clock_text, date_text, time_text
from pktable.predicate.spark_sql import case_text, in_text, like_text
from pktable.predicate.text_as_java import re2_pattern
from pktable.predicate.tree import (
    BYTES,
    INT,
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    assert_never,
    conjuncts,
)

NAMES: Final = {"INT": "INTEGER", "STRING": "VARCHAR", "BYTES": "BLOB", "NULL": "BOOLEAN"}
OPERATORS: Final = {"<=>": "IS NOT DISTINCT FROM"}
ARITHMETIC: Final = {"add": "+", "subtract": "-", "multiply": "*"}
DIVISIONS: Final = {"divide": "/", "remainder": "%", "div": "//"}
PARTS: Final = {"dayofyear": "dayofyear", "weekofyear": "week", "day": "day"}
LARGER_THAN_FLOATS: Final = "CAST('3.4028235677973366e38' AS DOUBLE)"
"""The smallest double of which no FLOAT is the nearest but infinity."""
LETTER_CASE: Final = {"upper": "pktable_upper", "lower": "pktable_lower"}
"""The functions that DuckDB is given. Its own map each letter to one letter."""


def duckdb_text(expression: Expression) -> str:
    """Return SQL that DuckDB evaluates as `pktable.predicate.arrow_eval` does, errors too.

    Raises InvalidRequestError for a type that DuckDB does not have.
    """
    match expression:
        case Column():
            return expression.name
        case Literal():
            return _literal(expression.value, expression.type)
        case Cast():
            return _cast(duckdb_text(expression.operand), expression.operand.type, expression.type)
        case Call():
            return _call(expression, [duckdb_text(argument) for argument in expression.arguments])
        case Compare():
            operator = OPERATORS.get(expression.operator, expression.operator)
            return f"({duckdb_text(expression.left)} {operator} {duckdb_text(expression.right)})"
        case In():
            return in_text(expression, duckdb_text(expression.operand), _literal)
        case IsNull():
            return f"({duckdb_text(expression.operand)} IS NULL)"
        case Like():
            return f"({duckdb_text(expression.operand)} LIKE {_text(like_text(expression))} ESCAPE '\\')"
        case Not():
            return f"(NOT {duckdb_text(expression.operand)})"
        case And():
            return _one_after_the_other(expression.operands, "AND")
        case Or():
            return _one_after_the_other(expression.operands, "OR")
        case _:
            assert_never(expression)


def type_name(t: DataType) -> str:
    """Return the name of a type in DuckDB. Raises InvalidRequestError for one that it does not have."""
    if t.root == "ARRAY":
        return f"{type_name(t.children[0].type)}[]"
    if t.root in NESTED:
        parts = [type_name(one.type) for one in t.children]
        if t.root == "MAP":
            return f"MAP({', '.join(parts)})"
        names = ['"' + one.name.replace('"', '""') + '"' for one in t.children]
        return f"STRUCT({', '.join(map(' '.join, zip(names, parts, strict=True)))})"
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root in TIMESTAMPS and (t.precision or 0) > 6:
        raise InvalidRequestError(f"{t}: computing with nanoseconds is not supported")
    if t.root == "TIME":
        return "TIME"
    if t.root in TIMESTAMPS:
        return "TIMESTAMPTZ" if t.root == "TIMESTAMP_LTZ" else "TIMESTAMP"
    return NAMES.get(t.root, t.root)


def as_type(text: str, t: DataType) -> str:
    """Return SQL of a value with its type said."""
    return f"CAST({text} AS {type_name(t)})"


def condition_text(expression: Expression) -> str:
    """Return the condition of WHERE or HAVING, where NULL drops a row as FALSE does.

    A part that may fail is evaluated only for rows that the parts before it keep, as Spark does. The other parts are
    said by themselves, too, because DuckDB finds no join in a CASE.
    """
    parts = [(duckdb_text(one), may_fail(one)) for one in conjuncts(expression)]
    last = max((i for i, (_, fails) in enumerate(parts) if fails), default=0)
    if not last:
        return duckdb_text(expression)
    guards = " ".join(f"WHEN {text} IS NOT TRUE THEN FALSE" for text, _ in parts[:last])
    plain = "".join(f"{text} AND " for text, fails in parts if not fails)
    return f"({plain}(CASE {guards} ELSE {parts[last][0]} END))"


def join_text(expression: Expression) -> str:
    """Return the condition of ON. Values that are to be equal are said by themselves, as DuckDB joins by them."""
    parts = conjuncts(expression)
    equal = [one for one in parts if isinstance(one, Compare) and one.operator == "=" and not may_fail(one)]
    rest = tuple(one for one in parts if one not in equal)
    others = [duckdb_text(And(rest))] if rest else []
    return " AND ".join([*map(duckdb_text, equal), *others])


def grouped(expression: Expression) -> Expression:
    """Return a value by which rows are grouped. Spark has one zero there, 0.0, and DuckDB that of any row."""
    if expression.type.root not in FLOATS:
        return expression
    return Column(f"({duckdb_text(expression)} + CAST(0 AS {expression.type.root}))", expression.type)


def _one_after_the_other(operands: tuple[Expression, ...], word: str) -> str:
    """Return AND or OR. A part that may fail is evaluated only where those before it do not decide.

    DuckDB evaluates the parts of an AND in an order of its own, but those of a CASE one after the other.
    """
    texts = list(map(duckdb_text, operands))
    every = f"({f' {word} '.join(texts)})"
    if not any(map(may_fail, operands[1:])):
        return every
    decided = "WHEN NOT {} THEN FALSE" if word == "AND" else "WHEN {} THEN TRUE"
    return f"(CASE {' '.join(map(decided.format, texts[:-1]))} ELSE {every} END)"


def _cast(operand: str, found: DataType, t: DataType) -> str:
    if found.root == "DECIMAL" and t.root in FLOATS:
        operand = f"CAST({operand} AS VARCHAR)"  # a direct cast need not give the nearest double
    elif found.root in (*FLOATS, "DECIMAL") and t.root in INTEGER_BITS:
        operand = f"trunc({operand})"
    if (found.root, t.root) == ("DOUBLE", "FLOAT"):  # DuckDB fails where there is no float so large
        infinite = as_type(f"CASE WHEN {operand} > 0 THEN 'inf' ELSE '-inf' END", t)
        is_larger = f"isfinite({operand}) AND abs({operand}) >= {LARGER_THAN_FLOATS}"
        return f"(CASE WHEN {is_larger} THEN {infinite} ELSE {as_type(operand, t)} END)"
    return as_type(operand, t)


def _call(call: Call, given: list[str]) -> str:
    match call.function:
        case "add" | "subtract" | "multiply":
            return as_type(f"{_wide(call, given[0])} {ARITHMETIC[call.function]} {given[1]}", call.type)
        case "divide" | "remainder" | "div":
            return as_type(f"{given[0]} {DIVISIONS[call.function]} {_divisor(call, given)}", call.type)
        case "date_add":
            return as_type(f"{given[0]} + {as_type(given[1], INT)}", call.type)
        case "negate":
            return as_type(f"-({given[0]})", call.type)
        case "case":
            return case_text(given)
        case "lower" | "upper":
            own, ours = (f"{name}({given[0]})" for name in (call.function, LETTER_CASE[call.function]))
            is_ascii = f"strlen({given[0]}) = length({given[0]})"  # DuckDB's own functions are faster
            return f"(CASE WHEN {is_ascii} THEN {own} ELSE {ours} END)"
        case "concat":
            return f"({' || '.join(given)})"
        case "length":
            is_binary = call.arguments[0].type == BYTES
            return as_type(f"{'octet_length' if is_binary else 'length'}({given[0]})", call.type)
        case "substring":
            return _substring(
                given[0], *(part.value for part in call.arguments[1:] if isinstance(part, Literal))
            )
        case "trim" | "ltrim" | "rtrim":
            return f"{call.function}({given[0]}, ' ')"
        case "rlike":
            return f"regexp_matches({given[0]}, {_text(re2_pattern(call))})"
        case "round":
            return as_type(f"round({given[0]}, {call.type.scale})", call.type)
        case "datediff":
            return as_type(f"{given[0]} - {given[1]}", call.type)
        case "dayofweek":
            return as_type(f"dayofweek({given[0]}) + 1", call.type)
        case "year" | "quarter" | "month" | "weekofyear" | "day" | "dayofyear" | "hour" | "minute" | "second":
            return as_type(f"{PARTS.get(call.function, call.function)}({given[0]})", call.type)
        case "abs" | "floor" | "ceil":
            return as_type(f"{call.function}({given[0]})", call.type)
        case "replace" | "greatest" | "least" | "coalesce":
            return f"{call.function}({', '.join(given)})"
        case _:
            assert_never(call.function)


def _wide(call: Call, operand: str) -> str:
    """Return the first operand of arithmetic in the widest decimal, as DuckDB computes in the one of the operands."""
    scale = call.arguments[0].type.scale or 0
    return operand if call.type.root != "DECIMAL" else f"CAST({operand} AS DECIMAL({MOST_DIGITS}, {scale}))"


FAILS: Final = "error('division by zero')"
"""A call that fails. DuckDB has no rows ordered or divided by one in a window."""


def _divisor(call: Call, given: list[str]) -> str:
    """Return the divisor, which fails if it is zero, unless the dividend is NULL."""
    (value, by), written = given, call.arguments[1]
    if isinstance(written, Literal) and written.value:
        return by
    return f"(CASE WHEN {by} = 0 AND {value} IS NOT NULL THEN {FAILS} ELSE {by} END)"


def _substring(text: str, start: Any, length: Any = None) -> str:
    """Return characters from ``start`` on, counted from 1, or from the end if negative; 0 means 1."""
    if start > 0 or (start == 0 and length is None):
        rest = "" if length is None else f", {max(length, 0)}"
        return f"substring({text}, {max(start, 1)}{rest})"
    if start == 0:
        return f"substring({text}, 1, {max(length, 0)})"
    begin = f"greatest(length({text}) + ({start}), 0)"
    if length is None:
        return f"substring({text}, {begin} + 1)"
    end = f"greatest(length({text}) + ({start + max(length, 0)}), 0)"
    return f"substring({text}, {begin} + 1, {end} - {begin})"


def _text(value: str) -> str:
    if "\0" in value:
        raise InvalidRequestError("a text with the character NUL is not supported")
    return "'" + value.replace("'", "''") + "'"


def _literal(value: Value, t: DataType) -> str:
    if value is None:
        return as_type("NULL", t) if t.root != "NULL" else "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, (float, Decimal)):
        return as_type(f"'{value}'", t)
    if t.root == "DATE":
        return f"DATE '{date_text(value)}'"
    if t.root == "TIME":
        return f"TIME '{clock_text(value)}'"
    if t.root in TIMESTAMPS:
        zone = "Z" if t.root == "TIMESTAMP_LTZ" else ""
        return as_type(f"'{time_text(value)}{zone}'", t)
    return as_type(str(value), t)
