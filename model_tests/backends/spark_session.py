"""The one Spark session of a test process."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java: what runs for some minutes is not worth the time of its second compiler and of parallel threads."""

EXPECTED_VERSION = "PKTABLE_PYSPARK"
"""A variable: the version of Spark that tests must run on, if it is set."""


@cache
def spark_session() -> SparkSession:
    """Return a session on two cores of this machine, started at the first call; needs Java 17+.

    With SPARK_REMOTE set it is that server's, and needs none. Reads that Spark's own scan can do are left to it.
    """
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):  # sessions of subprocesses obey them, too
        os.environ.setdefault(name, FOR_SHORT_RUNS)
    from pktable.run import by_size
    from pktable.run.spark import session

    by_size.SMALL_BYTES = 0  # the tables of tests are small, and what Spark makes of them is to be seen
    found = session.spark_session(cores="2")
    expected = os.environ.get(EXPECTED_VERSION, found.version)
    assert found.version == expected, f"expected Spark {expected}, found {found.version}"
    return found
