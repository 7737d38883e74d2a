"""Encode, decode, query and extend deletion vectors, the sets of deleted positions of data files.

A vector is a set of positions. It consists of Roaring bitmaps of 32 bits, one for each high half of a position; a
vector of the 32-bit kind has only the one for high half 0. The stored form of both kinds has a length, a magic that
identifies the kind, the bitmaps and a CRC-32.

In memory a `DeletionVector` keeps its stored bitmaps, checked, so that positions which nobody reads cost nothing. A
`VectorBuilder` adds positions to a vector and returns a new one.

Clauses: DV-1, DVF-2, DVF-3, DVF-4, DVF-5, DVF-6.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.vectors.roaring import EMPTY_DATA, Bitmap, read_bitmap
from pktable.format.vectors.roaring_builder import BitmapBuilder

Positions = npt.NDArray[np.int64]

MAGIC_32: Final = struct.pack(">i", 1581511376)
MAGIC_64: Final = struct.pack("<i", 1681511377)
FRAME_BYTES: Final = 8  # the length field and the CRC of a stored vector, which its length does not count
GREATEST_POSITION: Final = {32: (1 << 31) - 1, 64: (1 << 48) - 1}
"""The limit of the format for 32 bits. For 64 bits it is ours, larger than any file, to bound the number of bitmaps."""

LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct("<q")
_KEY: Final = struct.Struct("<i")


class DeletionVector:
    """An immutable set of positions in one data file. ``bits``: the kind it is stored as, 32 or 64.

    Clauses: DV-1, DVF-4.
    """

    def __init__(self, bitmaps: dict[int, Bitmap], bits: int) -> None:
        """``bitmaps``: by the high half of the position, ascending, none of them empty."""
        self.bitmaps = bitmaps
        self.bits = bits

    @classmethod
    def from_positions(cls, positions: npt.NDArray[Any] | Iterable[int], bits: int = 32) -> DeletionVector:
        """Return the vector of ``positions``, in any order.

        Raises InvalidRequestError for a position beyond the kind's limit.
        """
        assert bits in GREATEST_POSITION
        return cls({}, bits).union(positions)

    @cached_property
    def cardinality(self) -> int:
        """The number of deleted positions."""
        return sum(bitmap.cardinality for bitmap in self.bitmaps.values())

    @cached_property
    def max_position(self) -> int:
        """The greatest deleted position, -1 if there is none."""
        if not self.bitmaps:
            return -1
        high = max(self.bitmaps)
        return high << 32 | self.bitmaps[high].greatest

    def positions(self) -> Positions:
        """Return the deleted positions, ascending."""
        parts = [bitmap.positions() + np.int64(high << 32) for high, bitmap in self.bitmaps.items()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def mask(self, row_count: int, start: int = 0) -> npt.NDArray[np.bool_]:
        """Return, for ``row_count`` rows from position ``start`` on, whether each is deleted. Clauses: DV-1, RD-7."""
        mask = np.zeros(row_count, np.bool_)
        for high, bitmap in self.bitmaps.items():
            bitmap.fill(mask, start - (high << 32))
        return mask

    def words(self) -> npt.NDArray[np.int64]:
        """Return a bitset up to the greatest deleted position: position ``i`` is bit ``i & 63`` of word ``i >> 6``."""
        words = np.zeros((self.max_position + 64) // 64, np.int64)
        for high, bitmap in self.bitmaps.items():
            bitmap.fill_bits(words.view(np.uint8)[high << 29 :])
        return words

    def union(self, positions: npt.NDArray[Any] | Iterable[int]) -> DeletionVector:
        """Return a vector that also deletes ``positions``, in any order. Clauses: DV-11.

        Raises InvalidRequestError for a position beyond the kind's limit.
        """
        builder = VectorBuilder(self)
        builder.mark(_ascending(positions))
        return builder.vector()

    def difference(self, other: DeletionVector) -> Positions:
        """Return the positions, ascending, that this vector deletes and ``other`` does not. Clauses: DV-11."""
        return np.setdiff1d(self.positions(), other.positions(), assume_unique=True)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, (int, np.integer)) or position < 0:
            return False
        return bool(self.mask(1, int(position))[0])

    def __eq__(self, other: object) -> bool:
        """Return whether both delete the same positions; their kinds may differ."""
        return isinstance(other, DeletionVector) and np.array_equal(self.positions(), other.positions())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DeletionVector.from_positions({self.positions()[:8].tolist()}, bits={self.bits})"

    def __reduce__(self) -> tuple[Any, ...]:  # vectors are sent to Spark executors
        return _unpickled, (encode_vector(self),)


class VectorBuilder:
    """A deletion vector under construction, of the kind of ``base``, whose positions it begins with.

    Clauses: DV-1, DV-11, DVF-4.
    """

    def __init__(self, base: DeletionVector) -> None:
        self._bits = base.bits
        self._builders = {high: BitmapBuilder(bitmap) for high, bitmap in base.bitmaps.items()}

    def mark(self, positions: Positions) -> int:
        """Delete ``positions``, ascending and unique; return how many were not deleted before.

        Raises InvalidRequestError for a position beyond the kind's limit.
        """
        if not len(positions):
            return 0
        self._expect_inside(int(positions[0]), int(positions[-1]))
        if positions[-1] < 1 << 32:
            return self._builder(0).add(positions)
        new = 0
        for high in range(int(positions[0]) >> 32, (int(positions[-1]) >> 32) + 1):
            first, end = np.searchsorted(positions, (high << 32, high + 1 << 32))
            if first < end:
                new += self._builder(high).add(positions[first:end] - (high << 32))
        return new

    def mark_mask(self, mask: npt.NDArray[np.bool_], start: int = 0) -> int:
        """Delete ``start + i`` for every True ``mask[i]``; return how many were not deleted before.

        Raises InvalidRequestError for a position beyond the kind's limit.
        """
        if start < 0 or bool(mask[max(0, GREATEST_POSITION[self._bits] + 1 - start) :].any()):
            self._expect_inside(start, start + len(mask) - 1)
        new = at = 0
        while at < len(mask):
            high, low = divmod(start + at, 1 << 32)
            part = mask[at : at + (1 << 32) - low]
            if part.any():
                new += self._builder(high).add_mask(part, low)
            at += len(part)
        return new

    def _expect_inside(self, least: int, greatest: int) -> None:
        limit = GREATEST_POSITION[self._bits]
        if least < 0 or greatest > limit:
            raise InvalidRequestError(
                f"positions of a {self._bits}-bit vector: expected 0 to {limit}, found {least} to {greatest}"
            )

    def _builder(self, high: int) -> BitmapBuilder:
        return self._builders.setdefault(high, BitmapBuilder())

    def vector(self) -> DeletionVector:
        """Return the vector of all positions deleted so far."""
        return DeletionVector(
            {high: self._builders[high].build() for high in sorted(self._builders)}, self._bits
        )


def _ascending(positions: npt.NDArray[Any] | Iterable[int]) -> Positions:
    """Return ``positions`` ascending and unique."""
    if isinstance(positions, np.ndarray):
        found: Positions = positions.astype(np.int64, copy=False)
    else:
        found = np.fromiter(positions, np.int64)
    return found if bool(np.all(found[1:] > found[:-1])) else np.unique(found)


def _unpickled(blob: bytes) -> DeletionVector:
    return decode_vector(blob, at="a pickled vector")


def encode_vector(vector: DeletionVector) -> bytes:
    """Return the stored form of ``vector``, from its length to its CRC. Clauses: DVF-2, DVF-3, DVF-6."""
    return b"".join(stored_parts(vector))


def stored_parts(vector: DeletionVector) -> list[Any]:
    """Return the stored form of ``vector`` in parts, without copying the bitmaps."""
    bitmaps = {high: bitmap.run_optimized().data for high, bitmap in vector.bitmaps.items()}
    if vector.bits == 32:
        body: list[Any] = [MAGIC_32, bitmaps.get(0, EMPTY_DATA)]
    else:
        count = max(bitmaps, default=-1) + 1
        body = [MAGIC_64, _COUNT.pack(count)]
        for high in range(count):
            body += [_KEY.pack(high), bitmaps.get(high, EMPTY_DATA)]
    checksum = 0
    for part in body:
        checksum = zlib.crc32(part, checksum)
    return [LENGTH.pack(sum(map(len, body))), *body, _CRC.pack(checksum)]


def decode_vector(blob: bytes | memoryview, *, at: str, cardinality: int | None = None) -> DeletionVector:
    """Return the vector that ``blob`` stores, from its length to its CRC with nothing after it.

    ``cardinality``: that in the index manifest, if there is one. Raises CorruptFileError.
    Clauses: DVF-2 to DVF-5, META-34.
    """
    if len(blob) < FRAME_BYTES + len(MAGIC_32):
        raise CorruptFileError("vector", at=at, expected="12 bytes or more", found=len(blob))
    (length,) = LENGTH.unpack_from(blob)
    if length != len(blob) - FRAME_BYTES:
        raise CorruptFileError("vector length", at=at, expected=len(blob) - FRAME_BYTES, found=length)
    body = memoryview(blob)[LENGTH.size : -_CRC.size]
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
    bitmap = read_bitmap(payload, at)
    if len(bitmap.data) != len(payload):
        raise CorruptFileError("bitmap length", at=at, expected=len(bitmap.data), found=len(payload))
    return DeletionVector({0: bitmap} if bitmap.cardinality else {}, 32)


def _decode_64(payload: memoryview, at: str) -> DeletionVector:
    if len(payload) < _COUNT.size:
        raise CorruptFileError("bitmap count", at=at, expected=f"{_COUNT.size} bytes", found=len(payload))
    (count,) = _COUNT.unpack_from(payload)
    least = _KEY.size + len(EMPTY_DATA)
    most = (len(payload) - _COUNT.size) // least
    if not 0 <= count <= most:
        raise CorruptFileError("bitmap count", at=at, expected=f"at most {most}", found=count)
    offset, previous = _COUNT.size, -1
    bitmaps: dict[int, Bitmap] = {}
    for _ in range(count):
        if len(payload) - offset < least:
            raise CorruptFileError(
                "bitmap", at=at, expected=f"{least} bytes or more", found=len(payload) - offset
            )
        (high,) = _KEY.unpack_from(payload, offset)
        if high <= previous:
            raise CorruptFileError("bitmap key", at=at, expected=f"above {previous}", found=high)
        bitmap = read_bitmap(payload[offset + _KEY.size :], at)
        if bitmap.cardinality:
            bitmaps[high] = bitmap
        offset, previous = offset + _KEY.size + len(bitmap.data), high
    if offset != len(payload):
        raise CorruptFileError("bitmaps length", at=at, expected=offset, found=len(payload))
    return DeletionVector(bitmaps, 64)
