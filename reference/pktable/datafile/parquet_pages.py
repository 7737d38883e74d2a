"""Read some pages of a Parquet file, which the page index finds, where Arrow would decode whole row groups.

Arrow has no call for that. So the pages are copied into a small Parquet file in memory. Its footer is that of the file,
but with one row group, whose columns have these pages only. Arrow decodes it as any other file, and checks the
checksums of its pages.

This is done for columns that are not nested, whose page index is consistent. For all others, `PagedRows` says that the
row group must be read as a whole. It can go once Arrow reads pages.

Clauses: META-38, RD-7, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pktable.datafile.parquet_footer import MAGIC, TAIL_BYTES, read_page_index
from pktable.datafile.row_ranges import RowRanges
from pktable.datafile.thrift_compact import STRUCT, CompactReader, Span, integer_bytes, replaced

FILE_ROWS, ROW_GROUPS = 3, 4  # fields of FileMetaData
COLUMNS, GROUP_ROWS = 1, 3  # of RowGroup
METADATA, OFFSET_INDEX, OFFSET_LENGTH, COLUMN_INDEX, COLUMN_LENGTH = 3, 4, 5, 6, 7  # of ColumnChunk
VALUES, DECODED_BYTES, CHUNK_BYTES, DATA_PAGE, DICTIONARY_PAGE = 5, 6, 7, 9, 11  # of ColumnMetaData
LOCATIONS: Final = 1  # of OffsetIndex
OFFSET, SIZE, FIRST_ROW = 1, 2, 3  # of PageLocation
NULL_PAGES, LOWS, HIGHS, NULL_COUNTS = 1, 2, 3, 5  # of ColumnIndex
TRUE: Final = 1
ONE_STRUCT: Final = bytes([1 << 4 | STRUCT])  # the head of a list of one struct
MOST_INDEX_BYTES: Final = 64 << 20
MOST_PAGES: Final = 1 << 18  # of a column in a row group
MOST_PAGE_BYTES: Final = 64 << 20  # decoded, of one row group; more is read as a stream

Numbers = npt.NDArray[np.int64]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PageBounds:
    """The bounds of the n pages of a column in a row group, as the page index has them.

    ``first_rows``: the number of the first row of each, in the row group. ``low``, ``high``: bounds as Parquet encodes
    values; of ``all_null`` pages they say nothing. ``null_counts``: None if not known.
    """

    first_rows: Numbers
    all_null: npt.NDArray[np.bool_]
    low: list[bytes]
    high: list[bytes]
    null_counts: Numbers | None


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a column in a row group: offset and size in bytes of each, its first row and the one after it."""

    offsets: Numbers
    sizes: Numbers
    first_rows: Numbers
    end_rows: Numbers

    def of(self, ranges: RowRanges) -> Numbers:
        """Return the numbers of the pages that have rows of ``ranges``."""
        first = np.searchsorted(self.first_rows, ranges[:, 0], side="right") - 1
        last = np.searchsorted(self.first_rows, ranges[:, 1] - 1, side="right") - 1
        steps = np.zeros(len(self.first_rows) + 1, np.int64)
        np.add.at(steps, first, 1)
        np.add.at(steps, last + 1, -1)
        return np.flatnonzero(np.cumsum(steps)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group in the footer: where it is, its number of rows, and where each of its column chunks begins."""

    whole: Span
    row_count: Span
    columns: list[int]


def _group(reader: CompactReader) -> _Group:
    """Read a row group of a footer."""
    start, row_count = reader.at, (0, 0)
    columns: list[int] = []
    for number, kind in reader.fields():
        before = reader.at
        if number == COLUMNS:
            for _ in range(reader.list_size()):
                columns.append(reader.at)
                reader.skip(STRUCT)
        else:
            reader.skip(kind)
            if number == GROUP_ROWS:
                row_count = before, reader.at
    return _Group((start, reader.at), row_count, columns)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column of a row group: where its metadata is in the footer, and where its parts are in the file.

    ``bytes``: of its pages. ``decoded_bytes``: how many they are without compression.
    """

    metadata: dict[int, Span]
    bytes: Span
    decoded_bytes: int
    offset_index: Span | None
    column_index: Span | None


class PagedRows:
    """The pages of an open Parquet file. Raises for damage CorruptFileError or what `LIBRARY_ERRORS` has."""

    def __init__(self, source: Any, metadata: Any, footer: bytes, at: str) -> None:
        """``footer``: the end of the file from its footer on. ``metadata``: the same, as Arrow has it."""
        self._source, self._metadata, self._at = source, metadata, at
        self._footer = footer[:-TAIL_BYTES]
        self._chunks: dict[tuple[int, int], _Chunk] = {}
        self._pages: dict[tuple[int, int], Pages | None] = {}

    def bounds(self, group: int, names: Sequence[str]) -> dict[str, PageBounds]:
        """Return the bounds of the pages of columns, as far as the page index has them."""
        found = {}
        for name in names:
            pages = self._pages_of(group, name)
            leaf = self._leaves.get(name)
            if pages is not None and leaf is not None:
                bounds = _unless_strange(partial(self._bounds, group, leaf, pages))
                if bounds is not None:
                    found[name] = bounds
        return found

    def expect_index(self) -> None:
        """Raise CorruptFileError if the page index is damaged, as far as a checksum tells. Clauses: META-38."""
        self._read_index()

    def chosen(
        self, group: int, ranges: RowRanges, names: Sequence[str]
    ) -> Iterator[tuple[int, pa.Table]] | None:
        """Return (first row, rows) of each of ``ranges``, which are of the row group, with the columns ``names``.

        None if all of the row group should be read: where it cannot be read by pages, or most of them are wanted.
        """
        rows = self._metadata.row_group(group).num_rows
        columns: dict[bytes, list[str]] = {}
        decoded = 0.0
        for name in names:
            pages = self._pages_of(group, name)
            if pages is None:
                return None
            numbers = pages.of(ranges)
            share = int((pages.end_rows - pages.first_rows)[numbers].sum()) / rows
            decoded += share * self._chunk(group, self._leaves[name]).decoded_bytes
            if share > 0.5 or decoded > MOST_PAGE_BYTES:
                return None
            alike = np.concatenate([pages.first_rows[numbers], pages.end_rows[numbers]]).tobytes()
            columns.setdefault(alike, []).append(name)
        return self._read(group, ranges, names, list(columns.values()))

    def _read(
        self, group: int, ranges: RowRanges, names: Sequence[str], alike: Sequence[Sequence[str]]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows of ``ranges``. ``alike``: ``names`` by the rows that their pages have."""
        columns: dict[str, Any] = {}
        places: dict[str, Numbers] = {}
        for some in alike:
            pages = self._pages_of(group, some[0])
            assert pages is not None, "chosen has looked at it"
            numbers = pages.of(ranges)
            counts = (pages.end_rows - pages.first_rows)[numbers]
            table = self._decoded(group, some, ranges, int(counts.sum()))
            before = np.cumsum(counts) - counts  # rows of the table before each page
            at = np.searchsorted(pages.first_rows[numbers], ranges[:, 0], side="right") - 1
            place = before[at] + ranges[:, 0] - pages.first_rows[numbers][at]
            for name in some:
                columns[name], places[name] = table.column(name), place
        for i, (start, end) in enumerate(ranges.tolist()):
            parts = [columns[name].slice(int(places[name][i]), end - start) for name in names]
            yield start, pa.table(parts, names=list(names))

    def _decoded(self, group: int, names: Sequence[str], ranges: RowRanges, rows: int) -> pa.Table:
        """Return the rows of the pages of ``names`` that have rows of ``ranges``: ``rows`` of them."""
        parts, size = [MAGIC], len(MAGIC)
        edits: dict[Span, bytes] = {}
        for name in names:
            leaf = self._leaves[name]
            chunk, pages = self._chunk(group, leaf), self._pages_of(group, name)
            assert pages is not None, "chosen has looked at it"
            dictionary = self._bytes(chunk.bytes[0], int(pages.offsets[0]))
            found = [dictionary, *self._page_bytes(pages, pages.of(ranges))]
            length = sum(map(len, found))
            edits[chunk.metadata[VALUES]] = integer_bytes(rows)
            edits[chunk.metadata[CHUNK_BYTES]] = integer_bytes(length)
            # Arrow begins at the first of these offsets, and finds out what each page is.
            for offset in chunk.metadata.keys() & {DATA_PAGE, DICTIONARY_PAGE}:
                edits[chunk.metadata[offset]] = integer_bytes(size)
            parts += found
            size += length
        footer = self._edited_footer(group, edits, rows)
        small = b"".join([*parts, footer, len(footer).to_bytes(4, "little"), MAGIC])
        file = pq.ParquetFile(pa.BufferReader(small), page_checksum_verification=True, pre_buffer=False)
        table = file.read_row_group(0, columns=list(names), use_threads=False)
        if table.num_rows != rows:
            raise ValueError(f"{table.num_rows} of {rows} rows in pages of row group {group}")
        return table

    def _edited_footer(self, group: int, edits: dict[Span, bytes], rows: int) -> bytes:
        """Return the footer with one row group, ``group`` with the edits, of so many rows."""
        spans, groups = self._top
        edits = {**edits, groups[group].row_count: integer_bytes(rows)}
        edited = replaced(self._footer, groups[group].whole, edits)
        changes = {spans[FILE_ROWS]: integer_bytes(rows), spans[ROW_GROUPS]: ONE_STRUCT + edited}
        return replaced(self._footer, (0, len(self._footer)), changes)

    def _page_bytes(self, pages: Pages, numbers: Numbers) -> Iterator[bytes]:
        """Yield the bytes of pages; those that follow each other are read at once."""
        for run in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
            yield self._bytes(int(pages.offsets[run[0]]), int(pages.offsets[run[-1]] + pages.sizes[run[-1]]))

    def _bytes(self, start: int, end: int) -> bytes:
        self._source.seek(start)
        found = bytes(self._source.read(end - start))
        if len(found) != end - start:
            raise ValueError(f"{len(found)} of {end - start} bytes at {start}")
        return found

    @cached_property
    def _leaves(self) -> dict[str, int]:
        """The numbers of the columns that are not nested, by name."""
        schema = self._metadata.schema
        columns = [(i, schema.column(i)) for i in range(self._metadata.num_columns)]
        return {one.path: i for i, one in columns if one.path == one.name and not one.max_repetition_level}

    @cached_property
    def _top(self) -> tuple[dict[int, Span], list[_Group]]:
        """Where the fields of the footer are, and its row groups."""
        reader, spans = CompactReader(self._footer), {}
        groups: list[_Group] = []
        for number, kind in reader.fields():
            start = reader.at
            if number == ROW_GROUPS:
                groups = [_group(reader) for _ in range(reader.list_size())]
            else:
                reader.skip(kind)
            spans[number] = start, reader.at
        return spans, groups

    @cached_property
    def _index(self) -> tuple[int, bytes]:
        return self._read_index()

    def _read_index(self) -> tuple[int, bytes]:
        """Return where the page index begins in the file, and its bytes: none if it has none.

        Writers put it between the last page and the footer: the bounds of the first column that has any come first.
        """
        end = self._source.size() - TAIL_BYTES - len(self._footer)
        _, groups = self._top
        chunks = (self._chunk(0, leaf) for leaf in range(len(groups[0].columns) if groups else 0))
        first = next((chunk.column_index for chunk in chunks if chunk.column_index), None)
        if first is None and groups and groups[0].columns:
            first = self._chunk(0, 0).offset_index
        start = first[0] if first else end
        if not end - MOST_INDEX_BYTES <= start <= end:
            return end, b""
        return start, read_page_index(self._source, start, self._footer, at=self._at)

    def _chunk(self, group: int, leaf: int) -> _Chunk:
        if (group, leaf) not in self._chunks:
            self._chunks[group, leaf] = self._parsed(self._top[1][group].columns[leaf])
        return self._chunks[group, leaf]

    def _parsed(self, start: int) -> _Chunk:
        spans = CompactReader(self._footer, start).spans()
        metadata = CompactReader(self._footer, spans[METADATA][0]).spans()

        def number(where: dict[int, Span], field: int) -> int:
            return CompactReader(self._footer, where[field][0]).integer() if field in where else 0

        def index(offset: int, length: int) -> Span | None:
            at = number(spans, offset)
            return (at, at + number(spans, length)) if at else None

        first, dictionary = number(metadata, DATA_PAGE), number(metadata, DICTIONARY_PAGE)
        first = dictionary if 0 < dictionary < first else first
        return _Chunk(
            metadata,
            (first, first + number(metadata, CHUNK_BYTES)),
            number(metadata, DECODED_BYTES),
            index(OFFSET_INDEX, OFFSET_LENGTH),
            index(COLUMN_INDEX, COLUMN_LENGTH),
        )

    def _pages_of(self, group: int, name: str) -> Pages | None:
        """Return the pages of a column, None if it must be read as a whole."""
        leaf = self._leaves.get(name)
        if leaf is None:
            return None
        if (group, leaf) not in self._pages:
            self._pages[group, leaf] = _unless_strange(lambda: self._located(group, leaf))
        return self._pages[group, leaf]

    def _located(self, group: int, leaf: int) -> Pages | None:
        chunk = self._chunk(group, leaf)
        reader = self._index_reader(chunk.offset_index)
        if reader is None:
            return None
        found: list[tuple[int, int, int]] = []
        for number, kind in reader.fields():
            if number != LOCATIONS:
                reader.skip(kind)
                continue
            size = reader.list_size()
            _expect_size(size <= MOST_PAGES)
            for _ in range(size):
                values = {OFFSET: -1, SIZE: -1, FIRST_ROW: -1}
                for field, kind_of_field in reader.fields():
                    if field in values:
                        values[field] = reader.integer()
                    else:
                        reader.skip(kind_of_field)
                found.append((values[OFFSET], values[SIZE], values[FIRST_ROW]))
        return consistent_pages(found, self._metadata.row_group(group).num_rows, *chunk.bytes)

    def _bounds(self, group: int, leaf: int, pages: Pages) -> PageBounds | None:
        reader = self._index_reader(self._chunk(group, leaf).column_index)
        if reader is None:
            return None
        found: dict[int, list[Any]] = {NULL_COUNTS: []}
        values = {
            NULL_PAGES: reader.byte,
            LOWS: reader.binary,
            HIGHS: reader.binary,
            NULL_COUNTS: reader.integer,
        }
        for number, kind in reader.fields():
            if number in values:
                _expect_size(reader.list_size() == len(pages.offsets))
                found[number] = [values[number]() for _ in pages.offsets]
            else:
                reader.skip(kind)
        all_null = np.array(found[NULL_PAGES]) == TRUE
        null_counts = np.array(found[NULL_COUNTS], np.int64) if found[NULL_COUNTS] else None
        return PageBounds(pages.first_rows, all_null, found[LOWS], found[HIGHS], null_counts)

    def _index_reader(self, where: Span | None) -> CompactReader | None:
        """Return a reader of a part of the page index, None if there is no such part."""
        start, data = self._index
        if where is None or not start <= where[0] < where[1] <= start + len(data):
            return None
        return CompactReader(data, where[0] - start)


def _expect_size(right: bool) -> None:
    if not right:
        raise ValueError("a list of as many items as nobody writes")


def _unless_strange(parse: Callable[[], Result]) -> Result | None:
    """Return what ``parse`` finds in a footer or page index, None if that is not as expected.

    A file that someone else wrote without a checksum can be read as a whole.
    """
    try:
        return parse()
    except (ValueError, IndexError, KeyError, OverflowError):
        return None


def consistent_pages(found: Sequence[tuple[int, int, int]], rows: int, start: int, end: int) -> Pages | None:
    """Return pages that follow each other within the bytes and the rows of their column chunk, None for others."""
    if not found:
        return None
    offsets, sizes, first_rows = np.array(found, np.int64).T
    end_rows = np.append(first_rows[1:], rows)
    ends = np.append(offsets[1:], end)
    right = (
        offsets[0] >= start
        and bool(np.all(sizes > 0))
        and bool(np.all(offsets + sizes == ends))
        and first_rows[0] == 0
        and bool(np.all(first_rows < end_rows))
    )
    return Pages(offsets, sizes, first_rows, end_rows) if right else None
