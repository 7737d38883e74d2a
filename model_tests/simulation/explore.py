"""Search for a run that goes wrong, and make it short.

Three searches: runs drawn from seeds; all ways to interleave a few jobs with few preemptions; and for one job each way
in which one of its operations can end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Final

from model_tests.simulation.policies import EndBadly, Preempt, RandomPolicy, Replay
from model_tests.simulation.scenario import Job, Scenario, drawn
from model_tests.simulation.scheduler import Decision, Operation, Outcome, Policy, Run

SHRINKING_LIMIT: Final = 400
"""Runs; each takes some hundredths of a second."""

Jobs = dict[str, Job]


@dataclass(frozen=True)
class BadRun:
    """A run that went wrong. ``error``: how; ``schedule``: its steps, as far as they were made."""

    jobs: Jobs
    vectors: bool
    schedule: list[Decision]
    error: str

    def as_code(self) -> str:
        """Return code that does the same run."""
        steps = "\n".join(f'    "{step}",' for step in spelled(self.schedule))
        jobs = "\n".join(f'    "{name}": {job!r},' for name, job in self.jobs.items())
        return (
            "from model_tests.simulation.explore import replay\n"
            "from model_tests.simulation.scenario import Job\n\n"
            f"jobs = {{\n{jobs}\n}}\nsteps = [\n{steps}\n]\n"
            f"replay(jobs, steps, vectors={self.vectors})"
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


def replay(jobs: Jobs, steps: list[str], *, vectors: bool = True) -> Run:
    """Run some jobs as texts say. Raises SimulationError if that goes wrong."""
    return Scenario(jobs, vectors=vectors).run(Replay(parsed(steps)))


class _Recorded:
    """A policy that keeps what another one decides, also of a run that ends in an error."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.schedule: list[Decision] = []

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        self.schedule.append(self._policy.decide(last, waiting, late))
        return self.schedule[-1]


def attempt(jobs: Jobs, vectors: bool, policy: Policy) -> Run | BadRun:
    """Return the run of some jobs, or how it went wrong."""
    recorded = _Recorded(policy)
    try:
        return Scenario(jobs, vectors=vectors).run(recorded)
    except Exception as error:
        return BadRun(jobs, vectors, recorded.schedule, f"{type(error).__name__}: {error}")


def by_seed(seed: int) -> Run | BadRun:
    """Run the jobs of a seed in the order of that seed."""
    jobs, vectors = drawn(seed)
    return attempt(jobs, vectors, RandomPolicy(seed))


def with_preemptions(jobs: Jobs, limit: int, *, vectors: bool = True) -> Iterator[Run | BadRun]:
    """Yield the runs of some jobs with at most ``limit`` preemptions: all of them.

    An actor is preempted before an operation that others can notice. To preempt it before any other changes nothing.
    """
    pending: list[tuple[str, tuple[tuple[int, str], ...]]] = [(first, ()) for first in jobs]
    while pending:
        first, switches = pending.pop()
        policy = Preempt(first, switches)
        yield attempt(jobs, vectors, policy)
        if len(switches) < limit:
            after = switches[-1][0] + 1 if switches else 1
            for number in range(after, len(policy.seen)):
                pending += [(first, (*switches, (number, other))) for other in policy.seen[number][1:]]


def sweep(kind: str, *, vectors: bool = True) -> Iterator[Run | BadRun]:
    """Yield the runs of one job in which one operation ends badly: every operation, in every way."""
    for number in count():
        policies = [EndBadly(number, outcome) for outcome in Outcome if outcome is not Outcome.DO]
        for policy in policies:
            found = attempt({"a": Job((kind, kind))}, vectors, policy)
            if policy.reached:
                yield found
        if not any(policy.reached for policy in policies):
            return


def shortest(failure: BadRun, limit: int = SHRINKING_LIMIT) -> BadRun:
    """Return a run that goes wrong, too, with fewer jobs, faults and changes of actor."""
    tried = 0

    def better(candidate: BadRun) -> bool:
        nonlocal failure, tried
        tried += 1
        found = attempt(candidate.jobs, candidate.vectors, Replay(candidate.schedule))
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
