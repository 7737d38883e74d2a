"""A store that counts: which files are read whole, and which bytes of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pktable.store.file_io import LocalFileIO


@dataclass
class Reads:
    """``whole``: the names of files that were read whole. ``parts``: (name, offset, bytes) of reads of other files."""

    whole: list[str] = field(default_factory=list)
    parts: list[tuple[str, int, int]] = field(default_factory=list)

    def clear(self) -> None:
        self.whole.clear()
        self.parts.clear()

    @property
    def log_parts(self) -> list[tuple[str, int, int]]:
        return [one for one in self.parts if ".log." in one[0]]

    @property
    def whole_logs(self) -> list[str]:
        return [one for one in self.whole if ".log." in one]


class CountedFile:
    """An open file that counts its reads."""

    def __init__(self, file: Any, name: str, reads: Reads) -> None:
        self._file, self._name, self._reads = file, name, reads

    def read(self, count: int = -1) -> Any:
        offset = self._file.tell()
        data = self._file.read() if count < 0 else self._file.read(count)
        self._reads.parts.append((self._name, offset, len(data)))
        return data

    def readinto(self, target: Any) -> int:
        offset = self._file.tell()
        count = int(self._file.readinto(target))
        self._reads.parts.append((self._name, offset, count))
        return count

    def read_buffer(self, count: int) -> Any:
        offset = self._file.tell()
        data = self._file.read_buffer(count)
        self._reads.parts.append((self._name, offset, data.size))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


class CountedStore(LocalFileIO):
    """A local store that counts."""

    def __init__(self) -> None:
        self.reads = Reads()

    def read(self, path: str) -> bytes:
        self.reads.whole.append(Path(path).name)
        return super().read(path)

    def open(self, path: str) -> Any:
        return CountedFile(super().open(path), Path(path).name, self.reads)
