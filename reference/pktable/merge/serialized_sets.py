"""Aggregate functions of serialized sets: ``rbm32``, ``rbm64`` and ``theta_sketch``.

The first two unite Roaring bitmaps of 32 and of 64 bits. Their bytes are the portable serialization, and that of Java's
class ``Roaring64Bitmap``. Each bitmap of a segment that has several is read and checked. The union is written
run-optimised, as Paimon writes it.

``theta_sketch`` unites theta sketches of Apache DataSketches. A sketch is a set of hashes below a bound, *theta*. A
union has the hashes of all sketches below the least theta; if these are more than 4096, the next one is theta. So the
grouping in which sketches are united makes no difference. The library for Python unites sketches. Three fields of the
header that it writes are not those of the library for Java, and so of Paimon: a share of sampled values, the hash of
the seed of a sketch without values, and a flag of one with a single hash. No reader looks at them; `_as_java` writes
them as Java does.

Clauses: MRG-9, MRG-29, MRG-30, MRG-31.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.vectors import roaring_tree
from pktable.format.vectors.roaring import Bitmap, read_bitmap
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
