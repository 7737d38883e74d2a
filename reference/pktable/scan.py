"""A read of a table as a value: planned when it is asked for rows, never before.

A `Scan` names a snapshot, a condition on rows, and columns. It gives the rows as Arrow (at once, or batch by batch), as
pandas or polars, or as a Spark DataFrame. Whatever understands Arrow's C stream takes a scan as it is: DuckDB,
polars, pyarrow. `Scan.splits` gives the pieces of the read, each of which pickles and reads itself anywhere.

Clauses: RD-1 to RD-23.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.bucket.read import BucketRead, by_file, live_record_count, read_bucket
from pktable.bucket.reader import BATCH_ROWS
from pktable.catalog.arguments import expect_flag, expect_limit
from pktable.catalog.as_of import LATEST, AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.file_bounds import rows_to_decode
from pktable.catalog.read_plan import plan_read
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import TableState
from pktable.context import TableContext
from pktable.format.arrow_values import declared
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.snapshot import Snapshot
from pktable.predicate import Predicate, expect_condition
from pktable.run.by_size import RunnerBySize
from pktable.run.local import LocalRunner
from pktable.run.runner import Query, Runner, expect_runner, width_of
from pktable.run.together import AT_ONCE, in_turn
from pktable.watching import measured

AHEAD_BYTES: Final = 32 << 20
"""About what each thread of a read in batches may read ahead of its caller."""

"""The greatest number of rows that Spark can limit a frame to."""

Result = TypeVar("Result")


class ReadOptions(TypedDict, total=False):
    """The keywords of `Table.scan`, which `Table.read` and its like take too."""

    snapshot: int | None
    tag: str | None
    timestamp: int | str | datetime | None
    fresh: bool
    where: Any
    columns: str | Sequence[str] | None
    limit: int | None
    runner: str | None


@dataclass(frozen=True)
class Split:
    """A piece of a scan: some files of one bucket. It pickles; the process that reads it needs the same paths.

    The rows of a scan without a limit are those of its splits, in any order. ``snapshot``: the one that is read, and
    ``tag`` the tag by which, if it was asked for by one.
    """

    context: TableContext
    part: BucketRead
    columns: tuple[str, ...]
    predicate: Predicate | None
    snapshot: Snapshot
    tag: str | None = None

    @property
    def partition(self) -> str:
        """The partition's directory, such as ``region=eu``; empty for a table without partitions."""
        return self.context.partition_path(self.part.state.place.partition)

    @property
    def bucket(self) -> int:
        return self.part.state.place.bucket

    @property
    def paths(self) -> list[str]:
        """The data files to read."""
        place = self.part.state.place
        return [self.context.data_path(place, file) for file in self.part.state.files]

    @property
    def size_bytes(self) -> int:
        """The size of the data files."""
        return sum(file.file_size for file in self.part.state.files)

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows, from metadata."""
        return sum(file.row_count for file in self.part.state.files)

    @property
    def merges(self) -> bool:
        """Whether the files must be merged; otherwise rows are filtered by deletion vectors."""
        return self.part.merges

    def read(self) -> Iterator[pa.Table]:
        """Yield the rows, as tables of the scan's columns.

        Raises CorruptFileError, or SnapshotNotFoundError if the snapshot expires before all is read.
        Clauses: RD-10, RD-23.
        """
        schema = self.context.schema.arrow_schema
        wanted = pa.schema([schema.field(name) for name in self.columns])
        try:
            for table in read_bucket(self.context, self.part, self.columns, self.predicate):
                yield declared(table, wanted)
        except CorruptFileError:
            snapshots = SnapshotLog(self.context.store, self.context.paths)
            expired = snapshots.expired_error(self.snapshot, self.tag)
            if expired is None:
                raise
            raise expired from None


class ArrowRows(ABC):
    """Rows that are read as Arrow, in the forms of other libraries."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow.Table, all in memory."""

    @abstractmethod
    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows batch by batch, read in this process as they are asked for."""

    def to_pandas(self, **options: Any) -> Any:
        """Return the rows as a pandas DataFrame. ``options``: those of `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame. Raises InvalidRequestError if polars is not installed."""
        try:
            import polars
        except ImportError:
            raise InvalidRequestError("to_polars: polars is not installed; pip install polars") from None
        return polars.from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as a list of dicts."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow C stream, batch by batch."""
        return self.to_batches().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class Scan(ArrowRows):
    """Which rows to read. Made by `Table.scan`; nothing is read or planned before rows are asked for."""

    catalog: Catalog
    runner: Runner
    as_of: AsOf = LATEST
    fresh: bool = False
    where: Any = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    forced: str | None = None

    def __post_init__(self) -> None:
        expect_runner(self.forced, has_spark=not isinstance(self.runner, LocalRunner))
        expect_flag("fresh", self.fresh)
        expect_limit(self.limit)
        expect_condition(self.where)

    def __repr__(self) -> str:
        asked = {
            "snapshot": self.as_of.snapshot,
            "tag": self.as_of.tag,
            "timestamp": self.as_of.time_millis,
            "fresh": self.fresh or None,
            "where": self.where,
            "columns": self.columns and list(self.columns),
            "limit": self.limit,
            "runner": self.forced,
        }
        given = ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None)
        return f"<Scan of {self.catalog.context.root}: {given or 'all rows'}>"

    def __reduce__(self) -> tuple[object, ...]:
        # The copy reads in its own process, without Spark, as the copy of a table does.
        return Scan, (
            self.catalog,
            LocalRunner(),
            self.as_of,
            self.fresh,
            self.where,
            self.columns,
            self.limit,
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns and types of the rows. Raises SnapshotNotFoundError, InvalidRequestError."""
        return self._planned(lambda context, query: _arrow_schema(context, query))

    def read(self) -> Any:
        """Return the rows: a lazy DataFrame with Spark, a pyarrow.Table without."""
        return self._planned(self.runner.read)

    def to_spark(self) -> Any:
        """Return the rows as a lazy DataFrame. Raises InvalidRequestError if the table was opened without Spark."""
        found = self.read()
        if isinstance(found, pa.Table):
            raise InvalidRequestError(
                "to_spark: the table was opened without Spark; give spark=session to Table.open"
            )
        return found

    @measured("read")
    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow.Table, all in memory."""

        def work(context: TableContext, query: Query) -> pa.Table:
            return declared(self.runner.to_arrow(context, query), _arrow_schema(context, query))

        return self._planned(work)

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows batch by batch, read in this process as they are asked for.

        Raises CorruptFileError, or SnapshotNotFoundError if the snapshot expires before all is read. The reader raises
        them too.
        """
        return self.catalog.read_as_of(
            self.as_of,
            lambda state, context: self._reader(state.snapshot, context, self._query(state, context)),
        )

    def to_dataset(self) -> Any:
        """Return the rows as a `pyarrow.dataset.Dataset`, which DuckDB and polars query lazily.

        Their columns and filters choose what is read: ``duckdb.sql("SELECT ... FROM rows")`` of a variable ``rows``,
        ``polars.scan_pyarrow_dataset(rows)``.
        """
        from pktable.dataset import TableDataset  # it brings pyarrow.dataset, which a small read does without

        return TableDataset(self)

    @measured("count")
    def count(self) -> int:
        """Return the number of rows: from metadata alone where nothing is merged or filtered.

        Clauses: RD-1, RD-15, DV-2.
        """
        if self.limit is not None:
            return min(self.limit, replace(self, limit=None).count())
        if self.where is not None:
            return self._planned(lambda context, query: self.runner.count(context, query))

        def work(context: TableContext, query: Query) -> int:
            counted = sum(live_record_count(context, part.state) for part in query.parts if not part.merges)
            merged = [part for part in query.parts if part.merges]
            if not merged:
                return counted
            keys = context.schema.primary_keys[:1]  # the fewest columns that a merge reads anyway
            return counted + self.runner.count(context, replace(query, parts=merged, columns=keys))

        return self._planned(work)

    def splits(self) -> list[Split]:
        """Return the pieces of the read. Raises InvalidRequestError for a scan with a limit."""
        if self.limit is not None:
            raise InvalidRequestError("splits: a scan with a limit cannot be divided")
        return self.catalog.read_as_of(
            self.as_of,
            lambda state, context: self._splits(state.snapshot, context, self._query(state, context)),
        )

    def explain(self) -> str:
        """Return in a few lines what the scan reads: snapshot, files and what rules others out, vectors, and who reads.

        The last line is about Arrow tables and counts; where a DataFrame is read by another, one more says so.
        """

        def work(state: TableState, context: TableContext) -> str:
            ruled_out: Counter[str] = Counter()
            query = self._query(state, context, ruled_out)
            live = sum(len(files) for files in state.files.values())
            lines = [
                f"snapshot {state.id}, {'fresh' if self.fresh else 'default'} read of {context.root}",
                f"columns: {', '.join(query.columns)}",
                f"condition: {query.predicate.text if query.predicate else 'none'}",
                f"files: {sum(len(part.state.files) for part in query.parts)} of {live}, "
                f"{query.input_bytes} bytes, in {len(query.parts)} of {len(state.files)} buckets",
                f"ruled out: {', '.join(f'{count} by {why}' for why, count in ruled_out.items() if count) or 'none'}",
                f"vectors: {_vectors(context, query)}",
                *_runners(self.runner, context, query),
            ]
            for part in query.parts:
                way = (
                    "merge" if part.merges else "filter by deletion vectors" if part.state.indexes else "read"
                )
                place = part.state.place.directory.removeprefix(context.root + "/")
                count = len(part.state.files)
                lines.append(f"  {place}: {count} file{'s' * (count != 1)}, {way}")
            return "\n".join(lines)

        return self.catalog.read_as_of(self.as_of, work)

    def _reader(self, snapshot: Snapshot | None, context: TableContext, query: Query) -> pa.RecordBatchReader:
        schema = _arrow_schema(context, query)

        def batches() -> Iterator[pa.RecordBatch]:
            missing = query.limit
            files = replace(query, parts=[file for part in query.parts for file in by_file(part)])
            sources = [split.read for split in self._splits(snapshot, context, files)]
            # A limit needs few of them.
            threads = AT_ONCE if missing is None else 1
            width = sum(width_of(context.schema.field(name).type) for name in query.columns)
            held = max(2, AHEAD_BYTES // (BATCH_ROWS * width))
            with closing(in_turn(sources, threads=threads, held=held)) as tables:
                for table in tables:
                    rows = table if missing is None else table.slice(0, missing)
                    yield from rows.to_batches()
                    if missing is not None:
                        missing -= rows.num_rows
                        if not missing:
                            return

        return pa.RecordBatchReader.from_batches(schema, batches() if query.limit != 0 else iter(()))

    def _splits(self, snapshot: Snapshot | None, context: TableContext, query: Query) -> list[Split]:
        if snapshot is None:  # nothing was written yet
            return []
        columns = tuple(query.columns)
        return [
            Split(context, part, columns, query.predicate, snapshot, self.as_of.tag) for part in query.parts
        ]

    def _planned(self, work: Callable[[TableContext, Query], Result]) -> Result:
        return self.catalog.read_as_of(
            self.as_of, lambda state, context: work(context, self._query(state, context))
        )

    def _query(
        self, state: TableState, context: TableContext, ruled_out: Counter[str] | None = None
    ) -> Query:
        names = chosen_columns(self.columns, context.schema)
        predicate = context.predicate(self.where)
        fresh = self.fresh or context.options.read_merges_level_zero
        parts = plan_read(
            context, self.catalog.states, state, fresh=fresh, predicate=predicate, ruled_out=ruled_out
        )
        chooses = not isinstance(self.runner, LocalRunner)  # only then somebody asks how much is decoded
        decoded = rows_to_decode(context, parts, predicate) if chooses else None
        return Query(parts, names, predicate, self.limit, self.forced, decoded)


def _arrow_schema(context: TableContext, query: Query) -> pa.Schema:
    schema = context.schema.arrow_schema
    return pa.schema([schema.field(name) for name in query.columns])


def _vectors(context: TableContext, query: Query) -> str:
    """Tell of the deletion vectors of the files to read, which metadata shows without reading one."""
    counts = [context.deleted_counts(part.state) for part in query.parts]
    return f"{sum(map(len, counts))} of files to read, {sum(sum(one.values()) for one in counts)} positions"


def _runners(runner: Runner, context: TableContext, query: Query) -> Iterator[str]:
    """Tell who answers, and why."""
    if not isinstance(runner, RunnerBySize):
        alone = isinstance(runner, LocalRunner)
        yield f"runner: {'local (the table was opened without Spark)' if alone else type(runner).__name__}"
        return
    eager, lazy = (runner.choice(context, query, lazy=lazy) for lazy in (False, True))
    yield f"runner: {eager}"
    if lazy != eager:
        yield f"runner of a DataFrame: {lazy}"


def chosen_columns(columns: Sequence[str] | None, schema: TableSchema) -> list[str]:
    """Return the names of the columns to read, by default all. Raises InvalidRequestError."""
    names = [field.name for field in schema.fields]
    if columns is None:
        return names
    unknown = [column for column in columns if column not in names]
    if unknown or not columns or len(set(columns)) != len(columns):
        found = ", ".join(map(str, columns)) or "none"
        raise InvalidRequestError(f"columns: expected some of {', '.join(names)}, each once, found {found}")
    return list(columns)
