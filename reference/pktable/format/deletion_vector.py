"""Deletion vectors: which positions of one data file are deleted, and the bytes they are stored as.

A vector is a set of positions, kept as roaring bitmaps of 32 bits under the high half of the position; a
vector of the 32-bit kind has the one under 0. Both kinds store a length, a magic that tells them apart,
the bitmaps and a CRC-32. The CRC is checked first, because the bitmap library is then given only what
some writer meant; what the library read must serialise to as many bytes as it was given.

Clauses: DV-1, DVF-2, DVF-3, DVF-4, DVF-5, DVF-6.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pyroaring import BitMap

from pktable.format.roaring import fill_mask

Positions = npt.NDArray[np.int64]

MAGIC_32: Final = struct.pack(">i", 1581511376)
MAGIC_64: Final = struct.pack("<i", 1681511377)
FRAME_BYTES: Final = 8  # of a stored vector that its length does not count: length and CRC
GREATEST_POSITION: Final = {32: (1 << 31) - 1, 64: (1 << 48) - 1}
"""The format's limit for 32 bits; for 64 bits ours, beyond any file, so that bitmaps stay countable."""

FEW: Final = 4096  # positions that are kept as an array too, because that is faster to search

_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct("<q")
_KEY: Final = struct.Struct("<i")


class DeletionVector:
    """An immutable set of positions in one data file. ``bits``: the kind it is stored as, 32 or 64.

    Clauses: DV-1, DVF-4.
    """

    def __init__(self, bitmaps: dict[int, Any], bits: int) -> None:
        """Take ownership of ``bitmaps``, by high half of the position, ascending, none of them empty."""
        self._bitmaps = bitmaps
        self.bits = bits

    @classmethod
    def from_positions(cls, positions: npt.NDArray[Any] | Iterable[int], bits: int = 32) -> DeletionVector:
        """Return the vector of ``positions``, in any order.

        Raises InvalidRequestError for a position beyond the kind's limit.
        """
        assert bits in GREATEST_POSITION
        if isinstance(positions, np.ndarray):
            found: Positions = positions.astype(np.int64, copy=False)
        else:
            found = np.fromiter(positions, np.int64)
        if not len(found):
            return cls({}, bits)
        least, greatest = int(found.min()), int(found.max())
        if least < 0 or greatest > GREATEST_POSITION[bits]:
            raise InvalidRequestError(
                f"positions of a {bits}-bit vector: expected 0 to {GREATEST_POSITION[bits]}, "
                f"found {least} to {greatest}"
            )
        if greatest < 1 << 32:
            return cls({0: _bitmap(found)}, bits)
        highs = found >> 32
        return cls({int(high): _bitmap(found[highs == high]) for high in np.unique(highs)}, bits)

    @cached_property
    def cardinality(self) -> int:
        """How many positions are deleted."""
        return sum(len(bitmap) for bitmap in self._bitmaps.values())

    @cached_property
    def max_position(self) -> int:
        """The greatest deleted position, -1 if there is none."""
        if not self._bitmaps:
            return -1
        high = max(self._bitmaps)
        return int(high << 32 | self._bitmaps[high].max())

    def positions(self) -> Positions:
        """Return the deleted positions, ascending."""
        parts = [
            np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64) | high << 32
            for high, bitmap in self._bitmaps.items()
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @cached_property
    def _few(self) -> Positions | None:
        return self.positions() if self.cardinality <= FEW else None

    @cached_property
    def _serialized(self) -> dict[int, bytes]:
        return {high: bitmap.serialize() for high, bitmap in self._bitmaps.items()}

    def mask(self, row_count: int, start: int = 0) -> npt.NDArray[np.bool_]:
        """Return for ``row_count`` rows from ``start`` on whether each is deleted. Clauses: DV-1, RD-7."""
        mask = np.zeros(row_count, np.bool_)
        if self._few is not None:
            first, last = np.searchsorted(self._few, (start, start + row_count))
            mask[self._few[first:last] - start] = True
            return mask
        for high, data in self._serialized.items():
            fill_mask(mask, start - (high << 32), data)
        return mask

    def union(self, positions: npt.NDArray[Any] | Iterable[int]) -> DeletionVector:
        """Return a vector that also deletes ``positions``. Clauses: DV-11."""
        more = DeletionVector.from_positions(positions, self.bits)._bitmaps
        bitmaps = {
            high: self._bitmaps[high] | more[high]
            if high in self._bitmaps and high in more
            # A bitmap belongs to one vector only.
            else (self._bitmaps.get(high) or more[high]).copy()
            for high in sorted(self._bitmaps.keys() | more.keys())
        }
        return DeletionVector(bitmaps, self.bits)

    def difference(self, other: DeletionVector) -> Positions:
        """Return the positions, ascending, that this one deletes and ``other`` does not. Clauses: DV-11."""
        bitmaps = {
            high: bitmap - other._bitmaps[high] if high in other._bitmaps else bitmap
            for high, bitmap in self._bitmaps.items()
        }
        return DeletionVector(bitmaps, self.bits).positions()

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, (int, np.integer)) or position < 0:
            return False
        bitmap = self._bitmaps.get(int(position) >> 32)
        return bitmap is not None and int(position) & 0xFFFF_FFFF in bitmap

    def __eq__(self, other: object) -> bool:
        """Return whether both delete the same positions, whatever kind they are stored as."""
        return isinstance(other, DeletionVector) and self._bitmaps == other._bitmaps

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DeletionVector.from_positions({self.positions()[:8].tolist()}, bits={self.bits})"

    def __reduce__(self) -> tuple[Any, ...]:  # vectors travel to executors
        return _unpickled, (encode_vector(self),)


def _unpickled(blob: bytes) -> DeletionVector:
    return decode_vector(blob, at="a pickled vector")


def _bitmap(positions: Positions) -> Any:
    """Return the bitmap of the low halves. The library takes array.array many times faster than numpy's."""
    low = array.array("I", np.ascontiguousarray(positions.astype(np.uint32)).tobytes())
    assert low.itemsize == 4
    return BitMap(low)


def encode_vector(vector: DeletionVector) -> bytes:
    """Return the stored form of ``vector``, from its length to its CRC. Clauses: DVF-2, DVF-3, DVF-6."""
    bitmaps = {high: _optimized(bitmap) for high, bitmap in vector._bitmaps.items()}
    if vector.bits == 32:
        body = MAGIC_32 + bitmaps.get(0, EMPTY_BITMAP)
    else:
        count = max(bitmaps) + 1 if bitmaps else 0
        parts = [_KEY.pack(high) + bitmaps.get(high, EMPTY_BITMAP) for high in range(count)]
        body = b"".join([MAGIC_64, _COUNT.pack(count), *parts])
    return _LENGTH.pack(len(body)) + body + _CRC.pack(zlib.crc32(body))


def _optimized(bitmap: Any) -> bytes:
    copy = bitmap.copy()
    copy.run_optimize()
    data: bytes = copy.serialize()
    return data


EMPTY_BITMAP: Final = _optimized(BitMap())


def decode_vector(blob: bytes, *, at: str, cardinality: int | None = None) -> DeletionVector:
    """Return the vector that ``blob`` holds, which is all of it, from length to CRC. Raises CorruptFileError.

    ``cardinality``: what the index manifest says, where it does. Clauses: DVF-2 to DVF-5.
    """
    if len(blob) < FRAME_BYTES + len(MAGIC_32):
        raise CorruptFileError("vector", at=at, expected="12 bytes or more", found=len(blob))
    (length,) = _LENGTH.unpack_from(blob)
    if length != len(blob) - FRAME_BYTES:
        raise CorruptFileError("vector length", at=at, expected=len(blob) - FRAME_BYTES, found=length)
    body = memoryview(blob)[_LENGTH.size : -_CRC.size]
    (checksum,) = _CRC.unpack_from(blob, len(blob) - _CRC.size)
    if checksum != zlib.crc32(body):
        raise CorruptFileError("vector checksum", at=at, expected=checksum, found=zlib.crc32(body))
    magic, payload = bytes(body[:4]), body[4:]
    if magic == MAGIC_32:
        vector = _decode_32(payload, at)
    elif magic == MAGIC_64:
        vector = _decode_64(payload, at)
    else:
        expected = f"{MAGIC_32.hex()} or {MAGIC_64.hex()}"
        raise CorruptFileError("vector magic", at=at, expected=expected, found=magic.hex())
    if vector.max_position > GREATEST_POSITION[vector.bits]:
        limit = GREATEST_POSITION[vector.bits]
        raise CorruptFileError(
            "vector position", at=at, expected=f"at most {limit}", found=vector.max_position
        )
    if cardinality is not None and cardinality != vector.cardinality:
        raise CorruptFileError("vector cardinality", at=at, expected=cardinality, found=vector.cardinality)
    return vector


def _decode_32(payload: memoryview, at: str) -> DeletionVector:
    bitmap, size = _read_bitmap(payload, at)
    if size != len(payload):
        raise CorruptFileError("bitmap length", at=at, expected=size, found=len(payload))
    return DeletionVector({0: bitmap} if bitmap else {}, 32)


def _decode_64(payload: memoryview, at: str) -> DeletionVector:
    if len(payload) < _COUNT.size:
        raise CorruptFileError("bitmap count", at=at, expected=f"{_COUNT.size} bytes", found=len(payload))
    (count,) = _COUNT.unpack_from(payload)
    least = _KEY.size + len(EMPTY_BITMAP)
    if not 0 <= count <= (len(payload) - _COUNT.size) // least:
        raise CorruptFileError(
            "bitmap count", at=at, expected=f"at most {len(payload) // least}", found=count
        )
    offset, previous = _COUNT.size, -1
    bitmaps: dict[int, Any] = {}
    for _ in range(count):
        if len(payload) - offset < least:
            raise CorruptFileError(
                "bitmap", at=at, expected=f"{least} bytes or more", found=len(payload) - offset
            )
        (high,) = _KEY.unpack_from(payload, offset)
        if high <= previous:
            raise CorruptFileError("bitmap key", at=at, expected=f"above {previous}", found=high)
        bitmap, size = _read_bitmap(payload[offset + _KEY.size :], at)
        if bitmap:
            bitmaps[high] = bitmap
        offset, previous = offset + _KEY.size + size, high
    if offset != len(payload):
        raise CorruptFileError("bitmaps length", at=at, expected=offset, found=len(payload))
    return DeletionVector(bitmaps, 64)


def _read_bitmap(data: Any, at: str) -> tuple[Any, int]:
    """Return the bitmap at the start of ``data`` and its size in bytes."""
    try:
        bitmap = BitMap.deserialize(data)
        written = bitmap.serialize()
    except Exception as error:  # whatever the library raises on a damaged bitmap
        raise CorruptFileError("bitmap", at=at, expected="a portable Roaring bitmap", found=error) from None
    if data[: len(written)] != written:
        raise CorruptFileError("bitmap", at=at, expected="the bytes of what they mean", found="other bytes")
    return bitmap, len(written)
