"""Run actors over one store, an operation at a time, in an order that a policy chooses.

An actor is a function that uses a `Table` on its own `ActorStore`. It runs as a greenlet: before each operation it
stops, and the policy decides who goes on and how the operation ends (`Outcome`). An actor that crashes is dead: every
later operation of it raises `Killed`, so nothing that it does in ``except`` or ``finally`` has an effect.

The decisions of a run are its `Schedule`; the same schedule gives the same run.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple, Protocol
from unittest import mock

import pyarrow as pa
from greenlet import getcurrent, greenlet
from pktable.retry import RetryPolicy
from pktable.store.file_info import FileInfo

STEP_LIMIT: Final = 20_000
NETWORK: Final = "network"
"""The name in schedules of the one who delivers late puts."""


class Outcome(Enum):
    """How an operation ends: DO is as it should be."""

    DO = "do"
    FAIL = "fail"  # not done, and raises OSError
    LOSE = "lose"  # done, and raises OSError
    LATE = "late"  # raises OSError, and is done at some later time; of a put
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_HALF = "crash half-way"  # the file has half of its bytes; of a write


class Decision(NamedTuple):
    """One step of a schedule: who goes on, and how its operation ends."""

    actor: str
    outcome: Outcome = Outcome.DO


Schedule = Sequence[Decision]


class Killed(BaseException):
    """The actor is dead."""


class LostError(OSError):
    """The store did not answer."""


@dataclass
class Operation:
    """The operation that an actor waits for."""

    name: str
    path: str

    @property
    def is_shared(self) -> bool:
        """Whether another actor's operation can change its result, or it theirs.

        The others create or read files under names that nobody else creates, which no file has before.
        """
        return self.name in ("delete", "list_names", "exists", "put_if_absent") or any(
            f"/{directory}/" in self.path for directory in ("snapshot", "tag", "fence", "schema")
        )

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the ways it can end badly."""
        found = [Outcome.FAIL, Outcome.CRASH_BEFORE]
        if self.name in ("write", "put_if_absent", "delete", "create"):
            found += [Outcome.LOSE, Outcome.CRASH_AFTER]
        if self.name in ("write", "create"):
            found.append(Outcome.CRASH_HALF)
        if self.name == "put_if_absent":
            found.append(Outcome.LATE)
        return tuple(found)


@dataclass
class World:
    """The files by path, the puts that are still to arrive, and all that have created a file, in order.

    ``old``: the files that were there before the actors began.
    """

    files: dict[str, bytes]
    late: list[tuple[str, bytes]] = field(default_factory=list)
    puts: list[tuple[str, bytes]] = field(default_factory=list)
    old: frozenset[str] = frozenset()

    def put(self, path: str, data: bytes) -> bool:
        """Create a file if it is absent."""
        if path in self.files:
            return False
        self.files[path] = data
        self.puts.append((path, data))
        return True

    def deliver(self) -> None:
        """Let the oldest late put arrive."""
        self.put(*self.late.pop(0))


class ActorStore:
    """A `FileIO` on a world. ``ask``: called before each operation, it returns how that ends."""

    late_puts = True

    def __init__(self, world: World, ask: Callable[[Operation], Outcome]) -> None:
        self.world, self._ask = world, ask

    def read(self, path: str) -> bytes:
        data: bytes = self._do("read", path, lambda: self._bytes(path))
        return data

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def create(self, path: str) -> Any:
        return _Sink(self, path)

    def write(self, path: str, data: bytes) -> None:
        self.written("write", path, bytes(data))

    def written(self, name: str, path: str, data: bytes) -> None:
        """Replace a file, by an operation of some name."""
        files = self.world.files

        def half() -> None:
            files[path] = data[: len(data) // 2]

        self._do(name, path, lambda: files.__setitem__(path, data), half)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def late() -> None:
            self.world.late.append((path, data))

        return bool(self._do("put_if_absent", path, lambda: self.world.put(path, data), late))

    def list_names(self, directory: str) -> list[str]:
        def names() -> list[str]:
            start = directory.rstrip("/") + "/"
            below = {
                path[len(start) :].partition("/")[0] for path in self.world.files if path.startswith(start)
            }
            return sorted(below)

        found: list[str] = self._do("list_names", directory, names)
        return found

    def list_files(self, directory: str) -> list[FileInfo]:
        def files() -> list[FileInfo]:
            found = [path for path in self.world.files if path.rpartition("/")[0] == directory]
            return [
                FileInfo(
                    path.rpartition("/")[2], len(self.world.files[path]), -1 if path in self.world.old else 0
                )
                for path in sorted(found)
            ]

        listed: list[FileInfo] = self._do("list_names", directory, files)
        return listed

    def exists(self, path: str) -> bool:
        def there() -> bool:
            start = path.rstrip("/") + "/"
            return path in self.world.files or any(one.startswith(start) for one in self.world.files)

        return bool(self._do("exists", path, there))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.world.files.pop(path, None))

    def _bytes(self, path: str) -> bytes:
        try:
            return self.world.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _do(
        self, name: str, path: str, work: Callable[[], Any], partly: Callable[[], None] = lambda: None
    ) -> Any:
        outcome = self._ask(Operation(name, path))
        if outcome in (Outcome.DO, Outcome.LOSE, Outcome.CRASH_AFTER):
            result = work()
        elif outcome in (Outcome.LATE, Outcome.CRASH_HALF):
            partly()
        if outcome in (Outcome.FAIL, Outcome.LOSE, Outcome.LATE):
            raise LostError(f"{name} {path}: no answer")
        if outcome is not Outcome.DO:
            raise Killed
        return result


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


class Policy(Protocol):
    """Decides. ``waiting``: for each actor that can go on, the operation that it waits for."""

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return who goes on: one of ``waiting``, or NETWORK if ``late`` puts are under way."""
        ...


class _Actor:
    def __init__(self, name: str, work: Callable[[ActorStore], None], world: World) -> None:
        self.name, self.dead = name, False
        self.error: BaseException | None = None
        self.operation: Operation | None = None
        self._main = getcurrent()
        store = ActorStore(world, self._ask)

        def run() -> None:
            try:
                work(store)
            except BaseException as error:
                # The process of a dead actor is gone, whatever its code would still have said.
                if not self.dead:
                    self.error = error

        self.greenlet = greenlet(run)

    def _ask(self, operation: Operation) -> Outcome:
        if self.dead:
            raise Killed
        self.operation = operation
        outcome: Outcome = self._main.switch()
        if outcome.value.startswith("crash"):
            self.dead = True
        return outcome

    def go_on(self, outcome: Outcome | None = None) -> None:
        """Let it run up to its next operation, or to its end."""
        self.operation = None
        self.greenlet.switch() if outcome is None else self.greenlet.switch(outcome)


@dataclass
class Run:
    """A run that has ended.

    ``crashed``: the names of the actors that died; ``steps``: operations on the store; ``snapshots`` and ``reads``: how
    many were compared.
    """

    schedule: list[Decision]
    operations: list[Operation]
    crashed: set[str]
    faults: int
    snapshots: int = 0
    reads: int = 0

    @property
    def steps(self) -> int:
        return len(self.schedule)


class SimulationError(AssertionError):
    """An actor ended with an error that it must not have, or never ended."""


def run(
    world: World, actors: dict[str, Callable[[ActorStore], None]], policy: Policy, *, seed: int = 0
) -> Run:
    """Run all actors to their ends. Raises SimulationError, from the error of an actor."""
    done = Run([], [], set(), 0)
    with deterministic(seed):
        known = {name: _Actor(name, work, world) for name, work in actors.items()}
        for one in known.values():
            one.go_on()
        last: str | None = None
        while waiting := {
            n: one.operation for n, one in known.items() if one.operation and not one.greenlet.dead
        }:
            decision = policy.decide(last, waiting, len(world.late))
            done.schedule.append(decision)
            if len(done.schedule) > STEP_LIMIT:
                raise SimulationError(f"{', '.join(waiting)}: more than {STEP_LIMIT} operations")
            done.faults += decision.outcome is not Outcome.DO
            if decision.actor == NETWORK:
                done.operations.append(Operation("deliver", world.late[0][0]))
                world.deliver()
                continue
            done.operations.append(waiting[decision.actor])
            last = decision.actor
            known[last].go_on(decision.outcome)
            if known[last].error is not None:
                raise SimulationError(f"{last}: {known[last].error!r}") from known[last].error
    done.crashed = {one.name for one in known.values() if one.dead}
    return done


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Draw uuids from a seed, wait for nothing."""
    random = Random(seed)

    def drawn() -> uuid.UUID:
        return uuid.UUID(int=random.getrandbits(128), version=4)

    with mock.patch.object(uuid, "uuid4", drawn), mock.patch.object(RetryPolicy, "wait", return_value=0.0):
        yield
