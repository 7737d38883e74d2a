"""All ways to interleave a few jobs with few preemptions.

An actor is preempted before one of its operations, and goes on when the one that went instead has ended or is preempted
itself. There are many such runs, and most of them need not be done:

* What an actor does next depends only on what it has done and seen. If an earlier run had an actor that had done and
  seen the same, its next operation is known, and the answer is computed on a copy of the store. The real code runs
  where an actor has seen something new, and once for each end that the actors can come to, which is checked.
* What is still to come depends on the files, on what each actor has seen, on who goes on and on how many preemptions
  are left. A run that comes to a state in which an earlier run was ends there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from model_tests.simulation.explore import BadRun, Jobs, attempt
from model_tests.simulation.scenario import Scenario
from model_tests.simulation.scheduler import Decision, Run, SimulationError
from model_tests.simulation.store import BEFORE, CHANGES, ActorStore, Operation, Work, World
from model_tests.simulation.tables import USUAL, Setting, expect

Known: TypeAlias = dict[tuple[str, int], Operation | None]
"""By an actor and a digest of what it has done and seen: its next operation, None if it has ended."""
NOT_SEEN: Final = "what an actor does depends on something else than what it has done and seen"
Path: TypeAlias = "tuple[Path, str] | None"
"""Who did the steps so far, the last one first."""


def with_preemptions(jobs: Jobs, limit: int, setting: Setting = USUAL) -> Interleavings:
    """Return the runs of some jobs with at most ``limit`` preemptions."""
    return Interleavings(jobs, limit, setting)


def first_bad(jobs: Jobs) -> BadRun | None:
    """Return a run of some jobs with at most one preemption that goes wrong, None if there is none."""
    return next((run for run in with_preemptions(jobs, 1) if isinstance(run, BadRun)), None)


@dataclass(eq=False)
class _Imagined(World):
    """A store on which the operations of known actors are done again. ``works``: how much work each has begun."""

    works: dict[str, int] = field(default_factory=dict)

    def copy(self) -> _Imagined:
        return replace(self, files=dict(self.files), log=list(self.log), makers=dict(self.makers), ever={})

    def maker(self, path: str) -> Work:
        work = self.makers.get(path, BEFORE)
        return BEFORE if isinstance(work, _Piece) and work.number < self.works[work.actor] else work


@dataclass(eq=False)
class _Piece(Work):
    """The work of some number of an actor."""

    actor: str = ""
    number: int = 0


ENDED = 1_000
"""More work than any actor begins."""


class _State(NamedTuple):
    """``histories``: by actor; ``stack``: who goes on, and who after it has ended; ``left``: preemptions."""

    world: _Imagined
    histories: dict[str, int]
    stack: tuple[str, ...]
    left: int
    path: Path

    def key(self, stack: tuple[str, ...]) -> Hashable:
        return self.world.digest, tuple(self.histories.values()), stack

    @property
    def schedule(self) -> list[str]:
        found, path = [], self.path
        while path is not None:
            path, actor = path
            found.append(actor)
        return found[::-1]

    def after(self, actor: str, operation: Operation) -> _State:
        """Return the state after an operation."""
        world = self.world.copy() if operation.name in CHANGES else self.world
        store = ActorStore(world)
        store.work = _Piece("", actor=actor, number=operation.works)
        store.history = operation.history
        with suppress(FileNotFoundError):
            operation.again(store)
        histories = {**self.histories, actor: store.history}
        return self._replace(world=world, histories=histories, path=(self.path, actor))


@dataclass
class _Follow:
    """A policy that does as a schedule says, then lets actors end one after the other, and keeps what they do."""

    schedule: list[str]
    stack: tuple[str, ...]
    known: Known
    done: int = 0

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step. Raises SimulationError if an actor does otherwise than it did before."""
        for name, operation in waiting.items():
            expected = self.known.setdefault((name, operation.history), operation)
            if expected != operation:
                raise SimulationError(f"{name}: expected {expected} again, found {operation}")
        if self.done < len(self.schedule):
            self.done += 1
            return Decision(self.schedule[self.done - 1])
        self.stack = _of_waiting(self.stack, waiting)
        return Decision(self.stack[-1])


def _of_waiting(stack: tuple[str, ...], waiting: dict[str, Operation]) -> tuple[str, ...]:
    """Return a stack whose last actor goes on."""
    while stack and stack[-1] not in waiting:
        stack = stack[:-1]
    return stack or (min(waiting),)


@dataclass
class Interleavings:
    """The runs of some jobs with at most ``limit`` preemptions, one for each end that they can come to, and some more.

    ``states``: how many states were found.
    """

    jobs: Jobs
    limit: int
    setting: Setting = USUAL
    states: int = 0
    _known: Known = field(default_factory=dict)
    _ends: set[Hashable] = field(default_factory=set)

    @cached_property
    def _start(self) -> _Imagined:
        world = Scenario(self.jobs, self.setting).world
        return _Imagined(world.files, log=world.log, works={})

    def __iter__(self) -> Iterator[Run | BadRun]:
        """Do runs until nothing new can come; yield those that go wrong, too. Raises SimulationError."""
        seen: dict[Hashable, int] = {}
        states = [
            _State(self._start, dict.fromkeys(self.jobs, 0), (first,), self.limit, None)
            for first in self.jobs
        ]
        while states:
            state: _State | None = states.pop()
            while state is not None:
                waiting = self._waiting(state)
                if waiting is None:
                    run = self._run(state)
                    yield run
                    if isinstance(run, BadRun):
                        break
                    expect(self._waiting(state) is not None, NOT_SEEN)
                    continue
                if not waiting:
                    if self._end(state) not in self._ends:
                        yield self._checked(state)
                    break
                stack = _of_waiting(state.stack, waiting)
                key = state.key(stack)
                if seen.get(key, -1) >= state.left:
                    break
                seen[key] = state.left
                self.states += 1
                if state.left:
                    states += [
                        state._replace(stack=(*stack, other), left=state.left - 1)
                        for other in waiting
                        if other != stack[-1]
                    ]
                state = state._replace(stack=stack).after(stack[-1], waiting[stack[-1]])

    def _waiting(self, state: _State) -> dict[str, Operation] | None:
        """Return the next operations of the actors that have not ended; None if one of them is not known."""
        waiting, state.world.works = {}, {}
        for key in state.histories.items():
            if key not in self._known:
                return None
            operation = self._known[key]
            state.world.works[key[0]] = operation.works if operation else ENDED
            if operation is not None:
                waiting[key[0]] = operation
        return waiting

    def _run(self, state: _State) -> Run | BadRun:
        """Do the run that comes to a state, up to its end, and learn from it."""
        done = attempt(self.jobs, self.setting, _Follow(state.schedule, state.stack, self._known))
        if isinstance(done, Run):
            self._known.update(dict.fromkeys(done.histories.items()))
            self._ends.add((done.digest, tuple(done.histories.values())))
        return done

    def _checked(self, state: _State) -> Run | BadRun:
        """Do the run whose end was imagined. Raises SimulationError if it ends otherwise."""
        run = self._run(state)
        expect(isinstance(run, BadRun) or self._end(state) in self._ends, NOT_SEEN)
        return run

    def _end(self, state: _State) -> Hashable:
        return state.world.digest, tuple(state.histories.values())
