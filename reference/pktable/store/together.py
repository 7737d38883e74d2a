"""Requests to a store, at the same time where each waits for an answer.

A store says in ``requests_at_once`` how many may be under way; without that attribute they are made in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

from pktable.store.file_io import FileIO

Item = TypeVar("Item")
Result = TypeVar("Result")


def at_once(store: FileIO) -> int:
    """Return how many requests to ``store`` may be under way at the same time."""
    return int(getattr(store, "requests_at_once", 1))


def together(store: FileIO, calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of ``calls``, none of which needs another one.

    If some raise, the error of the first of these is raised after all have ended; where they are made in their order,
    at once.
    """
    threads = min(at_once(store), len(calls))
    if threads < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(threads) as pool:
        made = [pool.submit(call) for call in calls]
    return [one.result() for one in made]


def ahead(store: FileIO, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield what ``work`` makes of each item, made ahead for as many items as may be under way at the same time."""
    rest = iter(items)
    while batch := list(islice(rest, at_once(store))):
        yield from together(store, [partial(work, item) for item in batch])
