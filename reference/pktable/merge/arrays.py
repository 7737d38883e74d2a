"""Aggregate functions of arrays: ``collect`` and ``nested_update``.

1. The elements of all arrays of a segment are laid side by side, oldest first, each with its record. Those that come
   before the first array of an add are left out: there is nothing that they could be taken from.
2. Equal elements, or rows with equal keys, get the same code.
3. Elements of retractions take others out: the oldest equal one (``collect``), or all equal ones (``collect`` of
   distinct elements, ``nested_update``).
4. The elements of adds that are left are the array, in the order in which they came. Of elements with a key each code
   stays where it first came, with its newest value.

A segment that has one array keeps it as it is, nulls and equal rows included, as the fold of one record must.

Clauses: MRG-8, MRG-9, MRG-10, MRG-27, MRG-32 to MRG-34.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.types import DataType, is_atomic
from pktable.merge.grouping import Flags, Indices
from pktable.merge.segments import Column, Segments, valid


@dataclass(frozen=True, slots=True)
class Elements:
    """The n elements of the arrays of all segments, oldest first.

    ``values``: the elements. ``segment``: the segment of each. ``adds``: whether each is of an add. ``effective``:
    per record, whether it has an array that counts.
    """

    values: pa.Array
    segment: Indices
    adds: Flags
    effective: Flags

    def of(self, kept: Flags) -> Elements:
        return Elements(
            self.values.filter(pa.array(kept)), self.segment[kept], self.adds[kept], self.effective
        )


def is_comparable(kind: DataType) -> bool:
    """Return whether elements of a type can be found equal: atomic ones, and rows of atomic fields."""
    return is_atomic(kind) or (kind.root == "ROW" and all(is_atomic(one.type) for one in kind.children))


def collect_retracts(column: Column) -> bool:
    """Return whether a retraction can be taken back: whether elements can be found equal."""
    return is_comparable(column.type.children[0].type)


def nested_update_retracts(column: Column) -> bool:
    """Return whether a retraction can be taken back: not from rows that a limit chose. Keys are atomic."""
    return column.limit is None and (bool(column.nested_key) or is_comparable(column.type.children[0].type))


def collect(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The elements of all arrays, in their order, or one of equal ones; a retraction takes its elements out."""
    elements = _elements(values, segments)
    if not column.distinct and elements.adds.all():
        return _arrays(values, segments, elements, np.arange(len(elements.values)))
    codes = _codes(elements, _fields(elements.values))
    if column.distinct:
        chosen, _ = _newest(elements, codes)
        return _arrays(values, segments, elements, chosen, single=segments.lengths == 1)
    return _arrays(values, segments, elements, _without_oldest(elements, codes))


def nested_update(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The rows of all arrays, of equal keys the newest; a retraction takes its rows out. Nulls are left out."""
    elements = _elements(values, segments)
    single = segments.sums(elements.effective) == 1
    sizes = _sizes(values, segments, elements) if column.limit is not None else None
    elements = elements.of(valid(elements.values))
    if not column.nested_key and elements.adds.all():
        chosen = np.arange(len(elements.values))
    else:
        codes = _codes(elements, _fields(elements.values, column.nested_key))
        chosen = _newest(elements, codes)[1] if column.nested_key else _alive(elements, codes)
    if sizes is not None:
        chosen = _limited(elements, chosen, np.maximum(sizes, column.limit or 0))
    return _arrays(values, segments, elements, chosen, single=single)


def _elements(values: pa.Array, segments: Segments) -> Elements:
    known = valid(values)
    first = segments.first(known & segments.adds)
    at = np.arange(len(known))
    begins = np.repeat(np.where(first < 0, len(known), first), segments.lengths)
    effective = known & (at >= begins)
    lengths = pc.list_value_length(values).fill_null(0).to_numpy()
    record = np.repeat(at, lengths)
    found = Elements(values.flatten(), segments.segment_of[record], segments.adds[record], effective)
    return found.of(effective[record])


def _fields(values: pa.Array, names: tuple[str, ...] = ()) -> list[pa.Array]:
    """Return what makes elements equal: atomic ones themselves, of rows all fields or the named ones."""
    if not pa.types.is_struct(values.type):
        return [values]
    at = [values.type.get_field_index(name) for name in names] or range(values.type.num_fields)
    return [values.is_valid(), *(pc.struct_field(values, one) for one in at)]


def _codes(elements: Elements, fields: list[pa.Array]) -> Indices:
    """Return a number per element, equal where the segment and all fields are."""
    _, found = np.unique(elements.segment, return_inverse=True)
    for field in fields:
        encoded = field.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        both = found * (int(encoded.max(initial=0)) + 1) + encoded
        _, found = np.unique(both, return_inverse=True)
    return found


def _alive(elements: Elements, codes: Indices) -> Indices:
    """Return the elements of adds that no later retraction takes out together with all that are equal."""
    last = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    gone = np.flatnonzero(~elements.adds)
    np.maximum.at(last, codes[gone], gone)
    return np.flatnonzero(elements.adds & (np.arange(len(codes)) > last[codes]))


def _newest(elements: Elements, codes: Indices) -> tuple[Indices, Indices]:
    """Return the first and the last of the elements of each code that are left, in the order of the first."""
    alive = _alive(elements, codes)
    _, first = np.unique(codes[alive], return_index=True)
    _, last = np.unique(codes[alive][::-1], return_index=True)
    order = np.argsort(first)
    return alive[first[order]], alive[len(alive) - 1 - last[order]]


def _without_oldest(elements: Elements, codes: Indices) -> Indices:
    """Return the elements of adds that are left if each one of a retraction takes out the oldest equal one.

    The number of equal elements that are left is a walk of +1 and -1. It stays at 0 instead of falling below.
    """
    order = np.argsort(codes, kind="stable")
    adds, sorted_codes = elements.adds[order], codes[order]
    starts = np.flatnonzero(np.append(True, sorted_codes[1:] != sorted_codes[:-1]))[: len(order)]
    lengths = np.diff(np.append(starts, len(order)))
    walk = np.cumsum(np.where(adds, 1, -1))
    walk -= np.repeat(walk[starts] - np.where(adds[starts], 1, -1), lengths)
    left = walk[starts + lengths - 1] - np.minimum(np.minimum.reduceat(walk, starts), 0)
    later = np.cumsum(adds[::-1])[::-1]  # adds from each element on
    ends = np.append(later, 0)[starts + lengths]
    kept = adds & (later - np.repeat(ends, lengths) <= np.repeat(left, lengths))
    return np.sort(order[kept])


def _sizes(values: pa.Array, segments: Segments, elements: Elements) -> Indices:
    """Return per segment the number of rows of its first array, which no limit cuts."""
    first = segments.first(elements.effective)
    record = np.repeat(np.arange(len(values)), pc.list_value_length(values).fill_null(0).to_numpy())
    counts = np.bincount(record[valid(values.flatten())], minlength=len(values) + 1)
    return np.where(first < 0, 0, counts[first])


def _limited(elements: Elements, chosen: Indices, limits: Indices) -> Indices:
    """Return the first of the chosen elements of each segment, as many as its limit says."""
    segment = elements.segment[chosen]
    counts = np.bincount(segment, minlength=len(limits))
    place = np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)
    return chosen[place < limits[segment]]


def _arrays(
    values: pa.Array, segments: Segments, elements: Elements, chosen: Indices, *, single: Flags | None = None
) -> pa.Array:
    """Return an array of the chosen elements per segment, null without any array; as it is where ``single``."""
    counts = np.bincount(elements.segment[chosen], minlength=len(segments.starts))
    made = pa.ListArray.from_arrays(
        pa.array(np.append(0, np.cumsum(counts)), pa.int32()),
        elements.values.take(pa.array(chosen)),
        type=values.type,
        mask=pa.array(~segments.any(elements.effective)),
    )
    if single is None or not single.any():
        return made
    only = segments.first(elements.effective)
    at = np.where(single, len(made) + np.maximum(only, segments.starts), np.arange(len(made)))
    return pa.concat_arrays([made, values]).take(pa.array(at))
