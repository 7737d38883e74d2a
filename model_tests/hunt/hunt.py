"""Spend some time on turns of many kinds, in as many processes as there are cores."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Final

from model_tests.hunt.turns import Kind, Outcome, Turn
from model_tests.hunt.workers import Worker

LOOK_SECONDS: Final = 0.5
LAST_SECONDS: Final = 20
"""How long turns go on that are being played when the time is over; what has failed is made small besides."""

Progress = Callable[["Catch"], None]


@dataclass
class Count:
    """What the turns of a kind came to. ``late``: those that ran out of time; ``seconds``: of all."""

    turns: int = 0
    cases: int = 0
    seconds: float = 0.0
    failed: int = 0
    late: int = 0


@dataclass
class Fault:
    """A fault, the first turn that found it, and how many did."""

    turn: Turn
    outcome: Outcome
    times: int = 1


@dataclass
class Catch:
    """The catch of a hunt so far. ``late``: the turns that ran out of time, and where in the code they then were.

    ``cut_off``: the turns that were being played when the hunt ended; nothing else counts them.
    """

    counts: dict[str, Count] = field(default_factory=dict)
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)
    late: list[tuple[Turn, str]] = field(default_factory=list)
    cut_off: int = 0
    interrupted: bool = False

    def add(self, turn: Turn, outcome: Outcome, seconds: float) -> Fault | None:
        """Count a turn; return the fault it found, if no turn before has found it."""
        count = self.counts[turn.kind.name]
        count.turns += 1
        count.seconds += seconds
        count.cases += outcome.cases
        if not outcome.fault:
            return None
        count.failed += 1
        key = (turn.kind.name, outcome.fault)
        if key in self.faults:
            self.faults[key].times += 1
            return None
        self.faults[key] = Fault(turn, outcome)
        return self.faults[key]

    def add_late(self, turn: Turn, where: str, seconds: float) -> None:
        """Count a turn that ran out of time."""
        count = self.counts[turn.kind.name]
        count.turns += 1
        count.seconds += seconds
        count.late += 1
        self.late.append((turn, where))


class Turns:
    """Says which turn comes next: of each kind as many as its weight says, with seeds that follow from one."""

    def __init__(self, kinds: Sequence[Kind], seed: int) -> None:
        self._kinds, self._seed = kinds, seed
        self._begun: Counter[str] = Counter()

    def next(self, *, alone: bool) -> Turn | None:
        """Return the next turn; ``alone``: whether it may be of a kind that is played once at a time."""
        possible = [kind for kind in self._kinds if alone or not kind.alone]
        if not possible:
            return None
        kind = min(possible, key=lambda one: (self._begun[one.name] + 1) / one.weight)
        self._begun[kind.name] += 1
        drawn = random.Random(f"{self._seed} {kind.name} {self._begun[kind.name]}")
        return Turn(kind, drawn.getrandbits(31))


class Hunt:
    """A hunt. ``found`` is called with each fault that is new, ``progress`` twice a second."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        *,
        seed: int,
        workers: int,
        found: Callable[[Fault], None],
        progress: Progress,
    ) -> None:
        self.catch = Catch({kind.name: Count() for kind in kinds})
        self._turns = Turns(kinds, seed)
        self._found, self._progress = found, progress
        self._workers: dict[int, Worker | None] = dict.fromkeys(range(workers))
        self._begun: dict[int, float] = {}

    def run(self, seconds: float) -> Catch:
        """Play turns for some seconds, or until an interrupt."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self._start_turns()
                self._look()
            while any(time.monotonic() < end + LAST_SECONDS or one.has_failed for one in self._busy()):
                self._look()
        except KeyboardInterrupt:
            self.catch.interrupted = True
        finally:
            self._end()
        return self.catch

    def _busy(self) -> Iterator[Worker]:
        return (one for one in self._workers.values() if one is not None and one.turn is not None)

    def _start_turns(self) -> None:
        for number, worker in self._workers.items():
            if worker is not None and worker.turn is not None:
                continue
            turn = self._turns.next(alone=number == 0)
            if turn is None:
                continue
            if worker is None:
                worker = self._workers[number] = Worker()
            self._begun[number] = time.monotonic()
            worker.start(turn)

    def _look(self) -> None:
        """Wait a little for answers, take them, and end what is late."""
        busy = {
            one.connection: number for number, one in self._workers.items() if one is not None and one.turn
        }
        if not busy:
            time.sleep(LOOK_SECONDS)
        for connection in wait(list(busy), LOOK_SECONDS):
            self._answered(busy[connection])  # type: ignore[index]
        for number in busy.values():
            worker = self._workers[number]
            if worker is not None and worker.is_late:
                self._late(number, worker)
        self._progress(self.catch)

    def _answered(self, number: int) -> None:
        worker = self._workers[number]
        turn = worker.turn if worker is not None else None
        if worker is None or turn is None:
            return
        try:
            outcome = worker.answer()
        except EOFError:
            _, words = worker.end()
            self._workers[number] = None
            message = "its process died"
            outcome = Outcome(fault=message, message=message, text=words)
        if outcome is not None:
            worker.turn = None
            self._add(number, turn, outcome)

    def _late(self, number: int, worker: Worker) -> None:
        turn = worker.turn
        assert turn is not None, "it was asked"
        failed, where = worker.end()
        self._workers[number] = None
        if failed is None:
            self.catch.add_late(turn, where, time.monotonic() - self._begun[number])
        else:  # it failed in time, and there was none to make it small
            self._add(number, turn, failed)

    def _add(self, number: int, turn: Turn, outcome: Outcome) -> None:
        fault = self.catch.add(turn, outcome, time.monotonic() - self._begun[number])
        if fault is not None:
            self._found(fault)

    def _end(self) -> None:
        for number, worker in self._workers.items():
            if worker is None:
                continue
            turn = worker.turn
            if turn is not None:
                worker.turn = None  # nobody wants to know where it is
            failed, _ = worker.end()
            if failed is not None and turn is not None:
                with contextlib.suppress(KeyboardInterrupt):
                    self._add(number, turn, failed)
            elif turn is not None:
                self.catch.cut_off += 1
