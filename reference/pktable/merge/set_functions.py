"""Aggregate functions of arrays and of serialized sets (``rbm32``, ``rbm64``, ``theta_sketch``).

``collect`` and ``nested_update`` of arrays:

1. The elements of all arrays of a segment are laid side by side, oldest first, each with its record. Those that come
   before the first array of an add are left out: there is nothing that they could be taken from.
2. Equal elements, or rows with equal keys, get the same code.
3. Elements of retractions take others out: the oldest equal one (``collect``), or all equal ones (``collect`` of
   distinct elements, ``nested_update``).
4. The elements of adds that are left are the array, in the order in which they came. Of elements with a key each code
   stays where it first came, with its newest value.

A segment that has one array keeps it as it is, nulls and equal rows included, as the fold of one record must.

``rbm32`` and ``rbm64`` unite Roaring bitmaps of 32 and of 64 bits. Their bytes are the portable serialization, and that
of Java's class ``Roaring64Bitmap``. Each bitmap of a segment that has several is read and checked. The union is written
run-optimised, as Paimon writes it.

``theta_sketch`` unites theta sketches of Apache DataSketches. A sketch is a set of hashes below a bound, *theta*. A
union has the hashes of all sketches below the least theta; if these are more than 4096, the next one is theta. So the
grouping in which sketches are united makes no difference. The library for Python unites sketches. Three fields of the
header that it writes are not those of the library for Java, and so of Paimon: a share of sampled values, the hash of
the seed of a sketch without values, and a flag of one with a single hash. No reader looks at them; `_as_java` writes
them as Java does.

Clauses: MRG-8, MRG-9, MRG-10, MRG-27, MRG-29 to MRG-34.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.types import DataType, is_atomic
from pktable.format.vectors import roaring_tree
from pktable.format.vectors.roaring import Bitmap, read_bitmap
from pktable.merge.grouping import Flags, Indices
from pktable.merge.segments import Column, Segments, at_or_null, valid

Unite = Callable[[list[bytes], str], bytes]
"""Returns the union of serialized sets. Raises CorruptFileError for bytes that are none; the text names them."""


def union_of(what: str, unite: Unite, values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The union. Raises InvalidRequestError for bytes that are no such set, or if the type cannot hold the union.

    ``what``: a set is.
    """
    known = valid(values)
    found = at_or_null(values, segments.first(known))
    several = np.flatnonzero(segments.sums(known) > 1)
    if not len(several):
        return found
    starts, stops = segments.starts[several], (segments.starts + segments.lengths)[several]
    made = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        blobs = [one for one in values[start:stop].to_pylist() if one is not None]
        try:
            made.append(unite(blobs, column.name))
        except CorruptFileError as error:
            raise InvalidRequestError(
                f"column {column.name}: expected a serialized {what}, found other bytes: {error}"
            ) from error
        _expect_held(made[-1], what, column)
    at = np.arange(len(found))
    at[several] = len(found) + np.arange(len(several))
    return pa.concat_arrays([found, pa.array(made, values.type)]).take(pa.array(at))


def _expect_held(written: bytes, what: str, column: Column) -> None:
    limit = column.type.length
    if limit is not None and len(written) > limit:
        raise InvalidRequestError(
            f"column {column.name}: expected a {what} that {column.type} can hold, found {len(written)} bytes"
        )


def _unite_32(blobs: list[bytes], at: str) -> bytes:
    return bytes(_united([_read_32(blob, at) for blob in blobs]).data)


def _read_32(blob: bytes, at: str) -> Bitmap:
    bitmap = read_bitmap(memoryview(blob), at)
    left = len(blob) - len(bitmap.data)
    if left:
        raise CorruptFileError("bitmap", at=at, expected="no byte after it", found=f"{left} bytes")
    return bitmap


def _unite_64(blobs: list[bytes], at: str) -> bytes:
    parts: dict[int, list[Bitmap]] = {}
    for blob in blobs:
        for key, bitmap in roaring_tree.decode(blob, at).items():
            parts.setdefault(key, []).append(bitmap)
    return roaring_tree.encode({key: _united(bitmaps) for key, bitmaps in parts.items()})


def _united(bitmaps: list[Bitmap]) -> Bitmap:
    if len(bitmaps) == 1:
        return bitmaps[0].run_optimized()
    return Bitmap.optimized(reduce(lambda whole, one: whole | one, (one.library_copy() for one in bitmaps)))


union_32: Final = partial(union_of, "32-bit Roaring bitmap", _unite_32)
union_64: Final = partial(union_of, "64-bit Roaring bitmap", _unite_64)


LOG_HASHES: Final = 12
PLAIN: Final = 3  # the serial version of sketches whose hashes are not compressed
HEADER_WORDS: Final = 0x3F  # of the first byte
SINGLE: Final = 0x20
NONE: Final = bytes.fromhex("01030300001e0000")
SAMPLED: Final = struct.pack("<f", 1.0)


def sketch_library() -> Any:
    """Return the library of sketches. Raises InvalidRequestError if it is not installed."""
    try:
        import datasketches
    except ModuleNotFoundError:
        raise InvalidRequestError(
            "theta_sketch unites sketches with the library datasketches, which is not installed; "
            "install it with: pip install 'pktable[sketches]'"
        ) from None
    return datasketches


def _unite(blobs: list[bytes], at: str) -> bytes:
    library = sketch_library()
    union = library.theta_union(LOG_HASHES)
    for blob in blobs:
        union.update(_read(library, blob, at))
    return _as_java(union.get_result().serialize())


def _read(library: Any, blob: bytes, at: str) -> Any:
    """Return a sketch. Raises CorruptFileError if the library cannot read it, or its hashes are not as it says."""
    try:
        sketch = library.compact_theta_sketch.deserialize(blob)
    except (ValueError, IndexError, RuntimeError) as error:
        raise CorruptFileError("theta sketch", at=at, expected="a compact one", found=str(error)) from error
    if blob[1] == PLAIN:
        _expect_hashes(blob, sketch, at)
    return sketch


def _expect_hashes(blob: bytes, sketch: Any, at: str) -> None:
    count = sketch.num_retained
    size = 8 * ((blob[0] & HEADER_WORDS) + count)
    if len(blob) != size:
        raise CorruptFileError("theta sketch", at=at, expected=f"{size} bytes", found=len(blob))
    hashes = np.frombuffer(blob, "<i8", offset=size - 8 * count)
    wrong = (hashes <= 0) | (hashes >= sketch.theta64)
    if sketch.is_ordered():
        wrong[1:] |= hashes[1:] <= hashes[:-1]
    if wrong.any():
        found = hashes[np.argmax(wrong)]
        raise CorruptFileError("theta sketch", at=at, expected="hashes in order, below theta", found=found)


def _as_java(written: bytes) -> bytes:
    """Return a sketch that the library for Python wrote, in the bytes that the one for Java writes."""
    if written[0] > 1:
        return written[:12] + SAMPLED + written[16:]
    if len(written) == len(NONE):
        return NONE
    return written[:5] + bytes([written[5] | SINGLE]) + written[6:]


union_theta: Final = partial(union_of, "theta sketch", _unite)


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
