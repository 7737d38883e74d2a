"""All ways to interleave a few jobs with few preemptions, without those that change nothing.

An actor is preempted before one of its operations, and goes on when the one that went instead has ended or is preempted
itself. Two things keep the number of runs small, and leave out no behaviour:

* To preempt an actor before an operation changes nothing unless the other one then does an operation that conflicts
  with it: the preemption may as well come later. What the other one would do is known from a run that preempted the
  first one earlier, unless the operations between the two places conflict with it.
* What is still to come depends on the files, on what each actor has seen, on who goes on and on how many preemptions
  are left. A run that comes to a state in which an earlier run was ends there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from model_tests.simulation.explore import BadRun, Jobs
from model_tests.simulation.scenario import Scenario
from model_tests.simulation.scheduler import Decision, Run
from model_tests.simulation.store import Operation, World
from model_tests.simulation.tables import USUAL, Setting

Switches = tuple[tuple[int, str], ...]


class _NothingNewError(Exception):
    """What would follow has been seen."""


@dataclass
class Step:
    """An operation that an actor did, ``others``: that could have gone on instead, if anything were to be preempted."""

    actor: str
    operation: Operation
    others: tuple[str, ...]


@dataclass
class Preempted:
    """A policy that runs actors to their ends, but for some preemptions.

    ``switches``: pairs of the number of a step and the actor that does it instead, ascending. ``seen``: the states that
    other runs were in, each with the preemptions that were left.
    """

    world: World
    first: str
    switches: Switches
    left: int
    seen: dict[Hashable, int]
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stack, self._by_number = [self.first], dict(self.switches)
        self._last = self.switches[-1][0] if self.switches else -1
        self._delayed: tuple[str, Operation] | None = (
            None  # who went instead, and what they must conflict with
        )

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step. Raises _NothingNewError."""
        number = len(self.steps)
        if self._delayed and self._delayed[0] not in waiting:
            raise _NothingNewError
        current = self._current(waiting)
        if number in self._by_number:
            self._delayed = self._by_number[number], waiting[current]
            current = self._by_number[number]
            self._stack.append(current)
        elif number > self._last:
            self._expect_new(current, waiting)
        operation = waiting[current]
        # It keeps running until it has done the operation that it was resumed for.
        others = () if self._delayed else tuple(name for name in waiting if name != current)
        if self._delayed and operation.conflicts(self._delayed[1]):
            self._delayed = None
        self.steps.append(Step(current, operation, others))
        return Decision(current)

    def _current(self, waiting: dict[str, Operation]) -> str:
        while self._stack and self._stack[-1] not in waiting:
            self._stack.pop()
        if not self._stack:
            self._stack.append(min(waiting))
        return self._stack[-1]

    def _expect_new(self, current: str, waiting: dict[str, Operation]) -> None:
        histories = tuple((name, waiting[name].history) for name in sorted(waiting))
        delayed = self._delayed and (self._delayed[0], self._delayed[1].name, self._delayed[1].path)
        state = (self.world.digest, histories, tuple(self._stack), delayed)
        if self.seen.get(state, -1) >= self.left:
            raise _NothingNewError
        self.seen[state] = self.left


@dataclass
class _Future:
    """What ``actor`` would do if it went on now, up to its end."""

    actor: str
    operations: list[Operation]

    def conflicts(self, operation: Operation) -> bool:
        return any(one.conflicts(operation) for one in self.operations)


@dataclass
class Interleavings:
    """The runs of some jobs with at most ``limit`` preemptions. ``cut``: how many were left before their end."""

    jobs: Jobs
    limit: int
    setting: Setting = USUAL
    cut: int = 0

    def __iter__(self) -> Iterator[Run | BadRun]:
        """Yield the runs that came to their end."""
        seen: dict[Hashable, int] = {}
        for first in self.jobs:
            policies: list[Preempted] = []
            yield from self._attempt(first, (), seen, policies)
            yield from self._below(policies[0], seen)

    def _attempt(
        self, first: str, switches: Switches, seen: dict[Hashable, int], policies: list[Preempted]
    ) -> Iterator[Run | BadRun]:
        scenario = Scenario(self.jobs, self.setting)
        policy = Preempted(scenario.world, first, switches, self.limit - len(switches), seen)
        policies.append(policy)
        try:
            yield scenario.run(policy)
        except _NothingNewError:
            self.cut += 1
        except Exception as error:
            schedule = [Decision(one.actor) for one in policy.steps]
            yield BadRun(self.jobs, self.setting, schedule, f"{type(error).__name__}: {error}")

    def _below(self, parent: Preempted, seen: dict[Hashable, int]) -> Iterator[Run | BadRun]:
        """Yield the runs with the preemptions of ``parent`` and more."""
        if not parent.left:
            return
        start = parent.switches[-1][0] + 1 if parent.switches else 1
        futures: dict[str, _Future] = {}
        for number in range(start, len(parent.steps)):
            before, step = parent.steps[number - 1], parent.steps[number]
            for name, future in list(futures.items()):
                if before.actor == name or future.conflicts(before.operation):
                    del futures[name]
            for other in step.others:
                if other in futures and not futures[other].conflicts(step.operation):
                    continue
                policies: list[Preempted] = []
                switches = (*parent.switches, (number, other))
                yield from self._attempt(parent.first, switches, seen, policies)
                child = policies[0]
                found = _future(child.steps[number:], other)
                if found is not None:
                    futures[other] = found
                if found is None or found.conflicts(step.operation):
                    yield from self._below(child, seen)


def _future(steps: list[Step], actor: str) -> _Future | None:
    """Return what an actor did first, if it came to its end."""
    operations: list[Operation] = []
    for step in steps:
        if step.actor != actor:
            return _Future(actor, operations)
        operations.append(step.operation)
    return None


def with_preemptions(jobs: Jobs, limit: int, setting: Setting = USUAL) -> Interleavings:
    """Return the runs of some jobs with at most ``limit`` preemptions."""
    return Interleavings(jobs, limit, setting)
