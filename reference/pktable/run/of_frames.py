"""Failures of rows that may be a Spark DataFrame, for modules that must not import Spark.

Clauses: RD-26.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pktable.ingest.sources import is_spark_frame


@contextmanager
def raised_for(rows: Any) -> Iterator[None]:
    """Turn a failure of Spark's inside the block into our error, where ``rows`` are a DataFrame that is run there."""
    if not is_spark_frame(rows):
        yield
        return
    from pktable.run.spark.errors import raised_here  # late: it brings Spark

    with raised_here():
        yield
