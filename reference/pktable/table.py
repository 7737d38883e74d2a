"""A table: create or open it, write, compact, read, look inside.

With a Spark session the session does the work and reads are DataFrames. Without one this process does the work and
reads are Arrow tables. Both use the same kernel and see the same rows.

    table = Table.create("cities", "id BIGINT, city STRING", primary_key=["id"])
    table.upsert(rows)
    table.to_arrow(where="id = 2")
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable.catalog.alteration import Alteration
from pktable.catalog.arguments import expect_flag, expect_text, ignored_options
from pktable.catalog.as_of import LATEST
from pktable.catalog.branches import Branches
from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId
from pktable.catalog.fast_forward import FastForward
from pktable.catalog.schemas import create_schema, find_branch, find_table
from pktable.check.findings import Progress
from pktable.check.walk import Report, check_table
from pktable.dml import MergeBuilder, Statements
from pktable.evolve import with_new_columns, with_nulls
from pktable.format.metadata.schema import TableSchema
from pktable.ingest.changes import ChangeKind
from pktable.ingest.sources import accept_rows
from pktable.kinds import kind_of
from pktable.postponed import StagedMove
from pktable.run.local import LocalRunner
from pktable.run.runner import Runner, expect_runner
from pktable.staged import StagedCompaction
from pktable.staged_write import StagedWrite
from pktable.staging import PlannedCompaction, Stager
from pktable.store.file_io import FileIO
from pktable.store.guard import ExternalRoots
from pktable.table_reads import TableReads
from pktable.table_upkeep import TableUpkeep, now_millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Table(TableReads, TableUpkeep):
    """One table of Paimon's format, with a primary key or without: an append table.

    Use `Table.create` or `Table.open`.

    A table pickles: the copy is opened in the other process, without Spark.

    ``catalog`` and ``stager`` are the parts below this face, for tools; ``inspect`` shows what snapshots are made of.
    """

    def __init__(
        self,
        store: FileIO,
        root: str,
        schemas: Mapping[int, TableSchema],
        runner: Runner,
        ignored: Collection[str] = (),
        branch: str | None = None,
    ) -> None:
        kind_of(schemas[max(schemas)], root)  # refuses a table of a kind that is not supported
        self.path = root
        self.runner = runner
        self.catalog = Catalog(store, root, schemas, now_millis, ignored, branch)
        self.stager = Stager(
            self.catalog.context, self.catalog.states, self.catalog.committer, runner, now_millis
        )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Any,
        *,
        primary_key: str | Sequence[str] | None,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str = "",
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | str | None = None,
    ) -> Table:
        """Create an empty table and open it.

        * ``columns``: ``"id BIGINT, city STRING"``, a dict of names and SQL types, an Arrow schema, an object that
          exports one (``__arrow_c_schema__``), or a Spark StructType. Key columns become NOT NULL.
        * ``primary_key``, ``partition_by``: column names, or one name. Without a primary key, () or None, the table is
          an append table.
        * ``options``: Paimon's names and defaults, except that ``bucket`` is 1 with a primary key. Deletion
          vectors are off unless ``deletion-vectors.enabled`` is true, as in Paimon.
        * ``store``, ``storage_options``, ``spark``, ``runner``: as in `open`.

        Raises InvalidRequestError if there is a table already, or the definition or an option is not allowed.
        Clauses: TBL-1, TBL-9, TBL-12, TBL-16, TBL-17, META-1.
        """
        expect_text("comment", comment)
        found, paths = find_branch(path, store, storage_options)
        if paths.branch is not None:
            raise InvalidRequestError(f"{path}: expected a table, found a branch; create_branch makes one")
        create_schema(
            found,
            paths,
            columns,
            primary_key,
            partition_by,
            options or {},
            comment,
            now_millis(),
        )
        return cls.open(paths.root, store=found, spark=spark, runner=runner)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | str | None = None,
        external_roots: ExternalRoots = (),
        ignore_options: str | Sequence[str] = (),
        branch: str | None = None,
    ) -> Table:
        """Open an existing table, ours or Paimon's.

        * ``path``: a local path or a URI; with ``store``, the table directory as that store spells it.
          ``t$branch_b`` is the branch b of the table at ``t``.
        * ``store``: any `FileIO`, instead of the one that ``path`` names.
        * ``storage_options``: settings of an object store by the names of obstore, such as ``aws_access_key_id``,
          ``endpoint``, ``region``, ``allow_http``; where one is absent, the environment's holds. They are part of the
          pickle of a table.
        * ``spark``: a session that does the work, Spark Connect included. Without it this process does.
        * ``runner``: with a session, ``"local"`` or ``"spark"`` lets this process or Spark do all work. By default this
          process does what is small, as the sizes of files and of DataFrames show before it is done. Or any other
          `Runner` that does the work.
        * ``external_roots``: directories and URIs outside of the table, or one, that it may use, by external paths of
          its files or by symbolic links. By default a table that leads out of its directory is refused.
        * ``ignore_options``: names of table options that reads are not to refuse, or one. The caller knows that no row
          depends on them. Writes stay refused.
        * ``branch``: a branch of the table, by default the main one. All that is read and written is of the branch.

        Raises NotATableError, CorruptFileError, and InvalidRequestError for an unsupported kind of table, an option
        that the store does not have, or a branch that is not there.
        Clauses: BRN-1, BRN-3, META-1, SAFE-1 to SAFE-5, TBL-21, TBL-35.
        """
        ignored = ignored_options(ignore_options)
        found, paths, schemas = find_table(path, store, storage_options, external_roots, branch)
        return cls(found, paths.root, schemas, runner_of(spark, runner), ignored, paths.branch)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        keys = ", ".join(self.schema.primary_keys)
        branch = self.catalog.context.paths.branch
        at = self.path if branch is None else f"{self.path}, branch {branch}"
        return f"<Table {at}: {columns}; {f'primary key {keys}' if keys else 'append table'}>"

    def __reduce__(self) -> tuple[object, ...]:
        context = self.catalog.context
        schemas = dict(context.schemas)
        ignored, branch = self.catalog.ignored, context.paths.branch
        return Table, (context.store, self.path, schemas, LocalRunner(), ignored, branch)

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the table."""
        return self.catalog.context.schema

    @property
    def columns(self) -> dict[str, str]:
        """The columns in order: name to SQL type, such as ``{"id": "BIGINT NOT NULL"}``."""
        return {field.name: str(field.type) for field in self.schema.fields}

    @property
    def options(self) -> dict[str, str]:
        """The options of the table, as they are set."""
        return dict(self.schema.options)

    # Writing

    def upsert(self, rows: Any, *, commit_id: CommitId | None = None, evolve: bool = False) -> int | None:
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
        table has become null, if they may be.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: TBL-6, TBL-8, TBL-11, TBL-13, TBL-24, TBL-45, CMT-2, APP-8.
        """
        self._expect_key("upsert", "append")
        rows = self._evolved(rows, evolve)
        return self._write(rows, ChangeKind(RowKind.INSERT), commit_id)

    def append(self, rows: Any, *, commit_id: CommitId | None = None, evolve: bool = False) -> int | None:
        """Add ``rows`` to an append table. ``rows``, ``commit_id``, ``evolve``: as in `upsert`.

        Returns the id of the snapshot after the write, None if there were no rows.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: APP-1, APP-8, TBL-8, TBL-11, CMT-2.
        """
        if self.schema.primary_keys:
            keys = ", ".join(self.schema.primary_keys)
            raise InvalidRequestError(f"append: the table has a primary key ({keys}); use upsert")
        rows = self._evolved(rows, evolve)
        return self._write(rows, ChangeKind(RowKind.INSERT), commit_id)

    def delete(
        self,
        keys: Any = None,
        *,
        where: str | None = None,
        alias: str | None = None,
        by_spark: bool = False,
        commit_id: CommitId | None = None,
    ) -> int | None:
        """Delete by ``keys`` (rows of the primary-key columns, as `upsert` takes them) or by a condition on the rows
        of a fresh read. ``commit_id``: as in `upsert`. ``alias``, ``by_spark``: as in `update`.
        An append table takes conditions only.

        Returns the id of the snapshot after the delete, None if there was nothing to delete.
        Raises InvalidRequestError before anything is written, CommitConflictError.
        Clauses: TBL-4, RD-3, APP-8, APP-12, WH-8.
        """
        if (keys is None) == (where is None):
            raise InvalidRequestError("delete: give either keys or where=…")
        if keys is not None:
            self._expect_key("delete by keys", "delete(where=…)")
            if self.catalog.context.user_order is not None:
                raise InvalidRequestError(
                    f"{self.path}: a deletion by keys does not say how new it is, as sequence.field asks; "
                    "use delete(where=…), or write_changes with whole rows"
                )
        self._require_engine(deletes=True)
        if where is not None:
            self._require_writable()
            names = self._statements.names(alias, by_spark=by_spark)
            return self._statements.delete(where, CommitId.given(commit_id), names)
        return self._write(keys, ChangeKind(RowKind.DELETE, keys_only=True), commit_id)

    def update(
        self,
        set: Mapping[str, Any],
        *,
        where: str | None = None,
        alias: str | None = None,
        by_spark: bool = False,
        commit_id: CommitId | None = None,
    ) -> int | None:
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
        self._require_writable()
        self._require_engine(updates=True)
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
        self._require_writable()
        self._require_engine(updates=True, deletes=True)
        self._statements.expect_spark(by_spark)
        aliases = (target_alias, source_alias)
        return MergeBuilder.of(self._statements, source, on, aliases, by_spark=by_spark)

    def overwrite(
        self, rows: Any, *, where: str | None = None, commit_id: CommitId | None = None
    ) -> int | None:
        """Replace all rows by ``rows``, or with ``where`` those that satisfy it.

        ``rows``: as in `upsert`; each must satisfy ``where``. ``commit_id``: as in `upsert`. Rows that others commit
        until then are replaced too, unless ``where`` is about other columns than those of partitions.
        Returns the id of the snapshot after it, None if there was nothing before and after.
        Raises InvalidRequestError before anything is committed, CommitConflictError. Clauses: STM-7, STM-10.
        """
        self._require_writable()
        if not self._statements.is_about_partitions(where):
            self._require_engine(updates=True, deletes=True)
        return self._statements.overwrite(rows, where, CommitId.given(commit_id))

    def rescale(self, *, where: str | None = None, commit_id: CommitId | None = None) -> int | None:
        """Write partitions again whose buckets are not as many as the option ``bucket`` says.

            table.alter(set_options={"bucket": "8"})
            table.rescale()

        ``where``: a condition on partition columns, for some of them. ``commit_id``: as in `upsert`. The rows are those
        of a fresh read; a partition that others change before the commit is written again.
        Returns the id of the snapshot after it, None if all partitions have that many buckets.
        Raises InvalidRequestError, CommitConflictError. Clauses: BKT-18, BKT-20.
        """
        self._require_writable()
        return self._statements.rescale(where, CommitId.given(commit_id))

    def truncate(self, *, commit_id: CommitId | None = None) -> int | None:
        """Remove all rows; return the id of the snapshot after it, None if there were none. Clauses: STM-7."""
        return self.overwrite(self.schema.arrow_schema.empty_table(), commit_id=commit_id)

    def alter(
        self,
        *,
        add: Any = None,
        rename: Mapping[str, str] | None = None,
        drop: str | Sequence[str] = (),
        widen: Mapping[str, str] | None = None,
        move: Mapping[str, str] | None = None,
        nullable: str | Sequence[str] = (),
        comment: str | Mapping[str, str | None] | None = None,
        set_options: Mapping[str, Any] | None = None,
        reset_options: str | Sequence[str] = (),
    ) -> None:
        """Change the schema: all that is asked for, or nothing. No file of rows is written again.

        Names of columns are those of before the change, but for ``move``.

        * ``add``: columns in any form that `create` takes, ``"note STRING, n INT"``; null in the rows that
          are there. ``rename``: ``{"old": "new"}``. ``drop``: names, or one.
        * ``widen``: ``{"n": "BIGINT"}``, a type that holds every value of the one before.
        * ``move``: ``{"n": "FIRST"}``, or ``"LAST"``, ``"BEFORE x"``, ``"AFTER x"``.
        * ``nullable``: columns that may hold null from now on.
        * ``comment``: text for the table, or ``{"n": "text"}`` for columns, None for none.
        * ``set_options``, ``reset_options``: options of the table. Those on which existing rows depend cannot change.

        Snapshots are read with the columns that they had. Other processes that have opened the table go on reading, and
        have to open it again to write. Raises InvalidRequestError, and CommitConflictError if another process has
        changed the schema. Clauses: TBL-38 to TBL-44, RD-14, RD-22.
        """
        change = Alteration.given(
            add=add,
            rename=rename,
            drop=drop,
            widen=widen,
            move=move,
            nullable=nullable,
            comment=comment,
            set_options=set_options,
            reset_options=reset_options,
        )
        self._alter(change)

    def _alter(self, change: Alteration) -> None:
        self._require_writable()
        schema = self.catalog.alter(change)
        self._take({**self.catalog.context.schemas, schema.id: schema})

    def _take(self, schemas: Mapping[int, TableSchema]) -> None:
        """Go on with the latest of ``schemas``, which this table has put."""
        context, ignored = self.catalog.context, self.catalog.ignored
        self.__init__(  # type: ignore[misc]
            context.store, self.path, schemas, self.runner, ignored, context.paths.branch
        )

    def branch(self, name: str) -> Table:
        """Open a branch of the table, ``main`` for the main one. Raises InvalidRequestError. Clauses: BRN-1."""
        context, ignored = Branches(self.catalog).open(name).context, self.catalog.ignored
        return Table(context.store, self.path, context.schemas, self.runner, ignored, context.paths.branch)

    def fast_forward(self, name: str) -> list[int]:
        """Take over all that a branch has committed since it was made from this table; return the new snapshot ids.

        Nothing is removed: it is refused if the table has committed since, or changed its schema. If it is interrupted,
        the table has the first of the snapshots, and a repetition goes on. The branch stays as it is.
        Raises InvalidRequestError, CommitConflictError if another process commits concurrently, CommitUnknownError.
        Clauses: BRN-10, BRN-11, BRN-12.
        """
        self._require_writable()
        done, schemas = FastForward(self.catalog, Branches(self.catalog).open(name)).run()
        if max(schemas) != self.schema.id:
            self._take(schemas)
        return done

    def write_changes(self, rows: Any, *, row_kind: str, commit_id: CommitId | None = None) -> int | None:
        """Write ``rows`` whose column ``row_kind`` holds the kind of each: +I, -U, +U, -D, or 0..3.

        ``rows``: as `upsert` takes them, with that column in addition. ``commit_id``: as in `upsert`.
        Returns the id of the snapshot after the write, None if there were no rows.
        Raises InvalidRequestError before anything is written, CommitConflictError. Clauses: TBL-4, TBL-6, APP-8.
        """
        self._expect_key("write_changes", "append")
        if not isinstance(row_kind, str):
            raise InvalidRequestError(f"row_kind: expected the name of a column, found {row_kind!r}")
        return self._write(rows, ChangeKind(column=row_kind), commit_id)

    def compact(self, *, full: bool = False) -> int | None:
        """Compact what the strategy picks in every bucket, or with ``full`` everything.

        In a table with a postpone bucket, rows that wait there become rows of the table first.
        Returns the new snapshot's id, None if there was nothing to compact. Raises CommitConflictError.
        Clauses: APP-19, APP-20, BKT-14, CMP-1 to CMP-8, CMP-18 to CMP-22, CMP-27 to CMP-29.
        """
        expect_flag("full", full)
        self._require_writable()
        moved = None
        if self.catalog.context.postpones_buckets:
            moved = self.catalog.committer.retry_on_latest_state(
                lambda state: StagedMove.of(self.stager, state, full=full)
            ).commit(CommitId.new())
        state = self._staged_compaction(full=full).commit(CommitId.new()) or moved
        return state.id if state else None

    def plan_compaction(self, *, full: bool = False) -> list[PlannedCompaction]:
        """Return what `compact` with the same argument would compact now, per bucket. Changes nothing.

        Reads metadata only. Raises InvalidRequestError as `compact` does. Clauses: CMP-1 to CMP-8.
        """
        expect_flag("full", full)
        self._require_writable()
        return self.catalog.read_as_of(LATEST, lambda state, _: self.stager.planned(state, full=full))

    def stage_write(
        self, rows: Any, change: ChangeKind, *, write_only: bool | None = None
    ) -> StagedWrite | None:
        """Do the data work of a write without committing it; None if there are no rows.

        Clauses: CMT-12, CMT-20.
        """
        if write_only is not None:
            expect_flag("write_only", write_only)
        self._require_writable()
        context = self.catalog.context
        only = context.options.leaves_compaction if write_only is None else write_only
        if not isinstance(change, ChangeKind):
            raise InvalidRequestError(f"change: expected a ChangeKind, found {change!r}")
        rows = accept_rows(rows, self.schema, change)
        # The compaction of a write reads the latest snapshot, which may expire; then the write is staged again.
        return self.catalog.committer.retry_on_latest_state(
            lambda state: StagedWrite.of(self.stager, state, lambda _: (rows, change), write_only=only)
        )

    def stage_compaction(self, *, full: bool = False) -> StagedCompaction:
        """Do the data work of a compaction, and do not commit it. Clauses: APP-19, APP-20, CMT-12, CMT-20."""
        expect_flag("full", full)
        self._require_writable()
        return self._staged_compaction(full=full)

    def _staged_compaction(self, *, full: bool) -> StagedCompaction:
        return self.catalog.read_as_of(
            LATEST, lambda state, _: StagedCompaction.of(self.stager, state, list(state.files), full=full)
        )

    def _expect_key(self, method: str, instead: str) -> None:
        """Raise InvalidRequestError unless the table has a primary key. Clauses: APP-8."""
        if not self.schema.primary_keys:
            raise InvalidRequestError(f"{method}: the table has no primary key; use {instead}")

    def _require_writable(self) -> None:
        """Raise InvalidRequestError if an option forbids writing, or the schema has changed since opening.

        Clauses: META-48, TBL-9, TBL-19, TBL-20.
        """
        context = self.catalog.context
        kind_of(self.schema, self.path).require_writable(self.schema, context.options)
        newer = context.paths.schema(self.schema.id + 1)
        if context.store.exists(newer):
            raise InvalidRequestError(
                f"{self.path}: the schema has changed since the table was opened ({newer}); open it again"
            )

    def _require_engine(self, *, updates: bool = False, deletes: bool = False) -> None:
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
            f"{self.path}: rows cannot be {what} under merge-engine={engine.name} and the options of this table; "
            f"{remedy}"
        )

    def _evolved(self, rows: Any, evolve: bool) -> Any:
        """Return ``rows`` with all columns of the table, which gets those that only ``rows`` have. Clauses: TBL-45."""
        expect_flag("evolve", evolve)
        if not evolve:
            return rows
        rows, added = with_new_columns(rows, self.schema)
        if added:
            self._alter(Alteration(added))
        return with_nulls(rows, self.schema)

    def _write(self, rows: Any, change: ChangeKind, commit_id: CommitId | None) -> int | None:
        commit_id = CommitId.given(commit_id)  # refused before files are written
        staged = self.stage_write(rows, change)
        after = staged.commit(commit_id) if staged else None
        return after.id if after else None

    @property
    def _statements(self) -> Statements:
        return Statements(self.catalog, self.stager, self.runner)


def check(
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    snapshot: int | None = None,
    reads_rows: bool = True,
    external_roots: ExternalRoots = (),
    branch: str | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Check the table at ``path``, also one too damaged to be opened; otherwise as `Table.check`.

    ``external_roots``, ``branch``: as in `Table.open`. Raises NotATableError, SnapshotNotFoundError. Clauses: RD-11.
    """
    store, paths = find_branch(path, None, storage_options, external_roots, branch)
    return check_table(
        store,
        paths.root,
        runner_of(spark),
        snapshot=snapshot,
        reads_rows=reads_rows,
        branch=paths.branch,
        progress=progress,
    )


def runner_of(spark: SparkSession | None, wanted: Runner | str | None = None) -> Runner:
    """Return who does the work: this process, or with a session this process for small work and Spark for the rest.

    ``wanted``: another runner, or "local" or "spark" for all work. Raises InvalidRequestError.
    """
    if wanted is not None and not isinstance(wanted, str):
        if not hasattr(wanted, "rows_to_write"):
            raise InvalidRequestError(f"runner: expected a runner or its name, found {wanted!r}")
        return wanted
    expect_runner(wanted, has_spark=spark is not None)
    if spark is None:
        return LocalRunner()
    if not hasattr(spark, "createDataFrame"):
        raise InvalidRequestError(f"spark: expected a SparkSession, found {spark!r}")
    from pktable.run.by_size import RunnerBySize
    from pktable.run.spark.runner import SparkRunner

    return RunnerBySize(LocalRunner(), SparkRunner(spark), wanted)
