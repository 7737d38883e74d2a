"""Read the deletion vectors of a DV index file without `pktable`'s codec.

Written from the clauses alone, so that a codec that writes and reads the same mistake is found.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pyroaring import BitMap

MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)


@check
@covers("DVF-1", "DVF-2", "DVF-3", "DVF-4", "DVF-9", "DVF-10", "DVF-11", "DVF-13")
def stored_vectors(data: bytes, ranges: Sequence[Any]) -> dict[str, frozenset[int]]:
    """Return the positions that a DV index file stores per data file. Raises CheckFailed.

    ``ranges``: those of the index manifest, with data_file, offset_bytes, length_bytes and cardinality.
    """
    if data[:1] != b"\1":
        fail(f"version: expected 1, found {data[:1]!r}")
    found = {}
    for place in ranges:
        offset = place.offset_bytes
        (length,) = struct.unpack_from(">i", data, offset)
        if not 0 <= length <= len(data) - offset - 8:
            fail(f"length of a vector: expected up to {len(data) - offset - 8}, found {length}")
        body = data[offset + 4 : offset + 4 + length]
        (checksum,) = struct.unpack_from(">I", data, offset + 4 + length)
        if checksum != zlib.crc32(body):
            fail(f"checksum of {place}: expected {zlib.crc32(body)}, found {checksum}")
        framed = body[:4] == MAGIC_64
        if not framed and body[:4] != MAGIC_32:
            fail(f"magic of a vector: expected {MAGIC_32!r} or {MAGIC_64!r}, found {body[:4]!r}")
        if place.length_bytes != length + 8 * framed:
            fail(f"length of {place}: found {length + 8 * framed}")
        bitmaps = _bitmaps_64(body[4:]) if framed else [(0, body[4:])]
        positions = frozenset(
            high << 32 | low for high, bitmap in bitmaps for low in BitMap.deserialize(bitmap)
        )
        if place.cardinality != len(positions):
            fail(f"cardinality of {place}: found {len(positions)} positions")
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
