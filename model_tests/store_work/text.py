"""The lines of a record: operations in the order in which they were done, and what files hold.

A line that does not show all of what a file holds ends in a digest of it, which tells that the rest has changed.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from typing import Final, NamedTuple

WIDTH: Final = 118
"""The longest line of a record, without its indentation."""
LONGEST_LOOP: Final = 16
"""The most operations that are shown once with a number, if they are done several times in a row."""
CHANGES: Final = ("write", "put", "create", "delete")


class Operation(NamedTuple):
    """One operation on the store. ``verb``: its name; ``path``: its file, shortened; ``end``: what came of it."""

    verb: str
    path: str
    end: str = ""


class Line(NamedTuple):
    """What a file holds: ``head`` is shown, of ``rest`` a digest."""

    head: str
    rest: str = ""

    @property
    def full(self) -> str:
        """All of it."""
        return f"{self.head}, {self.rest}" if self.rest else self.head

    def __str__(self) -> str:
        """Return a line that fits, with a digest of all of it if it does not show all."""
        if not self.rest and len(self.head) <= WIDTH:
            return self.head
        most = WIDTH - 8
        head = self.head if len(self.head) <= most else f"{self.head[: most - 1]}…"
        return f"{head} #{digest(self.full)}"


def digest(text: str) -> str:
    """Return four characters that are others if the text is another."""
    return hashlib.sha256(text.encode()).hexdigest()[:4]


def wrapped(text: str) -> list[str]:
    """Return a text on lines that fit."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def operations(done: Sequence[Operation]) -> list[str]:
    """Return operations as lines, each of which ends with a change of the store.

    Those of one kind stand together, and what is repeated at once has a number.
    """
    lines, one = list[str](), list[Operation]()
    for operation, following in zip_longest(done, done[1:]):
        one.append(operation)
        if following is None or (operation.verb in CHANGES and following.verb not in CHANGES):
            lines += wrapped(", ".join(_looped(one)))
            one = []
    return lines


def _looped(done: Sequence[Operation]) -> Iterator[str]:
    at, plain = 0, list[Operation]()
    while at < len(done):
        times, size = max(
            ((_times(done, at, size), size) for size in range(1, LONGEST_LOOP + 1)),
            key=lambda one: ((one[0] - 1) * one[1], -one[1]),
        )
        if (times - 1) * size < 2 and (times == 1 or size == 1):
            plain.append(done[at])
            at += 1
            continue
        yield from _joined(plain)
        plain.clear()
        yield f"{times} x ({', '.join(_joined(done[at : at + size]))})"
        at += times * size
    yield from _joined(plain)


def _times(done: Sequence[Operation], at: int, size: int) -> int:
    times = 1
    if at + size >= len(done) or done[at] != done[at + size]:
        return times
    while done[at : at + size] == done[at + times * size : at + (times + 1) * size] != []:
        times += 1
    return times


def _joined(done: Iterable[Operation]) -> Iterator[str]:
    """Yield operations of one kind together, the last of which may end in some way."""
    for verb, of_verb in groupby(done, key=lambda one: one.verb):
        paths: list[str] = []
        for one in of_verb:
            paths.append(one.path)
            if one.end:
                yield f"{verb} {' '.join(spans(paths))}{one.end}".strip()
                paths = []
        if paths:
            yield f"{verb} {' '.join(spans(paths))}".strip()


def spans(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths; three and more that differ by numbers that ascend or descend by one as the first and last one."""
    runs: list[list[str]] = []
    for path in paths:
        if runs and _follows(runs[-1], path):
            runs[-1].append(path)
        else:
            runs.append([path])
    for run in runs:
        yield from run if len(run) < 3 else [f"{run[0]}..{run[-1].rpartition('-')[2]}"]


def _follows(run: Sequence[str], path: str) -> bool:
    parts = [one.rpartition("-") for one in (*run[-2:], path)]
    if len({name for name, _, _ in parts}) > 1 or not all(number.isdigit() for _, _, number in parts):
        return False
    return {int(two) - int(one) for (_, _, one), (_, _, two) in pairwise(parts)} in ({1}, {-1})
