"""The oracle of append tables: its states are as many as TLC finds, and each fault breaks the invariant that TLC says.

That TLC finds what the models expect is seen by `make verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from pktable_spec.covers import covers
from pktable_spec.model.append import (
    AppendMechanism,
    Change,
    Content,
    Index,
    State,
    broken_invariants,
    problem_of_step,
)
from pktable_spec.model.row_ids import IdentifiedRows

from model_tests.tlc import models

MODELS = {model.name: model for model in models.load() if model.extends.startswith("Append")}


class IgnoresIndexes(AppendMechanism):
    def has_same_indexes(self, state: State, work: Any) -> bool:
        return True


class TouchesNothing(AppendMechanism):
    def touched(self, state: State, change: Change) -> frozenset[Index]:
        return frozenset()


class AddsToTheBucket(AppendMechanism):
    def touched(self, state: State, change: Change) -> frozenset[Index]:
        return AppendMechanism.touched(replace(self, buckets=False), state, change)


class RemovesGoneFiles(AppendMechanism):
    def are_live(self, state: State, some: frozenset[int]) -> bool:
        return True


class ForgetsDeletes(AppendMechanism):
    def is_under_the_same(self, state: State, change: Change) -> bool:
        return True


class ChangesDeletedRows(AppendMechanism):
    def rows_are_live(self, state: State, change: Change) -> bool:
        return True


class NamesAnyFile(ChangesDeletedRows):
    def names_live_files(self, state: State, work: Any) -> bool:
        return True


FAULTS: dict[str, type[AppendMechanism]] = {
    "A1 vectors replaced unseen": IgnoresIndexes,
    "A2 second vector of a file": TouchesNothing,
    "A3 a bucket like none": AddsToTheBucket,
    "A4 file removed twice": RemovesGoneFiles,
    "A5 delete undone": ForgetsDeletes,
    "A6 row updated twice": ChangesDeletedRows,
    "A7 vector of a removed file": NamesAnyFile,
}
HOLD = [name for name, model in MODELS.items() if model.expected.violated == models.PASSES]


def jobs_of(model: models.Model, of: str) -> tuple[str, ...]:
    """Return the jobs that a constant of a model names."""
    return tuple(one for one in model.constants[of].strip("{}").split(", ") if one)


def mechanism_of(name: str, kind: Callable[..., AppendMechanism] = AppendMechanism) -> AppendMechanism:
    """Return the mechanism with the constants of a model."""
    constants = MODELS[name].constants
    return kind(
        deleters=jobs_of(MODELS[name], "Deleters"),
        updaters=jobs_of(MODELS[name], "Updaters"),
        compactors=jobs_of(MODELS[name], "Compactors"),
        file_count=constants["FileCount"],
        append_limit=constants["AppendLimit"],
        buckets=constants["Buckets"],
        vectors=constants["Vectors"],
        commit_limit=constants["CommitLimit"],
    )


def reached(mechanism: AppendMechanism) -> tuple[set[State], set[str], set[str]]:
    """Return all reachable states, the actions taken, and the invariants that some state breaks."""
    frontier = [mechanism.initial()]
    states, actions, broken = set(frontier), set[str](), set[str]()
    while frontier:
        state = frontier.pop()
        broken |= broken_invariants(mechanism, state)
        for action, after in mechanism.steps(state):
            actions.add(action)
            if after not in states:
                states.add(after)
                frontier.append(after)
    return states, actions, broken


def number_of(states: set[State], model: models.Model) -> int:
    """Return the number of states as TLC counts them: two that differ in the names of two like jobs are one."""
    if not model.symmetry:
        return len(states)
    one, other = jobs_of(model, model.symmetry)
    swapped = {one: other, other: one}
    return (len(states) + sum(bool(renamed(state, swapped) == state) for state in states)) // 2


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value in which jobs have other names."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, (tuple, frozenset)):
        return type(value)(renamed(one, names) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: renamed(getattr(value, f.name), names) for f in fields(value)})
    return value


@covers("APP-12", "APP-13", "APP-14", "APP-15", "APP-16", "APP-17", "APP-18", "APP-21")
@pytest.mark.parametrize("name", HOLD)
def test_the_oracle_reaches_as_many_states_as_tlc_and_breaks_nothing(name: str) -> None:
    states, actions, broken = reached(mechanism_of(name))
    assert broken == set()
    assert {"Prepare", "Stale", "Commit"} <= actions
    assert number_of(states, MODELS[name]) == MODELS[name].expected.states


@covers("APP-15", "APP-16", "APP-17", "APP-18")
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_breaks_the_invariant_that_tlc_says(name: str) -> None:
    _, _, broken = reached(mechanism_of(name, FAULTS[name]))
    assert MODELS[name].expected.violated in broken
    assert reached(mechanism_of(name))[2] == set()


def test_every_model_that_must_fail_is_a_fault_of_the_oracle() -> None:
    liveness = {"A8 prepared for ever"}  # which no single step of the oracle shows
    assert set(FAULTS) | set(HOLD) | liveness == set(MODELS)


A, B = (1, "a"), (2, "b")
BEFORE = Content({"f": (A, B), "g": (A,)}, {"f": frozenset({1})})
WRONG: dict[str, tuple[Content, str, str]] = {
    "a row is live again": (Content(BEFORE.files, {}), "OVERWRITE", "live again"),
    "a file is other": (Content({"f": (B, B), "g": (A,)}, BEFORE.deleted), "OVERWRITE", "has changed"),
    "an addition deletes": (replace(BEFORE, deleted={"f": frozenset({0, 1})}), "APPEND", "an addition"),
    "an addition removes": (Content({"f": (A, B)}, BEFORE.deleted), "APPEND", "an addition"),
    "a compaction revives": (Content({"h": (A, A, B)}), "COMPACT", "a compaction changes rows"),
    "a compaction loses": (Content({"h": (A,)}), "COMPACT", "a compaction changes rows"),
    "a compaction deletes": (replace(BEFORE, deleted={"f": frozenset({0, 1})}), "COMPACT", "a compaction"),
    "a vector of no file": (Content({"g": (A,)}, BEFORE.deleted), "OVERWRITE", "which is not live"),
    "a position too far": (replace(BEFORE, deleted={"f": frozenset({1, 2})}), "OVERWRITE", "beyond its rows"),
}


@covers("APP-13", "APP-21")
@pytest.mark.parametrize("name", WRONG)
def test_a_pair_of_snapshots_that_is_no_step_is_named(name: str) -> None:
    after, kind, problem = WRONG[name]
    assert problem in str(problem_of_step(BEFORE, after, kind))


def test_steps_are_accepted() -> None:
    assert problem_of_step(BEFORE, Content({"h": (A, A)}), "COMPACT") is None
    assert problem_of_step(BEFORE, replace(BEFORE, files={**BEFORE.files, "h": (B,)}), "APPEND") is None
    assert problem_of_step(BEFORE, replace(BEFORE, deleted={"f": frozenset({0, 1})}), "OVERWRITE") is None
    assert BEFORE.meaning() == {A: 2}


@covers("APP-24", "APP-25", "APP-32")
def test_only_the_order_of_new_ids_is_left_open() -> None:
    rows = IdentifiedRows()
    rows.commit(1, inserted=[("a",), ("b",)])
    assert rows.choose(1, {0: (("b",), 1), 1: (("a",), 1)}) is None
    rows.commit(2, gone=[1], updated={0: ("B",)}, inserted=[("c",), ("c",)])
    assert rows.rows(2) == {("B",): 1, ("c",): 2}
    right = {0: (("B",), 2), 2: (("c",), 2), 3: (("c",), 2)}
    wrong = {
        "an old number": right | {0: (("B",), 1)},
        "another id": {4 if row_id == 0 else row_id: row for row_id, row in right.items()},
        "a deleted row": right | {1: (("a",), 1)},
        "a gap in the new ids": {5 if row_id == 3 else row_id: row for row_id, row in right.items()},
        "another new row": right | {3: (("d",), 2)},
    }
    for what, found in wrong.items():
        assert rows.choose(2, found), what
    assert rows.choose(2, right) is None
    assert rows.next_id[2] == 4
