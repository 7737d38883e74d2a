"""The part of a table that changes its rows: writes and statements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable.catalog.alteration import Alteration
from pktable.catalog.arguments import expect_flag
from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId
from pktable.catalog.effects import Result, Tally
from pktable.catalog.partition_times import old_partitions
from pktable.dml import Statements
from pktable.evolving import evolved_rows
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import Field
from pktable.ingest.changes import ChangeKind
from pktable.ingest.sources import accept_parts
from pktable.merge_builder import MergeBuilder
from pktable.run.runner import Runner
from pktable.staged_write import StagedWrite
from pktable.staging import Stager
from pktable.watching import measured


class TableWrites(ABC):
    """The methods of a table that change its rows."""

    catalog: Catalog
    runner: Runner
    stager: Stager

    @abstractmethod
    def _alter(self, change: Alteration) -> None:
        """Change the schema."""

    @measured("upsert")
    def upsert(self, rows: Any, *, commit_id: CommitId | None = None, evolve: bool = False) -> Result | None:
        """Insert ``rows``, and replace those whose primary key is there already.

        ``rows``: a pyarrow.Table, a DataFrame of pandas or polars, a DuckDB relation, a list or an iterator of dicts or
        of record batches, a dict of lists, one row as a dict, or any other object with ``__arrow_c_stream__``. A table
        with a session takes a Spark DataFrame, too. Nothing is rounded or parsed: a value that its column cannot hold
        is refused. The index of pandas is ignored, and what pandas calls missing (``isna``) is null. With
        ``merge-engine=partial-update`` a column that may be null can be left out, which leaves its values as they are.

        Of rows with equal keys the last one decides. Returns the id of the snapshot after the write, None if there
        were no rows.
        ``commit_id``: who writes, and which of its writes this is. To write again under the same ``commit_id``, after a
        crash or a CommitUnknownError, does nothing while a snapshot of the first write is retained.
        ``evolve``: before the write add the columns that only ``rows`` have, as `alter` does. Columns that only the
        table has become null, if they may be. Fields inside of columns count as columns; a ROW is replaced as a whole.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: TBL-6, TBL-8, TBL-11, TBL-13, TBL-24, TBL-45, CMT-2, APP-8.
        """
        self._expect_key("upsert", "append")
        return self.put(rows, commit_id=commit_id, evolve=evolve)

    @measured("append")
    def append(self, rows: Any, *, commit_id: CommitId | None = None, evolve: bool = False) -> Result | None:
        """Add ``rows`` to an append table. ``rows``, ``commit_id``, ``evolve``: as in `upsert`.

        Returns the id of the snapshot after the write, None if there were no rows.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: APP-1, APP-8, TBL-8, TBL-11, CMT-2.
        """
        if self.stager.kind.has_keys:
            keys = ", ".join(self.catalog.context.schema.primary_keys)
            raise InvalidRequestError(f"append: the table has a primary key ({keys}); use upsert")
        return self.put(rows, commit_id=commit_id, evolve=evolve)

    def put(self, rows: Any, *, commit_id: CommitId | None = None, evolve: bool = False) -> Result | None:
        """Do what `upsert` does in a table with a primary key, and `append` in one without. Clauses: TBL-11, APP-1."""
        commit_id = CommitId.given(commit_id)  # refused before the schema changes
        rows = self._evolved(rows, evolve)
        return self._write(rows, ChangeKind(RowKind.INSERT), commit_id)

    @measured("delete")
    def delete(
        self,
        keys: Any = None,
        *,
        where: Any = None,
        alias: str | None = None,
        by_spark: bool = False,
        commit_id: CommitId | None = None,
    ) -> Result | None:
        """Delete by ``keys`` (rows of the primary-key columns, as `upsert` takes them) or by a condition on the rows
        of a fresh read. ``commit_id``: as in `upsert`. ``alias``, ``by_spark``: as in `update`.
        An append table takes conditions only.

        Returns the id of the snapshot after the delete, None if there was nothing to delete.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: TBL-4, RD-3, APP-8, APP-12, WH-8.
        """
        where = self.catalog.context.condition(where)
        if (keys is None) == (where is None):
            raise InvalidRequestError("delete: give either keys or where=…")
        if keys is not None:
            self._expect_key("delete by keys", "delete(where=…)")
            if self.catalog.context.user_order is not None:
                raise InvalidRequestError(
                    f"{self.catalog.context.root}: a deletion by keys does not say how new it is, as sequence.field "
                    "asks; use delete(where=…), or write_changes with whole rows"
                )
        self._statements.expect_engine(deletes=True)
        if where is not None:
            self.catalog.expect_writable()
            names = self._statements.names(alias, by_spark=by_spark)
            return self._statements.delete(where, CommitId.given(commit_id), names)
        return self._write(keys, ChangeKind(RowKind.DELETE, keys_only=True), commit_id)

    @measured("update")
    def update(
        self,
        set: Mapping[str, Any],
        *,
        where: Any = None,
        alias: str | None = None,
        by_spark: bool = False,
        commit_id: CommitId | None = None,
    ) -> Result | None:
        """Update columns of the rows that satisfy ``where``, of all rows without it.

        ``set``: the new value of each column: SQL text over the row's own columns (``{"amount": "amount * 2"}``, text
        in quotes of its own: ``{"city": "'Rome'"}``), or any other Python value as it is. All values are computed from
        the row as it was. Columns of the primary key cannot be updated. ``commit_id``: as in `upsert`.
        ``alias``: how the texts may call the table. ``by_spark``: what is not understood here is left to Spark in the
        caller's words, such as functions and subqueries; it needs a session. Spark then casts values to the types of
        the columns as its own UPDATE does.
        The rows are those of a fresh read; if others change them before the commit, the statement is computed again.
        Returns the id of the snapshot after the update, None if no row satisfies ``where``.
        Raises InvalidRequestError before anything is committed, CommitConflictError.
        Clauses: STM-1, STM-4, STM-6, WH-8.
        """
        self.catalog.expect_writable()
        self._statements.expect_engine(updates=True)
        where = self.catalog.context.condition(where)
        names = self._statements.names(alias, by_spark=by_spark)
        return self._statements.update(set, where, CommitId.given(commit_id), names)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        by_spark: bool = False,
    ) -> MergeBuilder:
        """Begin a MERGE of ``source`` into the table; add clauses to the result, and end with ``execute()``.

            table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

        * ``source``: rows of any columns, in the forms that `upsert` takes.
        * ``on``: a column of both, several of them, or a condition with at least one equality, such as
          ``"target.id = source.id AND target.region = 'eu'"``.
        * ``source_alias``, ``target_alias``: what conditions and values call the two.
        * ``by_spark``: as in `update`; the join then needs no equality.

        Raises InvalidRequestError. Clauses: STM-1 to STM-6, WH-8.
        """
        self.catalog.expect_writable()
        self._statements.expect_engine(updates=True, deletes=True)
        words = self._statements.words(by_spark)
        aliases = (target_alias, source_alias)
        return MergeBuilder.of(
            self._statements.execute, self.catalog.context, source, on, aliases, by_spark=words
        )

    @measured("overwrite")
    def overwrite(
        self,
        rows: Any,
        *,
        where: Any = None,
        dynamic: bool = False,
        commit_id: CommitId | None = None,
    ) -> Result | None:
        """Replace all rows by ``rows``, or with ``where`` those that satisfy it.

        ``dynamic``: replace the partitions that ``rows`` are in, and keep the others.
        ``rows``: as in `upsert`; each must satisfy ``where``. ``commit_id``: as in `upsert`. Rows that others commit
        until then are replaced too, unless ``where`` is about other columns than those of partitions.
        Returns the id of the snapshot after it, None if there was nothing before and after.
        Raises InvalidRequestError before anything is committed, CommitConflictError. Clauses: STM-7, STM-10, WH-20.
        """
        self.catalog.expect_writable()
        expect_flag("dynamic", dynamic)
        where = self.catalog.context.condition(where)
        if dynamic and (where is not None or not self.catalog.context.schema.partition_keys):
            raise InvalidRequestError(
                "overwrite: dynamic=True is for tables with partitions, and without where"
            )
        if not self._statements.is_about_partitions(where):
            self._statements.expect_engine(updates=True, deletes=True)
        return self._statements.overwrite(rows, where, CommitId.given(commit_id), dynamic=dynamic)

    @measured("expire_partitions")
    def expire_partitions(
        self,
        expiration_time: str | timedelta | None = None,
        *,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
        commit_id: CommitId | None = None,
    ) -> list[dict[str, str]]:
        """Remove the partitions whose values say a time that is longer ago than ``expiration_time``, such as "7 d".

        The first partition column says it, or what ``timestamp_pattern`` such as "$day $hour:00:00" makes of them all:
        as 2024-05-01, with 12:00:00 or without, or as ``timestamp_formatter`` says in letters of Java, such as
        yyyyMMdd. A DATE or TIMESTAMP column says it by itself. It is compared with the clock on the wall. Partitions
        that say no time stay. The oldest go first, at most ``max_expires``, by default 100.
        Arguments that are None are as the options of the table say, such as `partition.expiration-time`.
        ``dry_run``: change nothing.
        Returns the values of each such partition as text, by column. Raises InvalidRequestError, CommitConflictError.
        Clauses: STM-17.
        """
        self.catalog.expect_writable()
        expect_flag("dry_run", dry_run)
        find = old_partitions(
            self.catalog.context,
            datetime.now(),
            expiration_time=expiration_time,
            strategy=expire_strategy,
            pattern=timestamp_pattern,
            formatter=timestamp_formatter,
            most=max_expires,
        )
        if dry_run:
            return [*find(self.catalog.state()).values()]
        return [*self._statements.remove_partitions(find, CommitId.given(commit_id)).values()]

    @measured("rescale")
    def rescale(self, *, where: Any = None, commit_id: CommitId | None = None) -> Result | None:
        """Write partitions again whose buckets are not as many as the option ``bucket`` says.

            table.alter(set_options={"bucket": "8"})
            table.rescale()

        ``where``: a condition on partition columns, for some of them. ``commit_id``: as in `upsert`. The rows are those
        of a fresh read; a partition that others change before the commit is written again.
        Returns the id of the snapshot after it, None if all partitions have that many buckets.
        Raises InvalidRequestError, CommitConflictError. Clauses: BKT-18, BKT-20.
        """
        self.catalog.expect_writable()
        return self._statements.rescale(self.catalog.context.condition(where), CommitId.given(commit_id))

    @measured("truncate")
    def truncate(self, *, where: Any = None, commit_id: CommitId | None = None) -> Result | None:
        """Remove all rows, or with ``where`` those that satisfy it. Files of whole partitions go as they are.

        Returns the id of the snapshot after it, None if there was no file to remove. Raises as `overwrite`.
        Clauses: STM-7, WH-20.
        """
        nothing = self.catalog.context.schema.arrow_schema.empty_table()
        return self.overwrite(nothing, where=where, commit_id=commit_id)

    @measured("write_changes")
    def write_changes(self, rows: Any, *, row_kind: str, commit_id: CommitId | None = None) -> Result | None:
        """Write ``rows`` whose column ``row_kind`` holds the kind of each: +I, -U, +U, -D, or 0..3.

        ``rows``: as `upsert` takes them, with that column in addition. ``commit_id``: as in `upsert`.
        Returns the id of the snapshot after the write, None if there were no rows.
        Raises InvalidRequestError before anything is written, CommitConflictError. Clauses: TBL-4, TBL-6, APP-8.
        """
        self._expect_key("write_changes", "append")
        if not isinstance(row_kind, str):
            raise InvalidRequestError(f"row_kind: expected the name of a column, found {row_kind!r}")
        return self._write(rows, ChangeKind(column=row_kind), commit_id)

    def stage_write(
        self, rows: Any, change: ChangeKind, *, write_only: bool | None = None
    ) -> StagedWrite | None:
        """Do the data work of a write without committing it; None if there are no rows.

        Clauses: CMT-12, CMT-20.
        """
        if write_only is not None:
            expect_flag("write_only", write_only)
        self.catalog.expect_writable()
        context = self.catalog.context
        only = context.options.leaves_compaction if write_only is None else write_only
        if not isinstance(change, ChangeKind):
            raise InvalidRequestError(f"change: expected a ChangeKind, found {change!r}")
        rows = accept_parts(rows, context.schema, change, context.options.write_buffer_bytes)
        # The compaction of a write reads the latest snapshot, which may expire; then the write is staged again.
        return self.catalog.committer.retry_on_latest_state(
            lambda state: StagedWrite.of(self.stager, state, lambda _: (rows, change), write_only=only),
            commits=True,
        )

    def _expect_key(self, method: str, instead: str) -> None:
        """Raise InvalidRequestError unless the table has a primary key. Clauses: APP-8."""
        if not self.stager.kind.has_keys:
            raise InvalidRequestError(f"{method}: the table has no primary key; use {instead}")

    def _evolved(self, rows: Any, evolve: bool) -> Any:
        """Return ``rows`` with all columns of the table, which gets those that only ``rows`` have. Clauses: TBL-45."""
        expect_flag("evolve", evolve)
        if not evolve:
            return rows
        return evolved_rows(rows, self.catalog.context.schema, self._added)

    def _added(self, columns: tuple[Field, ...]) -> TableSchema:
        self._alter(Alteration(columns))
        return self.catalog.context.schema

    def _write(self, rows: Any, change: ChangeKind, commit_id: CommitId | None) -> Result | None:
        commit_id = CommitId.given(commit_id)  # refused before files are written
        staged = self.stage_write(rows, change)
        return Tally(commit_id).result(staged.commit(commit_id) if staged else None, self.catalog)

    @property
    def _statements(self) -> Statements:
        return Statements(self.catalog, self.stager, self.runner)
