"""The part of a table that reads: rows, changes, snapshots, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pktable_spec.errors import SnapshotNotFoundError
from pktable_spec.vocabulary import COMPACT

from pktable.catalog.as_of import AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.definitions import column_names
from pktable.catalog.state import TableState
from pktable.change_scan import ChangeScan
from pktable.format.metadata.snapshot import Snapshot
from pktable.inspect import Inspection
from pktable.kinds import kind_of
from pktable.metadata_tables import AUDIT_LOG, ROW_KIND, expect_auditable, metadata_table
from pktable.run.runner import Runner
from pktable.scan import ReadOptions, Scan

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TableReads:
    """The methods of a table that read it. They change nothing."""

    catalog: Catalog
    runner: Runner

    @property
    def inspect(self) -> Inspection:
        """Files, buckets, deletion vectors and records of every snapshot."""
        return Inspection(self.catalog)

    def scan(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        fresh: bool = False,
        where: str | None = None,
        columns: str | Sequence[str] | None = None,
        limit: int | None = None,
        runner: str | None = None,
    ) -> Scan:
        """Return a lazy read, with `Scan.to_arrow`, ``to_batches``, ``to_pandas``, ``to_spark``, ``count``, ``splits``.

        * ``snapshot``, ``tag``, ``timestamp``: at most one of them; by default the latest snapshot. A read of an older
          snapshot has the columns that the table had then. ``timestamp``: milliseconds since the epoch, a datetime, or
          ISO text (UTC unless it says otherwise).
        * ``fresh``: with deletion vectors, a default read sees what compaction has made visible; a fresh read merges
          the files of level 0 in. They differ where a table is ``write-only`` and compacted elsewhere.
        * ``where``: a condition in SQL as Spark reads it.
        * ``columns``: names, in the order wanted. ``limit``: at most so many rows, any of them.
        * ``runner``: with a session, who reads: ``"local"``, this process, or ``"spark"``. By default this process does
          what metadata shows to be small, and `Scan.explain` says so.

        Raises InvalidRequestError here or when rows are asked for; SnapshotNotFoundError and CorruptFileError then.
        Clauses: RD-1 to RD-22.
        """
        as_of = AsOf.given(snapshot, tag, timestamp)
        names = None if columns is None else column_names("columns", columns)
        return Scan(self.catalog, self.runner, as_of, fresh, where, names, limit, runner)

    def read(self, **options: Unpack[ReadOptions]) -> Any:
        """Return rows: a lazy DataFrame with Spark, a pyarrow.Table without. ``options``: those of `scan`.

        With Spark it starts no job. The driver looks for the files, which takes a tenth of a millisecond for each; what
        is small is read now, by this process (``runner``).
        """
        return self.scan(**options).read()

    def to_arrow(self, **options: Unpack[ReadOptions]) -> pa.Table:
        """Return rows as a pyarrow.Table. ``options``: those of `scan`."""
        return self.scan(**options).to_arrow()

    def to_pandas(self, **options: Unpack[ReadOptions]) -> Any:
        """Return rows as a pandas DataFrame. ``options``: those of `scan`."""
        return self.scan(**options).to_pandas()

    def to_polars(self, **options: Unpack[ReadOptions]) -> Any:
        """Return rows as a polars DataFrame. ``options``: those of `scan`."""
        return self.scan(**options).to_polars()

    def to_batches(self, **options: Unpack[ReadOptions]) -> pa.RecordBatchReader:
        """Return rows batch by batch, read as they are asked for. ``options``: those of `scan`."""
        return self.scan(**options).to_batches()

    def to_dataset(self, **options: Unpack[ReadOptions]) -> Any:
        """Return rows as a `pyarrow.dataset.Dataset` for DuckDB, polars and pyarrow. ``options``: those of `scan`."""
        return self.scan(**options).to_dataset()

    def count(self, **options: Unpack[ReadOptions]) -> int:
        """Return the number of rows of a read, from metadata alone where nothing is merged. ``options``: of `scan`.

        Clauses: RD-1, RD-15.
        """
        return self.scan(**options).count()

    def changes(
        self,
        start: int | str,
        end: int | str | None = None,
        *,
        where: str | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> ChangeScan:
        """Return a lazy read of the changes after ``start`` up to ``end``, in the forms that a scan has.

        * ``start``, ``end``: ids of snapshots, or names of tags. 0 is before the first snapshot, None the latest one.
        * ``where``, ``columns``: as in `scan`; a condition is about the row of each change alone.

        The column ``_row_kind`` holds +I, -U, +U or -D. The changes are those that the table's changelog files hold.
        With ``changelog-producer=none`` they are the rows as they were written, before any merge. A Spark DataFrame
        has them in no order; elsewhere those of one key are in order.
        Raises InvalidRequestError, here or when changes are asked for, also if the range has an OVERWRITE, and
        SnapshotNotFoundError then, if a snapshot of the range has expired. Clauses: CHG-11, CHG-12, CHG-13.
        """
        names = None if columns is None else column_names("columns", columns)
        return ChangeScan(self.catalog, self.runner, start, end, where, names)

    def effect(self, snapshot: int) -> Effect | None:
        """Return how many rows the write that returned ``snapshot`` has put and deleted, None if it has expired.

        Raises CorruptFileError. Clauses: WH-12.
        """
        wanted = AsOf.given(snapshot).snapshot
        assert wanted is not None, "it is given"
        return effect_of(self.catalog, wanted)

    def metadata(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
    ) -> Any:
        """Return what the table says of itself, with the columns of Paimon's system table of this name.

        * ``snapshots``, ``schemas``, ``options``, ``tags``, ``branches``, ``consumers``: of the table, an Arrow table.
        * ``files``, ``partitions``, ``buckets``, ``manifests``: of a snapshot, an Arrow table.
        * ``audit_log``: rows as `read` returns them, with their kind in the column ``rowkind``.

        ``snapshot``, ``tag``, ``timestamp``: as in `scan`. Times are instants.
        Raises InvalidRequestError, which lists the names, SnapshotNotFoundError and CorruptFileError. Clauses: WH-9.
        """
        as_of = AsOf.given(snapshot, tag, timestamp)
        if name != AUDIT_LOG:
            return metadata_table(self.catalog, name, as_of)
        self.catalog.read_as_of(as_of, expect_auditable)
        rows = self.read(snapshot=snapshot, tag=tag, timestamp=timestamp)
        if not isinstance(rows, pa.Table):
            return rows.selectExpr(f"'+I' AS {ROW_KIND}", "*")
        return rows.add_column(0, ROW_KIND, pa.array(["+I"] * rows.num_rows, pa.string()))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows of a default read as an Arrow C stream."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def snapshots(self) -> list[Snapshot]:
        """Return the retained snapshots, oldest first."""
        return self.catalog.snapshots.retained()

    def files(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per live data file, as `Inspection.files`."""
        return self.inspect.files(snapshot)


@dataclass(frozen=True, slots=True)
class Effect:
    """The rows that a write has ``put`` (inserted, or in place of older ones), and those that it has ``deleted``.

    In an append table a row that takes the place of another one counts as both.
    """

    put: int
    deleted: int


def effect_of(catalog: Catalog, after: int) -> Effect | None:
    """Return the effect of the write that ended with the snapshot ``after``, None if its snapshots have expired.

    Raises CorruptFileError. Clauses: WH-12.
    """
    try:
        written = last = catalog.snapshots.read(after)
        if written.commit_kind == COMPACT:  # its own compaction follows a write
            written = catalog.snapshots.read(after - 1)
        if (written.commit_user, written.commit_identifier) != (last.commit_user, last.commit_identifier):
            return None
        state = catalog.states.at(written)
        before = catalog.states.at(catalog.snapshots.read(written.id - 1)) if written.id > 1 else TableState()
    except SnapshotNotFoundError:
        return None
    older = {file.file_name for files in before.files.values() for file in files}
    new = [file for files in state.files.values() for file in files if file.file_name not in older]
    if kind_of(catalog.context.schema, catalog.context.root).has_keys:
        deleted = sum(file.delete_row_count or 0 for file in new)
        return Effect(sum(file.row_count for file in new) - deleted, deleted)
    kept = {file.file_name for files in state.files.values() for file in files}
    gone = _live_rows(catalog, before, older) - _live_rows(catalog, state, older & kept)
    return Effect(sum(file.row_count for file in new), gone)


def _live_rows(catalog: Catalog, state: TableState, names: set[str]) -> int:
    """Return how many rows of the files ``names`` no vector deletes."""
    total = 0
    for identity, files in state.files.items():
        deleted = catalog.context.deleted_counts(catalog.states.bucket(state, identity))
        total += sum(
            file.row_count - deleted.get(file.file_name, 0) for file in files if file.file_name in names
        )
    return total
