"""Frames of pieces: each task reads pieces that were pickled in the driver, and yields the tables that come of them.

Clauses: RD-12, LOG-36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pktable.run.spark.types import for_spark
from pktable.run.spark.wire import Batches, blob_table, unpickled, whole_frame
from pktable.run.spark.workers import map_batches

Piece = TypeVar("Piece")


def frame_of_pieces(
    session: SparkSession,
    pieces: Sequence[Piece],
    read: Callable[[Piece], Iterator[pa.Table]],
    schema: StructType,
    *,
    spread: bool = False,
) -> DataFrame:
    """Return a lazy DataFrame of the rows that ``read`` yields of all ``pieces``, which pickle. Starts no job.

    ``spread``: whether each piece is a task of its own.
    """
    if not pieces:
        return session.createDataFrame([], schema)

    def read_all(batches: Batches) -> Batches:
        for piece in unpickled(batches):
            for table in read(piece):
                yield from for_spark(table).to_batches()

    blobs = whole_frame(session, blob_table(list(pieces)))
    return map_batches(blobs.repartition(len(pieces)) if spread else blobs, read_all, schema)
