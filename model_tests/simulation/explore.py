"""Search for a run that goes wrong, and make it short.

Two searches: runs drawn from seeds; and for one job each way in which one of its operations can end. `preemptions` has
a third: all ways to interleave a few jobs with few preemptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from model_tests.simulation.log_oracle import FOREIGN_ROLLBACK
from model_tests.simulation.policies import EndBadly, RandomPolicy, Replay, Script
from model_tests.simulation.recording import Record, recording
from model_tests.simulation.scenario import Scenario
from model_tests.simulation.scheduler import Decision, Policy, Run
from model_tests.simulation.store import Operation, Outcome
from model_tests.simulation.tables import SLEEPER, USUAL, Job, Setting, drawn

DIGITS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]+|\d+")
"""What tells the names of files of one kind apart."""
SHRINKING_LIMIT: Final = 400
"""Runs; each takes some hundredths of a second."""

Jobs = dict[str, Job]


@dataclass(frozen=True)
class BadRun:
    """A run that went wrong. ``error``: how; ``schedule``: its steps, as far as they were made."""

    jobs: Jobs
    setting: Setting
    schedule: list[Decision]
    error: str

    def as_code(self) -> str:
        """Return code that does the same run."""
        steps = "\n".join(f'    "{step}",' for step in spelled(self.schedule))
        jobs = "\n".join(f'    "{name}": {job!r},' for name, job in self.jobs.items())
        return (
            "from model_tests.simulation.explore import replay\n"
            "from model_tests.simulation.tables import Job, Setting\n\n"
            f"jobs = {{\n{jobs}\n}}\nsteps = [\n{steps}\n]\n"
            f"replay(jobs, steps, {self.setting})"
        )


def spelled(schedule: list[Decision]) -> list[str]:
    """Return a schedule as texts such as ``"a 3"``, three steps of a, and ``"a crash after"``."""
    found = []
    for decision, steps in groupby(schedule):
        number = sum(1 for _ in steps)
        fine = decision.outcome is Outcome.DO
        found += (
            [f"{decision.actor} {number}"]
            if fine
            else [f"{decision.actor} {decision.outcome.value}"] * number
        )
    return found


def parsed(steps: list[str]) -> list[Decision]:
    """Return the schedule that texts spell."""
    found: list[Decision] = []
    for step in steps:
        name, _, rest = step.partition(" ")
        found += [Decision(name)] * int(rest) if rest.isdecimal() else [Decision(name, Outcome(rest))]
    return found


def replay(jobs: Jobs, steps: list[str], setting: Setting = USUAL) -> Run:
    """Run some jobs as texts say. Raises SimulationError if that goes wrong."""
    return Scenario(jobs, setting).run(Replay(parsed(steps)))


def played(
    jobs: Jobs, sentences: Sequence[str], setting: Setting = USUAL, story: list[Record] | None = None
) -> Run | BadRun:
    """Run some jobs as the sentences of a `Script` say."""
    return attempt(jobs, setting, Script(sentences), story)


class _Recorded:
    """A policy that keeps what another one decides, also of a run that ends in an error."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.schedule: list[Decision] = []

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        self.schedule.append(self._policy.decide(last, waiting, late))
        return self.schedule[-1]


def attempt(jobs: Jobs, setting: Setting, policy: Policy, story: list[Record] | None = None) -> Run | BadRun:
    """Return the run of some jobs, or how it went wrong. ``story``: a list to which is added what happens."""
    recorded, scenario = _Recorded(policy), Scenario(jobs, setting)
    try:
        with nullcontext() if story is None else recording(scenario.world, story):
            return scenario.run(recorded)
    except Exception as error:
        return BadRun(jobs, setting, recorded.schedule, f"{type(error).__name__}: {error}")


def by_seed(seed: int, story: list[Record] | None = None) -> Run | BadRun:
    """Run the jobs of a seed in the order of that seed."""
    jobs, setting = drawn(seed)
    # A committer that dies leaves a stray, which without fences only it could tell from a snapshot.
    faults = not any(FOREIGN_ROLLBACK in job.kinds for job in jobs.values())
    sleeper = SLEEPER if SLEEPER in jobs else ""
    return attempt(jobs, setting, RandomPolicy(seed, faults=faults, sleeper=sleeper), story)


def sweep(kind: str, setting: Setting = USUAL, *, whole: bool = True) -> Iterator[Run | BadRun]:
    """Yield the runs of some work, and the same again, in which one operation of the first ends badly, in every way.

    Not ``whole``: of the reads and deletes of one kind of file the first stands for all, and a crash before an
    operation is one after the change before it.
    """
    jobs = {"a": Job((kind, kind))}
    undisturbed = attempt({"a": Job((kind,))}, setting, Replay([]))
    if isinstance(undisturbed, BadRun):
        yield undisturbed
        return
    seen = set[tuple[str, str]]()
    for number, operation in enumerate(undisturbed.operations):
        what = operation.name, DIGITS.sub("", operation.path)
        if not whole and what in seen and operation.name not in ("write", "put_if_absent"):
            continue
        seen.add(what)
        crashed = {Outcome.CRASH_BEFORE} if number and not whole else set()
        for outcome in [one for one in operation.outcomes() if one not in crashed]:
            yield attempt(jobs, setting, EndBadly(number, outcome))


def shortest(failure: BadRun, limit: int = SHRINKING_LIMIT) -> BadRun:
    """Return a run that goes wrong, too, with fewer jobs, faults and changes of actor."""
    tried = 0

    def better(candidate: BadRun) -> bool:
        nonlocal failure, tried
        tried += 1
        found = attempt(candidate.jobs, candidate.setting, Replay(candidate.schedule))
        if not isinstance(found, BadRun) or tried > limit:
            return False
        if _size(found) >= _size(failure):
            return False
        failure = found
        return True

    while tried < limit and any(better(candidate) for candidate in _smaller(failure)):
        pass
    return failure


def _size(failure: BadRun) -> tuple[int, int]:
    return sum(len(job.kinds) for job in failure.jobs.values()), len(spelled(failure.schedule))


def _smaller(failure: BadRun) -> Iterator[BadRun]:
    for name, job in failure.jobs.items():
        if len(failure.jobs) > 1:
            yield replace(failure, jobs={n: j for n, j in failure.jobs.items() if n != name})
        for at in range(len(job.kinds)):
            kinds = (*job.kinds[:at], *job.kinds[at + 1 :])
            if kinds:
                yield replace(failure, jobs={**failure.jobs, name: replace(job, kinds=kinds)})
    pieces = [list(steps) for _, steps in groupby(failure.schedule)]
    for at in range(len(pieces)):
        # Without a piece; and with it after the next one, which joins those around it.
        yield replace(failure, schedule=[one for piece in pieces[:at] + pieces[at + 1 :] for one in piece])
        if at + 1 < len(pieces):
            swapped = [*pieces[:at], pieces[at + 1], pieces[at], *pieces[at + 2 :]]
            yield replace(failure, schedule=[one for piece in swapped for one in piece])
