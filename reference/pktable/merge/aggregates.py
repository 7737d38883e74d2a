"""Aggregate functions of columns: the values of the records of a key, oldest first, become one value.

Each `Aggregate` takes a column of all records that count (`Segments`) and returns one value per segment. Nulls are
skipped unless the description says otherwise; a segment without other values gives null. A function that ``retracts``
also takes the values of retractions back. Adds may be folded in any grouping of neighbours; floating-point sums and
products then differ by rounding.

The functions are those of Paimon by name and meaning, with two differences. A sum or product that its type cannot hold
is refused, and the order of intermediate results does not matter for that. The entries of a merged map stay in the
order in which their keys first came.

Clauses: MRG-9, MRG-10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import FLOATS, INTEGER_BITS, DataType, is_atomic
from pktable.merge.grouping import Flags, Indices
from pktable.merge.key_encoding import BYTE_STRINGS
from pktable.merge.segments import Segments, at_or_null, valid
from pktable.merge.user_order import ranks_of

EXACT_PRODUCT: Final = float(1 << 62)
"""Below this size a product of 64-bit integers that was computed in floating point shows that none overflowed."""

BLANK: Final = (
    "^[\\x{9}-\\x{d}\\x{1c}-\\x{20}\\x{1680}\\x{2000}-\\x{2006}\\x{2008}-\\x{200a}\\x{2028}\\x{2029}"
    "\\x{205f}\\x{3000}]*$"
)
"""A string of what Java calls white space."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column to aggregate: its name, type, and the text that joins the values of ``listagg``."""

    name: str
    type: DataType
    delimiter: str = ","


Fold = Callable[[pa.Array, Segments, Column], pa.Array]
Choose = Callable[[Segments, Flags], Indices]
"""Returns per segment the record that gives the value, -1 if none does; the flags: which records have a value."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One function. ``takes``: the types it is defined for, in words and as a test.

    ``commutes``: whether the order of the values makes no difference. ``choose``: of a function whose result is the
    value of one record, which one it is; then most values need not be touched.
    """

    name: str
    fold: Fold
    takes: tuple[str, Callable[[DataType], bool]]
    retracts: bool = False
    commutes: bool = False
    choose: Choose | None = None


def choosing(name: str, choose: Choose, *, retracts: bool = False) -> Aggregate:
    """Return the function that gives the value of the record that ``choose`` names."""

    def fold(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
        return at_or_null(values, choose(segments, valid(values)))

    return Aggregate(name, fold, _ANY, retracts, choose=choose)


def oldest(segments: Segments, known: Flags) -> Indices:
    """The oldest record, also if its value is null."""
    return segments.starts


def newest(segments: Segments, known: Flags) -> Indices:
    """The newest record, also if its value is null; none if that is a retraction."""
    found = segments.starts + segments.lengths - 1
    return np.where(segments.adds[found], found, -1)


def oldest_known(segments: Segments, known: Flags) -> Indices:
    """The oldest record that has a value."""
    return segments.first(known)


def newest_known(segments: Segments, known: Flags) -> Indices:
    """The newest record that has a value; none if that is a retraction."""
    found = segments.last(known)
    return np.where(segments.adds[found], found, -1)


def greatest(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    return _extreme(values, segments, column, np.maximum)


def least(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    return _extreme(values, segments, column, np.minimum)


def _extreme(values: pa.Array, segments: Segments, column: Column, better: Any) -> pa.Array:
    known = valid(values)
    if column.type.root in BYTE_STRINGS:
        return at_or_null(values, _best_string(values, known, segments, better))
    ranks = ranks_of(values, column.type)
    limits = np.iinfo(np.int64)
    worst = limits.min if better is np.maximum else limits.max
    best = better.reduceat(np.where(known, ranks, worst), segments.starts)
    return at_or_null(values, segments.first(known & (ranks == np.repeat(best, segments.lengths))))


def _best_string(values: pa.Array, known: Flags, segments: Segments, better: Any) -> Indices:
    """Return per segment the record with the greatest or least string, -1 if there is none.

    Neighbours are compared, then the better ones of them, until each segment has one left. Arrow compares by bytes.
    """
    wins = pc.greater if better is np.maximum else pc.less
    left, segment = np.flatnonzero(known), segments.segment_of[known]
    while len(left) and (segment[1:] == segment[:-1]).any():
        begins = np.append(True, segment[1:] != segment[:-1])
        place = np.arange(len(left)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
        second = np.flatnonzero(place % 2 == 1)
        won = wins(values.take(pa.array(left[second])), values.take(pa.array(left[second - 1])))
        left[second - 1] = np.where(np.asarray(won), left[second], left[second - 1])
        left, segment = left[place % 2 == 0], segment[place % 2 == 0]
    found = np.full(len(segments.starts), -1, dtype=np.int64)
    found[segment] = left
    return found


def total(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The sum of the adds less that of the retractions. Raises InvalidRequestError if the type cannot hold it."""
    if column.type.root == "DECIMAL":
        return _decimal_total(values, segments, column)
    signs = np.where(segments.adds, 1, -1)
    if column.type.root in FLOATS:
        numbers = values.fill_null(-0.0).to_numpy(
            zero_copy_only=False
        )  # which added to anything changes nothing
        sums = np.add.reduceat(numbers * signs.astype(numbers.dtype), segments.starts)
    else:
        wide = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        high = np.add.reduceat((wide >> 32) * signs, segments.starts)
        low = np.add.reduceat((wide & 0xFFFFFFFF) * signs, segments.starts)
        high += low >> 32
        half = 1 << (INTEGER_BITS[column.type.root] - 1)
        _expect_held("sum", column, (high >= -(1 << 31)) & (high < 1 << 31))
        sums = (high << 32) | (low & 0xFFFFFFFF)
        _expect_held("sum", column, (sums >= -half) & (sums < half))
    return _numbers(sums, values, segments)


def _decimal_total(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    signed = pc.if_else(pa.array(segments.adds), values, pc.negate(values))
    rough = np.add.reduceat(signed.cast(pa.float64()).fill_null(0).to_numpy(), segments.starts)
    # Beyond 38 digits Arrow's sum wraps around.
    scale = 10.0 ** (38 - (column.type.scale or 0))
    _expect_held("sum", column, np.abs(rough) < 1.5 * scale)
    rows = pa.table({"segment": segments.segment_of, "value": signed})
    sums = rows.group_by("segment", use_threads=False).aggregate([("value", "sum")]).column("value_sum")
    try:
        return pa.concat_arrays(sums.cast(values.type).chunks) if sums.num_chunks else values[:0]
    except pa.ArrowInvalid:
        _expect_held("sum", column, np.zeros(1, dtype=bool))
        raise


def product(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The product. Raises InvalidRequestError if the type cannot hold it."""
    if column.type.root in FLOATS:
        numbers = values.fill_null(1.0).to_numpy(zero_copy_only=False)
        return _numbers(np.multiply.reduceat(numbers, segments.starts), values, segments)
    wide: npt.NDArray[Any] = values.cast(pa.int64()).fill_null(1).to_numpy(zero_copy_only=False)
    rough = np.multiply.reduceat(np.maximum(np.abs(wide.astype(np.float64)), 1.0), segments.starts)
    if (rough >= EXACT_PRODUCT).any():
        wide = wide.astype(object)  # integers of any size
    products = np.multiply.reduceat(wide, segments.starts)
    half = 1 << (INTEGER_BITS[column.type.root] - 1)
    _expect_held("product", column, ((products >= -half) & (products < half)).astype(bool))
    return _numbers(products.astype(np.int64), values, segments)


def _numbers(found: npt.NDArray[Any], values: pa.Array, segments: Segments) -> pa.Array:
    """Return the numbers found in the type of ``values``, null for a segment that has none."""
    return pa.array(found, mask=~segments.any(valid(values))).cast(values.type)


def _expect_held(what: str, column: Column, held: Flags) -> None:
    if not held.all():
        raise InvalidRequestError(
            f"column {column.name}: expected a {what} that {column.type} can hold, found a greater one"
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


def collect(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The elements of all arrays, in their order."""
    lengths = pc.list_value_length(values).fill_null(0).to_numpy()
    ends = np.append(0, np.cumsum(np.add.reduceat(lengths, segments.starts)))
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()),
        values.flatten(),
        type=values.type,
        mask=pa.array(~segments.any(valid(values))),
    )


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


_ANY: Final = ("any type", lambda kind: True)
_ATOMIC: Final = ("an atomic type", is_atomic)
_NUMBER: Final = ("a number", lambda kind: kind.root in INTEGER_BITS or kind.root in {*FLOATS, "DECIMAL"})
_FACTOR: Final = ("an integer or floating-point type", lambda kind: kind.root in {*INTEGER_BITS, *FLOATS})
_BOOLEAN: Final = ("BOOLEAN", lambda kind: kind.root == "BOOLEAN")

AGGREGATES: Final[Mapping[str, Aggregate]] = {
    one.name: one
    for one in (
        Aggregate("sum", total, _NUMBER, retracts=True, commutes=True),
        Aggregate("product", product, _FACTOR, commutes=True),
        Aggregate("max", greatest, _ATOMIC, commutes=True),
        Aggregate("min", least, _ATOMIC, commutes=True),
        Aggregate("bool_and", least, _BOOLEAN, commutes=True),
        Aggregate("bool_or", greatest, _BOOLEAN, commutes=True),
        choosing("first_value", oldest),
        choosing("last_value", newest, retracts=True),
        choosing("first_non_null_value", oldest_known),
        choosing("first_not_null_value", oldest_known),
        choosing("last_non_null_value", newest_known, retracts=True),
        Aggregate("listagg", listagg, ("STRING", lambda kind: kind.root == "STRING")),
        Aggregate("collect", collect, ("ARRAY", lambda kind: kind.root == "ARRAY")),
        Aggregate("merge_map", merge_map, ("MAP", lambda kind: kind.root == "MAP"), retracts=True),
    )
}
"""The functions by the value of ``fields.<column>.aggregate-function``."""
