"""A Hudi table: open it and read it, at any instant. Nothing is ever written to it.

table = HudiTable.open("trips")
table.to_arrow(instant="20251220210130911", where="fare > 10")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.catalog.schemas import find_store
from pktable.check.findings import Progress
from pktable.check.walk import Report
from pktable.format.hudi.key_summary import KeyBatch
from pktable.format.types import Field
from pktable.hudi.check import check_hudi
from pktable.hudi.scan import HudiReadOptions, HudiScan
from pktable.hudi.settings import read_settings
from pktable.hudi.timeline import Timeline, load_timeline
from pktable.store.file_io import FileIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack


class HudiTable:
    """One table of Apache Hudi, of table version 6, 8 or 9. Use `HudiTable.open`.

    Merge-on-read and copy-on-write tables with Parquet base files are read as Hudi reads them. A setting or a file
    whose meaning is not implemented is refused by name. The table pickles; the copy is without Spark.
    """

    def __init__(self, store: FileIO, root: str, session: SparkSession | None = None) -> None:
        self.path = root
        self.store, self.session = store, session
        self.settings = read_settings(store, root)

    def __reduce__(self) -> tuple[object, ...]:
        return HudiTable, (self.store, self.path)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        spark: SparkSession | None = None,
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
        external_roots: Sequence[str | os.PathLike[str]] = (),
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
        names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
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
        if any(not isinstance(key, str) or not key for key in keys):
            raise InvalidRequestError(
                "locate: expected record keys, found an empty one or one that is no text"
            )
        batch = KeyBatch(list(dict.fromkeys(keys)))
        found = [
            (batch.keys[i], lookup.slice.partition, lookup.slice.group)
            for lookup in self.scan(instant=instant).lookups()
            for i in lookup.locate(batch).tolist()
        ]
        columns = list(zip(*found, strict=True)) or [()] * 3
        names = ("key", "partition", "group")
        return pa.table({name: pa.array(one, pa.string()) for name, one in zip(names, columns, strict=True)})

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
        """Return one row per completed write, oldest first: instant, action, operation, completion, files, rows."""
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
