"""Translate a condition to SQL text for Spark, with every coercion and every parenthesis written out.

The text does not depend on settings of the session, such as how a string literal escapes characters.

Clauses: RD-6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.type_text import quoted
from pktable.format.types import NESTED, TIMESTAMPS, VARIANT, DataType, Value
from pktable.predicate.literals import MICRO, clock_text, date_text, general, time_text
from pktable.predicate.text_as_java import spark_function
from pktable.predicate.tree import (
    STRING,
    And,
    Arithmetic,
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
    Wildcard,
    assert_never,
)

ARITHMETIC: Final[dict[Arithmetic, str]] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
}
SUFFIXES: Final = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
SPARK_NAMES: Final = {"BYTES": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ", "NULL": "BOOLEAN", "ROW": "STRUCT"}
PLAIN_TEXT: Final = re.compile(r"[^\\'$]*")
"""Strings that mean the same between quotes in every session. A backslash depends on a setting, a doubled quote on
the version (Spark 4.0 leaves it out), and the value of a variable takes the place of ``${name}``."""


VARIABLE: Final = "${"
"""The beginning of what Spark takes for a variable, also in a quoted name, where nothing can escape it."""


def spark_text(expression: Expression) -> str:
    """Return SQL that Spark evaluates as `pktable.predicate.arrow_eval` does. Raises InvalidRequestError."""
    match expression:
        case Column():
            return quoted(expression.name)
        case Literal():
            return _literal(expression.value, expression.type)
        case Cast():
            return _cast(expression)
        case Call():
            return _call(expression)
        case Compare():
            return f"({spark_text(expression.left)} {expression.operator} {spark_text(expression.right)})"
        case In():
            return in_text(expression, spark_text(expression.operand), _literal)
        case IsNull():
            return f"({spark_text(expression.operand)} IS NULL)"
        case Like():
            return f"({spark_text(expression.operand)} LIKE {_literal(like_text(expression), STRING)})"
        case Not():
            return f"(NOT {spark_text(expression.operand)})"
        case And():
            return f"({' AND '.join(map(spark_text, expression.operands))})"
        case Or():
            return f"({' OR '.join(map(spark_text, expression.operands))})"
        case _:
            assert_never(expression)


def like_text(like: Like) -> str:
    """Return a pattern as text in which a backslash escapes."""
    return "".join(
        part.value if isinstance(part, Wildcard) else "".join("\\" * (c in "\\%_") + c for c in part)
        for part in like.pattern
    )


def in_text(test: In, operand: str, literal: Callable[[Value, DataType], str]) -> str:
    """Return an IN as SQL. ``literal``: writes a value of a type."""
    values = [literal(value, test.operand.type) for value in test.values]
    options = [*values, "NULL"] if test.has_null else values
    return f"({operand} IN ({', '.join(options)}))"


def case_text(arguments: Sequence[str]) -> str:
    """Return a CASE as SQL. ``arguments``: conditions, each with its value after it, and the value of ELSE."""
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    chosen = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"(CASE {chosen} ELSE {arguments[-1]} END)"


def _cast(cast: Cast) -> str:
    operand = spark_text(cast.operand)
    if cast.type.root == cast.operand.type.root and cast.type.root in TIMESTAMPS:
        return operand  # Spark's timestamps all have one unit
    return f"CAST({operand} AS {_type(cast.type)})"


def _call(call: Call) -> str:
    arguments = [spark_text(argument) for argument in call.arguments]
    match call.function:
        case "add" | "subtract" | "multiply" | "divide" | "remainder":
            return f"({arguments[0]} {ARITHMETIC[call.function]} {arguments[1]})"
        case "negate":
            return f"(- {arguments[0]})"
        case "lower" | "upper":
            return spark_function(call.function, arguments[0])
        case "case":
            return case_text(arguments)
        case "div":
            return f"({arguments[0]} div {arguments[1]})"
        case "rlike":
            return f"({arguments[0]} RLIKE {arguments[1]})"
        case "round":
            return f"round({arguments[0]}, {call.type.scale})"
        case (
            (
                "abs"
                | "coalesce"
                | "concat"
                | "length"
                | "substring"
                | "datediff"
                | "date_add"
                | "floor"
                | "ceil"
                | "replace"
            )
            | ("greatest" | "least" | "trim" | "ltrim" | "rtrim" | "hour" | "minute" | "second")
            | ("year" | "quarter" | "month" | "weekofyear" | "day" | "dayofweek" | "dayofyear")
        ):
            return f"{call.function}({', '.join(arguments)})"
        case _:
            assert_never(call.function)


def _type(t: DataType) -> str:
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.variant:
        return VARIANT
    if t.root not in NESTED:
        return SPARK_NAMES.get(t.root, t.root)
    inner = [_type(general(child.type)) for child in t.children]
    if t.root == "ROW":
        inner = [f"{quoted(child.name)}: {kind}" for child, kind in zip(t.children, inner, strict=True)]
    return f"{SPARK_NAMES.get(t.root, t.root)}<{', '.join(inner)}>"


def _literal(value: Value, t: DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {_type(t)})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if PLAIN_TEXT.fullmatch(value):
            return f"'{value}'"
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, (float, Decimal)):
        return f"CAST('{value}' AS {_type(t)})"
    if t.root == "DATE":
        return f"DATE '{date_text(value)}'"
    if t.root == "TIME":
        return f"TIME '{clock_text(value)}'"
    if t.root in TIMESTAMPS:
        if value % MICRO:
            raise InvalidRequestError(
                f"where: {time_text(value)} is finer than a microsecond, which Spark cannot represent"
            )
        zone = "Z" if t.root == "TIMESTAMP_LTZ" else ""
        return f"{SPARK_NAMES.get(t.root, t.root)} '{time_text(value)}{zone}'"
    return f"{value}{SUFFIXES[t.root]}"
