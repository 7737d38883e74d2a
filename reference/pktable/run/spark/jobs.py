"""Names for Spark's jobs: each says what is done to which table, in Spark's user interface and to its listeners.

A session of Spark Connect has no such names, and a name that the caller has set stays.

Clauses: WH-26.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from pyspark.sql import SparkSession

from pktable.context import TableContext

DESCRIPTION: Final = "spark.job.description"
Method = TypeVar("Method", bound=Callable[..., Any])


@contextmanager
def described(session: SparkSession, what: str, context: TableContext) -> Iterator[None]:
    """Name the jobs that this thread starts in it after ``what``, which is done to a table. Clauses: WH-26."""
    spark = getattr(session, "sparkContext", None)
    if spark is None or spark.getLocalProperty(DESCRIPTION) is not None:
        yield
        return
    spark.setLocalProperty(DESCRIPTION, f"pktable: {what} {context.root}")
    try:
        yield
    finally:
        spark.setLocalProperty(DESCRIPTION, None)


def names_jobs(what: str) -> Callable[[Method], Method]:
    """Return a decorator for a method of a runner, whose jobs do ``what`` to a table. Clauses: WH-26."""

    def decorated(method: Method) -> Method:
        @functools.wraps(method)
        def run(self: Any, context: TableContext, *args: Any, **kwargs: Any) -> Any:
            with described(self.session, what, context):
                return method(self, context, *args, **kwargs)

        found: Any = run
        return found  # type: ignore[no-any-return]

    return decorated
