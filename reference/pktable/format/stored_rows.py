"""Rows of a data file as they are stored: Parquet by row groups, ORC by stripes, Avro by blocks.

All three give tables of some columns in file order with the position of each table's first row, and hold
no more of a file in memory than such a part of it. Types are those the format gives; what they mean for
the table is for `evolution` to say. Errors are the libraries' own (`LIBRARY_ERRORS`).

Clauses: META-7, META-10, META-17, RD-7.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.format.avro import Container
from pktable.format.avro_values import arrow_columns
from pktable.format.parquet_times import has_nanoseconds
from pktable.format.types import NANOS_PER, DataType

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
        self._file = pq.ParquetFile(
            source, page_checksum_verification=True, buffer_size=READ_AHEAD_BYTES, pre_buffer=False
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
                self._expect_times_fit(group, columns)
                seen = 0
                for table in self._group(group, rows, list(columns), batch_rows):
                    yield position + seen, table
                    seen += table.num_rows
                if seen != rows:
                    raise ValueError(f"{seen} of {rows} rows in row group {group}")
            position += rows

    def _expect_times_fit(self, group: int, columns: Columns) -> None:
        """Raise InvalidRequestError if a time is beyond what Arrow counts in nanoseconds: there it wraps."""
        schema = self._file.schema_arrow
        fine = [name for name in columns if has_nanoseconds(pa.schema([schema.field(name)]))]
        if not fine:
            return
        coarse = pq.ParquetFile(self._source, coerce_int96_timestamp_unit="ms")
        for name in fine:
            nanos, millis = (
                [leaf for chunk in table.column(0).chunks for leaf in _times(chunk)]
                for table in (file.read_row_group(group, columns=[name]) for file in (self._file, coarse))
            )
            for found, expected in zip(nanos, millis, strict=True):
                scale = NANOS_PER[expected.type.unit] // NANOS_PER[found.type.unit]
                if not np.array_equal(_counts(found) // scale, _counts(expected)):
                    raise InvalidRequestError(
                        f"{self._at}: column {name}: expected times from 1677 to 2262, which Arrow can count in "
                        "nanoseconds, found another; leave the column out"
                    )

    def _group(self, group: int, rows: int, names: list[str], batch_rows: int) -> Iterator[pa.Table]:
        if rows <= batch_rows:
            yield self._file.read_row_group(group, columns=names, use_threads=False)
            return
        for batch in self._file.iter_batches(
            batch_rows, row_groups=[group], columns=names, use_threads=False
        ):
            yield pa.Table.from_batches([batch])


def _times(array: Any) -> Iterator[Any]:
    """Yield all the times in an array, and in whatever it holds."""
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _times(array.field(i))
    elif pa.types.is_map(array.type):
        yield from _times(array.keys)
        yield from _times(array.items)
    elif pa.types.is_list(array.type):
        yield from _times(array.values)


def _counts(times: Any) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


class OrcRows:
    """An ORC file, read by stripes. The format has no checksums."""

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
            raise InvalidRequestError(
                f"{self._at}: expected times from 1677 to 2262, as Arrow reads them from ORC, found {error}; "
                "leave the column out"
            ) from None


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
        return arrow_columns(records, self._container.schema, columns)


FORMATS: Final[dict[str, Any]] = {"parquet": ParquetRows, "orc": OrcRows, "avro": AvroRows}
"""How to open a data file, by the ending of its name."""
