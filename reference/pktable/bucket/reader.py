"""Read one data file: by column name, in batches, with the position of every row.

Positions count all rows of the file, whatever is skipped (RD-7). Columns are asked for by today's names
and types; what the file has is found by field id and converted (`evolution`), a file without ``_KEY_``
columns is read by its value columns. Everything the reader of the format objects to is damage.

Clauses: RD-7, RD-11, META-7, META-10, META-15, META-17.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError, StorageError
from pktable_spec.vocabulary import KEY_PREFIX, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND

from pktable.context import TableContext
from pktable.datafile.evolution import absent, conformed, require_conversion, same_values
from pktable.datafile.page_index import RowRanges, around
from pktable.datafile.readers import FORMATS, LIBRARY_ERRORS, ParquetRows, StoredRows
from pktable.format.bounds import require_bounded_rows
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import DataType, Field, to_arrow
from pktable.format.vectors.deletion_vector import DeletionVector, Positions
from pktable.lsm.bucket import BucketPath
from pktable.merge.grouping import Flags, is_add

SYSTEM_TYPES = {
    SEQUENCE_NUMBER: DataType("BIGINT", nullable=False),
    VALUE_KIND: DataType("TINYINT", nullable=False),
    ROW_ID: DataType("BIGINT"),
}
BATCH_ROWS = 1 << 17
IN_TEXT = re.compile(r"\[errno (\d{1,4})\]", re.IGNORECASE)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column that is asked for, of type ``kind`` today.

    ``source``: its name and type in the file, None if the file was written before there was such a column.
    """

    name: str
    kind: DataType
    source: tuple[str, DataType] | None


class DataReader:
    """An opened data file of a bucket. Raises CorruptFileError for whatever is not as its metadata says."""

    def __init__(self, context: TableContext, place: BucketPath, meta: DataFileMeta) -> None:
        self.meta = meta
        self.path = context.data_path(place, meta)
        self._context = context
        self._encoded: frozenset[str] = frozenset()
        self._format = self.path.rpartition(".")[2]
        if self._format not in FORMATS:
            raise InvalidRequestError(
                f"{self.path}: expected a file of {', '.join(FORMATS)}, found .{self._format}"
            )
        try:
            source = context.open(self.path)
        except FileNotFoundError:
            raise CorruptFileError("data file", at=self.path, expected="a file", found="none") from None
        try:
            self.stored = self._opened(source)
        except BaseException:
            source.close()
            raise

    def _opened(self, source: Any) -> StoredRows:
        """Return the file's rows, once size and row count are as the metadata says. Clauses: LSM-7."""
        size = source.size()
        if size != self.meta.file_size:
            raise CorruptFileError("file size", at=self.path, expected=self.meta.file_size, found=size)
        stored: StoredRows = self.guarded(lambda: FORMATS[self._format](source, self.path))
        if isinstance(stored, ParquetRows) and self._context.options.page_rows is not None:
            stored.by_pages = True
        if stored.row_count is not None:
            self._expect_rows(stored.row_count)
        self.guarded(lambda: require_bounded_rows(self.meta.row_count, size))
        return stored

    def expect_columns(self, columns: Sequence[str]) -> None:
        """Raise as `read` of ``columns`` does if the file does not give one of them."""
        self._columns(columns)

    def keep_encoded(self, columns: Iterable[str]) -> None:
        """Yield those of ``columns`` encoded by a dictionary whose values repeat, for work that only moves them."""
        self._encoded = frozenset(columns)

    def read(
        self,
        columns: Sequence[str],
        *,
        ranges: RowRanges | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (position of the first row, rows) with exactly ``columns``, in file order.

        ``ranges``: of rows that are wanted, None for all; others may come with them.

        Raises InvalidRequestError if a column has a type now that what is stored does not convert to.
        """
        end = 0
        for position, table in self._decoded(columns, ranges, batch_rows):
            end = position + table.num_rows
            yield position, self._converted(table, columns)
        if ranges is None:
            self._expect_rows(end)

    def rows_at(self, positions: Positions, columns: Sequence[str], *, batch_rows: int) -> pa.Table:
        """Return ``columns`` of the rows at ``positions`` (ascending, at least one). No others are converted.

        Raises as `read` does.
        """
        found = []
        parquet = self.stored if isinstance(self.stored, ParquetRows) else None
        how: dict[str, Any] = {} if parquet is None else {"narrow": False}
        for start, table in self._decoded(columns, around(positions), batch_rows, **how):
            first, end = np.searchsorted(positions, [start, start + table.num_rows])
            if first < end:
                some = table.take(pa.array(positions[first:end] - start))
                found.append(self._converted(parquet.narrowed(some) if parquet else some, columns))
        return pa.concat_tables(found)

    def _decoded(
        self, columns: Sequence[str], ranges: RowRanges | None, batch_rows: int, **how: Any
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield (position of the first row, rows) with what the file has of ``columns``, as it is stored."""
        found = self._columns(columns)
        if self._encoded and isinstance(self.stored, ParquetRows):
            how["encoded"] = [
                one.source[0]
                for one in found
                if one.source and one.name in self._encoded and same_values(one.source[1], one.kind)
            ]
        # Some column there must be, for its number of rows.
        wanted = dict(one.source for one in found if one.source) or dict([self._some_column()])
        tables = self.stored.tables(
            {name: wanted[name] for name in sorted(wanted)}, ranges=ranges, batch_rows=batch_rows, **how
        )
        while (rows := self.guarded(lambda: next(tables, None))) is not None:
            yield rows

    def _converted(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return exactly ``columns`` of rows that are as they are stored."""
        found = [self._column(table, column) for column in self._columns(columns)]
        return pa.table(found, names=list(columns))

    def live(
        self, columns: Sequence[str], vector: DeletionVector | None, *, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.Table]:
        """Yield the rows that ``vector`` does not delete. Clauses: DV-1, CMP-12."""
        for position, table in self.read(columns, batch_rows=batch_rows):
            yield without_deleted(self.valid(table), position, vector)

    def remembered(
        self, columns: Sequence[str], vector: DeletionVector | None, *, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.Table]:
        """Yield the rows that ``vector`` does not delete, and all retractions. ``columns`` include their kinds.

        Clauses: DV-22.
        """
        for position, table in self.read(columns, batch_rows=batch_rows):
            yield without_deleted(self.valid(table), position, vector, but=~is_add(table))

    def valid(self, rows: pa.Table) -> pa.Table:
        """Return ``rows`` of the file, whose values can be worked with.

        Raises CorruptFileError for text that is no UTF-8, which a read only hands on.
        """
        self.guarded(lambda: rows.validate(full=True))
        return rows

    def _expect_rows(self, found: int) -> None:
        if found != self.meta.row_count:
            raise CorruptFileError("row count", at=self.path, expected=self.meta.row_count, found=found)

    def _columns(self, columns: Sequence[str]) -> list[StoredColumn]:
        """Return what the file has of ``columns``. It is the same for all files of a schema with the same columns.

        Clauses: META-7, META-15, RD-31.
        """
        files = (self.meta.schema_id, self.meta.write_cols, self.stored.names, tuple(columns))
        return self._context.stored_columns.get(
            files, lambda: [StoredColumn(name, self._type(name), self._source(name)) for name in columns]
        )

    def _source(self, column: str) -> tuple[str, DataType] | None:
        name, kind = column, SYSTEM_TYPES.get(column)
        if kind is None:
            field, is_key = self._field(column)
            schema = self._context.schema_of(self.meta.schema_id)
            if not self.meta.holds(field.id, schema):
                return None
            before = schema.by_id[field.id]
            require_conversion(before.type, field.type, f"{self.path}: column {field.name}")
            name, kind = before.name, before.type
            if is_key and KEY_PREFIX + name in self.stored.names:
                name = KEY_PREFIX + name
        if name not in self.stored.names:
            raise CorruptFileError("columns", at=self.path, expected=name, found=sorted(self.stored.names))
        return name, kind

    def _some_column(self) -> tuple[str, DataType]:
        """Return the name and type of a column that the file has."""
        if system := self._context.schema.system_columns:
            return system[0], SYSTEM_TYPES[system[0]]
        for field in self._context.schema_of(self.meta.schema_id).fields:
            if field.name in self.stored.names:
                return field.name, field.type
        raise CorruptFileError(
            "columns", at=self.path, expected="one of the table's", found=self.stored.names
        )

    def _field(self, column: str) -> tuple[Field, bool]:
        """Return the field of the table that ``column`` holds, and whether it is a ``_KEY_`` column."""
        is_key = column.startswith(KEY_PREFIX) and column in self._context.key_columns
        return self._context.schema.field(column[len(KEY_PREFIX) :] if is_key else column), is_key

    def _type(self, column: str) -> DataType:
        """Return the type that ``column`` has today."""
        return SYSTEM_TYPES.get(column) or self._field(column)[0].type

    def _column(self, table: pa.Table, column: StoredColumn) -> pa.ChunkedArray:
        if column.source is None:
            what = f"{self.path}: column {column.name}"
            return pa.chunked_array([absent(table.num_rows, column.kind, what)])
        name, before = column.source
        stored: Any = table.column(name)
        if column.name in self._encoded and self._is_encoded(stored.type, before, column.kind):
            return stored

        def conform() -> pa.ChunkedArray:
            # A file may call a column a dictionary that nobody has asked for as one.
            plain = stored.cast(stored.type.value_type) if pa.types.is_dictionary(stored.type) else stored
            newer = self.meta.schema_id > self._context.schema.id
            return conformed(plain, before, column.kind, f"{self.path}: column {column.name}", exact=newer)

        return self.guarded(conform)

    def _is_encoded(self, found: Any, before: DataType, kind: DataType) -> bool:
        """Return whether a column is encoded by a dictionary, and its values are of the type of today."""
        return (
            pa.types.is_dictionary(found) and found.value_type == to_arrow(kind) and same_values(before, kind)
        )

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` on the stored file returns. Raises CorruptFileError for errors of its library."""
        try:
            return work()
        except FileNotFoundError:
            raise CorruptFileError("data file", at=self.path, expected="a file", found="none") from None
        except StorageError:
            raise
        except LIBRARY_ERRORS as error:
            failure = _of_the_store(error)
            if failure is not None:  # not of a decoder
                raise StorageError("read", self.path, *failure) from error
            first_line = str(error).strip().partition("\n")[0]
            raise CorruptFileError(
                f"{self._format} data", at=self.path, expected="a readable file", found=first_line
            ) from error


def _of_the_store(error: BaseException) -> tuple[int, str] | None:
    """Return the number and the text of an error of the system, None for any other error.

    The library for ORC has the number in its text alone.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno, error.strerror or str(error)
    found = IN_TEXT.search(str(error))
    return (int(found[1]), os.strerror(int(found[1]))) if found else None


def without_deleted(
    table: pa.Table, position: int, vector: DeletionVector | None, *, but: Flags | None = None
) -> pa.Table:
    """Return the rows of ``table`` that ``vector`` does not delete; ``position`` is that of its first row.

    ``but``: a flag per row, whether it stays although it is deleted. Clauses: DV-1, RD-7.
    """
    if vector is None or not table.num_rows:
        return table
    marked = vector.mask(table.num_rows, position)
    if but is not None:
        marked &= ~but
    # Taking rows by number is three times as fast as filtering them by a mask.
    return table.take(pa.array(np.flatnonzero(~marked))) if marked.any() else table
