"""A local directory on a disk that fails from some operation on: full, read-only, not permitted."""

from __future__ import annotations

import os
from typing import Any, Final

from pktable.store.file_io import LocalFileIO

CHANGING: Final = ("write", "create", "put_if_absent", "sink")
READING: Final = ("read", "open", "list_names", "exists")


class FailingStore(LocalFileIO):
    """A directory whose ``at``-th operation of those in ``named`` fails, and all after it, half-way if they write."""

    def __init__(self, number: int, named: tuple[str, ...], at: int = 0) -> None:
        self.number, self.named, self.at, self.count = number, named, at, 0

    def fails(self, name: str) -> bool:
        self.count += name in self.named
        return name in self.named and 0 < self.at <= self.count

    def expect(self, name: str, path: str) -> None:
        if self.fails(name):
            raise OSError(self.number, os.strerror(self.number), path)

    def read(self, path: str) -> bytes:
        self.expect("read", path)
        return super().read(path)

    def open(self, path: str) -> Any:
        self.expect("open", path)
        return super().open(path)

    def list_names(self, directory: str) -> list[str]:
        self.expect("list_names", directory)
        return super().list_names(directory)

    def exists(self, path: str) -> bool:
        self.expect("exists", path)
        return super().exists(path)

    def create(self, path: str) -> Any:
        self.expect("create", path)
        return Sink(super().create(path), self, path)

    def write(self, path: str, data: bytes) -> None:
        if self.fails("write"):
            super().write(path, data[: len(data) // 2])
            raise OSError(self.number, os.strerror(self.number))
        super().write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.expect("put_if_absent", path)
        return super().put_if_absent(path, data)


class Sink:
    """A file being written on a `FailingStore`."""

    def __init__(self, inner: Any, store: FailingStore, path: str) -> None:
        self.inner, self.store, self.path = inner, store, path

    def write(self, data: Any) -> Any:
        self.store.expect("sink", self.path)
        return self.inner.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
