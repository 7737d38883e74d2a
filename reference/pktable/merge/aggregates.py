"""Aggregate functions of columns: the values of the records of a key, oldest first, become one value.

Each `Aggregate` takes a column of all records that count (`Segments`) and returns one value per segment. Nulls are
skipped unless the description says otherwise; a segment without other values gives null. A function that ``retracts``
also takes the values of retractions back. Adds may be folded in any grouping of neighbours; floating-point sums and
products then differ by rounding.

The functions are those of Paimon by name and meaning, with these differences:

* A sum or product that its type cannot hold is refused, and the order of intermediate results does not matter for that.
* The entries of a merged map, distinct elements and rows with a nested key stay in the order in which they first came.
* ``product`` takes nothing back. Paimon divides, which is undefined for 0, and drops the rest of an integer.
* ``product`` of DECIMAL is refused. Paimon rounds each step, so that the result depends on its compactions.
* ``nested_update`` with a limit has no nested key and takes nothing back. Which rows a limit keeps then depends on
  compactions, and on the rows that a retraction made room for.

Clauses: MRG-9, MRG-10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.arrow_buffers import stored_values
from pktable.format.types import FLOATS, INTEGER_BITS, DataType, is_atomic
from pktable.merge.grouping import Flags, Indices, parts_of
from pktable.merge.key_encoding import BYTE_STRINGS
from pktable.merge.segments import Column, Segments, at_or_null, flags_of, valid, with_nulls
from pktable.merge.set_functions import (
    collect,
    collect_retracts,
    nested_update,
    nested_update_retracts,
    union_32,
    union_64,
    union_theta,
)
from pktable.merge.user_order import ranks_of

EXACT_PRODUCT: Final = float(1 << 62)
"""Below this size a product of 64-bit integers that was computed in floating point shows that none overflowed."""

BLANK: Final = (
    "^[\\x{9}-\\x{d}\\x{1c}-\\x{20}\\x{1680}\\x{2000}-\\x{2006}\\x{2008}-\\x{200a}\\x{2028}\\x{2029}"
    "\\x{205f}\\x{3000}]*$"
)
"""A string of what Java calls white space."""


Fold = Callable[[pa.Array, Segments, Column], pa.Array]
Choose = Callable[[Segments, Flags, Column], Indices]
"""Returns per segment the record that gives the value, -1 if none does; the flags: which records have one to give."""


def never(column: Column) -> bool:
    return False


def always(column: Column) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One function. ``takes``: the types it is defined for, in words and as a test.

    ``commutes``: whether the order of the values makes no difference. ``choose``: of a function whose result is the
    value of one record, which one it is; then most values need not be touched. ``retracts``: whether the values of
    retractions can be taken back from a column. ``lasting``: why they cannot, where Paimon takes them back.
    """

    name: str
    fold: Fold
    takes: tuple[str, Callable[[DataType], bool]]
    retracts: Callable[[Column], bool] = never
    commutes: bool = False
    choose: Choose | None = None
    lasting: str = ""


def choosing(
    name: str,
    choose: Choose,
    takes: tuple[str, Callable[[DataType], bool]] | None = None,
    *,
    retracts: Callable[[Column], bool] = never,
    commutes: bool = False,
) -> Aggregate:
    """Return the function that gives the value of the record that ``choose`` names. By default it takes any type."""

    def fold(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
        return at_or_null(values, choose(segments, valid(values), column))

    return Aggregate(name, fold, takes or _ANY, retracts, commutes, choose)


def oldest(segments: Segments, known: Flags, column: Column) -> Indices:
    """The oldest record, also if its value is null."""
    return segments.starts


def newest(segments: Segments, known: Flags, column: Column) -> Indices:
    """The newest record, also if its value is null; none if that is a retraction."""
    return np.where(segments.adds[segments.ends], segments.ends, -1)


def oldest_known(segments: Segments, known: Flags, column: Column) -> Indices:
    """The oldest record that has a value."""
    return segments.first(known)


def newest_known(segments: Segments, known: Flags, column: Column) -> Indices:
    """The newest record that has a value; none if that is a retraction."""
    found = segments.last_or_end(known)
    if segments.adds.all():
        return found
    return np.where(segments.adds[found] | ~known[found], found, -1)


def greatest(segments: Segments, known: Flags, column: Column) -> Indices:
    return _best(segments, known, column, np.maximum)


def least(segments: Segments, known: Flags, column: Column) -> Indices:
    return _best(segments, known, column, np.minimum)


def _best(segments: Segments, known: Flags, column: Column, better: Any) -> Indices:
    """Return per segment the record with the greatest or least value, of equal ones the oldest."""
    if column.type.root in BYTE_STRINGS:
        return _best_string(segments, known, column, better)
    ranks = ranks_of(segments.values(column.name), column.type)
    limits = np.iinfo(np.int64)
    worst = limits.min if better is np.maximum else limits.max
    best = better.reduceat(np.where(known, ranks, worst), segments.starts)
    return segments.first(known & (ranks == np.repeat(best, segments.lengths)))


def _best_string(segments: Segments, known: Flags, column: Column, better: Any) -> Indices:
    """Return per segment the record with the greatest or least string, one that has none if all are such.

    Arrow compares, by bytes. All neighbours are compared at once, which decides between two records; more are rare.
    """
    wins = pc.greater if better is np.maximum else pc.less
    values, starts = segments.values(column.name), segments.starts
    newer = np.zeros(len(values), dtype=bool)  # than the record before
    newer[:-1] = flags_of(wins(values[1:], values[:-1]).fill_null(False)) | (known[1:] & ~known[:-1])
    found: Indices = starts + (newer[starts] & (segments.lengths == 2))
    more = np.flatnonzero(segments.lengths > 2)
    if len(more):
        _best_of_more(values, known, segments, more, wins, found)
    return found


def _best_of_more(
    values: pa.Array, known: Flags, segments: Segments, some: Indices, wins: Any, found: Indices
) -> None:
    """Put the records that win in the segments ``some`` into ``found``.

    Neighbours are compared, then the better ones of them, in segments that have several left.
    """
    left, begins = parts_of(segments.starts, segments.lengths, some)
    counts = np.add.reduceat(known[left].astype(np.int64), begins)
    left, some, counts = left[known[left]], some[counts > 0], counts[counts > 0]
    while True:
        found[some] = left[np.cumsum(counts) - counts]  # the one that is left, where it is one
        several = counts > 1
        if not several.any():
            return
        left = left[np.repeat(several, counts)]
        some, counts = some[several], counts[several]
        place = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
        odd = place % 2 == 1
        second = np.flatnonzero(odd)
        newer, older = (values.take(pa.array(left[at])) for at in (second, second - 1))
        better_ones = second[flags_of(wins(newer, older))]
        left[better_ones - 1] = left[better_ones]
        left, counts = left[~odd], (counts + 1) // 2


def total(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The sum of the adds less that of the retractions. Raises InvalidRequestError if the type cannot hold it."""
    if column.type.root == "DECIMAL":
        return _decimal_total(values, segments, column)
    if column.type.root in FLOATS:
        numbers = _filled(values, -0.0)  # which changes no sum
        sums = np.add.reduceat(_signed(numbers, segments), segments.starts)
    else:
        sums = _integer_totals(_filled(values.cast(pa.int64()), 0), segments, column)
        half = 1 << (INTEGER_BITS[column.type.root] - 1)
        _expect_held("sum", column, segments, (sums >= -half) & (sums < half))
    return _numbers(sums, values, segments)


def _filled(values: pa.Array, instead: float) -> npt.NDArray[Any]:
    """Return numbers with ``instead`` in the place of nulls."""
    if not values.null_count:
        found: npt.NDArray[Any] = values.to_numpy()
        return found
    filled: npt.NDArray[Any] = stored_values(values, values.type.to_pandas_dtype()).copy()
    filled[np.flatnonzero(~valid(values))] = instead  # takes half of the time of `where`
    return filled


def _signed(numbers: npt.NDArray[Any], segments: Segments) -> npt.NDArray[Any]:
    """Return the numbers of adds as they are and those of retractions negated."""
    if segments.adds.all():
        return numbers
    found: npt.NDArray[Any] = numbers * np.where(segments.adds, 1, -1).astype(numbers.dtype)
    return found


def _integer_totals(
    numbers: npt.NDArray[np.int64], segments: Segments, column: Column
) -> npt.NDArray[np.int64]:
    """Return the sums of 64-bit integers. Raises InvalidRequestError if one has more bits."""
    greatest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    if greatest * int(segments.lengths.max(initial=0)) < 1 << 63:
        return segments.sums(_signed(numbers, segments))
    high = segments.sums(_signed(numbers >> 32, segments))
    low = segments.sums(_signed(numbers & 0xFFFFFFFF, segments))
    high += low >> 32
    _expect_held("sum", column, segments, (high >= -(1 << 31)) & (high < 1 << 31))
    return (high << 32) | (low & 0xFFFFFFFF)


def _decimal_total(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    signed = pc.if_else(pa.array(segments.adds), values, pc.negate(values))
    rough = np.add.reduceat(signed.cast(pa.float64()).fill_null(0).to_numpy(), segments.starts)
    # Beyond 38 digits Arrow's sum wraps around.
    scale = 10.0 ** (38 - (column.type.scale or 0))
    _expect_held("sum", column, segments, np.abs(rough) < 1.5 * scale)
    rows = pa.table({"segment": segments.segment_of, "value": signed})
    sums = rows.group_by("segment", use_threads=False).aggregate([("value", "sum")]).column("value_sum")
    # A cast does not look whether 38 digits are enough.
    greatest = pa.scalar(Decimal((0, (9,) * values.type.precision, -values.type.scale)), sums.type)
    _expect_held("sum", column, segments, np.asarray(pc.less_equal(pc.abs(sums), greatest).fill_null(True)))
    return pa.concat_arrays(sums.cast(values.type).chunks) if sums.num_chunks else values[:0]


def product(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The product. Raises InvalidRequestError if the type cannot hold it."""
    if column.type.root in FLOATS:
        numbers = _filled(values, 1.0)
        return _numbers(np.multiply.reduceat(numbers, segments.starts), values, segments)
    wide = _filled(values.cast(pa.int64()), 1)
    rough = np.multiply.reduceat(np.maximum(np.abs(wide.astype(np.float64)), 1.0), segments.starts)
    if (rough >= EXACT_PRODUCT).any():
        wide = wide.astype(object)  # integers of any size
    products = np.multiply.reduceat(wide, segments.starts)
    half = 1 << (INTEGER_BITS[column.type.root] - 1)
    _expect_held("product", column, segments, ((products >= -half) & (products < half)).astype(bool))
    return _numbers(products.astype(np.int64), values, segments)


def _numbers(found: npt.NDArray[Any], values: pa.Array, segments: Segments) -> pa.Array:
    """Return the numbers found in the type of ``values``, null for a segment that has none."""
    if not values.null_count:
        return pa.array(found).cast(values.type)
    return with_nulls(found, segments.any(valid(values)), pa.from_numpy_dtype(found.dtype)).cast(values.type)


def _expect_held(what: str, column: Column, segments: Segments, held: Flags) -> None:
    """Raise InvalidRequestError unless ``held``, a flag per segment, holds of all of them. Clauses: MRG-9."""
    if not held.all():
        key = segments.key_of(int(np.argmin(held)))
        back = "write a retraction or a value that brings the sum back, or " if what == "sum" else ""
        raise InvalidRequestError(
            f"column {column.name}: expected a {what} that {column.type} can hold, "
            f"found one that is too great for the key {key}; {back}read other columns"
        )


def listagg(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The strings joined by the delimiter. Blank ones are left out, unless a record is the only one of its key."""
    blank = pc.match_substring_regex(values, BLANK).fill_null(True)
    kept = ~np.asarray(blank)
    ends = np.append(0, np.cumsum(np.add.reduceat(kept.astype(np.int32), segments.starts)))
    joined = pc.binary_join(
        pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values.filter(pa.array(kept))), column.delimiter
    )
    joined = pc.if_else(pa.array(segments.any(kept)), joined, pa.scalar(None, values.type))
    return single_or(values, segments, joined)


def single_or(values: pa.Array, segments: Segments, folded: pa.Array) -> pa.Array:
    """Return ``folded``, but the value as it is where a segment has one record: the fold of one record is itself."""
    single = segments.lengths == 1
    if not single.any():
        return folded
    either = pa.concat_arrays([folded, values])
    at = np.where(single, len(folded) + segments.starts, np.arange(len(folded)))
    return either.take(pa.array(at))


def merge_map(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The entries of all maps, of equal keys the newest; a retraction takes the keys of its map out."""
    lengths = np.diff(values.offsets.to_numpy())
    record = np.repeat(np.arange(len(values)), lengths)
    segment = segments.segment_of[record]
    codes = values.keys.dictionary_encode().indices.to_numpy()
    place = segment * (int(codes.max(initial=0)) + 1) + codes
    order = np.argsort(place, kind="stable")
    ends = np.flatnonzero(np.append(place[order][1:] != place[order][:-1], True)) if len(order) else order
    begins = np.append(0, ends[:-1] + 1) if len(order) else order
    newest, oldest = order[ends], order[begins]
    stays = segments.adds[record[newest]]
    newest, oldest = newest[stays], oldest[stays]
    newest = newest[np.argsort(oldest, kind="stable")]
    counts = np.bincount(segment[newest], minlength=len(segments.starts))
    known = valid(values) & segments.adds
    maps = pa.MapArray.from_arrays(
        pa.array(np.append(0, np.cumsum(counts)), pa.int32()),
        values.keys.take(pa.array(newest)),
        values.items.take(pa.array(newest)),
        type=values.type,
    )
    return pc.if_else(pa.array(segments.any(known)), maps, pa.scalar(None, values.type))


DIVISION: Final = "a division has no result for 0 and drops the rest of an integer"
_ANY: Final = ("any type", lambda kind: True)
_ATOMIC: Final = ("an atomic type", is_atomic)
_NUMBER: Final = ("a number", lambda kind: kind.root in INTEGER_BITS or kind.root in {*FLOATS, "DECIMAL"})
_FACTOR: Final = (
    "an integer or floating-point type, because a product of DECIMAL is rounded at each step",
    lambda kind: kind.root in {*INTEGER_BITS, *FLOATS},
)
_BYTES: Final = ("BYTES or VARBINARY", lambda kind: kind.root in {"BYTES", "VARBINARY"})
_ROWS: Final = (
    "ARRAY<ROW<...>>",
    lambda kind: kind.root == "ARRAY" and kind.children[0].type.root == "ROW",
)
_BOOLEAN: Final = ("BOOLEAN", lambda kind: kind.root == "BOOLEAN")

AGGREGATES: Final[Mapping[str, Aggregate]] = {
    one.name: one
    for one in (
        Aggregate("sum", total, _NUMBER, retracts=always, commutes=True),
        Aggregate("product", product, _FACTOR, commutes=True, lasting=DIVISION),
        choosing("max", greatest, _ATOMIC, commutes=True),
        choosing("min", least, _ATOMIC, commutes=True),
        choosing("bool_and", least, _BOOLEAN, commutes=True),
        choosing("bool_or", greatest, _BOOLEAN, commutes=True),
        choosing("first_value", oldest),
        choosing("last_value", newest, retracts=always),
        choosing("first_non_null_value", oldest_known),
        choosing("first_not_null_value", oldest_known),
        choosing("last_non_null_value", newest_known, retracts=always),
        Aggregate("listagg", listagg, ("STRING", lambda kind: kind.root == "STRING")),
        Aggregate("collect", collect, ("ARRAY", lambda kind: kind.root == "ARRAY"), collect_retracts),
        Aggregate("nested_update", nested_update, _ROWS, nested_update_retracts),
        Aggregate("rbm32", union_32, _BYTES, commutes=True),
        Aggregate("rbm64", union_64, _BYTES, commutes=True),
        Aggregate("theta_sketch", union_theta, _BYTES, commutes=True),
        Aggregate("merge_map", merge_map, ("MAP", lambda kind: kind.root == "MAP"), retracts=always),
    )
}
"""The functions by the value of ``fields.<column>.aggregate-function``."""

MISSING: Final[Mapping[str, str]] = {
    "count": "Paimon has no count either; sum a column of ones",
    "hll_sketch": "hll_sketch is not implemented, because the bytes of a union depend on the order of the merges",
    "nested_partial_update": "nested_partial_update is not implemented",
    "merge_map_with_keytime": "merge_map_with_keytime is not implemented",
}
"""Why functions of Paimon, and one that is often asked for, are not among `AGGREGATES`."""
