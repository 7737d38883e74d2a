"""Settings of the session while a DataFrame is made, which are put back afterwards.

Without ANSI mode, Spark makes NULL of a division by zero and wraps a sum that overflows, where the local runner refuses
both. A classic session looks at the mode when an expression is made, so it is on while ours are. Spark Connect looks at
it when a plan runs, so the session itself must have it on.

Clauses: RD-9, RD-26.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final

from pktable_spec.errors import InvalidRequestError
from pyspark.sql import SparkSession

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
