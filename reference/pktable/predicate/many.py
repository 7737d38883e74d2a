"""Evaluate a condition over the column ranges of many files at once, as `pruning` does over those of one.

Numpy evaluates AND and OR of comparisons of a column with a value, IN, LIKE, IS NULL and IS NOT NULL. Any other part
is taken to hold perhaps, and the answer then says that it is not exact: `pruning` asks the files that are left one by
one.

Clauses: RD-8, RD-16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pktable.format.types import FLOATS, Value
from pktable.predicate.tree import (
    And,
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

Flags = npt.NDArray[np.bool_]
MOST_VALUES: Final = 64  # of an IN that are looked at one by one; of more only the smallest and the greatest


@dataclass(frozen=True, slots=True)
class ManyRanges:
    """Known facts of a column in each of n files, as `ColumnRange` for one.

    ``low``, ``high``: n bounds; which of them are known say ``low_known`` and ``high_known``. ``nullable``: whether a
    value may be null; ``present``: whether one may be present. ``known``: whether the facts are all there are to know
    of a file; where it is False the others say that anything is possible.
    """

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    low_known: Flags
    high_known: Flags
    nullable: Flags
    present: Flags
    known: Flags


@dataclass(frozen=True, slots=True)
class Answer:
    """Per file whether a row of it ``may`` satisfy a condition, and whether `pruning` would say the same."""

    may: Flags
    exact: Flags


def which_may_hold(root: Expression, ranges: Mapping[str, ManyRanges], count: int) -> Answer:
    """Return which of ``count`` files may have a row of which ``root`` is true. Clauses: RD-8, RD-16."""
    match root:
        case And():
            return reduce(_both, (which_may_hold(part, ranges, count) for part in root.operands))
        case Or():
            return reduce(_either, (which_may_hold(part, ranges, count) for part in root.operands))
        case Compare(operator, Column() as column, Literal(value)) if column.name in ranges:
            return _compared(operator, ranges[column.name], column, value)
        case Compare(operator, Literal(value), Column() as column) if column.name in ranges:
            return _compared(MIRRORED.get(operator, operator), ranges[column.name], column, value)
        case In(Column() as column) if column.name in ranges and column.type.root not in FLOATS:
            return _among(ranges[column.name], root)
        case Like(Column() as column, pattern) if column.name in ranges and pattern:
            return _begun(ranges[column.name], pattern[0])
        case IsNull(Column() as column) if column.name in ranges:
            return Answer(ranges[column.name].nullable, ranges[column.name].known)
        case Not(IsNull(Column() as column)) if column.name in ranges:
            return Answer(ranges[column.name].present, ranges[column.name].known)
        case _:
            return _anything(count)


MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _anything(count: int) -> Answer:
    return Answer(np.ones(count, bool), np.zeros(count, bool))


def _both(a: Answer, b: Answer) -> Answer:
    # A part that cannot hold decides, whatever is not known of the other.
    return Answer(a.may & b.may, (a.exact & b.exact) | (a.exact & ~a.may) | (b.exact & ~b.may))


def _either(a: Answer, b: Answer) -> Answer:
    return Answer(a.may | b.may, a.exact & b.exact)


def _compared(operator: str, found: ManyRanges, column: Column, value: Value) -> Answer:
    if value is None or operator not in ("=", "<=>", "<", "<=", ">", ">=") or value != value:
        return _anything(len(found.present))
    # NaN is greater than every number and in no bounds, so floats have no upper one.
    bounded = found.high_known & (column.type.root not in FLOATS)
    may = found.present.copy()
    if operator in ("=", "<=>", "<", "<="):
        may &= _holds(found.low, found.low_known, value, "<" if operator == "<" else "<=")
    if operator in ("=", "<=>", ">", ">="):
        may &= _holds(found.high, bounded, value, ">" if operator == ">" else ">=")
    return Answer(may, found.known)


def _among(found: ManyRanges, root: In) -> Answer:
    values = [value for value in root.values if value is not None]
    if not values:
        return _anything(len(found.present))
    few = len(values) <= MOST_VALUES
    spans = [(value, value) for value in values] if few else [(min(values), max(values))]
    may = np.zeros(len(found.present), bool)
    for first, last in spans:
        may |= _holds(found.low, found.low_known, last, "<=") & _holds(
            found.high, found.high_known, first, ">="
        )
    return Answer(may & found.present, found.known & few)


def _begun(found: ManyRanges, first: str | Wildcard) -> Answer:
    """Tell of a pattern that begins with ``first``."""
    if isinstance(first, Wildcard):
        return Answer(found.present, found.known)
    low = np.array(
        [one[: len(first)] if isinstance(one, str) else None for one in found.low.tolist()], object
    )
    may = _holds(low, found.low_known, first, "<=") & _holds(found.high, found.high_known, first, ">=")
    return Answer(may & found.present, found.known)


def _holds(bounds: npt.NDArray[Any], known: Flags, value: Any, operator: str) -> Flags:
    """Return which bounds are unknown or compare as asked with ``value``."""
    holds = ~known
    at = np.flatnonzero(known)
    if not len(at):  # then the bounds need not be of the column's type either
        return holds
    if len(at) == len(known):  # no need of a copy
        at = slice(None)  # type: ignore[assignment]
    some = bounds[at].astype(np.float64) if bounds.dtype == np.float32 else bounds[at]
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[operator]
    if some.dtype == object:
        # Of text or bytes alone numpy makes a value of fixed width, without the zeros at its end.
        holds[at] = compare(some, np.array(value, object), dtype=object).astype(bool)
    else:
        holds[at] = compare(some, value)
    return holds
