"""The one Spark session of a test process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def spark_session() -> SparkSession:
    """Return a session on two cores of this machine, started at the first call; needs Java 17+.

    With SPARK_REMOTE set it is that server's, and needs none. Reads that Spark's own scan can do are left to it.
    """
    from pktable.run import by_size
    from pktable.run.spark import session

    by_size.SMALL_BYTES = 0  # the tables of tests are small, and what Spark makes of them is to be seen
    return session.spark_session(cores="2")
