"""Stores that let others work in the middle of an operation, or whose process dies there; small tables for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import Table
from pktable.store.file_io import LocalFileIO

OPTIONS = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}


class Hooked(LocalFileIO):
    """A store that lets ``work`` do one operation whose path ends with ``end``, the first time it is asked for.

    ``work`` gets the operation, to be called where it likes, or not at all.
    """

    def __init__(
        self, name: str, end: str, work: Callable[[Callable[[], Any]], Any], *, late_puts: bool = False
    ) -> None:
        self.late_puts = late_puts
        self.done = self.dead = False

        def operation(path: str, *rest: Any) -> Any:
            if self.dead:
                raise Killed
            real = getattr(LocalFileIO, name)
            if self.done or not path.endswith(end):
                return real(self, path, *rest)
            self.done = True
            return work(lambda: real(self, path, *rest))

        setattr(self, name, operation)

    def __getattribute__(self, name: str) -> Any:
        if name in ("read", "exists", "list_names", "delete", "write", "create") and self.dead:
            raise Killed
        return super().__getattribute__(name)


class Killed(BaseException):
    """The process is gone."""


def write(table: Table, *ids: int) -> None:
    for one in ids:
        table.upsert(pa.table({"id": pa.array([one], pa.int64()), "v": [f"v{one}"]}))


def ids(path: Path) -> list[int]:
    return sorted(Table.open(path).to_arrow(fresh=True)["id"].to_pylist())


def dying(name: str, end: str, before: Callable[[], object] = lambda: None, *, does: bool = False) -> Hooked:
    """Return a store whose process dies at an operation, after ``before``; ``does``: after the operation."""

    def dies(operation: Callable[[], Any]) -> Any:
        before()
        if does:
            operation()
        store.dead = True
        raise Killed

    store = Hooked(name, end, dies)
    return store
