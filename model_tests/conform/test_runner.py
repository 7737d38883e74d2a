"""What a runner does wrong is its own error, told by name; the kit goes on."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pktable.cli import run
from pktable_conform.archive import Archive
from pktable_conform.report import ERROR, FAIL, PASS, UNSUPPORTED, Outcome, Report, as_junit, summary
from pktable_conform.run import MOST_ERRORS
from pktable_conform.runner import Runner, RunnerError
from pktable_spec.errors import InvalidRequestError

BAD = f"{sys.executable} {Path(__file__).with_name('bad_runner.py')}"
CASES = ("--case", "pairs", "--case", "row-kinds")
WRONG = {
    "ends": "the runner ended, exit code 3, instead of answering open; it wrote …out of memory",
    "says nothing": "the runner did not answer read within 1 s",
    "says garbage": "the runner answered read by 'rows: 3'; expected a JSON object in a line",
    "answers nothing": "expected an object with id, and one of ok, refused, unsupported and error",
    "answers twice over": "expected an object with id, and one of ok, refused, unsupported and error",
    "answers another request": "answers come in the order of the requests, one each",
    "lies": "the runner says that it supports the command read, and answered unsupported: tables",
    "gives numbers": "expected values that are strings or null, found 1",
    "gives no rows": "read: expected rows, a list of lists of values, found {'rows': [1]}",
    "fails": "the runner failed to read: NullPointerException",
}


@pytest.mark.parametrize("how", WRONG)
def test_what_a_runner_does_wrong_is_its_error(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["conform", "--runner", f"{BAD} '{how}'", *CASES, "--timeout", "1", "--format", "json"])
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert code == 1
    assert [one["status"] for one in outcomes] == [ERROR, ERROR]
    assert all(WRONG[how] in one["message"] for one in outcomes)


def test_an_answer_that_nobody_has_asked_for_is_told_of() -> None:
    runner = Runner(f"{BAD} 'answers twice'")
    try:
        runner.supports()
        runner.ask("open", table="t")
        runner.ask("read")
        time.sleep(0.5)  # its second line may be on the way
        with pytest.raises(RunnerError, match=r"before it was asked to read|an answer to request 3"):
            runner.ask("read")
    finally:
        runner.end()


def test_a_runner_is_nine_hours_ahead() -> None:
    runner = Runner(f"{BAD} 'tells its zone'")
    try:
        runner.ask("open", table="t")
        assert runner.ask("read") == 9 * 3600
    finally:
        runner.end()


def test_a_runner_that_left_before_it_was_asked_has_ended() -> None:
    runner = Runner(f"{BAD} leaves")
    try:
        runner.ask("open", table="t")
        time.sleep(0.5)  # the end of its output may be on the way
        with pytest.raises(RunnerError, match=r"^ended, exit code 4, instead of answering read$"):
            runner.ask("read")
    finally:
        runner.end()


def test_a_runner_is_given_up_after_errors_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    names = [case.name for case in Archive().cases if set(case.features) == {"keys"}][: MOST_ERRORS + 1]
    chosen = [f"--case={name}" for name in names]
    assert run(["conform", "--runner", f"{BAD} fails", *chosen, "--format", "json"]) == 1
    messages = [one["message"] for one in json.loads(capsys.readouterr().out)["outcomes"]]
    assert messages[:-1] == ["the runner failed to read: NullPointerException"] * MOST_ERRORS
    assert messages[-1] == f"the runner not asked, after {MOST_ERRORS} errors one after the other"


def test_an_answer_of_more_bytes_than_any_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pktable_conform.runner.LONGEST_ANSWER", 100)
    runner = Runner(f"{BAD} fails")
    try:
        with pytest.raises(RunnerError, match="answered supports by a line of more than 100 bytes"):
            runner.supports()
    finally:
        runner.end()


def test_a_runner_that_is_no_program_or_knows_another_protocol_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="cannot be started"):
        Runner("/nowhere/runner").supports()
    with pytest.raises(InvalidRequestError, match="expected a command line, found none"):
        Runner("")
    with pytest.raises(InvalidRequestError, match="is no command line"):
        Runner("'")


@pytest.mark.parametrize(
    ("about", "what"),
    [
        ({"protocol": 2}, "expected an object with protocol 1"),
        ({"protocol": 1, "commands": ["fly"], "features": []}, "commands: expected a list of open, read"),
        ({"protocol": 1, "commands": [], "features": "all"}, "features: expected a list of keys"),
        (
            {"protocol": 1, "commands": [], "features": [], "writes": ["orc"]},
            "writes: expected an object of parquet, orc, avro, found ['orc']",
        ),
        (
            {"protocol": 1, "commands": [], "features": [], "writes": {"orc": ["INTEGER"]}},
            "writes: orc: expected a list of BOOLEAN, TINYINT",
        ),
    ],
)
def test_what_a_runner_says_of_itself_is_read_strictly(
    about: dict[str, object], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["conform", "--runner", saying(about, tmp_path)]) == 2
    assert what in capsys.readouterr().err


def saying(about: dict[str, object], folder: Path) -> str:
    """Return the command line of a runner that says of itself what ``about`` is."""
    program = f"import json\njson.loads(input())\nprint(json.dumps({{'id': 1, 'ok': {about!r}}}), flush=True)\ninput()"
    (folder / "runner.py").write_text(program)
    return f"{sys.executable} {folder / 'runner.py'}"


def test_what_a_runner_writes_is_added_to_what_every_writer_writes(tmp_path: Path) -> None:
    about = {"protocol": 1, "commands": [], "features": []}
    for writes, expected in (
        ({}, {"parquet": {"INT", "STRING"}}),
        (
            {"writes": {"orc": ["ROW"], "avro": []}},
            {one: {"INT", "STRING"} for one in ("parquet", "avro")} | {"orc": {"INT", "STRING", "ROW"}},
        ),
    ):
        runner = Runner(saying({**about, **writes}, tmp_path))
        try:
            assert runner.supports().writes == expected
        finally:
            runner.end()


def test_names_of_cases_and_checks_are_known_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conform", "--runner", BAD, "--case", "no-such"]) == 2
    assert "--case no-such: expected a case of the archive" in capsys.readouterr().err
    assert run(["conform", "--runner", BAD, "--without", "no-such"]) == 2
    assert "or a check of compaction_took_the_pick" in capsys.readouterr().err


def test_a_case_of_the_other_mode_is_refused_with_its_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conform", "--runner", BAD, "--case", "steps-001", "--case", "pairs"]) == 2
    assert "--case steps-001: a case of --mode writer, found --mode reader" in capsys.readouterr().err
    assert run(["conform", "--runner", BAD, "--mode", "writer", "--case", "pairs"]) == 2
    assert "--case pairs: a case of --mode reader, found --mode writer" in capsys.readouterr().err


def test_a_table_that_a_runner_declines_to_create_is_unsupported(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--mode", "writer", "--case", "inserts-int", "--format", "json"]
    assert run(["conform", "--runner", f"{BAD} declines", *asked]) == 1
    (outcome,) = json.loads(capsys.readouterr().out)["outcomes"]
    assert (outcome["status"], outcome["message"]) == (
        UNSUPPORTED,
        "needs create: the option file.format",
    )


def test_a_run_that_passes_nothing_has_failed() -> None:
    skipped = Report("r", "1", (), (Outcome("a", "reader", UNSUPPORTED, message="needs append"),))
    assert skipped.failed
    assert "nothing was passed" in summary(skipped)


def test_junit_names_failures_errors_and_what_is_skipped() -> None:
    outcomes = (
        Outcome("a", "reader", PASS),
        Outcome("b", "reader", FAIL, "check", ("DV-1",), 'found "<\x00"'),
        Outcome("c", "writer", ERROR, message="ended"),
        Outcome("d", "writer", UNSUPPORTED, message="needs compact"),
    )
    suite = ElementTree.fromstring(as_junit(Report("r", "1", (), outcomes)))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert [child.tag for case in suite for child in case] == ["failure", "error", "skipped"]
