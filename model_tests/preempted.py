"""One does its work on local tables, and before some operation of its on the store another does all of its own.

This is done before the first operation, before a later one, and so on until there are no more, so no race is left to
chance. An operation that does not meet what the other has done might as well have come before it. So the other need
not come after that operation, too: what came of it would be the same. Reading the clock is an operation.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pytest
from pktable.store.file_io import LocalFileIO

LISTINGS: Final = ("list_names", "list_files")
READS: Final = ("read", "open", "exists")
CHANGES: Final = ("create", "write", "put_if_absent", "delete")

T = TypeVar("T")


def preempted(
    template: Path,
    path: Path,
    opened: Callable[[Path], T],
    one: Callable[[T], object],
    other: Callable[[T], object],
    *,
    in_listings: bool = False,
) -> Iterator[T]:
    """Yield a table after each run of ``one`` in which ``other`` came between. Each begins with a copy of a template.

    ``in_listings``: the other comes during each listing of the one instead, which may then miss what comes and goes, as
    on stores that list in pages.
    """
    point: int | None = 0
    while point is not None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(template, path)
        mine, theirs = opened(path), opened(path)
        run = _Run(point, partial(other, theirs), in_listings)
        with pytest.MonkeyPatch.context() as patched:
            run.watch(patched)
            one(mine)
        if not run.has_come:
            assert point, "nobody came between"
            return
        yield opened(path)
        point = point + 1 if in_listings else run.next_point()


class _Touched(NamedTuple):
    """What an operation sees and what it changes: files, and the names in a directory, written with a / at the end."""

    sees: frozenset[str]
    changes: frozenset[str]

    def meets(self, other: _Touched) -> bool:
        """Return whether it matters which of both operations comes first."""
        return bool(self.changes & other.sees or self.sees & other.changes)


_CLOCK: Final = _Touched(frozenset({"the clock"}), frozenset({"the clock"}))


def _touched(name: str, path: str) -> _Touched:
    """Return what an operation on the store touches that is about to be done."""
    if name in LISTINGS:
        return _Touched(frozenset({f"{path}/"}), frozenset())
    seen, changes = path, set[str]()
    if name in ("create", "write") or (name in CHANGES and os.path.exists(path) == (name == "delete")):
        changes = {path, f"{os.path.dirname(path)}/"}
        while not os.path.isdir(path := os.path.dirname(path)):
            changes |= {path, f"{os.path.dirname(path)}/"}
    return _Touched(frozenset({seen}), frozenset(changes))


class _Run:
    """The operations of the one before which the other can come, and all of the other."""

    def __init__(self, point: int, other: Callable[[], object], in_listings: bool) -> None:
        self.point, self.other, self.in_listings = point, other, in_listings
        self.has_come, self._is_inside = False, False
        self._mine: list[_Touched] = []
        self._others: list[_Touched] = []
        self._log = self._mine

    def watch(self, patched: pytest.MonkeyPatch) -> None:
        for name in ["list_names"] if self.in_listings else (*LISTINGS, *READS, *CHANGES):
            patched.setattr(LocalFileIO, name, self._watched(getattr(LocalFileIO, name), name))
        if not self.in_listings:
            read_clock = time.time_ns
            patched.setattr(time, "time_ns", lambda: self._done(lambda: _CLOCK, read_clock))

    def _watched(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def operation(store: LocalFileIO, path: str, *arguments: Any) -> Any:
            return self._done(partial(_touched, name, path), lambda: original(store, path, *arguments))

        return operation

    def _done(self, touched: Callable[[], _Touched], operation: Callable[[], Any]) -> Any:
        """Do an operation, of which others may be parts, and let the other come first if it is its turn."""
        if self._is_inside:
            return operation()
        before = None
        if self._log is self._mine and len(self._mine) == self.point and not self.has_come:
            before = operation() if self.in_listings else None
            self.has_come, self._log = True, self._others
            self.other()
            self._log = self._mine
        self._log.append(touched())
        self._is_inside = True
        try:
            found = operation()
        finally:
            self._is_inside = False
        return found if before is None else [name for name in found if name in before]

    def next_point(self) -> int | None:
        """Return before which operation of the one the other comes next; None if nothing else can come of it."""
        for point, mine in enumerate(self._mine[self.point :], self.point):
            if any(mine.meets(theirs) for theirs in self._others):
                return point + 1
        return None
