"""The simulation finds the faults that it is for, says them as code, and runs the same way twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pktable.catalog.fences import FenceLog
from pktable.catalog.publish import Publisher, Put, Verdict
from pktable.catalog.retention import Expiry
from pktable.format.metadata.fence import Fence
from pktable.format.metadata.snapshot import Snapshot
from pktable_spec.covers import covers

from model_tests.simulation.explore import (
    BadRun,
    by_seed,
    parsed,
    replay,
    shortest,
    spelled,
    sweep,
    with_preemptions,
)
from model_tests.simulation.scenario import Job

OVERTAKEN = {"a": Job(("write only",)), "b": Job(("write", "write", "expire most"))}


def fence_without_names(original: Callable[..., Fence]) -> Callable[..., Fence]:
    return lambda log, fence, after: original(log, replace(fence, ended={}), after)


def no_look(original: Callable[..., Verdict]) -> Callable[..., Verdict]:
    def outcome(publisher: Publisher, put: Put, found: Snapshot | None) -> Verdict:
        return Verdict.COMMITTED if found == put.snapshot else original(publisher, put, found)

    return outcome


def error_is_failure(original: Callable[..., Verdict]) -> Callable[..., Verdict]:
    return lambda publisher, error, *rest: Verdict.FAILED if error else original(publisher, error, *rest)


def readers_do_not_look(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda log, fence, snapshot: False


def tags_are_not_kept(original: Callable[..., set[str]]) -> Callable[..., set[str]]:
    return lambda expiry, tag: set()


FAULTS: list[tuple[type[Any], str, Callable[..., Any], int]] = [
    (FenceLog, "put", fence_without_names, 300),
    (Publisher, "outcome", no_look, 300),
    (Publisher, "after_error", error_is_failure, 300),
    (FenceLog, "hides", readers_do_not_look, 300),
    (Expiry, "needed_by_tag", tags_are_not_kept, 300),
]


@pytest.mark.parametrize(("owner", "name", "fault", "seeds"), FAULTS, ids=[one[2].__name__ for one in FAULTS])
def test_a_fault_of_the_protocol_is_found_by_few_seeds(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, fault: Callable[..., Any], seeds: int
) -> None:
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    assert any(isinstance(by_seed(seed), BadRun) for seed in range(seeds))


@covers("CMT-3", "CMT-29", "CMT-36", "CMT-37", "CMT-40")
def test_a_committer_that_is_preempted_once_loses_nothing() -> None:
    found = list(with_preemptions(OVERTAKEN, 1))
    assert len(found) > 60
    assert not [one for one in found if isinstance(one, BadRun)]


def test_one_preemption_shows_a_committer_that_does_not_look_and_the_shortest_run_can_be_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Publisher, "outcome", no_look(Publisher.outcome))
    bad = [one for one in with_preemptions(OVERTAKEN, 1) if isinstance(one, BadRun)]
    least = shortest(bad[0], 60)
    assert len(spelled(least.schedule)) <= len(spelled(bad[0].schedule))
    with pytest.raises(AssertionError, match="acknowledged, but never there"):
        exec(least.as_code())  # the code that a user is shown


@covers("CMT-25", "CMT-28", "CMT-38", "CMT-39")
@pytest.mark.parametrize("kind", ["write", "expire most"])
def test_an_operation_that_fails_in_any_way_at_any_place_leaves_the_state_before_or_after(kind: str) -> None:
    found = list(sweep(kind))
    assert len(found) > 50
    assert not [one.error for one in found if isinstance(one, BadRun)]


def test_the_same_seed_gives_the_same_run() -> None:
    one, same = by_seed(7), by_seed(7)
    assert not isinstance(one, BadRun)
    assert not isinstance(same, BadRun)
    assert (one.schedule, one.operations) == (same.schedule, same.operations)


def test_a_schedule_that_is_spelled_runs_as_it_ran() -> None:
    jobs = {"a": Job(("write",)), "b": Job(("expire",))}
    steps = ["b 3", "a 9", "b crash after"]
    done = replay(jobs, steps).schedule
    assert spelled(done[:13]) != steps  # b waits for a read, which cannot crash after it
    steps[-1] = "b crash before"
    done = replay(jobs, steps).schedule
    assert spelled(done[:13]) == steps
    assert parsed(spelled(done)) == done
