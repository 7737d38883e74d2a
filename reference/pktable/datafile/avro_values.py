"""Convert decoded Avro records to Arrow columns.

Paimon writes a time as a number in the unit that the schema's logical type names, a decimal as the big-endian
bytes of its unscaled value, and a MAP whose keys are not strings as an array of entries.

Clauses: META-17, META-44, META-83.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from pktable.datafile.arrow_times import uncountable
from pktable.format.types import NANOS_PER, TIMESTAMPS, DataType, timestamp_unit, to_arrow

EXACT: Final = decimal.Context(prec=400)
UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}

Convert = Callable[[Any], Any]


def arrow_columns(
    records: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], columns: Mapping[str, DataType]
) -> pa.Table:
    """Return ``columns`` of records that have the Avro ``schema``. ``columns``: name to type when written.

    Raises ArrowException or ValueError if a value does not have its type, InvalidRequestError for a time that Arrow
    cannot hold.
    """
    stored = {field["name"]: field["type"] for field in schema["fields"]}
    arrays = []
    for name, kind in columns.items():
        convert = _converter(kind, stored[name])
        values: Any = (record[name] for record in records)
        if convert is not None:
            values = map(convert, values)
        arrays.append(pa.array(list(values), to_arrow(kind)))
    return pa.table(arrays, names=list(columns))


def _converter(kind: DataType, stored: Any) -> Convert | None:
    """Return the conversion from values of the Avro type ``stored`` to Arrow's for ``kind``, None if none is needed."""
    stored = _present(stored)
    convert = _of_present(kind, stored)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _present(stored: Any) -> Any:
    """Return the other branch of a union with null, any other type as it is."""
    return next(one for one in stored if one != "null") if isinstance(stored, list) else stored


def _of_present(kind: DataType, stored: Any) -> Convert | None:
    if kind.root == "DECIMAL":
        scale = kind.scale or 0
        return lambda value: EXACT.scaleb(decimal.Decimal(int.from_bytes(value, "big", signed=True)), -scale)
    if kind.root in TIMESTAMPS:
        return _times(kind, stored)
    parts = [child.type for child in kind.children]
    if kind.root == "ROW":
        types = {field["name"]: field["type"] for field in stored["fields"]}
        fields = [(c.name, _converter(c.type, types[c.name]) or _same) for c in kind.children]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if kind.root == "ARRAY":
        element = _converter(parts[0], stored["items"]) or _same
        return lambda value: [element(one) for one in value]
    if kind.root == "MAP":
        return _entries(parts, stored)
    return None


def _times(kind: DataType, stored: Any) -> Convert | None:
    logical = stored.get("logicalType", "") if isinstance(stored, dict) else ""
    unit = UNITS.get(logical.rpartition("-")[2], timestamp_unit(kind))
    given, wanted = NANOS_PER[unit], NANOS_PER[timestamp_unit(kind)]
    if given == wanted:
        return None
    return lambda value: _countable(value * given // wanted, kind)


def _countable(count: int, kind: DataType) -> int:
    if timestamp_unit(kind) == "ns" and not -(1 << 63) <= count < 1 << 63:
        raise uncountable(f"a time in a data file as {kind}")
    return count


def _entries(parts: Sequence[DataType], stored: Any) -> Convert:
    if stored["type"] == "map":
        of_value = _converter(parts[1], stored["values"]) or _same
        return lambda value: [(key, of_value(one)) for key, one in value.items()]
    types = [field["type"] for field in _present(stored["items"])["fields"]]
    of_key, of_item = (_converter(part, one) or _same for part, one in zip(parts, types, strict=True))
    return lambda value: [(of_key(entry["key"]), of_item(entry["value"])) for entry in value]


def _same(value: Any) -> Any:
    return value
