"""Read a bucket: without merging where the deletion vectors have done the work, merging otherwise.

A filter and a limit may only save work: rows are counted by position before anything is skipped (RD-7),
value statistics skip a file or a row group only where no merge follows (RD-8), and a limit counts rows
that are returned (RD-9).

Clauses: RD-1, RD-3 to RD-9, RD-12, RD-16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pktable.bucket.reader import DataReader, without_deleted
from pktable.bucket.row_groups import row_groups_that_may_match
from pktable.bucket.windows import merge
from pktable.context import TableContext
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketState
from pktable.lsm.runs import sorted_runs
from pktable.predicate import Predicate


@dataclass(frozen=True, slots=True)
class BucketRead:
    """Part of a read: some files of one bucket at one snapshot. ``merges``: whether they must be merged."""

    state: BucketState
    merges: bool


def by_file(part: BucketRead) -> list[BucketRead]:
    """Return ``part`` file by file unless it is merged: files are read in different ways, and by several tasks."""
    if part.merges:
        return [part]
    return [replace(part, state=replace(part.state, files=(file,))) for file in part.state.files]


def read_bucket(
    context: TableContext, part: BucketRead, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.Table]:
    """Yield the rows of ``part`` that satisfy ``predicate``, as tables of exactly ``columns``.

    Raises CorruptFileError. Clauses: RD-1, RD-3, RD-4, RD-5, RD-6.
    """
    needed = (
        [*columns, *(name for name in predicate.columns() if name not in columns)] if predicate else columns
    )
    read = merged_rows if part.merges else unmerged_rows
    for found in read(context, part.state, needed, predicate):
        if found.num_rows:
            yield found.select(list(columns))


def unmerged_rows(
    context: TableContext, state: BucketState, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.Table]:
    """Yield the rows of every file that are live and satisfy ``predicate``. Clauses: RD-1, RD-7, RD-8, RD-16."""
    vectors = context.vectors(state)
    for file in state.files:
        reader = DataReader(context, state.place, file)
        groups = row_groups_that_may_match(reader, context.schema, predicate) if predicate else None
        vector = vectors.get(file.file_name)
        for position, table in reader.read(columns, row_groups=groups):
            yield live_rows(table, position, vector, predicate)


def live_rows(
    table: pa.Table, position: int, vector: DeletionVector | None, predicate: Predicate | None
) -> pa.Table:
    """Return the rows of ``table``, whose first is at ``position``, that are live and satisfy ``predicate``."""
    if predicate is None:
        return without_deleted(table, position, vector)
    return predicate.filter(table, None if vector is None else ~vector.mask(table.num_rows, position))


def merged_rows(
    context: TableContext, state: BucketState, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.Table]:
    """Yield the rows that the merge of all runs leaves. Clauses: RD-3, RD-4, RD-5, MRG-3."""
    runs = sorted_runs(state.files, context.order)
    engine = context.merge_engine
    for window in merge(context, state.place, runs, context.vectors(state), engine.needed(columns)):
        window = window.without(engine.ignored(window.records))
        folded = engine.fold(window)
        rows = folded.rows(folded.adds()).select(list(columns))
        yield predicate.filter(rows) if predicate else rows


def live_record_count(context: TableContext, state: BucketState) -> int:
    """Return the number of rows of a bucket that needs no merge, from metadata as `TableContext.deleted_counts`.

    Clauses: RD-1, DV-2.
    """
    deleted = context.deleted_counts(state)
    return sum(file.row_count - deleted.get(file.file_name, 0) for file in state.files)
