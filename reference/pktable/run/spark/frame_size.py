"""The size of a DataFrame as Spark's optimizer estimates it, without running any of it.

A scan counts as the bytes of its files, local rows as what they take, a join as the product of its sides. Nothing is
known of an RDD, and of a table without statistics: Spark then says the greatest size there is.

Clauses: TBL-22.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import DataFrame

UNKNOWN: Final = 1 << 60  # Spark's own default size, and whatever is joined with it, is at least this
STATISTICS: Final = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E\+\d+)?) (B|[KMGTPE]iB)")
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def estimated_bytes(frame: DataFrame) -> int | None:
    """Return about how many bytes the rows of ``frame`` take, None if Spark does not know. Starts no job."""
    plan = getattr(frame, "_jdf", None)
    if plan is not None:
        # EXPLAIN COST prints the same number, but plans the query another time.
        size = int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
    else:  # Spark Connect
        explained = frame.sparkSession.sql("EXPLAIN COST SELECT * FROM {rows}", rows=frame).collect()
        found = STATISTICS.search(explained[0][0])
        if found is None:
            return None
        size = int(float(found[1]) * 1024 ** UNITS.index(found[2]))
    return size if size < UNKNOWN else None
