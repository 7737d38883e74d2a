"""Who goes on: at random, as a schedule says, or with few preemptions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from model_tests.simulation.scheduler import NETWORK, Decision, Schedule
from model_tests.simulation.store import Operation, Outcome

SWITCHES: Final = (0.0, 0.0, 0.1, 0.5)
PAUSES: Final = (0.02, 0.05, 0.1, 0.2)
LONG: Final = (100, 200, None, None)
"""For how many steps a sleeper may sleep; None until the others have ended or pause."""
FAULTS: Final = (0.0, 0.0, 0.01, 0.03)


class RandomPolicy:
    """Lets actors run by rank, pauses some for long, switches between others, and lets operations end badly.

    Races need an actor that stops in the middle while others finish whole pieces of work. So before an operation that
    others can notice, the actor may fall to the last rank; putting a file if it is absent is the favourite place. It
    stays there until the others have ended or pause, or it sleeps for some number of steps and then goes first. How
    often that and everything else happens is drawn once for a run. ``faults``: whether any operation ends badly.
    ``sleeper``: an actor that sleeps for long, once, before one of its first puts.
    """

    def __init__(self, seed: int, *, faults: bool = True, sleeper: str = "") -> None:
        self._random = Random(f"policy {seed}")  # others draw from the seed itself
        self._switch, self._pause = self._random.choice(SWITCHES), self._random.choice(PAUSES)
        self._fault = self._random.choice(FAULTS) if faults else 0.0
        self._pauses = self._random.choice((1, 1, 2, 3, 100))
        self._ranks: dict[str, float] = {}
        self._sleeps = self._random.random() < 0.5
        self._sleeper, self._puts = sleeper, self._random.choice((1, 1, 1, 1, 2, 3))
        if sleeper:
            self._ranks[sleeper] = 1.0
        self._step, self._wakes = 0, dict[str, int]()

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        draw = self._random
        self._step += 1
        if late and draw.random() < 0.1:
            return Decision(NETWORK)
        if self._wakes and (woken := self._woken(waiting)):
            last = woken
        elif last not in waiting or waiting[last].is_shared:
            last = self._next(waiting)
        if draw.random() < self._fault:
            return Decision(last, draw.choice(waiting[last].outcomes()))
        return Decision(last)

    def _next(self, waiting: dict[str, Operation]) -> str:
        draw, ranks = self._random, self._ranks
        for name in waiting:
            ranks.setdefault(name, draw.random())
        if not self._sleeper and draw.random() < self._switch:
            return draw.choice(sorted(waiting))
        first = max(waiting, key=lambda name: ranks[name])
        favourite = waiting[first].name == "put_if_absent"
        if first == self._sleeper and favourite:
            self._puts -= 1
            if not self._puts:
                return self._pausing(first, waiting, draw.choice(LONG))
        may_pause = self._pauses and not self._sleeper
        if may_pause and draw.random() < self._pause * (5 if favourite else 1):
            self._pauses -= 1
            return self._pausing(first, waiting, int(2 ** draw.uniform(0, 8)) if self._sleeps else None)
        return first

    def _pausing(self, first: str, waiting: dict[str, Operation], steps: int | None) -> str:
        """Let an actor pause, for some steps or until the others pause, too; return who goes on."""
        self._ranks[first] = min(self._ranks.values()) - self._random.random()
        if steps is not None:
            self._wakes[first] = self._step + steps
        return max(waiting, key=lambda name: self._ranks[name])

    def _woken(self, waiting: dict[str, Operation]) -> str | None:
        """Return an actor that has slept long enough, which goes first now; None if there is none."""
        found = next((name for name, at in self._wakes.items() if at <= self._step), None)
        if found is None:
            return None
        del self._wakes[found]
        self._ranks[found] = max(self._ranks.values()) + self._random.random()
        return found if found in waiting else None


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


class Script:
    """Lets actors go on as sentences say; after the last one actors end one by one.

    ``"a"``: a goes on to its end. ``"a to put_if_absent snapshot-"``: up to such an operation, of a path with that
    part; ``past``: over it. ``"a crash before delete snapshot-"``, or another outcome: that operation ends so.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._left = [self._parsed(one) for one in reversed(sentences)]

    @staticmethod
    def _parsed(sentence: str) -> tuple[str, str, str, str]:
        words = sentence.split()
        if len(words) == 1:
            return words[0], "", "", ""
        return words[0], " ".join(words[1:-2]), words[-2], words[-1]

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step. Raises AssertionError if an actor ends before it does what a sentence says."""
        while self._left:
            actor, how, name, part = self._left[-1]
            if not how and actor not in waiting:
                self._left.pop()
                continue
            assert actor in waiting, f"{actor} has ended before {name} {part}"
            if not how or waiting[actor].name != name or part not in waiting[actor].path:
                return Decision(actor)
            self._left.pop()
            if how != "to":
                return Decision(actor, Outcome.DO if how == "past" else Outcome(how))
        return Decision(last if last in waiting else min(waiting))


class EndBadly:
    """Runs one actor, and lets its operation of some number end in some way."""

    def __init__(self, number: int, outcome: Outcome) -> None:
        self._left, self._outcome = number, outcome

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        """Return the next step."""
        self._left -= 1
        return Decision(min(waiting), Outcome.DO if self._left != -1 else self._outcome)
