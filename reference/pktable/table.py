"""A primary-key table: create or open it, write, compact, read, look inside.

With a Spark session the session does the work and reads are DataFrames; without one this process does it
and reads are Arrow tables. Both go through the same kernel and see the same rows.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, NotATableError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import RowKind

from pktable.bucket.read import live_record_count
from pktable.bucket.table_files import TableFiles
from pktable.catalog.commit import Committer
from pktable.catalog.listing import list_files
from pktable.catalog.manifests import Manifests
from pktable.catalog.scan import plan_read
from pktable.catalog.schemas import create_schema, load_schemas
from pktable.catalog.snapshots import Snapshots
from pktable.catalog.state import States, TableState
from pktable.changing import Changer, PreparedCompaction, PreparedWrite, Runner
from pktable.format.schema import TableSchema
from pktable.format.snapshot import Snapshot
from pktable.local import LocalRunner, Query
from pktable.predicate import parse
from pktable.rows import ChangeKind
from pktable.store.file_io import FileIO, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class Table:
    """One primary-key table of Paimon's format. Use `Table.create` or `Table.open`."""

    def __init__(self, store: FileIO, root: str, schemas: Mapping[int, TableSchema], runner: Runner) -> None:
        schema = schemas[max(schemas)]
        options = parse_options(schema.options)
        self.path = root
        self._files = TableFiles(store, root, schema, options, schemas)
        self._snapshots = Snapshots(store, root)
        manifests = Manifests(store, root, schema, options)
        self._states = States(self._files, manifests)
        self._committer = Committer(self._files, self._snapshots, manifests, self._states, now_millis)
        self._changer = Changer(self._files, self._states, self._committer, runner, now_millis)
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
        Paimon's names; ``deletion-vectors.enabled`` is off unless given, as in Paimon.
        Raises InvalidRequestError if there is a table already, or the definition or an option is not allowed.
        Clauses: TBL-1, TBL-9, META-1.
        """
        store, root = open_store(path)
        create_schema(
            store, root, columns, primary_key, partition_by, dict(options or {}), comment, now_millis()
        )
        return cls.open(path, spark=spark)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, spark: SparkSession | None = None) -> Table:
        """Open an existing table, ours or Paimon's. Raises NotATableError, CorruptFileError."""
        store, root = open_store(path)
        schemas = load_schemas(store, root)
        if not schemas:
            raise NotATableError(
                os.fspath(path), "a directory without one" if store.exists(root) else "nothing"
            )
        return cls(store, root, schemas, _runner(spark))

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the table."""
        return self._files.schema

    # Writing

    def upsert(self, rows: Any) -> int | None:
        """Write ``rows`` (DataFrame or pyarrow.Table); return the id of the snapshot after it, None if none.

        Of rows with equal keys the last decides. Raises InvalidRequestError, and then nothing is written.
        Clauses: TBL-6, TBL-8, CMT-2.
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
        state = self.prepare_compaction(full=full).commit(str(uuid.uuid4()))
        return state.id if state else None

    def prepare_write(
        self, rows: Any, change: ChangeKind, *, write_only: bool | None = None
    ) -> PreparedWrite | None:
        """Do the data work of a write without committing it. Clauses: CMT-12."""
        self._require_writable()
        only = self._files.options.write_only if write_only is None else write_only
        return self._changer.write(rows, change, write_only=only)

    def prepare_compaction(self, *, full: bool = False) -> PreparedCompaction:
        """Do the data work of a compaction without committing it. Clauses: CMT-12."""
        self._require_writable()
        state = self._committer.latest()
        return self._changer.compact(state, list(state.files), full=full)

    def _require_writable(self) -> None:
        """Raise InvalidRequestError if an option stands against writing, or the schema has changed since opening."""
        self._files.options.require_writable()
        newer = f"{self.path}/schema/schema-{self.schema.id + 1}"
        if self._files.store.exists(newer):
            raise InvalidRequestError(
                f"{self.path}: expected schema {self.schema.id} to be the latest, found {newer}"
            )

    def _write(self, rows: Any, change: ChangeKind) -> int | None:
        prepared = self.prepare_write(rows, change)
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
        """Return rows: a DataFrame with Spark, a pyarrow.Table without. Starts no job with Spark.

        With deletion vectors a plain read sees what compaction has absorbed, ``fresh`` merges level 0 in.
        ``timestamp``: milliseconds since the epoch, a datetime, or ISO text (UTC unless it says otherwise).
        Raises SnapshotNotFoundError, InvalidRequestError, CorruptFileError. Clauses: RD-1 to RD-12.
        """
        state = self._state(snapshot, tag, timestamp)
        return self._runner.read(self._files, self._query(state, fresh, where, columns, limit))

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
        state = self._state(snapshot, tag, timestamp)
        found = self._runner.to_arrow(self._files, self._query(state, fresh, where, columns, limit))
        schema = self.schema.arrow_schema
        return found.cast(pa.schema([schema.field(name) for name in found.column_names]))

    def count(self, *, snapshot: int | None = None, fresh: bool = False) -> int:
        """Return the number of rows of a read; from metadata alone where no merge is needed. Clauses: RD-1."""
        state = self._state(snapshot, None, None)
        query = self._query(state, fresh, None, self.schema.primary_keys[:1], None)
        counted = sum(live_record_count(self._files, part.state) for part in query.parts if not part.merges)
        merged = [part for part in query.parts if part.merges]
        return counted + (self._runner.count(self._files, replace(query, parts=merged)) if merged else 0)

    def snapshots(self) -> list[Snapshot]:
        """Return the retained snapshots, oldest first."""
        return [self._snapshots.read(snapshot) for snapshot in self._snapshots.ids()]

    def files(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per live file: partition, bucket, level, name, counts, key and sequence ranges."""
        return list_files(self._files, self._states, self._state(snapshot, None, None))

    def _query(
        self,
        state: TableState,
        fresh: bool,
        where: str | None,
        columns: Sequence[str] | None,
        limit: int | None,
    ) -> Query:
        names = self._columns(columns)
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise InvalidRequestError(f"limit: expected 0 or more, found {limit!r}")
        predicate = parse(where, self.schema.fields) if where is not None else None
        fresh = fresh or self._files.options.read_merges_level_zero
        parts = plan_read(self._files, self._states, state, fresh=fresh, predicate=predicate)
        return Query(parts, names, predicate, limit)

    def _state(
        self, snapshot: int | None, tag: str | None, timestamp: int | str | datetime | None
    ) -> TableState:
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
            return self._states.at(self._snapshots.read(snapshot))
        if tag is not None:
            return self._states.at(self._snapshots.tagged(tag))
        if timestamp is not None:
            return self._states.at(self._snapshots.at(_millis(timestamp)))
        return self._committer.latest()

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        names = [field.name for field in self.schema.fields]
        if columns is None:
            return names
        unknown = [column for column in columns if column not in names]
        if unknown or not columns or len(set(columns)) != len(columns):
            found = ", ".join(map(str, columns)) or "none"
            raise InvalidRequestError(
                f"columns: expected some of {', '.join(names)}, each once, found {found}"
            )
        return list(columns)


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
    from pktable.spark.runner import SparkRunner

    return SparkRunner(spark)
