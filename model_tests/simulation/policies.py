"""Who goes on: at random, as a schedule says, or with few preemptions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from model_tests.simulation.scheduler import NETWORK, Decision, Operation, Outcome, Schedule

SWITCHES: Final = (0.0, 0.0, 0.1, 0.5)
PAUSES: Final = (0.02, 0.05, 0.1, 0.2)
FAULTS: Final = (0.0, 0.0, 0.01, 0.03)


class RandomPolicy:
    """Lets actors run by rank, pauses some for long, switches between others, and lets operations end badly.

    Races need an actor that stops in the middle while others finish whole pieces of work. So before an operation that
    others can notice, the actor may fall to the last rank; putting a file if it is absent is the favourite place. How
    often that and everything else happens is drawn once for a run. ``faults``: whether any operation ends badly.
    """

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self._random = Random(seed)
        self._switch, self._pause = self._random.choice(SWITCHES), self._random.choice(PAUSES)
        self._fault = self._random.choice(FAULTS) if faults else 0.0
        self._pauses = self._random.choice((1, 1, 2, 3, 100))
        self._ranks: dict[str, float] = {}

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        draw = self._random
        if late and draw.random() < 0.1:
            return Decision(NETWORK)
        if last not in waiting or waiting[last].is_shared:
            last = self._next(waiting)
        if draw.random() < self._fault:
            return Decision(last, draw.choice(waiting[last].outcomes()))
        return Decision(last)

    def _next(self, waiting: dict[str, Operation]) -> str:
        draw, ranks = self._random, self._ranks
        for name in waiting:
            ranks.setdefault(name, draw.random())
        if draw.random() < self._switch:
            return draw.choice(sorted(waiting))
        first = max(waiting, key=lambda name: ranks[name])
        favourite = waiting[first].name == "put_if_absent"
        if self._pauses and draw.random() < self._pause * (5 if favourite else 1):
            self._pauses -= 1
            ranks[first] = min(ranks.values()) - draw.random()
            first = max(waiting, key=lambda name: ranks[name])
        return first


class Replay:
    """Does as a schedule says. A step that cannot be done is left out; after the last step actors end one by one."""

    def __init__(self, schedule: Schedule) -> None:
        self._left = list(reversed(schedule))

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        while self._left:
            decision = self._left.pop()
            if decision.actor == NETWORK and late:
                return decision
            if decision.actor in waiting and (
                decision.outcome is Outcome.DO or decision.outcome in waiting[decision.actor].outcomes()
            ):
                return decision
        return Decision(last if last in waiting else min(waiting))


class Preempt:
    """Runs actors to their ends, but for some preemptions.

    ``switches``: pairs of a number and an actor, ascending: before the operation of this number, among those that
    others can notice, that actor goes on instead. When an actor has ended, the one that it preempted goes on.
    ``seen``: for each such operation the actors that could have gone on, the one that did first.
    """

    def __init__(self, first: str, switches: Sequence[tuple[int, str]]) -> None:
        self._stack, self._switches = [first], dict(switches)
        self.seen: list[list[str]] = []

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        current = self._current(waiting)
        if waiting[current].is_shared:
            other = self._switches.get(len(self.seen))
            if other in waiting and other != current:
                self._stack.append(other)
                current = other
            self.seen.append([current, *(name for name in waiting if name != current)])
        return Decision(current)

    def _current(self, waiting: dict[str, Operation]) -> str:
        while self._stack and self._stack[-1] not in waiting:
            self._stack.pop()
        if not self._stack:
            self._stack.append(min(waiting))
        return self._stack[-1]


class EndBadly:
    """Runs one actor, and lets its operation of some number end in some way."""

    def __init__(self, number: int, outcome: Outcome) -> None:
        self._number, self._outcome, self._count = number, outcome, 0
        self.reached = False

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        name = min(waiting)
        self._count += 1
        if self._count - 1 != self._number:
            return Decision(name)
        self.reached = self._outcome is Outcome.DO or self._outcome in waiting[name].outcomes()
        return Decision(name, self._outcome if self.reached else Outcome.DO)
