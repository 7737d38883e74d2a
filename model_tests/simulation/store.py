"""A store in memory whose every operation asks how it ends, and keeps who made what.

Some operations can arrive late: a put or a delete takes effect after its caller got a timeout and went on.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from operator import methodcaller
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pktable.format.paths import SNAPSHOT
from pktable.store.file_info import FileInfo

OLD, YOUNG = -1, 0  # times of files, for the limit of orphans
BRANCHES, CONSUMERS = "/branch/", "/consumer/"
AT_ONCE: Final = "at once"
"""The name of an operation that changes any files of a directory."""
COMMON: Final = ("snapshot", "tag", "fence", "schema", "consumer", "changelog")
"""Directories of files that several actors create or remove."""
CHANGES: Final = ("write", "create", "put_if_absent", "delete", AT_ONCE)
"""The names of operations that change the store."""


class Outcome(Enum):
    """How an operation ends: DO is as it should be."""

    DO = "do"
    FAIL = "fail"  # not done, and raises OSError
    LOSE = "lose"  # done, and raises OSError
    LATE = "late"  # raises OSError, and is done at some later time
    INTERRUPT_BEFORE = "interrupt before"  # not done, and raises KeyboardInterrupt; the actor lives on
    INTERRUPT_AFTER = "interrupt after"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_HALF = "crash half-way"  # the file has half of its bytes; of a write


class Killed(BaseException):
    """The actor is dead."""


class LostError(OSError):
    """The store did not answer."""


@dataclass
class Operation:
    """The operation that an actor waits for.

    ``history``: a digest of all that the actor has done and seen before; ``works``: how much work it had begun.
    ``again``: does the same on another store.
    """

    name: str
    path: str
    history: int = field(default=0, compare=False)
    works: int = field(default=0, compare=False)
    again: Callable[[ActorStore], object] = field(default=lambda _: None, compare=False, repr=False)

    @property
    def is_shared(self) -> bool:
        """Whether it is about files that several actors make, or removes one. A pause before it is worth a try."""
        several = is_common(self.path) or BRANCHES in self.path
        return self.name in ("delete", AT_ONCE, "list_names", "exists", "put_if_absent") or several

    def conflicts(self, other: Operation) -> bool:
        """Return whether it matters which of both, of two actors, comes first."""
        if self.name in CHANGES:
            return self.path == other.path or other.covers(self.path) or self.covers(other.path)
        return other.name in CHANGES and other.conflicts(self)

    def covers(self, path: str) -> bool:
        """Return whether it sees or changes files below a directory, ``path`` among them."""
        return self.name in ("list_names", "exists", AT_ONCE) and path.startswith(f"{self.path}/")

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the ways it can end badly."""
        found = [Outcome.FAIL, Outcome.CRASH_BEFORE, Outcome.INTERRUPT_BEFORE]
        if self.name in CHANGES:
            found += [Outcome.LOSE, Outcome.CRASH_AFTER, Outcome.INTERRUPT_AFTER]
        if self.name in ("write", "create"):
            found.append(Outcome.CRASH_HALF)
        if self.name in ("put_if_absent", "delete"):
            found.append(Outcome.LATE)
        return tuple(found)


@dataclass(eq=False)
class Work:
    """One operation of a table, which is many on the store. ``late``: how many of these are still to arrive.

    ``is_over``: whether it has returned, or its actor has died. ``has_failed``: whether one of its operations on the
    store has ended badly. ``looked``: how many effects there were when it looked at the consumers last, or began.
    ``older_than``: the limit of an expiry, if it has one.
    """

    kind: str
    is_over: bool = False
    has_failed: bool = False
    late: int = 0
    looked: int = 0
    older_than: int | None = None

    @property
    def is_old(self) -> bool:
        """Whether its files are older than any limit for orphans. The limit is longer than any work takes."""
        return self.is_over and not self.late


BEFORE: Final = Work("before the actors began", is_over=True)


class Effect(NamedTuple):
    """A file that was put where none was, or, ``data`` None, that was deleted. ``by``: the work that did it.

    A consumer is written over, and so is a snapshot of a branch that others make.
    """

    path: str
    data: bytes | None
    by: Work


@dataclass(frozen=True)
class Happened:
    """An operation that ended. ``actor``: "" if it arrived late. ``result``: None if it failed, or found no file.

    ``effect``: the file of a snapshot, tag or fence that it put or removed.
    """

    actor: str
    work: Work
    name: str
    path: str
    outcome: Outcome
    result: Any
    effect: Effect | None


@dataclass
class World:
    """The files by path, what is still to arrive, and all effects in the directories of `is_common`.

    ``makers``: the work that made a file; ``ever``: all files that there ever were; ``halves``: those of which half is
    there. What is late is a put, or a delete without data. ``digest``: of the files and the log. ``happened``: called
    with each operation, see `recording`.
    """

    files: dict[str, bytes]
    late: list[Effect] = field(default_factory=list)
    log: list[Effect] = field(default_factory=list)
    makers: dict[str, Work] = field(default_factory=dict)
    ever: dict[str, bytes] = field(default_factory=dict)
    halves: set[str] = field(default_factory=set)
    happened: Callable[[Happened], None] | None = None
    _files_digest: int = 0
    _log_digest: int = 0

    @property
    def digest(self) -> tuple[int, int]:
        return self._files_digest, self._log_digest

    def put(self, path: str, data: bytes, by: Work) -> bool:
        """Create a file if it is absent."""
        if path in self.files:
            return False
        self._put(path, data, by)
        self._note(Effect(path, data, by))
        return True

    def write(self, path: str, data: bytes, by: Work) -> None:
        """Create or replace a file."""
        self._put(path, data, by)
        if (f"/{SNAPSHOT}" if BRANCHES in path else CONSUMERS) in path:
            self._note(Effect(path, data, by))

    def _put(self, path: str, data: bytes, by: Work) -> None:
        if path in self.files:
            self._files_digest ^= hash((path, self.files[path]))
        self._files_digest ^= hash((path, data))
        self.files[path] = self.ever[path] = data
        self.makers[path] = by
        self.halves.discard(path)

    def write_half(self, path: str, data: bytes, by: Work) -> None:
        """Create or replace a file with half of its bytes."""
        self.write(path, data[: len(data) // 2], by)
        self.halves.add(path)

    def delete(self, path: str, by: Work) -> None:
        """Remove a file, if it is there."""
        data = self.files.pop(path, None)
        if data is None:
            return
        self._files_digest ^= hash((path, data))
        self.halves.discard(path)
        if is_common(path):
            self._note(Effect(path, None, by))

    def _note(self, effect: Effect) -> None:
        self.log.append(effect)
        self._log_digest = hash((self._log_digest, effect.path, effect.data))

    def maker(self, path: str) -> Work:
        """Return the work that made a file."""
        return self.makers.get(path, BEFORE)

    def deliver(self) -> None:
        """Let the oldest late operation arrive."""
        path, data, by = self.late.pop(0)
        by.late -= 1
        before = len(self.log)
        if data is None:
            self.delete(path, by)
        else:
            self.put(path, data, by)
        if self.happened is not None:
            self.happened(Happened("", by, "deliver", path, Outcome.DO, None, self.newest(before)))

    def newest(self, before: int) -> Effect | None:
        """Return the last effect, None if there were as many ``before``."""
        return self.log[-1] if len(self.log) > before else None


def is_common(path: str) -> bool:
    """Whether several actors may create or remove a file of this path, of the main branch."""
    return BRANCHES not in path and any(f"/{directory}/" in path for directory in COMMON)


class ActorStore:
    """A `FileIO` on a world. ``ask``: called before each operation, it returns how that ends.

    ``actor``: whose it is; ``work``: on whose behalf it acts now. ``history``: a digest of what it was asked and has
    answered.
    """

    late_puts = True

    def __init__(
        self, world: World, ask: Callable[[Operation], Outcome] = lambda _: Outcome.DO, actor: str = ""
    ) -> None:
        self.world, self._ask, self.work, self.actor = world, ask, BEFORE, actor
        self.history = self.works = 0

    @contextmanager
    def working(self, kind: str) -> Iterator[None]:
        """Act for new work while the context lasts."""
        self.work = Work(kind, looked=len(self.world.log))
        self.works += 1
        try:
            yield
        finally:
            self.work.is_over = True

    def read(self, path: str) -> bytes:
        data: bytes = self._do("read", path, lambda: self._bytes(path), methodcaller("read", path))
        return data

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def create(self, path: str) -> Any:
        return _Sink(self, path)

    def write(self, path: str, data: bytes) -> None:
        self.written("write", path, bytes(data))

    def written(self, name: str, path: str, data: bytes) -> None:
        """Replace a file, by an operation of some name."""
        world, work = self.world, self.work
        again = methodcaller("written", name, path, data)
        self._do(
            name,
            path,
            lambda: world.write(path, data, work),
            again,
            lambda: world.write_half(path, data, work),
        )

    def put_if_absent(self, path: str, data: bytes) -> bool:
        put = lambda: self.world.put(path, data, self.work)  # noqa: E731
        again = methodcaller("put_if_absent", path, data)
        return bool(self._do("put_if_absent", path, put, again, lambda: self._later(path, data)))

    def _later(self, path: str, data: bytes | None) -> None:
        self.work.late += 1
        self.world.late.append(Effect(path, data, self.work))

    def list_names(self, directory: str) -> list[str]:
        def names() -> list[str]:
            start = directory.rstrip("/") + "/"
            below = {
                path[len(start) :].partition("/")[0] for path in self.world.files if path.startswith(start)
            }
            return sorted(below)

        found: list[str] = self._do("list_names", directory, names, methodcaller("list_names", directory))
        if f"{directory}/".endswith(CONSUMERS) and BRANCHES not in directory and self.work is not BEFORE:
            self.work.looked = len(self.world.log)
        return found

    def list_files(self, directory: str) -> list[FileInfo]:
        def files() -> list[FileInfo]:
            found = [path for path in self.world.files if path.rpartition("/")[0] == directory]
            return [
                FileInfo(path.rpartition("/")[2], len(self.world.files[path]), self._modified(path))
                for path in sorted(found)
            ]

        listed: list[FileInfo] = self._do(
            "list_names", directory, files, methodcaller("list_files", directory)
        )
        return listed

    def _modified(self, path: str) -> int:
        return OLD if self.world.maker(path).is_old else YOUNG

    def exists(self, path: str) -> bool:
        def there() -> bool:
            start = path.rstrip("/") + "/"
            return path in self.world.files or any(one.startswith(start) for one in self.world.files)

        return bool(self._do("exists", path, there, methodcaller("exists", path)))

    def delete(self, path: str) -> None:
        delete = lambda: self.world.delete(path, self.work)  # noqa: E731
        self._do("delete", path, delete, methodcaller("delete", path), lambda: self._later(path, None))

    def at_once(self, directory: str, work: Callable[[World, Work], None]) -> None:
        """Do ``work`` on the files of a directory as one operation, which nobody else comes between."""
        again = methodcaller("at_once", directory, work)
        self._do(AT_ONCE, directory, lambda: work(self.world, self.work), again)

    def _bytes(self, path: str) -> bytes:
        try:
            return self.world.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _do(
        self,
        name: str,
        path: str,
        work: Callable[[], Any],
        again: Callable[[ActorStore], object],
        partly: Callable[[], None] = lambda: None,
    ) -> Any:
        result: Any = None
        outcome = self._ask(Operation(name, path, self.history, self.works, again))
        before = len(self.world.log)
        try:
            if outcome in (Outcome.DO, Outcome.LOSE, Outcome.CRASH_AFTER, Outcome.INTERRUPT_AFTER):
                result = work()
            elif outcome in (Outcome.LATE, Outcome.CRASH_HALF):
                partly()
        finally:
            seen = tuple(result) if isinstance(result, list) else result
            self.history = hash((self.history, name, path, outcome, seen))
            if self.world.happened is not None:
                effect = self.world.newest(before)
                self.world.happened(Happened(self.actor, self.work, name, path, outcome, result, effect))
        if outcome is Outcome.DO:
            return result
        self.work.has_failed = True
        if outcome in (Outcome.FAIL, Outcome.LOSE, Outcome.LATE):
            raise LostError(f"{name} {path}: no answer")
        if outcome in (Outcome.INTERRUPT_BEFORE, Outcome.INTERRUPT_AFTER):
            raise KeyboardInterrupt
        self.work.is_over = True
        raise Killed


class _Sink(io.BytesIO):
    """A new file, which is there when it is closed."""

    def __init__(self, store: ActorStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.written("create", self._path, data)
