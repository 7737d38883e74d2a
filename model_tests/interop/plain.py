"""Values of any implementation as plain text, so that rows of all of them compare by ``==``.

A value is None or a string: integers in decimal, DATE as days and timestamps as nanoseconds since the epoch,
DECIMAL with all digits of its scale, floats as the hexadecimal bits (every NaN as ``nan``), binaries in
hexadecimal, strings as they are. `Peer.java` says the same of Paimon's internal rows.

The programs of the Python peers import this in environments that hold Arrow and nothing of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

NANOS_PER = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def rows_of(table: Any) -> list[list[str | None]]:
    """Return the rows of a pyarrow.Table as lists of plain values."""
    return [list(row) for row in zip(*(column_of(column) for column in table.columns), strict=True)]


def column_of(column: Any) -> list[str | None]:
    """Return an Arrow array of an atomic type as plain values."""
    kind = column.type
    if pt.is_timestamp(kind):
        unit = NANOS_PER[kind.unit]
        return [
            value if value is None else str(value * unit) for value in column.cast(pa.int64()).to_pylist()
        ]
    if pt.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    to_text = _to_text(kind)
    return [value if value is None else to_text(value) for value in column.to_pylist()]


def _to_text(kind: Any) -> Callable[[Any], str]:
    if pt.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pt.is_float32(kind) or pt.is_float64(kind):
        code = ">f" if pt.is_float32(kind) else ">d"
        return lambda value: "nan" if value != value else struct.pack(code, value).hex()
    if pt.is_decimal(kind):
        return lambda value: format(value, "f")
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return lambda value: str(value.hex())
    return str


def array_of(values: Sequence[str | None], kind: Any) -> Any:
    """Return plain values as an Arrow array of ``kind``: the inverse of `column_of`."""
    if pt.is_timestamp(kind):
        unit = NANOS_PER[kind.unit]
        counts = [value if value is None else int(value) // unit for value in values]
        return pa.array(counts, pa.int64()).cast(kind)
    if pt.is_date(kind):
        return pa.array([value if value is None else int(value) for value in values], pa.int32()).cast(kind)
    from_text = _from_text(kind)
    return pa.array([value if value is None else from_text(value) for value in values], kind)


def _from_text(kind: Any) -> Callable[[str], Any]:
    if pt.is_boolean(kind):
        return lambda text: text == "true"
    if pt.is_integer(kind):
        return int
    if pt.is_float32(kind) or pt.is_float64(kind):
        code = ">f" if pt.is_float32(kind) else ">d"
        return lambda text: float(text) if text == "nan" else struct.unpack(code, bytes.fromhex(text))[0]
    if pt.is_decimal(kind):
        return Decimal
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return bytes.fromhex
    return str


def table_of(rows: Sequence[Sequence[Any]], schema: Any) -> Any:
    """Return rows of plain values as a pyarrow.Table of ``schema``."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [array_of(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
