"""Bloom filters as Hadoop writes them, which Hudi stores for the keys of its base files.

A simple filter is, in big-endian integers, -1, the number of hashes, the kind of hash (1: Murmur), the number of bits,
and the bits, lowest first. A dynamic filter is the same head, then the keys per row, the keys added to the last row,
the number of rows, and each row as a simple filter. Filters are stored as base64 text.

The hash is Murmur2 with a quirk of Hadoop's: the up to three bytes behind the last whole word are signed. Hash 0 has
the seed 0, each other the hash before it as its seed.

A key may be in a filter if all its bits are set. A filter never misses a key that was added.

We read both forms, and write simple ones sized for the keys they hold. Hudi's default filter, sized for 60,000 keys at
one in a billion, takes 431 KB for any block.

Clauses: LOG-13, LOG-14.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError, InvalidRequestError

SIMPLE, DYNAMIC = "SIMPLE", "DYNAMIC_V0"
_HEAD: Final = struct.Struct(">iibi")
_THREE_INTS: Final = struct.Struct(">iii")
NEW_FORM: Final = -1
MURMUR: Final = 1
MOST_HASHES: Final = 1 << 10
MOST_BITS: Final = 1 << 31
MULTIPLIER: Final = np.uint32(0x5BD1E995)
WORD: Final = 4
KEYS_AT_ONCE: Final = 1 << 14

Bits = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SimpleFilter:
    """A filter of ``bit_count`` bits and ``hash_count`` hashes. ``bits``: packed, lowest first."""

    bit_count: int
    hash_count: int
    bits: Bits

    def among(self, keys: HashedKeys, numbers: Numbers) -> Numbers:
        """Return those of the keys ``numbers`` that may have been added. None that was is left out. Clauses: LOG-14."""
        for i in range(self.hash_count):
            if not len(numbers):
                break
            places = keys.hash(i)[numbers] % self.bit_count
            numbers = numbers[(self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 1]
        return numbers

    def may_contain(self, keys: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return for each key False only if it was never added. Clauses: LOG-14."""
        return _mask(self, keys)

    def union(self, other: SimpleFilter) -> SimpleFilter:
        """Return the filter of the keys of both. Raises InvalidRequestError unless both have the same shape."""
        if (self.bit_count, self.hash_count) != (other.bit_count, other.hash_count):
            raise InvalidRequestError("bloom filters of different sizes have no union")
        return SimpleFilter(self.bit_count, self.hash_count, self.bits | other.bits)

    def encode(self) -> bytes:
        """Return the filter as Hadoop writes it. Clauses: LOG-13."""
        return _HEAD.pack(NEW_FORM, self.hash_count, MURMUR, self.bit_count) + self.bits.tobytes()


@dataclass(frozen=True)
class DynamicFilter:
    """A filter that grew by rows of the same shape. A key is in any one of them. ``rows``: one or more."""

    keys_per_row: int
    last_row_keys: int
    rows: tuple[SimpleFilter, ...]

    def among(self, keys: HashedKeys, numbers: Numbers) -> Numbers:
        """Return those of the keys ``numbers`` that may have been added. None that was is left out. Clauses: LOG-14."""
        return np.unique(np.concatenate([row.among(keys, numbers) for row in self.rows]))

    def may_contain(self, keys: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return for each key False only if it was never added. Clauses: LOG-14."""
        return _mask(self, keys)

    def encode(self) -> bytes:
        """Return the filter as Hadoop writes it. Clauses: LOG-13."""
        first = self.rows[0]
        return b"".join(
            (
                _HEAD.pack(NEW_FORM, first.hash_count, MURMUR, first.bit_count),
                _THREE_INTS.pack(self.keys_per_row, self.last_row_keys, len(self.rows)),
                *(row.encode() for row in self.rows),
            )
        )


Filter = SimpleFilter | DynamicFilter


def _mask(found: Filter, keys: Sequence[bytes]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(len(keys), np.bool_)
    mask[found.among(HashedKeys(keys), np.arange(len(keys)))] = True
    return mask


def filter_of(keys: Sequence[bytes], *, sized_for: int, false_positives: float) -> SimpleFilter:
    """Return the simple filter of ``keys``.

    ``sized_for``: the number of keys at which one absent key in ``1 / false_positives`` passes. Raises
    InvalidRequestError for an empty key, which Hadoop's filters cannot hold. Clauses: LOG-13, LOG-14.
    """
    assert sized_for > 0
    assert 0 < false_positives < 1
    bit_count = math.ceil(sized_for * -math.log(false_positives) / math.log(2) ** 2)
    hash_count = math.ceil(math.log(2) * bit_count / sized_for)
    return filter_of_shape(HashedKeys(keys), bit_count, hash_count)


def capacity(filter_: SimpleFilter, false_positives: float) -> int:
    """Return how many keys a filter can have until it admits that part of the absent ones."""
    return round(filter_.bit_count * math.log(2) ** 2 / -math.log(false_positives))


def filter_of_shape(keys: HashedKeys, bit_count: int, hash_count: int) -> SimpleFilter:
    """Return the simple filter of ``keys`` with so many bits and hashes. Clauses: LOG-13."""
    bits = np.zeros((bit_count + 7) // 8, np.uint8)
    for i in range(hash_count):
        places = keys.hash(i) % bit_count
        np.bitwise_or.at(bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
    return SimpleFilter(bit_count, hash_count, bits)


def decode_filter(text: bytes, kind: str, *, at: str) -> Filter:
    """Return a stored filter. ``text``: base64; ``kind``: SIMPLE or DYNAMIC_V0. Raises CorruptFileError.

    Clauses: LOG-13.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptFileError("bloom filter", at=at, expected="base64", found=error) from None
    if kind == SIMPLE:
        return decode_simple(data, at=at)
    if kind != DYNAMIC:
        raise CorruptFileError("bloom filter", at=at, expected=f"{SIMPLE} or {DYNAMIC}", found=kind)
    return _dynamic(data, at)


def decode_simple(data: bytes, *, at: str) -> SimpleFilter:
    """Return a simple filter, and nothing behind it. Raises CorruptFileError. Clauses: LOG-13."""
    found, end = _simple(data, 0, at)
    if end != len(data):
        raise CorruptFileError("bloom filter", at=at, expected=f"{end} bytes", found=len(data))
    return found


def _dynamic(data: bytes, at: str) -> DynamicFilter:
    _shape(data, 0, at)
    if len(data) < _HEAD.size + _THREE_INTS.size:
        raise CorruptFileError(
            "bloom filter", at=at, expected="the number of rows", found=f"{len(data)} bytes"
        )
    per_row, last, count = _THREE_INTS.unpack_from(data, _HEAD.size)
    offset = _HEAD.size + _THREE_INTS.size
    if not 1 <= count <= (len(data) - offset) // _HEAD.size:
        raise CorruptFileError("bloom filter rows", at=at, expected="a number of rows that fit", found=count)
    rows = []
    for _ in range(count):
        row, offset = _simple(data, offset, at)
        rows.append(row)
    if offset != len(data):
        raise CorruptFileError("bloom filter", at=at, expected=f"{offset} bytes", found=len(data))
    return DynamicFilter(per_row, last, tuple(rows))


def _simple(data: bytes, offset: int, at: str) -> tuple[SimpleFilter, int]:
    hash_count, bit_count = _shape(data, offset, at)
    start, size = offset + _HEAD.size, (bit_count + 7) // 8
    if len(data) - start < size:
        raise CorruptFileError("bloom filter", at=at, expected=f"{size} bytes", found=len(data) - start)
    return SimpleFilter(bit_count, hash_count, np.frombuffer(data, np.uint8, size, start)), start + size


def _shape(data: bytes, offset: int, at: str) -> tuple[int, int]:
    """Return the numbers of hashes and of bits in the head at ``offset``. Raises CorruptFileError."""
    if len(data) - offset < _HEAD.size:
        raise CorruptFileError(
            "bloom filter", at=at, expected=f"{_HEAD.size} bytes", found=len(data) - offset
        )
    form, hash_count, hash_kind, bit_count = _HEAD.unpack_from(data, offset)
    if form != NEW_FORM or hash_kind != MURMUR:
        raise InvalidRequestError(
            f"{at}: bloom filters of form {form} with hash {hash_kind} are not supported: "
            f"expected {NEW_FORM} and {MURMUR} (Murmur)"
        )
    if not 0 < hash_count <= MOST_HASHES or not 0 < bit_count < MOST_BITS:
        raise CorruptFileError(
            "bloom filter", at=at, expected="hashes and bits", found=f"{hash_count} and {bit_count}"
        )
    return hash_count, bit_count


class HashedKeys:
    """Keys with their hashes, which do not depend on a filter, so that many filters share them.

    ``keys``: bytes, or a pyarrow.Array of them. Raises InvalidRequestError for an empty key, which Hadoop's filters
    cannot hold.
    """

    def __init__(self, keys: Sequence[bytes] | pa.Array) -> None:
        stored = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary())
        self.count = len(stored)
        if pc.index(pc.binary_length(stored), 0).as_py() >= 0:
            raise InvalidRequestError("a bloom filter of Hadoop's holds no empty key")
        starts = range(0, len(stored), KEYS_AT_ONCE)
        self._parts = [_Murmur(stored.slice(start, KEYS_AT_ONCE)) for start in starts]
        self._last: npt.NDArray[np.uint32] = np.zeros(len(keys), np.uint32)
        self._hashes: list[npt.NDArray[np.int64]] = []

    def hash(self, number: int) -> npt.NDArray[np.int64]:
        """Return the hash ``number``, from 0 on, of each key: not negative, before the number of bits is known."""
        while len(self._hashes) <= number:
            start, found = 0, []
            for part in self._parts:
                end = start + len(part.lengths)
                found.append(part.of(self._last[start:end]))  # the hash before is the seed of the next
                start = end
            self._last = np.concatenate(found) if found else self._last
            self._hashes.append(np.abs(self._last.view(np.int32).astype(np.int64)))
        return self._hashes[number]


class _Murmur:
    """Hadoop's Murmur hash of many keys at once, for any seeds."""

    def __init__(self, keys: Any) -> None:
        _, offsets, data = keys.buffers()
        places = np.frombuffer(offsets, np.int32, len(keys) + 1, 4 * keys.offset)
        self.lengths = lengths = np.diff(places).astype(np.int64)
        width = (int(lengths.max()) + WORD - 1) // WORD * WORD
        padded = np.zeros((len(keys), width), np.uint8)
        padded[np.arange(width) < lengths[:, None]] = np.frombuffer(data, np.uint8)[places[0] : places[-1]]
        words = padded.view("<u4").T.astype(np.uint32)
        words *= MULTIPLIER
        words ^= words >> 24
        words *= MULTIPLIER
        self._words, self._whole = words, lengths // WORD
        self._rest = lengths % WORD
        self._end = np.zeros(len(keys), np.uint32)
        rows = np.arange(len(keys))
        for back in range(1, WORD):  # signed, and in the order opposite to that of whole words
            byte = padded[rows, np.maximum(lengths - back, 0)].view(np.int8).astype(np.int32)
            shifted = (byte << (8 * (back - 1))).view(np.uint32)
            self._end ^= np.where(self._rest >= back, shifted, np.uint32(0))

    def of(self, seeds: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the hash of each key with its seed."""
        found = seeds ^ self.lengths.astype(np.uint32)
        for i, words in enumerate(self._words):
            found = np.where(i < self._whole, found * MULTIPLIER ^ words, found)
        found = np.where(self._rest > 0, (found ^ self._end) * MULTIPLIER, found)
        found ^= found >> 13
        found *= MULTIPLIER
        found ^= found >> 15
        return found
