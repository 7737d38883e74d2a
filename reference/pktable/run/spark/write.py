"""Write a large DataFrame: rows to the task of their bucket, in their order, as level-0 runs.

1. Every row gets its ordinal, and the number of its bucket, for which only its key is sent to a Python worker.
2. A shuffle brings the rows of a bucket to one task, in any order.
3. The task takes them over once, as Arrow, converts them, and sorts them by their ordinals, so that sequence numbers
   follow the caller's order: that of the DataFrame's partitions and of the rows in them. `Gathered` holds what is more
   than the write buffer in files on the worker's disk.

Columns have numbers for names on their way: Spark's workers fail where one has a dot. Sessions older than 4.1 cannot
send some columns only: there the first step sends whole rows to Python.

Rows of an append table without buckets do not travel: each task writes those it has.

Clauses: APP-3, TBL-5, TBL-6, LSM-5, LSM-10.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pktable_spec.errors import PkTableError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from pktable.bucket.assign import assigner_of
from pktable.bucket.write import BucketAppend, split_by_bucket
from pktable.context import TableContext
from pktable.format.bucket_hash import hash_rows
from pktable.ingest.changes import ChangeKind, as_changes, conform_key_columns
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId
from pktable.run.spark.gathered import Gathered
from pktable.run.spark.wire import BLOBS, collected, result_batch
from pktable.run.spark.workers import HAS_ARROW_COLUMNS, arrow_column, map_batches
from pktable.store.new_files import NewFiles

KIND_GIVEN = "__pktable_row_kind"
"""The column of row kinds in a frame that was made of checked rows."""

ORDER, KIND, TASK = "__pktable_order", "__pktable_kind", "__pktable_task"


def write_frame(
    frame: DataFrame,
    context: TableContext,
    change: ChangeKind,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
) -> list[Any]:
    """Write ``frame`` on the executors; return per run (BucketAppend, paths made) or an error of ours."""
    given = frame.columns

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in _written(batches, given, context, change, next_sequence, now_millis):
            yield result_batch(result)

    numbered = frame.toDF(*(f"c{i}" for i in range(len(given))))
    rows = numbered.withColumn(ORDER, F.monotonically_increasing_id())
    if not context.has_unaware_buckets:
        rows = _placed(rows, given, context).repartition(TASK).drop(TASK)
    return collected(map_batches(rows, write, BLOBS))


def _placed(frame: DataFrame, given: list[str], context: TableContext) -> DataFrame:
    """Return ``frame`` with a number that all rows of a bucket share. Clauses: TBL-5."""
    schema = context.schema
    deciding = schema.primary_keys or (*assigner_of(context).columns, *schema.partition_keys)
    keys = [name for name in given if name in deciding]
    columns = [f"c{given.index(name)}" for name in keys]

    def task(*values: pa.Array) -> pa.Array:
        return pa.array(_tasks(pa.table(list(values), names=keys), context))

    if HAS_ARROW_COLUMNS:
        return arrow_column(frame, TASK, task, "bigint", columns)

    def with_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            tasks = task(*(batch.column(name) for name in columns))
            yield pa.RecordBatch.from_arrays([*batch.columns, tasks], names=[*batch.schema.names, TASK])

    fields = [*frame.schema.fields, StructField(TASK, LongType())]
    return map_batches(frame, with_tasks, StructType(fields))


def _tasks(keys: pa.Table, context: TableContext) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a number for each row of n key values, equal where bucket and partition are. Clauses: TBL-3, TBL-5."""
    rows = conform_key_columns(keys, context.schema)
    buckets: np.ndarray[Any, np.dtype[np.int64]] = assigner_of(context).of_rows(rows).astype(np.int64)
    fields = context.schema.partition_fields
    if fields:
        columns = [rows.column(field.name) for field in fields]
        buckets |= hash_rows(columns, [field.type for field in fields]).astype(np.int64) << 32
    return buckets


def _written(
    batches: Iterator[pa.RecordBatch],
    given: list[str],
    context: TableContext,
    change: ChangeKind,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
) -> Iterator[tuple[BucketAppend, list[str]] | PkTableError]:
    """Gather the rows of the task, and write them in runs of the size of the write buffer. Clauses: LSM-5."""
    new = NewFiles(token=str(uuid.uuid4()))
    numbers = dict(next_sequence)
    kind = kind_of(context.schema, context.root)
    try:
        with Gathered(ORDER, context.options.write_buffer_bytes) as gathered:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                order = table.column(ORDER)
                rows, kinds = as_changes(
                    table.drop_columns([ORDER]).rename_columns(given), context.schema, change
                )
                gathered.add(rows.append_column(KIND, pa.array(kinds)).append_column(ORDER, order))
            for table in gathered.in_order():
                for partition, bucket, part in split_by_bucket(context, table):
                    place = context.place(partition, bucket)
                    first = numbers.get((partition, bucket), 0)
                    numbers[partition, bucket] = first + part.num_rows
                    kinds = part.column(KIND).to_numpy().astype(np.int8)
                    made = len(new.paths)
                    part = part.drop_columns([KIND])
                    append = kind.write(context, place, part, kinds, first, new, now_millis=now_millis)
                    yield replace(append, rows=None), new.paths[made:]
    except PkTableError as error:
        new.remove(context.store)
        yield error
    except BaseException:
        new.remove(context.store)
        raise
