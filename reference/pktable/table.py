"""A primary-key table: create or open it, write, compact, read, look inside.

With a Spark session the session does the work and reads are DataFrames; without one this process does it
and reads are Arrow tables. Both go through the same kernel and see the same rows.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError, NotATableError, SnapshotNotFoundError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import RowKind

from pktable.bucket.read import live_record_count
from pktable.catalog.commit import Committer
from pktable.catalog.manifests import Manifests
from pktable.catalog.read_plan import plan_read
from pktable.catalog.retention import Expiry
from pktable.catalog.schemas import create_schema, load_schemas
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader, TableState
from pktable.check.findings import Progress
from pktable.check.walk import Report, check_table
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.paths import TablePaths
from pktable.ingest.changes import ChangeKind
from pktable.inspect import list_files
from pktable.predicate import parse
from pktable.run.local import LocalRunner, Query
from pktable.staging import Runner, StagedCompaction, StagedWrite, Stager
from pktable.store.file_io import FileIO, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class Table:
    """One primary-key table of Paimon's format. Use `Table.create` or `Table.open`."""

    def __init__(self, store: FileIO, root: str, schemas: Mapping[int, TableSchema], runner: Runner) -> None:
        schema = schemas[max(schemas)]
        options = parse_options(schema.options)
        self.path = root
        self._context = TableContext(store, root, schema, options, schemas)
        self._former: dict[int, TableContext] = {}
        self._snapshots = SnapshotLog(store, self._context.paths)
        manifests = Manifests(store, self._context.paths, schema, options)
        self._states = StateLoader(self._context, manifests)
        self._committer = Committer(self._context, self._snapshots, manifests, self._states, now_millis)
        self._expiry = Expiry(self._context, self._snapshots, manifests, self._states)
        self._changer = Stager(self._context, self._states, self._committer, runner, now_millis)
        self._runner = runner

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: str | pa.Schema,
        *,
        primary_key: Sequence[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str = "",
        spark: SparkSession | None = None,
    ) -> Table:
        """Create an empty table and open it.

        ``columns``: ``"id BIGINT, city STRING"`` or an Arrow schema; key columns become NOT NULL. ``options``:
        Paimon's names; ``deletion-vectors.enabled`` is off unless given, as in Paimon; ``bucket`` is 1.
        Raises InvalidRequestError if there is a table already, or the definition or an option is not allowed.
        Clauses: TBL-1, TBL-9, META-1.
        """
        store, root = open_store(path)
        create_schema(
            store,
            TablePaths(root),
            columns,
            primary_key,
            partition_by,
            dict(options or {}),
            comment,
            now_millis(),
        )
        return cls.open(path, spark=spark)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, spark: SparkSession | None = None) -> Table:
        """Open an existing table, ours or Paimon's. Raises NotATableError, CorruptFileError."""
        store, root = open_store(path)
        schemas = load_schemas(store, TablePaths(root))
        if not schemas:
            raise NotATableError(
                os.fspath(path), "a directory without one" if store.exists(root) else "nothing"
            )
        return cls(store, root, schemas, _runner(spark))

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the table."""
        return self._context.schema

    # Writing

    def upsert(self, rows: Any) -> int | None:
        """Write ``rows`` (DataFrame or pyarrow.Table); return the id of the snapshot after it, None if none.

        Of rows with equal keys the last decides. Raises InvalidRequestError, and then nothing is written.
        Clauses: TBL-6, TBL-8, TBL-11, CMT-2.
        """
        return self._write(rows, ChangeKind(RowKind.INSERT))

    def delete(self, keys: Any = None, *, where: str | None = None) -> int | None:
        """Delete by ``keys`` (rows of the primary-key columns) or by a condition on the freshest rows.

        Returns the id of the snapshot after it, None if there was nothing to delete. Clauses: TBL-4, RD-3.
        """
        if (keys is None) == (where is None):
            raise InvalidRequestError("delete: expected either keys or where=…")
        if where is not None:
            keys = self.read(fresh=True, where=where, columns=list(self.schema.primary_keys))
        return self._write(keys, ChangeKind(RowKind.DELETE, keys_only=True))

    def write_changes(self, rows: Any, *, row_kind: str) -> int | None:
        """Write ``rows`` whose column ``row_kind`` says what each does: +I, -U, +U, -D, or 0..3.

        Returns the id of the snapshot after it, None if ``rows`` is empty. Clauses: TBL-4, TBL-6.
        """
        return self._write(rows, ChangeKind(column=row_kind))

    def compact(self, *, full: bool = False) -> int | None:
        """Compact what the strategy picks, in every bucket, or everything; return the new snapshot's id or None.

        Clauses: CMP-1 to CMP-8.
        """
        state = self.stage_compaction(full=full).commit(str(uuid.uuid4()))
        return state.id if state else None

    # Keeping and letting go

    def create_tag(self, name: str, *, snapshot: int | None = None) -> None:
        """Keep ``snapshot`` (None: the latest) under ``name``, also when it expires.

        Raises InvalidRequestError if there is such a tag or nothing to tag, SnapshotNotFoundError.
        Clauses: CMT-17.
        """
        found = self._snapshots.latest_id() if snapshot is None else snapshot
        if found is None:
            raise InvalidRequestError(f"tag {name!r}: expected a table with a snapshot, found none")
        self._expiry.make_tag(name, found)

    def delete_tag(self, name: str) -> None:
        """Drop a tag, and the files that only it kept. Raises SnapshotNotFoundError. Clauses: CMT-17."""
        self._expiry.drop_tag(name)

    def tags(self) -> dict[str, Snapshot]:
        """Return the snapshot that each tag keeps, by name."""
        found = {}
        for name in self._snapshots.tags():
            with contextlib.suppress(SnapshotNotFoundError):  # dropped meanwhile
                found[name] = self._snapshots.by_tag(name)
        return found

    def expire_snapshots(
        self, *, retain_last: int, older_than: int | str | datetime | None = None
    ) -> list[int]:
        """Expire the oldest snapshots and delete the files that then nothing needs; return the expired ids.

        The ``retain_last`` newest stay, and with ``older_than`` (as ``timestamp`` of `read`) all from the
        first one on that is not older. What a tag keeps can still be read by the tag.
        Raises InvalidRequestError. Clauses: CMT-16, CMT-17.
        """
        limit = None if older_than is None else _millis(older_than)
        return self._expiry.expire(retain_last=retain_last, older_than=limit)

    def stage_write(
        self, rows: Any, change: ChangeKind, *, write_only: bool | None = None
    ) -> StagedWrite | None:
        """Do the data work of a write without committing it. Clauses: CMT-12."""
        self._require_writable()
        only = self._context.options.write_only if write_only is None else write_only
        # Its compaction reads the latest snapshot, so that is begun anew as a read is.
        return self._snapshots.retry_on_latest(lambda _: self._changer.write(rows, change, write_only=only))

    def stage_compaction(self, *, full: bool = False) -> StagedCompaction:
        """Do the data work of a compaction without committing it. Clauses: CMT-12."""
        self._require_writable()
        return self._reading(
            lambda state, files: self._changer.compact(state, list(state.files), full=full), None
        )

    def _require_writable(self) -> None:
        """Raise InvalidRequestError if an option stands against writing, or the schema has changed since opening."""
        self._context.options.require_writable()
        newer = self._context.paths.schema(self.schema.id + 1)
        if self._context.store.exists(newer):
            raise InvalidRequestError(
                f"{self.path}: expected schema {self.schema.id} to be the latest, found {newer}"
            )

    def _write(self, rows: Any, change: ChangeKind) -> int | None:
        prepared = self.stage_write(rows, change)
        return prepared.commit(str(uuid.uuid4())).id if prepared else None

    # Reading

    def read(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        fresh: bool = False,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Any:
        """Return rows: a DataFrame with Spark, a pyarrow.Table without. Starts no job with Spark,
        but that Spark lists more than 32 files by one.

        With deletion vectors a plain read sees what compaction has absorbed, ``fresh`` merges level 0 in.
        A read of an older snapshot has the columns that the table had then.
        ``timestamp``: milliseconds since the epoch, a datetime, or ISO text (UTC unless it says otherwise).
        Raises SnapshotNotFoundError, InvalidRequestError, CorruptFileError. Clauses: RD-1 to RD-14.
        """

        def work(state: TableState, context: TableContext) -> Any:
            return self._runner.read(context, self._query(state, context, fresh, where, columns, limit))

        return self._reading(work, snapshot, tag, timestamp)

    def to_arrow(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        fresh: bool = False,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return the rows of `read` with the same arguments as a pyarrow.Table."""

        def work(state: TableState, context: TableContext) -> pa.Table:
            found = self._runner.to_arrow(context, self._query(state, context, fresh, where, columns, limit))
            schema = context.schema.arrow_schema
            return found.cast(pa.schema([schema.field(name) for name in found.column_names]))

        return self._reading(work, snapshot, tag, timestamp)

    def count(self, *, snapshot: int | None = None, fresh: bool = False) -> int:
        """Return the number of rows of a read; from metadata alone where no merge is needed. Clauses: RD-1."""

        def work(state: TableState, context: TableContext) -> int:
            query = self._query(state, context, fresh, None, context.schema.primary_keys[:1], None)
            counted = sum(live_record_count(context, part.state) for part in query.parts if not part.merges)
            merged = [part for part in query.parts if part.merges]
            return counted + (self._runner.count(context, replace(query, parts=merged)) if merged else 0)

        return self._reading(work, snapshot)

    def snapshots(self) -> list[Snapshot]:
        """Return the retained snapshots, oldest first."""
        return self._snapshots.retained()

    def files(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per live file: partition, bucket, level, name, counts, key and sequence ranges."""
        return self._reading(lambda state, files: list_files(files, self._states, state), snapshot)

    def check(
        self,
        *,
        snapshot: int | None = None,
        reads_rows: bool = True,
        progress: Progress = lambda what, done, total: None,
    ) -> Report:
        """Check every invariant that stored bytes can show, and report what does not hold; nothing is changed.

        ``snapshot``: only this one; otherwise all that can be read, and files that nothing refers to.
        ``reads_rows``: False opens no data file. Raises SnapshotNotFoundError. Clauses: RD-11.
        """
        return check_table(
            self._context.store,
            self.path,
            self._runner,
            snapshot=snapshot,
            reads_rows=reads_rows,
            progress=progress,
        )

    def _query(
        self,
        state: TableState,
        context: TableContext,
        fresh: bool,
        where: str | None,
        columns: Sequence[str] | None,
        limit: int | None,
    ) -> Query:
        names = _columns(columns, context.schema)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise InvalidRequestError(f"limit: expected 0 or more, found {limit!r}")
        if where is not None and not isinstance(where, str):
            raise InvalidRequestError(f"where: expected text, found {type(where).__name__}")
        predicate = parse(where, context.schema.fields) if where is not None else None
        fresh = fresh or context.options.read_merges_level_zero
        parts = plan_read(context, self._states, state, fresh=fresh, predicate=predicate)
        return Query(parts, names, predicate, limit)

    def _reading(
        self,
        work: Callable[[TableState, TableContext], Result],
        snapshot: int | None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
    ) -> Result:
        """Return what ``work`` makes of the state to read, and of the files under the schema to read it with.

        A file is missing because the snapshot has expired meanwhile, or it is damage: the latest snapshot is
        read anew then, as the latest of now; another was asked for by name and is refused. Clauses: RD-10, RD-14.
        """
        found = self._named(snapshot, tag, timestamp)
        if found is None:
            return self._committer.retry_on_latest_state(lambda state: work(state, self._context))
        try:
            return work(self._states.at(found), self._under(found.schema_id))
        except CorruptFileError:
            lost = self._snapshots.expired_error(found, tag)
            if lost is None:
                raise
        raise lost

    def _named(
        self, snapshot: int | None, tag: str | None, timestamp: int | str | datetime | None
    ) -> Snapshot | None:
        """Return the snapshot asked for, None for the latest. Raises SnapshotNotFoundError. Clauses: RD-10."""
        given = [
            name
            for name, value in (("snapshot", snapshot), ("tag", tag), ("timestamp", timestamp))
            if value is not None
        ]
        if len(given) > 1:
            raise InvalidRequestError(
                f"read: expected one of snapshot, tag, timestamp, found {' and '.join(given)}"
            )
        if snapshot is not None:
            if not isinstance(snapshot, int) or isinstance(snapshot, bool):
                raise InvalidRequestError(f"snapshot: expected an integer, found {snapshot!r}")
            return self._snapshots.read(snapshot)
        if tag is not None:
            return self._snapshots.by_tag(tag)
        return None if timestamp is None else self._snapshots.as_of(_millis(timestamp))

    def _under(self, schema_id: int) -> TableContext:
        """Return the table's files as they are read under a schema of some time. Clauses: RD-14."""
        if schema_id == self.schema.id:
            return self._context
        if schema_id not in self._former:
            self._former[schema_id] = self._context.under(self._context.schema_of(schema_id))
        return self._former[schema_id]


def _columns(columns: Sequence[str] | None, schema: TableSchema) -> list[str]:
    names = [field.name for field in schema.fields]
    if columns is None:
        return names
    unknown = [column for column in columns if column not in names]
    if unknown or not columns or len(set(columns)) != len(columns):
        found = ", ".join(map(str, columns)) or "none"
        raise InvalidRequestError(f"columns: expected some of {', '.join(names)}, each once, found {found}")
    return list(columns)


def check(
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    snapshot: int | None = None,
    reads_rows: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Check the table at ``path``, even one too damaged to be opened; otherwise as `Table.check`.

    Raises NotATableError, SnapshotNotFoundError. Clauses: RD-11.
    """
    store, root = open_store(path)
    return check_table(
        store, root, _runner(spark), snapshot=snapshot, reads_rows=reads_rows, progress=progress
    )


def _millis(timestamp: int | str | datetime) -> int:
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InvalidRequestError(
                f"timestamp: expected ISO text such as 2024-05-01T12:00:00, found {timestamp!r}"
            ) from None
    if isinstance(timestamp, datetime):
        aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=timezone.utc)
        return int(aware.timestamp() * 1000)
    return timestamp


def _runner(spark: SparkSession | None) -> Runner:
    if spark is None:
        return LocalRunner()
    from pktable.run.spark.runner import SparkRunner

    return SparkRunner(spark)
