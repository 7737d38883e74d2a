"""Watch work from outside: how far it has come, and what was done in which time.

Who watches says so for a block of code (`watch`), in the thread that works. The work reports to whoever watches, and
costs nothing where nobody does.

Clauses: WH-29, WH-30.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pktable_spec.errors import InvalidRequestError

Progress = Callable[[str, int, int], None]
"""Takes what is done, how many units of it are done, and how many there are."""
Method = TypeVar("Method", bound=Callable[..., Any])
LOG: Final = logging.getLogger("pktable")


@dataclass(frozen=True, slots=True)
class Measured:
    """An operation on a table that has ended: its name, the table's path, and how long it took.

    ``result``: what it returned, such as a `Result` with an effect; None if it failed. ``error``: what it raised.
    """

    operation: str
    table: str
    seconds: float
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Watch:
    progress: Progress | None
    metrics: Callable[[Measured], None] | None
    is_inside: bool = False


NOBODY: Final = _Watch(None, None)
_watch: ContextVar[_Watch] = ContextVar("pktable_watch", default=NOBODY)


@contextmanager
def watch(
    *, progress: Progress | None = None, metrics: Callable[[Measured], None] | None = None
) -> Iterator[None]:
    """Report the work of this thread on tables to ``progress`` and ``metrics``, as long as the block lasts.

    * ``progress(what, done, total)``: whenever a piece of work has ended; ``total`` is 0 where it is not known. What it
      raises ends the work. Nothing of that is committed, but the rows may be whose compaction it ends
      (CompactionFailedError).
    * ``metrics(measured)``: whenever an operation has ended, well or not, as a `Measured`. What it raises is logged.

    Raises InvalidRequestError if one of them cannot be called. Clauses: WH-29, WH-30.
    """
    for name, given in (("progress", progress), ("metrics", metrics)):
        if given is not None and not callable(given):
            raise InvalidRequestError(f"{name}: expected a function, found {type(given).__name__}")
    token = _watch.set(_Watch(progress, metrics))
    try:
        yield
    finally:
        _watch.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Tell who watches this thread that ``done`` of ``total`` units of ``what`` are done. Clauses: WH-29."""
    progress = _watch.get().progress
    if progress is not None:
        progress(what, done, total)


class Counted:
    """Counts the pieces of some work, and reports each as it ends. Clauses: WH-29."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0

    def ended(self) -> None:
        """Report one more piece that has ended."""
        self._done += 1
        report(self._what, self._done, self._total)


def _root(of: Any) -> str:
    return str(of.catalog.context.root)


def measured(operation: str, root: Callable[[Any], str] = _root) -> Callable[[Method], Method]:
    """Return a decorator for an operation on a table, whose time and result are reported. Clauses: WH-30.

    One that another one calls is part of it. ``root``: says which table the object works on.
    """

    def decorated(method: Method) -> Method:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            watching = _watch.get()
            if watching.metrics is None or watching.is_inside:
                return method(self, *args, **kwargs)
            token = _watch.set(_Watch(watching.progress, watching.metrics, is_inside=True))
            begun = time.perf_counter()
            result, error = None, None
            try:
                result = method(self, *args, **kwargs)
            except BaseException as raised:
                error = raised
                raise
            finally:
                _watch.reset(token)
                seconds = time.perf_counter() - begun
                _measure(watching.metrics, Measured(operation, root(self), seconds, result, error))
            return result

        found: Any = run
        return found  # type: ignore[no-any-return]

    return decorated


def _measure(metrics: Callable[[Measured], None], found: Measured) -> None:
    try:
        metrics(found)
    except Exception:
        LOG.warning("metrics: what was to record %s has failed", found.operation, exc_info=True)
