"""Read the rows of a data file as they are stored: Parquet by row groups, ORC by rows of stripes, Avro by blocks.

Each reader yields tables of the requested columns in file order, with the position of each table's first row, and
keeps at most one row group or block in memory, and of Parquet and ORC only as many rows as fit there decoded. Column
types are those of the format; `evolution` converts them to the types of the table. Errors are those of the libraries
(`LIBRARY_ERRORS`).

Clauses: META-17, META-29, META-33, META-44, META-61, RD-7, SAFE-8.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.datafile import orc_sizes
from pktable.datafile.arrow_times import expect_countable, uncountable
from pktable.datafile.avro_records import arrow_columns
from pktable.datafile.decoded_size import rows_at_once
from pktable.datafile.encoded import narrowed, worth_encoded
from pktable.datafile.page_index import REMEMBERED_BYTES, PageBounds, PageLayout, RowRanges, within
from pktable.datafile.parquet_footer import (
    LIKELY_BYTES,
    changed_footer,
    checked_footer,
    holds_nanoseconds,
    metadata_of,
    times_as_bytes,
)
from pktable.datafile.parquet_pages import PagedRows
from pktable.datafile.sound_chunks import expect_sound_chunk, has_sound_bounds
from pktable.datafile.thrift_compact import CompactReader
from pktable.format.avro import Container
from pktable.format.types import DataType
from pktable.store.requests import Cache

LIBRARY_ERRORS: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError)
READ_AHEAD_BYTES: Final = 1 << 20
MOST_CHUNKS: Final = 1000  # whose places in the footer are found in less time than pages save
PAGE_CHECKSUM: Final = 4  # of PageHeader, whose fields before it are three numbers
PAGE_HEAD_BYTES: Final = 64
PAGE_ROWS: Final = 20_000  # of a page, as writers make them by default

Columns = Mapping[str, DataType]
"""Columns to read: the name of each in the file, and the type it was written as."""


class StoredRows(Protocol):
    """An open data file."""

    names: tuple[str, ...]
    """Its columns, in order."""

    row_count: int | None
    """The number of rows, None if the file has to be read to find it."""

    by_column: bool
    """Whether to read its columns one by one takes no more than to read them together."""

    def tables(
        self, columns: Columns, *, ranges: RowRanges | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (position of the first row, rows) for consecutive rows, at most ``batch_rows`` at a time.

        ``ranges``: of rows that are wanted, None for all. Others may come with them: ORC and Avro files are always read
        whole.
        """


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer of a Parquet file, parsed: Arrow's metadata and schema, and the layout of its pages."""

    metadata: Any
    schema: pa.Schema
    layout: PageLayout


_FOOTERS: Final = Cache(128)  # by their bytes


def read_footer(source: Any, *, at: str) -> Footer:
    """Return the footer of an open file; a small one is remembered. Raises CorruptFileError, and errors of Arrow.

    Clauses: META-38, RD-24.
    """
    footer = checked_footer(source, at=at)

    def parse() -> Footer:
        metadata = metadata_of(footer)
        return Footer(metadata, metadata.schema.to_arrow_schema(), PageLayout(footer, metadata))

    return _FOOTERS.get(footer, parse) if len(footer) <= REMEMBERED_BYTES else parse()


class ParquetRows:
    """A Parquet file, read by row groups; page checksums are verified."""

    by_column: bool = True

    by_pages: bool
    """Whether its page index is looked at for some of its rows: not where that is likely to cost more than it saves."""

    large: bool
    """Whether there are so many rows that the fastest way to decode strings is looked for.

    Strings that repeat are decoded as numbers into a dictionary and looked up there. If no column has such, strings get
    offsets of 64 bits: Arrow need not divide them at 2 GiB.
    """

    def __init__(self, source: Any, at: str, footer: Footer | None = None) -> None:
        """``footer``: the footer of the file, if it has been read."""
        self._source, self._at, self._read_ahead = source, at, READ_AHEAD_BYTES
        small = source.size() <= LIKELY_BYTES
        self.metadata: Any = None
        self.large = False
        if small:
            source.seek(0)
            self._source, self._read_ahead = pa.BufferReader(source.read()), 0
            end = checked_footer(self._source, at=at)
            # To parse the footer takes longer than all else of a small file. It is opened at once, which parses it.
            self.metadata = self._file.metadata
            self._layout = PageLayout(end, self.metadata)
        else:
            footer = footer or read_footer(source, at=at)
            self.metadata, self.schema, self._layout = footer.metadata, footer.schema, footer.layout
        self.row_count: int | None = self.metadata.num_rows
        self.large = not small and self.metadata.num_rows > PAGE_ROWS
        chunks = self.metadata.num_columns * self.metadata.num_row_groups
        self.by_pages = self.large and chunks <= MOST_CHUNKS

    def tables(
        self,
        columns: Columns,
        *,
        ranges: RowRanges | None,
        batch_rows: int,
        narrow: bool = True,
        encoded: Collection[str] = (),
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield as `StoredRows` says.

        ``narrow``: whether `narrowed` is done here, and not by the caller. ``encoded``: columns of strings or bytes
        that are yielded as dictionary arrays where they are decoded so.
        """
        position = 0
        for group in range(self.metadata.num_row_groups):
            rows = self.metadata.row_group(group).num_rows
            wanted = None if ranges is None else within(ranges, position, position + rows)
            if wanted is None or len(wanted):
                leaves = [leaf for name in columns for leaf in self._leaves.get(name, ())]
                at_once = rows_at_once(self._source, self.metadata, self.chunk, group, leaves, batch_rows)
                chosen = self._chosen(group, wanted, list(columns), at_once)
                for start, table in chosen or self._whole(group, columns, at_once):
                    stored = self.narrowed(table, encoded) if narrow else table
                    for offset in range(0, table.num_rows, batch_rows):
                        yield position + start + offset, stored.slice(offset, batch_rows)
            position += rows

    def page_bounds(self, group: int, names: Sequence[str]) -> dict[str, PageBounds]:
        """Return the bounds of the pages of columns in a row group, as far as the page index has them."""
        return self._pages.bounds(group, names) if self.by_pages else {}

    def expect_page_index(self) -> None:
        """Raise CorruptFileError if the page index is damaged. Clauses: META-38."""
        self._pages.expect_index()

    def first_page_has_checksum(self) -> bool:
        """Return whether the first page of rows has a checksum, True if there is no page.

        Raises as `chunk` does. Clauses: META-10.
        """
        if not self.metadata.num_row_groups:
            return True
        self._source.seek(self.chunk(0, 0).data_page_offset)
        head = CompactReader(self._source.read(PAGE_HEAD_BYTES))
        for number, kind in head.fields():
            if number >= PAGE_CHECKSUM:
                return number == PAGE_CHECKSUM
            head.skip(kind)
        return False

    @cached_property
    def schema(self) -> pa.Schema:
        """The types that Arrow reads its columns as."""
        found: pa.Schema = self.metadata.schema.to_arrow_schema()
        return found

    def chunk(self, group: int, leaf: int) -> Any:
        """Return a column of a row group as Arrow has it, a `pyarrow.parquet.ColumnChunkMetaData`.

        Raises ValueError, IndexError or KeyError if it is damaged or encrypted.
        """
        if not self._layout.sealed:
            expect_sound_chunk(self._layout, group, leaf)
        return self.metadata.row_group(group).column(leaf)

    def statistics(self, group: int, leaf: int) -> Any:
        """Return the bounds of a column of a row group, `pyarrow.parquet.Statistics`; None if absent or damaged.

        Raises as `chunk` does.
        """
        chunk = self.chunk(group, leaf)
        sound = self._layout.sealed or has_sound_bounds(self._layout, group, leaf)
        return chunk.statistics if sound else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @cached_property
    def _leaves(self) -> dict[str, list[int]]:
        """The numbers of the columns that Parquet stores for each column; a nested one has several."""
        found: dict[str, list[int]] = {name: [] for name in self.names}
        for leaf in range(self.metadata.num_columns):
            path = self.metadata.schema.column(leaf).path
            found.setdefault(path if path in found else path.partition(".")[0], []).append(leaf)
        return found

    @cached_property
    def _file(self) -> Any:
        return pq.ParquetFile(
            self._source,
            metadata=self.metadata,
            page_checksum_verification=True,
            buffer_size=self._read_ahead,
            pre_buffer=False,
            binary_type=pa.large_binary() if self.large and not self.encoded else None,
            read_dictionary=self.encoded,
        )

    @cached_property
    def encoded(self) -> list[str]:
        """The columns that are decoded as numbers into a dictionary."""
        return sorted(worth_encoded(self.metadata, self.chunk)) if self.large else []

    @cached_property
    def _pages(self) -> PagedRows:
        return PagedRows(self._source, self._layout, self._at)

    def _chosen(
        self, group: int, wanted: RowRanges | None, names: list[str], at_once: int
    ) -> Iterator[tuple[int, pa.Table]] | None:
        """Return the rows of ``wanted`` page by page, None if all of the row group should be read.

        ``at_once``: how many rows may be decoded together.
        """
        if wanted is None or not self.by_pages or int((wanted[:, 1] - wanted[:, 0]).sum()) > at_once:
            return None
        if any(holds_nanoseconds(self.schema.field(name).type) for name in names):
            return None
        return self._pages.chosen(group, wanted, names)

    def _whole(self, group: int, columns: Columns, batch_rows: int) -> Iterator[tuple[int, pa.Table]]:
        self._expect_countable(group, columns)
        rows, seen = self.metadata.row_group(group).num_rows, 0
        for table in self._group(group, rows, list(columns), batch_rows):
            yield seen, table
            seen += table.num_rows
        if seen != rows:
            raise ValueError(f"{seen} of {rows} rows in row group {group}")

    def _expect_countable(self, group: int, columns: Columns) -> None:
        """Raise InvalidRequestError if Arrow cannot hold a time of a row group."""
        fine = [name for name in columns if holds_nanoseconds(self.schema.field(name).type)]
        if fine:
            times, stored = (file.read_row_group(group, columns=fine) for file in (self._file, self._bytes))
            expect_countable(times, stored, self._at)

    @cached_property
    def _bytes(self) -> Any:
        """The file with columns of INT96 as their bytes."""
        return pq.ParquetFile(
            self._source, metadata=changed_footer(self.metadata, times_as_bytes), pre_buffer=False
        )

    def _group(self, group: int, rows: int, names: list[str], batch_rows: int) -> Iterator[pa.Table]:
        if rows <= batch_rows:
            yield self._file.read_row_group(group, columns=names, use_threads=False)
            return
        for batch in self._file.iter_batches(
            batch_rows, row_groups=[group], columns=names, use_threads=False
        ):
            yield pa.Table.from_batches([batch])

    def narrowed(self, table: pa.Table, encoded: Collection[str] = ()) -> pa.Table:
        """Return decoded rows with the types of the file, but of columns that may stay ``encoded``."""
        if not self.large:
            return table
        fields = [
            field
            if field.name in encoded and pa.types.is_dictionary(field.type)
            else self.schema.field(field.name)
            for field in table.schema
        ]
        return narrowed(table, pa.schema(fields))


class OrcRows:
    """An ORC file, read some rows of a stripe at a time. The format has no checksums.

    Instants (TIMESTAMP WITH LOCAL TIME ZONE) are taken as they are stored, which is right for files of a JVM whose
    zone is UTC. A JVM in another zone shifts them when it writes and back when it reads, unless the option
    ``orc.timestamp-ltz.legacy.type`` is false.
    """

    by_column: bool = False

    def __init__(self, source: Any, at: str) -> None:
        self._source, self._file, self._at = source, po.ORCFile(source), at
        self._padded = orc_sizes.padded_columns(source, self._file)
        self.names = tuple(self._file.schema.names)
        self.row_count: int | None = self._file.nrows

    def tables(
        self, columns: Columns, *, ranges: RowRanges | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        names = [name for name in self.names if name in columns]
        self._expect_no_paths()
        at_once = orc_sizes.rows_at_once(self._source, self._file, names, batch_rows)
        position = 0
        for batch in filter(len, self._batches(names, at_once)):
            table = pa.table({name: self._unpadded(name, batch.column(name)) for name in names})
            yield position, table
            position += table.num_rows

    def _unpadded(self, name: str, column: Any) -> Any:
        """Return a column without the spaces that ORC pads it with. Clauses: META-72."""
        return pc.utf8_rtrim(column, " ") if name in self._padded else column

    def _expect_no_paths(self) -> None:
        """Raise InvalidRequestError if the name of a column is the path of a part of another. Clauses: META-61."""
        schema = self._file.schema
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        found = [(name, part) for part in nested for name in self.names if name.startswith(f"{part}.")]
        if found:
            name, part = found[0]
            raise InvalidRequestError(
                f"{self._at}: column {name!r} next to the nested column {part!r}: the library that reads ORC takes one "
                "for a part of the other; a writer of Parquet can write the rows again"
            )

    def _batches(self, names: list[str], at_once: int) -> Iterator[pa.RecordBatch]:
        """Yield consecutive rows, at most so many at once; none of two stripes together."""
        import pyarrow.dataset as ds  # takes a while, and most tables have no ORC

        scanner = (
            ds.OrcFileFormat()
            .make_fragment(self._source)
            .scanner(
                columns=names, batch_size=at_once, use_threads=False, batch_readahead=0, fragment_readahead=0
            )
        )
        try:
            yield from scanner.to_batches()
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            raise uncountable(f"{self._at}: {error}") from None


class AvroRows:
    """An Avro container, read by blocks. The format has no checksums, but a sync marker after each block."""

    row_count: int | None = None
    by_column: bool = False

    def __init__(self, source: Any, at: str) -> None:
        self._container = Container(io.BufferedReader(source, READ_AHEAD_BYTES), source.size(), at)
        self.names = tuple(field["name"] for field in self._container.schema["fields"])

    def tables(
        self, columns: Columns, *, ranges: RowRanges | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        position = 0
        records: list[dict[str, Any]] = []
        for block in self._container.blocks(set(columns)):
            records += block
            while len(records) >= batch_rows:
                yield position, self._table(records[:batch_rows], columns)
                position += batch_rows
                del records[:batch_rows]
        if records:
            yield position, self._table(records, columns)

    def _table(self, records: list[dict[str, Any]], columns: Columns) -> pa.Table:
        try:
            return arrow_columns(records, self._container.schema, columns)
        except InvalidRequestError:
            raise
        except (
            Exception
        ) as error:  # under a damaged schema values have any type, and each fails in its own way
            raise ValueError(f"values of wrong types ({type(error).__name__}: {error})") from None


FORMATS: Final[dict[str, Any]] = {"parquet": ParquetRows, "orc": OrcRows, "avro": AvroRows}
"""The reader of each format, by the ending of the file's name."""
