"""Edit Parquet footers, so that only TIMESTAMP(7..9) columns are INT96, as Paimon writes them.

Arrow writes either all times of a file as INT96 or none.
1. Writing: columns with coarser times go to Arrow as plain integers (`stored_schema`). Then `with_times` gives the
   schema element of each such column in the footer the logical type that it would have had.
2. Reading: Arrow converts INT96 to 64 bits. `times_as_bytes` changes a footer so that such columns are byte arrays of
   length twelve, whose bytes can then be compared.

A footer is Thrift in compact encoding. This module parses only the parts that it changes, as Arrow writes them, and
copies all other bytes. It can go once Arrow can write INT96 for single columns and read its bytes.

Clauses: META-46, META-47, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from pktable.datafile.thrift_compact import BOOLEANS, LIST, STRUCT, CompactReader

SCHEMA, ROW_GROUPS = 2, 4  # fields of FileMetaData
COLUMNS: Final = 1  # of RowGroup
COLUMN_METADATA: Final = 3  # of ColumnChunk
NUM_CHILDREN, LOGICAL_TYPE = 5, 10  # of SchemaElement
# The first bytes of SchemaElement and ColumnMetaData: their field 1, the physical type.
INT96, FIXED_LENGTH = b"\x15\x06", b"\x15\x0e"
TWELVE_BYTES: Final = b"\x05\x04\x18"  # field 2 of SchemaElement, in the form that may follow any other field

Meaning = tuple[str, bool]
"""The unit of a time, ms or us, and whether it is an instant."""


def has_nanoseconds(schema: pa.Schema) -> bool:
    """Return whether a column, or a part of one, has times finer than microseconds."""
    return any(map(holds_nanoseconds, schema.types))


@lru_cache(maxsize=1024)
def holds_nanoseconds(kind: pa.DataType) -> bool:
    """Return whether a type, or a part of it, has times finer than microseconds."""
    return any(pa.types.is_timestamp(leaf) and leaf.unit == "ns" for leaf in _leaves(kind))


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with times of milliseconds and microseconds as plain integers."""
    return pa.schema([field.with_type(_stored(field.type)) for field in schema])


def meanings(schema: pa.Schema) -> list[Meaning | None]:
    """Return for each leaf of ``schema``, in file order, the time that `stored_schema` makes an integer, or None."""
    return [
        (leaf.unit, leaf.tz is not None) if pa.types.is_timestamp(leaf) and leaf.unit != "ns" else None
        for leaf in _leaves(schema)
    ]


def annotated(footer: bytes, times: Sequence[Meaning | None]) -> bytes:
    """Return a footer in which the leaves have the logical types of ``times``."""
    source = CompactReader(footer)
    version = source.field(0)
    assert version == (1, 5), "the first field of a footer is its version"
    source.skip(5)
    elements = source.field(1)
    assert elements == (2, LIST), "the second field is the list of schema elements"
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
    assert leaf == len(times), "the footer has as many leaves as the Arrow schema"
    return b"".join([*parts, footer[copied:]])


def with_times(schema: pa.Schema) -> Callable[[bytes], bytes]:
    """Return a function from a footer of `stored_schema` to one of ``schema``."""
    times = meanings(schema)
    return lambda footer: annotated(footer, times)


def times_as_bytes(footer: bytes) -> bytes:
    """Return a footer in which columns of INT96 are byte arrays of length twelve. Clauses: RD-11."""
    source, parts, copied = CompactReader(footer), [], 0
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


def _element(source: CompactReader) -> tuple[int, bool]:
    """Read a schema element; return the number of its last field, and whether it is a leaf."""
    last, is_leaf = 0, True
    for number, kind in source.fields():
        last, is_leaf = number, is_leaf and number != NUM_CHILDREN
        source.skip(kind)
    return last, is_leaf


def _column_metadata(source: CompactReader) -> Iterator[int]:
    """Read the list of row groups; yield the offset of the metadata of each column."""
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
    """Return the field ``logicalType`` for an element whose last field has number ``last``."""
    assert last < LOGICAL_TYPE, "Arrow gives a plain integer no logical type"
    time_unit = bytes([{"ms": 1, "us": 2}[unit] << 4 | STRUCT, 0, 0])
    timestamp = bytes([1 << 4 | BOOLEANS[not instant], 1 << 4 | STRUCT]) + time_unit + b"\0"
    return bytes([(LOGICAL_TYPE - last) << 4 | STRUCT, 8 << 4 | STRUCT]) + timestamp + b"\0"
