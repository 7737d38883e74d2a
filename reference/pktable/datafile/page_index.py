"""The page index of a Parquet file: which pages its columns have, where they are, and the bounds of their values.

Footer and page index are parsed here by hand, as far as a read by pages needs, because Arrow shows no page index. The
result depends on their bytes alone. So a `PageLayout` can be remembered and serve every file that ends with the same
footer, and its `PageIndex` is made again for other bytes of the index.

A footer or an index that is not as expected is not used: the file is then read as a whole.

Clauses: META-38, RD-7, RD-24.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pktable.datafile.parquet_footer import TAIL_BYTES, is_sealed
from pktable.datafile.thrift_compact import STRUCT, CompactReader, Span

RowRanges = npt.NDArray[np.int64]
"""n ascending ranges of rows that do not touch: an array of n pairs, the first row and the row after the last."""

NEAR: Final = (
    4096  # rows between two that are read with them: many small ranges cost more than rows nobody wants
)


def within(ranges: RowRanges, start: int, end: int) -> RowRanges:
    """Return the parts of ``ranges`` from row ``start`` to before row ``end``, as numbers from ``start`` on."""
    some = ranges[(ranges[:, 1] > start) & (ranges[:, 0] < end)]
    parts: RowRanges = np.clip(some, start, end) - start
    return parts


def around(positions: npt.NDArray[np.int64]) -> RowRanges:
    """Return few ranges that hold all of the ascending ``positions``."""
    if not len(positions):
        return np.empty((0, 2), np.int64)
    gaps = np.flatnonzero(np.diff(positions) > NEAR)
    starts, ends = positions[np.append(0, gaps + 1)], positions[np.append(gaps, len(positions) - 1)] + 1
    return np.stack([starts, ends], axis=1).astype(np.int64)


def where_true(flags: npt.NDArray[np.bool_], edges: npt.NDArray[np.int64]) -> RowRanges:
    """Return the rows of the n parts that are flagged. ``edges``: n + 1 ascending rows, where parts begin and end."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.stack([edges[np.flatnonzero(steps == 1)], edges[np.flatnonzero(steps == -1)]], axis=1)


def together(parts: Sequence[RowRanges]) -> RowRanges:
    """Return ascending ranges as one array; those that touch become one."""
    ranges = np.concatenate([np.empty((0, 2), np.int64), *parts])
    if not len(ranges):
        return ranges
    apart = np.flatnonzero(ranges[1:, 0] > ranges[:-1, 1])
    return np.stack(
        [ranges[np.append(0, apart + 1), 0], ranges[np.append(apart, len(ranges) - 1), 1]], axis=1
    )


FILE_ROWS, ROW_GROUPS = 3, 4  # fields of FileMetaData
COLUMNS, GROUP_ROWS = 1, 3  # of RowGroup
METADATA, OFFSET_INDEX, OFFSET_LENGTH, COLUMN_INDEX, COLUMN_LENGTH = 3, 4, 5, 6, 7  # of ColumnChunk
CRYPTO: Final = 8  # of ColumnChunk, too
VALUES, DECODED_BYTES, CHUNK_BYTES, DATA_PAGE, DICTIONARY_PAGE = 5, 6, 7, 9, 11  # of ColumnMetaData
LOCATIONS: Final = 1  # of OffsetIndex
OFFSET, SIZE, FIRST_ROW = 1, 2, 3  # of PageLocation
NULL_PAGES, LOWS, HIGHS, NULL_COUNTS = 1, 2, 3, 5  # of ColumnIndex
TRUE: Final = 1
REMEMBERED_BYTES: Final = 64 << 10  # of a footer, and of a page index
MOST_PAGES: Final = 1 << 18  # of a column in a row group

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
class Group:
    """A row group in the footer: where it is, its number of rows, and where each of its column chunks begins."""

    whole: Span
    row_count: Span
    columns: list[int]


def _group(reader: CompactReader) -> Group:
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
    return Group((start, reader.at), row_count, columns)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group: where its metadata is in the footer, and where its parts are in the file.

    ``bytes``: of its pages. ``decoded_bytes``: how many they are without compression.
    """

    metadata: dict[int, Span]
    bytes: Span
    decoded_bytes: int
    offset_index: Span | None
    column_index: Span | None
    encrypted: bool


class PageLayout:
    """The part of the footer of a Parquet file that is about pages. Threads may share it."""

    def __init__(self, footer: bytes, metadata: Any) -> None:
        """``footer``: the end of the file from its footer on. ``metadata``: the same, as Arrow has it."""
        self.footer, self.metadata, self.sealed = footer[:-TAIL_BYTES], metadata, is_sealed(footer)
        self._chunks: dict[tuple[int, int], Chunk] = {}
        self._index: PageIndex | None = None

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The numbers of the columns that are not nested, by name."""
        schema = self.metadata.schema
        columns = [(i, schema.column(i)) for i in range(self.metadata.num_columns)]
        return {one.path: i for i, one in columns if one.path == one.name and not one.max_repetition_level}

    @cached_property
    def top(self) -> tuple[dict[int, Span], list[Group]]:
        """Where the fields of the footer are, and its row groups."""
        reader, spans = CompactReader(self.footer), {}
        groups: list[Group] = []
        for number, kind in reader.fields():
            start = reader.at
            if number == ROW_GROUPS:
                groups = [_group(reader) for _ in range(reader.list_size())]
            else:
                reader.skip(kind)
            spans[number] = start, reader.at
        return spans, groups

    @property
    def index_start(self) -> int | None:
        """Where the page index begins in the file, None if it has none.

        Writers put it between the last page and the footer: the bounds of the first column that has any come first.
        """
        _, groups = self.top
        leaves = range(len(groups[0].columns) if groups else 0)
        bounds = (self.chunk(0, leaf).column_index for leaf in leaves)
        first = next(filter(None, bounds), None) or (self.chunk(0, 0).offset_index if leaves else None)
        return first[0] if first else None

    def index(self, start: int, data: bytes) -> PageIndex:
        """Return the page index whose bytes are ``data``, and begin at ``start``; a small one is remembered."""
        known = self._index
        if known is None or (known.start, known.data) != (start, data):
            known = PageIndex(self, start, data)
            if len(data) <= REMEMBERED_BYTES:
                self._index = known
        return known

    def chunk(self, group: int, leaf: int) -> Chunk:
        """Return a column of a row group."""
        if (group, leaf) not in self._chunks:
            self._chunks[group, leaf] = self._parsed(self.top[1][group].columns[leaf])
        return self._chunks[group, leaf]

    def _parsed(self, start: int) -> Chunk:
        spans = CompactReader(self.footer, start).spans()
        metadata = CompactReader(self.footer, spans[METADATA][0]).spans()

        def number(where: dict[int, Span], field: int) -> int:
            return CompactReader(self.footer, where[field][0]).integer() if field in where else 0

        def index(offset: int, length: int) -> Span | None:
            at = number(spans, offset)
            return (at, at + number(spans, length)) if at else None

        first, dictionary = number(metadata, DATA_PAGE), number(metadata, DICTIONARY_PAGE)
        first = dictionary if 0 < dictionary < first else first
        return Chunk(
            metadata,
            (first, first + number(metadata, CHUNK_BYTES)),
            number(metadata, DECODED_BYTES),
            index(OFFSET_INDEX, OFFSET_LENGTH),
            index(COLUMN_INDEX, COLUMN_LENGTH),
            CRYPTO in spans,
        )


class PageIndex:
    """The page index of a file with this ``layout``: its bytes ``data`` begin at ``start``. Threads may share it."""

    def __init__(self, layout: PageLayout, start: int, data: bytes) -> None:
        self.layout, self.start, self.data = layout, start, data
        self._pages: dict[tuple[int, int], Pages | None] = {}
        self._bounds: dict[tuple[int, int], PageBounds | None] = {}

    def pages_of(self, group: int, name: str) -> Pages | None:
        """Return the pages of a column of a row group, None if it must be read as a whole."""
        leaf = self.layout.leaves.get(name)
        if leaf is None:
            return None
        if (group, leaf) not in self._pages:
            self._pages[group, leaf] = unless_strange(lambda: self._located(group, leaf))
        return self._pages[group, leaf]

    def bounds_of(self, group: int, name: str) -> PageBounds | None:
        """Return the bounds of the pages of a column of a row group, None if they are not known."""
        pages, leaf = self.pages_of(group, name), self.layout.leaves.get(name)
        if pages is None or leaf is None:
            return None
        if (group, leaf) not in self._bounds:
            self._bounds[group, leaf] = unless_strange(lambda: self._parsed_bounds(group, leaf, pages))
        return self._bounds[group, leaf]

    def _located(self, group: int, leaf: int) -> Pages | None:
        chunk = self.layout.chunk(group, leaf)
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
        return consistent_pages(found, self.layout.metadata.row_group(group).num_rows, *chunk.bytes)

    def _parsed_bounds(self, group: int, leaf: int, pages: Pages) -> PageBounds | None:
        reader = self._index_reader(self.layout.chunk(group, leaf).column_index)
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
        end = self.start + len(self.data)
        if where is None or not self.start <= where[0] < where[1] <= end:
            return None
        return CompactReader(self.data, where[0] - self.start)


def _expect_size(right: bool) -> None:
    if not right:
        raise ValueError("a list of as many items as nobody writes")


def unless_strange(parse: Callable[[], Result]) -> Result | None:
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
