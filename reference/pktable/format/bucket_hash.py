"""Compute the buckets of rows, whole columns at once: Murmur3 over the words of the BinaryRow of the bucket key.

1. The BinaryRows of a batch are laid out in one buffer, each on a boundary of 8 bytes: first every slot of fixed
   width, then the bytes of strings, binaries and wide decimals, copied by computed indices.
2. Rows with the same number of words are hashed together, word by word.

`binary_row.encode_row` encodes one row in the same way.

Clauses: TBL-5, META-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pktable.format import binary_row
from pktable.format.arrow_buffers import stored_values
from pktable.format.binary_row import DECIMAL_BYTES, INLINE_BYTES, INLINE_MARK, NANOS_PER_MILLI
from pktable.format.types import NANOS_PER, DataType, one_array

Column = Any  # pa.Array or pa.ChunkedArray
Longs = npt.NDArray[np.int64]

SEED: Final = 42
BATCH_ROWS: Final = 1 << 16  # bounds the memory of the indices of a copy


def bucket_of(
    columns: Sequence[Column], types: Sequence[DataType], bucket_count: int
) -> npt.NDArray[np.int32]:
    """Return the bucket of each row, from 0 to ``bucket_count`` - 1. Clauses: TBL-5."""
    if bucket_count == 1:
        return np.zeros(len(columns[0]), np.int32)
    hashes = hash_rows(columns, types).astype(np.int64)
    # Paimon takes the absolute value of Java's remainder, which is the remainder of the absolute value.
    return (np.abs(hashes) % bucket_count).astype(np.int32)


def hash_rows(columns: Sequence[Column], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """Return the hash of the BinaryRow of each row.

    ``columns``: one or more, of the same length, with ``types`` as their types. Clauses: TBL-5.
    """
    rows = len(columns[0])
    parts = [
        _hash_batch([one_array(column.slice(start, BATCH_ROWS)) for column in columns], types)
        for start in range(0, rows, BATCH_ROWS)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _hash_batch(columns: Sequence[Any], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    layout = _Layout(len(columns[0]), columns, types)
    words = layout.buffer.view("<u4")
    lengths = layout.lengths // 4
    if layout.uniform:
        return _murmur(words.reshape(len(lengths), -1))
    hashes = np.empty(len(lengths), np.int32)
    starts = layout.starts // 4
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _murmur(words[starts[rows, None] + np.arange(length)])
    return hashes


def _murmur(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Return the hash of each row of a matrix of words."""
    hashes = np.full(len(words), SEED, np.uint32)
    for i in range(words.shape[1]):
        mixed = words[:, i] * np.uint32(0xCC9E2D51)
        mixed = (mixed << np.uint32(15)) | (mixed >> np.uint32(17))
        hashes ^= mixed * np.uint32(0x1B873593)
        hashes = (hashes << np.uint32(13)) | (hashes >> np.uint32(19))
        hashes = hashes * np.uint32(5) + np.uint32(0xE6546B64)
    hashes ^= np.uint32(4 * words.shape[1])
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


class _Layout:
    """The BinaryRows of a batch in one buffer; row i is ``buffer[starts[i] : starts[i] + lengths[i]]``."""

    def __init__(self, rows: int, columns: Sequence[Any], types: Sequence[DataType]) -> None:
        forms = [binary_row.form_of(t) for t in types]
        self._header = binary_row.null_bytes(len(types))
        fixed = self._header + 8 * len(types)
        ragged = {i: _Ragged.of(columns[i], form) for i, form in enumerate(forms) if form in RAGGED}
        reserved = sum(binary_row.reserved_bytes(form) for form in forms)
        # The offset of the next variable value of each row, from the row's start.
        self._cursor: Longs = np.full(rows, fixed, np.int64)
        taken = [part.taken for part in ragged.values() if part.taken is not None]
        self.uniform = not taken
        self.lengths: Longs = np.full(rows, fixed + reserved, np.int64) + sum(taken)
        self.starts: Longs = np.cumsum(self.lengths) - self.lengths
        self.buffer: npt.NDArray[np.uint8] = np.zeros(int(self.lengths.sum()), np.uint8)
        self._longs = self.buffer.view("<i8")
        for i, (column, t, form) in enumerate(zip(columns, types, forms, strict=True)):
            nulls = _nulls(column)
            if form == binary_row.MILLIS_NANOS:
                slots = self._timestamps(column, nulls)
            elif form in RAGGED:
                slots = self._ragged(ragged[i], i, nulls)
            else:
                slots = _fixed(column, t, form)
                if nulls is not None:
                    slots = np.where(nulls, 0, slots)
            self._longs[(self.starts + self._header) // 8 + i] |= slots
            if nulls is not None:
                self.buffer[self.starts[nulls] + (i + 8) // 8] |= np.uint8(1 << (i & 7))

    def _timestamps(self, column: Any, nulls: npt.NDArray[np.bool_] | None) -> Longs:
        """Write the milliseconds; return the slots: the offset, and the nanoseconds in the low half."""
        millis, nanos = _millis_nanos(column)
        if nulls is not None:
            millis, nanos = np.where(nulls, 0, millis), np.where(nulls, 0, nanos)
        self._longs[(self.starts + self._cursor) // 8] = millis
        slots = (self._cursor << 32) | nanos
        self._cursor = self._cursor + 8
        return slots

    def _ragged(self, part: _Ragged, i: int, nulls: npt.NDArray[np.bool_] | None) -> Longs:
        """Write the bytes of a column; return its slots, without the bytes that are written into the slots."""
        if part.taken is None:  # wide decimals: every row has room for one, null or not
            slots = (self._cursor << 32) | part.lengths
            targets = self.starts + self._cursor
            self._cursor = self._cursor + DECIMAL_BYTES
        else:
            inline = part.lengths <= INLINE_BYTES
            marked = (part.lengths | INLINE_MARK) << 56  # the last byte of the slot
            slots = np.where(inline, marked, (self._cursor << 32) | part.lengths)
            if nulls is not None:
                slots = np.where(nulls, 0, slots)
            targets = self.starts + np.where(inline, self._header + 8 * i, self._cursor)
            self._cursor = self._cursor + part.taken
        part.copy_to(self.buffer, targets)
        return slots


RAGGED: Final = (binary_row.TEXT, binary_row.BYTES, binary_row.WIDE_DECIMAL)


class _Ragged:
    """A column of byte strings: ``data[offsets[i] : offsets[i] + lengths[i]]``, length 0 where null.

    ``taken``: bytes of each in the variable part, None for wide decimals, which all take the same.
    """

    def __init__(
        self, data: npt.NDArray[np.uint8], offsets: Longs, lengths: Longs, taken: Longs | None
    ) -> None:
        self.data, self.offsets, self.lengths, self.taken = data, offsets, lengths, taken

    @classmethod
    def of(cls, column: Any, form: int) -> _Ragged:
        return cls._of_decimals(column) if form == binary_row.WIDE_DECIMAL else cls._of_bytes(column)

    @classmethod
    def _of_bytes(cls, column: Any) -> _Ragged:
        rows = len(column)
        _, offset_buffer, data_buffer = column.buffers()
        bounds = np.frombuffer(offset_buffer, np.int32, rows + 1, 4 * column.offset).astype(np.int64)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
        lengths = np.diff(bounds)
        nulls = _nulls(column)
        if nulls is not None:
            lengths[nulls] = 0
        taken = np.where(lengths > INLINE_BYTES, (lengths + 7) // 8 * 8, 0)
        return cls(data, bounds[:-1], lengths, taken)

    @classmethod
    def _of_decimals(cls, column: Any) -> _Ragged:
        """Return decimals as big-endian two's complement, without leading bytes that only repeat the sign."""
        rows = len(column)
        stored = np.frombuffer(column.buffers()[1], np.uint8, 16 * rows, 16 * column.offset)
        big = np.ascontiguousarray(stored.reshape(rows, 16)[:, ::-1])
        sign = np.where(big[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        redundant = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 0x80)
        leading = np.minimum.accumulate(redundant, axis=1).sum(axis=1)
        offsets = np.arange(rows, dtype=np.int64) * 16 + leading
        lengths = 16 - leading
        nulls = _nulls(column)
        if nulls is not None:
            lengths[nulls] = 0
        return cls(big.reshape(-1), offsets, lengths, None)

    def copy_to(self, buffer: npt.NDArray[np.uint8], targets: Longs) -> None:
        """Copy the bytes of row i to ``targets[i]``, without a loop over rows."""
        total = int(self.lengths.sum())
        if total:
            before = np.cumsum(self.lengths) - self.lengths
            ordinal = np.arange(total)
            source = np.repeat(self.offsets - before, self.lengths) + ordinal
            buffer[np.repeat(targets - before, self.lengths) + ordinal] = self.data[source]


def _nulls(column: Any) -> npt.NDArray[np.bool_] | None:
    """Return for each row whether ``column`` is null, None if no row is."""
    if not column.null_count:
        return None
    found: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _fixed(column: Any, t: DataType, form: int) -> Longs:
    """Return the slots of a column of numbers of fixed width; those of nulls are undefined."""
    if form == binary_row.SMALL_DECIMAL:
        compact: Longs = stored_values(column, np.int64, per_row=2)[::2]
        return compact
    if form == binary_row.MILLIS:
        return _millis_nanos(column)[0]
    if t.root == "BOOLEAN":
        column = column.cast(pa.uint8())
    # Unsigned, so that the rest of the slot of a narrow number is zero.
    slots: Longs = stored_values(column, f"u{column.type.bit_width // 8}").astype(np.int64)
    return slots


def _millis_nanos(column: Any) -> tuple[Longs, Longs]:
    counts = stored_values(column, np.int64)
    factor = NANOS_PER[column.type.unit]
    if factor >= NANOS_PER_MILLI:
        return counts * (factor // NANOS_PER_MILLI), np.zeros_like(counts)
    millis, rest = np.divmod(counts, NANOS_PER_MILLI // factor)
    return millis, rest * factor
