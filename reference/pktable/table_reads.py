"""The part of a table that reads: rows, changes, snapshots, files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from pktable.catalog.arguments import expect_flag
from pktable.catalog.as_of import AsOf, snapshot_id
from pktable.catalog.catalog import Catalog
from pktable.catalog.definitions import column_names
from pktable.catalog.effects import Effect, effect_of
from pktable.change_scan import ChangeScan
from pktable.format.metadata.snapshot import Snapshot
from pktable.inspect import Inspection
from pktable.metadata_tables import AUDIT_LOG, ROW_KIND, expect_auditable, metadata_table
from pktable.run.local import LocalRunner
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
        where: Any = None,
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
        * ``where``: a condition in SQL as Spark reads it, or an expression of pyarrow or polars.
        * ``columns``: names, in the order wanted. ``limit``: at most so many rows, any of them.
        * ``runner``: with a session, who reads: ``"local"``, this process, or ``"spark"``. By default this process does
          what metadata shows to be small, and `Scan.explain` says so.

        Raises InvalidRequestError here or when rows are asked for; SnapshotNotFoundError and CorruptFileError then.
        Clauses: RD-1 to RD-22.
        """
        as_of = AsOf.given(snapshot, tag, timestamp)
        names = None if columns is None else column_names("columns", columns)
        return Scan(
            self.catalog,
            self.runner,
            as_of,
            fresh,
            where,
            names,
            limit,
            runner,
        )

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

    def head(self, rows: int = 5) -> pa.Table:
        """Return some rows, ``rows`` at most, as a pyarrow.Table. Few files are read for them."""
        return self.scan(
            limit=rows, runner=None if isinstance(self.runner, LocalRunner) else "local"
        ).to_arrow()

    def __len__(self) -> int:
        """Return the number of rows of a default read, as `count`."""
        return self.count()

    def __bool__(self) -> bool:
        return True  # a table without rows is a table

    def __getitem__(self, names: str | Sequence[str]) -> Any:
        """Return a column as a pyarrow.ChunkedArray, or several as a pyarrow.Table, of all rows.

        Raises InvalidRequestError for a column that is not there, TypeError for a number.
        """
        if isinstance(names, str):
            return self.to_arrow(columns=[names]).column(0)
        if not isinstance(names, Sequence):
            raise TypeError(f"expected the name of a column or several, found {names!r}")
        return self.to_arrow(columns=names)

    def __iter__(self) -> NoReturn:
        """Raise TypeError: rows are read as what the caller says."""
        raise TypeError(
            "a table is not iterated over; read it with to_arrow(), to_batches(), or scan(where=…).to_pylist()"
        )

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
        where: Any = None,
        columns: str | Sequence[str] | None = None,
        commits: bool = False,
    ) -> ChangeScan:
        """Return a lazy read of the changes after ``start`` up to ``end``, in the forms that a scan has.

        * ``start``, ``end``: ids of snapshots, or names of tags. 0 is before the first snapshot, None the latest one.
        * ``where``, ``columns``: as in `scan`; a condition is about the row of each change alone.
        * ``commits``: add ``_commit_version`` and ``_commit_timestamp``, the id and the time of the snapshot.

        The column ``_row_kind`` holds +I, -U, +U or -D. The changes are those that the table's changelog files hold.
        With ``changelog-producer=none`` they are the rows as they were written, before any merge. A Spark DataFrame
        has them in no order; elsewhere those of one key are in order.
        Raises InvalidRequestError, here or when changes are asked for, also if the range has an OVERWRITE, and
        SnapshotNotFoundError then, if a snapshot of the range has expired. Clauses: CHG-11, CHG-12, CHG-13.
        """
        names = None if columns is None else column_names("columns", columns)
        expect_flag("commits", commits)
        return ChangeScan(
            self.catalog,
            self.runner,
            start,
            end,
            where,
            names,
            commits,
        )

    def effect(self, snapshot: int) -> Effect | None:
        """Return what the change that returned ``snapshot`` did, None if it has expired.

        The result of the change itself has an ``effect`` that knows more: how many of its rows were there before.
        Raises InvalidRequestError, SnapshotNotFoundError for a snapshot that never was, CorruptFileError.
        Clauses: TBL-60, WH-12.
        """
        wanted = snapshot_id(snapshot)
        self.catalog.expect_opened()
        if not 1 <= wanted <= (self.catalog.snapshots.latest_id() or 0):
            self.catalog.snapshots.read(wanted)  # says what there is
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
        if not isinstance(name, str) or name != AUDIT_LOG:
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
        """Return the retained snapshots, oldest first. Clauses: TBL-60."""
        self.catalog.expect_opened()
        return self.catalog.snapshots.retained()

    def files(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per live data file, as `Inspection.files`."""
        return self.inspect.files(snapshot)
