"""Base files of Hudi's tables as Spark's own Parquet scan.

Clauses: LOG-36.
"""

from __future__ import annotations

from collections.abc import Sequence

from pktable.format.types import Field
from pktable.predicate import Predicate
from pktable.run.spark.native_scan import scan_files
from pktable.run.spark.relations import renewed
from pktable.run.spark.session import in_ansi_mode, listed_in_driver
from pktable.run.spark.types import read_schema
from pyspark.sql import DataFrame, SparkSession


def frame_of_base_files(
    session: SparkSession,
    paths: Sequence[str],
    needed: Sequence[Field],
    columns: Sequence[str],
    predicate: Predicate | None,
) -> DataFrame:
    """Return ``columns`` of the rows of Parquet files that satisfy ``predicate``. Starts no job.

    ``needed``: the columns and those of the condition.
    """
    can_fail = predicate is not None and not predicate.never_fails
    with listed_in_driver(session, len(paths)), in_ansi_mode(session, can_fail=can_fail):
        rows = scan_files(session, paths, read_schema(needed))
        rows = rows if predicate is None else rows.where(predicate.text)
        rows = rows.selectExpr(*renewed(columns))
        if not hasattr(session, "sparkContext"):
            rows.schema  # noqa: B018 - lets Spark Connect look for the files now
    return rows
