"""A `FileIO` that keeps all files in memory: a store of another kind than any the package has."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pktable.store.file_info import FileInfo


class MemoryFileIO:
    """Files by path in a dict, shared by all who hold this object."""

    late_puts = False

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def create(self, path: str) -> Any:
        return _Sink(self, path)

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.files[path] = bytes(data)
        return True

    def list_names(self, directory: str) -> list[str]:
        below = (
            path.removeprefix(directory + "/") for path in self.files if path.startswith(directory + "/")
        )
        return sorted({name.partition("/")[0] for name in below})

    def list_files(self, directory: str) -> list[FileInfo]:
        return [
            FileInfo(path.rpartition("/")[2], len(data), 0)
            for path, data in self.files.items()
            if path.rpartition("/")[0] == directory
        ]

    def exists(self, path: str) -> bool:
        return path in self.files or bool(self.list_names(path))

    def delete(self, path: str) -> None:
        self.files.pop(path, None)


class _Sink(io.BytesIO):
    def __init__(self, store: MemoryFileIO, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            self._store.write(self._path, self.getvalue())
        super().close()
