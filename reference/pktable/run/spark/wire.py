"""The wire between driver and executors: Arrow tables and pickled pieces of work there, pickled results back.

A frame of pieces gives tables back: each task reads pieces that were pickled in the driver.

Clauses: LOG-36, RD-11, RD-12, TBL-6.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pktable.format.arrow_values import with_masked
from pktable.format.types import parse_columns, to_arrow
from pktable.run.spark.errors import raised_here
from pktable.run.spark.session import with_setting
from pktable.run.spark.types import flag_fields, spark_schema, whole_times, with_flags
from pktable.run.spark.workers import map_batches

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BLOBS = "blob binary"
"""The schema of a frame of pickled values, one a row."""

Batches = Iterator[pa.RecordBatch]


def whole_frame(session: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return ``table`` as a DataFrame, every row of it, in order.

    ``schema``: None for the one that Spark takes from the table. Spark gets one chunk, because it silently loses
    rows of several: those after an empty chunk (without Connect, up to 4.3), those after the first (Connect 4.0.0).
    Where the session asks for batches without a limit, Spark fails here, so they get its default. Clauses: TBL-6.
    """
    whole = with_masked(table).combine_chunks()
    if not hasattr(session, "sparkContext"):  # Connect does not ask that setting
        return session.createDataFrame(whole, schema)
    with with_setting(session, BATCH_ROWS, lambda rows: rows if int(rows) > 0 else "10000"):
        return session.createDataFrame(whole, schema)


def frame_of_rows(session: SparkSession, columns: str, rows: Iterable[tuple[object, ...]]) -> DataFrame:
    """Return a few ``rows`` as a DataFrame. ``columns``: with their types, as in CREATE TABLE.

    Spark keeps what comes as Arrow in its plan, and runs no job to collect it; rows of Python would take one.
    """
    fields = parse_columns(columns)
    values = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, to_arrow(field.type)) for field, column in zip(fields, values, strict=True)]
    table = pa.table(arrays, names=[field.name for field in fields])
    return whole_frame(session, table, spark_schema(fields))


def blob_table(values: list[Any]) -> pa.Table:
    """Return ``values`` pickled, as a table of `BLOBS`."""
    return pa.table({"blob": pa.array([pickle.dumps(value) for value in values], pa.binary())})


def result_batch(result: object) -> pa.RecordBatch:
    """Return one result as a batch of `BLOBS`."""
    (batch,) = blob_table([result]).to_batches()
    return batch


def unpickled(batches: Batches) -> Iterator[Any]:
    """Yield the values of batches of `BLOBS`."""
    for batch in batches:
        for blob in batch.column(0).to_pylist():
            yield pickle.loads(blob)


def collected(frame: DataFrame) -> list[Any]:
    """Run the job of a frame of `BLOBS` and return its values. Raises the error of ours that made it fail."""
    with raised_here():
        return [pickle.loads(row.blob) for row in frame.collect()]


Piece = TypeVar("Piece")


def frame_of_pieces(
    session: SparkSession,
    pieces: Sequence[Piece],
    read: Callable[[Piece], Iterator[pa.Table]],
    schema: StructType,
    *,
    fine: Sequence[str] = (),
    spread: bool = False,
) -> DataFrame:
    """Return a lazy DataFrame of the rows that ``read`` yields of all ``pieces``, which pickle. Starts no job.

    ``fine``: the columns that may hold times finer than Spark's. ``spread``: whether each piece is a task of its own.
    """
    if not pieces:
        return session.createDataFrame([], schema)

    def read_all(batches: Batches) -> Batches:
        for piece in unpickled(batches):
            for table in read(piece):
                yield from with_flags(table, fine).to_batches()

    blobs = whole_frame(session, blob_table(list(pieces)))
    flagged = StructType([*schema.fields, *flag_fields(fine)])
    frame = map_batches(blobs.repartition(len(pieces)) if spread else blobs, read_all, flagged)
    return whole_times(frame, fine)
