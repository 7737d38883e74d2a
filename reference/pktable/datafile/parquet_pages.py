"""Read some pages of a Parquet file, which the page index finds, where Arrow would decode whole row groups.

Arrow has no call for that. So the pages are copied into a small Parquet file in memory. Its footer is that of the file,
but with one row group, whose columns have these pages only. Arrow decodes it as any other file, and checks the
checksums of its pages.

This is done for columns that are not nested, whose page index is consistent. For all others, `PagedRows` says that the
row group must be read as a whole. It can go once Arrow reads pages.

Clauses: META-38, RD-7, RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pktable.datafile.page_index import (
    CHUNK_BYTES,
    DATA_PAGE,
    DICTIONARY_PAGE,
    FILE_ROWS,
    ROW_GROUPS,
    VALUES,
    Numbers,
    PageBounds,
    PageIndex,
    PageLayout,
    Pages,
    RowRanges,
    unless_strange,
)
from pktable.datafile.parquet_footer import MAGIC, TAIL_BYTES, read_page_index
from pktable.datafile.thrift_compact import STRUCT, Span, integer_bytes, replaced

ONE_STRUCT: Final = bytes([1 << 4 | STRUCT])  # the head of a list of one struct
MOST_INDEX_BYTES: Final = 64 << 20
MOST_OF_GROUP: Final = 0.5  # of its rows, that pages are read for
MOST_PAGE_BYTES: Final = 64 << 20  # decoded, of one row group; more is read as a stream


class PagedRows:
    """The pages of an open Parquet file. Raises for damage CorruptFileError or what `LIBRARY_ERRORS` has."""

    def __init__(self, source: Any, layout: PageLayout, at: str) -> None:
        self._source, self._layout, self._at = source, layout, at

    def bounds(self, group: int, names: Sequence[str]) -> dict[str, PageBounds]:
        """Return the bounds of the pages of columns, as far as the page index has them."""
        if self._index is None:
            return {}
        found = {name: self._index.bounds_of(group, name) for name in names}
        return {name: bounds for name, bounds in found.items() if bounds is not None}

    def expect_index(self) -> None:
        """Raise CorruptFileError if the page index is damaged, as far as a checksum tells. Clauses: META-38."""
        self._read_index()

    def chosen(
        self, group: int, ranges: RowRanges, names: Sequence[str]
    ) -> Iterator[tuple[int, pa.Table]] | None:
        """Return (first row, rows) of each of ``ranges``, which are of the row group, with the columns ``names``.

        None if all of the row group should be read: where it cannot be read by pages, or most of them are wanted.
        """
        rows = self._layout.metadata.row_group(group).num_rows
        if int((ranges[:, 1] - ranges[:, 0]).sum()) > MOST_OF_GROUP * rows:
            return None  # without the page index: the pages hold no fewer
        columns: dict[bytes, list[str]] = {}
        decoded = 0.0
        for name in names:
            pages = self._pages_of(group, name)
            if pages is None:
                return None
            numbers = pages.of(ranges)
            share = int((pages.end_rows - pages.first_rows)[numbers].sum()) / rows
            decoded += share * self._layout.chunk(group, self._layout.leaves[name]).decoded_bytes
            if share > MOST_OF_GROUP or decoded > MOST_PAGE_BYTES:
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
            chunk, pages = self._layout.chunk(group, self._layout.leaves[name]), self._pages_of(group, name)
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
        spans, groups = self._layout.top
        edits = {**edits, groups[group].row_count: integer_bytes(rows)}
        edited = replaced(self._layout.footer, groups[group].whole, edits)
        changes = {spans[FILE_ROWS]: integer_bytes(rows), spans[ROW_GROUPS]: ONE_STRUCT + edited}
        return replaced(self._layout.footer, (0, len(self._layout.footer)), changes)

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

    def _pages_of(self, group: int, name: str) -> Pages | None:
        """Return the pages of a column, None if it must be read as a whole."""
        return None if self._index is None else self._index.pages_of(group, name)

    @cached_property
    def _index(self) -> PageIndex | None:
        return unless_strange(self._read_index)

    def _read_index(self) -> PageIndex:
        """Read the page index, which has no bytes where there is none, or one of absurd size. Clauses: META-38."""
        footer = self._layout.footer
        end = self._source.size() - TAIL_BYTES - len(footer)
        found = self._layout.index_start
        start = end if found is None else found
        if not end - MOST_INDEX_BYTES <= start <= end:
            return self._layout.index(end, b"")
        return self._layout.index(start, read_page_index(self._source, start, footer, at=self._at))
