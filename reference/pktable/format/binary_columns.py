"""Decode one field of many BinaryRows at once.

Of each row its frame is checked (length, arity, header) and the one field; other fields are not looked at. Numbers
come by numpy, the places of strings and binaries too, and other values one by one.

Clauses: META-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError

from pktable.format.binary_row import (
    BYTES,
    GREATEST_ROW_KIND,
    INLINE_BYTES,
    INLINE_MARK,
    TEXT,
    decode_row,
    form_of,
    null_bytes,
    number_dtype,
)
from pktable.format.types import DataType, Value

FEW_ROWS: Final = 6
"""Up to which Python takes less time than numpy: 4 us a row, against 20 us for numbers and 50 for strings."""

Integers = npt.NDArray[np.int64]
Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]
"""n values of a field, and which of them are known; the others may be anything."""


def decode_column(
    rows: Sequence[bytes], types: Sequence[DataType], field: int, *, at: Sequence[str]
) -> Column:
    """Return the values of ``field`` in n rows of ``types``. ``at``: where each row is, for errors.

    Numbers are in an array of their own type, others in one of objects. Raises CorruptFileError as `decode_row` does.
    """
    if len(rows) <= FEW_ROWS:
        values = [decode_row(row, types, at=at[i], only=(field,))[field] for i, row in enumerate(rows)]
        return column_of(values, types[field])
    fixed = 4 + null_bytes(len(types))
    least = fixed + 8 * len(types)
    head = b"".join([row[:least] for row in rows])
    if len(head) != least * len(rows):
        _refuse(rows, types, field, at)
    table = np.frombuffer(head, np.uint8).reshape(len(rows), least)
    header = table[:, 4:fixed]
    known = (header[:, (8 + field) >> 3] >> (field & 7) & 1) == 0
    dtype = number_dtype(types[field])
    slots = np.ascontiguousarray(table[:, fixed + 8 * field : fixed + 8 * field + 8])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    bits = ((1 << (8 + len(types))) - 1).to_bytes(fixed - 4, "little")
    right = ~(header & ~np.frombuffer(bits, np.uint8)).any(axis=1)
    right &= (lengths % 8 == 4) & (header[:, 0] <= GREATEST_ROW_KIND)
    right &= (table[:, :4] == np.frombuffer(len(types).to_bytes(4, "big"), np.uint8)).all(axis=1)
    if dtype is not None:
        right &= ~known | ~slots[:, dtype.itemsize :].any(axis=1)
        if dtype == np.bool_:
            right &= ~known | (slots[:, 0] <= 1)
    if not bool(right.all()):
        _refuse(rows, types, field, at)
    if dtype is not None:
        return np.ascontiguousarray(slots[:, : dtype.itemsize]).view(dtype)[:, 0], known
    found = np.empty(len(rows), object)
    if not types[field].children and form_of(types[field]) in (TEXT, BYTES):
        is_text = form_of(types[field]) == TEXT
        try:
            for i, value in _strings(rows, np.flatnonzero(known), lengths, slots, fixed + 8 * field, least):
                found[i] = value.decode() if is_text else value
        except ValueError:
            _refuse(rows, types, field, at)
        return found, known
    for i in np.flatnonzero(known).tolist():
        found[i] = decode_row(rows[i], types, at=at[i], only=(field,))[field]
    return found, known


def column_of(values: Sequence[Value], kind: DataType) -> Column:
    """Return ``values`` of a type, None where they are not known, as `decode_column` does."""
    known = np.array([value is not None for value in values], bool)
    found = np.zeros(len(values), number_dtype(kind) or object)
    for i, value in enumerate(values):
        if value is not None:
            found[i] = value
    return found, known


def _strings(
    rows: Sequence[bytes],
    known: Integers,
    lengths: Integers,
    slots: npt.NDArray[np.uint8],
    slot: int,
    least: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a field, and the number of the row, for the rows ``known``. Raises ValueError for damage.

    ``slots``: of all rows; in each the slot begins at ``slot``, and the variable part at ``least``.
    """
    slots = slots[known]
    counts, places = slots.view("<i4").astype(np.int64).T
    inline = slots[:, INLINE_BYTES] >= INLINE_MARK
    counts = np.where(inline, slots[:, INLINE_BYTES] & ~np.uint8(INLINE_MARK), counts)
    starts = np.where(inline, slot, 4 + places)
    behind = (slots[:, :INLINE_BYTES] != 0) & (np.arange(INLINE_BYTES) >= counts[:, None])
    short = inline & (counts <= INLINE_BYTES) & ~behind.any(axis=1)
    long = ~inline & (counts > INLINE_BYTES) & (starts >= least) & (starts + counts <= lengths[known])
    if not bool((short | long).all()):
        raise ValueError("a string outside of its row")
    for i, start, end in zip(known.tolist(), starts.tolist(), (starts + counts).tolist(), strict=True):
        yield i, rows[i][start:end]


def _refuse(rows: Sequence[bytes], types: Sequence[DataType], field: int, at: Sequence[str]) -> None:
    """Raise what `decode_row` raises for the first row that is damaged."""
    for row, place in zip(rows, at, strict=True):
        decode_row(row, types, at=place, only=(field,))
    raise CorruptFileError("rows", at=at[0], expected="rows that can be decoded", found="others")
