"""The most recently used values under names that never change their meaning.

A name must say everything that the value depends on: what may be replaced under the same name (a snapshot
after a rollback) needs more than its id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Value = TypeVar("Value")


class Cache:
    """Holds up to ``entries`` values; safe to use from several threads."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, name: Hashable, load: Callable[[], Value]) -> Value:
        """Return the value under ``name``, loaded if it is not there. An exception of ``load`` is not cached."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
                found: Value = self._values[name]
                return found
        value = load()
        self.put(name, value)
        return value

    def put(self, name: Hashable, value: object) -> None:
        """Remember ``value``, and forget the one that was used longest ago if there are too many."""
        with self._lock:
            self._values[name] = value
            while len(self._values) > self._entries:
                self._values.popitem(last=False)
