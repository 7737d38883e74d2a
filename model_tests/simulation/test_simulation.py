"""The simulation finds the faults that it is for, says them as code, and runs the same way twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from pktable.catalog.fences import KEPT, FenceLog
from pktable.catalog.publish import Publisher, Put, Verdict
from pktable.format.metadata.snapshot import Snapshot
from pktable_spec.covers import covers

from model_tests.mutants.append_tables import APPEND_MUTANTS
from model_tests.mutants.protocol import PROTOCOL
from model_tests.seeded import DEEP
from model_tests.simulation.explore import (
    BadRun,
    by_seed,
    parsed,
    played,
    replay,
    shortest,
    spelled,
    sweep,
)
from model_tests.simulation.log_oracle import FOREIGN_ROLLBACK
from model_tests.simulation.preemptions import with_preemptions
from model_tests.simulation.scenario import Scenario
from model_tests.simulation.scheduler import Decision, Run, SimulationError
from model_tests.simulation.store import Operation
from model_tests.simulation.tables import SMALL, USUAL, Job, Setting

PUT = "put_if_absent snapshot-"
FREE_AGAIN = next(one for one in PROTOCOL if one.id == "P45")
APPEND = Setting(writes=3, kind="append")
OVERTAKEN = {"a": Job(("write only",)), "b": Job(("write", "write", "expire most"))}


def no_look(original: Callable[..., Verdict]) -> Callable[..., Verdict]:
    def outcome(publisher: Publisher, put: Put, found: Snapshot | None) -> Verdict:
        return Verdict.COMMITTED if found == put.snapshot else original(publisher, put, found)

    return outcome


def error_is_failure(original: Callable[..., Verdict]) -> Callable[..., Verdict]:
    return lambda publisher, error, *rest: Verdict.FAILED if error else original(publisher, error, *rest)


def readers_do_not_look(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda log, fence, snapshot: False


FAULTS: list[tuple[type[Any], str, Callable[..., Any], int]] = [
    (Publisher, "outcome", no_look, 75),
    (Publisher, "after_error", error_is_failure, 26),
    (FenceLog, "hides", readers_do_not_look, 93),
]
"""Some that nobody has to tell the simulation how to find, and a seed that does; others are in `mutants.protocol`."""


@pytest.mark.parametrize(("owner", "name", "fault", "known"), FAULTS, ids=[one[2].__name__ for one in FAULTS])
def test_a_fault_of_the_protocol_is_found_by_few_seeds(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, fault: Callable[..., Any], known: int
) -> None:
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    assert any(isinstance(by_seed(seed), BadRun) for seed in (known, *range(300)))


@covers("CMT-57", "META-54")
@pytest.mark.parametrize("seed", [40, 433, 845])
def test_a_seed_shows_that_a_fence_counts_whose_number_was_free_again(seed: int) -> None:
    assert not isinstance(by_seed(seed), BadRun)
    with FREE_AGAIN.inject():
        found = by_seed(seed)
    assert isinstance(found, BadRun)
    assert "was removed, and no fence had ended it" in found.error


@covers("CMT-57", "META-54")
def test_a_rollback_sleeps_while_others_put_one_more_fence_than_count() -> None:
    jobs = {"a": Job(("rollback 2",)), "b": Job(("write only", "rollback 1") * (KEPT + 1))}
    story = ["a to put_if_absent fence-", "b", "a"]
    found = played(jobs, story)
    assert not isinstance(found, BadRun), found.error
    with FREE_AGAIN.inject():
        found = played(jobs, story)
    assert isinstance(found, BadRun)
    assert "was removed, and no fence had ended it" in found.error


@covers("CMT-3", "CMT-29", "CMT-36", "CMT-37", "CMT-40")
def test_a_committer_that_is_preempted_once_loses_nothing() -> None:
    found = list(with_preemptions(OVERTAKEN, 1))
    assert len(found) > 30
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
@pytest.mark.parametrize(
    ("kind", "setting"), [("write", USUAL), ("expire most", USUAL), ("delete", APPEND), ("compact", APPEND)]
)
def test_an_operation_that_fails_in_any_way_at_any_place_leaves_the_state_before_or_after(
    kind: str, setting: Setting
) -> None:
    found = list(sweep(kind, setting, whole=DEEP))
    assert len(found) > 50
    assert not [one.error for one in found if isinstance(one, BadRun)]


class Plainly:
    """Runs an actor up to an operation, the other one to its end, and then the first."""

    def __init__(self, first: str, number: int) -> None:
        self.first, self.number, self.steps = first, number, 0

    def decide(self, last: str | None, waiting: dict[str, Operation], late: int) -> Decision:
        self.steps += 1
        others = [name for name in waiting if name != self.first]
        goes_first = self.first in waiting and (self.steps <= self.number or not others)
        return Decision(self.first if goes_first else others[0])


@pytest.mark.parametrize("other", ["expire", "rollback 1"])
def test_preemptions_that_are_left_out_lead_to_nothing_new(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    jobs, ends = {"a": Job(("write only",)), "b": Job((other,))}, set[int]()
    monkeypatch.setattr(
        Scenario, "_check", lambda self, done: ends.add(hash(frozenset(self.world.files.items())))
    )
    runs = sum(1 for _ in with_preemptions(jobs, 1, SMALL))
    fewer, plain = set(ends), 0
    ends.clear()
    for first in jobs:
        for number in range(100):
            policy = Plainly(first, number)
            Scenario(jobs, SMALL).run(policy)
            plain += 1
            if policy.steps <= number:
                break
    assert fewer == ends
    assert 2 * runs < plain


def test_work_that_depends_on_what_its_actor_has_not_seen_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are imagined, which is right only as long as an actor does the same whenever it has seen the same."""
    begin = Scenario.__init__

    def begin_by_turn(scenario: Scenario, *arguments: Any) -> None:
        begin(scenario, *arguments)
        turns = count(SMALL.writes + 1)
        scenario.actors.numbers = defaultdict(lambda: next(turns))

    monkeypatch.setattr(Scenario, "__init__", begin_by_turn)
    with pytest.raises(SimulationError, match="depends on something else"):
        list(with_preemptions({"a": Job(("write only",)), "b": Job(("write only",))}, 1, SMALL))


def pairs_of(first: str, second: str, setting: Setting) -> list[Run | BadRun]:
    """Return the runs of two actors with at most one preemption."""
    return list(with_preemptions({"a": Job((first,)), "b": Job((second,))}, 1, setting))


@covers("APP-12", "APP-13", "APP-15", "APP-16", "APP-17", "APP-18", "CMT-3")
@pytest.mark.parametrize(
    "setting", [APPEND, replace(APPEND, kind="append in a bucket")], ids=lambda one: one.kind
)
@pytest.mark.parametrize("other", ["delete", "compact"])
def test_a_delete_and_another_change_of_the_same_files_lose_nothing(setting: Setting, other: str) -> None:
    found = pairs_of("delete", other, setting)
    assert len(found) > 5
    assert not [one.error for one in found if isinstance(one, BadRun)]


@pytest.mark.parametrize(
    ("fault", "other"),
    [("A1", "delete"), ("A2", "delete"), ("A3", "compact"), ("A4", "compact"), ("A5", "compact")],
)
def test_one_preemption_shows_a_fault_pairs_of(fault: str, other: str) -> None:
    with APPEND_MUTANTS[fault].mutant.inject():
        assert any(isinstance(one, BadRun) for one in pairs_of("delete", other, APPEND))


@covers("CMT-41")
def test_a_delete_is_not_taken_for_another_that_left_the_same_data_files() -> None:
    jobs = {
        "a": Job(("delete",)),
        "b": Job(("expire as others do", "delete", "delete", "expire as others do")),
    }
    found = played(jobs, [f"a to {PUT}", "b", "a"], APPEND)
    assert not isinstance(found, BadRun), found.error


LOGGED = {producer: replace(SMALL, producer=producer) for producer in ("input", "lookup")}


@covers("STM-6", "CMT-53")
@pytest.mark.parametrize(
    ("other", "setting"), [("write only", SMALL), ("update", SMALL), ("delete", APPEND), ("update", APPEND)]
)
def test_an_update_and_another_change_of_the_same_rows_lose_nothing(other: str, setting: Setting) -> None:
    found = pairs_of("update", other, setting)
    assert len(found) > 5
    assert not [one.error for one in found if isinstance(one, BadRun)]


@covers("CHG-1", "CHG-11", "CMT-24")
@pytest.mark.parametrize(
    ("producer", "other"), [("input", "write only"), ("lookup", "write"), ("lookup", "full")]
)
def test_every_change_is_recorded_once_whoever_commits_first(producer: str, other: str) -> None:
    found = pairs_of("write", other, LOGGED[producer])
    assert len(found) > 5
    assert not [one.error for one in found if isinstance(one, BadRun)]


@covers("CMT-41")
def test_a_rollback_without_fences_takes_no_commit_that_comes_after_it() -> None:
    jobs = {"a": Job(("write only", "update", "full", "write")), "b": Job((FOREIGN_ROLLBACK,))}
    found = list(with_preemptions(jobs, 1, SMALL))
    assert len(found) > 5
    assert not [one.error for one in found if isinstance(one, BadRun)]


@covers("CMT-16")
def test_an_expiry_goes_on_though_the_latest_snapshot_is_rolled_back() -> None:
    jobs = {"c": Job(("expire most",)), "d": Job(("tag for a while", "write", "rollback to tag"))}
    replay(jobs, ["d 68", "c 18", "d 20", "c 4"], Setting(kept=2, kind="append"))


@covers("CMT-34")
def test_a_branch_whose_schema_others_remove_first_ends_no_work_on_the_table() -> None:
    assert not isinstance(by_seed(7431), BadRun)


@covers("CHG-36")
def test_consumers_cost_no_changelog_that_an_interrupted_expiry_has_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = {"a": Job(("expire most",)), "b": Job(("consume",)), "c": Job(("consume",))}
    setting = Setting(kept=2, writes=5, producer="input", changelogs=6)
    story = ["a crash before put_if_absent changelog-", "b", "c"]
    found = played(jobs, story, setting)
    assert not isinstance(found, BadRun), found.error
    put = FenceLog.put_no_end
    monkeypatch.setattr(FenceLog, "put_no_end", lambda self, before: put(self, lambda fence: None))
    assert isinstance(played(jobs, story, setting), BadRun)


@covers("CMT-41")
@pytest.mark.parametrize(
    ("setting", "kind"), [(USUAL, "write only"), (APPEND, "delete")], ids=["rows", "vectors"]
)
def test_a_base_that_a_fence_ended_does_not_show_that_the_id_was_free(setting: Setting, kind: str) -> None:
    """The snapshot that followed the base may be gone, too, by no fence; then the id is there to be taken again."""
    jobs = {
        "a": Job((kind,)),
        "b": Job((kind, "expire most", kind, kind, "expire as others do")),
    }
    found = played(jobs, [f"a to {PUT}", "b", "a"], setting)
    assert not isinstance(found, BadRun), found.error


@covers("CMT-45")
def test_a_rollback_leaves_a_snapshot_to_the_process_that_is_to_remove_it() -> None:
    """A writer finds that its snapshot was rolled back, and removes it while the rollback removes those before."""
    jobs = {"a": Job(("write",)), "b": Job(("rollback 2",))}
    schedule = ["a past put_if_absent snapshot-8", "b to put_if_absent removed-8"]
    found = played(jobs, [*schedule, "a past put_if_absent removed-8", "b", "a"], SMALL)
    assert not isinstance(found, BadRun), found.error


@covers("CMT-43")
def test_a_clean_up_leaves_the_file_that_says_who_removes_a_snapshot_until_its_id_has_expired() -> None:
    """A slow rollback has read a snapshot that another process removes; then others commit under its id."""
    jobs = {"b": Job(("write", "clean")), "c": Job(("rollback 3",))}
    found = played(jobs, ["c past delete snapshot-", "c past read snapshot-", "b", "c"])
    assert not isinstance(found, BadRun), found.error


@covers("CMT-38")
def test_a_commit_whose_outcome_is_unknown_leaves_its_files() -> None:
    """Of two fences that are kept none tells what became of a base that was rolled back before them."""
    jobs = {
        "a": Job(("write only",)),
        "b": Job(("update",)),
        "d": Job(("expire", "rollback 1", "expire most", "write only")),
    }
    found = played(jobs, ["b to put_if_absent snapshot-", "d", "a", "b"], Setting(kept=2))
    assert not isinstance(found, BadRun), found.error


@covers("DV-11")
def test_the_tag_of_a_snapshot_that_is_rolled_back_at_the_same_time_is_no_damage() -> None:
    jobs = {"a": Job(("tag middle",)), "b": Job(("rollback 2",))}
    found = played(jobs, ["b to put_if_absent fence-", "a", "b"], SMALL)
    assert not isinstance(found, BadRun), found.error


def test_a_branch_that_is_dropped_while_it_is_made_may_be_empty() -> None:
    jobs = {"a": Job(("branch",)), "b": Job(("drop branch",))}
    found = played(jobs, ["a to write branch-a-0/schema", "b", "a"], SMALL)
    assert not isinstance(found, BadRun), found.error


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
