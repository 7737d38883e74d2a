"""Encode rows as Avro records, column by column, each record behind its length as an Avro block has them.

Every column gives the bytes of all its values and how many bytes each row has of them. The columns are then laid side
by side, row by row, by moving whole columns with numpy. A nullable value is its branch of the union and the value, a
list its length, its elements and a zero: both are columns laid side by side, too.

Clauses: LOG-7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable.format.types import one_array
from pktable_spec.errors import InvalidRequestError

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

LENGTH_BYTES: Final = 4
LONGEST_VARINT: Final = 10
DECIMAL_BYTES: Final = 16


@dataclass(frozen=True)
class _Encoded:
    """The values of a column. ``sizes``: bytes of each row, ``data``: the bytes of all rows, one after the other."""

    sizes: Numbers
    data: Bytes


def framed_rows(rows: pa.Table, schema: Mapping[str, Any]) -> bytes:
    """Return ``rows`` as Avro records, each behind its length.

    ``schema``: of a record, with each named type written out. ``rows`` has a column of each of its fields, of the type
    that `fields_of` gives it. Raises InvalidRequestError for a type that is not written. Clauses: LOG-7.
    """
    count = rows.num_rows
    if not count:
        return b""
    columns = [
        _encoded(one_array(rows.column(one["name"])), one["type"], one["name"]) for one in schema["fields"]
    ]
    record = _side_by_side(columns)
    lengths = record.sizes.astype(">i4").view(np.uint8)
    return _side_by_side([_Encoded(np.full(count, LENGTH_BYTES), lengths), record]).data.tobytes()


def _side_by_side(columns: Sequence[_Encoded]) -> _Encoded:
    """Return the bytes of all columns of row 0, then those of row 1, and so on."""
    sizes = np.zeros(len(columns[0].sizes), np.int64)
    for one in columns:
        sizes = sizes + one.sizes
    next_ = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), np.uint8)
    for one in columns:
        starts = np.cumsum(one.sizes) - one.sizes
        data[np.repeat(next_ - starts, one.sizes) + np.arange(len(one.data))] = one.data
        next_ = next_ + one.sizes
    return _Encoded(sizes, data)


def _encoded(values: Any, schema: Any, name: str) -> _Encoded:
    if isinstance(schema, list):
        return _nullable(values, schema, name)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return _record(values, schema, name)
    if kind in ("array", "map"):
        return _repeated(values, schema, name)
    if pa.types.is_decimal(values.type):
        return _decimal(values, schema)
    if kind not in WRITERS:
        raise InvalidRequestError(f"column {name}: the Avro type {kind} is not written; write it with Hudi")
    found: _Encoded = WRITERS[kind](values)
    return found


def _nullable(values: Any, schema: list[Any], name: str) -> _Encoded:
    (other,) = [i for i, one in enumerate(schema) if one != "null"]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    branches = np.where(present, 2 * other, 2 * (1 - other)).astype(np.uint8)
    found = _encoded(values.drop_null(), schema[other], name)
    sizes = np.zeros(len(values), np.int64)
    sizes[present] = found.sizes
    return _side_by_side([_Encoded(np.ones(len(values), np.int64), branches), _Encoded(sizes, found.data)])


def _record(values: Any, schema: Mapping[str, Any], name: str) -> _Encoded:
    parts = values.flatten()
    fields = zip(parts, schema["fields"], strict=True)
    return _side_by_side([_encoded(part, one["type"], f"{name}.{one['name']}") for part, one in fields])


def _repeated(values: Any, schema: Mapping[str, Any], name: str) -> _Encoded:
    """Return lists and maps: a number and so many elements unless there are none, then a zero."""
    offsets = _offsets(values)
    start, end = int(offsets[0]), int(offsets[-1])
    if schema["type"] == "map":
        parts = [
            _encoded(values.keys.slice(start, end - start), "string", name),
            _encoded(values.items.slice(start, end - start), schema["values"], name),
        ]
        elements = _side_by_side(parts)
    else:
        elements = _encoded(values.values.slice(start, end - start), schema["items"], name)
    counts = np.diff(offsets)
    ends = np.concatenate([[0], np.cumsum(elements.sizes)])
    inside = _Encoded(np.diff(ends[offsets - start]), elements.data)
    some = counts > 0
    numbers = _long(counts[some])
    sizes = np.zeros(len(counts), np.int64)
    sizes[some] = numbers.sizes
    zeros = _Encoded(np.ones(len(counts), np.int64), np.zeros(len(counts), np.uint8))
    return _side_by_side([_Encoded(sizes, numbers.data), inside, zeros])


def _offsets(values: Any) -> Numbers:
    if not len(values):
        return np.zeros(1, np.int64)
    stored = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
    return stored.astype(np.int64)


def _long(numbers: Numbers) -> _Encoded:
    """Return numbers as Avro writes them: zigzag, 7 bits a byte, lowest first."""
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    shifts = np.arange(LONGEST_VARINT, dtype=np.uint64) * np.uint64(7)
    digits = rest[:, None] >> shifts
    sizes = np.maximum(1, (digits != 0).sum(axis=1))
    places = np.arange(LONGEST_VARINT)
    digits = (digits & np.uint64(0x7F)).astype(np.uint8)
    digits[places < sizes[:, None] - 1] |= 0x80
    return _Encoded(sizes.astype(np.int64), digits[places < sizes[:, None]])


def _whole(values: Any) -> _Encoded:
    """Return integers, dates and times, in the unit that they are stored in."""
    if pa.types.is_integer(values.type):
        stored = values
    else:
        stored = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return _long(stored.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _floating(values: Any) -> _Encoded:
    numbers = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
    stored = numbers.astype(numbers.dtype.newbyteorder("<"))
    return _Encoded(np.full(len(values), stored.itemsize), stored.view(np.uint8))


def _boolean(values: Any) -> _Encoded:
    data = values.to_numpy(zero_copy_only=False).astype(np.uint8)
    return _Encoded(np.ones(len(values), np.int64), data)


def _text(values: Any) -> _Encoded:
    """Return strings and bytes, each behind its length."""
    offsets = _offsets(values)
    sizes = np.diff(offsets)
    stored = values.buffers()[2] if len(values) else None
    data = np.frombuffer(stored or b"", np.uint8)[int(offsets[0]) : int(offsets[-1])]
    return _side_by_side([_long(sizes), _Encoded(sizes, data)])


def _decimal(values: Any, schema: Mapping[str, Any]) -> _Encoded:
    """Return decimals as their unscaled values: of the size of their type, or bytes behind their number."""
    count, size = len(values), int(schema.get("size", DECIMAL_BYTES))
    stored = (
        np.frombuffer(values.buffers()[1], np.uint8, count * DECIMAL_BYTES, values.offset * DECIMAL_BYTES)
        if count
        else np.empty(0, np.uint8)
    )
    low_first = stored.reshape(count, DECIMAL_BYTES)
    sign = np.repeat(np.where(low_first[:, -1:] >= 0x80, 0xFF, 0).astype(np.uint8), max(0, size - 16), axis=1)
    digits = np.concatenate([low_first[:, :size], sign], axis=1)[:, ::-1]
    found = _Encoded(np.full(count, size), np.ascontiguousarray(digits).reshape(-1))
    return found if schema["type"] == "fixed" else _side_by_side([_long(found.sizes), found])


WRITERS: Final[Mapping[str, Any]] = {
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _floating,
    "double": _floating,
    "bytes": _text,
    "string": _text,
}
"""The encoder of each plain type."""
