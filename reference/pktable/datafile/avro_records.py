"""Make Avro records of rows, in the schema that Paimon writes, and Arrow columns of decoded records.

A record is nullable, though none is null, and so is named by a number before it; the parts of nested columns have
records of their own, named by their path. A time is a number in the unit that its logical type names, a decimal the
big-endian bytes of its unscaled value. A MAP whose keys are not strings is an array of entries.

Clauses: META-17, META-44, META-70, META-73, META-74, META-83.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.datafile.arrow_times import uncountable
from pktable.format.binary_row import minimal_bytes, unscaled
from pktable.format.types import (
    BINARIES,
    INTEGER_BITS,
    NANOS_PER,
    STRINGS,
    TIMESTAMPS,
    DataType,
    Field,
    one_array,
    timestamp_unit,
    to_arrow,
)

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
    stored = _branch(stored)
    convert = _of_present(kind, stored)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _branch(stored: Any) -> Any:
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
    types = [field["type"] for field in _branch(stored["items"])["fields"]]
    of_key, of_item = (_converter(part, one) or _same for part, one in zip(parts, types, strict=True))
    return lambda value: [(of_key(entry["key"]), of_item(entry["value"])) for entry in value]


def _same(value: Any) -> Any:
    return value


RECORD: Final = "org.apache.paimon.avro.generated.record"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
FINEST: Final = {"TIME": 3, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
"""Digits of a second that Avro has."""
PLAIN: Final = {
    "BOOLEAN": "boolean",
    **{root: "long" if bits == 64 else "int" for root, bits in INTEGER_BITS.items()},
    "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(STRINGS, "string"),
    **dict.fromkeys(BINARIES, "bytes"),
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
}


def expect_avro(fields: Sequence[Field], advice: str) -> None:
    """Raise InvalidRequestError for a column whose name or type Avro does not have. Clauses: META-74.

    ``advice``: what to do, but for another name or type.
    """
    columns: dict[str, str] = {}
    for field in fields:
        _expect_field(field, field.name, advice)
        for name in _names(_of(field.type, f"{RECORD}_{field.name}")):
            if name in columns:
                of = " and ".join(dict.fromkeys((columns[name], field.name)))
                raise InvalidRequestError(
                    f"column {of}: two records that Paimon calls {name} in Avro, where a name is that of one; name a "
                    f"field otherwise, or {advice}"
                )
            columns[name] = field.name


def _expect_field(field: Field, column: str, advice: str) -> None:
    kind = field.type
    if not NAME.fullmatch(field.name):
        raise InvalidRequestError(
            f"column {column}: Avro has no name {field.name!r}, only letters, digits and underscores; name it "
            f"otherwise, or {advice}"
        )
    if (kind.precision or 0) > FINEST.get(kind.root, 99):
        raise InvalidRequestError(
            f"column {column}: Avro has no {kind}, at most {FINEST[kind.root]} digits of a second; {advice}"
        )
    for child in kind.children:
        _expect_field(child, column, advice)


def _names(schema: Any) -> Iterator[str]:
    """Yield the name of each record in a schema."""
    if isinstance(schema, dict):
        if schema["type"] == "record":
            yield schema["name"]
        yield from _names(list(schema.values()))
    elif isinstance(schema, list):
        for part in schema:
            yield from _names(part)


def avro_schema(kinds: Mapping[str, DataType]) -> list[Any]:
    """Return the schema of a file with these columns, a union of null and their record. Clauses: META-73."""
    return ["null", _record(RECORD, kinds)]


def _record(name: str, kinds: Mapping[str, DataType]) -> dict[str, Any]:
    fields = [
        {"name": part, "type": _of(kind, f"{name}_{part}"), **({"default": None} if kind.nullable else {})}
        for part, kind in kinds.items()
    ]
    return {"type": "record", "name": name, "fields": fields}


def _of(kind: DataType, name: str) -> Any:
    present = _present(kind, name)
    return ["null", present] if kind.nullable else present


def _present(kind: DataType, name: str) -> Any:
    parts = [child.type for child in kind.children]
    if kind.root in PLAIN:
        return PLAIN[kind.root]
    if kind.root == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.root in TIMESTAMPS:
        local = "local-" if kind.root == "TIMESTAMP_LTZ" else ""
        unit = "millis" if (kind.precision or 0) <= 3 else "micros"
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if kind.root == "ROW":
        return _record(name, {child.name: child.type for child in kind.children})
    if kind.root == "ARRAY":
        return {"type": "array", "items": _of(parts[0], name)}
    if parts[0].root in STRINGS:
        return {"type": "map", "values": _of(parts[1], name)}
    entry = _record(name, {"key": parts[0], "value": parts[1]})
    return {"type": "array", "items": entry, "logicalType": "map"}


def records_of(rows: pa.Table, kinds: Mapping[str, DataType]) -> list[dict[str, Any]]:
    """Return rows as records of `avro_schema`, without logical types. ``rows``: with the columns of ``kinds``."""
    columns = [_values(one_array(rows.column(name)), kind) for name, kind in kinds.items()]
    return [dict(zip(kinds, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(array: Any, kind: DataType) -> list[Any]:
    """Return the values of an array as Avro has them, None for null."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    parts = [child.type for child in kind.children]
    if kind.root == "ROW":
        names = [child.name for child in kind.children]
        inner = [_values(part, of) for part, of in zip(array.flatten(), parts, strict=True)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*inner, strict=True)]
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if kind.root == "ARRAY":
        return _cut(array, _values(_inside(array, array.values), parts[0]))
    if kind.root == "MAP":
        keys = _values(_inside(array, array.keys), parts[0])
        items = _values(_inside(array, array.items), parts[1])
        if parts[0].root in STRINGS:
            return [
                one if one is None else dict(one) for one in _cut(array, list(zip(keys, items, strict=True)))
            ]
        return _cut(array, [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)])
    if kind.root in TIMESTAMPS:
        array = array.view(pa.int64())
    elif kind.root in ("DATE", "TIME"):
        array = array.view(pa.int32())
    values: list[Any] = array.to_pylist()
    if kind.root == "DECIMAL":
        scale = kind.scale or 0
        return [one if one is None else minimal_bytes(unscaled(one, scale)) for one in values]
    return values


def _inside(array: Any, values: Any) -> Any:
    """Return those of the ``values`` of all lists of a buffer that are in the lists of ``array``."""
    first, last = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
    return values.slice(first, last - first)


def _cut(array: Any, values: list[Any]) -> list[Any]:
    """Return ``values`` in the lists of ``array``, None for a list that is null."""
    offsets = (
        (array.offsets.to_numpy() - (array.offsets[0].as_py() if len(array) else 0)).astype(np.int64).tolist()
    )
    there = array.is_valid().to_pylist()
    return [
        values[start:end] if one else None
        for one, start, end in zip(there, offsets, offsets[1:], strict=False)
    ]
