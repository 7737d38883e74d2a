"""The mechanism, step by step and in whole small state graphs."""

from __future__ import annotations

import pytest
from pktable_spec.covers import covers
from pktable_spec.model.graph import Scope, reachable
from pktable_spec.model.invariants import broken, broken_by_step
from pktable_spec.model.levels import KeyedChange, Record, merge
from pktable_spec.model.mechanism import EMPTY, Mechanism, Plan, State
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import Pick
from pktable_spec.vocabulary import RowKind

PUT, DELETE = RowKind.INSERT, RowKind.DELETE
WIDE = ModelOptions(num_levels=4, trigger=9)


def put(*keys: int) -> list[KeyedChange]:
    return [KeyedChange((key,), PUT, (key,)) for key in keys]


def delete(*keys: int) -> list[KeyedChange]:
    return [KeyedChange((key,), DELETE, (key,)) for key in keys]


def compacted(mechanism: Mechanism, state: State, *, full: bool = False) -> State:
    pick = mechanism.pick(state, full=full)
    assert pick is not None
    return mechanism.commit_compaction(mechanism.plan_compaction(state, "c", pick, mechanism.is_large), "c")


def planned(mechanism: Mechanism, state: State, job: str, *, full: bool = False) -> State:
    pick = mechanism.pick(state, full=full)
    assert pick is not None
    return mechanism.plan_compaction(state, job, pick, mechanism.is_large)


SCOPES = {
    "one compactor": (
        ModelOptions(num_levels=3, trigger=3),
        Scope(
            batches=(tuple(put(1)), tuple(delete(1)), tuple(put(2)), tuple(put(1, 2))),
            write_limit=3,
            compaction_limit=2,
        ),
    ),
    "two compactors": (
        ModelOptions(num_levels=4, trigger=3),
        Scope(
            batches=(tuple(put(1)), tuple(delete(1)), tuple(put(1, 2))),
            compactors=("c1", "c2"),
            write_limit=2,
            compaction_limit=3,
        ),
    ),
    "two writers": (
        ModelOptions(num_levels=3, trigger=3),
        Scope(
            batches=(tuple(put(1)), tuple(delete(1))), writers=("w1", "w2"), write_limit=3, compaction_limit=2
        ),
    ),
    "own compactions": (
        ModelOptions(num_levels=3, trigger=3),
        Scope(
            batches=(tuple(put(1)), tuple(delete(1, 1))),
            compactors=("w1", "c1"),
            writers=("w1", "w2"),
            write_limit=3,
        ),
    ),
    "no deletion vectors": (
        ModelOptions(deletion_vectors=False, num_levels=3, trigger=2),
        Scope(
            batches=(tuple(put(1)), tuple(delete(1)), tuple(put(1, 2))),
            compactors=("c1", "c2"),
            write_limit=3,
        ),
    ),
}


@covers("RD-1", "RD-2", "RD-3", "RD-4", "DV-2", "DV-3", "DV-4", "DV-11", "DV-12", "LSM-1", "LSM-2", "LSM-3")
@covers("LSM-6", "CMP-13", "CMP-14", "CMT-1", "CMT-11", "CMT-12", "CMT-15")
@pytest.mark.parametrize("scope", SCOPES)
def test_every_invariant_holds_in_every_state_and_on_every_step(scope: str) -> None:
    options, bounds = SCOPES[scope]
    mechanism = Mechanism(options)
    states, edges = reachable(mechanism, bounds)
    assert {name for state in states for name in broken(mechanism, state)} == set()
    assert {name for a, _, _, b in edges for name in broken_by_step(mechanism, a, b)} == set()
    actions = {action for _, action, _, _ in edges}
    assert {"PlanCompaction", "CommitCompaction", "Crash"} <= actions


@covers("MRG-2", "MRG-1", "MRG-5")
def test_of_equal_sequence_numbers_an_add_wins_and_then_the_newer_run() -> None:
    add, other = Record((1,), 5, PUT, (1, "a")), Record((1,), 5, RowKind.UPDATE_AFTER, (1, "b"))
    retraction = Record((1,), 5, DELETE, (1, None))
    assert merge([[retraction], [add]]) == merge([[add], [retraction]]) == [add]
    assert merge([[other], [add]]) == [other]
    assert merge([[Record((2,), 1, PUT, ())], [Record((1,), 6, PUT, ())]])[0].key == (1,)


@covers("DV-6", "DV-14", "DV-9")
def test_a_key_from_level_zero_marks_its_older_record_below() -> None:
    mechanism = Mechanism(WIDE)
    base = compacted(mechanism, mechanism.write(EMPTY, put(1, 2, 3)))
    after = compacted(mechanism, mechanism.write(base, put(2)))
    assert after.vectors == {(0, 1)}
    again = compacted(mechanism, mechanism.write(after, delete(2)))
    assert {mark for mark in again.vectors if mark[0] == 0} == {(0, 1)}, "no second mark, no lost mark"
    assert [record.key for record in mechanism.plain_read(again)] == [(1,), (3,)]


@covers("DV-8")
def test_an_older_record_among_the_inputs_is_merged_away_not_marked() -> None:
    mechanism = Mechanism(WIDE)
    state = compacted(mechanism, mechanism.write(EMPTY, put(1)))
    assert compacted(mechanism, mechanism.write(state, put(1))).vectors == frozenset()


@covers("DV-7")
def test_a_key_without_a_level_zero_record_marks_nothing() -> None:
    mechanism = Mechanism(WIDE)
    base = compacted(mechanism, mechanism.write(EMPTY, put(*range(10))))
    deeper = compacted(mechanism, mechanism.write(base, put(10, 11)))
    assert compacted(mechanism, deeper, full=True).vectors == frozenset()


@covers("DV-10", "DV-13", "CMP-10", "CMP-12")
def test_a_vector_goes_with_its_file_and_stays_with_an_upgrade() -> None:
    mechanism = Mechanism(WIDE)
    base = compacted(mechanism, mechanism.write(EMPTY, put(*range(10))))
    marked = compacted(mechanism, mechanism.write(base, delete(3)))
    assert marked.vectors == {(0, 3)}
    full = compacted(mechanism, marked, full=True)
    assert full.vectors == frozenset()
    assert len(mechanism.plain_read(full)) == 9
    higher = marked._replace(live=frozenset({(0, 2)}))
    (run,) = mechanism.runs(higher)
    upgrade = mechanism.plan(higher, Pick(run, 3), lambda _: True)
    assert upgrade.upgraded == frozenset({0})
    assert upgrade.vectors == marked.vectors


@covers("CMT-7", "CMT-14")
def test_a_compaction_whose_input_is_gone_is_refused_and_dropped() -> None:
    mechanism = Mechanism(WIDE)
    both = mechanism.write(EMPTY, put(1))
    both = planned(mechanism, planned(mechanism, both, "x"), "y")
    after = mechanism.commit_compaction(both, "x")
    plan = after.work("y")
    assert isinstance(plan, Plan)
    assert mechanism.conflict(after, plan) == "CMT-7"
    assert mechanism.commit_compaction(after, "y") == after._replace(pending=())


@covers("CMT-8", "CMT-9")
def test_a_vector_is_not_committed_on_another_index_or_for_a_file_that_is_gone() -> None:
    mechanism = Mechanism(WIDE)
    base = compacted(mechanism, mechanism.write(EMPTY, put(*range(10, 22))))
    deep = compacted(mechanism, mechanism.write(base, put(1, 2, 3, 4)))
    full_first = planned(mechanism, deep, "full", full=True)
    both = planned(mechanism, mechanism.write(full_first, put(1)), "up")
    for first, second, clause in (("full", "up", "CMT-9"), ("up", "full", "CMT-8")):
        after = mechanism.commit_compaction(both, first)
        plan = after.work(second)
        assert isinstance(plan, Plan)
        assert mechanism.conflict(after, plan) == clause


@covers("CMT-11")
def test_two_compactions_may_not_fill_one_level_with_overlapping_files() -> None:
    mechanism = Mechanism(WIDE)
    state = planned(mechanism, mechanism.write(EMPTY, put(1, 3)), "x")
    plan = state.work("x")
    assert isinstance(plan, Plan)
    beside = compacted(mechanism, mechanism.write(EMPTY, put(0, 4)))
    other = beside._replace(files=(*beside.files, beside.files[0]), live=beside.live | {(1, 0)})
    moved = plan._replace(inputs=frozenset({(1, 0)}), upgraded=frozenset({1}))
    assert mechanism.conflict(other, moved) == "CMT-11"


@covers("CMT-10", "LSM-5")
def test_a_staged_write_is_numbered_anew_when_another_came_first() -> None:
    mechanism = Mechanism(WIDE)
    staged = mechanism.begin_write(mechanism.begin_write(EMPTY, "a", put(1)), "b", put(1, 2))
    after = mechanism.commit_write(mechanism.commit_write(staged, "b"), "a")
    assert [record.sequence for record in after.files[0].records] == [0, 1]
    assert [record.sequence for record in after.files[1].records] == [2]


@covers("CMT-18")
def test_a_write_numbered_anew_drops_what_it_planned_though_a_gap_had_room_for_the_other() -> None:
    mechanism = Mechanism(WIDE)
    written = planned(mechanism, mechanism.write(EMPTY, delete(1, 1)), "a")
    plan = written.work("a")
    assert isinstance(plan, Plan)
    staged = mechanism.begin_write(EMPTY, "a", delete(1, 1), plan)
    assert mechanism.commit_write(staged, "a") == written
    after = mechanism.commit_write(mechanism.write(staged, put(1)), "a")
    assert after.pending == ()
    assert [data.min_sequence for data in after.files] == [0, 2]


@covers("CMP-13", "CMP-11")
def test_without_vectors_a_retraction_is_kept_until_the_last_level() -> None:
    mechanism = Mechanism(ModelOptions(deletion_vectors=False, num_levels=4, trigger=2))
    base = compacted(mechanism, mechanism.write(EMPTY, put(*range(10))), full=True)
    state = mechanism.write(mechanism.write(base, delete(3)), put(20))
    after = compacted(mechanism, state)
    assert any(after.files[file].retraction_count for file, level in after.live if level > 0)
    last = compacted(mechanism, after, full=True)
    assert not any(last.files[file].retraction_count for file, _ in last.live)
    assert len(mechanism.fresh_read(last)) == 10


@covers("RD-5")
def test_retractions_above_level_zero_make_a_plain_read_merge() -> None:
    without = Mechanism(ModelOptions(deletion_vectors=False, num_levels=4, trigger=2))
    base = compacted(without, without.write(EMPTY, put(*range(10))), full=True)
    state = compacted(without, without.write(without.write(base, delete(3)), put(20)))
    records = Mechanism(WIDE).plain_read(state)
    assert sorted(record.key for record in records) == [
        (key,) for key in (*(k for k in range(10) if k != 3), 20)
    ]
