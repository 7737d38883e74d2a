"""Send the rows of a DataFrame through Python workers, in tasks that have all rows of a key.

Columns have numbers for names on their way: Spark's workers fail where one has a dot. The columns that are added keep
theirs. Rows come to a task in any order, which the number of each row undoes.

Clauses: LOG-64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pktable.format.types import Field
from pktable.run.spark.errors import raised_here
from pktable.run.spark.types import for_spark, spark_schema
from pktable.run.spark.wire import Batches
from pktable.run.spark.workers import map_batches
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

Work = Callable[[pa.Table], Iterator[pa.Table]]


def numbered(frame: DataFrame, order: str) -> DataFrame:
    """Return ``frame`` with numbers for names, and a column ``order`` of the numbers of its rows."""
    renamed = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    return renamed.withColumn(order, F.monotonically_increasing_id())


def with_added(frame: DataFrame, work: Callable[[pa.Table], pa.Table], added: Sequence[Field]) -> DataFrame:
    """Return ``frame`` with the columns ``added``, which ``work`` gives a batch of rows. Starts no job."""

    def each(batches: Batches) -> Batches:
        for batch in batches:
            yield from work(pa.Table.from_batches([batch])).to_batches()

    return map_batches(frame, each, _with(frame, added))


def by_key(
    frame: DataFrame,
    keys: Sequence[str],
    work: Work,
    added: Sequence[Field] | None,
    fields: Sequence[Field] = (),
) -> DataFrame:
    """Return what ``work`` makes of all rows of a task, to which the rows of equal ``keys`` come. Starts no job.

    Its rows have the columns of ``frame`` and ``added``, or if that is None the columns ``fields``.
    """

    def whole(batches: Batches) -> Batches:
        given = list(batches)
        if given:
            for table in work(pa.Table.from_batches(given)):
                yield from (table if added is not None else for_spark(table)).to_batches()

    schema = spark_schema(fields) if added is None else _with(frame, added)
    return map_batches(frame.repartition(*keys), whole, schema)


def _with(frame: DataFrame, added: Sequence[Field]) -> StructType:
    return StructType([*frame.schema.fields, *spark_schema(added).fields])


def totals(frame: DataFrame, by: Sequence[str], summed: str | None = None) -> list[tuple[Any, ...]]:
    """Return for each combination of the values of ``by`` these, the number of rows, and the sum of a column."""
    sums = [F.count(F.lit(1)), *([F.sum(summed)] if summed else [])]
    with raised_here():
        return [tuple(row) for row in frame.groupBy(*by).agg(*sums).collect()]
