"""The aggregate function ``rbm32``: the union of Roaring bitmaps of 32 bits, in the portable serialization.

Each bitmap of a segment that has several is read and checked. The union is written run-optimised, as Paimon writes it.
There is no ``rbm64``: its bytes are those of a Java library, which may change from version to version.

Clauses: MRG-9, MRG-29.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.vectors.roaring import Bitmap, read_bitmap
from pktable.merge.column import Column
from pktable.merge.segments import Segments, at_or_null, valid


def union(values: pa.Array, segments: Segments, column: Column) -> pa.Array:
    """The union. Raises InvalidRequestError for bytes that are no bitmap, or if the type cannot hold the union."""
    known = valid(values)
    found = at_or_null(values, segments.first(known))
    several = np.flatnonzero(segments.sums(known) > 1)
    if not len(several):
        return found
    starts, stops = segments.starts[several], (segments.starts + segments.lengths)[several]
    made = pa.array(
        [
            _union([one for one in values[start:stop].to_pylist() if one is not None], column)
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ],
        values.type,
    )
    at = np.arange(len(found))
    at[several] = len(found) + np.arange(len(several))
    return pa.concat_arrays([found, made]).take(pa.array(at))


def _union(blobs: list[bytes], column: Column) -> bytes:
    whole = _read(blobs[0], column).library_copy()
    for blob in blobs[1:]:
        whole |= _read(blob, column).library_copy()
    written: bytes = Bitmap.optimized(whole).data
    limit = column.type.length
    if limit is not None and len(written) > limit:
        raise InvalidRequestError(
            f"column {column.name}: expected a bitmap that {column.type} can hold, found {len(written)} bytes"
        )
    return written


def _read(blob: bytes, column: Column) -> Bitmap:
    try:
        bitmap = read_bitmap(memoryview(blob), column.name)
        whole = len(bitmap.data) == len(blob)
    except CorruptFileError:
        whole = False
    if not whole:
        raise InvalidRequestError(
            f"column {column.name}: expected a serialized 32-bit Roaring bitmap, found {len(blob)} other bytes"
        )
    return bitmap
