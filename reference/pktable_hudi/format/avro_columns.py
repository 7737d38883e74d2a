"""Decode the records of an Avro block as columns, all records at once.

Each record lies behind its length, so the start of every record is known before any of them is decoded. The fields of a
schema follow each other in the same order in each record. So one cursor per record moves over field after field, and
numpy moves all cursors together. That is an order of magnitude faster than a record after the other in Python.

A schema with an array, a map or a union of several types is left to fastavro, which decodes everything. Both give the
same columns.

Clauses: LOG-7, RD-11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable.format.types import DataType, Field, to_arrow
from pktable_spec.errors import CorruptFileError

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

LONGEST_VARINT: Final = 10
DECIMAL_BYTES: Final = 16
BITS: Final = 0x7F
MORE: Final = 0x80
ONE_BYTE: Final = np.array([byte >> 1 ^ -(byte & 1) for byte in range(MORE)], np.int64)
"""The numbers of one byte."""


def decode_columns(
    data: bytes | memoryview,
    starts: Numbers,
    lengths: Numbers,
    schema: Mapping[str, Any],
    fields: Collection[Field],
    *,
    at: str,
) -> pa.Table | None:
    """Return the columns ``fields`` of records, None if the schema is one that is not decoded by columns.

    ``starts``, ``lengths``: of the records in ``data``, in bytes. ``schema``: of a record, with each named type written
    out. ``fields``: some of its fields, with the types that they are stored as. Raises CorruptFileError.
    """
    if not _is_plain(schema):
        return None
    wanted = {field.name: field.type for field in fields}
    cursor = _Cursor(np.frombuffer(data, np.uint8), starts, starts + lengths)
    columns: dict[str, pa.Array] = {}
    everything = np.arange(len(starts))
    try:
        for field in schema["fields"]:
            kind = wanted.get(field["name"])
            found = _decoded(cursor, field["type"], kind, everything)
            if found is not None:
                columns[field["name"]] = found
        cursor.expect_ends()
        for column in columns.values():
            column.validate(full=True)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise CorruptFileError(
            "Avro records", at=at, expected=f"{len(starts)} records", found=error
        ) from None
    return pa.table(columns)


def _is_plain(schema: Any) -> bool:
    """Return whether a type is decoded by columns."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return len(schema) <= 2 and len(others) == 1 and _is_plain(others[0])
    if isinstance(schema, str):
        return schema in READERS
    kind = schema["type"]
    if kind == "record":
        return bool(schema["fields"]) and all(_is_plain(one["type"]) for one in schema["fields"])
    return kind == "fixed" or kind in READERS


class _Cursor:
    """A position in each record. Every read moves the positions of the records it is for; none leaves its record."""

    def __init__(self, data: Bytes, starts: Numbers, ends: Numbers) -> None:
        self.data, self._at, self._ends = data, starts.copy(), ends

    def longs(self, rows: Numbers) -> Numbers:
        """Read a number, zigzag and 7 bits a byte, for each of ``rows``."""
        byte = self.data[self.take(rows, 1)]
        if not bool(np.any(byte >= MORE)):  # as branches of unions and most lengths are
            return ONE_BYTE[byte]
        found = np.zeros(len(rows), np.uint64)
        active = np.arange(len(rows))
        for i in range(LONGEST_VARINT):
            if i:
                byte = self.data[self.take(rows[active], 1)]
            found[active] |= (byte & BITS).astype(np.uint64) << np.uint64(7 * i)
            active = active[byte >= MORE]
            if not len(active):
                half = (found >> np.uint64(1)).astype(np.int64)
                signed: Numbers = half ^ -(found & np.uint64(1)).astype(np.int64)
                return signed
        raise ValueError(f"a number of more than {LONGEST_VARINT} bytes")

    def take(self, rows: Numbers, lengths: Numbers | int) -> Numbers:
        """Move behind so many bytes of each of ``rows`` (ascending); return where they begin."""
        every = len(rows) == len(self._at)  # then nothing is gathered
        start: Numbers = self._at if every else self._at[rows]
        end = start + lengths
        if bool(np.any(lengths < 0)) or bool(np.any(end > (self._ends if every else self._ends[rows]))):
            raise ValueError("a value that leads out of its record")
        if every:
            self._at = end
        else:
            self._at[rows] = end
        return start

    def fixed(self, rows: Numbers, size: int) -> Bytes:
        """Read ``size`` bytes of each of ``rows``, as a row each."""
        start = self.take(rows, size)
        found: Bytes = self.data[start[:, None] + np.arange(size)]
        return found

    def expect_ends(self) -> None:
        if not np.array_equal(self._at, self._ends):
            raise ValueError("a record of another length")


def _decoded(cursor: _Cursor, schema: Any, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    """Return the values of a field in ``rows``; None, and only the cursor is moved, if ``kind`` is None."""
    if isinstance(schema, list):
        return _nullable(cursor, schema, kind, rows)
    if isinstance(schema, str):
        return READERS[schema](cursor, kind, rows)
    if schema["type"] == "record":
        children = {child.name: child.type for child in kind.children} if kind is not None else {}
        parts = [_decoded(cursor, one["type"], children.get(one["name"]), rows) for one in schema["fields"]]
        return None if kind is None else pa.StructArray.from_arrays(parts, fields=list(to_arrow(kind)))
    if schema["type"] == "fixed":
        found = cursor.fixed(rows, int(schema["size"]))
        return None if kind is None else _of_fixed(found, kind)
    return READERS[schema["type"]](cursor, kind, rows)


def _nullable(cursor: _Cursor, schema: list[Any], kind: DataType | None, rows: Numbers) -> pa.Array | None:
    branches = cursor.longs(rows)
    if bool(np.any((branches < 0) | (branches >= len(schema)))):
        raise ValueError("a branch that the union does not have")
    (other,) = [one for one in schema if one != "null"]
    is_null = branches == schema.index("null") if "null" in schema else np.zeros(len(rows), np.bool_)
    if not bool(np.any(is_null)):
        return _decoded(cursor, other, kind, rows)
    present = np.flatnonzero(~is_null)
    values = _decoded(cursor, other, kind, rows[present])
    if values is None:
        return None
    places = np.zeros(len(rows), np.int64)
    places[present] = np.arange(len(present))
    return values.take(pa.array(places, mask=is_null))


def _long(cursor: _Cursor, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    found = cursor.longs(rows)
    if kind is None:
        return None
    wanted: Any = to_arrow(kind)
    if pa.types.is_timestamp(wanted):
        return pa.array(found).view(wanted)
    if pa.types.is_date32(wanted):
        return pa.array(found).cast(pa.int32()).view(wanted)
    return pa.array(found).cast(wanted)


def _boolean(cursor: _Cursor, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    found = cursor.fixed(rows, 1)[:, 0]
    if bool(np.any(found > 1)):
        raise ValueError("a boolean that is neither 0 nor 1")
    return None if kind is None else pa.array(found.astype(np.bool_))


def _float(cursor: _Cursor, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    found = np.ascontiguousarray(cursor.fixed(rows, 4)).view("<f4").reshape(len(rows))
    return None if kind is None else pa.array(found.astype(np.float32))


def _double(cursor: _Cursor, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    found = np.ascontiguousarray(cursor.fixed(rows, 8)).view("<f8").reshape(len(rows))
    return None if kind is None else pa.array(found.astype(np.float64))


def _bytes(cursor: _Cursor, kind: DataType | None, rows: Numbers) -> pa.Array | None:
    lengths = cursor.longs(rows)
    starts = cursor.take(rows, lengths)
    if kind is None:
        return None
    if kind.root == "DECIMAL":
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        body = cursor.data[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
        return _of_bytes(body, offsets, lengths, kind)
    # Values and what lies between them are one array, of which Arrow takes every other element.
    ends = np.stack([starts, starts + lengths], axis=1).reshape(-1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(cursor.data)]
    both = pa.Array.from_buffers(pa.large_binary(), max(len(ends) - 1, 0), buffers)
    return both.take(pa.array(np.arange(0, len(ends), 2))).cast(to_arrow(kind))


def _of_fixed(found: Bytes, kind: DataType) -> pa.Array:
    if kind.root == "DECIMAL":
        return _decimals(found, kind)
    count, size = found.shape
    offsets = np.arange(count + 1, dtype=np.int64) * size
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(found))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _of_bytes(body: Bytes, offsets: Numbers, lengths: Numbers, kind: DataType) -> pa.Array:
    """Return decimals of any number of bytes."""
    size = int(lengths.max(initial=1))
    if bool(np.any(lengths < 1)) or size > DECIMAL_BYTES:
        raise ValueError(f"a decimal of {size} bytes")
    places = np.arange(size) - (size - lengths[:, None])
    inside = offsets[:-1, None] + np.maximum(places, 0)
    sign = np.where(body[offsets[:-1]] >= MORE, 0xFF, 0).astype(np.uint8)
    return _decimals(np.where(places >= 0, body[inside], sign[:, None]), kind)


def _decimals(big_endian: Bytes, kind: DataType) -> pa.Array:
    """Return decimals from their unscaled values, one a row."""
    count, size = big_endian.shape
    if not 1 <= size <= DECIMAL_BYTES:
        raise ValueError(f"a decimal of {size} bytes")
    found = np.empty((count, DECIMAL_BYTES), np.uint8)
    found[:, :size] = big_endian[:, ::-1]
    found[:, size:] = np.where(big_endian[:, :1] >= MORE, 0xFF, 0)
    return pa.Array.from_buffers(to_arrow(kind), count, [None, pa.py_buffer(found)])


READERS: Final[Mapping[str, Any]] = {
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _bytes,
}
"""The reader of each plain type. It moves the cursor, and returns the values if it is given the type to return."""
