"""Frames of pieces: each task calls functions that were pickled in the driver, and yields the tables they return.

Clauses: LOG-36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pktable.format.types import Field
from pktable.run.spark.types import for_spark, spark_schema
from pktable.run.spark.wire import Batches, blob_table, unpickled, whole_frame
from pktable.run.spark.workers import map_batches

Piece = Callable[[], Iterator[pa.Table]]


def frame_of_pieces(session: SparkSession, pieces: Sequence[Piece], fields: Sequence[Field]) -> DataFrame:
    """Return a lazy DataFrame of the rows of all ``pieces``, which pickle and yield tables of ``fields``.

    They are spread over as many tasks as there are pieces. Starts no job.
    Clauses: LOG-36.
    """
    schema = spark_schema(fields)
    if not pieces:
        return session.createDataFrame([], schema)

    def read(batches: Batches) -> Batches:
        for piece in unpickled(batches):
            for table in piece():
                yield from for_spark(table).to_batches()

    blobs = whole_frame(session, blob_table(list(pieces))).repartition(len(pieces))
    return map_batches(blobs, read, schema)
