"""Let Spark look for the files of a scan in the driver, however many they are.

Spark looks for more than 32 paths by a job with a task a path, which costs some milliseconds of CPU a file. The driver
needs a tenth of a millisecond. The limit is a setting of the session, which is put back afterwards.

A classic session looks for the files when the DataFrame is made. Spark Connect does when the plan is analysed, and
keeps the result for as long as its cache of plans has room; then it looks again, by a job.

Clauses: RD-9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final

from pyspark.sql import SparkSession

THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_PATHS: Final = 100_000  # that the driver looks for: some ten seconds' worth

_changing = RLock()


@contextmanager
def listed_in_driver(session: SparkSession, paths: int) -> Iterator[None]:
    """Let scans of up to ``paths`` paths that are made inside the block be listed without a job."""
    with _changing:  # two threads that put back each other's value would leave one of them
        before = session.conf.get(THRESHOLD)
        wanted = min(paths, MOST_PATHS)
        if before is None or int(before) >= wanted:
            yield
            return
        session.conf.set(THRESHOLD, str(wanted))
        try:
            yield
        finally:
            session.conf.set(THRESHOLD, before)
