"""Find the common type of two values, the type of an arithmetic result, and the casts that are supported.

The rules are those of Spark's ANSI mode, with one difference. A literal takes the type of the other operand if it has
the same value in that type. This changes no result, and ``id = 5.0`` compares integers and can still prune.
Types have no common type if the comparison would be ambiguous or would depend on the time zone of a session.

Clauses: RD-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pktable.format.types import FLOATS, INTEGER_BITS, NUMBERS, TIMESTAMPS, DataType
from pktable.predicate.literals import MOST_DIGITS, as_spelled, decimal_type, literal_as
from pktable.predicate.tree import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    NULL,
    Arithmetic,
    Cast,
    Expression,
    Literal,
    assert_never,
)

SPARK_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
"""Digits of the decimal that Spark converts an integer to."""

CASTS: Final = {
    **{root: {*INTEGER_BITS, "DECIMAL", "FLOAT", "DOUBLE", "STRING", "BOOLEAN"} for root in INTEGER_BITS},
    "DECIMAL": {*INTEGER_BITS, "DECIMAL", "DOUBLE"},
    "FLOAT": {*INTEGER_BITS, "FLOAT", "DOUBLE"},
    "DOUBLE": {*INTEGER_BITS, "FLOAT", "DOUBLE"},
    "BOOLEAN": {*INTEGER_BITS, "STRING"},
    "DATE": {"TIMESTAMP", "STRING"},
    "TIMESTAMP": {"TIMESTAMP", "DATE"},
    "TIMESTAMP_LTZ": {"TIMESTAMP_LTZ"},
}
"""The casts whose result is the same in Arrow and in Spark, whatever the settings of the session."""


def as_decimal(t: DataType) -> DataType:
    """Return the decimal type that holds every value of an exact number type."""
    return t if t.root == "DECIMAL" else decimal_type(SPARK_DIGITS[t.root], 0)


def common(a: DataType, b: DataType) -> DataType | None:
    """Return the type in which values of both types are compared, None if they cannot be compared."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if {a.root, b.root} <= NUMBERS:
        return _common_number(a, b)
    if a.root in TIMESTAMPS and a.root == b.root:
        return max(a, b, key=lambda t: t.precision or 0)
    if {a.root, b.root} == {"DATE", "TIMESTAMP"}:
        return a if b.root == "DATE" else b
    return None


def _common_number(a: DataType, b: DataType) -> DataType | None:
    if a.root in FLOATS or b.root in FLOATS:
        return DOUBLE
    if a.root in INTEGER_BITS and b.root in INTEGER_BITS:
        return max(a, b, key=lambda t: INTEGER_BITS[t.root])
    (p1, s1), (p2, s2) = digits(a), digits(b)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return decimal_type(precision, scale) if precision <= MOST_DIGITS else None


def digits(t: DataType) -> tuple[int, int]:
    """Return precision and scale of an exact number type."""
    exact = as_decimal(t)
    assert exact.precision is not None
    assert exact.scale is not None
    return exact.precision, exact.scale


def unify(expressions: Sequence[Expression]) -> list[Expression] | None:
    """Return ``expressions`` converted to one type, None if they have no common type."""
    others = [one for one in expressions if not isinstance(one, Literal)]
    target = _common_of([one.type for one in others or expressions])
    if target is None:
        return None
    spelled = [as_spelled(one, target) if isinstance(one, Literal) else one for one in expressions]
    for one in spelled:
        if isinstance(one, Literal) and target is not None and literal_as(one, target) is None:
            target = common(target, one.type)
    if target is None:
        return None
    found = [converted(one, BOOLEAN if target == NULL else target) for one in spelled]
    return [one for one in found if one is not None] if None not in found else None


def _common_of(types: Sequence[DataType]) -> DataType | None:
    target: DataType | None = types[0]
    for t in types[1:]:
        target = common(target, t) if target is not None else None
    return target


def converted(expression: Expression, t: DataType) -> Expression | None:
    """Return ``expression`` converted to type ``t``, None if that is not supported."""
    if expression.type == t:
        return expression
    literal = literal_as(expression, t) if isinstance(expression, Literal) else None
    if literal is not None:
        return literal
    return Cast(expression, t) if t.root in CASTS.get(expression.type.root, ()) else None


def arithmetic_type(function: Arithmetic, a: DataType, b: DataType) -> DataType | None:
    """Return the type of a sum, difference, product, quotient or remainder, None if it is not supported.

    Quotients of decimals, and remainders of anything but integers, are not supported: Spark rounds them by rules
    of its own.
    """
    if not {a.root, b.root} <= NUMBERS:
        return None
    integers = a.root in INTEGER_BITS and b.root in INTEGER_BITS
    floating = a.root in FLOATS or b.root in FLOATS
    match function:
        case "remainder":
            return common(a, b) if integers else None
        case "divide":
            return DOUBLE if integers or floating else None
        case "add" | "subtract" | "multiply":
            if integers:
                return common(a, b)
            if floating:
                return FLOAT if a == b == FLOAT else DOUBLE
            return _decimal_result(function, a, b)
        case _:
            assert_never(function)


def _decimal_result(function: Arithmetic, a: DataType, b: DataType) -> DataType | None:
    """Return the type of a sum, difference or product of decimals, None if it would have too many digits."""
    (p1, s1), (p2, s2) = digits(a), digits(b)
    if function == "multiply":
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    return decimal_type(precision, scale) if precision <= MOST_DIGITS else None
