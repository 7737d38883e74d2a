"""UPDATE, DELETE, MERGE, overwrite and truncate: statements over rows that are there, computed and committed as one.

A statement reads the latest snapshot with level 0 merged in, the runner computes its changes, and they are written and
committed like any write. If another commit changed rows that it read, it is computed again on the latest snapshot.

Clauses: STM-1 to STM-10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import RowKind

from pktable.catalog.arguments import expect_flag, expect_text
from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId, Replaces
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import TableState
from pktable.format.binary_row import decode_row
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import Field, array_of
from pktable.ingest.changes import ChangeKind
from pktable.ingest.sources import accept_rows
from pktable.predicate import Predicate, parse
from pktable.predicate.literals import general
from pktable.predicate.tree import Column, Expression
from pktable.run.of_frames import raised_for
from pktable.run.runner import Query, RowChange, Runner, understands_sparks_words
from pktable.staged import RowWork, StagedRows
from pktable.staged_write import StagedWrite, Work
from pktable.staging import Stager
from pktable.statements.names import Names, join_of
from pktable.statements.plan import KIND, SOURCE, TARGET, Clause, SparkText, Statement, When, qualified
from pktable.statements.pruning import of_table, target_condition
from pktable.statements.sources import accept_source, expect_all, source_fields, source_types

Assignments: TypeAlias = Mapping[str, Any]


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
        self.expect_spark(by_spark)
        return Names(self.catalog.context.schema.fields, (), (alias or TARGET, SOURCE), by_spark)

    def expect_spark(self, by_spark: bool) -> None:
        """Raise InvalidRequestError unless ``by_spark`` is False, or there is a session. Clauses: WH-8."""
        expect_flag("by_spark", by_spark)
        if by_spark and not understands_sparks_words(self.runner):
            raise InvalidRequestError(
                "by_spark: expected a table with a session, and not runner='local'; give spark=session to Table.open"
            )

    def update(
        self, assignments: Assignments, where: str | None, commit_id: CommitId, names: Names
    ) -> int | None:
        """Execute an UPDATE; return the id of the snapshot after it, None if no row changes."""
        values = updated(assignments, self.catalog.context.schema, names, "set", (TARGET,))
        predicate, by_spark = self._rows_of(where, names)
        clause = Clause(
            When.NOT_MATCHED_BY_SOURCE,
            RowKind.UPDATE_AFTER,
            by_spark,
            values,
            "set",
            texts=_texts(assignments),
        )
        return self.execute(self._without_source(clause, names), None, predicate, commit_id)

    def delete(self, where: str, commit_id: CommitId, names: Names) -> int | None:
        """Execute a DELETE; return the id of the snapshot after it, None if no row goes."""
        context = self.catalog.context
        predicate, by_spark = self._rows_of(where, names)
        if by_spark is not None:
            clause = Clause(When.NOT_MATCHED_BY_SOURCE, RowKind.DELETE, by_spark, None, "where", where)
            return self.execute(self._without_source(clause, names), None, None, commit_id)
        if not context.schema.primary_keys:
            return self._delete_rows(predicate, commit_id)

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            # The columns of sequence.field say how new the deletion is.
            whole = context.user_order is not None
            columns = context.schema.value_names if whole else context.schema.primary_keys
            query = self._query(state, columns, predicate)
            return self.runner.rows_to_write(context, query), ChangeKind(RowKind.DELETE, keys_only=not whole)

        return self._written(work, commit_id)

    def _without_source(self, clause: Clause, names: Names) -> Statement:
        schema, tracked = self.catalog.context.schema, self.catalog.context.options.row_tracking
        return Statement(
            (clause,), schema.value_names, schema.primary_keys, tracked=tracked, aliases=names.aliases
        )

    def _rows_of(self, where: str | None, names: Names) -> tuple[Predicate | None, SparkText | None]:
        """Return the condition of an UPDATE or DELETE, as one to evaluate here or one for Spark."""
        if names.aliases[0] == TARGET and not names.by_spark:
            return self.condition(where), None
        if where is None:
            return None, None
        found = names.condition(where, what="where", sides=(TARGET,))
        return (None, found) if isinstance(found, SparkText) else (Predicate(where, of_table(found)), None)

    def _delete_rows(self, predicate: Predicate | None, commit_id: CommitId) -> int | None:
        """Delete rows of an append table by their positions. Clauses: APP-12."""

        def work(state: TableState) -> RowChange:
            return RowChange(self.runner.find(self.catalog.context, self._query(state, (), predicate)))

        return self._changed(work, commit_id)

    def execute(
        self, statement: Statement, source: Any, predicate: Predicate | None, commit_id: CommitId
    ) -> int | None:
        """Execute a statement over the target rows of ``predicate``; return the id of the snapshot after it."""
        if not statement.by_key:
            return self._execute_by_place(statement, source, predicate, commit_id)

        def work(state: TableState) -> tuple[Any, ChangeKind]:
            query = self._query(state, statement.needed(TARGET), predicate)
            rows = self.runner.changes(self.catalog.context, query, statement, source)
            return rows, ChangeKind(column=KIND)

        return self._written(work, commit_id)

    def _execute_by_place(
        self, statement: Statement, source: Any, predicate: Predicate | None, commit_id: CommitId
    ) -> int | None:
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

    def overwrite(self, rows: Any, where: str | None, commit_id: CommitId) -> int | None:
        """Replace the rows that ``where`` holds for by ``rows``; None if nothing changes."""
        context, predicate = self.catalog.context, self.condition(where)
        if predicate is not None and not self.is_about_partitions(where):
            return self._overwrite_rows(rows, str(where), predicate, commit_id)
        holds = self._partitions(predicate)
        change = ChangeKind(RowKind.INSERT, whole=True)  # a column that is left out would lose values
        rows = accept_rows(rows, context.schema, change)
        return self._written(lambda state: (rows, change), commit_id, holds, isolated=False)

    def rescale(self, where: str | None, commit_id: CommitId) -> int | None:
        """Write the partitions again that have another number of buckets than the option; None if there are none.

        Clauses: BKT-18, BKT-20.
        """
        context = self.catalog.context
        if context.options.bucket < 1 or not context.schema.primary_keys:
            raise InvalidRequestError(
                f"{context.root}: rescale: expected a table with a primary key and a fixed number of buckets, found "
                f"bucket={context.options.bucket}; dynamic buckets grow by themselves"
            )
        if not self.is_about_partitions(where):
            raise InvalidRequestError(
                f"rescale: expected a condition on partition columns alone, found {where!r}"
            )
        holds = self._partitions(self.condition(where))
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
            return self.runner.rows_to_write(context, Query(parts, context.schema.value_names)), change

        return self._written(work, commit_id, lambda one: one in old)

    def is_about_partitions(self, where: str | None) -> bool:
        """Whether an overwrite with the condition ``where`` replaces whole partitions. Clauses: STM-7, STM-10."""
        predicate = self.condition(where)
        columns = set(predicate.columns()) if predicate else set()
        return predicate is None or bool(
            columns and columns <= set(self.catalog.context.schema.partition_keys)
        )

    def _overwrite_rows(self, rows: Any, where: str, predicate: Predicate, commit_id: CommitId) -> int | None:
        """Delete the rows that ``predicate`` holds for and add ``rows``, in one write. Clauses: STM-10."""
        context = self.catalog.context
        rows = accept_rows(rows, context.schema, ChangeKind(RowKind.INSERT, whole=True))
        with raised_for(rows):
            expect_all(rows, where, predicate, context.schema)
        if context.schema.primary_keys:
            merge = MergeBuilder.of(self, rows, context.schema.primary_keys, (TARGET, SOURCE))
            if set(context.schema.value_names) > set(context.schema.primary_keys):
                merge = merge.when_matched_update_all()
            merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete()
            statement = replace(merge.statement(), same_keys=True)
            return self.execute(statement, merge.source, predicate, commit_id)

        def work(state: TableState) -> RowChange:
            return RowChange(self.runner.find(context, self._query(state, (), predicate)), rows)

        return self._changed(work, commit_id)

    def condition(self, where: str | None) -> Predicate | None:
        """Return the condition ``where``. Raises InvalidRequestError."""
        if where is not None and not isinstance(where, str):
            raise InvalidRequestError(f"where: expected text, found {type(where).__name__}")
        return parse(where, self.catalog.context.schema.fields) if where is not None else None

    def _written(
        self, work: Work, commit_id: CommitId, replaces: Replaces | None = None, *, isolated: bool = True
    ) -> int | None:
        """Write the rows that ``work`` computes from the latest state; return the id of the snapshot after it.

        ``replaces``, ``isolated``: as in `StagedWrite.of`. Clauses: BKT-20, STM-6.
        """
        only = self.catalog.context.options.leaves_compaction
        staged = self.catalog.committer.retry_on_latest_state(
            lambda state: StagedWrite.of(
                self.stager, state, work, write_only=only, isolated=isolated, replaces=replaces
            )
        )
        after = staged.commit(commit_id) if staged else None
        return after.id if after else None

    def _changed(self, work: RowWork, commit_id: CommitId) -> int | None:
        """Change the rows of an append table that ``work`` finds in the latest state. Clauses: APP-12 to APP-18."""
        staged = self.catalog.committer.retry_on_latest_state(
            lambda state: StagedRows.of(self.stager, state, work)
        )
        after = staged.commit(commit_id)
        return after.id if after else None

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


@dataclass(frozen=True)
class MergeBuilder:
    """A MERGE in the making: add clauses, then `execute`. Each method returns a new builder.

    Of the clauses about a row the first whose condition holds decides; without one the row stays as it is. Names of
    columns are written ``target.x`` and ``source.x`` where both have a column x. A value is SQL text, or any other
    Python value as it is (text: ``"'abc'"``). Clauses: STM-1 to STM-6.
    """

    statements: Statements
    names: Names
    source: Any
    on: Expression | SparkText
    on_text: str
    clauses: tuple[Clause, ...] = field(default=())

    @classmethod
    def of(
        cls,
        statements: Statements,
        source: Any,
        on: str | Sequence[str],
        aliases: tuple[str, str],
        *,
        by_spark: bool = False,
    ) -> MergeBuilder:
        """Return a builder without clauses. Raises InvalidRequestError."""
        schema = statements.catalog.context.schema
        if not all(isinstance(alias, str) for alias in aliases):
            raise InvalidRequestError(f"merge: expected aliases that are text, found {aliases!r}")
        if aliases[0].lower() == aliases[1].lower():
            raise InvalidRequestError(
                f"merge: expected two aliases that differ, found {aliases[0]!r} for both"
            )
        source = accept_source(source, schema)
        with raised_for(source):
            types = source_types(source)
        names = Names(schema.fields, source_fields(types), aliases, by_spark)
        condition = _on(on, names)
        text = on if isinstance(on, str) else ", ".join(on)
        return cls(statements, names, source, condition, text)

    def __repr__(self) -> str:
        return f"<MergeBuilder of {self.statements.catalog.context.root}: {len(self.clauses)} clauses, not executed>"

    def when_matched_update(self, set: Assignments, condition: str | None = None) -> MergeBuilder:
        """Update the columns ``set`` of a target row that a source row matches; the others keep their values."""
        what = "when_matched_update"
        values = updated(set, self._schema, self.names, what, (TARGET, SOURCE))
        return self._with(When.MATCHED, RowKind.UPDATE_AFTER, condition, values, what, set)

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Update all columns but those of the key from the source's columns of the same names."""
        what, schema = "when_matched_update_all", self._schema
        others = [name for name in schema.value_names if name not in schema.primary_keys]
        values = updated(self._of_source(others, what), schema, self.names, what, (SOURCE,))
        return self._with(When.MATCHED, RowKind.UPDATE_AFTER, condition, values, what)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a target row that a source row matches."""
        return self._with(When.MATCHED, RowKind.DELETE, condition, None, "when_matched_delete")

    def when_not_matched_insert(self, values: Assignments, condition: str | None = None) -> MergeBuilder:
        """Insert a row for a source row that matches none; a column that is not in ``values`` is null."""
        what = "when_not_matched_insert"
        inserted = self._inserted(values, what)
        return self._with(When.NOT_MATCHED, RowKind.INSERT, condition, inserted, what, values)

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert a source row that matches none, all columns by name."""
        what = "when_not_matched_insert_all"
        inserted = self._inserted(self._of_source(self._schema.value_names, what), what)
        return self._with(When.NOT_MATCHED, RowKind.INSERT, condition, inserted, what)

    def when_not_matched_by_source_update(
        self, set: Assignments, condition: str | None = None
    ) -> MergeBuilder:
        """Update the columns ``set`` of a target row that no source row matches."""
        what = "when_not_matched_by_source_update"
        values = updated(set, self._schema, self.names, what, (TARGET,))
        return self._with(When.NOT_MATCHED_BY_SOURCE, RowKind.UPDATE_AFTER, condition, values, what, set)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a target row that no source row matches."""
        what = "when_not_matched_by_source_delete"
        return self._with(When.NOT_MATCHED_BY_SOURCE, RowKind.DELETE, condition, None, what)

    def execute(self, *, commit_id: CommitId | None = None) -> int | None:
        """Compute and commit the changes; return the id of the snapshot after them, None if nothing changes.

        ``commit_id``: as in `Table.upsert`. Raises InvalidRequestError before anything is committed: for a value that
        cannot be evaluated or stored, or if several source rows change one row. Raises CommitConflictError.
        """
        statement = self.statement()
        condition = target_condition(statement, self.source if isinstance(self.source, pa.Table) else None)
        predicate = Predicate(statement.on, condition, "on") if condition else None
        return self.statements.execute(statement, self.source, predicate, CommitId.given(commit_id))

    def statement(self) -> Statement:
        """Return the MERGE as it is so far. Raises InvalidRequestError."""
        if not self.clauses:
            raise InvalidRequestError(
                "merge: add a clause, such as when_matched_update_all(), before execute()"
            )
        keys, residual = self._join()
        if not keys and not isinstance(residual, SparkText):
            raise InvalidRequestError("merge: on needs an equality of a target column and a source column")
        schema, tracked = self._schema, self.statements.catalog.context.options.row_tracking
        return Statement(
            self.clauses,
            schema.value_names,
            schema.primary_keys,
            keys,
            residual,
            tracked,
            self.on_text,
            aliases=self.names.aliases,
        )

    def _join(
        self,
    ) -> tuple[tuple[tuple[Expression, Expression], ...], Expression | SparkText | None]:
        """Return the equal values of the join, and what else must hold; Spark joins by any condition."""
        if isinstance(self.on, SparkText):
            return (), self.on
        keys, residual = join_of(self.on)
        return ((), SparkText(self.on_text)) if not keys and self.names.by_spark else (keys, residual)

    @property
    def _schema(self) -> TableSchema:
        return self.statements.catalog.context.schema

    def _of_source(self, names: Sequence[str], what: str) -> dict[str, Expression]:
        """Return the columns ``names`` of the source, by name. Raises InvalidRequestError if one is missing."""
        types = {f.name: general(f.type) for f in self.names.source}
        missing = [name for name in names if name not in types]
        if missing:
            raise InvalidRequestError(
                f"{what}: the source has no column {', '.join(missing)}; it has {', '.join(types)}"
            )
        return {name: Column(qualified(SOURCE, name), types[name]) for name in names}

    def _inserted(self, values: Assignments, what: str) -> tuple[Expression | SparkText, ...]:
        schema = self._schema
        given = _assigned(values, schema, self.names, what, (SOURCE,))
        missing = [name for name in schema.primary_keys if name not in given]
        if missing:
            raise InvalidRequestError(f"{what}: primary-key column {', '.join(missing)} has no value")
        for name in schema.value_names:
            if name not in given:
                given[name] = self.names.null(schema.field(name))
        return tuple(given[name] for name in schema.value_names)

    def _with(
        self,
        when: When,
        kind: RowKind,
        condition: str | None,
        values: tuple[Expression | SparkText, ...] | None,
        what: str,
        given: Assignments = MappingProxyType({}),
    ) -> MergeBuilder:
        if any(clause.when is when and clause.condition is None for clause in self.clauses):
            raise InvalidRequestError(
                f"{what}: a clause without a condition comes before it, which takes all rows"
            )
        sides = {When.NOT_MATCHED: (SOURCE,), When.NOT_MATCHED_BY_SOURCE: (TARGET,)}.get(
            when, (TARGET, SOURCE)
        )
        holds = None if condition is None else self.names.condition(condition, what=what, sides=sides)
        clause = Clause(when, kind, holds, values, what, condition, _texts(given))
        return replace(self, clauses=(*self.clauses, clause))


def updated(
    assignments: Assignments, schema: TableSchema, names: Names, what: str, sides: Sequence[str]
) -> tuple[Expression | SparkText, ...]:
    """Return the values of all columns of an updated row.

    Raises InvalidRequestError for a column of the key or of ``sequence.field``. Clauses: STM-9, MRG-25.
    """
    given = _assigned(assignments, schema, names, what, sides)
    if not given:
        raise InvalidRequestError(f"{what}: no column to update")
    keys = [name for name in given if name in schema.primary_keys]
    if keys:
        raise InvalidRequestError(
            f"{what}: {', '.join(keys)} is part of the primary key and cannot be updated; delete the row and insert it"
        )
    ordering = [name for name in given if name in parse_options(schema.options).sequence_fields]
    if ordering and schema.primary_keys:
        raise InvalidRequestError(
            f"{what}: {', '.join(ordering)} is part of sequence.field, and the updated row could be the older one; "
            "write it with upsert"
        )
    return tuple(given.get(f.name) or _target_column(f) for f in schema.fields)


def _target_column(column: Field) -> Column:
    return Column(qualified(TARGET, column.name), general(column.type))


def _assigned(
    assignments: Assignments, schema: TableSchema, names: Names, what: str, sides: Sequence[str]
) -> dict[str, Expression | SparkText]:
    """Return the values that the caller gives to columns. Raises InvalidRequestError."""
    if not isinstance(assignments, Mapping):
        raise InvalidRequestError(
            f"{what}: expected a dict of columns and values, found {type(assignments).__name__}"
        )
    unknown = [str(name) for name in assignments if name not in schema.value_names]
    if unknown:
        raise InvalidRequestError(
            f"{what}: column {', '.join(unknown)} is not in the table; columns are {', '.join(schema.value_names)}"
        )
    return {
        name: given
        if isinstance(given, Column)
        else names.value(given, schema.field(name), what=f"{what}: {name} =", sides=sides)
        for name, given in assignments.items()
    }


def _texts(assignments: Assignments) -> dict[str, str]:
    """Return the new values that were given as SQL, by column."""
    return {name: given for name, given in assignments.items() if isinstance(given, str)}


def _on(on: str | Sequence[str], names: Names) -> Expression | SparkText:
    """Return the condition of a join: SQL text, or the names of columns that are equal."""
    if not isinstance(on, str) and not (isinstance(on, Iterable) and not isinstance(on, bytes | Mapping)):
        raise InvalidRequestError(f"on: expected a condition, a column or several, found {on!r}")
    both = {f.name for f in names.target} & {f.name for f in names.source}
    given = [on] if isinstance(on, str) else list(on)
    if isinstance(on, str) and on not in both:
        return names.condition(on, what="on")
    absent = [str(name) for name in given if not isinstance(name, str) or name not in both]
    if absent or not given:
        raise InvalidRequestError(
            f"on: expected columns of target and source, found {', '.join(absent) or 'none'}"
        )
    left, right = names.aliases
    equal = " AND ".join(f"{left}.`{name}` = {right}.`{name}`" for name in given)
    return names.condition(equal, what="on")


__all__ = ["MergeBuilder", "Statements"]
