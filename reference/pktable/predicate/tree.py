"""The typed tree of a condition.

Both sides of a comparison have one type: where the text left a conversion to SQL, a `Cast` or a converted
literal makes it. Literals are the internal values of `pktable.format.types`, None for NULL.

Clauses: RD-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from pktable.format.types import DataType, Value

BOOLEAN: Final = DataType("BOOLEAN")
INT: Final = DataType("INT")
BIGINT: Final = DataType("BIGINT")
FLOAT: Final = DataType("FLOAT")
DOUBLE: Final = DataType("DOUBLE")
STRING: Final = DataType("STRING")
BYTES: Final = DataType("BYTES")
DATE: Final = DataType("DATE")
NULL: Final = DataType("NULL")  # of a NULL before anything gives it a type

INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
ARITHMETIC: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%"}


class Wildcard(Enum):
    """What stands for other text in a LIKE pattern."""

    ONE = "_"
    ANY = "%"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values: one of `ARITHMETIC`, negate, concat, or its SQL name in small letters."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Compare:
    """Two values of one type; ``operator``: one of = <> < <= > >= <=>."""

    operator: str
    left: Expression
    right: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """Whether the value is one of ``values``, which have its type; if not and ``has_null``, NULL."""

    operand: Expression
    values: tuple[Value, ...]
    has_null: bool
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """Whether the whole string is the parts of ``pattern`` one after the other."""

    operand: Expression
    pattern: tuple[str | Wildcard, ...]
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expression, ...]
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expression, ...]
    type: DataType = BOOLEAN


Expression: TypeAlias = Column | Literal | Cast | Call | Compare | In | IsNull | Like | Not | And | Or


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts of an expression, left to right."""
    if isinstance(expression, (And, Or)):
        return expression.operands
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Compare):
        return expression.left, expression.right
    if isinstance(expression, (Column, Literal)):
        return ()
    return (expression.operand,)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all parts of it, left to right."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that must all hold for ``expression`` to hold."""
    return expression.operands if isinstance(expression, And) else (expression,)
