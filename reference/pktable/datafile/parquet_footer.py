"""Write and check the footer of a Parquet file with a checksum, and with the types that its times have in Paimon.

Pages have a CRC, but the footer has none, nor has the page index before it: a changed bit in the statistics of a row
group or of a page makes a filter skip rows that match. Thrift lets readers skip fields they do not know, and Parquet
reserves field 32767 for extensions that end with a UUID. Our extension is the CRC-32 of the page index and then that of
all bytes of the footer before it, the former included. A key-value entry would not do, because tools that copy rows
from one file to another copy such entries too. An earlier form, under a UUID of its own, had the latter only.

Only TIMESTAMP(7..9) columns are INT96, as Paimon writes them. Arrow writes either all times of a file as INT96 or none.

1. Writing: columns with coarser times go to Arrow as plain integers (`stored_schema`). Then `with_times` gives the
   schema element of each such column in the footer the logical type that it would have had.
2. Reading: Arrow converts INT96 to 64 bits. `times_as_bytes` changes a footer so that such columns are byte arrays of
   length twelve, whose bytes can then be compared.

A footer is Thrift in compact encoding. Only the parts that change are parsed, as Arrow writes them, and all other bytes
are copied. All of this can go once Arrow writes and checks a footer checksum, and writes INT96 for single columns and
reads its bytes.

Clauses: META-14, META-37, META-38, META-46, META-47, RD-11.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError

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


MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8  # the footer's length and the magic
LIKELY_BYTES: Final = 64 << 10  # the end of a file that usually contains its whole footer

STOP: Final = b"\0"  # the end of a Thrift struct
NAME: Final = uuid.UUID("5a92b1d5-6204-404f-8e12-38587975ebc1").bytes
EARLIER_NAME: Final = uuid.UUID("6d8c7f1e-6b1f-4f0e-9d5b-8a4f2f6f7c53").bytes
CRC_BYTES: Final = 4
HEADER: Final = b"\x08\xff\xff\x01"  # of the field, as Parquet defines it; the length of its bytes follows
FIELD: Final = HEADER + bytes([2 * CRC_BYTES + len(NAME)])
EARLIER_FIELD: Final = HEADER + bytes([CRC_BYTES + len(EARLIER_NAME)])
AFTER_CRC: Final = len(NAME) + len(STOP)  # bytes behind the footer's checksum


class FooterSink:
    """A sink for Arrow's writer that passes all bytes on until `finish`, which seals the footer.

    ``change``: applied to the footer before it is sealed.
    """

    def __init__(self, sink: Any, change: Callable[[bytes], bytes] = bytes) -> None:
        self._sink, self._change = sink, change
        self._held: list[bytes] | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        if self._held is None:
            self._sink.write(data)
        else:
            self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return int(self._sink.tell()) + sum(map(len, self._held or ()))

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """Do nothing: the caller closes the sink it gave."""

    def abandon(self) -> None:
        """Pass no more bytes on: Arrow's writer ends its file when it is deleted, also after an error."""
        self._held = []

    def finish(self, writer: Any) -> None:
        """Close ``writer``, a `pyarrow.parquet.ParquetWriter` on this sink, and write its footer sealed.

        The pages of all rows have been written before, so that page index and footer are what comes now.
        """
        self._held = []
        writer.close()
        data, self._held = b"".join(self._held), None
        self._sink.write(with_sealed_footer(data, 0, self._change))


def with_sealed_footer(data: bytes, pages_end: int, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """Return ``data``, which ends as a Parquet file does, with its footer changed and sealed.

    ``pages_end``: where the last page ends; the page index is between it and the footer.
    """
    start = len(data) - TAIL_BYTES - int.from_bytes(data[-TAIL_BYTES:][:4], "little")
    assert start >= pages_end, "page index and footer are written when the writer is closed"
    footer = sealed(change(data[start:-TAIL_BYTES]), data[pages_end:start])
    return b"".join((data[:start], footer, len(footer).to_bytes(4, "little"), MAGIC))


def sealed(footer: bytes, index: bytes) -> bytes:
    """Return a footer with the checksums of the page index and of itself appended. Clauses: META-37."""
    assert footer.endswith(STOP)
    body = footer[: -len(STOP)] + FIELD + _crc(index)
    return body + _crc(body) + NAME + STOP


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(CRC_BYTES, "big")


def metadata_of(footer: bytes) -> Any:
    """Return the `pyarrow.parquet.FileMetaData` of the end of a file, from its footer on. Raises errors of Arrow."""
    return pq.read_metadata(pa.BufferReader(MAGIC + footer))


def is_sealed(footer: bytes) -> bool:
    """Return whether the end of a file, from its footer on, has our checksum."""
    return footer[:-TAIL_BYTES].endswith((NAME + STOP, EARLIER_NAME + STOP))


def checked_footer(source: Any, *, at: str) -> bytes:
    """Return the end of an open file, from its footer on. Raises CorruptFileError.

    The checksum is compared if the footer has one. Clauses: META-38, RD-11.
    """
    size = source.size()
    source.seek(max(0, size - LIKELY_BYTES))
    end = source.read(min(size, LIKELY_BYTES))
    length = int.from_bytes(end[-TAIL_BYTES:][:4], "little")
    if end[-len(MAGIC) :] != MAGIC or length > size - TAIL_BYTES - len(MAGIC):
        raise CorruptFileError(
            "footer", at=at, expected="its length and PAR1", found=end[-TAIL_BYTES:].hex() or "nothing"
        )
    if length + TAIL_BYTES > len(end):
        source.seek(size - TAIL_BYTES - length)
        end = source.read(length + TAIL_BYTES)
    footer = end[-TAIL_BYTES - length : -TAIL_BYTES]
    if footer.endswith((NAME + STOP, EARLIER_NAME + STOP)):
        earlier = footer.endswith(EARLIER_NAME + STOP)
        body, stored = footer[: -AFTER_CRC - CRC_BYTES], footer[-AFTER_CRC - CRC_BYTES : -AFTER_CRC]
        # The earlier checksum is of what is before the field, and the field's header of five bytes is compared.
        header = body[-len(FIELD) :] if earlier else body[-len(FIELD) - CRC_BYTES : -CRC_BYTES]
        found = _crc(body[: -len(FIELD)] if earlier else body)
        if (header, stored) != (EARLIER_FIELD if earlier else FIELD, found):
            raise CorruptFileError("footer checksum", at=at, expected=stored.hex(), found=found.hex())
    return bytes(end[-TAIL_BYTES - length :])


def read_page_index(source: Any, start: int, footer: bytes, *, at: str) -> bytes:
    """Return the page index of an open file, which begins at ``start``. Raises CorruptFileError if it is damaged.

    ``footer``: its bytes. Files without our checksum pass. Clauses: META-38, RD-11.
    """
    source.seek(start)
    data = bytes(source.read(source.size() - TAIL_BYTES - len(footer) - start))
    if footer.endswith(NAME + STOP):
        stored, found = footer[-AFTER_CRC - 2 * CRC_BYTES :][:CRC_BYTES], _crc(data)
        if found != stored:
            raise CorruptFileError("page index checksum", at=at, expected=stored.hex(), found=found.hex())
    return data


def changed_footer(metadata: Any, change: Callable[[bytes], bytes]) -> Any:
    """Return a `pyarrow.parquet.FileMetaData` whose bytes, as Arrow writes them, went through ``change``."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = change(sink.getvalue().to_pybytes()[len(MAGIC) : -TAIL_BYTES])
    tail = len(footer).to_bytes(4, "little") + MAGIC
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))
