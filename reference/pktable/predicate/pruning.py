"""The condition over metadata: what cannot match any row of a file, bucket or partition is skipped.

Conservative: every answer but "cannot match" may be wrong by being too wide. Of a column its range is
known, of an expression the set of the three values it may take. NaN lies in no range, so floats have no
upper bound here.

Clauses: RD-8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Final

from pktable.format.types import FLOATS, TIMESTAMPS, DataType, Value
from pktable.predicate.literals import DAY
from pktable.predicate.tree import (
    INTEGER_BITS,
    And,
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

TRUE, FALSE, UNKNOWN = True, False, None
Outcomes = frozenset[bool | None]
ANYTHING: Final[Outcomes] = frozenset({TRUE, FALSE, UNKNOWN})
MOST_TUPLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What is known of a column: bounds of its present values and its counts, None where unknown."""

    min: Value
    max: Value
    null_count: int | None = None
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a value where it is present, None for none; whether it may be null, and whether present."""

    low: Any = None
    high: Any = None
    nullable: bool = True
    present: bool = True

    def may_equal(self, other: Range) -> bool:
        reach = _reaches(self.low, other.high, False) and _reaches(other.low, self.high, False)
        return self.present and other.present and reach

    @property
    def single(self) -> bool:
        return self.low is not None and self.low == self.high


def may_hold(root: Expression, ranges: Mapping[str, ColumnRange]) -> bool:
    """Whether a row within ``ranges`` may satisfy ``root``; columns without a range may hold anything."""
    return TRUE in _outcomes(root, ranges)


def _outcomes(root: Expression, ranges: Mapping[str, ColumnRange]) -> Outcomes:
    if isinstance(root, (And, Or)):
        decisive = isinstance(root, Or)
        outcomes: Outcomes = frozenset({not decisive})
        for operand in root.operands:
            pairs = product(outcomes, _outcomes(operand, ranges))
            outcomes = frozenset(_combined(a, b, decisive) for a, b in pairs)
        return outcomes
    if isinstance(root, Not):
        return frozenset(UNKNOWN if one is None else not one for one in _outcomes(root.operand, ranges))
    if isinstance(root, IsNull):
        value = _range(root.operand, ranges)
        return _possible(value.nullable, value.present, False)
    if isinstance(root, Compare):
        return _compared(root.operator, _range(root.left, ranges), _range(root.right, ranges))
    if isinstance(root, In):
        value = _range(root.operand, ranges)
        options = [_range(Literal(option, root.operand.type), ranges) for option in root.values]
        found = any(value.may_equal(option) for option in options)
        return _possible(found, value.present and not root.has_null, value.nullable or root.has_null)
    if isinstance(root, Like):
        value = _range(root.operand, ranges)
        return _possible(_may_start(value, root), value.present, value.nullable)
    if isinstance(root, (Column, Literal)):
        value = _range(root, ranges)
        may = value.high is not False, value.low is not True
        return _possible(value.present and may[0], value.present and may[1], value.nullable)
    return ANYTHING


def _combined(a: bool | None, b: bool | None, decisive: bool) -> bool | None:
    """Return ``a OR b`` if true is decisive, ``a AND b`` if false is."""
    if decisive in (a, b):
        return decisive
    return UNKNOWN if None in (a, b) else not decisive


def _possible(true: bool, false: bool, unknown: bool) -> Outcomes:
    return frozenset(value for value, may in ((TRUE, true), (FALSE, false), (UNKNOWN, unknown)) if may)


def _compared(operator: str, left: Range, right: Range) -> Outcomes:
    if operator in (">", ">="):
        return _compared("<" if operator == ">" else "<=", right, left)
    both = left.present and right.present
    same = both and left.single and right.single and left.low == right.low
    null = left.nullable or right.nullable
    equal = left.may_equal(right)
    if operator == "=":
        return _possible(equal, both and not same, null)
    if operator == "<>":
        return _possible(both and not same, equal, null)
    if operator == "<=>":
        return _possible(equal or (left.nullable and right.nullable), null or (both and not same), False)
    strict = operator == "<"
    may = _reaches(left.low, right.high, strict), _reaches(right.low, left.high, not strict)
    return _possible(both and may[0], both and may[1], null)


def _reaches(low: Any, high: Any, strict: bool) -> bool:
    """Whether a value from ``low`` up may be less than one up to ``high``, or, unless ``strict``, equal."""
    return low is None or high is None or bool(low < high if strict else low <= high)


def _may_start(operand: Range, like: Like) -> bool:
    """Whether a string within bounds may begin as the pattern does."""
    first = like.pattern[0] if like.pattern else ""
    if isinstance(first, Wildcard):
        return operand.present
    beginning = Range(first, None if len(like.pattern) > 1 else first, nullable=False)
    low = operand.low if operand.low is None else operand.low[: len(first)]
    return beginning.may_equal(Range(low, operand.high, present=operand.present))


def _range(root: Expression, ranges: Mapping[str, ColumnRange]) -> Range:
    if isinstance(root, Literal):
        null = root.value is None
        return _of(root.value, root.value, nullable=null, present=not null)
    if isinstance(root, Column) and root.name in ranges:
        known = ranges[root.name]
        present = known.null_count is None or known.row_count is None or known.null_count < known.row_count
        high = None if root.type.root in FLOATS else known.max
        return _of(known.min, high, nullable=known.null_count != 0, present=present)
    if isinstance(root, Cast):
        operand = _range(root.operand, ranges)
        low, high = (_cast(bound, root.operand.type, root.type) for bound in (operand.low, operand.high))
        return Range(low, high, operand.nullable, operand.present)
    return Range()


def _of(low: Value, high: Value, *, nullable: bool, present: bool) -> Range:
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        low = high = None
    return Range(low, high, nullable, present)


def _cast(bound: Any, found: DataType, t: DataType) -> Any:
    """Return what a cast that keeps order makes of a bound, None if it may not keep it."""
    if bound is None:
        return None
    if t.root == "DOUBLE":
        return float(bound)
    if found.root == "DATE" and t.root == "TIMESTAMP":
        return bound * DAY
    if t.root == "DECIMAL":
        return bound if found.root in INTEGER_BITS or (found.scale or 0) <= (t.scale or 0) else None
    if found.root in INTEGER_BITS and t.root in INTEGER_BITS:
        return bound if INTEGER_BITS[t.root] >= INTEGER_BITS[found.root] else None
    return bound if t.root in TIMESTAMPS and (t.precision or 0) >= (found.precision or 0) else None


# Which keys there can be


def pinned(root: Expression, names: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Return the values that columns ``names`` can have together where ``root`` holds, None if too many."""
    values = _pinned(root)
    if any(name not in values for name in names):
        return None
    if math.prod(len(values[name]) for name in names) > MOST_TUPLES:
        return None
    return list(product(*(values[name] for name in names)))


def _pinned(root: Expression) -> dict[str, list[Value]]:
    """Return the values that ``root`` allows, of the columns that it allows finitely many.

    Floats are left out: the two zeros are equal, and lie in different buckets.
    """
    if isinstance(root, Compare) and root.operator in ("=", "<=>"):
        for column, literal in ((root.left, root.right), (root.right, root.left)):
            if isinstance(column, Column) and isinstance(literal, Literal) and column.type.root not in FLOATS:
                if literal.value is None and root.operator == "<=>":
                    return {}
                return {column.name: [] if literal.value is None else [literal.value]}
    if isinstance(root, In) and isinstance(root.operand, Column) and root.operand.type.root not in FLOATS:
        return {root.operand.name: list(root.values)}
    if isinstance(root, (And, Or)):
        return reduce(_both if isinstance(root, And) else _either, map(_pinned, root.operands))
    return {}


def _both(a: dict[str, list[Value]], b: dict[str, list[Value]]) -> dict[str, list[Value]]:
    return {**a, **{name: [v for v in values if v in a.get(name, values)] for name, values in b.items()}}


def _either(a: dict[str, list[Value]], b: dict[str, list[Value]]) -> dict[str, list[Value]]:
    return {name: list(dict.fromkeys([*values, *b[name]])) for name, values in a.items() if name in b}
