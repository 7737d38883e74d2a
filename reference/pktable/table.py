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

from pktable.catalog.alteration import Alteration
from pktable.catalog.arguments import expect_text, ignored_options
from pktable.catalog.branches import Branches
from pktable.catalog.catalog import Catalog
from pktable.catalog.fast_forward import FastForward
from pktable.catalog.schemas import create_schema, find_branch, find_table
from pktable.check.walk import Report, check_table
from pktable.format.metadata.schema import TableSchema
from pktable.kinds import kind_of
from pktable.run.local import LocalRunner
from pktable.run.runner import Runner, expect_runner
from pktable.staging import Stager
from pktable.store.file_io import FileIO
from pktable.store.guard import ExternalRoots
from pktable.table_reads import TableReads
from pktable.table_upkeep import TableUpkeep, now_millis
from pktable.table_writes import TableWrites
from pktable.watching import Progress, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Table(TableReads, TableWrites, TableUpkeep):
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
        return dict(self.schema.texts)

    @property
    def options(self) -> dict[str, str]:
        """The options of the table, as they are set."""
        return dict(self.schema.options)

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
        * A name such as ``"r.a"`` is the field a inside of the ROW r, ``"l.element.a"`` of the rows in an ARRAY, and
          ``"m.value.a"`` of those in a MAP. ``add={"r.b": "INT"}`` adds one, and ``rename`` gives one a bare name.
        * ``comment``: text for the table, or ``{"n": "text"}`` for columns, None for none.
        * ``set_options``, ``reset_options``: options of the table. Those on which existing rows depend cannot change.

        Snapshots are read with the columns that they had. Other processes that have opened the table go on reading
        what their types can hold, and have to open it again to write. Raises InvalidRequestError, and
        CommitConflictError if another process has changed the schema. Clauses: TBL-38 to TBL-44, TBL-47, RD-14, RD-22.
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
        self.catalog.expect_writable()
        schema = self.catalog.alter(change)
        self._take({**self.catalog.context.schemas, schema.id: schema})

    def _take(self, schemas: Mapping[int, TableSchema]) -> None:
        """Go on with the latest of ``schemas``, which this table has put."""
        context, ignored = self.catalog.context, self.catalog.ignored
        self.__init__(  # type: ignore[misc]
            context.store, self.path, schemas, self.runner, ignored, context.paths.branch
        )

    def branch(self, name: str) -> Table:
        """Open a branch of the table, ``main`` for the main one. Raises InvalidRequestError. Clauses: BRN-1, TBL-60."""
        self.catalog.expect_opened()
        context, ignored = Branches(self.catalog).open(name).context, self.catalog.ignored
        return Table(context.store, self.path, context.schemas, self.runner, ignored, context.paths.branch)

    def fast_forward(self, name: str) -> list[int]:
        """Take over all that a branch has committed since it was made from this table; return the new snapshot ids.

        Nothing is removed: it is refused if the table has committed since, or changed its schema. If it is interrupted,
        the table has the first of the snapshots, and a repetition goes on. The branch stays as it is.
        Raises InvalidRequestError, CommitConflictError if another process commits concurrently, CommitUnknownError.
        Clauses: BRN-10, BRN-11, BRN-12.
        """
        self.catalog.expect_writable()
        self.catalog.expect_opened()
        done, schemas = FastForward(self.catalog, Branches(self.catalog).open(name)).run()
        if max(schemas) != self.schema.id:
            self._take(schemas)
        return done


def check(
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    snapshot: int | None = None,
    reads_rows: bool = True,
    external_roots: ExternalRoots = (),
    branch: str | None = None,
    progress: Progress = report,
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
        if not hasattr(wanted, "read_changes"):
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
