"""Deletion vectors as an index file stores them, read without `pktable`'s codec.

Written from the clauses alone, so that a codec that is wrong both ways, writing and reading, is found.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pktable_spec.covers import covers
from pyroaring import BitMap

MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)


@covers("DVF-1", "DVF-2", "DVF-3", "DVF-4", "DVF-6")
def stored_vectors(data: bytes, ranges: Sequence[Any]) -> dict[str, frozenset[int]]:
    """Return the positions that an index file stores per data file. Raises AssertionError.

    ``ranges``: what the index manifest says, with data_file, offset_bytes, length_bytes and cardinality.
    """
    assert data[:1] == b"\1", f"index file: version 1, found {data[:1]!r}"
    found = {}
    for place in ranges:
        offset = place.offset_bytes
        (length,) = struct.unpack_from(">i", data, offset)
        assert 0 <= length <= len(data) - offset - 8, (
            f"index file: length of a vector up to {len(data)}, found {length}"
        )
        body = data[offset + 4 : offset + 4 + length]
        (checksum,) = struct.unpack_from(">I", data, offset + 4 + length)
        assert checksum == zlib.crc32(body), f"index file: checksum of {place}, found {checksum}"
        framed = body[:4] == MAGIC_64
        assert framed or body[:4] == MAGIC_32, f"index file: magic of a vector, found {body[:4]!r}"
        assert place.length_bytes == length + 8 * framed, f"index file: length {length}, {place}"
        bitmaps = _bitmaps_64(body[4:]) if framed else [(0, body[4:])]
        positions = frozenset(
            high << 32 | low for high, bitmap in bitmaps for low in BitMap.deserialize(bitmap)
        )
        assert place.cardinality == len(positions), f"index file: {len(positions)} positions, {place}"
        found[place.data_file] = positions
    return found


def _bitmaps_64(body: bytes) -> Iterator[tuple[int, bytes]]:
    (count,) = struct.unpack_from("<q", body)
    offset = 8
    for _ in range(count):
        (high,) = struct.unpack_from("<i", body, offset)
        bitmap = BitMap.deserialize(body[offset + 4 :])
        yield high, body[offset + 4 :]
        offset += 4 + len(bitmap.serialize())
