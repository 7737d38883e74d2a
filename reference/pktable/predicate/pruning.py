"""Evaluate a condition over column ranges, so that files, buckets and partitions without a matching row are skipped.

The answer is conservative: "cannot match" is always right, "may match" may be wrong. A value is described by its
range, a condition by the set of the three truth values it may take. NaN lies outside every range and is greater
than every number, so floats have no upper bound here.

Clauses: RD-8, RD-16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Final

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

TRUE, FALSE, UNKNOWN = True, False, None
Outcomes = frozenset[bool | None]
ANYTHING: Final[Outcomes] = frozenset({TRUE, FALSE, UNKNOWN})
MOST_TUPLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Known facts of a column: bounds of its values that are not null, and counts of rows; None where unknown."""

    min: Value
    max: Value
    null_count: int | None = None
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a value that is not null (None: no bound), whether it may be null, and whether it may be present."""

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
    """Return whether a row within ``ranges`` may satisfy ``root``; a column without a range may hold anything."""
    return TRUE in _outcomes(root, ranges)


def _outcomes(root: Expression, ranges: Mapping[str, ColumnRange]) -> Outcomes:
    """Return the truth values that ``root`` may have for a row within ``ranges``."""
    match root:
        case And() | Or():
            return _joined(root, ranges)
        case Not():
            return frozenset(UNKNOWN if one is None else not one for one in _outcomes(root.operand, ranges))
        case IsNull():
            value = _range(root.operand, ranges)
            return _possible(value.nullable, value.present, False)
        case Compare():
            return _compared(root.operator, _range(root.left, ranges), _range(root.right, ranges))
        case In():
            value = _range(root.operand, ranges)
            options = [_range(Literal(option, root.operand.type), ranges) for option in root.values]
            found = any(value.may_equal(option) for option in options)
            return _possible(found, value.present and not root.has_null, value.nullable or root.has_null)
        case Like():
            value = _range(root.operand, ranges)
            return _possible(_may_start(value, root), value.present, value.nullable)
        case Column() | Literal():
            value = _range(root, ranges)
            may = value.high is not False, value.low is not True
            return _possible(value.present and may[0], value.present and may[1], value.nullable)
        case Cast() | Call():
            return ANYTHING
        case _:
            assert_never(root)


def _joined(root: And | Or, ranges: Mapping[str, ColumnRange]) -> Outcomes:
    """Return the truth values that a conjunction or disjunction may have, whatever its operands have in common."""
    decisive = isinstance(root, Or)
    outcomes: Outcomes = frozenset({not decisive})
    for operand in root.operands:
        pairs = product(outcomes, _outcomes(operand, ranges))
        outcomes = frozenset(_combined(a, b, decisive) for a, b in pairs)
    return outcomes


def _combined(a: bool | None, b: bool | None, decisive: bool) -> bool | None:
    """Return ``a OR b`` if true is decisive, ``a AND b`` if false is."""
    if decisive in (a, b):
        return decisive
    return UNKNOWN if None in (a, b) else not decisive


def _possible(true: bool, false: bool, unknown: bool) -> Outcomes:
    return frozenset(value for value, may in ((TRUE, true), (FALSE, false), (UNKNOWN, unknown)) if may)


def _compared(operator: Operator, left: Range, right: Range) -> Outcomes:
    both = left.present and right.present
    same = both and left.single and right.single and left.low == right.low
    null = left.nullable or right.nullable
    equal = left.may_equal(right)
    match operator:
        case "=":
            return _possible(equal, both and not same, null)
        case "<>":
            return _possible(both and not same, equal, null)
        case "<=>":
            both_null = left.nullable and right.nullable
            return _possible(equal or both_null, null or (both and not same), False)
        case "<" | "<=":
            strict = operator == "<"
            may = _reaches(left.low, right.high, strict), _reaches(right.low, left.high, not strict)
            return _possible(both and may[0], both and may[1], null)
        case ">":
            return _compared("<", right, left)
        case ">=":
            return _compared("<=", right, left)
        case _:
            assert_never(operator)


def _reaches(low: Any, high: Any, strict: bool) -> bool:
    """Return whether a value of at least ``low`` may be less than one of at most ``high``.

    ``strict``: whether being equal does not suffice.
    """
    return low is None or high is None or bool(low < high if strict else low <= high)


def _may_start(operand: Range, like: Like) -> bool:
    """Return whether a string within the bounds may begin as the pattern does."""
    first = like.pattern[0] if like.pattern else ""
    if isinstance(first, Wildcard):
        return operand.present
    # Of values that begin as the pattern does, the beginning is within the beginnings of the bounds.
    beginning = Range(first, first, nullable=False)
    low = operand.low if operand.low is None else operand.low[: len(first)]
    return beginning.may_equal(Range(low, operand.high, present=operand.present))


def _range(root: Expression, ranges: Mapping[str, ColumnRange]) -> Range:
    """Return the range of ``root`` for a row within ``ranges``."""
    match root:
        case Literal():
            null = root.value is None
            return _bounded(root.value, root.value, nullable=null, present=not null)
        case Column():
            return _of_column(root, ranges[root.name]) if root.name in ranges else Range()
        case Cast():
            operand = _range(root.operand, ranges)
            low, high = (_cast(end, root.operand.type, root.type) for end in (operand.low, operand.high))
            return Range(low, high, operand.nullable, operand.present)
        case Call() | Compare() | In() | IsNull() | Like() | Not() | And() | Or():
            return Range()
        case _:
            assert_never(root)


def _of_column(column: Column, known: ColumnRange) -> Range:
    present = known.null_count is None or known.row_count is None or known.null_count < known.row_count
    high = None if column.type.root in FLOATS else known.max
    return _bounded(known.min, high, nullable=known.null_count != 0, present=present)


def _bounded(low: Value, high: Value, *, nullable: bool, present: bool) -> Range:
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        low = high = None
    return Range(low, high, nullable, present)


def _cast(bound: Any, found: DataType, t: DataType) -> Any:
    """Return a bound after a cast that keeps the order of values, None if the cast may not keep it."""
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
