"""The typed tree of a condition.

Both sides of a comparison have one type: a conversion that the text leaves to SQL is a `Cast` or a converted
literal here. Literals hold the internal values of `pktable.format.types`, None for NULL.

`Expression`, `Function` and `Operator` are closed: whoever translates the tree matches on all of their members
and ends with `assert_never`, so that mypy reports each translator that misses a new one.

Clauses: RD-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NoReturn, TypeAlias
from typing import Literal as OneOf

from pktable.format.types import DataType, Value

BOOLEAN: Final = DataType("BOOLEAN")
INT: Final = DataType("INT")
BIGINT: Final = DataType("BIGINT")
FLOAT: Final = DataType("FLOAT")
DOUBLE: Final = DataType("DOUBLE")
STRING: Final = DataType("STRING")
BYTES: Final = DataType("BYTES")
TIME: Final = DataType("TIME", precision=3)  # of the day; all have milliseconds
NULL: Final = DataType("NULL")  # the type of a NULL that nothing has given a type yet

Arithmetic: TypeAlias = OneOf["add", "subtract", "multiply", "divide", "remainder"]
LetterCase: TypeAlias = OneOf["upper", "lower"]
DatePart: TypeAlias = OneOf["year", "quarter", "month", "weekofyear", "day", "dayofweek", "dayofyear"]
TimePart: TypeAlias = OneOf["hour", "minute", "second"]
Trimming: TypeAlias = OneOf["trim", "ltrim", "rtrim"]
Function: TypeAlias = (
    Arithmetic
    | LetterCase
    | DatePart
    | TimePart
    | Trimming
    | OneOf["negate", "abs", "concat", "length", "substring", "coalesce"]
    | OneOf[
        "case",
        "datediff",
        "floor",
        "ceil",
        "round",
        "replace",
        "greatest",
        "least",
        "rlike",
        "date_add",
        "div",
    ]
)
Ordering: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
Operator: TypeAlias = Ordering | OneOf["<=>"]


class Wildcard(Enum):
    """A character of a LIKE pattern that stands for other text: one character, or any number of them."""

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
    """A function of values."""

    function: Function
    arguments: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Compare:
    """Two values of one type, compared."""

    operator: Operator
    left: Expression
    right: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """Whether the operand is one of ``values``, which have its type; if it is not and ``has_null``, NULL."""

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
    """Whether the whole string matches the parts of ``pattern``, one after the other."""

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


def assert_never(case: NoReturn) -> NoReturn:
    """Fail on a case that no match handles. mypy reports every call that can be reached.

    `typing` has this function since Python 3.11.
    """
    raise AssertionError(f"no case for {case!r}")


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts of an expression, left to right."""
    match expression:
        case Column() | Literal():
            return ()
        case Cast() | In() | IsNull() | Like() | Not():
            return (expression.operand,)
        case Call():
            return expression.arguments
        case Compare():
            return expression.left, expression.right
        case And() | Or():
            return expression.operands
        case _:
            assert_never(expression)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all parts of it, left to right."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def depth(expression: Expression) -> int:
    """Return how deeply the parts of an expression are nested."""
    found, level = 0, [expression]
    while level:
        found, level = found + 1, [part for one in level for part in children(one)]
    return found


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that must all hold for ``expression`` to hold."""
    return expression.operands if isinstance(expression, And) else (expression,)


def rewritten(
    expression: Expression,
    column: Callable[[Column], Expression],
    other: Callable[[Expression], Expression | None] = lambda _: None,
) -> Expression:
    """Return ``expression`` with every column replaced by what ``column`` makes of it.

    ``other``: what to put in place of any other part, None for the part with its own parts rewritten.
    """
    made = None if isinstance(expression, Column) else other(expression)
    if made is not None:
        return made
    match expression:
        case Column():
            return column(expression)
        case Literal():
            return expression
        case Cast() | In() | IsNull() | Like() | Not():
            return replace(expression, operand=rewritten(expression.operand, column, other))
        case Call():
            return replace(
                expression, arguments=tuple(rewritten(part, column, other) for part in expression.arguments)
            )
        case Compare():
            left, right = (rewritten(side, column, other) for side in (expression.left, expression.right))
            return replace(expression, left=left, right=right)
        case And() | Or():
            return replace(
                expression, operands=tuple(rewritten(part, column, other) for part in expression.operands)
            )
        case _:
            assert_never(expression)
