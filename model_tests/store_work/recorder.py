"""A local directory that records each operation on it as a line of text, and can let others act, or fail, in between.

Lines name files by their paths in the table. What is random in a name is replaced by a number, in the order in which
names first appear, so that a record is the same on each run. Runs of a `Play` take one thread, as small work does.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pktable.store.file_info import FileInfo
from pktable.store.file_io import LocalFileIO

UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SIZE = re.compile(r"\b[1-9]\d* bytes|size_bytes=[1-9]\d*")
"""Sizes of Parquet files are those of a version of Arrow."""


class Names:
    """Gives each UUID a number."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._numbers: dict[str, int] = {}

    def spelled(self, text: str) -> str:
        """Return a text without the path of the table and sizes of files, and with numbers instead of UUIDs."""
        text = SIZE.sub("some bytes", text.replace(self._root + "/", "").replace(self._root, "the table"))
        return UUID.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        return f"<{self._numbers.setdefault(found.group(), len(self._numbers) + 1)}>"


@dataclass
class Interference:
    """What happens, once, at the operation whose line begins with ``at``: ``work`` before it, or ``then`` after it.

    ``skip``: how many such operations come before that one.
    ``fails``: whether the operation raises ``error``, "before" it is done or "after" that.
    """

    at: str
    work: Callable[[], object] | None = None
    then: Callable[[], object] | None = None
    fails: str = ""
    error: BaseException | None = None
    skip: int = 0


class Recorder(LocalFileIO):
    """A directory that records what is done on it in ``lines``; ``made``: the data files that were made.

    ``describe``: returns the lines that tell what a file holds, given its path and bytes.
    """

    def __init__(self, names: Names, describe: Callable[[str, bytes], list[str]]) -> None:
        self.lines: list[str] = []
        self.made: list[str] = []
        self.late_puts = False
        self._names, self._describe = names, describe
        self._inner = LocalFileIO()
        self._awaited: list[Interference] = []

    def expect(self, one: Interference) -> None:
        """Let something happen at an operation to come."""
        self._awaited.append(one)

    def forgotten(self) -> list[str]:
        """Return the beginnings of the operations that were waited for in vain, and wait for them no longer."""
        awaited, self._awaited = self._awaited, []
        return [one.at for one in awaited]

    def note(self, text: str) -> None:
        """Add a line."""
        self.lines.append(self._names.spelled(text))

    @contextmanager
    def _operation(self, name: str, path: str) -> Iterator[None]:
        line = self._names.spelled(f"{name} {path}")
        found = next((one for one in self._awaited if line.startswith(one.at)), None)
        if found is not None and found.skip:
            found.skip -= 1
            found = None
        elif found is not None:
            self._awaited.remove(found)
        if found is not None and found.work is not None:
            self.note("(others act)")
            found.work()
        self.note(line)
        fails = found.fails if found is not None else ""
        if fails != "before":
            yield
        if found is not None and found.then is not None:
            self.note("(others act)")
            found.then()
        if found is not None and fails:
            self.note(f"  fails {fails} it is done")
            raise found.error or OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _hold(self, path: str, data: bytes) -> None:
        for line in self._describe(path, data):
            self.note(f"  {line}")

    def read(self, path: str) -> bytes:
        found = b""
        with self._operation("read", path):
            try:
                found = self._inner.read(path)
            except FileNotFoundError:
                self.note("  none")
                raise
        return found

    def open(self, path: str) -> Any:
        with self._operation("open", path):
            return self._inner.open(path)

    def create(self, path: str) -> Any:
        with self._operation("create", path):
            self.made.append(path)
            return self._inner.create(path)

    def write(self, path: str, data: bytes) -> None:
        with self._operation("write", path):
            self._inner.write(path, data)
            self._hold(path, data)
            self.made.append(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = False
        with self._operation("put", path):
            done = self._inner.put_if_absent(path, data)
            if done:
                self._hold(path, data)
            else:
                self.note("  there is one")
        return done

    def list_names(self, directory: str) -> list[str]:
        with self._operation("list", directory):
            return sorted(self._inner.list_names(directory))
        raise AssertionError("the operation raises if it is not done")

    def list_files(self, directory: str) -> list[FileInfo]:
        with self._operation("list files of", directory):
            return sorted(self._inner.list_files(directory), key=lambda one: one.name)
        raise AssertionError("the operation raises if it is not done")

    def exists(self, path: str) -> bool:
        found = False
        with self._operation("look for", path):
            found = self._inner.exists(path)
            self.note(f"  {'there' if found else 'none'}")
        return found

    def delete(self, path: str) -> None:
        with self._operation("delete", path):
            if not self._inner.exists(path):
                self.note("  none")
            self._inner.delete(path)
