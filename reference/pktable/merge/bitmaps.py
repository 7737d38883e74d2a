"""The aggregate functions ``rbm32`` and ``rbm64``: unions of Roaring bitmaps of 32 and of 64 bits.

Their bytes are the portable serialization, and that of Java's class ``Roaring64Bitmap``. Each bitmap of a segment that
has several is read and checked. The union is written run-optimised, as Paimon writes it.

Clauses: MRG-9, MRG-29, MRG-30.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.vectors import roaring_tree
from pktable.format.vectors.roaring import Bitmap, read_bitmap
from pktable.merge.column import Column
from pktable.merge.segments import Segments, at_or_null, valid

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
