"""Branches that no model reaches, and conditions that never come out both ways, are found.

Here in small modules; ``make tla`` does it for those of spec/tla.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import coverage, suite
from model_tests.tlc.checker import check
from model_tests.tlc.coverage import Point, Probes, Span, Unreached
from model_tests.tlc.models import PASSES, Expected, Model, load

SMALL = r"""---- MODULE Small ----
EXTENDS Naturals
VARIABLE x
Init == x = 0
Even(n) == IF n % 2 = 0 THEN TRUE
           ELSE \/ n = 7  \* a bullet after a comment
                \/ n > 9 /\ n < 0
Step ==
  /\ x < 3
  /\ IF Even(x) THEN x' = x + 1 ELSE /\ x' = x + 1
                                     /\ x > 0
Never == x > 5 /\ x' = 0
Next == Step \/ Never
Spec == Init /\ [][Next]_x
Small == x \in 0..3
====
"""


def probed(folder: Path, text: str) -> list[str]:
    """Return what a model of one module does not reach."""
    (folder / "Small.tla").write_text(text, "utf-8")
    probes = coverage.probes(frozenset({"Small"}), folder)
    model = Model("small", "", "Small", {}, Expected(PASSES, 4), invariants=("Small",))
    found = check(model, probes.modules)
    assert found.problem is None
    return [str(one) for one in probes.unreached(coverage.numbers_in(found.printed))]


def test_an_action_that_is_never_taken_and_a_branch_that_is_never_reached_are_found(tmp_path: Path) -> None:
    assert probed(tmp_path, SMALL) == [
        "Small.tla:6: never true: \\/ n = 7 \\/ n > 9 /\\ n < 0",
        "Small.tla:6: never true: n = 7",
        "Small.tla:7: never evaluated: n < 0",
        "Small.tla:7: never true: n > 9",
        "Small.tla:7: never true: n > 9 /\\ n < 0",
        "Small.tla:11: never false: x > 0",
        "Small.tla:12: never true: x > 5",
        "Small.tla:12: never evaluated: x' = 0",
    ]


def test_a_module_that_sany_cannot_read_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "Small.tla").write_text("---- MODULE Small ----\nA == B\n====\n", "utf-8")
    with pytest.raises(InvalidRequestError, match=r"Small\.tla: expected a module that SANY reads, found"):
        coverage.probes(frozenset({"Small"}), tmp_path)


def test_probes_leave_the_states_and_the_trace_of_a_model_as_they_are() -> None:
    model = next(one for one in load() if one.name == "C12 an upsert deletes nothing")
    plain, with_probes = check(model), check(model, coverage.probes(coverage.roots_of([model])).modules)
    assert with_probes.problem is None
    assert (with_probes.states, with_probes.trace) == (plain.states, plain.trace)
    assert coverage.numbers_in(with_probes.printed)
    assert not coverage.numbers_in(plain.printed)


def test_a_reason_without_a_gap_and_a_gap_without_a_reason_are_problems(tmp_path: Path) -> None:
    allowed = tmp_path / "unreached.json"
    allowed.write_text(json.dumps({"A": {"never true: x": "because"}}), "utf-8")
    gap = Unreached("A", 3, "x", "never true")
    assert coverage.problems([gap], allowed) == []
    assert coverage.problems([gap._replace(text="y")], allowed) == [
        "A.tla:3: never true: y",
        "unreached.json: A: never true: x: is reached, or no longer there",
    ]


def test_a_condition_is_reached_if_it_came_out_both_ways() -> None:
    span = Span("A", 1, 1, 1, 1)
    probes = Probes({}, [Point(span, True, "p"), Point(span, False, "q")])
    assert probes.unreached({1, 2, 3}) == []
    assert [one.verdict for one in probes.unreached({1})] == ["never false", "never evaluated"]
    assert [one.verdict for one in probes.unreached({2, 3})] == ["never true"]


def test_a_step_of_make_tla_fails_where_a_branch_is_not_reached() -> None:
    model = next(one for one in load() if one.name == "C12 an upsert deletes nothing")
    probes = coverage.probes(coverage.roots_of([model]))
    result = suite.check_reached(probes, [check(model, probes.modules)])
    assert any("Bucket.tla" in problem for problem in result.problems)
