"""The loop of ``pktable compact --follow``: compact, wait, and go on until an interrupt.

1. A round compacts what the strategy picks, and again as long as that makes snapshots.
2. The loop waits for the interval, and begins the next round.
3. A round that lost its races to other processes is repeated after the interval. So is one in which the store failed,
   but `STORE_FAILURES` of these in a row end the loop with the error of the last. A table that was altered is opened
   again. Any other error would come again, and ends the loop at once.

The first interrupt lets the running compaction finish, the second ends it on the spot.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidRequestError,
    StorageError,
)

STORE_FAILURES: Final = 5
SLICE: Final = 0.1
"""Seconds after which a wait looks whether it is to end."""


class HasId(Protocol):
    """A schema."""

    @property
    def id(self) -> int:
        """Its number."""
        ...


class Compactable(Protocol):
    """The part of a table that the loop needs."""

    @property
    def schema(self) -> HasId:
        """The schema that the table was opened with."""
        ...

    def compact(self, *, full: bool) -> int | None:
        """Compact; return the id of the snapshot made, None if there was nothing to do."""
        ...


@dataclass(slots=True)
class Followed:
    """The counts of a loop: snapshots made, rounds that lost races, rounds in which the store failed."""

    snapshots: int = 0
    lost_races: int = 0
    store_failures: int = 0


class Stop:
    """Whether the loop is to end. ``sleep`` and ``now`` (in seconds) are replaced by tests."""

    def __init__(
        self, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.asked = False
        self._sleep, self._now = sleep, now

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or soon after the loop was asked to end."""
        end = self._now() + seconds
        while not self.asked and (left := end - self._now()) > 0:
            self._sleep(min(left, SLICE))

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let the first interrupt or termination ask the loop to end; a second interrupt does what it always does."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, frame: Any) -> None:
            self.asked = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as it is in the background of some shells
                signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def follow(
    table: Compactable,
    reopened: Callable[[], Compactable],
    *,
    full: bool,
    interval: float,
    stop: Stop,
    note: Callable[[str], None],
    followed: Followed,
) -> None:
    """Compact a table until ``stop`` asks for the end, and count in ``followed`` what was done.

    ``reopened``: opens the table again. ``interval``: seconds between rounds. ``note``: takes a line of progress.
    Raises the error that ended the loop. Clauses: CMP-17, CMT-14.
    """
    failures = 0
    while not stop.asked:
        try:
            _round(table, full=full, stop=stop, note=note, followed=followed)
            failures = 0
        except CommitConflictError as error:
            followed.lost_races += 1
            note(f"{error}; compacting again in {interval:g} s")
        except (StorageError, CommitUnknownError) as error:
            followed.store_failures += 1
            failures += 1
            if failures == STORE_FAILURES:
                raise
            note(f"{error}; compacting again in {interval:g} s")
        except InvalidRequestError as error:
            again = reopened()
            if again.schema.id == table.schema.id:
                raise
            table = again
            note(f"{error}; opened it again")
            continue
        stop.wait(interval)


def _round(
    table: Compactable, *, full: bool, stop: Stop, note: Callable[[str], None], followed: Followed
) -> None:
    """Compact until there is nothing left to do."""
    while not stop.asked:
        began = time.monotonic()
        snapshot = table.compact(full=full)
        if snapshot is None:
            return
        followed.snapshots += 1
        note(f"compacted in {time.monotonic() - began:.1f} s, snapshot {snapshot}")
