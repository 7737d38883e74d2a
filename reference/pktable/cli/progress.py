"""Progress of long work: bars on a terminal, a line now and then elsewhere.

It stands on standard error. That nobody reads it there any more does not end the work.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES: Final = 5.0


def tell(message: str) -> None:
    """Print a line on standard error, if anybody reads it."""
    with suppress(BrokenPipeError):
        print(message, file=sys.stderr, flush=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        self.quiet = True


class Reporter:
    """Shows what is being done, on standard error; to be used in a ``with``."""

    def __init__(self) -> None:
        self._console = _Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._finished: set[str] = set()
        self._told = 0.0

    def __enter__(self) -> Reporter:
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bars = Progress(*columns, console=self._console)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say that ``done`` of ``total`` is done of ``what``."""
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            self._bars.update(self._tasks[what], completed=done, total=total)
        elif what not in self._finished and (done >= total or self._line_is_due()):
            self._told = time.monotonic()
            if done >= total:
                self._finished.add(what)
            tell(f"{what}: {done} of {total}")

    def _line_is_due(self) -> bool:
        return time.monotonic() - self._told > SECONDS_BETWEEN_LINES

    def say(self, message: str) -> None:
        """Print a line among the progress."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)
