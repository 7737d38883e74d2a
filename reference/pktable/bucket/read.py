"""Read a bucket: without merging where the deletion vectors have done the work, merging otherwise.

A filter and a limit may only save work: rows are counted by position before anything is skipped (RD-7),
value statistics skip a file or a row group only where no merge follows (RD-8), and a limit counts rows
that are returned (RD-9).

Clauses: APP-2, APP-23, RD-1, RD-3 to RD-9, RD-12, RD-16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.vocabulary import ROW_ID

from pktable.bucket.reader import DataReader, without_deleted
from pktable.bucket.wanted_rows import rows_that_may_match
from pktable.bucket.windows import merge
from pktable.context import TableContext
from pktable.datafile.encoded import decoded
from pktable.datafile.page_index import RowRanges, around
from pktable.datafile.readers import ParquetRows
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder
from pktable.lsm.bucket import BucketPath, BucketState, sorted_runs
from pktable.predicate import Predicate, key_equalities
from pktable.statements.plan import PLACE

FILE: Final = PLACE[0]
STITCHED_ROWS: Final = 1 << 14
FEW_ROWS: Final = 1 << 16  # of a file, in which keys are looked for before other columns are read
POSITION: Final = PLACE[1]
"""The columns that say where a row lies: the name of its data file, and its position there."""


@dataclass(frozen=True, slots=True)
class BucketRead:
    """Part of a read: some files of one bucket at one snapshot. ``merges``: whether they must be merged."""

    state: BucketState
    merges: bool


def by_file(part: BucketRead) -> list[BucketRead]:
    """Return ``part`` file by file unless it is merged: files are read in different ways, and by several tasks."""
    if part.merges:
        return [part]
    return [replace(part, state=replace(part.state, files=files)) for files in same_rows(part.state.files)]


def same_rows(files: Sequence[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """Return ``files`` grouped by the rows they hold columns of, each group newest first.

    Files that have the same first row id are columns of the same rows. All others are alone. Clauses: APP-23.
    """
    groups: dict[object, list[DataFileMeta]] = {}
    for file in files:
        groups.setdefault(file.file_name if file.first_row_id is None else file.first_row_id, []).append(file)
    return [tuple(sorted(same, key=lambda f: -f.max_sequence_number)) for same in groups.values()]


def read_bucket(
    context: TableContext, part: BucketRead, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.Table]:
    """Yield the rows of ``part`` that satisfy ``predicate``, as tables of exactly ``columns``.

    Raises CorruptFileError. Clauses: RD-1, RD-3, RD-4, RD-5, RD-6.
    """
    needed = _needed(columns, predicate)
    read = merged_rows if part.merges else unmerged_rows
    for found in read(context, part.state, needed, predicate, columns or needed[:1]):
        if found.num_rows:
            yield found.select(list(columns))


def _needed(columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    """Return ``columns``, and those that only ``predicate`` reads."""
    return list(dict.fromkeys([*columns, *(predicate.columns() if predicate else ())]))


def unmerged_rows(
    context: TableContext,
    state: BucketState,
    columns: Sequence[str],
    predicate: Predicate | None,
    kept: Sequence[str],
) -> Iterator[pa.Table]:
    """Yield the rows of every file that are live and satisfy ``predicate``, as tables of the columns ``kept``.

    Clauses: RD-1, RD-7, RD-8, RD-16.
    """
    vectors = context.vectors(state)
    first = _columns_of_keys(context, predicate, columns)
    moved = set(columns).difference(predicate.columns() if predicate else ())
    if context.options.data_evolution:
        if vectors:
            raise InvalidRequestError(
                f"{context.root}: data evolution with deletion vectors is not supported"
            )
        for files in same_rows(state.files):
            for table in stitched_rows(context, state.place, files, columns):
                yield live_rows(table, 0, None, predicate, kept)
        return
    for file in state.files:
        reader = DataReader(context, state.place, file)
        wanted = rows_that_may_match(reader, context.schema, predicate) if predicate else None
        vector = vectors.get(file.file_name)
        is_parquet = isinstance(reader.stored, ParquetRows)  # files of other formats are always read whole
        if first and predicate and is_parquet and _row_count(file, wanted) <= FEW_ROWS:
            reader.expect_columns(columns)
            wanted = _rows_found(reader, first, wanted, vector, predicate)
            if not len(wanted):
                continue
        reader.keep_encoded(moved)
        for position, table in reader.read(columns, ranges=wanted):
            yield decoded(live_rows(table, position, vector, predicate, kept))


def _columns_of_keys(
    context: TableContext, predicate: Predicate | None, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of a condition that names keys, if they are not all that is read; none otherwise.

    Most files do not have the keys that a condition names. To find that out takes these columns alone.
    """
    keys = context.schema.key_fields
    if not keys or predicate is None or key_equalities(predicate, [keys[0].name]) is None:
        return ()
    asked = predicate.columns()
    return asked if len(asked) < len(columns) else ()


def _row_count(file: DataFileMeta, ranges: RowRanges | None) -> int:
    return file.row_count if ranges is None else int((ranges[:, 1] - ranges[:, 0]).sum())


def _rows_found(
    reader: DataReader,
    columns: Sequence[str],
    ranges: RowRanges | None,
    vector: DeletionVector | None,
    predicate: Predicate,
) -> RowRanges:
    """Return few ranges of ``ranges`` with all live rows that satisfy ``predicate``, which reads ``columns``."""
    found = [np.empty(0, np.int64)]
    for position, table in reader.read(columns, ranges=ranges):
        numbered = table.append_column(POSITION, _positions(position, table.num_rows))
        found.append(live_rows(numbered, position, vector, predicate, [POSITION]).column(0).to_numpy())
    return around(np.concatenate(found))


def _positions(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count, dtype=np.int64))


def stitched_rows(
    context: TableContext, place: BucketPath, files: Sequence[DataFileMeta], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows of ``files``, which hold columns of the same rows, newest first: the newest file has a column.

    A table has the rows of a batch, one of each file that is read. Raises CorruptFileError if their numbers of rows
    differ, or no file has a column. Clauses: APP-23.
    """
    if len({file.row_count for file in files}) > 1:
        counts = ", ".join(str(file.row_count) for file in files)
        raise CorruptFileError(
            "rows of files with one row id", at=place.directory, expected="as many", found=counts
        )
    found: dict[str, list[str]] = {}
    for column in columns:
        id = context.schema.field(column).id
        having = [file for file in files if file.holds(id, context.schema_of(file.schema_id))]
        # Where none has it, it was added to the table since: the oldest file gives nulls.
        found.setdefault((having or [files[-1]])[0].file_name, []).append(column)
    readers = [
        DataReader(context, place, file).read(found[file.file_name], batch_rows=STITCHED_ROWS)
        for file in files
        if file.file_name in found
    ]
    for parts in _aligned([(table for _, table in reader) for reader in readers]):
        rows = {name: part.column(name) for part in parts for name in part.column_names}
        yield pa.table([rows[name] for name in columns], names=list(columns))


def _aligned(sources: Sequence[Iterator[pa.Table]]) -> Iterator[list[pa.Table]]:
    """Yield tables of equally many rows, one of each source; the sources have as many rows in all."""
    held = [next(source, None) for source in sources]
    while all(table is not None for table in held):
        tables = [table for table in held if table is not None]
        rows = min(table.num_rows for table in tables)
        yield [table.slice(0, rows) for table in tables]
        held = [
            table.slice(rows) if table.num_rows > rows else next(source, None)
            for table, source in zip(tables, sources, strict=True)
        ]


def located_rows(
    context: TableContext,
    part: BucketRead,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    row_ids: bool = False,
) -> Iterator[pa.Table]:
    """Yield the rows of ``part`` that satisfy ``predicate``, each with its place. ``part`` does not merge.

    The tables have ``columns``, then `FILE` (the name of the data file) and `POSITION` (int64), and with ``row_ids``
    `ROW_ID` (int64), null where the file does not store it. A table is of one file, and positions ascend.
    Raises CorruptFileError. Clauses: APP-2, APP-32, RD-7.
    """
    place = [FILE, POSITION, ROW_ID] if row_ids else [FILE, POSITION]
    for file, found in _numbered_rows(context, part, columns, predicate, row_ids=row_ids):
        yield found.append_column(FILE, pa.repeat(file.file_name, found.num_rows)).select([*columns, *place])


def positions_by_file(
    context: TableContext, part: BucketRead, predicate: Predicate | None
) -> dict[str, DeletionVector]:
    """Return the positions of the rows of ``part`` that satisfy ``predicate``, by data file, without empty ones.

    They are a deletion vector of the table's kind, so that memory is bounded by bitmaps. Clauses: APP-2, APP-12.
    """
    builders: dict[str, VectorBuilder] = {}
    for file, table in _numbered_rows(context, part, (), predicate):
        empty = DeletionVector({}, context.vector_bits)
        builders.setdefault(file.file_name, VectorBuilder(empty)).mark(table.column(POSITION).to_numpy())
    return {name: builder.vector() for name, builder in builders.items()}


def _numbered_rows(
    context: TableContext,
    part: BucketRead,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    row_ids: bool = False,
) -> Iterator[tuple[DataFileMeta, pa.Table]]:
    """Yield the rows of a file that `located_rows` finds, as tables with rows but without the column `FILE`."""
    assert not part.merges, "a row of a merge lies in several files"
    # A table without columns would have no rows.
    needed = _needed(columns, predicate) or [context.schema.fields[0].name]
    kept = [*columns, POSITION, ROW_ID] if row_ids else [*columns, POSITION]
    vectors = context.vectors(part.state)
    for file in part.state.files:
        reader = DataReader(context, part.state.place, file)
        wanted = rows_that_may_match(reader, context.schema, predicate) if predicate else None
        vector = vectors.get(file.file_name)
        stored = [ROW_ID] if row_ids and ROW_ID in reader.stored.names else []
        for position, table in reader.read([*needed, *stored], ranges=wanted):
            if row_ids and not stored:
                table = table.append_column(ROW_ID, pa.nulls(table.num_rows, pa.int64()))
            numbered = table.append_column(POSITION, _positions(position, table.num_rows))
            found = live_rows(numbered, position, vector, predicate, kept)
            if found.num_rows:
                yield file, found


def live_rows(
    table: pa.Table,
    position: int,
    vector: DeletionVector | None,
    predicate: Predicate | None,
    kept: Sequence[str],
) -> pa.Table:
    """Return the rows of ``table`` that are live and satisfy ``predicate``, as a table of the columns ``kept``.

    ``position``: that of the first row.
    """
    if predicate is None:
        return without_deleted(table.select(list(kept)), position, vector)
    return predicate.filter(table, None if vector is None else ~vector.mask(table.num_rows, position), kept)


def merged_rows(
    context: TableContext,
    state: BucketState,
    columns: Sequence[str],
    predicate: Predicate | None,
    kept: Sequence[str],
) -> Iterator[pa.Table]:
    """Yield the rows that the merge of all runs leaves and that satisfy ``predicate``, as tables of ``kept``.

    Clauses: CHG-19, RD-3, RD-4, RD-5, MRG-3.
    """
    runs = sorted_runs(state.files, context.order)
    engine = context.merge_engine
    shadows = context.deeper_rows_are_merged(state.files)
    for window in merge(context, state.place, runs, context.vectors(state), engine.needed(columns)):
        window = window.without_kinds(engine.ignores)
        window = window.without_deeper() if shadows else window
        folded = engine.fold(window)
        rows = folded.rows(folded.adds()).select(list(columns))
        yield predicate.filter(rows, columns=kept) if predicate else rows


def live_record_count(context: TableContext, state: BucketState) -> int:
    """Return the number of rows of a bucket that needs no merge, from metadata as `TableContext.deleted_counts`.

    Clauses: RD-1, DV-2.
    """
    deleted = context.deleted_counts(state)
    if context.options.data_evolution:
        return sum(files[0].row_count for files in same_rows(state.files))
    return sum(file.row_count - deleted.get(file.file_name, 0) for file in state.files)
