"""The stream reader: first the rows of a snapshot, then what changes.

An offset says up to which snapshot the stream has read. Ids are used again after a rollback, so the offset also holds
the name of the snapshot's delta manifest list, which no other snapshot has. It also holds the number of the fence that
its writer knew, which shows a rollback even after the snapshot has expired. The time at which the table was made shows
another table in its place.

A batch is a function of its two offsets and the options. So Spark, which keeps the offsets, can ask for it again. The
first batch begins at `NOTHING`; where it begins in the table is for the option ``scan.mode`` to say:

* latest-full: the rows at its end, which are those that all changes up to there fold to.
* latest: nothing; its end is where the changes begin. In a table without snapshots that is snapshot 0.
* from-snapshot: the changes of that snapshot and of those after it. from-snapshot-full: its rows, then the changes.
* from-timestamp: the changes after that time.

All batches are read under one schema, that of the DataFrame's columns, also if the table is altered meanwhile.

A stream that would miss changes fails, unless ``failOnDataLoss`` is false: then what is not known is left out. After a
rollback it goes on with what came after the snapshot that stayed, and in another table with the first snapshot.

A stream begins with the rows that all changes up to a snapshot fold to. Without a producer, and with ``input``, the
changes are the rows as they were written, so a fresh read gives them. Otherwise rows whose changes the producer has
still to record come as changes later, and are left out.

Clauses: CHG-11, CHG-12, CHG-13, CHG-26, CHG-27, CHG-28, CHG-29, CHG-39.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyspark
from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError
from pktable_spec.vocabulary import OVERWRITE
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pktable.bucket.changelog import ROW_KIND
from pktable.bucket.read import BucketRead
from pktable.catalog.as_of import AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.change_plan import ChangeRange, snapshots_between
from pktable.catalog.read_plan import plan_read
from pktable.catalog.schemas import expect_table_of
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.snapshot import Snapshot
from pktable.kinds import kind_of
from pktable.predicate import Predicate, parse
from pktable.scan import Split
from pktable.spark_source import options as names
from pktable.spark_source.options import Options
from pktable.spark_source.pieces import change_partitions, columns_of, left_out, row_partitions, spark_batches

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow

    HAS_LIMITS = True
except ImportError:  # before pyspark 4.2
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Not there: Spark then takes all that is there for one batch, which is as good without a limit."""


Offset: TypeAlias = dict[str, Any]
NOTHING: Final[Offset] = {"snapshot": None}
"""The offset before the first batch."""
ANEW: Final = (
    "start the stream again with a new checkpoint, or set failOnDataLoss=false to leave out what is lost"
)

logger = logging.getLogger("pktable")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows of a snapshot, then its changes, batch by batch."""

    def __init__(self, options: Options, schema: StructType, given: TableSchema | None = None) -> None:
        """``given``: see `columns_of`.

        Raises InvalidRequestError for unfit options, rows whose kind would be lost, or changes that are not known.

        Clauses: CHG-29.
        """
        self._options, self._schema, self._given = options, schema, given
        self._mode, self._where = options.mode, options.text("filter")
        self._fails = options.flag("failOnDataLoss", True)
        self._most = options.number("maxSnapshotsPerTrigger", 1)
        self._time = options.number("scan.timestamp-millis", 0)
        self._target: Snapshot | None = None
        if self._most is not None and not HAS_LIMITS:
            raise InvalidRequestError(
                f"option maxSnapshotsPerTrigger: expected pyspark 4.2 or later, found {pyspark.__version__}; "
                "leave it out"
            )
        context = self._catalog.context
        engine, orders = context.options.merge_engine, context.options.sequence_fields
        computes = engine != "deduplicate" or orders
        has_keys = kind_of(context.schema, context.root).has_keys
        if has_keys and computes and context.options.changelog_producer == "none":
            found = f"merge-engine {engine}" if engine != "deduplicate" else "a sequence.field"
            raise InvalidRequestError(
                "readStream: only the option changelog-producer tells what the rows of this table become, which has "
                f"{found}; set lookup or full-compaction, or input for the rows as they were written"
            )
        if ROW_KIND not in schema.names and has_keys:
            raise InvalidRequestError(
                f"readStream: a table with a primary key has changes of several kinds, and the column {ROW_KIND} says "
                'which; set option("read.changelog", "true")'
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_catalog"}

    @cached_property
    def _catalog(self) -> Catalog:
        return self._options.open_table().catalog

    @cached_property
    def _schema_id(self) -> int:
        """The schema to read under: that of `PkTableSource.schema`, or the latest if the user names other columns.

        It is the same for as long as the query runs. Raises InvalidRequestError, CorruptFileError.
        Clauses: CHG-39, TBL-60.
        """
        if self._given is not None:
            expect_table_of(self._catalog.context, self._given)
            return self._given.id
        context = self._options.context(self._catalog)
        try:
            columns_of(self._schema, context)
        except InvalidRequestError:
            return self._catalog.context.schema.id
        return context.schema.id

    # Offsets

    def initialOffset(self) -> Offset:  # noqa: N802
        return NOTHING

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a batch; its files stand for snapshots, of which Spark knows nothing."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the stream end at the snapshot that is the latest now."""
        self._target = self._catalog.snapshots.latest()

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Return the end of the next batch; ``start`` if there is nothing to read.

        Before pyspark 4.2, Spark gives neither argument. Raises SnapshotNotFoundError.
        """
        latest = self._target or self._catalog.snapshots.latest()
        if latest is None and self._mode == names.LATEST and start in (None, NOTHING):
            return {"snapshot": 0, "table": self._made}
        after = self._begin if start in (None, NOTHING) else self._after(start)
        if latest is None or (start in (None, NOTHING) and self._waits(latest)):
            return start or NOTHING
        most = getattr(limit, "max_files", None)
        if most is None or start is None:
            return self._offset_of(latest)
        if after is None or after + most >= latest.id:
            return self._offset_of(latest)
        return self._offset_of(self._limited(after + most, latest))

    def _offset_of(self, snapshot: Snapshot) -> Offset:
        """Return the offset of a stream that has read up to ``snapshot``."""
        return {
            "snapshot": snapshot.id,
            "manifests": snapshot.delta_manifest_list,
            "fence": snapshot.fence,
            "table": self._made,
        }

    @property
    def _made(self) -> int:
        schemas = self._catalog.context.schemas
        return schemas[min(schemas)].time_millis

    def _waits(self, latest: Snapshot) -> bool:
        """Whether the snapshot is still to come with which the options say that the stream begins."""
        if self._time is not None:
            return latest.time_millis <= self._time
        return self._begin is not None and latest.id < self._begin

    def _limited(self, id: int, latest: Snapshot) -> Snapshot:
        """Return the snapshot of an id; the oldest one after it if it has expired and that may be."""
        try:
            return self._between(ChangeRange(id - 1, id))[0]
        except SnapshotNotFoundError:
            if self._fails:
                raise
        return next((one for one in self._catalog.snapshots.retained() if one.id > id), latest)

    @cached_property
    def _begin(self) -> int | None:
        """The id of the snapshot after which the first batch reads changes, None if it reads no changes.

        Raises SnapshotNotFoundError for a time before the retained snapshots.
        """
        wanted, snapshots = self._options.number("scan.snapshot-id", 1), self._catalog.snapshots
        if wanted is not None:
            return wanted if self._mode == names.FROM_SNAPSHOT_FULL else wanted - 1
        if self._time is None:
            return None
        try:
            return snapshots.as_of(self._time).id
        except SnapshotNotFoundError:
            if snapshots.ids()[:1] in ([], [1]):  # nothing has expired
                return 0
            raise

    # Batches

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan the batch from ``start`` to ``end``.

        Raises SnapshotNotFoundError if a snapshot that it needs has expired, InvalidRequestError if one was rolled back
        or is an OVERWRITE. Clauses: CHG-26, CHG-27, CHG-28.
        """
        after = None if start == NOTHING else self._after(start)
        if not end["snapshot"] or (start == NOTHING and self._mode == names.LATEST):
            return []
        if after is not None:
            return self._changes(after, end)
        if self._mode == names.LATEST_FULL:
            return self._rows(end["snapshot"], end)
        assert self._begin is not None
        rows = self._rows(self._begin, None) if self._mode == names.FROM_SNAPSHOT_FULL else []
        return rows + self._changes(self._begin, end)

    def _rows(self, id: int, end: Offset | None) -> list[InputPartition]:
        """Plan a read of the rows of a snapshot, which is that of ``end``. Clauses: CHG-26, CHG-39."""
        if not self._fails:
            id, end = self._known_rows(id, end), None
        if not id:
            return []

        def work(state: TableState, _: TableContext) -> list[InputPartition]:
            assert state.snapshot is not None
            context = self._catalog.under(self._schema_id, state.snapshot.schema_id)
            if end is not None:
                _expect_same(state.snapshot, end)
            predicate = parse(self._where, context.schema.fields) if self._where is not None else None
            columns = columns_of(self._schema, context)
            parts = plan_start(context, self._catalog.states, state, predicate)
            return row_partitions(Split(context, part, columns, predicate, state.snapshot) for part in parts)

        return self._catalog.read_as_of(AsOf(snapshot=id), work)

    def _changes(self, after: int, end: Offset) -> list[InputPartition]:
        """Plan a read of the changes after a snapshot up to ``end``. Clauses: CHG-27, CHG-39."""
        wanted = ChangeRange(after, end["snapshot"])
        if self._fails:
            found = self._between(wanted)
            if found:
                _expect_same(found[-1], end)
            overwrite = next((one for one in found if one.commit_kind == OVERWRITE), None)
            if overwrite is not None:
                raise InvalidRequestError(
                    f"{wanted}: snapshot {overwrite.id} is an OVERWRITE, whose changes nobody recorded; {ANEW}"
                )
        else:
            found = [] if self._lost_since(end) else self._known(wanted)
        return change_partitions(
            *(self._catalog, found, self._schema, self._where, wanted),
            complete=self._fails,
            schema_id=self._schema_id,
        )

    def _between(self, wanted: ChangeRange) -> list[Snapshot]:
        return snapshots_between(self._catalog.context, self._catalog.snapshots, wanted)

    def _known(self, wanted: ChangeRange) -> list[Snapshot]:
        """Return the snapshots of a range whose changes are known, and say which are left out."""
        found = []
        for id in range(wanted.start + 1, wanted.end + 1):
            with left_out():
                [one] = self._between(ChangeRange(id - 1, id))
                if one.commit_kind == OVERWRITE:
                    logger.warning("snapshot %s is an OVERWRITE, whose changes nobody recorded", id)
                else:
                    found.append(one)
        return found

    def _known_rows(self, id: int, end: Offset | None) -> int:
        """Return the id of the snapshot whose rows come first if those of ``id`` are lost, 0 if there is none."""
        lost = self._lost_since(end) if end is not None else None
        if lost is not None:
            logger.warning("%s", lost[1])
            id = lost[0]
        earliest = next(iter(self._catalog.snapshots.ids()), 0)
        if 0 < id < earliest:
            logger.warning(
                "snapshot %s has expired; the stream begins with the rows of snapshot %s", id, earliest
            )
            return earliest
        return id

    def _after(self, start: Offset) -> int:
        """Return the id after which changes are read. Raises InvalidRequestError if the stream would miss some.

        Clauses: CHG-27.
        """
        lost = self._lost_since(start)
        if lost is None:
            return int(start["snapshot"])
        known, error = lost
        if self._fails:
            raise error
        logger.warning("%s; it goes on after snapshot %s", error, known)
        return known

    def _lost_since(self, read: Offset) -> tuple[int, InvalidRequestError] | None:
        """Return None if the table has what a stream has read up to ``read``, though it may have expired since.

        Otherwise return the id up to which it has it, and what to say. Clauses: CHG-27.
        """
        snapshots, id = self._catalog.snapshots, read["snapshot"]
        if read.get("table", self._made) != self._made:
            return 0, InvalidRequestError(
                f"readStream: another table has taken the place of the one that the stream has read; {ANEW}"
            )
        if not id:
            return None
        latest, fence = snapshots.latest(), snapshots.fences.newest()
        if latest is None:
            return 0, _rolled_back(id, "")
        # What a rollback needs to know of a snapshot, which may have expired, is in the offset.
        seen = replace(latest, id=id, delta_manifest_list=read["manifests"], fence=read["fence"])
        now = ""
        if latest.id >= id:
            try:
                if snapshots.read(id).delta_manifest_list == read["manifests"]:
                    return None
                now = "; another has its id now"
            except SnapshotNotFoundError:
                if not snapshots.fences.is_rolled_back(fence, seen):
                    return None
        retained = [] if now else [one.id for one in snapshots.retained()]
        if retained:
            now = f"; retained: {retained[0]} to {retained[-1]}"
        unknown = fence.rolled_back(seen)
        stayed = (one.target for one in fence.rollbacks if one.fence in unknown)
        return min([id, *stayed]), _rolled_back(id, now)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as `Table.changes` has them. Raises SnapshotNotFoundError."""
        return spark_batches(partition.value, self._schema)


def _expect_same(snapshot: Snapshot, offset: Offset) -> None:
    """Raise InvalidRequestError unless ``snapshot`` is the one that the stream has seen under its id."""
    if snapshot.delta_manifest_list != offset["manifests"]:
        raise _rolled_back(snapshot.id, "; another has its id now")


def _rolled_back(id: int, now: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"readStream: snapshot {id}, up to which the stream has read, was rolled back{now}; {ANEW}"
    )


def plan_start(
    context: TableContext, states: StateLoader, state: TableState, predicate: Predicate | None
) -> list[BucketRead]:
    """Return the parts of a read of the rows that all changes up to ``state`` fold to. Raises as `plan_read`.

    Clauses: CHG-9, CHG-26.
    """
    options = context.options
    fresh = options.changelog_producer in ("none", "input")
    if not fresh and not options.deletion_vectors_enabled:
        # Without vectors every read merges all it is given.
        least = 1 if options.changelog_producer == "lookup" else options.max_level
        files = {
            bucket_id: tuple(file for file in live if file.level >= least)
            for bucket_id, live in state.files.items()
        }
        state = replace(state, files=files)
    return plan_read(context, states, state, fresh=fresh, predicate=predicate)
