"""Which bucket a row lives in: Murmur3 over the words of the BinaryRow of its bucket key.

Of a fixed number of buckets the hash alone decides; dynamic ones are given to hashes in the order in which these come.
Written from the clauses alone, one Python integer at a time. Columns are of INT and STRING, and of a DECIMAL or
TIMESTAMP that does not fit into the 8 bytes of its field.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from pktable_spec.interface import BucketId, Key, Row, Scalar, Shape

SEED = 42
_WORD = 0xFFFFFFFF


class Apart(NamedTuple):
    """A value whose field has a number and the offset of its ``body``, whole words of the variable part."""

    number: int
    body: bytes


KeyValue: TypeAlias = int | str | Apart
"""A value of a key as it is stored: of INT, of STRING, or of another type in `Apart`."""
SIZED: Final = re.compile(r"(DECIMAL|TIMESTAMP)\((\d+)")


def stored(value: Scalar, type: str) -> KeyValue:
    """Return a value that is not null as it is stored; those of other types than INT are texts. Clauses: META-80."""
    sized = SIZED.match(type)
    if sized is None:
        assert isinstance(value, int | str)
        return value
    root, size = sized[1], int(sized[2])
    number = int(str(value).replace(".", ""))
    if root == "TIMESTAMP":
        assert size > 3, "others are int64"
        return Apart(number % 10**6, struct.pack("<q", number // 10**6))
    assert size > 18, "others are int64"
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return Apart(length, number.to_bytes(length, "big", signed=True).ljust(16, b"\0"))


def binary_row(values: Sequence[KeyValue]) -> bytes:
    """Return the BinaryRow of ``values``, of which none is null, without the arity prefix.

    Clauses: META-4.
    """
    null_bits_size = (len(values) + 63 + 8) // 64 * 8
    variable_start = null_bits_size + 8 * len(values)
    slots, variable = b"", b""
    for value in values:
        if isinstance(value, int):
            slots += struct.pack("<i4x", value)
            continue
        if isinstance(value, Apart):
            slots += struct.pack("<ii", value.number, variable_start + len(variable))
            variable += value.body
            continue
        text = value.encode()
        if len(text) <= 7:
            slots += text.ljust(7, b"\0") + bytes([0x80 | len(text)])
        else:
            slots += struct.pack("<ii", len(text), variable_start + len(variable))
            variable += text + b"\0" * (-len(text) % 8)
    return b"\0" * null_bits_size + slots + variable


def murmur(data: bytes) -> int:
    """Return the signed 32-bit Murmur3 of the little-endian words of ``data``. Clauses: TBL-5."""
    assert len(data) % 4 == 0, "a BinaryRow is whole words"
    state = SEED
    for (word,) in struct.iter_unpack("<I", data):
        word = word * 0xCC9E2D51 & _WORD
        word = _rotate(word, 15) * 0x1B873593 & _WORD
        state = (_rotate(state ^ word, 13) * 5 + 0xE6546B64) & _WORD
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def bucket_number(key: Sequence[KeyValue], bucket_count: int) -> int:
    """Return the bucket of a bucket key. Clauses: TBL-5."""
    # Java's remainder has the sign of the dividend, so its absolute value is that of the absolute hash.
    return abs(murmur(binary_row(key))) % bucket_count


def bucket_of(shape: Shape, row: Row, bucket_count: int) -> BucketId:
    """Return the partition and bucket a row lives in. Clauses: TBL-3, TBL-5, TBL-10, TBL-15."""
    types = dict(shape.columns)
    values = zip(shape.trimmed_key, shape.pick(row, shape.trimmed_key), strict=True)
    key = [stored(value, types[name]) for name, value in values if value is not None]
    return shape.pick(row, shape.partition_keys), bucket_number(key, bucket_count)


class DynamicBuckets:
    """The dynamic buckets of a table: which hashes they have. A row that is asked about is written.

    ``room``: how many hashes a bucket is filled with. ``assigners``: how many share the buckets of a partition.
    """

    def __init__(self, shape: Shape, room: int, assigners: int = 1) -> None:
        self._shape, self._room, self._assigners = shape, room, assigners
        self.partitions: dict[Key, dict[int, int]] = {}

    def bucket_of(self, row: Row) -> BucketId:
        """Return the partition and bucket of a row, which has them from now on. Clauses: BKT-4, BKT-5, BKT-7."""
        partition = self._shape.pick(row, self._shape.partition_keys)
        key = [value for value in self._shape.pick(row, self._shape.trimmed_key) if value is not None]
        known, hashed = self.partitions.setdefault(partition, {}), murmur(binary_row(key))
        if hashed not in known:
            known[hashed] = self._with_room(list(known.values()), abs(hashed) % self._assigners)
        return partition, known[hashed]

    def _with_room(self, taken: Sequence[int], assigner: int) -> int:
        for bucket in sorted(set(taken)):
            if bucket % self._assigners == assigner and taken.count(bucket) < self._room:
                return bucket
        bucket = assigner
        while bucket in taken:
            bucket += self._assigners
        return bucket

    def forget(self, replaced: Callable[[Key], bool]) -> None:
        """Forget the keys of the partitions that an overwrite replaces. Clauses: BKT-11."""
        self.partitions = {one: known for one, known in self.partitions.items() if not replaced(one)}

    def copy(self) -> DynamicBuckets:
        """Return the same buckets, that rows may be asked about without being written."""
        copied = DynamicBuckets(self._shape, self._room, self._assigners)
        copied.partitions = {partition: dict(known) for partition, known in self.partitions.items()}
        return copied

    def of(self, partitions: Collection[Key]) -> dict[Key, dict[int, int]]:
        """Return the buckets of the hashes of some partitions."""
        return {partition: dict(self.partitions.get(partition, {})) for partition in partitions}
