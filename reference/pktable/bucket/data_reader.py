"""Read one data file: by column name, in batches, with the position of every row.

Positions count all rows of the file, whatever is skipped (RD-7). Columns are asked for by today's names;
a file written under an older schema is read by field id, a file without ``_KEY_`` columns by its value
columns. Page checksums are verified, and everything the Parquet reader objects to is damage.

Clauses: RD-7, RD-11, META-7, META-10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError, UnsupportedOptionError
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.table_files import Place, TableFiles
from pktable.format.deletion_vector import DeletionVector
from pktable.format.manifest import DataFileMeta
from pktable.format.parquet_footer import read_footer
from pktable.format.types import DataType, to_arrow

SYSTEM_TYPES = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}
BATCH_ROWS = 1 << 17


class DataReader:
    """An opened data file of a bucket. Raises CorruptFileError for whatever is not as its metadata says."""

    def __init__(self, files: TableFiles, place: Place, meta: DataFileMeta) -> None:
        self.meta = meta
        self.path = files.data_path(place, meta)
        self._files = files
        if not self.path.endswith(".parquet"):
            raise CorruptFileError(
                "file format", at=self.path, expected=".parquet", found=self.path.rpartition(".")[2]
            )
        try:
            source = files.store.open(self.path)
        except FileNotFoundError:
            raise CorruptFileError("data file", at=self.path, expected="a file", found="none") from None
        try:
            self.parquet = self._opened(source)
        except BaseException:
            source.close()
            raise
        self._physical = set(self.parquet.schema_arrow.names)

    def _opened(self, source: Any) -> Any:
        """Return the file as Parquet, once size and row count are as the metadata says. Clauses: LSM-7."""
        size = source.size()
        if size != self.meta.file_size:
            raise CorruptFileError("file size", at=self.path, expected=self.meta.file_size, found=size)
        parquet = self._guarded(
            lambda: pq.ParquetFile(
                source,
                metadata=read_footer(source, at=self.path),
                page_checksum_verification=True,
                buffer_size=1 << 20,
                pre_buffer=False,
            )
        )
        rows = parquet.metadata.num_rows
        if rows != self.meta.row_count:
            raise CorruptFileError("row count", at=self.path, expected=self.meta.row_count, found=rows)
        return parquet

    def read(
        self,
        columns: Sequence[str],
        *,
        row_groups: Collection[int] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (position of the first row, rows) with exactly ``columns``, in file order."""
        names = [self._physical_name(column) for column in columns]
        wanted = sorted({name for name in names if name is not None})
        for position, table in self._batches(wanted, row_groups, batch_rows):
            yield (
                position,
                pa.table(
                    [self._column(table, name, column) for name, column in zip(names, columns, strict=True)],
                    names=list(columns),
                ),
            )

    def live(
        self, columns: Sequence[str], vector: DeletionVector | None, *, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.Table]:
        """Yield the rows that ``vector`` does not mark. Clauses: DV-1, CMP-12."""
        for position, table in self.read(columns, batch_rows=batch_rows):
            yield without_marked(table, position, vector)

    def _batches(
        self, wanted: Sequence[str], row_groups: Collection[int] | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        position = 0
        for group in range(self.parquet.metadata.num_row_groups):
            rows = self.parquet.metadata.row_group(group).num_rows
            if row_groups is None or group in row_groups:
                yield from self._group(group, position, rows, wanted, batch_rows)
            position += rows

    def _group(
        self, group: int, position: int, rows: int, wanted: Sequence[str], batch_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        if rows <= batch_rows:
            table = self._guarded(
                lambda: self.parquet.read_row_group(group, columns=wanted, use_threads=False)
            )
            self._expect_rows(table.num_rows, rows)
            yield position, table
            return
        batches = self._guarded(
            lambda: self.parquet.iter_batches(
                batch_rows, row_groups=[group], columns=wanted, use_threads=False
            )
        )
        seen = 0
        while (batch := self._guarded(lambda: next(batches, None))) is not None:
            table = pa.Table.from_batches([batch])
            yield position + seen, table
            seen += table.num_rows
        self._expect_rows(seen, rows)

    def _expect_rows(self, found: int, expected: int) -> None:
        if found != expected:
            raise CorruptFileError("rows of a row group", at=self.path, expected=expected, found=found)

    def _physical_name(self, column: str) -> str | None:
        """Return the name of ``column`` in this file, or None if the file was written before it existed."""
        if column in SYSTEM_TYPES:
            if column not in self._physical:
                raise CorruptFileError("columns", at=self.path, expected=column, found=sorted(self._physical))
            return column
        is_key = column.startswith(KEY_PREFIX) and column in self._files.key_columns
        logical = column[len(KEY_PREFIX) :] if is_key else column
        field = self._files.schema.field(logical)
        before = next(
            (f for f in self._files.schema_of(self.meta.schema_id).fields if f.id == field.id), None
        )
        # Parts of a nested column have ids too, but Arrow converts them by name: refuse what that could mix up.
        if before is not None and before.type.children and before.type.children != field.type.children:
            raise UnsupportedOptionError(
                f"type of column {logical}", str(field.type), f"{before.type}, as written"
            )
        name = before.name if before is not None else None
        if is_key and name is not None and KEY_PREFIX + name in self._physical:
            return KEY_PREFIX + name
        if name is not None and name not in self._physical:
            raise CorruptFileError("columns", at=self.path, expected=name, found=sorted(self._physical))
        return name

    def _column(self, table: pa.Table, name: str | None, column: str) -> pa.ChunkedArray:
        kind = self._arrow_type(column)
        if name is None:
            return pa.chunked_array([pa.nulls(table.num_rows, kind)])
        found = table.column(name)
        if found.type == kind:
            return found
        return self._guarded(lambda: found.cast(kind))

    def _arrow_type(self, column: str) -> pa.DataType:
        if column in SYSTEM_TYPES:
            return SYSTEM_TYPES[column]
        logical = column[len(KEY_PREFIX) :] if column in self._files.key_columns else column
        kind: DataType = self._files.schema.field(logical).type
        return to_arrow(kind)

    def _guarded(self, work: Any) -> Any:
        try:
            return work()
        except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
            first_line = str(error).strip().partition("\n")[0]
            raise CorruptFileError(
                "Parquet data", at=self.path, expected="a readable file", found=first_line
            ) from error


def without_marked(table: pa.Table, position: int, vector: DeletionVector | None) -> pa.Table:
    """Return the rows of ``table`` that ``vector`` does not mark; ``position`` is that of its first row.

    Clauses: DV-1, RD-7.
    """
    if vector is None or not table.num_rows:
        return table
    marked = vector.mask(table.num_rows, position)
    return table.filter(pa.array(~marked)) if marked.any() else table
