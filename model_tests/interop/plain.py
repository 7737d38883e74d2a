"""Values of any implementation as plain text (`rows_of`, `column_of`), and back (`table_of`, `array_of`).

The programs of the Python peers import this in environments that hold Arrow, and of ours what needs no more.
`Peer.java` says the same of Paimon's internal rows.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pktable.cli.plain import column_of as column_of
from pktable.cli.plain import rows_of as rows_of
from pktable.format.types import NANOS_PER


def _put_together(parts: Any, kind: Any) -> Any:
    """Return what Arrow takes for a plain value, or for a list of those in it: the inverse of `column_of`."""
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
