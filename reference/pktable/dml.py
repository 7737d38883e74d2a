"""UPDATE, DELETE, MERGE, overwrite and truncate: statements over rows that are there, computed and committed as one.

A statement reads the latest snapshot with level 0 merged in, the runner computes its changes, and they are written and
committed like any write. If another commit changed rows that it read, it is computed again on the latest snapshot.

Clauses: STM-1 to STM-10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable.catalog.arguments import expect_flag, expect_text
from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId, Replaces, TouchedPartitions
from pktable.catalog.effects import Result, Tally
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import TableState
from pktable.format.binary_row import decode_row
from pktable.format.types import array_of
from pktable.ingest.changes import ChangeKind
from pktable.ingest.sources import accept_parts, accept_rows
from pktable.merge_builder import MergeBuilder
from pktable.predicate import Predicate
from pktable.run.runner import Query, RowChange, Runner, found_rows, raised_for, sparks_words
from pktable.staged import RowWork, StagedRows
from pktable.staged_write import StagedWrite, Work
from pktable.staging import Stager
from pktable.statements.arguments import Assignments, expect_all, texts_of, updated
from pktable.statements.names import Names
from pktable.statements.plan import (
    KIND,
    SOURCE,
    TARGET,
    Clause,
    SparkText,
    SparkWords,
    Statement,
    When,
    of_table,
)


@dataclass(frozen=True)
class Statements:
    """Executes statements on one table."""

    catalog: Catalog
    stager: Stager
    runner: Runner

    def names(self, alias: str | None, *, by_spark: bool) -> Names:
        """Return what an UPDATE or DELETE may name. Raises InvalidRequestError. Clauses: WH-8."""
        if alias is not None:
            expect_text("alias", alias)
        words = self.words(by_spark)
        return Names(self.catalog.context.schema.fields, (), (alias or TARGET, SOURCE), words)

    def words(self, by_spark: bool) -> SparkWords | None:
        """Return how the session reads words if ``by_spark``, None if not.

        Raises InvalidRequestError without a session. Clauses: WH-8.
        """
        expect_flag("by_spark", by_spark)
        if not by_spark:
            return None
        if (words := sparks_words(self.runner)) is None:
            raise InvalidRequestError(
                "by_spark: expected a table with a session, and not runner='local'; give spark=session to Table.open"
            )
        return words

    def expect_engine(self, *, updates: bool = False, deletes: bool = False) -> None:
        """Raise InvalidRequestError unless merging a +U replaces a row, or a -D removes it. Clauses: MRG-18."""
        engine = self.catalog.context.merge_engine
        if updates and not engine.updates:
            what, remedy = "replaced", "upsert writes rows that it merges"
        elif deletes and not engine.deletes:
            what, remedy = (
                "deleted by key",
                "`pktable options delete` lists those that say what a deletion does",
            )
        else:
            return
        raise InvalidRequestError(
            f"{self.catalog.context.root}: rows cannot be {what} under merge-engine={engine.name} and the options of "
            f"this table; {remedy}"
        )

    def update(
        self, assignments: Assignments, where: str | None, commit_id: CommitId, names: Names
    ) -> Result | None:
        """Execute an UPDATE; return the id of the snapshot after it, None if no row changes."""
        values = updated(assignments, self.catalog.context.schema, names, "set", (TARGET,))
        predicate, by_spark = self._rows_of(where, names)
        clause = Clause(
            When.NOT_MATCHED_BY_SOURCE,
            RowKind.UPDATE_AFTER,
            by_spark,
            values,
            "set",
            texts=texts_of(assignments),
        )
        return self.execute(self._without_source(clause, names), None, predicate, commit_id)

    def delete(self, where: str, commit_id: CommitId, names: Names) -> Result | None:
        """Execute a DELETE; return the id of the snapshot after it, None if no row goes."""
        context = self.catalog.context
        predicate, by_spark = self._rows_of(where, names)
        if by_spark is not None:
            clause = Clause(When.NOT_MATCHED_BY_SOURCE, RowKind.DELETE, by_spark, None, "where", where)
            return self.execute(self._without_source(clause, names), None, predicate, commit_id)
        if not self.stager.kind.has_keys:
            return self._delete_rows(predicate, commit_id)

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            # The columns of sequence.field say how new the deletion is.
            whole = context.user_order is not None
            columns = context.schema.value_names if whole else context.schema.primary_keys
            query = replace(self._query(state, columns, predicate), is_written=True)
            return self.runner.read(context, query), ChangeKind(RowKind.DELETE, keys_only=not whole)

        return self._written(work, commit_id)

    def _without_source(self, clause: Clause, names: Names) -> Statement:
        schema, tracked = self.catalog.context.schema, self.catalog.context.options.row_tracking
        return Statement(
            (clause,), schema.value_names, schema.primary_keys, tracked=tracked, aliases=names.aliases
        )

    def _rows_of(self, where: str | None, names: Names) -> tuple[Predicate | None, SparkText | None]:
        """Return the condition of an UPDATE or DELETE: what to evaluate here, and what to leave to Spark."""
        if names.aliases[0] == TARGET and names.by_spark is None:
            return self.condition(where), None
        if where is None:
            return None, None
        found = names.condition(where, what="where", sides=(TARGET,))
        if not isinstance(found, SparkText):
            return Predicate(where, of_table(found)), None
        sure = None if found.certain is None else Predicate(where, of_table(found.certain))
        return sure, found

    def _delete_rows(self, predicate: Predicate | None, commit_id: CommitId) -> Result | None:
        """Delete rows of an append table by their positions. Clauses: APP-12."""

        def work(state: TableState) -> RowChange:
            found = found_rows(self.runner, self.catalog.context, self._query(state, (), predicate))
            return RowChange(found, updates=0)

        return self._changed(work, commit_id)

    def execute(
        self,
        statement: Statement,
        source: Any,
        predicate: Predicate | None,
        commit_id: CommitId,
        *,
        reads_pairs: bool = True,
    ) -> Result | None:
        """Execute a statement over the target rows of ``predicate``; return the id of the snapshot after it.

        ``reads_pairs``: whether ``predicate`` holds for every target row that may be in a pair.
        """
        if not statement.by_key:
            return self._execute_by_place(statement, source, predicate, commit_id)

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            query = self._query(state, statement.needed(TARGET), predicate)
            rows = self.runner.changes(self.catalog.context, query, statement, source)
            return rows, ChangeKind(column=KIND)

        may_replace = not (reads_pairs and statement.inserts_are_new)
        return self._written(work, commit_id, may_replace=may_replace)

    def _execute_by_place(
        self, statement: Statement, source: Any, predicate: Predicate | None, commit_id: CommitId
    ) -> Result | None:
        """Execute a statement on an append table: old rows go by their place, new ones are added.

        Clauses: APP-31, APP-32.
        """
        kept: list[Any] = []

        def work(state: TableState) -> RowChange:
            query = self._query(state, statement.needed(TARGET), predicate)
            changes = self.runner.changes(self.catalog.context, query, statement, source)
            kept.append(changes)
            return self.runner.divided(self.catalog.context, query, statement, changes)

        try:
            return self._changed(work, commit_id)
        finally:
            for changes in kept:
                self.runner.release(changes)

    def overwrite(self, rows: Any, where: str | None, commit_id: CommitId, *, dynamic: bool) -> Result | None:
        """Replace the rows that ``where`` holds for by ``rows``; None if nothing changes.

        ``dynamic``: replace the partitions that ``rows`` are in, without ``where``. Clauses: WH-20.
        """
        context, predicate = self.catalog.context, self.condition(where)
        if predicate is not None and not self.is_about_partitions(where):
            return self._overwrite_rows(rows, str(where), predicate, commit_id)
        holds = TouchedPartitions() if dynamic else self._partitions(predicate)
        change = ChangeKind(RowKind.INSERT, whole=True)  # a column that is left out would lose values
        rows = accept_parts(rows, context.schema, change, context.options.write_buffer_bytes)
        return self._written(lambda state: (rows, change), commit_id, holds, isolated=False)

    def remove_partitions(
        self, find: Callable[[TableState], Mapping[bytes, dict[str, str]]], commit_id: CommitId
    ) -> dict[bytes, dict[str, str]]:
        """Remove, and return, what ``find`` returns of the state before the commit, by partition. Clauses: STM-17."""
        schema, change = self.catalog.context.schema, ChangeKind(RowKind.INSERT, whole=True)
        gone: dict[bytes, dict[str, str]] = {}

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            gone.clear()
            gone.update(find(state))
            return schema.arrow_schema.empty_table() if gone else None, change

        self._written(work, commit_id, lambda one: one in gone)
        return gone

    def rescale(self, where: str | None, commit_id: CommitId) -> Result | None:
        """Write the partitions again that have another number of buckets than the option; None if there are none.

        Clauses: BKT-18, BKT-20.
        """
        context = self.catalog.context
        if context.options.bucket < 1 or not self.stager.kind.has_keys:
            raise InvalidRequestError(
                f"{context.root}: rescale: expected a table with a primary key and a fixed number of buckets, found "
                f"bucket={context.options.bucket}; "
                + (
                    "rows that wait in a postpone bucket get buckets by compact"
                    if context.postpones_buckets
                    else "dynamic buckets grow by themselves"
                )
            )
        holds = self.partitions_of("rescale", where)
        old: set[bytes] = set()

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            change = ChangeKind(RowKind.INSERT, whole=True)
            old.clear()
            old.update(
                one
                for one, totals in state.totals.items()
                if totals != {context.options.bucket} and holds(one)
            )
            if not old:
                return None, change
            parts = plan_read(context, self.catalog.states, state, fresh=True, predicate=None)
            parts = [part for part in parts if part.state.place.partition in old]
            query = Query(parts, context.schema.value_names, is_written=True)
            return self.runner.read(context, query), change

        return self._written(work, commit_id, lambda one: one in old)

    def partitions_of(self, what: str, where: str | None) -> Callable[[bytes], bool]:
        """Return whether ``where``, a condition on partition columns, holds for a partition.

        Raises InvalidRequestError for any other condition; ``what`` asks for it. Clauses: STM-7.
        """
        if not self.is_about_partitions(where):
            raise InvalidRequestError(
                f"{what}: expected a condition on partition columns alone, found {where!r}"
            )
        return self._partitions(self.condition(where))

    def is_about_partitions(self, where: str | None) -> bool:
        """Whether an overwrite with the condition ``where`` replaces whole partitions. Clauses: STM-7, STM-10."""
        predicate = self.condition(where)
        columns = set(predicate.columns()) if predicate else set()
        return predicate is None or bool(
            columns and columns <= set(self.catalog.context.schema.partition_keys)
        )

    def _overwrite_rows(
        self, rows: Any, where: str, predicate: Predicate, commit_id: CommitId
    ) -> Result | None:
        """Delete the rows that ``predicate`` holds for and add ``rows``, in one write. Clauses: STM-10."""
        context = self.catalog.context
        rows = accept_rows(rows, context.schema, ChangeKind(RowKind.INSERT, whole=True))
        with raised_for(rows):
            rows = expect_all(rows, where, predicate, context.schema)
        if self.stager.kind.has_keys:
            merge = MergeBuilder.of(
                self.execute, context, rows, context.schema.primary_keys, (TARGET, SOURCE)
            )
            if set(context.schema.value_names) > set(context.schema.primary_keys):
                merge = merge.when_matched_update_all()
            merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete()
            statement = replace(merge.statement(), same_keys=True)
            return self.execute(statement, merge.source, predicate, commit_id, reads_pairs=False)

        def work(state: TableState) -> RowChange:
            found = found_rows(self.runner, context, self._query(state, (), predicate))
            return RowChange(found, rows, updates=0)

        return self._changed(work, commit_id)

    def condition(self, where: str | None) -> Predicate | None:
        """Return the condition ``where``. Raises InvalidRequestError."""
        return self.catalog.context.predicate(where)

    def _written(
        self,
        work: Work,
        commit_id: CommitId,
        replaces: Replaces | None = None,
        *,
        isolated: bool = True,
        may_replace: bool = False,
    ) -> Result | None:
        """Write the rows that ``work`` computes from the latest state; return the id of the snapshot after it.

        ``replaces``, ``isolated``: as in `StagedWrite.of`. ``may_replace``: as in `Tally`. Clauses: BKT-20, STM-6.
        """
        only = self.catalog.context.options.leaves_compaction
        staged = self.catalog.committer.retry_on_latest_state(
            lambda state: StagedWrite.of(
                self.stager, state, work, write_only=only, isolated=isolated, replaces=replaces
            )
        )
        if staged is None:
            return None
        after = staged.commit(commit_id)
        # What was committed before may have been computed from other rows.
        updates = None if staged.is_repeated else sum(one.updates for one in staged.appends)
        return Tally(commit_id, updates, may_replace=may_replace).result(after, self.catalog)

    def _changed(self, work: RowWork, commit_id: CommitId) -> Result | None:
        """Change the rows of an append table that ``work`` finds in the latest state. Clauses: APP-12 to APP-18."""
        tally = Tally(commit_id)

        def counted(state: TableState) -> RowChange:
            change = work(state)
            tally.updates, tally.gone = change.updates, change.gone
            return change

        staged = self.catalog.committer.retry_on_latest_state(
            lambda state: StagedRows.of(self.stager, state, counted)
        )
        after = staged.commit(commit_id)
        return (Tally(commit_id) if staged.is_repeated else tally).result(after, self.catalog)

    def _query(self, state: TableState, columns: Sequence[str], predicate: Predicate | None) -> Query:
        context = self.catalog.context
        if state.waiting:
            raise InvalidRequestError(
                f"{context.root}: a statement would not see the rows that wait for a bucket; compact the table first"
            )
        parts = plan_read(context, self.catalog.states, state, fresh=True, predicate=predicate)
        return Query(parts, columns, predicate)

    def _partitions(self, predicate: Predicate | None) -> Callable[[bytes], bool]:
        """Return whether a condition on partition columns holds for a partition. Clauses: STM-7."""
        if predicate is None:
            return lambda partition: True
        context = self.catalog.context
        fields = context.schema.partition_fields

        @cache  # it is asked about every bucket, at every attempt to commit
        def holds(partition: bytes) -> bool:
            values = decode_row(partition, [f.type for f in fields], at=context.root)
            columns = {f.name: array_of([value], f.type) for f, value in zip(fields, values, strict=True)}
            return bool(predicate.filter(pa.table(columns)).num_rows)

        return holds
