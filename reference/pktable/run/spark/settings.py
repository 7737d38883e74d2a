"""Settings of the session while a DataFrame is made or runs, which are put back afterwards.

Without ANSI mode, Spark makes NULL of a division by zero and wraps a sum that overflows, where the local runner refuses
both. A classic session looks at the mode when an expression is made, so it is on while ours are. Spark Connect looks at
it when a plan runs, so the session itself must have it on.

Spark looks for more than 32 paths by a job with a task a path, which costs some milliseconds of CPU a file. The driver
needs a tenth of a millisecond, so it looks for the files of a scan, however many they are. A classic session does when
the DataFrame is made. Spark Connect does when the plan is analysed, and keeps the result for as long as its cache of
plans has room; then it looks again, by a job.

The name of a job says what is done to which table, in Spark's user interface and to its listeners. A session of Spark
Connect has no such names, and a name that the caller has set stays.

Clauses: RD-9, RD-26, WH-26.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, TypeVar

from pktable_spec.errors import InvalidRequestError
from pyspark.sql import SparkSession

from pktable.context import TableContext

ANSI: Final = "spark.sql.ansi.enabled"

_changing = RLock()


@contextmanager
def with_setting(session: SparkSession, name: str, wanted: Callable[[str], str]) -> Iterator[None]:
    """Set ``name`` inside the block. ``wanted``: returns the value, from the one that it has.

    Threads wait for each other: one would put back the value of the other.
    """
    with _changing:
        before = str(session.conf.get(name))
        value = wanted(before)
        if before == value:
            yield
            return
        session.conf.set(name, value)
        try:
            yield
        finally:
            session.conf.set(name, before)


@contextmanager
def in_ansi_mode(session: SparkSession, *, can_fail: bool) -> Iterator[None]:
    """Let the expressions that are made inside the block fail where they cannot be computed.

    ``can_fail``: whether one of them can. Raises InvalidRequestError for Spark Connect without ANSI mode.
    """
    if not can_fail:
        yield
        return
    if not hasattr(session, "sparkContext") and session.conf.get(ANSI) != "true":
        raise InvalidRequestError(
            f"session: expected {ANSI}=true for an expression that can fail, such as a sum, a quotient or a cast; "
            "set it, or use runner='local'"
        )
    with with_setting(session, ANSI, lambda _: "true"):
        yield


THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_PATHS: Final = 100_000  # that the driver looks for: some ten seconds' worth


@contextmanager
def listed_in_driver(session: SparkSession, paths: int) -> Iterator[None]:
    """Let scans of up to ``paths`` paths that are made inside the block be listed without a job."""
    wanted = min(paths, MOST_PATHS)
    with with_setting(session, THRESHOLD, lambda before: str(max(int(before), wanted))):
        yield


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
