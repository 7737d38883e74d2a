"""Fewer waits for a store: requests at the same time, and values that are remembered.

A store says in ``requests_at_once`` how many may be under way; without that attribute they are made in their order.

A `Cache` has the most recently used values under names that never change their meaning. A name must say everything
that the value depends on: what may be replaced under the same name (a snapshot after a rollback) needs more than its
id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

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


Value = TypeVar("Value")


class Cache:
    """Holds values of a total weight of up to ``most``; each weighs 1 unless the caller says otherwise.

    Safe to use from several threads.
    """

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(
        self, name: Hashable, load: Callable[[], Value], weigh: Callable[[Value], int] = lambda _: 1
    ) -> Value:
        """Return the value under ``name``, loaded if it is not there. An exception of ``load`` is not cached."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
                found: Value = self._values[name][0]
                return found
        value = load()
        self.put(name, value, weigh(value))
        return value

    def find(self, name: Hashable) -> Any:
        """Return the value under ``name``, None if it is not there."""
        with self._lock:
            return self._values.get(name, (None, 0))[0]

    def put(self, name: Hashable, value: object, weight: int = 1) -> None:
        """Remember ``value``, and forget those that were used longest ago if all weigh too much together."""
        with self._lock:
            _, before = self._values.pop(name, (None, 0))
            self._values[name] = value, weight
            self._weight += weight - before
            while self._weight > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._weight -= gone
