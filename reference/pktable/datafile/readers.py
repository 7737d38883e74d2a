"""Rows of a data file as they are stored: Parquet by row groups, ORC by stripes, Avro by blocks.

All three give tables of some columns in file order with the position of each table's first row, and hold
no more of a file in memory than such a part of it. Types are those the format gives; what they mean for
the table is for `evolution` to say. Errors are the libraries' own (`LIBRARY_ERRORS`).

Clauses: META-7, META-10, META-17, RD-7.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.datafile.arrow_times import expect_countable, uncountable
from pktable.datafile.avro_values import arrow_columns
from pktable.datafile.parquet_footer import LIKELY_BYTES, changed_footer, checked_footer, read_footer
from pktable.datafile.parquet_times import holds_nanoseconds, times_as_bytes
from pktable.format.avro import Container
from pktable.format.types import DataType

LIBRARY_ERRORS: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError)
READ_AHEAD_BYTES: Final = 1 << 20

Columns = Mapping[str, DataType]
"""Names of columns in a file, and the types they were written as."""


class StoredRows(Protocol):
    """An open data file."""

    names: tuple[str, ...]
    """Its columns, in order."""

    row_count: int | None
    """How many rows it has, None where only reading it tells."""

    def tables(
        self, columns: Columns, *, parts: Collection[int] | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (position of the first row, rows) with ``columns``, in order, at most ``batch_rows`` at a time.

        ``parts``: of the file, by number, to read at all; None for all of them.
        """


class ParquetRows:
    """A Parquet file, read by row groups; page checksums are verified."""

    def __init__(self, source: Any, at: str) -> None:
        metadata, read_ahead = None, READ_AHEAD_BYTES
        if source.size() <= LIKELY_BYTES:  # one read for all of it
            source, read_ahead = pa.BufferReader(source.read()), 0
            checked_footer(source, at=at)
        else:
            metadata = read_footer(source, at=at)
        self._file = pq.ParquetFile(
            source,
            metadata=metadata,
            page_checksum_verification=True,
            buffer_size=read_ahead,
            pre_buffer=False,
        )
        self._source, self._at = source, at
        self.metadata = self._file.metadata
        self.names = tuple(self._file.schema_arrow.names)
        self.row_count: int | None = self.metadata.num_rows

    def tables(
        self, columns: Columns, *, parts: Collection[int] | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        position = 0
        for group in range(self.metadata.num_row_groups):
            rows = self.metadata.row_group(group).num_rows
            if parts is None or group in parts:
                self._expect_countable(group, columns)
                seen = 0
                for table in self._group(group, rows, list(columns), batch_rows):
                    yield position + seen, table
                    seen += table.num_rows
                if seen != rows:
                    raise ValueError(f"{seen} of {rows} rows in row group {group}")
            position += rows

    def _expect_countable(self, group: int, columns: Columns) -> None:
        """Raise InvalidRequestError if a time of a row group is not what Arrow reads it as."""
        schema = self._file.schema_arrow
        fine = [name for name in columns if holds_nanoseconds(schema.field(name).type)]
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


class OrcRows:
    """An ORC file, read by stripes. The format has no checksums.

    Instants (TIMESTAMP WITH LOCAL TIME ZONE) are taken as stored. So does a JVM whose zone is UTC; one of
    another zone shifts them by it when it writes and back when it reads, unless the option
    ``orc.timestamp-ltz.legacy.type`` is false.
    """

    def __init__(self, source: Any, at: str) -> None:
        self._file, self._at = po.ORCFile(source), at
        self.names = tuple(self._file.schema.names)
        self.row_count: int | None = self._file.nrows

    def tables(
        self, columns: Columns, *, parts: Collection[int] | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        numbers = [i for i, name in enumerate(self.names) if name in columns]
        position = 0
        for stripe in range(self._file.nstripes):
            batch = self._read(stripe, numbers)
            table = pa.table(
                {name: _unpadded(batch.column(name), columns[name]) for name in batch.schema.names}
            )
            for start in range(0, table.num_rows, batch_rows):
                part = table.slice(start, batch_rows)
                yield position, part
                position += part.num_rows

    def _read(self, stripe: int, numbers: list[int]) -> Any:
        try:
            return self._file.read_stripe(stripe, columns=numbers)
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            raise uncountable(self._at, error) from None


def _unpadded(column: Any, kind: DataType) -> Any:
    """Return a column of CHAR as it was given: ORC fills it up with spaces."""
    return pc.utf8_rtrim(column, " ") if kind.root == "CHAR" else column


class AvroRows:
    """An Avro container, read by blocks. The format has no checksums, but a mark after each block."""

    row_count: int | None = None

    def __init__(self, source: Any, at: str) -> None:
        self._container = Container(io.BufferedReader(source, READ_AHEAD_BYTES), source.size(), at)
        self.names = tuple(field["name"] for field in self._container.schema["fields"])

    def tables(
        self, columns: Columns, *, parts: Collection[int] | None, batch_rows: int
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
        except Exception as error:  # a damaged schema makes values of any type, and each fails in its own way
            raise ValueError(f"values of other types ({type(error).__name__}: {error})") from None


FORMATS: Final[dict[str, Any]] = {"parquet": ParquetRows, "orc": OrcRows, "avro": AvroRows}
"""How to open a data file, by the ending of its name."""
