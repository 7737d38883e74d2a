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
from typing import Final

from pyspark.sql import SparkSession

from pktable.run.spark.settings import with_setting

THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_PATHS: Final = 100_000  # that the driver looks for: some ten seconds' worth


@contextmanager
def listed_in_driver(session: SparkSession, paths: int) -> Iterator[None]:
    """Let scans of up to ``paths`` paths that are made inside the block be listed without a job."""
    wanted = min(paths, MOST_PATHS)
    with with_setting(session, THRESHOLD, lambda before: str(max(int(before), wanted))):
        yield
