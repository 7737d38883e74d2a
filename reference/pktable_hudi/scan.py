"""A read of a Hudi table as a value: planned when it is asked for rows, never before.

Clauses: LOG-21, LOG-33, LOG-36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import pyarrow as pa
from pktable.catalog.arguments import expect_flag, expect_limit
from pktable.format.arrow_values import declared
from pktable.format.types import DataType, Field, to_arrow
from pktable.ingest.sources import as_arrow
from pktable.predicate import key_equalities, parse
from pktable.retry import RetryPolicy, retry
from pktable.scan import ArrowRows
from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError

from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.format.key_summary import KeyBatch
from pktable_hudi.lookup import SliceLookup
from pktable_hudi.pieces import Pieces, called
from pktable_hudi.settings import HudiSettings, expect_instant
from pktable_hudi.slice_read import SliceReader
from pktable_hudi.slices import FileSlice, file_groups, slices_at
from pktable_hudi.timeline import (
    Timeline,
    cleaned_error,
    expect_retained,
    load_timeline,
    load_with_files,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Columns that Hudi puts in front of those of the user."""

PLACES: Final = tuple(
    Field(i, name, DataType("STRING")) for i, name in enumerate(("key", "partition", "group"))
)

LOCATED_BYTES: Final = 64 << 20
"""Files of up to so many bytes are searched for keys in this process; Spark would take longer to begin."""

LOCATING_TASKS: Final = 64

ATTEMPTS: Final = 10
"""How often a read of the last write is tried while others clean."""

Result = TypeVar("Result")

MOST_ROWS: Final = (1 << 31) - 1  # that a limit of Spark's can say


class HudiReadOptions(TypedDict, total=False):
    """The keywords of `HudiTable.scan`, which `HudiTable.read` and its like take too."""

    instant: str | None
    read_optimized: bool
    where: str | None
    columns: str | Sequence[str] | None
    limit: int | None


@dataclass(frozen=True)
class HudiSplit:
    """A piece of a scan: one file slice. It pickles; the process that reads it needs the same paths."""

    reader: SliceReader
    slice: FileSlice

    @property
    def partition(self) -> str:
        """The partition's directory, such as ``region=eu``; empty for a table without partitions."""
        return self.slice.partition

    @property
    def paths(self) -> list[str]:
        """The files to read, the base file first."""
        names = [*([self.slice.base.name] if self.slice.base else []), *(log.name for log in self.slice.logs)]
        return [self.slice.path(self.reader.root, name) for name in names]

    @property
    def size_bytes(self) -> int:
        """The size of the files."""
        return self.slice.size_bytes

    @property
    def merges(self) -> bool:
        """Whether there are log files to merge."""
        return bool(self.slice.logs)

    def read(self) -> Iterator[pa.Table]:
        """Yield the rows, as tables of the scan's columns.

        Raises CorruptFileError, InvalidRequestError, SnapshotNotFoundError if a clean has deleted the files.
        Clauses: LOG-76.
        """
        with _naming_cleans(self.reader, [self.slice]):
            yield from self.reader.read(self.slice)


@dataclass(frozen=True)
class HudiScan(ArrowRows):
    """Which rows to read. Made by `HudiTable.scan`; nothing is read or planned before rows are asked for.

    ``partitions``: their directories, None for all.
    """

    store: FileIO
    root: str
    settings: HudiSettings
    session: SparkSession | None = None
    instant: str | None = None
    read_optimized: bool = False
    where: str | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    partitions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        expect_flag("read_optimized", self.read_optimized)
        expect_limit(self.limit)
        if self.where is not None and not isinstance(self.where, str):
            raise InvalidRequestError(f"where: expected text, found {type(self.where).__name__}")
        if self.instant is not None:
            expect_instant(self.instant)

    def __reduce__(self) -> tuple[object, ...]:
        # The copy reads in its own process, without Spark.
        fields = (self.store, self.root, self.settings, None, self.instant, self.read_optimized)
        return HudiScan, (*fields, self.where, self.columns, self.limit, self.partitions)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns of the table as of the instant. Raises SnapshotNotFoundError."""
        return self._fields(self._timeline()[0])

    @property
    def schema(self) -> pa.Schema:
        """The columns and types of the rows. Raises SnapshotNotFoundError, InvalidRequestError."""
        return self._plan()[0]

    def read(self) -> Any:
        """Return the rows: a lazy DataFrame with Spark, a pyarrow.Table without."""
        return self.to_arrow() if self.session is None else self.to_spark()

    def to_spark(self) -> Any:
        """Return the rows as a lazy DataFrame. Slices without log files are Spark's own scan, others take a task each.

        Raises InvalidRequestError if the table was opened without Spark. Clauses: LOG-36.
        """
        if self.session is None:
            raise InvalidRequestError(
                "to_spark: the table was opened without Spark; give spark=session to HudiTable.open"
            )
        return self._frame(*self._plan()[1:])

    def _frame(self, splits: Sequence[HudiSplit], fields: Sequence[Field]) -> Any:
        from pktable.run.spark.types import spark_schema
        from pktable.run.spark.wire import frame_of_pieces

        from pktable_hudi.native import native_frame, native_slices

        assert self.session is not None
        native = native_slices(splits[0].reader, [one.slice for one in splits], OWN_COLUMNS) if splits else []
        natively = set(map(id, native))
        pieces = [
            partial(_tables, split)
            for split in sorted(splits, key=lambda one: -one.size_bytes)
            if id(split.slice) not in natively
        ]
        schema = spark_schema([_nullable(one) for one in fields])
        frame = frame_of_pieces(self.session, pieces, called, schema, spread=True)
        if native:
            own = native_frame(self.session, splits[0].reader, native)
            frame = frame.unionAll(own) if pieces else own
        return frame if self.limit is None else frame.limit(min(self.limit, MOST_ROWS))

    @property
    def _shown(self) -> str | None:
        """The name of the condition in messages."""
        return None if self.where is None else f"where {self.where!r}"

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow.Table, all in memory, read by Spark if the table was opened with it.

        Raises as `to_batches`. Clauses: LOG-76.
        """
        return self._retried(self._to_arrow)

    def _to_arrow(self) -> pa.Table:
        if self.session is not None:
            from pktable.run.spark.errors import raised_here

            schema, splits, fields = self._plan()
            with _naming_cleans_of(splits), raised_here(self._shown):
                return declared(as_arrow(self._frame(splits, fields)), schema)
        return self.to_batches().read_all()

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows batch by batch, read in this process as they are asked for.

        Raises CorruptFileError, SnapshotNotFoundError. The reader raises them, too: the second one if a clean has
        deleted its files by then, also those of the last write. Clauses: LOG-76.
        """
        schema, splits, _ = self._plan()

        def batches() -> Iterator[pa.RecordBatch]:
            missing = self.limit
            for split in splits:
                for table in split.read():
                    rows = table if missing is None else table.slice(0, missing)
                    yield from declared(rows, schema).to_batches()
                    if missing is not None:
                        missing -= rows.num_rows
                        if not missing:
                            return

        return pa.RecordBatchReader.from_batches(schema, batches() if self.limit != 0 else iter(()))

    def count(self) -> int:
        """Return the number of rows. Raises as `to_arrow`."""
        return self._retried(self._count)

    def _count(self) -> int:
        if self.session is not None:
            from pktable.run.spark.errors import raised_here

            _, splits, fields = self._plan()
            with _naming_cleans_of(splits), raised_here(self._shown):
                return int(self._frame(splits, fields).count())
        narrow = self if self.columns is not None else replace(self, columns=OWN_COLUMNS[2:3])
        return sum(batch.num_rows for batch in narrow.to_batches())

    def splits(self) -> list[HudiSplit]:
        """Return the pieces of the read. Raises InvalidRequestError for a scan with a limit."""
        if self.limit is not None:
            raise InvalidRequestError("splits: a scan with a limit cannot be divided")
        return self._plan()[1]

    def lookups(self) -> list[SliceLookup]:
        """Return the lookup of each file slice of the read, without the condition. Clauses: LOG-41."""
        return [
            _lookup(split.reader, split.slice) for split in replace(self, where=None, columns=None).splits()
        ]

    def locate(self, batch: KeyBatch) -> pa.Table:
        """Return key, partition and file group of each key of ``batch`` that is there. Raises as `to_arrow`.

        With Spark the file groups of a large table are searched on the executors. Clauses: LOG-41, LOG-76.
        """
        return self._retried(lambda: self._located(batch))

    def _located(self, batch: KeyBatch) -> pa.Table:
        splits = replace(self, where=None, columns=None).splits()
        is_large = sum(split.size_bytes for split in splits) > LOCATED_BYTES
        step = -(-len(splits) // LOCATING_TASKS) or 1  # each task is sent all keys
        pieces = [partial(_places, splits[i : i + step], batch) for i in range(0, len(splits), step)]
        with _naming_cleans_of(splits):
            return Pieces(self.session if is_large else None).rows(pieces, PLACES)

    def _retried(self, work: Callable[[], Result]) -> Result:
        """Return the result of ``work``, called again if a clean deletes files that a read of the last write reads."""
        return work() if self.instant else retry(work, on=SnapshotNotFoundError, policy=RetryPolicy(ATTEMPTS))

    def explain(self) -> str:
        """Return in a few lines which instant and files the scan reads, and which of them it merges."""
        timeline, instant = self._timeline()
        splits = self._plan()[1]
        lines = [
            f"instant {instant or 'none'} of {timeline.last or 'none'}, "
            f"{'read-optimized' if self.read_optimized else 'snapshot'} read of {self.root}",
            f"condition: {self.where or 'none'}",
            f"files: {sum(len(split.paths) for split in splits)} in {len(splits)} file slices",
        ]
        for split in splits:
            base = split.slice.base.name if split.slice.base else "no base file"
            lines.append(f"  {split.partition or '.'}: {base}, {len(split.slice.logs)} log files to merge")
        return "\n".join(lines)

    def _timeline(self) -> tuple[Timeline, str]:
        """Return the timeline and the instant to read, empty if nothing was ever written."""
        timeline = load_timeline(self.store, self.root, self.settings)
        return timeline, self._instant(timeline)

    def _instant(self, timeline: Timeline) -> str:
        """Return the instant to read. Raises SnapshotNotFoundError if the timeline has no longer begun then."""
        if self.instant is not None and (not timeline.first or self.instant < timeline.first):
            retained = f"{timeline.first} to {timeline.last}" if timeline.first else "none"
            raise SnapshotNotFoundError(f"instant {self.instant}", retained)
        return self.instant or timeline.latest

    def _fields(self, timeline: Timeline) -> tuple[Field, ...]:
        until = timeline if self.instant is None else timeline.at(self.instant)
        text, at = until.schema_text()
        own = [Field(i, name, DataType("STRING")) for i, name in enumerate(OWN_COLUMNS)]
        users = [field for field in fields_of(text, at=at) if field.name not in OWN_COLUMNS]
        return (*own, *(replace(field, id=i) for i, field in enumerate(users, len(own))))

    def _plan(self) -> tuple[pa.Schema, list[HudiSplit], list[Field]]:
        timeline, groups = load_with_files(
            self.store, self.root, self.settings, lambda: file_groups(self.store, self.root, self.partitions)
        )
        instant = self._instant(timeline)
        if self.instant is not None:
            expect_retained(self.store, self.root, self.settings, instant)
        fields = self._fields(timeline)
        by_name = {field.name: field for field in fields}
        names = tuple(by_name) if self.columns is None else self.columns
        unknown = [name for name in names if name not in by_name]
        if unknown or not names or len(set(names)) < len(names):
            found = ", ".join(map(str, names)) or "none"
            raise InvalidRequestError(
                f"columns: expected some of {', '.join(by_name)}, each once, found {found}"
            )
        predicate = parse(self.where, fields) if self.where is not None else None
        reader = SliceReader(
            self.store, self.root, self.settings, timeline, instant, fields, names, predicate
        )
        slices = slices_at(
            groups,
            timeline,
            self.settings,
            instant,
            read_optimized=self.read_optimized or not self.settings.is_merge_on_read,
        )
        pinned = key_equalities(predicate, [OWN_COLUMNS[2]]) if predicate is not None else None
        if pinned and all(key for (key,) in pinned):
            batch = KeyBatch([str(key) for (key,) in pinned])
            with _naming_cleans(reader, slices):
                slices = [one for one in slices if _lookup(reader, one).may_have(batch)]
        wanted = [by_name[name] for name in names]
        schema = pa.schema([(field.name, to_arrow(field.type)) for field in wanted])
        return schema, [HudiSplit(reader, one) for one in slices], wanted


@contextmanager
def _naming_cleans(reader: SliceReader, slices: Sequence[FileSlice]) -> Iterator[None]:
    """Raise SnapshotNotFoundError for a missing file of some slices that a clean has deleted. Clauses: LOG-76."""
    try:
        yield
        return
    except CorruptFileError:
        files = {
            (one.partition, name.name) for one in slices for name in (one.base, *one.logs) if name is not None
        }
        cleaned = cleaned_error(reader.timeline, reader.instant, files)
        if cleaned is None:
            raise
    raise cleaned


@contextmanager
def _naming_cleans_of(splits: Sequence[HudiSplit]) -> Iterator[None]:
    """As `_naming_cleans`, of all splits of a read."""
    if not splits:
        yield
        return
    with _naming_cleans(splits[0].reader, [one.slice for one in splits]):
        yield


def _nullable(field: Field) -> Field:
    """Return a column that may be null, as Spark has those of files: the schema does not tell who has read it."""
    return replace(field, type=replace(field.type, nullable=True))


def _lookup(reader: SliceReader, slice_: FileSlice) -> SliceLookup:
    return SliceLookup(reader.store, reader.root, reader.settings, reader.timeline, reader.instant, slice_)


def _places(splits: Sequence[HudiSplit], batch: KeyBatch) -> Iterator[pa.Table]:
    """Yield key, partition and file group of the keys that the slices of ``splits`` have."""
    for split in splits:
        found = batch.text.take(pa.array(_lookup(split.reader, split.slice).locate(batch)))
        names = (split.slice.partition, split.slice.group)
        columns = (pa.repeat(pa.scalar(name, pa.string()), len(found)) for name in names)
        yield pa.table([found, *columns], names=[field.name for field in PLACES])


def _tables(split: HudiSplit) -> Iterator[pa.Table]:
    return split.read()
