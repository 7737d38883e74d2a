"""Make a session on this machine find what it needs, whatever environment it was started in.

Spark looks for workers and data sources with the first python3 on PATH. Where an environment is not activated, this is
another interpreter, without numpy and pktable.

Clauses: WH-17.
"""

from __future__ import annotations

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pktable.run.spark.workers import run_this_interpreter

ALREADY_FOUND: Final = "DATA_SOURCE_ALREADY_EXISTS"


def make_at_home(spark: SparkSession) -> None:
    """Let ``spark`` run this interpreter, and know ``format("pktable")``; a session elsewhere stays as it is.

    Clauses: WH-17.
    """
    if run_this_interpreter(spark):
        from pktable.spark_source.data_source import PkTableSource  # late: it is for those who use it

        try:
            spark.dataSource.register(PkTableSource)
        except AnalysisException as error:
            if (
                error.getCondition() != ALREADY_FOUND
            ):  # pyspark 4.0 registers no source that it has found by itself
                raise
