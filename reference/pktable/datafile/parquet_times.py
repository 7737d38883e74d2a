"""Parquet files whose TIMESTAMP(7..9) columns are INT96, as Paimon writes them, and the others are not.

Arrow writes all times of a file as INT96 or none. So the coarser ones are given to it as the integers they
are stored as, and the footer is told afterwards what they mean: each such column's schema element gets the
logical type it would have had. And Arrow gives INT96 only as what fits 64 bits; so that its twelve bytes can
be looked at, a footer is made that calls such columns byte arrays of that length.

A footer is Thrift in compact encoding. Of it no more is understood than is changed, and as Arrow writes it;
all else stays as it is.

Clauses: META-17, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

SCHEMA, ROW_GROUPS = 2, 4  # fields of FileMetaData
COLUMNS: Final = 1  # of RowGroup
COLUMN_METADATA: Final = 3  # of ColumnChunk
NUM_CHILDREN, LOGICAL_TYPE = 5, 10  # of SchemaElement
# How SchemaElement and ColumnMetaData begin: with their field 1, the physical type.
INT96, FIXED_LENGTH = b"\x15\x06", b"\x15\x0e"
TWELVE_BYTES: Final = b"\x05\x04\x18"  # field 2 of SchemaElement, spelled so that it may come after any other
BOOLEANS: Final = (1, 2)  # types of the compact encoding; these two are their own value
INTEGERS: Final = (4, 5, 6)
BYTE, DOUBLE, BINARY, LIST, STRUCT = 3, 7, 8, 9, 12

Meaning = tuple[str, bool]
"""The unit of a time, ms or us, and whether it is an instant."""


def has_nanoseconds(schema: pa.Schema) -> bool:
    """Whether a column, or a part of one, holds times finer than microseconds."""
    return any(map(holds_nanoseconds, schema.types))


@lru_cache(maxsize=1024)
def holds_nanoseconds(kind: pa.DataType) -> bool:
    """Whether values of a type hold times finer than microseconds."""
    return any(pa.types.is_timestamp(leaf) and leaf.unit == "ns" for leaf in _leaves(kind))


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with times of milliseconds and microseconds as plain integers."""
    return pa.schema([field.with_type(_stored(field.type)) for field in schema])


def meanings(schema: pa.Schema) -> list[Meaning | None]:
    """Return for each leaf of ``schema``, in the order of a file's columns, what `stored_schema` hides."""
    return [
        (leaf.unit, leaf.tz is not None) if pa.types.is_timestamp(leaf) and leaf.unit != "ns" else None
        for leaf in _leaves(schema)
    ]


def annotated(footer: bytes, times: Sequence[Meaning | None]) -> bytes:
    """Return a footer whose leaves have the logical types of ``times``."""
    source = _Compact(footer)
    version = source.field(0)
    assert version == (1, 5), "a footer begins with its version"
    source.skip(5)
    elements = source.field(1)
    assert elements == (2, LIST), "after it comes the list of schema elements"
    count = source.list_size()
    parts, copied, leaf = [], 0, 0
    for _ in range(count):
        last, is_leaf = _element(source)
        if is_leaf:
            found, leaf = times[leaf], leaf + 1
            if found is not None:
                end = source.at - 1
                parts += [footer[copied:end], _logical_type(last, *found)]
                copied = end
    assert leaf == len(times), "as many leaves as Arrow has"
    return b"".join([*parts, footer[copied:]])


def with_times(schema: pa.Schema) -> Callable[[bytes], bytes]:
    """Return what makes of the footer of `stored_schema` that of ``schema``."""
    times = meanings(schema)
    return lambda footer: annotated(footer, times)


def times_as_bytes(footer: bytes) -> bytes:
    """Return a footer whose columns of INT96 are byte arrays of twelve bytes. Clauses: RD-11."""
    source, parts, copied = _Compact(footer), [], 0
    for number, kind in source.fields():
        if number == SCHEMA:
            for _ in range(source.list_size()):
                start = source.at
                _element(source)
                if footer.startswith(INT96, start):
                    end = source.at - 1
                    parts += [footer[copied:start], FIXED_LENGTH, footer[start + 2 : end], TWELVE_BYTES]
                    copied = end
        elif number == ROW_GROUPS:
            for start in _column_metadata(source):
                if footer.startswith(INT96, start):
                    parts += [footer[copied:start], FIXED_LENGTH]
                    copied = start + 2
        else:
            source.skip(kind)
    return b"".join([*parts, footer[copied:]])


def _leaves(kind: Any) -> Iterator[Any]:
    parts = [kind.field(i).type for i in range(len(kind))] if isinstance(kind, pa.Schema) else _parts(kind)
    if not parts:
        yield kind
    for part in parts:
        yield from _leaves(part)


def _parts(kind: Any) -> list[Any]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(i).type for i in range(kind.num_fields)]


def _stored(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return kind if kind.unit == "ns" else pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_type), kind.item_field.with_type(_stored(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    return kind


def _element(source: _Compact) -> tuple[int, bool]:
    """Read a schema element; return its last field and whether it is a leaf."""
    last, is_leaf = 0, True
    for number, kind in source.fields():
        last, is_leaf = number, is_leaf and number != NUM_CHILDREN
        source.skip(kind)
    return last, is_leaf


def _column_metadata(source: _Compact) -> Iterator[int]:
    """Read the list of row groups; yield where the metadata of each column begins."""
    for _ in range(source.list_size()):
        for number, kind in source.fields():
            if number != COLUMNS:
                source.skip(kind)
                continue
            for _ in range(source.list_size()):
                for part, kind_of_part in source.fields():
                    if part == COLUMN_METADATA:
                        yield source.at
                    source.skip(kind_of_part)


def _logical_type(last: int, unit: str, instant: bool) -> bytes:
    """Return the field ``logicalType`` of an element whose fields so far end with number ``last``."""
    assert last < LOGICAL_TYPE, "Arrow knows no logical type for a plain integer"
    time_unit = bytes([{"ms": 1, "us": 2}[unit] << 4 | STRUCT, 0, 0])
    timestamp = bytes([1 << 4 | BOOLEANS[not instant], 1 << 4 | STRUCT]) + time_unit + b"\0"
    return bytes([(LOGICAL_TYPE - last) << 4 | STRUCT, 8 << 4 | STRUCT]) + timestamp + b"\0"


class _Compact:
    """A cursor over Thrift's compact encoding."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def field(self, last: int) -> tuple[int, int] | None:
        """Return number and type of the next field of a struct, None at its end."""
        head = self.byte()
        if not head:
            return None
        if head >> 4:
            return last + (head >> 4), head & 15
        number = self.varint()
        return (number >> 1) ^ -(number & 1), head & 15

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; whoever asks reads or skips the value."""
        last = 0
        while (found := self.field(last)) is not None:
            yield found
            last = found[0]

    def list_size(self) -> int:
        size = self.byte() >> 4
        return self.varint() if size == 15 else size

    def skip(self, kind: int) -> None:
        if kind in INTEGERS:
            self.varint()
        elif kind == BINARY:
            length = self.varint()
            self.at += length
        elif kind == STRUCT:
            for _, kind_of_field in self.fields():
                self.skip(kind_of_field)
        elif kind == LIST:
            kind_of_item = self.data[self.at] & 15
            for _ in range(self.list_size()):
                self.skip(BYTE if kind_of_item in BOOLEANS else kind_of_item)
        elif kind == BYTE:
            self.at += 1
        elif kind == DOUBLE:
            self.at += 8
        else:
            assert kind in BOOLEANS, "a footer holds no sets and maps"
