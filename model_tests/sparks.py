"""The one Spark session of a test process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def spark_session() -> SparkSession:
    """Return a session on two cores of this machine, started at the first call. Needs Java 17+."""
    from pktable.spark.session import local_session

    return local_session(cores="2")
