"""Records of manifests as tables of fields, from which the Avro schema, the encoder and the decoder follow.

A `RecordTable` has a row for each field: its name in the file, the attribute of the value that holds it, and its
`Kind`. The order of the rows is the order of the fields in the file and of the attributes in the dataclass.

A field that a file does not have, because an older version wrote it, reads as null. A field that must be present and
is not, or that has another type, is damage. A field that nobody knows, because a newer version wrote it, must be null
or an empty list: it could say that the entry means something else.

Paimon writes ORC or Parquet if ``manifest.format`` says so. The records are the same as in an Avro file, with times as
milliseconds. Neither format has a checksum for every byte: damage is whatever the libraries refuse, and a number of
records that differs from that in the footer.

Clauses: META-3, META-22, META-23, META-60, RD-11.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pktable_spec.errors import CorruptFileError

from pktable.format.avro import (
    Container,
    RecordSchema,
    checked_container,
    encode_bytes,
    encode_container,
    encode_long,
)
from pktable.format.avro_columns import Integers, NotInColumns, Numbers
from pktable.format.bounds import MOST_UNPACKED_BYTES, is_file_name, require_bounded_rows
from pktable.format.metadata.record_columns import ColumnarValues, uncollected

NAMESPACE: Final = "org.apache.paimon.avro.generated"

MANY_RECORDS: Final = 100
"""Of a block, that columns decode faster: 10 entries take them 1.7 ms against 0.6, 200 entries 4.6 against 9.6."""

GREATEST_INT: Final = (1 << 31) - 1

Value = TypeVar("Value")

WITHOUT_MEANING: Final = frozenset({"_VERSION", "_WRITE_COLS_SEQUENCES", "_TOTAL_BUCKETS", "_EXTRA_FILES"})
"""Fields that are looked at elsewhere, or that no reader depends on. Clauses: META-60."""

REQUIRED: Final = object()
"""In place of the value of an absent field: there must be one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a field is stored.

    ``avro``: its type in the Avro schema. ``encode``: from the attribute to the bytes of that type.
    ``type``: the type of its value when it is decoded from Avro, which errors call ``expected``.
    ``decode``: from that value and the path of the file to the attribute, None where both are the same. The text of its
    ValueError is what was expected. ``absent``: the attribute of a field that is null or absent.
    ``item``: the kind of a list's items. ``table``: the fields of a record.
    """

    avro: Any
    encode: Callable[[Any], bytes]
    type: type
    expected: str
    decode: Callable[[Any, str], Any] | None = None
    absent: Any = REQUIRED
    item: Kind | None = None
    table: RecordTable[Any] | None = None

    @property
    def is_required(self) -> bool:
        """Whether there must be a value."""
        return self.absent is REQUIRED


def optional(kind: Kind) -> Kind:
    """Return the kind of a field that may be null."""

    def encode(value: Any) -> bytes:
        return NULL if value is None else NOT_NULL + kind.encode(value)

    expected = f"{kind.expected} or null"
    return replace(kind, avro=["null", kind.avro], encode=encode, expected=expected, absent=None)


def never_null(kind: Kind) -> Kind:
    """Return the kind of a field that Paimon declares nullable and never leaves null."""
    return replace(optional(kind), expected=kind.expected, absent=REQUIRED)


def list_of(item: Kind, expected: str) -> Kind:
    """Return the kind of a list of items; the attribute is a tuple."""
    allowed = {item.type} if item.absent is REQUIRED else {item.type, type(None)}
    assert item.absent is REQUIRED or item.decode is None

    def encode(values: Collection[Any]) -> bytes:
        count = encode_long(len(values)) if values else b""
        return b"".join([count, *map(item.encode, values), encode_long(0)])

    def decode(values: list[Any], at: str) -> tuple[Any, ...]:
        if not allowed.issuperset(map(type, values)):
            raise ValueError(expected)
        return tuple(values if item.decode is None else [item.decode(value, at) for value in values])

    return Kind({"type": "array", "items": item.avro}, encode, list, expected, decode, item=item)


def _file_name(value: str, at: str) -> str:
    if not is_file_name(value):
        raise ValueError("the name of a file")
    return value


def _int(value: int, at: str) -> int:
    if not -GREATEST_INT - 1 <= value <= GREATEST_INT:
        raise ValueError("an integer of 32 bits")
    return value


def _encode_text(text: str) -> bytes:
    return encode_bytes(text.encode())


NULL, NOT_NULL = encode_long(0), encode_long(1)
INT: Final = Kind("int", encode_long, int, "an integer", _int)
LONG: Final = Kind("long", encode_long, int, "an integer")  # Avro has no greater ones
TEXT: Final = Kind("string", _encode_text, str, "text")
BYTES: Final = Kind("bytes", encode_bytes, bytes, "bytes")
FILE_NAME: Final = replace(TEXT, expected="the name of a file", decode=_file_name)
TEXTS: Final = list_of(TEXT, "a list of texts")
FILE_NAMES: Final = list_of(FILE_NAME, "a list of names of files")
MILLIS: Final = replace(LONG, avro={"type": "long", "logicalType": "timestamp-millis"})


class RecordTable(Generic[Value]):
    """The fields of one kind of record: (name in the file, attribute of ``make``, kind) for each, in order."""

    def __init__(self, make: Callable[..., Value], *fields: tuple[str, str, Kind]) -> None:
        dataclass_of: Any = make
        attributes = [attribute for _, attribute, _ in fields]
        assert attributes == [field.name for field in dataclasses.fields(dataclass_of)]
        self.fields = [(name, kind) for name, _, kind in fields]
        self.make, self.attributes, self._values_of = make, attributes, attrgetter(*attributes)
        self._encoders = [kind.encode for _, kind in self.fields]
        self._decoders = [(name, kind.type, kind.decode, kind) for name, kind in self.fields]
        self.known = WITHOUT_MEANING.union(name for name, _ in self.fields)
        """The names of fields that a record may have with any value."""

    def field_of(self, attribute: str) -> tuple[str, Kind]:
        """Return the name in the file and the kind of an attribute."""
        return self.fields[self.attributes.index(attribute)]

    def encode(self, value: Value) -> bytes:
        """Return a value as a record of Avro, which is its fields, one after the other."""
        return b"".join(
            [encode(part) for encode, part in zip(self._encoders, self._values_of(value), strict=True)]
        )

    def value(self, record: Mapping[str, Any], at: str) -> Value:
        """Return the value that a decoded record stands for. Raises CorruptFileError. Clauses: META-60."""
        if not record.keys() <= self.known:
            _expect_nothing_unknown(record, self.known, at)
        values = []
        for name, type_of_value, decode, kind in self._decoders:
            found = record.get(name)
            if type(found) is not type_of_value:
                if found is not None or kind.absent is REQUIRED:
                    raise _wrong(name, at, kind.expected, found)
                found = kind.absent
            elif decode is not None:
                try:
                    found = decode(found, at)
                except ValueError as error:
                    raise _wrong(name, at, str(error), found) from None
            values.append(found)
        return self.make(*values)


class RecordFile(Generic[Value]):
    """A kind of metadata file: records of one table, each with the version of the format in front.

    ``cached``: how many encoded records to keep, for values that can be hashed. ``starts``: where in a block records
    may begin, if large blocks are to be decoded by columns. Clauses: META-3, META-23, META-34.
    """

    def __init__(
        self,
        version: int,
        table: RecordTable[Value],
        *,
        cached: int = 0,
        starts: Callable[[bytes], Integers] | None = None,
    ) -> None:
        self._version, self._table, self._starts = version, table, starts
        fields = [_avro_field(name, kind) for name, kind in [("_VERSION", INT), *table.fields]]
        self.schema = RecordSchema(
            {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": fields}
        )
        self._encode = lru_cache(cached)(table.encode) if cached else table.encode

    def encode(self, values: Iterable[Value]) -> bytes:
        """Return a file of ``values``."""
        version = encode_long(self._version)
        return encode_container(self.schema, [version + self._encode(value) for value in values])

    def decode(self, data: bytes, at: str, size: int | None) -> list[Value]:
        """Return the values that a file holds, in order. ``size``: of the file, if it is known.

        Raises CorruptFileError.
        """
        return [value for part in self.parts(data, at, size) for value in _made(part)]

    def parts(self, data: bytes, at: str, size: int | None) -> list[list[Value] | ColumnarValues[Value]]:
        """Return the same values in parts, those of large blocks not made yet. Raises CorruptFileError."""
        if size is not None and len(data) != size:
            raise CorruptFileError("file size", at=at, expected=size, found=len(data))
        records = decode_columnar(data, at)
        if records is not None:
            return [self._values(records, at)]
        container = checked_container(data, at)
        # Damage of the container is found before that of a value.
        blocks = [self._block(container, *block) for block in container.unpacked_blocks()]
        return [block if isinstance(block, ColumnarValues) else self._values(block, at) for block in blocks]

    def _block(
        self, container: Container, count: int, block: bytes
    ) -> list[dict[str, Any]] | ColumnarValues[Value]:
        """Return the records of a block, or the values they stand for, if they can be had by columns."""
        if self._starts is not None and count >= MANY_RECORDS:
            with contextlib.suppress(NotInColumns), uncollected():
                found = container.columns(count, block, self._starts(block))
                version = found.fields.get("_VERSION")
                if isinstance(version, Numbers) and bool((version.values == self._version).all()):
                    return ColumnarValues(self._table, found)
        return container.records(count, block)

    def _values(self, records: Sequence[Mapping[str, Any]], at: str) -> list[Value]:
        for record in records:
            if type(record.get("_VERSION")) is not int or record["_VERSION"] != self._version:
                raise _wrong("_VERSION", at, str(self._version), record.get("_VERSION"))
        return [self._table.value(record, at) for record in records]


def stored_records(data: bytes, at: str) -> list[dict[str, Any]]:
    """Return the records of a metadata file with all of their fields, known or not. Raises CorruptFileError."""
    records = decode_columnar(data, at)
    if records is None:
        container = checked_container(data, at)
        blocks = container.unpacked_blocks()
        records = [record for count, block in blocks for record in container.records(count, block)]
    return records


def _made(part: list[Value] | ColumnarValues[Value]) -> list[Value]:
    return part if isinstance(part, list) else part.made()


def nested(table: RecordTable[Any], name: str) -> Kind:
    """Return the kind of a field that is a record; ``name`` is that of its Avro type."""
    return Kind(_avro_record(name, table.fields), table.encode, dict, "a record", table.value, table=table)


def as_stored(name: str, *fields: tuple[str, Kind]) -> Kind:
    """Return the kind of a field that is a record and stays one; the attribute is a mapping."""

    def encode(record: Mapping[str, Any]) -> bytes:
        return b"".join([kind.encode(record.get(name)) for name, kind in fields])

    known = frozenset(name for name, _ in fields)

    def decode(record: dict[str, Any], at: str) -> dict[str, Any]:
        _expect_nothing_unknown(record, known, at)
        return {name: value for name, value in record.items() if name in known}

    return Kind(_avro_record(name, fields), encode, dict, "a record", decode)


def _expect_nothing_unknown(record: Mapping[str, Any], known: Collection[str], at: str) -> None:
    """Raise CorruptFileError if ``record`` has a value in a field that is not ``known``. Clauses: META-60.

    A newer writer and a damaged name look alike.
    """
    for name in sorted(record.keys() - known):
        if record[name] is not None and record[name] != []:
            raise _wrong(name, at, "no value in a field of no release that is known", record[name])


def _avro_field(name: str, kind: Kind) -> dict[str, Any]:
    return {"name": name, "type": kind.avro, **({"default": None} if kind.absent is None else {})}


def _avro_record(name: str, fields: Iterable[tuple[str, Kind]]) -> dict[str, Any]:
    return {"type": "record", "name": f"record_{name}", "fields": [_avro_field(*field) for field in fields]}


def _wrong(name: str, at: str, expected: str, found: object) -> CorruptFileError:
    """Return the error for a field that has not the expected value."""
    return CorruptFileError(name, at=at, expected=expected, found=repr(found)[:80])


ORC_MAGIC: Final = b"ORC"
PARQUET_MAGIC: Final = b"PAR1"
BATCH_ROWS: Final = 256
GREATEST_LONG: Final = (1 << 63) - 1
EPOCH: Final = datetime.datetime(1970, 1, 1)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def decode_columnar(data: bytes, at: str) -> list[dict[str, Any]] | None:
    """Return the records of an ORC or Parquet file, in order; None if ``data`` is neither.

    Raises CorruptFileError. Clauses: META-22, META-23.
    """
    orc = data.startswith(ORC_MAGIC)
    if not orc and not data.startswith(PARQUET_MAGIC):
        return None
    import pyarrow.orc as po  # rarely needed, and slow to import
    import pyarrow.parquet as pq

    try:
        source = pa.BufferReader(data)
        if orc:
            stored = po.ORCFile(source)
            count = stored.nrows
            require_bounded_rows(count, len(data))
            table = stored.read()
        else:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            count = file.metadata.num_rows
            require_bounded_rows(count, len(data))
            table = _bounded_table(file)
        records = [_plain(record) for record in table.to_pylist()]
    except Exception as error:  # whatever the libraries raise on damaged bytes
        found = str(error).strip().partition("\n")[0]
        raise CorruptFileError(
            "ORC data" if orc else "Parquet data", at=at, expected="a readable file", found=found
        ) from None
    if len(records) != count:
        raise CorruptFileError("records", at=at, expected=count, found=len(records))
    return records


def _bounded_table(file: Any) -> pa.Table:
    """Return the rows of a Parquet file, read a few at a time: a long text may stand in it once for many rows."""
    batches, read_bytes = [], 0
    for batch in file.iter_batches(BATCH_ROWS):
        batches.append(batch)
        read_bytes += batch.nbytes
        if read_bytes > MOST_UNPACKED_BYTES:
            raise ValueError(f"more than {MOST_UNPACKED_BYTES} bytes of records")
    return pa.Table.from_batches(batches, file.schema_arrow)


def _plain(value: Any) -> Any:
    """Return ``value`` with all times in it as milliseconds since the epoch."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MILLISECOND
    if type(value) is int and not -GREATEST_LONG - 1 <= value <= GREATEST_LONG:
        raise ValueError(f"{value}, an integer of more than 64 bits with a sign")
    return value
