"""Checks that do not depend on each other, each in a process of its own, as many at a time as there are cores.

This process shows the progress of all, and the parts of one check as one.
"""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from multiprocessing.queues import Queue
from queue import Empty
from types import TracebackType
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from pktable.cli.progress import Reporter
from pktable_conform.judge.checks import DONE, by_clause

MOST_WORKERS: Final = 8
"""Some start a Spark of their own, with a gigabyte of memory."""
SECONDS_BETWEEN_LOOKS: Final = 0.5

P = ParamSpec("P")
T = TypeVar("T")


class Show(Protocol):
    """A way to show progress; `Reporter` is one."""

    def __call__(self, what: str, done: int, total: int) -> None: ...

    def say(self, message: str) -> None: ...


Line: TypeAlias = tuple[int, str, int, int]
"""The number of a part, the check that it belongs to, how much of the part is done, and the check's total."""


class Spent(NamedTuple):
    """The time that a part of the check ``what`` took, and how often it checked each clause."""

    what: str
    seconds: float
    clauses: Counter[str]


class Workers:
    """Runs checks in other processes, and shows how far they have come; to be used in a ``with``.

    The ``with`` ends when every check has. The future of a check raises the error of the check. ``seconds``: the time
    that all parts of each check took, by the name of the check and the texts among its arguments. ``clauses``: how
    often these parts checked each clause.
    """

    def __init__(self, show: Reporter) -> None:
        context = get_context("spawn")  # Spark and Arrow have threads, which a fork would not take along
        self.seconds: dict[str, float] = {}
        self.clauses: dict[str, Counter[str]] = {}
        self._lines: Queue[Line | Spent | str] = context.Queue()
        self._pool = ProcessPoolExecutor(
            min(os.cpu_count() or 1, MOST_WORKERS), context, initializer=_begin, initargs=(self._lines,)
        )
        self._show = show
        self._started: list[Future[object]] = []
        self._done: dict[str, dict[int, int]] = {}

    def start(
        self, check: Callable[Concatenate[Show, P], T], *arguments: P.args, **named: P.kwargs
    ) -> Future[T]:
        """Run ``check(show, *arguments, **named)`` as soon as a process is free."""
        future = self._pool.submit(_run, len(self._started), check, arguments, named)
        self._started.append(future)  # type: ignore[arg-type]
        return future

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        while not all(one.done() for one in self._started):
            wait(self._started, SECONDS_BETWEEN_LOOKS)
            self._show_lines()
        self._pool.shutdown()  # a process sends its last lines when it ends
        self._show_lines()

    def _show_lines(self) -> None:
        while True:
            try:
                line = self._lines.get_nowait()
            except Empty:
                return
            if isinstance(line, str):
                self._show.say(line)
                continue
            if isinstance(line, Spent):
                self.seconds[line.what] = self.seconds.get(line.what, 0.0) + line.seconds
                self.clauses.setdefault(line.what, Counter()).update(line.clauses)
                continue
            part, what, done, total = line
            parts = self._done.setdefault(what, {})
            parts[part] = done
            self._show(what, sum(parts.values()), total)


class _Relay:
    """Sends what a part of a check shows to the process that started it."""

    def __init__(self, part: int) -> None:
        self._part = part

    def __call__(self, what: str, done: int, total: int) -> None:
        _lines.put((self._part, what, done, total))

    def say(self, message: str) -> None:
        _lines.put(message)


_lines: Queue[Line | Spent | str]


def _begin(lines: Queue[Line | Spent | str]) -> None:
    global _lines
    _lines = lines
    gc.set_threshold(20_000, 20, 20)  # as in tests


def _run(part: int, check: Callable[..., T], arguments: tuple[object, ...], named: Mapping[str, object]) -> T:
    started, before = time.monotonic(), DONE.copy()
    try:
        return check(_Relay(part), *arguments, **named)
    finally:
        words = [check.__name__.replace("_", " "), *(one for one in arguments if isinstance(one, str))]
        _lines.put(Spent(" ".join(words), time.monotonic() - started, by_clause((DONE - before).items())))
