"""What crosses between driver and executors besides rows: pickled pieces of work there, pickled results back.

Clauses: RD-11.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from pktable.run.spark.errors import raised_here

BLOBS = "blob binary"
"""The schema of a frame of pickled values, one a row."""

Batches = Iterator[pa.RecordBatch]


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
