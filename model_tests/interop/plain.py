"""Values of any implementation as plain text, so that rows of all of them compare by ``==``.

A value is None or a string: integers in decimal, DATE as days and timestamps as nanoseconds since the epoch, TIME as
milliseconds of the day, DECIMAL with all digits of its scale, floats as the hexadecimal bits (every NaN as ``nan``),
binaries in hexadecimal, strings as they are. Arrays, maps and rows are JSON text: a list of the values in them, and
of a map one of pairs, in the order of their keys. `Peer.java` says the same of Paimon's internal rows.

The programs of the Python peers import this in environments that hold Arrow and nothing of ours.
"""

from __future__ import annotations

import json
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
    """Return an Arrow array as plain values."""
    kind = column.type
    if pt.is_nested(kind):
        return [
            value if value is None else _as_json(_taken_apart(value, kind)) for value in column.to_pylist()
        ]
    if pt.is_timestamp(kind):
        unit = NANOS_PER[kind.unit]
        return [
            value if value is None else str(value * unit) for value in column.cast(pa.int64()).to_pylist()
        ]
    if pt.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    if pt.is_time(kind):
        column = column.cast(pa.time32("ms")).cast(pa.int32())
    to_text = _to_text(kind)
    return [value if value is None else to_text(value) for value in column.to_pylist()]


def _as_json(parts: Any) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _taken_apart(value: Any, kind: Any) -> Any:
    """Return what Arrow makes of a value as a plain value, or a list of those in it."""
    if value is None or not pt.is_nested(kind):
        return column_of(pa.array([value], kind))[0]
    if pt.is_struct(kind):
        return [
            _taken_apart(value[kind.field(at).name], kind.field(at).type) for at in range(kind.num_fields)
        ]
    if pt.is_map(kind):
        pairs = [(_taken_apart(k, kind.key_type), _taken_apart(v, kind.item_type)) for k, v in value]
        return sorted(map(list, pairs), key=lambda pair: str(pair[0]))
    return [_taken_apart(one, kind.value_type) for one in value]


def _put_together(parts: Any, kind: Any) -> Any:
    """Return what Arrow takes for a plain value, or for a list of those in it: the inverse of `_taken_apart`."""
    if parts is None or not pt.is_nested(kind):
        return array_of([parts], kind)[0].as_py()
    if pt.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {
            field.name: _put_together(part, field.type) for field, part in zip(fields, parts, strict=True)
        }
    if pt.is_map(kind):
        return [(_put_together(k, kind.key_type), _put_together(v, kind.item_type)) for k, v in parts]
    return [_put_together(part, kind.value_type) for part in parts]


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
    if pt.is_nested(kind):
        made = [value if value is None else _put_together(json.loads(value), kind) for value in values]
        return pa.array(made, kind)
    if pt.is_timestamp(kind):
        unit = NANOS_PER[kind.unit]
        counts = [value if value is None else int(value) // unit for value in values]
        return pa.array(counts, pa.int64()).cast(kind)
    if pt.is_date(kind):
        return pa.array([value if value is None else int(value) for value in values], pa.int32()).cast(kind)
    if pt.is_time(kind):
        counts = [value if value is None else int(value) for value in values]
        return pa.array(counts, pa.int32()).cast(pa.time32("ms")).cast(kind)
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
