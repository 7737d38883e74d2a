"""Values as the protocol of `pktable conform` spells them, without what only a command needs: peers import it, too.

Integers are in decimal, DATE as days and timestamps as nanoseconds since the epoch, TIME as milliseconds of the day,
DECIMAL with all digits of its scale, floats as the hexadecimal bits (every NaN as ``nan``), binaries in hexadecimal,
strings as they are. Arrays, maps and rows are JSON text: a list of the values in them, and of a map one of pairs, in
the order of their keys.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pktable.format.types import NANOS_PER


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
