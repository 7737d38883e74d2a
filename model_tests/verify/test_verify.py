"""`make verify` fails on every problem that it finds, and adds up its counts."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable.cli.progress import Reporter
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.history import SHAPES, History, Operation
from rich.console import Console

from model_tests.histories.failures import Failure
from model_tests.histories.profiles import PROFILES, SEED
from model_tests.mutants.registry import Kill
from model_tests.replay.test_replay import STREAM
from model_tests.tlc import suite
from model_tests.verify import suite as verification
from model_tests.verify.report import drawn
from model_tests.verify.suite import Result, main, stored_stream, summary

T = TypeVar("T")

GOOD = Result("good", histories=1, steps=2, snapshots=3, reads=4, real_rows=5)
BAD = Result("bad", snapshots=1, reads=1, mismatches=6)
EMPTY = Result("empty", histories=7)


class Here:
    """`Workers` that run everything at once in this process, where a test has replaced it."""

    def __init__(self, show: Reporter) -> None:
        self.show, self.seconds = show, {"one of them": 3.0}
        self.clauses = {"one of them": Counter({"DV-6": 5}), "mutants killed": Counter({"DV-6": 100})}

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def start(self, check: Callable[..., T], *arguments: object) -> Future[T]:
        return done(check(self.show, *arguments))


def done(result: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(result)
    return future


def found_by(
    results: list[Result],
    monkeypatch: pytest.MonkeyPatch,
    checked: Sequence[suite.Result] = (),
    survived: Sequence[str] = (),
    report: Path | None = None,
) -> int:
    """Run the command with all it does replaced by ``results``, for TLC ``checked``, for mutants ``survived``."""
    monkeypatch.setattr(verification, "Workers", Here)
    monkeypatch.setattr(verification, "checked_by_tlc", lambda _: checked)
    monkeypatch.setattr(verification, "drawn_histories", lambda *_: results[0])
    monkeypatch.setattr(verification, "stored_histories", lambda *_: results[1])
    monkeypatch.setattr(verification, "real_input", lambda *_: None)
    monkeypatch.setattr(verification, "SEEDS", {"quick": 2})
    monkeypatch.setattr(verification, "TYPED", {"quick": 2})
    ends = {**dict.fromkeys(("M01a", "M01b"), Kill("reads_agree", "1", True, 3)), **dict.fromkeys(survived)}
    monkeypatch.setattr(verification, "mutants_killed", lambda _: ends)
    return main("quick", report)


@pytest.mark.parametrize(("second", "code"), [(GOOD, 0), (BAD, 1), (EMPTY, 1)])
def test_a_mismatch_or_a_check_of_nothing_fails(
    second: Result, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_by([GOOD, second], monkeypatch) == code
    out = capsys.readouterr().out
    assert "took longest: one of them 3 s, TLC 0 s; all " in out
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
    assert found_by([GOOD, GOOD], monkeypatch, survived=["M02"]) == 1
    out = capsys.readouterr().out
    assert "2 of 3 mutants killed" in out
    assert "FAILED mutant M02: survived" in out


HISTORY = History(
    SHAPES["int"],
    {"bucket": "1", "deletion-vectors.enabled": "true", "num-levels": "3"},
    [
        Operation("write", (("+I", (1, "one")), ("+I", (2, "two")), ("+I", (3, "three")))),
        Operation("begin compaction", full=True, job="c"),
        Operation("commit", job="c"),
        Operation("damage file", number=3),
        Operation("write", (("-D", (2, None)),)),
    ],
)


def test_a_run_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Failure.of(HISTORY, "spark", CheckFailed("reads_agree", ("RD-1",), "rows <lost>"))
    checked = [suite.Result("models", 3, 70_000, run=1, machine=2)]
    failed = replace(BAD, failures=(failure,))
    assert found_by([GOOD, failed], monkeypatch, checked, ["M02"], tmp_path) == 1
    assert f"report: {tmp_path / 'report.html'}" in " ".join(capsys.readouterr().out.split())
    facts = json.loads((tmp_path / "report.json").read_text())
    assert (facts["passed"], facts["profile"], facts["clauses"]["DV-6"]) == (False, "quick", 5)
    assert facts["mutants"]["M01a"]["step"] == 3
    assert facts["mutants"]["M02"] is None
    assert facts["tlc"][0]["states"] == 70_000
    assert facts["skipped"] == ["2 models and graphs were not run again: they are on record"]
    assert facts["problems"] == ["mutant M02: survived", "bad: 6 mismatches"]
    assert {"commit", "Python", "pyarrow"} <= facts["versions"].keys()
    assert "seed" in facts["seeds"]["local"]
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "rows &lt;lost&gt;" in page
    assert '<li class="skipped">2 models' in page
    assert "5 of 5: write -D 2 null" in page
    assert "f1: position 1 is deleted" in page
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert {one.get("name") for one in cases if one.find("failure") is not None} == {"M02", "bad"}
    assert [one.get("classname") for one in cases if one.find("skipped") is not None] == ["skipped"]


def test_a_history_that_cannot_be_drawn_is_shown_as_text() -> None:
    assert "It cannot be drawn" in drawn(Failure("{}", "local", "wrong"))


def test_the_summary_adds_up() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(summary([GOOD, BAD, EMPTY]))
    text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    total = next(line for line in text.splitlines() if "total" in line)
    assert [int(cell) for cell in total.split("│")[2:-1]] == [8, 2, 4, 5, 5, 6]


def test_parts_are_all_of_a_profile_and_draw_differently(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter() as show:
        quick, deep = (verification.parts_of("local", profile, show) for profile in ("quick", "deep"))
    assert quick == [PROFILES["local", "quick"]]
    assert sum(part.histories for part in deep) == PROFILES["local", "deep"].histories
    assert {part.seed for part in deep} == {None}
    whole = replace(PROFILES["local", "quick"], histories=250)
    divided = [part.seed for part in verification.divided(whole, 100)]
    assert divided == [SEED, SEED + 1, SEED + 2]
    assert "64 histories" in capsys.readouterr().err


def test_parts_are_added_up() -> None:
    found = verification.together([done(GOOD), done(BAD)])
    assert found == Result("good", 1, 2, 4, 5, mismatches=6, real_rows=5)


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
