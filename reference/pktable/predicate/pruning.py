"""Evaluate a condition over a table of bounds, so that files, row groups, pages and partitions without a matching row
are skipped.

The table has a row for each of n places (a file, a page) and `Bounds` for each column that something is known of. All
places are asked at once, by numpy. The answer is conservative: "cannot match" is always right, "may match" may be
wrong. NaN lies outside all bounds and is greater than every number, so floats have no upper bound here.

Clauses: RD-8, RD-16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pktable.format.types import FLOATS, INTEGER_BITS, TIMESTAMPS, DataType, Value
from pktable.predicate.literals import DAY
from pktable.predicate.tree import (
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
    Operator,
    Or,
    Wildcard,
    assert_never,
)

Flags = npt.NDArray[np.bool_]
End = tuple[npt.NDArray[Any], Flags]
"""The lower or the upper bounds of n values, and which of them are known; the others may be anything."""

MOST_TUPLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a value in each of n places, or in all places alike if its arrays have one element.

    ``low``, ``high``: bounds of the values that are not null. ``nullable``: whether a value may be null; ``present``:
    whether one may be not null.
    """

    low: End
    high: End
    nullable: Flags
    present: Flags

    def take(self, places: npt.NDArray[np.int64]) -> Bounds:
        """Return the bounds in ``places``, which may name a place several times."""
        low, high = ((values[places], known[places]) for values, known in (self.low, self.high))
        return Bounds(low, high, self.nullable[places], self.present[places])

    def or_else(self, other: Bounds) -> Bounds:
        """Return these bounds, and where an end is not known that of ``other``."""
        low, high = (
            (np.where(known, values, others), known | more)
            for (values, known), (others, more) in ((self.low, other.low), (self.high, other.high))
        )
        return Bounds(low, high, self.nullable & other.nullable, self.present & other.present)


ANYTHING: Final = Bounds(
    (np.zeros(1), np.zeros(1, bool)), (np.zeros(1), np.zeros(1, bool)), np.ones(1, bool), np.ones(1, bool)
)
NEGATED: Final[dict[Operator, Operator]] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def may_be(root: Expression, table: Mapping[str, Bounds], wanted: bool) -> Flags:
    """Return in which places a row may have ``root`` true, or false if that is ``wanted``.

    One element stands for all places. A column that ``table`` does not have may hold anything. Clauses: RD-8, RD-16.
    """
    match root:
        case And() | Or():
            parts = [may_be(operand, table, wanted) for operand in root.operands]
            return reduce(np.logical_and if isinstance(root, And) == wanted else np.logical_or, parts)
        case Not():
            return may_be(root.operand, table, not wanted)
        case IsNull():
            value = _bounds(root.operand, table)
            return value.nullable if wanted else value.present
        case Compare(operator, left, right):
            return _compared(operator, _bounds(left, table), _bounds(right, table), wanted)
        case In():
            value = _bounds(root.operand, table)
            return _among(value, root.values) if wanted else value.present & (not root.has_null)
        case Like():
            value = _bounds(root.operand, table)
            return _begins(value, root) if wanted else value.present
        case Column() | Literal():
            return _compared("=", _bounds(root, table), _constant(wanted), True)
        case Cast() | Call():
            return ANYTHING.present
        case _:
            assert_never(root)


def _compared(operator: Operator, left: Bounds, right: Bounds, wanted: bool) -> Flags:
    both = left.present & right.present
    match operator:
        case "<=>" if wanted:
            return _compared("=", left, right, True) | (left.nullable & right.nullable)
        case "<=>":
            return _compared("<>", left, right, True) | left.nullable | right.nullable
        case _ if not wanted:
            return _compared(NEGATED[operator], left, right, True)
        case "=":
            return (
                both
                & _ordered(np.less_equal, left.low, right.high)
                & _ordered(np.less_equal, right.low, left.high)
            )
        case "<>":
            return both & ~(_single(left) & _single(right) & _ordered(np.equal, left.low, right.low))
        case "<":
            return both & _ordered(np.less, left.low, right.high)
        case "<=":
            return both & _ordered(np.less_equal, left.low, right.high)
        case ">":
            return _compared("<", right, left, True)
        case ">=":
            return _compared("<=", right, left, True)
        case _:
            assert_never(operator)


def _single(value: Bounds) -> Flags:
    """Return where there is only one value that is not null."""
    return value.low[1] & value.high[1] & _ordered(np.equal, value.low, value.high)


def _ordered(compare: np.ufunc, left: End, right: End) -> Flags:
    """Return where ``compare`` holds of two ends; it may hold where one of them is not known."""
    known = left[1] & right[1]
    if known.all():
        every: Flags = compare(left[0], right[0])
        return every
    holds = ~known
    if known.any():
        values = (one if len(one) == 1 else one[known] for one in (left[0], right[0]))
        holds[known] = compare(*values)
    return holds


def _among(value: Bounds, options: Sequence[Value]) -> Flags:
    """Return where a value may be one of ``options``."""
    found = [option for option in options if option is not None]
    ordered = _array(sorted(option for option in found if option == option))
    first = _places(value.low, ordered, "left", 0)
    last = _places(value.high, ordered, "right", len(ordered))
    return value.present & ((first < last) | (len(ordered) < len(found)))  # a NaN among them has no order


def _places(end: End, options: npt.NDArray[Any], side: Any, otherwise: int) -> npt.NDArray[np.int64]:
    values, known = end
    places = np.full(len(known), otherwise)
    if known.any():
        places[known] = np.searchsorted(options, values[known], side=side)
    return places


def _begins(value: Bounds, like: Like) -> Flags:
    """Return where a string may begin as the pattern does."""
    first = like.pattern[0] if like.pattern else ""
    if isinstance(first, Wildcard):
        return value.present
    # Of values that begin as the pattern does, the beginning is within the beginnings of the bounds.
    values, known = value.low
    low = np.array([one[: len(first)] if isinstance(one, str) else None for one in values.tolist()], object)
    return _compared(
        "=", Bounds((low, known), value.high, value.nullable, value.present), _constant(first), True
    )


def _bounds(root: Expression, table: Mapping[str, Bounds]) -> Bounds:
    """Return the bounds of ``root``."""
    match root:
        case Literal():
            return _constant(root.value)
        case Column():
            found = table.get(root.name, ANYTHING)
            if root.type.root not in FLOATS:
                return found
            return Bounds(found.low, ANYTHING.high, found.nullable, found.present)
        case Cast():
            value = _bounds(root.operand, table)
            low, high = (_cast(end, root.operand.type, root.type) for end in (value.low, value.high))
            return Bounds(low, high, value.nullable, value.present)
        case Call() | Compare() | In() | IsNull() | Like() | Not() | And() | Or():
            return ANYTHING
        case _:
            assert_never(root)


def _constant(value: Value) -> Bounds:
    end = _array([value]), np.array([value is not None and value == value])
    return Bounds(end, end, np.array([value is None]), np.array([value is not None]))


def _array(values: list[Any]) -> npt.NDArray[Any]:
    """Return values of one type as an array of numbers if they fit into one, of objects otherwise."""
    kinds = set(map(type, values))
    number = np.int64 if kinds == {int} else np.float64 if kinds == {float} else object
    try:
        return np.array(values, number)
    except OverflowError:  # of a time that no column holds
        return np.array(values, object)


def _cast(end: End, found: DataType, t: DataType) -> End:
    """Return an end after a cast, not known if the cast may not keep the order of values."""
    values, known = end
    to_double, to_time = t.root == "DOUBLE", found.root == "DATE" and t.root == "TIMESTAMP"
    if to_double or to_time:
        made = np.zeros(len(values), np.float64 if to_double else object)
        made[known] = values[known].astype(made.dtype) * (DAY if to_time else 1)
        return made, known
    if t.root == "DECIMAL":
        keeps = found.root in INTEGER_BITS or (found.scale or 0) <= (t.scale or 0)
    elif found.root in INTEGER_BITS and t.root in INTEGER_BITS:
        keeps = INTEGER_BITS[t.root] >= INTEGER_BITS[found.root]
    else:
        keeps = t.root in TIMESTAMPS and (t.precision or 0) >= (found.precision or 0)
    return values, known & keeps


# The keys that a condition allows


def pinned(root: Expression, names: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Return the combinations of values that columns ``names`` can have where ``root`` holds, None if too many."""
    values = _pinned(root)
    if any(name not in values for name in names):
        return None
    if math.prod(len(values[name]) for name in names) > MOST_TUPLES:
        return None
    return list(product(*(values[name] for name in names)))


def _pinned(root: Expression) -> dict[str, list[Value]]:
    """Return, of each column for which ``root`` allows only finitely many values, these values.

    Floats are left out: the two zeros are equal but lie in different buckets.
    """
    match root:
        case Compare("=" | "<=>", Column() as column, Literal() as literal) | Compare(
            "=" | "<=>", Literal() as literal, Column() as column
        ):
            if column.type.root in FLOATS or (literal.value is None and root.operator == "<=>"):
                return {}
            return {column.name: [] if literal.value is None else [literal.value]}
        case In(Column() as column):
            return {} if column.type.root in FLOATS else {column.name: list(root.values)}
        case And():
            return reduce(_both, map(_pinned, root.operands))
        case Or():
            return reduce(_either, map(_pinned, root.operands))
        case Column() | Literal() | Cast() | Call() | Compare() | In() | IsNull() | Like() | Not():
            return {}
        case _:
            assert_never(root)


def _both(a: dict[str, list[Value]], b: dict[str, list[Value]]) -> dict[str, list[Value]]:
    return {**a, **{name: [v for v in values if v in a.get(name, values)] for name, values in b.items()}}


def _either(a: dict[str, list[Value]], b: dict[str, list[Value]]) -> dict[str, list[Value]]:
    return {name: list(dict.fromkeys([*values, *b[name]])) for name, values in a.items() if name in b}
