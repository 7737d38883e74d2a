"""A store whose process dies at an operation, and one that lets others work between two operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pktable.store.file_io import LocalFileIO

CHANGES = ("write", "put_if_absent", "delete")
BEFORE, TORN, AFTER = "before", "torn", "after"


class Killed(BaseException):
    """The process is gone."""


class DyingStore(LocalFileIO):
    """Dies at the change ``number``, from 0 on: before it, after it, or in the middle of a write."""

    def __init__(self, number: int, how: str = BEFORE) -> None:
        self.number, self.how, self.changes = number, how, 0
        self.dead = False

    def _counted(self, work: Callable[[], Any], torn: Callable[[], Any] = lambda: None) -> Any:
        if self.dead:
            raise Killed
        here, self.changes = self.changes, self.changes + 1
        if here != self.number:
            return work()
        self.dead = True
        {BEFORE: lambda: None, TORN: torn, AFTER: work}[self.how]()
        raise Killed

    def write(self, path: str, data: bytes) -> None:
        store = LocalFileIO()
        self._counted(lambda: store.write(path, data), lambda: store.write(path, data[: len(data) // 2]))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        put: bool = self._counted(lambda: LocalFileIO().put_if_absent(path, data))
        return put

    def delete(self, path: str) -> None:
        self._counted(lambda: LocalFileIO().delete(path))


class InterruptedStore(LocalFileIO):
    """Lets ``others`` work before the operation ``number``, of those that read and those that change."""

    def __init__(self, number: int, others: Callable[[], object]) -> None:
        self.number, self.others, self.operations = number, others, 0

    def _operation(self) -> None:
        here, self.operations = self.operations, self.operations + 1
        if here == self.number:
            self.others()

    def read(self, path: str) -> bytes:
        self._operation()
        return super().read(path)

    def list_names(self, directory: str) -> list[str]:
        self._operation()
        return super().list_names(directory)

    def write(self, path: str, data: bytes) -> None:
        self._operation()
        super().write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._operation()
        return super().put_if_absent(path, data)

    def delete(self, path: str) -> None:
        self._operation()
        super().delete(path)
