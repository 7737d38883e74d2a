"""Write a large DataFrame: rows to the task of their bucket, in their order, as level-0 runs.

1. Each task checks the rows it has, which Spark sends it once, as Arrow, and brings them to the table's types.
2. It packs those of the same buckets together, and a shuffle brings these packets to the task of their buckets.
3. That task puts the packets in order, so that sequence numbers follow the caller's order: that of the DataFrame's
   partitions and of the rows in them. `Gathered` holds what is more than the write buffer on the worker's disk.

Columns have numbers for names on their way: Spark's workers fail where one has a dot.

Rows of an append table without buckets do not travel: each task writes those it has.

Clauses: APP-3, TBL-5, TBL-6, LSM-5, LSM-10.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import PkTableError
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from pktable.bucket.assign import BucketAssigner, WaitingRows
from pktable.bucket.moving import MovingKeys, known_places, with_places
from pktable.bucket.read import BucketRead
from pktable.context import TableContext
from pktable.format.bucket_hash import hash_rows
from pktable.ingest.changes import KIND_COLUMN, ChangeKind
from pktable.ingest.parts import in_tables
from pktable.lsm.bucket import BucketId
from pktable.run.collect import Collector, with_kinds
from pktable.run.spark import packets
from pktable.run.spark.packets import (
    DIVIDED_BYTES,
    PACKET_BYTES,
    SMALL_PACKET_BYTES,
    Division,
    Gathered,
    packed,
)
from pktable.run.spark.wire import BLOBS, Batches, blob_table, collected, result_batch, unpickled, whole_frame
from pktable.run.spark.workers import map_batches
from pktable.store.new_files import NewFiles

KIND_GIVEN = "__pktable_row_kind"
"""The column of row kinds in a frame that was made of checked rows."""

BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark has this setting from 4.1 on."""
TASKS_PER_PARTITION: Final = 4
"""More than one, so that every partition gets some."""


def write_frame(
    frame: DataFrame,
    context: TableContext,
    change: ChangeKind,
    assigner: BucketAssigner,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
) -> list[Any]:
    """Write ``frame`` on the executors; return per run (BucketAppend, paths made) or an error of ours."""
    given, most_bytes = frame.columns, context.options.write_buffer_bytes
    tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    live = assigner.live if isinstance(assigner, MovingKeys) else ()
    assigner = assigner.among(tasks)
    write = partial(_written, context, assigner, next_sequence, now_millis)

    def checked(batches: Batches) -> Iterator[pa.Table]:
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(given)
            yield with_kinds(rows, context.schema, change)

    def write_own(batches: Batches) -> Batches:
        return write(in_tables(checked(batches), DIVIDED_BYTES))

    def pack(batches: Batches) -> Batches:
        yield from _packed(checked(batches), division if by_key is None else by_key)

    def place(batches: Batches) -> Batches:
        with Gathered(most_bytes) as gathered:
            yield from _packed(_with_places(context, gathered.in_order(batches)), division)

    def write_packets(batches: Batches) -> Batches:
        with Gathered(most_bytes) as gathered:
            yield from write(gathered.in_order(batches))

    by_key: Division | None = None
    numbered = frame.toDF(*(f"c{i}" for i in range(len(given))))
    if context.has_unaware_buckets:
        return collected(map_batches(numbered, write_own, BLOBS))
    division = _division(context, assigner, frame.sparkSession, TASKS_PER_PARTITION * tasks)
    if isinstance(assigner, MovingKeys):
        by_key = _division(context, WaitingRows(context, {}, tasks), frame.sparkSession, tasks)
        known = _places(context, frame.sparkSession, live, by_key)
        moved = map_batches(numbered, pack, packets.SCHEMA).unionAll(known).repartition("task")
        moved = map_batches(moved, place, packets.SCHEMA).repartition("task")
    else:
        moved = map_batches(numbered, pack, packets.SCHEMA).repartition("task")
    return collected(map_batches(moved, write_packets, BLOBS))


def _packed(tables: Iterable[pa.Table], division: Division, first_number: int = 0) -> Batches:
    """Yield packets of ``tables``, numbered by their task of Spark's, or the error of ours that making them raised."""
    try:
        yield from packed(tables, division, first_number=first_number + (_partition() << 33))
    except PkTableError as error:
        yield packets.failure(error)


def _places(
    context: TableContext, session: SparkSession, live: Sequence[BucketRead], division: Division
) -> DataFrame:
    """Return packets of where all keys of ``live`` are, which come before those of rows. Clauses: BKT-21."""

    def read(batches: Batches) -> Batches:
        known = (table for part in unpickled(batches) for table in known_places(context, part, None))
        yield from _packed(known, division, packets.FIRST)

    parts = whole_frame(session, blob_table(list(live)), "blob binary").repartition(max(1, len(live)))
    return map_batches(parts, read, packets.SCHEMA)


def _with_places(context: TableContext, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows `with_places`. ``tables``: rows after the places of their keys. Clauses: BKT-21."""
    known: list[pa.Table] = []
    for table in tables:
        if KIND_COLUMN in table.column_names:
            yield with_places(context, table, known)
        else:
            known.append(table)


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "called by a task of Spark's"
    return int(context.partitionId())


def _division(context: TableContext, assigner: BucketAssigner, session: SparkSession, most: int) -> Division:
    """Return which tasks rows go to, ``most`` at most: those of a bucket to the same. Clauses: BKT-7, TBL-3, TBL-5."""
    # A key of several partitions is the work of one task.
    fields = context.schema.partition_fields if not context.moves_keys else ()
    tasks = most if fields else min(most, assigner.groups)

    def task_of(rows: pa.Table) -> npt.NDArray[Any]:
        groups = assigner.groups_of(rows).astype(np.int64)
        if fields:
            groups += hash_rows(
                [rows.column(field.name) for field in fields], [field.type for field in fields]
            )
        return groups % tasks

    bounded = session.conf.get(BATCH_BYTES, None) is not None
    return Division(task_of, tasks, PACKET_BYTES if bounded else SMALL_PACKET_BYTES)


def _written(
    context: TableContext,
    assigner: BucketAssigner,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
    tables: Iterable[pa.Table],
) -> Batches:
    """Write ``tables``, in order; yield (BucketAppend, paths made) as `Collector` does, or an error of ours.

    Clauses: BKT-3, LSM-5.
    """
    new = NewFiles(token=str(uuid.uuid4()))
    collector = Collector(context, assigner, next_sequence, new, now_millis)
    made = 0
    try:
        for append in collector.written(tables):
            yield result_batch((replace(append, rows=None), new.paths[made:]))
            made = len(new.paths)
    except PkTableError as error:
        new.remove(context.store)
        yield result_batch(error)
    except BaseException:
        new.remove(context.store)
        raise
