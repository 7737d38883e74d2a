"""A result of TLC is taken from a record only for the very same input, and a record decides nothing by itself."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import checker, counterexamples, record, state_graph, suite
from model_tests.tlc.checker import Code, check
from model_tests.tlc.models import PASSES, Expected, Model, code_of, load

MODELS = {model.name: model for model in load()}
SMALL = Model("small", "", "Levels", {"MaxLevel": 1}, Expected(PASSES, 2), invariants=("TypeOK",))
FAILURE = (Code.INVARIANT[0], 1, "Invariant TypeOK is violated.")


def said(*messages: tuple[int, int, str], states: int = 2) -> str:
    """Return what TLC prints."""
    ends = (
        (Code.STATISTICS, 0, f"9 states generated, {states} distinct states found"),
        (Code.FINISHED, 0, ""),
    )
    return "".join(
        f"@!@!@STARTMSG {code}:{severity} @!@!@\n{text}\n@!@!@ENDMSG {code} @!@!@\n"
        for code, severity, text in (*messages, *ends)
    )


PASSED = said((Code.SUCCESS, 0, ""))


class Tlc:
    """Prints `prints`, and counts how often it ran."""

    def __init__(self) -> None:
        self.prints, self.runs = PASSED, 0

    def __call__(self, folder: Path, *arguments: str) -> str:
        self.runs += 1
        return self.prints


@pytest.fixture
def tlc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Tlc]:
    """Take TLC's place, on a machine without a record."""
    fake = Tlc()
    monkeypatch.setattr(checker, "run_tlc", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with record.using("machine"):
        yield fake


def file_of(place: Path) -> Path:
    (found,) = (place / "pktable" / "tlc").iterdir()
    return found


def test_every_model_and_graph_is_on_the_record_of_the_repository_as_expected() -> None:
    stored, problems = record.stored(), []
    for model in MODELS.values():
        entry = record.found_in(stored, "models", model.name, suite.key_of(model))
        problems.append(checker.of_entry(model, entry).problem if entry else f"{model.name}: not on record")
        if entry and counterexamples.is_kept(model):
            stale = entry["history"] != counterexamples.digest(counterexamples.path_of(model))
            problems.append(f"{model.name}: another history is stored" if stale else None)
    problems += [
        f"{name}: not on record"
        for name in state_graph.SCOPES
        if not record.found_in(stored, "graphs", name, state_graph.key_of(name))
    ]
    assert [one for one in problems if one] == [], "run make tla"
    assert {kind: len(stored[kind]) for kind in ("models", "graphs")} == {
        "models": len(MODELS),
        "graphs": len(state_graph.SCOPES),
    }


def test_a_model_is_run_once_and_compared_each_time(tlc: Tlc) -> None:
    assert [check(SMALL).source for _ in range(2)] == ["run", "machine"]
    assert check(replace(SMALL, expected=Expected("TypeOK", 2))).problem is not None
    assert check(replace(SMALL, name="other", expected=Expected(PASSES, 3))).problem is not None
    assert tlc.runs == 1
    assert check(SMALL, again=True).source == "run"
    with record.using("none"):
        assert check(SMALL).source == "run"


@pytest.mark.parametrize(
    ("model", "modules"),
    [
        (replace(SMALL, constants={"MaxLevel": 2}), {}),
        (replace(SMALL, invariants=("Other",)), {}),
        (replace(SMALL, replaces={"Merge": "Forget"}), {}),
        (replace(SMALL, extends="Levels, TLC"), {}),
        (SMALL, {"Levels.tla": "---- MODULE Levels ----"}),
        (SMALL, {"Engines.tla": "---- MODULE Engines ----"}),  # of Records, which Levels extends
    ],
)
def test_another_model_or_module_is_run(model: Model, modules: dict[str, str], tlc: Tlc) -> None:
    check(SMALL)
    assert check(model, modules).source == "run"


def test_a_module_that_is_not_read_does_not_count(tlc: Tlc) -> None:
    check(SMALL)
    assert check(SMALL, {"Commit.tla": "---- MODULE Commit ----"}).source == "machine"


def test_a_comment_is_no_part_of_a_key() -> None:
    def key(text: str) -> str:
        return record.key_of({**SMALL.files(), "Model.tla": text})

    module = '---- MODULE Model ----\n(* a (* b *) \\* c *) X == "(* d"  \\* e (*\nY == 1 (* f\n*)\n====\n'
    assert code_of(module) == f'---- MODULE Model ----\n{" " * 21}X == "(* d"\nY == 1\n\n====\n'
    for old, new, same in (
        ("\\* e (*", "\\* another", True),
        ("f\n*)", "*)\n", True),
        ("(* a ", "(* another ", False),  # what follows stands in another column
        ("(* d", "(* g", False),
        ("Y == 1", "Y == 2", False),
        ("f\n", "f\n\n", False),
    ):
        assert old in module
        assert (key(module.replace(old, new)) == key(module)) == same, old


def test_another_jar_or_flag_is_another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = {record.key_of(SMALL.files()), record.key_of(SMALL.files(), "-continue")}
    (tmp_path / "tlc.jar").write_bytes(b"PK")
    monkeypatch.setenv("PKTABLE_TLC_JAR", str(tmp_path / "tlc.jar"))
    assert len(keys | {record.key_of(SMALL.files())}) == 3


@pytest.mark.parametrize(
    ("prints", "source"),
    [
        (said(FAILURE), "machine"),
        (said((Code.ASSUMPTION[0], 1, "Assumption line 1 is false.")), "machine"),
        ("Java failed: it ended", "run"),
        (PASSED.partition("@!@!@STARTMSG 2199")[0], "run"),
        (said((1000, 1, "TLC threw an unexpected exception.")), "run"),
        (said((Code.ASSUMPTION[1], 1, "java.lang.StackOverflowError")), "run"),
    ],
)
def test_a_run_that_ended_otherwise_is_no_record_of_the_model(prints: str, source: str, tlc: Tlc) -> None:
    tlc.prints = prints
    first = check(SMALL)
    assert first.problem is not None
    again = check(SMALL)
    assert (again.source, again.problem) == (source, first.problem)


@pytest.mark.parametrize("damage", ["cut", "changed", "another", "version"])
def test_a_damaged_or_foreign_file_is_said_and_not_used(
    damage: str, tlc: Tlc, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(SMALL)
    path = file_of(tmp_path)
    whole = path.read_bytes()
    stored = json.loads(gzip.decompress(whole))
    others = {"another": {**stored, "key": "0" * 64}, "version": {"states": 2}}
    changed = gzip.compress(json.dumps(others.get(damage)).encode())
    path.write_bytes({"cut": whole[:-9], "changed": whole[:40] + b"!" + whole[41:]}.get(damage, changed))
    assert check(SMALL).source == "run"
    assert "expected a record of TLC" in capsys.readouterr().err
    assert (
        path.read_bytes() == whole or json.loads(gzip.decompress(path.read_bytes()))["key"] == stored["key"]
    )
    assert check(SMALL).source == "machine"


def test_without_a_place_for_a_record_everything_is_run(
    tlc: Tlc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [check(SMALL).source for _ in range(2)] == ["run", "run"]
    assert capsys.readouterr().err.count("is not kept") == 1


def test_the_record_of_the_repository_is_for_ci_and_a_tenth_is_run_again(
    tlc: Tlc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(record.VARIABLE, raising=False)
    for variable, value, used in (("CI", "", "machine"), ("CI", "true", "repository")):
        monkeypatch.setenv(variable, value)
        assert record.used() == used
    some = list(MODELS.values())[::3]
    entries = {model.name: {"key": suite.key_of(model), **stored_of(model)} for model in some}
    monkeypatch.setattr(record, "stored_once", lambda: {"models": entries})
    sources = Counter(suite.checked(model, {}).source for model in some)
    assert tlc.runs == sources["run"] == sum(record.is_due("models", model.name) for model in some)
    assert sources["run"] < len(some) / 3
    assert sources["repository"] == len(some) - sources["run"]
    monkeypatch.setattr(
        record, "stored_once", lambda: {"models": {n: {**e, "key": ""} for n, e in entries.items()}}
    )
    assert "repository" not in {suite.checked(model, {}).source for model in some}


def stored_of(model: Model) -> dict[str, object]:
    history = counterexamples.path_of(model)
    kept = {"history": counterexamples.digest(history)} if counterexamples.is_kept(model) else {}
    return {"violated": model.expected.violated, "states": model.expected.states, "reached": "", **kept}


def test_every_commit_repeats_another_tenth() -> None:
    names = [f"models {name}" for name in MODELS]
    repeated = [
        {name for name in names if record.is_repeated(name, commit)} for commit in map(str, range(150))
    ]
    assert set().union(*repeated) == set(names)
    assert len(names) / 13 < sum(map(len, repeated)) / len(repeated) < len(names) / 8


def test_an_entry_of_the_repository_is_compared_and_its_history_must_be_the_stored_one(
    tlc: Tlc, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS["C12 an upsert deletes nothing"]
    monkeypatch.setattr(record, "is_due", lambda *_: False)
    entry = {"key": suite.key_of(model), **stored_of(model)}
    with record.using("repository"):
        for change, source, problem in (
            ({}, "repository", False),
            ({"states": 1}, "repository", True),
            ({"violated": PASSES}, "repository", True),
            ({"history": "of another trace"}, "run", True),
        ):
            stored = {"models": {model.name: {**entry, **change}}}
            monkeypatch.setattr(record, "stored_once", lambda stored=stored: stored)
            found = suite.checked(model, {})
            assert (found.source, found.problem is not None) == (source, problem)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 0, "models": {}}', '{"version": 1, "models": {"one": 2}}']
)
def test_a_record_of_the_repository_that_is_none_is_said_and_not_used(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checked.json").write_text(text)
    assert record.stored(tmp_path / "checked.json") == {}
    assert "expected a record of TLC" in capsys.readouterr().err


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written: dict[str, dict[str, dict[str, Any]]] = {
        "models": {"one": {"key": "k", "states": 3}, "two": {}},
        "graphs": {"three": {"states": "x"}},
    }
    record.store(written, tmp_path / "checked.json")
    assert record.stored(tmp_path / "checked.json") == written
    assert len((tmp_path / "checked.json").read_text().splitlines()) == 8


def test_numbers_of_probes_are_written_as_ranges() -> None:
    assert suite.as_ranges({1, 2, 3, 7, 9, 10}) == "1-3 7 9-10"
    assert suite.in_ranges("1-3 7 9-10") == {1, 2, 3, 7, 9, 10}
    assert suite.in_ranges(suite.as_ranges(())) == set()


def test_a_graph_with_an_edge_less_has_another_digest_of_its_edges() -> None:
    states, edges = state_graph.graph_of("retractions below level 0")
    whole = state_graph.digests_of((states, edges))
    fewer = state_graph.digests_of((states, edges - {next(iter(edges))}))
    assert (fewer["states"], fewer["edges"] == whole["edges"]) == (whole["states"], False)


def test_the_repository_does_not_make_its_record_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "check_coverage", pytest.fail)
    with record.using("repository"), pytest.raises(InvalidRequestError, match="made from whole runs"):
        suite.run(write=True)
