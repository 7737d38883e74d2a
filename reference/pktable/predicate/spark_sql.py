"""The condition as text for Spark: every coercion and parenthesis written out, nothing left to interpret.

Clauses: RD-6.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.type_text import quoted
from pktable.format.types import TIMESTAMPS, DataType, Value
from pktable.predicate.literals import MICRO, date_text, time_text
from pktable.predicate.tree import (
    ARITHMETIC,
    STRING,
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
    Wildcard,
)

SUFFIXES: Final = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
SPARK_NAMES: Final = {"BYTES": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ", "NULL": "BOOLEAN"}
PLAIN_TEXT: Final = re.compile(r"[^\\'$]*")
"""Strings that mean the same between quotes in every session. A backslash depends on a setting, a doubled quote on
the version (Spark 4.0 leaves it out), and the value of a variable takes the place of ``${name}``."""


def spark_text(expression: Expression) -> str:
    """Return SQL that Spark evaluates as `pktable.predicate.arrow_eval` does. Raises InvalidRequestError."""
    if isinstance(expression, Column):
        return quoted(expression.name)
    if isinstance(expression, Literal):
        return _literal(expression.value, expression.type)
    if isinstance(expression, Compare):
        return f"({spark_text(expression.left)} {expression.operator} {spark_text(expression.right)})"
    if isinstance(expression, (And, Or)):
        word = " AND " if isinstance(expression, And) else " OR "
        return f"({word.join(map(spark_text, expression.operands))})"
    if isinstance(expression, Call):
        return _call(expression)
    operand = spark_text(expression.operand)
    if isinstance(expression, Not):
        return f"(NOT {operand})"
    if isinstance(expression, IsNull):
        return f"({operand} IS NULL)"
    if isinstance(expression, Like):
        return f"({operand} LIKE {_literal(like_text(expression), STRING)})"
    if isinstance(expression, In):
        kind = expression.operand.type
        values = [_literal(value, kind) for value in expression.values]
        return f"({operand} IN ({', '.join([*values, 'NULL'] if expression.has_null else values)}))"
    assert isinstance(expression, Cast)
    if expression.type.root == expression.operand.type.root and expression.type.root in TIMESTAMPS:
        return operand  # Spark has one unit
    return f"CAST({operand} AS {_type(expression.type)})"


def like_text(like: Like) -> str:
    """Return a pattern as text in which a backslash escapes."""
    return "".join(
        part.value if isinstance(part, Wildcard) else "".join("\\" * (c in "\\%_") + c for c in part)
        for part in like.pattern
    )


def _call(call: Call) -> str:
    arguments = [spark_text(argument) for argument in call.arguments]
    if call.function in ARITHMETIC:
        return f"({arguments[0]} {ARITHMETIC[call.function]} {arguments[1]})"
    if call.function == "negate":
        return f"(- {arguments[0]})"
    return f"{call.function}({', '.join(arguments)})"


def _type(t: DataType) -> str:
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    return SPARK_NAMES.get(t.root, t.root)


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
    if t.root in TIMESTAMPS:
        if value % MICRO:
            raise InvalidRequestError(f"where: Spark holds microseconds, {time_text(value)} has more")
        zone = "Z" if t.root == "TIMESTAMP_LTZ" else ""
        return f"{SPARK_NAMES.get(t.root, t.root)} '{time_text(value)}{zone}'"
    return f"{value}{SUFFIXES[t.root]}"
