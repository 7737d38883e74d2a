"""A local directory that records each operation on it, and can let others act, or fail, in between.

Files are named by their paths in the table, shortened. What is random in a name is replaced by a number, in the order
in which names first appear, so that a record is the same on each run. Runs of a `Play` take one thread, as small work
does.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from pktable.store.file_info import FileInfo
from pktable.store.file_io import LocalFileIO

from model_tests.store_work.text import Line, Operation, operations

UUID: Final = re.compile(r"(\w*-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-0\b)?")
SIZE: Final = re.compile(r"\b[1-9]\d* bytes|size_bytes=[1-9]\d*")
"""Sizes of Parquet files are those of a version of Arrow."""
OF_METADATA: Final = ("manifest-", "list-")
LONG: Final = re.compile(
    r"\.parquet\b|bucket-0/|\b(?:manifest|snapshot|index)/|\b(schema|tag|fence|changelog)/(?=\1-)"
)
"""What is left out of paths: it is the same for all names of one kind."""
OTHERS: Final = Operation("(others act)", "")


class Names:
    """Gives each UUID a number: each kind of file counts its own."""

    def __init__(self, root: str) -> None:
        self.root = f"{root}/"
        self._short: dict[str, str] = {}
        self._numbers: dict[str, dict[str, int]] = {"data": {}, "metadata": {}, "": {}}

    def spelled(self, text: str) -> str:
        """Return a text without the path of the table and sizes of files, and with numbers instead of UUIDs."""
        text = SIZE.sub("some bytes", text.replace(self.root, "").replace(self.root[:-1], "the table"))
        return UUID.sub(self._number, text)

    def short(self, path: str) -> str:
        """Return the path of a file, shortened: data files lie in bucket 0 if none is named."""
        if path not in self._short:
            self._short[path] = LONG.sub("", self.spelled(path)).replace("manifest-list-", "list-")
        return self._short[path]

    def _number(self, found: re.Match[str]) -> str:
        prefix, name = found.groups()
        kind = "" if prefix is None else "metadata" if prefix in OF_METADATA else "data"
        numbers = self._numbers[kind]
        number = numbers.setdefault(name, len(numbers) + 1)
        return f"{prefix or 'user-'}{number}"


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


NOTHING: Final = Interference("")
T = TypeVar("T")


class Recorder(LocalFileIO):
    """A directory that records what is done on it.

    ``done``: the operations since the last step. ``held``: lines that tell what the files hold that were written.
    ``made``: the paths of these files. ``describe``: returns such lines, given the path and the bytes of a file.
    """

    describe: Callable[[str, bytes], list[Line]]

    def __init__(self, names: Names) -> None:
        self.done: list[Operation] = []
        self.held: list[Line] = []
        self.made: list[str] = []
        self.late_puts = False
        self.names = names
        self._inner = LocalFileIO()
        self._awaited: list[Interference] = []

    def expect(self, one: Interference) -> None:
        """Let something happen at an operation to come."""
        self._awaited.append(one)

    def ended(self) -> tuple[list[str], list[Line]]:
        """Return the operations of a step, with those that were waited for in vain, and what was written."""
        vain = [Operation("no operation:", one.at) for one in self._awaited]
        found = operations([*self.done, *vain]), self.held
        self.done, self.held, self._awaited = [], [], []
        return found

    def forget(self) -> None:
        """Leave out of the record what was done since the last step."""
        self.done, self.held, self.made = [], [], []

    def _do(self, verb: str, path: str, work: Callable[[], T]) -> T:
        name = f"{verb} {path.removeprefix(self.names.root)}"
        found = next((one for one in self._awaited if name.startswith(one.at)), NOTHING)
        if found.skip:
            found.skip -= 1
            found = NOTHING
        elif found is not NOTHING:
            self._awaited.remove(found)
        self._let_act(found.work)
        self.done.append(Operation(verb, self.names.short(path)))
        try:
            result = None if found.fails == "before" else work()
            if found.fails != "before" and verb in ("create", "write"):
                self.made.append(path)
        except FileNotFoundError:
            self._note("none")
            raise
        self._let_act(found.then)
        if found.fails:
            self._note(f"fails {found.fails} it is done")
            raise found.error or OSError(errno.EIO, os.strerror(errno.EIO), path)
        return cast("T", result)

    def _let_act(self, work: Callable[[], object] | None) -> None:
        if work is not None:
            self.done.append(OTHERS)
            work()

    def _note(self, how: str) -> None:
        """Tell how the last operation ended."""
        last = self.done[-1]
        self.done[-1] = last._replace(end=f"{last.end}: {self.names.spelled(how)}")

    def _hold(self, path: str, data: bytes) -> None:
        if data.isascii() and data[:1].isalnum() and data.decode().isprintable():
            self._note(data.decode())  # a hint, or who removes a file
        else:
            self.held += self.describe(path, data)

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self._inner.read(path))

    def open(self, path: str) -> Any:
        return self._do("open", path, lambda: self._inner.open(path))

    def create(self, path: str) -> Any:
        return self._do("create", path, lambda: self._inner.create(path))

    def write(self, path: str, data: bytes) -> None:
        def work() -> None:
            self._inner.write(path, data)
            self._hold(path, data)

        self._do("write", path, work)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def work() -> bool:
            if done := self._inner.put_if_absent(path, data):
                self._hold(path, data)
            else:
                self._note("there is one")
            return done

        return self._do("put", path, work)

    def list_names(self, directory: str) -> list[str]:
        return self._do("list", directory, lambda: sorted(self._inner.list_names(directory)))

    def list_files(self, directory: str) -> list[FileInfo]:
        found = self._do("list files of", directory, lambda: self._inner.list_files(directory))
        return sorted(found, key=attrgetter("name"))

    def exists(self, path: str) -> bool:
        found = self._do("look for", path, lambda: self._inner.exists(path))
        self._note("there" if found else "none")
        return found

    def delete(self, path: str) -> None:
        def work() -> None:
            if not self._inner.exists(path):
                self._note("none")
            self._inner.delete(path)

        self._do("delete", path, work)
