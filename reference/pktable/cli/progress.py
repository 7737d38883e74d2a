"""Progress of long work and notes, on standard error: bars on a terminal, a line now and then elsewhere.

Nobody need read standard error: if it is closed, the work goes on. ``--quiet`` silences all but errors.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from pktable.watching import watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES: Final = 30.0
CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them. A tab and a new line are none."""

_quiet = False


def be_quiet(quiet: bool = True) -> None:
    """Show no progress, no notes and no warnings in this process from now on, or show them again."""
    global _quiet
    _quiet = quiet
    logging.getLogger("pktable").setLevel(logging.ERROR if quiet else logging.NOTSET)


def printable(text: str) -> str:
    """Return ``text`` with each character that a terminal obeys spelled out. Clauses: SAFE-4."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def tell(message: str) -> None:
    """Print a line on standard error, if anybody reads it."""
    with suppress(BrokenPipeError):
        if sys.stderr is not None:  # as it is where the process was given none
            print(printable(message), file=sys.stderr, flush=True)


def note(message: str) -> None:
    """Print a line on standard error unless ``--quiet`` was given."""
    if not _quiet:
        tell(f"pktable: {message}")


class Reporter:
    """Shows how far work has come, on standard error; to be used in a ``with``.

    On a terminal it shows a bar per kind of work, with the time that has passed and the time that is left. Elsewhere it
    prints a line every 30 seconds and one at the end.
    """

    def __init__(self) -> None:
        self._console: Console | None = None
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._unprinted = ""
        self._due = time.monotonic() + SECONDS_BETWEEN_LINES

    def __enter__(self) -> Reporter:
        if not _quiet and sys.stderr is not None and sys.stderr.isatty():
            self._console = _console()
            self._bars = _bars(self._console)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._print()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` units of ``what`` are done."""
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            self._bars.update(self._tasks[what], completed=done, total=total)
        elif not _quiet:
            self._unprinted = f"{what}: {done} of {total}"
            if time.monotonic() >= self._due:
                self._print()

    def _print(self) -> None:
        if self._unprinted:
            tell(self._unprinted)
            self._unprinted = ""
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES

    def say(self, message: str) -> None:
        """Print a line among the progress."""
        if self._console is not None:
            self._console.print(message, highlight=False, markup=False, soft_wrap=True)
        elif not _quiet:
            tell(message)


@contextmanager
def shown() -> Iterator[None]:
    """Show on a terminal how far the work of a block has come. Clauses: WH-29."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with Reporter() as reporter, watch(progress=reporter):
        yield


def _console() -> Console:
    from rich.console import Console

    class TolerantConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    return TolerantConsole(stderr=True)


def _bars(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
