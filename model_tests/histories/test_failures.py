"""A history that fails is kept as a file, and the file replays to the same failure as long as the fault is there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pktable.cli.progress import Reporter
from pktable_conform.judge.history import History

from model_tests import corpus
from model_tests.backends.tables import BACKENDS
from model_tests.histories import failures
from model_tests.histories.__main__ import main
from model_tests.histories.failures import DIRECTORY, Failure
from model_tests.histories.profiles import PROFILES, Profile
from model_tests.mutants import MUTANTS
from model_tests.verify import suite

TINY = Profile("tiny", histories=20, steps=8, reread_limit=1, seed=1)
FAULT = MUTANTS["S1"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where failures are kept; it does not exist before there is one."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "failures"))
    monkeypatch.setitem(PROFILES, ("local", TINY.name), TINY)
    return tmp_path / "failures"


def the_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_a_drawn_history_that_fails_is_kept_and_replays_to_the_same_failure(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FAULT.inject(), Reporter() as show:
        assert suite.drawn_histories(show, "local", TINY, TINY.histories).mismatches == 1
    printed = capsys.readouterr().err
    path = the_file(directory)
    assert f"python -m model_tests.histories --replay {path}" in printed
    message = json.loads(path.read_text("utf-8"))["message"]
    assert message in printed

    with FAULT.inject():
        assert main(["--replay", str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == message.splitlines()
    assert main(["--replay", str(path)]) == 0
    assert capsys.readouterr().out.endswith("nothing failed\n")


def test_the_command_for_histories_keeps_them_too(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FAULT.inject():
        assert main(["local", TINY.name]) == 1
    assert str(the_file(directory)) in capsys.readouterr().out


def test_what_does_not_fail_is_not_kept(directory: Path) -> None:
    with Reporter() as show:
        assert suite.drawn_histories(show, "local", replace(TINY, histories=2), 2).mismatches == 0
    assert not directory.exists()


def test_a_stored_history_that_fails_is_kept_with_its_message(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = corpus.names()[0]
    monkeypatch.setattr(corpus, "names", lambda: [name])
    monkeypatch.setattr(suite, "spark_backend", BACKENDS["local"])
    monkeypatch.setattr(suite, "replay_history", fails)
    with Reporter() as show:
        assert suite.stored_histories(show).mismatches == 1
    stored = json.loads(the_file(directory).read_text("utf-8"))
    assert History.from_json(stored) == corpus.load(name)
    assert (stored["message"], stored["backend"]) == ("AssertionError: two\nlines", "spark")


def fails(*arguments: object) -> None:
    raise AssertionError("two\nlines")


def test_without_a_directory_the_history_is_printed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY, raising=False)
    assert failures.kept(Failure("{}", "local", "m")) == "{}"


def test_a_directory_that_cannot_be_made_is_no_failure_of_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "file"))
    text = failures.kept(Failure('{"table": 1}', "local", "m"))
    assert "could not be kept" in text
    assert '{"table": 1}' in text


def test_a_corpus_file_is_replayed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    path = corpus.FOLDER / f"{corpus.names()[0]}.json"
    assert main(["--replay", str(path), "model"]) == 0
    assert capsys.readouterr().out.startswith("model: ")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ((), "expected --replay FILE"),
        (("absent.json",), "No such file"),
        (("list.json",), "no history"),
        (("empty.json",), "no history"),
        (("text.json",), "Expecting value"),
        ((str(corpus.FOLDER / f"{corpus.names()[0]}.json"), "cluster"), "not cluster"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_the_callers_mistake(
    arguments: tuple[str, ...],
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"list.json": "[]", "empty.json": "{}", "text.json": "x"}.items():
        Path(name).write_text(text)
    assert main(["--replay", *arguments]) == 2
    assert wrong in capsys.readouterr().err
