"""Write a large DataFrame: rows to the task of their bucket, in their order, as level-0 runs.

The order of a DataFrame is that of its partitions and of the rows in them. Every row gets its ordinal
first; after the shuffle the rows of a bucket are sorted by it, so that sequence numbers follow the
caller's order although the rows travelled. On their way columns have numbers for names: `mapInArrow` fails
where one has a dot.

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
from pyspark.sql.types import ByteType, IntegerType, LongType, StructField

from pktable.bucket.assign import assigner_of
from pktable.bucket.write import BucketAppend, split_by_bucket
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind, as_changes
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId
from pktable.run.spark.types import for_spark, spark_schema
from pktable.run.spark.wire import BLOBS, collected, result_batch
from pktable.run.spark.workers import map_batches
from pktable.store.new_files import NewFiles

KIND_GIVEN = "__pktable_row_kind"
"""The column of row kinds in a frame that was made of checked rows."""

ORDER, KIND, BUCKET = "__pktable_order", "__pktable_kind", "__pktable_bucket"


def write_frame(
    frame: DataFrame,
    context: TableContext,
    change: ChangeKind,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
) -> list[Any]:
    """Write ``frame`` on the executors; return per flush (BucketAppend, paths made) or an error of ours."""
    given, names = frame.columns, [field.name for field in context.schema.fields]
    numbered = [replace(field, name=f"c{i}") for i, field in enumerate(context.schema.fields)]
    prepared = spark_schema(numbered).add(StructField(KIND, ByteType())).add(StructField(ORDER, LongType()))
    prepared = prepared.add(StructField(BUCKET, IntegerType()))

    def prepare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = table.drop_columns([ORDER]).rename_columns(given)
            found = _prepared(rows, table.column(ORDER), context, change)
            yield from found.rename_columns(prepared.names).to_batches()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in _written(batches, context, next_sequence, now_millis):
            yield result_batch(result)

    group = [*(f"c{names.index(key)}" for key in context.schema.partition_keys), BUCKET]
    rows = frame.toDF(*(f"c{i}" for i in range(len(given)))).withColumn(
        ORDER, F.monotonically_increasing_id()
    )
    rows = map_batches(rows, prepare, prepared)
    if not context.has_unaware_buckets:
        rows = rows.repartition(*group).sortWithinPartitions(*group, ORDER)
    return collected(map_batches(rows, write, BLOBS))


def _prepared(rows: pa.Table, order: pa.ChunkedArray, context: TableContext, change: ChangeKind) -> pa.Table:
    """Return ``rows`` in the table's types with row kind, ordinal and bucket. Clauses: TBL-5, TBL-8."""
    table, kinds = as_changes(rows, context.schema, change)
    buckets = assigner_of(context).of_rows(table)
    return (
        for_spark(table)
        .append_column(KIND, pa.array(kinds))
        .append_column(ORDER, order)
        .append_column(BUCKET, pa.array(buckets, pa.int32()))
    )


def _written(
    batches: Iterator[pa.RecordBatch],
    context: TableContext,
    next_sequence: Mapping[BucketId, int],
    now_millis: int,
) -> Iterator[tuple[BucketAppend, list[str]] | PkTableError]:
    """Gather the rows of a bucket up to the size of the write buffer, write them, go on. Clauses: LSM-5."""
    new = NewFiles(token=str(uuid.uuid4()))
    numbers = dict(next_sequence)
    kind = kind_of(context.schema, context.root)
    gathered: dict[BucketId, list[pa.Table]] = {}
    size = 0

    def flush() -> Iterator[tuple[BucketAppend, list[str]]]:
        for identity, tables in gathered.items():
            place = context.place(*identity)
            table = pa.concat_tables(tables)
            first = numbers.get(identity, 0)
            numbers[identity] = first + table.num_rows
            kinds = table.column(KIND).to_numpy().astype(np.int8)
            made = len(new.paths)
            rows = table.drop_columns([KIND])
            append = kind.write(context, place, rows, kinds, first, new, now_millis=now_millis)
            yield BucketAppend(place, append.files, first), new.paths[made:]
        gathered.clear()

    schema = context.schema.arrow_schema.append(pa.field(KIND, pa.int8()))
    try:
        for batch in batches:
            table = pa.Table.from_batches([batch]).drop_columns([ORDER, BUCKET])
            table = table.rename_columns(schema.names).cast(schema)
            for partition, bucket, part in split_by_bucket(context, table):
                gathered.setdefault((partition, bucket), []).append(part)
                size += part.nbytes
            if size >= context.options.write_buffer_bytes:
                yield from flush()
                size = 0
        yield from flush()
    except PkTableError as error:
        new.remove(context.store)
        yield error
    except BaseException:
        new.remove(context.store)
        raise
