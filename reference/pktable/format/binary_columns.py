"""Decode one field of many BinaryRows at once.

Of each row its frame is checked (length, arity, header) and the one field; other fields are not looked at. Numbers
come by numpy, other values one by one.

Clauses: META-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError

from pktable.format.binary_row import GREATEST_ROW_KIND, decode_row, null_bytes, number_dtype
from pktable.format.types import DataType

Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]
"""n values of a field, and which of them are known; the others may be anything."""


def decode_column(
    rows: Sequence[bytes], types: Sequence[DataType], field: int, *, at: Sequence[str]
) -> Column:
    """Return the values of ``field`` in n rows of ``types``. ``at``: where each row is, for errors.

    Numbers are in an array of their own type, others in one of objects. Raises CorruptFileError as `decode_row` does.
    """
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
    values = np.empty(len(rows), object)
    for i in np.flatnonzero(known).tolist():
        values[i] = decode_row(rows[i], types, at=at[i], only=(field,))[field]
    return values, known


def _refuse(rows: Sequence[bytes], types: Sequence[DataType], field: int, at: Sequence[str]) -> None:
    """Raise what `decode_row` raises for the first row that is damaged."""
    for row, place in zip(rows, at, strict=True):
        decode_row(row, types, at=place, only=(field,))
    raise CorruptFileError("rows", at=at[0], expected="rows that can be decoded", found="others")
