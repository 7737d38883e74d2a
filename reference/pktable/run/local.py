"""The local runner: this process does the bucket work, without Spark.

Writes take one bucket after the other. Large compactions take several buckets at once, and large reads several files,
on threads: Arrow decodes and encodes without Python's lock.

Clauses: RD-9, RD-12, CMT-12.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import ROW_ID

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.changelog import change_schema, read_changes
from pktable.bucket.read import (
    FILE,
    POSITION,
    BucketRead,
    by_file,
    located_rows,
    read_bucket,
)
from pktable.bucket.write import BucketAppend, merged_by_bucket
from pktable.check.bucket import BucketReport, BucketTask
from pktable.check.walk import check_here
from pktable.context import TableContext
from pktable.format.arrow_values import declared
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder
from pktable.ingest.changes import ChangeKind, expect_arrow
from pktable.ingest.parts import Spooled, in_parts
from pktable.predicate import Predicate
from pktable.run.collect import SHARE, Collector, with_kinds
from pktable.run.runner import (
    SMALL_FILE_BYTES,
    ChangeQuery,
    FoundRows,
    Piece,
    Query,
    Result,
    RowChange,
    gathered,
)
from pktable.run.together import CORES, together
from pktable.statements.arrow_rows import ArrowStatement
from pktable.statements.plan import KIND, Statement
from pktable.store.guard import GuardedStore
from pktable.store.new_files import NewFiles, remove_quietly
from pktable.watching import Progress, report

FIRST_ID = "__pktable_first_row_id"
ONE_THREAD_BYTES = 4 << 20  # of data files, with which one thread is done before others have started

Found = TypeVar("Found")


class LocalRunner:
    """Does the bucket work in this process."""

    def write(
        self,
        context: TableContext,
        rows: pa.Table | Spooled,
        change: ChangeKind,
        assigner: BucketAssigner,
        next_sequence: Mapping[tuple[bytes, int], int],
        new: NewFiles,
        now_millis: int,
    ) -> list[BucketAppend]:
        """Write ``rows``, in order, as level-0 runs. Every file made is recorded in ``new``.

        Raises InvalidRequestError if ``rows`` do not fit the table. Clauses: TBL-8.
        """

        def checked() -> Iterator[pa.Table]:
            start, total = 0, rows.num_rows if isinstance(rows, pa.Table) else 0
            for part in in_parts(rows, context.options.write_buffer_bytes // SHARE // 2):
                try:
                    yield with_kinds(part, context.schema, change)
                except InvalidRequestError as error:
                    if not start:
                        raise
                    raise InvalidRequestError(f"{error}; its rows are counted from row {start} on") from None
                start += part.num_rows
                report("write rows", start, total)

        collector = Collector(context, assigner, next_sequence, new, now_millis)
        return merged_by_bucket(collector.written(checked()))

    def results(self, context: TableContext, pieces: Sequence[Piece[Result]]) -> list[Result]:
        """Run ``pieces``, large ones by several threads. On failure the files made are removed. Clauses: CMT-12."""
        size, least = sum(piece.input_bytes for piece in pieces), pieces[0].least_bytes * len(pieces)
        threads = 1 if _in_one_thread(context, size, least) else pieces[0].at_once
        return together(
            lambda piece: piece.run(context),
            pieces,
            lambda result: remove_quietly(context.store, result.created),
            threads=threads,
            what=pieces[0].what,
        )

    def read(self, context: TableContext, query: Query) -> pa.Table:
        """Return the rows of ``query``. Reading stops when there are as many as its limit. Clauses: RD-9."""
        schema = context.schema.arrow_schema
        empty = pa.schema([schema.field(name) for name in query.columns]).empty_table()
        if query.limit is None:
            tables = [table for found in _in_parts(context, query, list) for table in found]
        else:
            tables = list(_first(_tables(context, query), query.limit))
        return declared(pa.concat_tables(tables), empty.schema) if tables else empty

    def read_changes(self, context: TableContext, query: ChangeQuery) -> pa.Table:
        """Return changes, in order. Clauses: CHG-11."""
        empty = change_schema(context, query.columns, commits=query.commits).empty_table()
        found = (
            read_changes(context, part, query.columns, query.predicate, commits=query.commits)
            for part in query.parts
        )
        return pa.concat_tables([empty, *itertools.chain.from_iterable(found)])

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        return self.read(context, query)

    def count(self, context: TableContext, query: Query) -> int:
        return sum(_in_parts(context, query, lambda tables: sum(table.num_rows for table in tables)))

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> pa.Table:
        """Return the changes of ``statement``, evaluated piece by piece of the target. Clauses: STM-1 to STM-5."""
        expect_arrow(source)
        arrow = ArrowStatement(statement, source, context.schema)
        read = read_bucket if statement.by_key else partial(located_rows, row_ids=statement.tracked)
        found = list(_in_parts(context, query, lambda tables: list(map(arrow.of, tables)), read))
        pieces = [piece for part in found for piece in part]
        changed, matched = [table for table, _ in pieces], [rows for _, rows in pieces]
        return pa.concat_tables([*changed, arrow.rest(matched)])

    def divided(
        self, context: TableContext, query: Query, statement: Statement, changes: pa.Table
    ) -> RowChange:
        """Return the rows that go and the rows that come. Clauses: APP-12, APP-32."""
        vectors = vectors_of_places(context, changes.filter(pc.is_valid(changes.column(FILE))))
        found = found_in(query, vectors)
        return row_change(context, query, statement, found, changes.filter(is_add(changes.column(KIND))))

    def release(self, changes: pa.Table) -> None:
        """Do nothing: Python gives it up."""

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        """Check buckets one after the other."""
        return check_here(context, tasks, progress)


def vectors_of_places(context: TableContext, places: pa.Table) -> dict[str, DeletionVector]:
    """Return the positions of ``places`` (columns `PLACE`) as a vector for each data file."""
    found = {}
    for name in pc.unique(places.column(FILE)).to_pylist():
        positions = places.filter(pc.equal(places.column(FILE), name)).column(POSITION).to_numpy()
        builder = VectorBuilder(DeletionVector({}, context.vector_bits))
        builder.mark(np.sort(positions))
        found[name] = builder.vector()
    return found


def found_in(query: Query, vectors: Mapping[str, DeletionVector]) -> list[FoundRows]:
    """Return by bucket the rows that ``vectors`` name, by data file of ``query``."""
    buckets = {file.file_name: part.state.place.id for part in query.parts for file in part.state.files}
    return gathered(FoundRows(buckets[name], {name: vector}) for name, vector in vectors.items())


def row_change(
    context: TableContext, query: Query, statement: Statement, found: Sequence[FoundRows], added: pa.Table
) -> RowChange:
    """Return the change that deletes the rows ``found`` and adds ``added``.

    ``added``: the table's columns, and `FILE`, with row tracking `Statement.place`. Clauses: APP-32.
    """
    names = list(context.schema.value_names)
    is_old = pc.is_valid(added.column(FILE))
    updates = int(pc.sum(is_old).as_py() or 0)
    if not statement.tracked:
        return RowChange(found, added.select(names), updates=updates)
    updated = with_row_ids(added.filter(is_old), first_row_ids(query)).select([*names, ROW_ID])
    return RowChange(found, added.filter(pc.invert(is_old)).select(names), updated, updates)


def first_row_ids(query: Query) -> pa.Table:
    """Return the first row id of each data file that ``query`` reads and that has one: columns `FILE`, `FIRST_ID`."""
    files = [file for part in query.parts for file in part.state.files if file.first_row_id is not None]
    names = pa.array([file.file_name for file in files], pa.string())
    return pa.table({FILE: names, FIRST_ID: pa.array([file.first_row_id for file in files], pa.int64())})


def with_row_ids(rows: pa.Table, first: pa.Table) -> pa.Table:
    """Return ``rows`` with ids (`ROW_ID`) where their file does not store them. ``first``: `first_row_ids`.

    Clauses: APP-24, APP-32.
    """
    found = pc.index_in(rows.column(FILE), first.column(FILE).combine_chunks())
    counted = pc.add(first.column(FIRST_ID).take(found), rows.column(POSITION))
    at = rows.column_names.index(ROW_ID)
    return rows.set_column(at, ROW_ID, pc.coalesce(rows.column(ROW_ID), counted))


def is_add(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each of these row kinds leaves a row (+I, +U)."""
    return pc.equal(pc.bit_wise_and(kinds, 1), 0)


def _tables(context: TableContext, query: Query) -> Iterator[pa.Table]:
    for part in query.parts:
        yield from read_bucket(context, part, query.columns, query.predicate)


def _first(tables: Iterator[pa.Table], missing: int) -> Iterator[pa.Table]:
    """Yield the first ``missing`` rows, and read no more tables than they are in."""
    while missing and (table := next(tables, None)) is not None:
        yield table.slice(0, missing)
        missing -= min(missing, table.num_rows)


def _in_one_thread(context: TableContext, size: int, least: int) -> bool:
    """Return whether several threads would take longer. From a store that is far away they read at the same time.

    ``size``: of what is read, in bytes. ``least``: if it is near.
    """
    if size <= ONE_THREAD_BYTES:
        return True
    return isinstance(context.store, GuardedStore) and context.store.is_local and size < least


def _in_parts(
    context: TableContext,
    query: Query,
    work: Callable[[Iterator[pa.Table]], Found],
    read: Callable[
        [TableContext, BucketRead, Sequence[str], Predicate | None], Iterator[pa.Table]
    ] = read_bucket,
) -> Iterable[Found]:
    """Return the results of ``work`` on the tables of each part of a query, in order; large reads use threads."""

    def work_on(part: BucketRead) -> Found:
        return work(read(context, part, query.columns, query.predicate))

    files = sum(len(part.state.files) for part in query.parts)
    if _in_one_thread(context, query.input_bytes, SMALL_FILE_BYTES * files):
        return map(work_on, query.parts)
    pieces = [piece for part in query.parts for piece in by_file(part)]
    return together(work_on, pieces, lambda _: None, threads=CORES, what="read")
