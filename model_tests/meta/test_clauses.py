"""The clauses as values: all of them, each whole, from the repository and from what a wheel holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pktable.cli import run
from pktable_spec import clauses as module
from pktable_spec.clauses import as_json, clause, clauses, requirements
from pktable_spec.errors import InvalidRequestError
from pktable_spec.trace import defined

ROOT = Path(__file__).parents[2]


def test_every_clause_is_there_with_its_requirement() -> None:
    assert {id: one.force for id, one in clauses().items()} == defined(ROOT).force
    for one in clauses().values():
        if not one.force.startswith("withdrawn"):
            assert (
                one.sentence.count("MUST") + one.sentence.count("SHOULD") + one.sentence.count("MAY") == 1
            ), one
        assert one.topic
    assert requirements() == {id: one.sentence for id, one in clauses().items()}


def test_a_clause_is_its_requirement_what_explains_it_and_the_places_that_cite_it() -> None:
    found = clause("dv-16")
    assert (found.id, found.force) == ("DV-16", "must")
    assert found.topic == "Deletion vectors: What they may name"
    assert found.sentence == "A bucket MUST have at most one DV index file in a snapshot."
    assert found.why.startswith("The exception is the partitions of an append table")
    assert "model_tests/conform/test_reader_mode.py" in found.places["tests"]
    with pytest.raises(InvalidRequestError, match=r"expected the id of a clause, such as .*; found 'DV-0x'"):
        clause("DV-0x")


def test_what_a_wheel_holds_is_what_the_repository_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dict(clauses())
    (tmp_path / "clauses.json").write_text(as_json(expected), "utf-8")
    monkeypatch.setattr(module, "STORED", tmp_path / "clauses.json")
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    assert clauses.__wrapped__() == expected


def test_the_command_prints_a_clause_and_refuses_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clause", "DVF-5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("DVF-5 (must), ")
    assert "fixtures: containers" in text
    assert "vector-crc" in text
    assert run(["clause", "DV-5", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["sentence"].startswith("A data file MUST have at most one")
    assert run(["clause", "X-1"]) == 2
    assert "expected the id of a clause" in capsys.readouterr().err


def test_a_trace_of_nothing_fails(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pktable_spec.trace", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected clauses in" in done.stderr
