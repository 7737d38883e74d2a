"""Run actors over one store, an operation at a time, in an order that a policy chooses.

An actor is a function that uses a `Table` on its own `ActorStore`. It runs as a greenlet: before each operation it
stops, and the policy decides who goes on and how the operation ends (`Outcome`). An actor that crashes is dead: every
later operation of it raises `Killed`, so nothing that it does in ``except`` or ``finally`` has an effect.

The decisions of a run are its `Schedule`; the same schedule gives the same run.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple, Protocol
from unittest import mock

from greenlet import getcurrent, greenlet
from pktable import table, table_upkeep
from pktable.format.metadata.manifest_fields import RecordFile
from pktable.retry import RetryPolicy
from pktable.table_upkeep import ONE_DAY

from model_tests.simulation.store import ActorStore, Killed, Operation, Outcome, World

STEP_LIMIT: Final = 20_000
STEADY: Final = 20
"""After so many operations of an actor its clock may jump."""
NETWORK: Final = "network"
"""The name in schedules of the one who delivers what is late."""


class Decision(NamedTuple):
    """One step of a schedule: who goes on, and how its operation ends."""

    actor: str
    outcome: Outcome = Outcome.DO


Schedule = Sequence[Decision]


class Policy(Protocol):
    """Decides. ``waiting``: for each actor that can go on, the operation that it waits for."""

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return who goes on: one of ``waiting``, or NETWORK if ``late`` puts are under way."""
        ...


class _Greenlet(greenlet):
    """The greenlet of an actor. ``operations``: how many it has begun, and as many as effects there were before."""

    name = ""
    operations = 0


class _Actor:
    def __init__(self, name: str, work: Callable[[ActorStore], None], world: World) -> None:
        self.name, self.dead, self.has_crashed = name, False, False
        self.error: BaseException | None = None
        self.operation: Operation | None = None
        self._main = getcurrent()
        self.store = store = ActorStore(world, self._ask, name)
        trace = sys.gettrace()

        def run() -> None:
            sys.settrace(trace)  # a greenlet begins without one
            try:
                work(store)
            except BaseException as error:
                # The process of a dead actor is gone, whatever its code would still have said.
                if not self.dead:
                    self.error = error

        self.greenlet = _Greenlet(run)
        self.greenlet.name, self.greenlet.operations = name, len(world.log)

    def _ask(self, operation: Operation) -> Outcome:
        if self.dead:
            raise Killed
        self.operation = operation
        self.greenlet.operations += 1
        outcome: Outcome = self._main.switch()
        if outcome.value.startswith("crash"):
            self.dead = self.has_crashed = True
        return outcome

    def end(self) -> None:
        """Let it end, if it has not, without any effect."""
        self.dead = True
        if not self.greenlet.dead:
            self.greenlet.throw(Killed)

    def go_on(self, outcome: Outcome | None = None) -> None:
        """Let it run up to its next operation, or to its end."""
        self.operation = None
        self.greenlet.switch() if outcome is None else self.greenlet.switch(outcome)


@dataclass
class Run:
    """A run that has ended.

    ``crashed``: the names of the actors that died; ``steps``: operations on the store; ``snapshots`` and ``reads``: how
    many were compared. ``histories``: a digest of all that each actor did and saw; ``digest``: of what they left.
    """

    schedule: list[Decision]
    operations: list[Operation]
    crashed: set[str]
    faults: int
    snapshots: int = 0
    reads: int = 0
    histories: dict[str, int] = field(default_factory=dict)
    digest: tuple[int, int] = (0, 0)

    @property
    def steps(self) -> int:
        return len(self.schedule)


class SimulationError(AssertionError):
    """An actor ended with an error that it must not have, or never ended."""


def run(
    world: World, actors: dict[str, Callable[[ActorStore], None]], policy: Policy, *, jumps: bool = False
) -> Run:
    """Run all actors to their ends. Raises SimulationError, from the error of an actor. ``jumps``: of clocks."""
    done = Run([], [], set(), 0)
    with deterministic(world, jumps=jumps):
        known = {name: _Actor(name, work, world) for name, work in actors.items()}
        for one in known.values():
            one.go_on()
        try:
            _go_on(world, known, policy, done)
        finally:
            for one in known.values():
                one.end()
    done.histories = {name: one.store.history for name, one in known.items()}
    done.digest = world.digest
    done.crashed = {one.name for one in known.values() if one.has_crashed}
    return done


def _go_on(world: World, known: dict[str, _Actor], policy: Policy, done: Run) -> None:
    """Let actors go on as a policy decides, until all have ended."""
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
            done.operations.append(Operation("deliver", world.late[0].path))
            world.deliver()
            continue
        done.operations.append(waiting[decision.actor])
        last = decision.actor
        known[last].go_on(decision.outcome)
        if known[last].error is not None:
            raise SimulationError(f"{last}: {known[last].error!r}") from known[last].error


_decoded = lru_cache(4096)(RecordFile.decode)
"""Decodes once what many runs have in common."""


@contextmanager
def deterministic(world: World, caller: str = "", *, jumps: bool = False) -> Iterator[None]:
    """Give each actor, and the caller, uuids that are always the same, and wait for nothing.

    The clock of an actor counts what it does, so clocks differ; with ``jumps`` it jumps by days, to and fro. So what an
    actor does depends only on what it sees.
    """
    randoms: dict[str, Random] = {}

    def clock() -> int:
        current = getcurrent()
        if not isinstance(current, _Greenlet):
            return len(world.log)
        days = Random(f"{current.name} {current.operations // STEADY}").randint(0, 9) if jumps else 0
        return days * ONE_DAY + current.operations

    def drawn() -> uuid.UUID:
        name = getattr(getcurrent(), "name", caller)
        return uuid.UUID(int=randoms.setdefault(name, Random(name)).getrandbits(128), version=4)

    with (
        mock.patch.object(uuid, "uuid4", drawn),
        mock.patch.object(RetryPolicy, "wait", return_value=0.0),
        mock.patch.object(RecordFile, "decode", lambda *arguments: list(_decoded(*arguments))),
        mock.patch.object(table, "now_millis", clock),
        mock.patch.object(table_upkeep, "now_millis", clock),
    ):
        yield
