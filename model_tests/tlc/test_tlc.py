"""The TLA+ modules and the oracle, held against each other; all of it runs in ``make tla``.

Here: one model that must hold, one that must fail, the graphs with a fault put in, and the runner
itself given bad input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.invariants import broken, broken_by_step
from pktable_spec.model.mechanism import Mechanism
from pktable_spec.model.options import ModelOptions

from model_tests.oracle import mechanism_faults as faults
from model_tests.oracle.max_engine import ForgetsRetractions
from model_tests.tlc import checker, counterexamples, jar, models, record, state_graph, suite
from model_tests.tlc.__main__ import main
from model_tests.tlc.checker import Outcome, check
from model_tests.tlc.values import parse, spelled, variables

MODELS = {model.name: model for model in models.load()}


@covers("CMT-7", "CMT-8", "CMT-9", "DV-12")
def test_paimons_commit_rule_fails_for_two_compactors_within_seconds() -> None:
    found = check(MODELS["C3 two compactors, Paimon's rule"])
    assert found.problem is None
    assert found.trace[-1].action == "CommitCompaction"


def test_a_model_that_holds_is_no_failure_and_its_states_are_counted() -> None:
    model = MODELS["old table, compacted"]
    small = replace(model, constants={**model.constants, "WriteLimit": 1})
    found = check(replace(small, expected=models.Expected("passes", 4)))
    assert found.violated == "passes"
    assert found.problem == f"{model.name}: expected 4 states, found {found.states}"


@covers("MRG-4", "CMP-13")
def test_an_engine_that_is_assumed_lawful_and_is_not_is_refused() -> None:
    model = MODELS["max of a column, retraction forgotten"]
    found = check(replace(model, replaces={"Deduplicate": "ForgetsRetractions"}))
    assert re.fullmatch(r"TLC failed: Assumption line .* of module Engines is false\.", found.violated)


@pytest.mark.parametrize("hold", [True, False])
def test_the_readme_has_the_table_of_models(hold: bool) -> None:
    table = models.as_markdown(list(MODELS.values()), hold=hold)
    assert table in (models.FOLDER / "README.md").read_text("utf-8"), f"README.md: expected\n{table}"


def test_every_property_that_holds_is_seen_violated_by_another_model() -> None:
    assert suite.check_coverage(models.load()).problems == ()


def on_record(name: str, mechanism: Callable[[ModelOptions], Mechanism] | None = None) -> tuple[bool, bool]:
    """Whether the states, and the edges, of the oracle's graph are those that TLC has found."""
    entry = record.found_in(record.stored(), "graphs", name, state_graph.key_of(name))
    assert entry is not None, f"{name}: not on record: run make tla"
    found = state_graph.digests_of(state_graph.graph_of(name, mechanism))
    return found["states"] == entry["states"], found["edges"] == entry["edges"]


@covers("CMT-19", "CMT-33", "CMT-2", "CMT-10", "CMT-14", "CMP-1", "CMP-2", "CMP-9", "DV-6", "DV-10")
@covers("LSM-5", "LSM-10", "LSM-4", "MRG-2", "MRG-6", "DV-7", "DV-8")
@pytest.mark.parametrize(
    ("fault", "scope"),
    [
        (faults.ForgetsMarks, "two compactors"),
        (faults.IgnoresVectorsOfInputs, "two compactors"),
        (faults.KeepsVectorsOfRewrittenFiles, "two compactors"),
        (faults.UpgradesRetractions, "two compactors"),
        (faults.CommitsBlindly, "two compactors"),
        (faults.RenumbersRows, "many deleted rows"),
        (faults.NumbersWhenBegun, "two writers"),
        (faults.ComparesWhatIsLeft, "own compactions"),
        (faults.LetsRetractionsWinTies, "equal numbers"),
        (faults.LetsTheLaterFileWinTies, "equal numbers"),
        (faults.TakesRetractionsForRows, "retractions below level 0"),
        (faults.ForgetsDeletions, "sequence.field"),
        (faults.TakesDeeperForOlder, "sequence.field"),
        (faults.ComparesLiveRows, "sequence.field"),
        (faults.ShowsRetractions, "sequence.field"),
        (faults.ForgetsDeletions, "sequence.field, no vectors"),
    ],
)
def test_a_fault_of_the_oracle_shows_in_its_graph(fault: type[Mechanism], scope: str) -> None:
    assert on_record(scope, fault) == (False, False)


@pytest.mark.parametrize("scope", ["max of a column", "max of a column, no vectors"])
def test_a_broken_merge_engine_of_the_oracle_shows_in_its_graph(scope: str) -> None:
    def broken_engine(options: ModelOptions) -> Mechanism:
        return Mechanism(replace(options, merge_engine=ForgetsRetractions(0)))

    assert on_record(scope, broken_engine) == (False, False)


def test_the_graph_of_the_oracle_is_the_one_on_record_and_tlc_shows_a_difference() -> None:
    scope = "retractions below level 0"
    assert on_record(scope) == (True, True)
    found = state_graph.compare(scope, faults.TakesRetractionsForRows)
    assert found.source == "run"
    assert found.states_of_one
    assert found.edges_of_one
    assert found.problem is not None
    with record.using("machine"):  # TLC's graph is on record now
        again = state_graph.compare(scope)
    assert (again.states, again.edges, again.problem, again.source) == (363, 382, None, "machine")


def test_a_comparison_of_nothing_has_not_passed() -> None:
    assert state_graph.Comparison(1, 0, frozenset(), frozenset()).problem == "compared nothing"


CULPRITS: dict[str, type[Mechanism]] = {
    "C2 two writers, numbers of their own": faults.NumbersWhenBegun,
    "C3 two compactors, Paimon's rule": faults.ChecksInputsOnly,
    "C3 dangling vector": faults.ChecksInputsOnly,
    "C4 index unchanged is not enough": faults.ChecksBaseVectorsOnly,
    "C5 vectors of another compaction lost": faults.IgnoresChangedVectors,
    "C9 retraction dropped, row kept": faults.MarksNoDeletes,
    "C10 vector of a rewritten file kept": faults.KeepsVectorsOfRewrittenFiles,
    "C10 vector for a row of the same compaction": faults.MarksInputs,
    "C11 inputs read without their vectors": faults.IgnoresVectorsOfInputs,
    "C12 an upsert deletes nothing": faults.ForgetsMarks,
    "C14 commit against a stale snapshot": faults.CommitsBlindly,
    "B44 index a snapshot before its data": faults.VectorsOneSnapshotEarly,
    "C17 gap in the numbers": faults.ComparesWhatIsLeft,
    "C17 level 0 alone": faults.LooksBehindAtLevelZero,
    "vectors of siblings dropped": faults.DropsSiblingVectors,
}


def stored(name: str) -> dict[str, Any]:
    history: dict[str, Any] = json.loads(counterexamples.path_of(MODELS[name]).read_text("utf-8"))
    return history


@covers("CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-18", "CMT-33", "DV-4", "DV-6", "DV-10", "DV-12")
@pytest.mark.parametrize("name", CULPRITS)
def test_a_stored_counterexample_breaks_the_faulty_oracle_and_no_other(name: str) -> None:
    history, culprit = stored(name), CULPRITS[name]
    violated = re.sub("(?<!^)([A-Z])", r"_\1", history["violated"]).lower()
    states = list(counterexamples.replay(history, culprit))
    for step, state in zip(history["steps"], states, strict=True):
        if "live" in step:
            assert counterexamples.shown(state) == (step["live"], step["vectors"])
    options = ModelOptions(num_levels=history["table"]["levels"])
    assert violated in {
        *broken(culprit(options), states[-1]),
        *broken_by_step(culprit(options), *states[-2:]),
    }
    sound = list(counterexamples.replay(history, Mechanism))
    assert {name for state in sound for name in broken(Mechanism(options), state)} == set()
    assert {name for pair in pairwise(sound) for name in broken_by_step(Mechanism(options), *pair)} == set()


def test_every_model_that_must_fail_has_a_stored_history_and_no_other_is_stored() -> None:
    kept = {counterexamples.path_of(model) for model in MODELS.values() if counterexamples.is_kept(model)}
    assert set(counterexamples.STORED.glob("*.json")) == kept


def test_a_stored_history_that_is_not_the_trace_of_tlc_is_a_problem(tmp_path: Path) -> None:
    model = MODELS["C12 an upsert deletes nothing"]
    found = check(model)
    assert counterexamples.problems([found], all_of_them=False) == []
    path = counterexamples.path_of(model, tmp_path)
    assert counterexamples.problems([found], tmp_path) == [
        f"{model.name}: expected a history {path.name}, found none"
    ]
    path.write_text(counterexamples.as_text(counterexamples.history(found)), "utf-8")
    path.write_text(path.read_text("utf-8").replace('"c1"', '"c2"', 1), "utf-8")
    assert counterexamples.problems([found], tmp_path) == [
        f"{model.name}: expected the trace of TLC in {path.name}, found another"
    ]
    (tmp_path / "other.json").write_text("{}", "utf-8")
    assert "other.json: no model has this history" in counterexamples.problems([found], tmp_path)


def test_another_jar_is_refused_by_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "tla2tools.jar"
    wrong.write_bytes(b"PK")
    with pytest.raises(InvalidRequestError, match=f"{wrong}: sha256: expected {jar.SHA256}, found [0-9a-f]+"):
        jar.checked(wrong)
    monkeypatch.setenv(jar.VARIABLE, str(tmp_path / "none.jar"))
    with pytest.raises(InvalidRequestError, match="expected a jar of TLC, found no file"):
        jar.tlc_jar()


def test_without_java_one_line_says_so_and_the_exit_code_is_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["C12"]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"expected java in {tmp_path}/bin (JAVA_HOME), which TLC needs, found none\n"


@pytest.mark.parametrize("arguments", [["no such model"], ["--unknown"], ["--keep", "folder"]])
def test_bad_arguments_are_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expected": None}, "expected 'violated' and 'states'"),
        ({"expected": {"violated": "Nothing", "states": 1}}, "expected Nothing among what it checks"),
        ({"invariants": [], "properties": []}, "among what it checks"),
        ({"invariant": ["KeysAreLiveOnce"]}, "found unknown invariant"),
    ],
)
def test_a_model_without_an_expected_result_is_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    entry = json.loads((models.FOLDER / "models.json").read_text("utf-8"))["models"]["two writers"]
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"models": {"one": {**entry, **change}}}), "utf-8")
    with pytest.raises(InvalidRequestError, match=message):
        models.load(path)
    del entry["expected"]
    path.write_text(json.dumps({"models": {"one": entry}}), "utf-8")
    with pytest.raises(InvalidRequestError, match="found no expected"):
        models.load(path)


def test_what_tlc_cannot_read_is_no_result() -> None:
    model = replace(MODELS["two writers"], replaces={"Nobody": "Knows"})
    found = check(model)
    assert found.violated.startswith("TLC failed: ")
    assert found.problem is not None


def test_an_outcome_compares_the_name_and_the_number_of_states() -> None:
    model = MODELS["C12 an upsert deletes nothing"]
    right = Outcome(model, model.expected.violated, model.expected.states, 0.0)
    assert right.problem is None
    assert "expected KeysAreLiveOnce, found passes" in str(replace(right, violated="passes").problem)
    assert f"expected {right.states} states" in str(replace(right, states=1).problem)


def test_values_are_read_as_they_are_spelled() -> None:
    value = (1, -2, "a b", True, frozenset({(1, 2)}))
    assert parse(spelled(value)) == value
    assert variables('/\\ a = <<1,\n 2>>\n/\\ b = (c1 :> [k |-> {}] @@ c2 :> "x")') == {
        "a": (1, 2),
        "b": {"c1": {"k": frozenset()}, "c2": "x"},
    }
    for wrong in ("<<1", "[a |-> ]", "1 2", "{1;2}"):
        with pytest.raises(ValueError, match="expected"):
            parse(wrong)


def test_a_missing_jar_is_said_before_any_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(model: models.Model) -> Outcome:
        raise AssertionError(f"ran {model.name}")

    monkeypatch.setenv(jar.VARIABLE, "/nowhere/tla2tools.jar")
    with pytest.raises(InvalidRequestError):
        checker.run_models(models.load(), checked=ran)
