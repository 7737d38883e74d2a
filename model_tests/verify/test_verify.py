"""`make verify` fails on every problem that it finds, and adds up its counts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable.cli.progress import Reporter
from rich.console import Console

from model_tests.replay.test_replay import STREAM
from model_tests.tlc import suite
from model_tests.verify import suite as verification
from model_tests.verify.suite import Result, main, stored_stream, summary

GOOD = Result("good", histories=1, steps=2, snapshots=3, reads=4, real_rows=5)
BAD = Result("bad", snapshots=1, reads=1, mismatches=6)
EMPTY = Result("empty", histories=7)


def found_by(
    results: list[Result],
    monkeypatch: pytest.MonkeyPatch,
    checked: Sequence[suite.Result] = (),
    survived: Sequence[str] = (),
) -> int:
    """Run the command with all it does replaced by ``results``, for TLC ``checked``, for mutants ``survived``."""
    monkeypatch.setattr(verification, "checked_by_tlc", lambda _: checked)
    monkeypatch.setattr(verification, "drawn_histories", lambda *_: results[0])
    monkeypatch.setattr(verification, "stored_histories", lambda *_: results[1])
    monkeypatch.setattr(verification, "checkout_history", lambda _: None)
    monkeypatch.setattr(verification, "stored_stream", lambda _: None)
    monkeypatch.setattr(verification, "SEEDS", {"quick": 2})
    monkeypatch.setattr(verification, "mutants_killed", lambda _: (2, survived))
    return main("quick")


@pytest.mark.parametrize(("second", "code"), [(GOOD, 0), (BAD, 1), (EMPTY, 1)])
def test_a_mismatch_or_a_check_of_nothing_fails(
    second: Result, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_by([GOOD, second], monkeypatch) == code
    out = capsys.readouterr().out
    assert ("all checks passed" in out) == (code == 0)
    assert (f"FAILED {second.what}: " in out) == (code == 1)


def test_a_problem_that_tlc_finds_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = [suite.Result("models", 3, 70_000), suite.Result("graphs", 1, 2, 3, problems=("one differs",))]
    assert found_by([GOOD, GOOD], monkeypatch, checked) == 1
    out = capsys.readouterr().out
    assert "70,000" in out
    assert "FAILED graphs: one differs" in out


def test_a_mutant_that_survives_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_by([GOOD, GOOD], monkeypatch, survived=["M01: survived"]) == 1
    out = capsys.readouterr().out
    assert "2 of 3 mutants killed" in out
    assert "FAILED mutant M01: survived" in out


def test_the_summary_adds_up() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(summary([GOOD, BAD, EMPTY]))
    text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    total = next(line for line in text.splitlines() if "total" in line)
    assert [int(cell) for cell in total.split("│")[2:-1]] == [8, 2, 4, 5, 5, 6]


def test_an_absent_stream_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verification, "STREAM", tmp_path / "stream.parquet")
    with Reporter() as show:
        assert stored_stream(show) is None
        assert "skipped" in capsys.readouterr().err
        pq.write_table(pa.table(STREAM), tmp_path / "stream.parquet")
        found = stored_stream(show)
    assert found is not None
    assert found.commit_count == 3
