"""A Hudi table: create it or open it, read it at any instant, and write to it if it is of table version 8.

table = HudiTable.open("trips")
table.upsert(pa.table({"id": ["a"], "ts": [1], "fare": [12.5]}))
table.to_arrow(instant="20251220210130911", where="fare > 10")
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
from pktable.catalog.definitions import column_names, parse_definition
from pktable.catalog.schemas import find_store
from pktable.check.walk import Report
from pktable.format.types import Field
from pktable.store.file_io import FileIO
from pktable.store.guard import ExternalRoots
from pktable.table_upkeep import now_millis
from pktable.watching import Progress
from pktable_spec.errors import InvalidRequestError

from pktable_hudi.check import check_hudi
from pktable_hudi.cleaning import COMMITS, VERSIONS, Retention
from pktable_hudi.format.key_summary import KeyBatch
from pktable_hudi.format.names import PROPERTIES
from pktable_hudi.index_writer import DEFAULT, IndexPolicy
from pktable_hudi.placing import WriteOptions
from pktable_hudi.scan import HudiReadOptions, HudiScan
from pktable_hudi.settings import expect_kind, read_settings
from pktable_hudi.timeline import Timeline, load_timeline
from pktable_hudi.writable import default_name, expect_no_other_table, new_properties
from pktable_hudi.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

RETAINED: Final = 10
"""How many commits a clean keeps by default, as Hudi does."""


class HudiTable:
    """One table of Apache Hudi, of table version 6, 8 or 9. Use `HudiTable.open` or `HudiTable.create`.

    Merge-on-read and copy-on-write tables with Parquet base files are read as Hudi reads them, and merge-on-read tables
    of version 8 are written. A setting or a file whose meaning is not implemented is refused by name. Do not let
    another engine write at the same time: it does not see our decisions (`pktable_hudi.actions`).
    The table pickles with `write_options` and `index_policy`; the copy is without Spark.
    """

    def __init__(self, store: FileIO, root: str, session: SparkSession | None = None) -> None:
        self.path = root
        self.store, self.session = store, session
        self.settings = read_settings(store, root)
        self._write_options, self._index_policy = WriteOptions(), DEFAULT

    @property
    def write_options(self) -> WriteOptions:
        """How rows are given to file groups. To set another type raises InvalidRequestError. Clauses: LOG-55."""
        return self._write_options

    @write_options.setter
    def write_options(self, options: WriteOptions) -> None:
        self._write_options = expect_kind("write_options", WriteOptions, options)

    @property
    def index_policy(self) -> IndexPolicy:
        """How log files are indexed."""
        return self._index_policy

    @index_policy.setter
    def index_policy(self, policy: IndexPolicy) -> None:
        self._index_policy = expect_kind("index_policy", IndexPolicy, policy)

    def __repr__(self) -> str:
        kind = "merge-on-read" if self.settings.is_merge_on_read else "copy-on-write"
        keys = ", ".join(self.settings.key_fields) or "none"
        return f"<HudiTable {self.path}: {kind}, version {self.settings.version}; record key {keys}>"

    def __reduce__(self) -> tuple[object, ...]:
        options = {"_write_options": self._write_options, "_index_policy": self._index_policy}
        return HudiTable, (self.store, self.path), options

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Any,
        *,
        key: str | Sequence[str],
        partition_by: str | Sequence[str] = (),
        ordering: str | None = None,
        name: str | None = None,
        spark: SparkSession | None = None,
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> HudiTable:
        """Create an empty merge-on-read table of version 8, and open it.

        * ``columns``: as in `Table.create`. ``key``, ``partition_by``: columns of STRING, INT or BIGINT. A key is
          unique inside its partition.
        * ``ordering``: the column whose greatest value wins among records of a key. Without it the latest commit wins.
        * ``name``: of the table, by default that of its directory, with _ for what a name must not have.

        Raises InvalidRequestError if there is a table already, or the definition is not allowed; nothing is written
        then. Clauses: LOG-18, LOG-58, LOG-82, LOG-83.
        """
        found, root = find_store(path, store, storage_options)
        keys, partition = column_names("key", key), column_names("partition_by", partition_by)
        if ordering is not None and (not isinstance(ordering, str) or not ordering):
            raise InvalidRequestError(f"ordering: expected a column name, found {ordering!r}")
        required = {*keys, *partition, ordering}
        fields = [
            replace(field, type=field.type.not_null()) if field.name in required else field
            for field in parse_definition(columns)
        ]
        properties = new_properties(
            default_name(root) if name is None else name, fields, keys, partition, ordering
        )
        expect_no_other_table(found, root)
        if not found.put_if_absent(f"{root}/{PROPERTIES}", properties):
            raise InvalidRequestError(f"{root}: a table already exists here")
        return cls(found, root, spark)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        spark: SparkSession | None = None,
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
        external_roots: ExternalRoots = (),
    ) -> HudiTable:
        """Open the table at ``path``; with ``spark`` executors read the file groups and reads are DataFrames.

        ``store``, ``storage_options``, ``external_roots``: as in `Table.open`. Raises NotATableError, CorruptFileError,
        UnsupportedOptionError for a setting that is not implemented. Clauses: LOG-18.
        """
        found, root = find_store(path, store, storage_options, external_roots)
        return cls(found, root, spark)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns, Hudi's own first."""
        return self.scan().fields

    def upsert(self, rows: Any) -> str | None:
        """Write rows, which replace those of the same keys; return the instant of the commit, None without rows.

        ``rows``: whatever `Table.upsert` takes. With Spark the executors look the keys up and write the files, and the
        rows of a DataFrame stay there. A row with a smaller ordering value than the one that is there is stored,
        and not seen. Raises InvalidRequestError if the rows do not fit or the table is not one that is written: nothing
        is written then. Raises CommitConflictError, CommitUnknownError. Clauses: LOG-50, LOG-54, LOG-58, LOG-64.
        """
        return self.writer().upsert(rows)

    def delete(self, keys: Any = None, *, where: str | None = None) -> str | None:
        """Delete rows, whatever their ordering values; return the instant, None if none was there.

        ``keys``: rows of the key columns and the partition columns. ``where``: instead, a condition on the rows of a
        snapshot read. An upsert with a smaller ordering value than the deleted row's brings the old row back, unless
        `compact` ran in between. Raises as `upsert`. Clauses: LOG-30, LOG-62, LOG-74.
        """
        if (keys is None) == (where is None):
            raise InvalidRequestError("delete: give either keys or where=…")
        return self.writer().delete(keys) if where is None else self.writer().delete_where(where)

    def update(self, set: Mapping[str, Any], *, where: str | None = None) -> NoReturn:
        """Raise InvalidRequestError: an UPDATE of a Hudi table is not implemented. Clauses: LOG-58."""
        raise InvalidRequestError("update: not for a Hudi table; read the rows, change them, and use upsert")

    def write_changes(self, rows: Any, *, row_kind: str | None = None) -> NoReturn:
        """Raise InvalidRequestError: one write has either rows or deletes. Clauses: LOG-58."""
        raise InvalidRequestError(
            "write_changes: not for a Hudi table; use upsert for the rows that stay, and delete for the others"
        )

    def plan_compaction(self, *, fewest_logs: int = 1) -> str | None:
        """Plan a compaction of the file groups with so many log files or more; return its instant, None without any.

        Reads and writes go on, before and while it is executed by `compact` or by Hudi. Raises as `upsert`.
        Clauses: LOG-60.
        """
        _expect_positive("fewest_logs", fewest_logs)
        return self.writer().compactor().plan(fewest_logs)

    def compact(self, *, fewest_logs: int = 1) -> list[str]:
        """Plan a compaction, execute every planned one, and return their instants.

        ``fewest_logs``: as in `plan_compaction`. With Spark the executors compact the file groups.
        Raises as `upsert`, and CorruptFileError. Clauses: LOG-60, LOG-61.
        """
        self.plan_compaction(fewest_logs=fewest_logs)
        compactor = self.writer().compactor()
        pending = compactor.pending()
        for instant in pending:
            compactor.execute(instant)
        return pending

    def rollback(self) -> list[str]:
        """Roll back the writes that are not complete, of processes that died; return their instants.

        Every write does so first. One that is still running fails. Clauses: LOG-51, LOG-53.
        """
        return self.writer().roll_back()

    def clean(self, *, retain_commits: int | None = None, retain_versions: int | None = None) -> str | None:
        """Delete the files of old file slices; return the instant of the clean, None if there is nothing to delete.

        * ``retain_commits``: the table stays readable as of the last so many commits, 10 by default.
        * ``retain_versions``: instead, so many base files of each file group stay, with their log files.

        Slices that a pending action needs stay, too, such as those of a planned compaction. Earlier instants are
        refused by reads from then on. A read that began before may fail, and never returns fewer rows. A clean that
        died is finished first. Raises InvalidRequestError, CorruptFileError, CommitUnknownError.
        Clauses: LOG-66 to LOG-69.
        """
        return self.writer().cleaner().clean(_retention(retain_commits, retain_versions))

    def plan_clean(
        self, *, retain_commits: int | None = None, retain_versions: int | None = None
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of the files that `clean` would delete now, by partition; nothing is written."""
        plan = self.writer().cleaner().chosen(_retention(retain_commits, retain_versions))
        return {} if plan is None else plan.files

    def archive(self, *, retain_writes: int = 2 * RETAINED, fewest: int = RETAINED) -> int:
        """Move old actions from the timeline into the history; return how many.

        The last ``retain_writes`` writes stay, and all that is pending or later. Instants that have left the timeline
        are refused by reads. Nothing is done for less than ``fewest`` actions, because each time makes a file.
        Raises InvalidRequestError, CorruptFileError. Clauses: LOG-70 to LOG-72.
        """
        _expect_positive("retain_writes", retain_writes)
        _expect_positive("fewest", fewest)
        return self.writer().archiver().archive(retain_writes, fewest)

    def writer(self) -> Writer:
        """Return what writes to the table, for who needs a step of it alone."""
        return Writer(
            self.store,
            self.path,
            self.settings,
            now_millis,
            lambda: str(uuid.uuid4()),
            self.session,
            self.write_options,
            self.index_policy,
        )

    def scan(
        self,
        *,
        instant: str | None = None,
        read_optimized: bool = False,
        where: str | None = None,
        columns: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> HudiScan:
        """Return a lazy read, with `HudiScan.to_arrow`, ``to_batches``, ``to_pandas``, ``to_spark``, ``splits``.

        * ``instant``: ``yyyyMMddHHmmss`` or ``yyyyMMddHHmmssSSS``, by default the last one. The read sees the writes
          up to it that are complete now. Its columns are those that the table had then.
        * ``read_optimized``: base files only, which is faster and leaves out what is not compacted yet.
        * ``where``, ``columns``, ``limit``: as in `Table.scan`.

        Raises InvalidRequestError here or when rows are asked for; SnapshotNotFoundError and CorruptFileError then.
        Clauses: LOG-21, LOG-33.
        """
        names = None if columns is None else column_names("columns", columns)
        return HudiScan(
            self.store, self.path, self.settings, self.session, instant, read_optimized, where, names, limit
        )

    def read(self, **options: Unpack[HudiReadOptions]) -> Any:
        """Return rows: a lazy DataFrame with Spark, a pyarrow.Table without. ``options``: those of `scan`."""
        return self.scan(**options).read()

    def to_arrow(self, **options: Unpack[HudiReadOptions]) -> pa.Table:
        """Return rows as a pyarrow.Table, Hudi's own columns included. ``options``: those of `scan`."""
        return self.scan(**options).to_arrow()

    def to_batches(self, **options: Unpack[HudiReadOptions]) -> pa.RecordBatchReader:
        """Return rows batch by batch, read as they are asked for. ``options``: those of `scan`."""
        return self.scan(**options).to_batches()

    def to_pandas(self, **options: Unpack[HudiReadOptions]) -> Any:
        """Return rows as a pandas DataFrame. ``options``: those of `scan`."""
        return self.scan(**options).to_pandas()

    def to_polars(self, **options: Unpack[HudiReadOptions]) -> Any:
        """Return rows as a polars DataFrame. ``options``: those of `scan`."""
        return self.scan(**options).to_polars()

    def count(self, **options: Unpack[HudiReadOptions]) -> int:
        """Return the number of rows of a read. ``options``: those of `scan`."""
        return self.scan(**options).count()

    def locate(self, keys: Sequence[str], *, instant: str | None = None) -> pa.Table:
        """Return which of the record keys ``keys`` are in which file groups: key, partition, group.

        A key that a later record deletes is found until a compaction drops it, because late records of it belong
        to the same file group. Log files are asked by their indexes where they have them.
        Raises InvalidRequestError for an empty key; SnapshotNotFoundError, CorruptFileError. Clauses: LOG-41.
        """
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise InvalidRequestError(f"locate: expected a list of record keys, found {keys!r}")
        found = list(keys)
        if not all(issubclass(kind, str) for kind in set(map(type, found))) or "" in found:
            raise InvalidRequestError(
                "locate: expected record keys, found an empty one or one that is no text"
            )
        return self.scan(instant=instant).locate(KeyBatch(list(dict.fromkeys(found))))

    def check(
        self, *, reads_rows: bool = True, progress: Progress = lambda what, done, total: None
    ) -> Report:
        """Check the timeline and every file, and report every violation; nothing is changed.

        ``reads_rows``: False opens no base file or log file. Clauses: RD-11.
        """
        return check_hudi(self.store, self.path, self.settings, reads_rows=reads_rows, progress=progress)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows of a snapshot read as an Arrow C stream."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def timeline(self) -> Timeline:
        """Return the completed writes and the planned compactions, as they are now. Raises CorruptFileError."""
        return load_timeline(self.store, self.path, self.settings)

    def history(self) -> pa.Table:
        """Return one row per completed write, oldest first.

        Columns: instant, action, operation, completion, files, rows, deletes (how many keys were deleted). Writes that
        have left the timeline for the history are left out.
        """
        timeline = self.timeline()
        found = [(one, timeline.metadata(one)) for one in timeline.completed]
        return pa.table(
            {
                "instant": pa.array([one.time for one, _ in found], pa.string()),
                "action": pa.array([one.action for one, _ in found], pa.string()),
                "operation": pa.array([metadata.operation or None for _, metadata in found], pa.string()),
                "completion": pa.array(
                    [one.completion if self.settings.has_completion_times else None for one, _ in found],
                    pa.string(),
                ),
                "files": pa.array([len(metadata.written) for _, metadata in found], pa.int64()),
                "rows": pa.array([sum(rows for *_, rows in m.written) for _, m in found], pa.int64()),
                "deletes": pa.array([metadata.deleted_count for _, metadata in found], pa.int64()),
            }
        )

    def files(self, instant: str | None = None) -> pa.Table:
        """Return one row per file of the file slices as of ``instant``: partition, group, kind, file, instant, size.

        Raises SnapshotNotFoundError, CorruptFileError.
        """
        slices = [split.slice for split in self.scan(instant=instant).splits()]
        rows = [
            (one.partition, one.group, kind, name.name, name.instant, one.sizes[name.name])
            for one in slices
            for kind, names in (("base", [one.base] if one.base else []), ("log", list(one.logs)))
            for name in names
        ]
        columns = list(zip(*rows, strict=True)) or [()] * 6
        kinds = [pa.string()] * 5 + [pa.int64()]
        names = ["partition", "group", "kind", "file", "instant", "size"]
        return pa.table(
            {name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)}
        )


def _retention(commits: int | None, versions: int | None) -> Retention:
    if commits is not None and versions is not None:
        raise InvalidRequestError("clean: expected retain_commits or retain_versions, found both")
    policy, count = (COMMITS, commits) if versions is None else (VERSIONS, versions)
    count = RETAINED if count is None else count
    _expect_positive("retain_commits" if policy == COMMITS else "retain_versions", count)
    return Retention(policy, count)


def _expect_positive(name: str, number: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidRequestError(f"{name}: expected 1 or more, found {number!r}")
