"""The command line as a process: who stops reading ends it quietly, and its exit code is its own."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pktable
import pyarrow as pa
import pytest
from pktable import Table
from pktable.cli import run
from pktable.cli.progress import Reporter
from pktable.run.spark import session
from rich.console import Console

from model_tests.cli.test_cli import process
from model_tests.verify import __main__ as verification
from model_tests.verify import suite

Streams = Callable[..., None]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = Table.create(tmp_path / "table", "id INT, s STRING", primary_key=["id"])
    table.upsert(pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", "b"]}))
    return tmp_path / "table"


@pytest.fixture
def without_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """Make a stream of this process a pipe that nobody reads, with a buffer or without."""
    files: list[IO[str]] = []

    def close(*names: str, buffered: bool = False) -> None:
        for name in names:
            reading, writing = os.pipe()
            os.close(reading)
            file = os.fdopen(writing, "w", -1 if buffered else 1, encoding="utf-8")
            monkeypatch.setattr(sys, name, file)
            files.append(file)

    yield close
    for file in files:
        with suppress(BrokenPipeError):
            file.close()


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "check",
        "count",
        "read",
        "history",
        "files",
        "tag",
        "compact --full",
        "read --format csv",
        "read --help",
    ],
)
def test_a_reader_that_is_gone_ends_a_command_quietly(
    table: Path, without_reader: Streams, capsys: pytest.CaptureFixture[str], command: str, buffered: bool
) -> None:
    name, *options = command.split()
    without_reader("stdout", buffered=buffered)
    assert run([name, str(table), *options]) == 0
    sys.stdout.close()  # raises if anything has been left for a reader
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("buffered", [False, True])
def test_what_is_written_is_no_failure_when_nobody_hears_of_it(
    table: Path, tmp_path: Path, without_reader: Streams, buffered: bool
) -> None:
    (tmp_path / "rows.csv").write_text("id,s\n3,c\n")
    without_reader("stdout", buffered=buffered)
    assert run(["write", str(table), str(tmp_path / "rows.csv")]) == 0
    assert Table.open(table).count() == 3


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_findings_fail_a_check_that_nobody_reads(
    table: Path, without_reader: Streams, form: str, buffered: bool
) -> None:
    for file in table.rglob("data-*"):
        file.unlink()
    without_reader("stdout", buffered=buffered)
    assert run(["check", str(table), "--format", form]) == 1


def test_a_mistake_keeps_its_code_where_nobody_reads_of_it(table: Path, without_reader: Streams) -> None:
    shutil.rmtree(table)
    without_reader("stdout", "stderr")
    assert run(["count", str(table)]) == 2
    assert run(["nosuch"]) == 2


def test_verify_runs_make_in_the_checkout_and_returns_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "require_java", lambda: None)
    monkeypatch.setattr(pktable, "__file__", str(tmp_path / "site-packages/pktable/__init__.py"))
    monkeypatch.chdir(tmp_path)
    assert run(["verify"]) == 2  # not a checkout
    (tmp_path / "spec/clauses").mkdir(parents=True)
    makefile = tmp_path / "Makefile"
    makefile.write_text("verify:\n\t@test $(PROFILE) = deep\n")
    assert run(["verify", "--profile", "deep"]) == 0
    assert run(["verify", "--profile", "quick"]) == 1


def test_a_verification_that_nobody_reads_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, without_reader: Streams
) -> None:
    def passed(profile: str, *report: object) -> int:
        Console().print(f"all of {profile} passed")
        return 0

    monkeypatch.setattr(verification, "require_java", lambda: None)
    monkeypatch.setattr(suite, "main", passed)
    assert verification.main(["quick"]) == 0
    without_reader("stdout")
    assert verification.main(["quick"]) == 1


def test_work_goes_on_when_nobody_reads_of_its_progress(without_reader: Streams) -> None:
    without_reader("stderr")
    with Reporter() as show:
        show.say("begun")
        show("files", 1, 1)
        show.say("done")


@pytest.mark.parametrize("captured", [False, True])
def test_a_broken_pipe_of_another_kind_is_a_failure(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captured: bool
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(Table, "count", broken)
    with (tmp_path / "out").open("w") as file:
        if not captured:
            monkeypatch.setattr(sys, "stdout", file)
        assert run(["count", str(table)]) == 1


def test_a_process_without_standard_output_does_its_work(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["count", str(table)]) == 0


ABORTS_WHEN_TORN_DOWN = """
import ctypes
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
"""
ENDS_SOMETHING = """
import atexit
from pktable.cli.commands import app
@app.command()
def end():
    atexit.register(print, "ended")
    print("begun")
"""
START = "from pktable.cli import main; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="no libc")
def test_the_exit_code_is_that_of_the_command_and_of_nothing_after_it(table: Path) -> None:
    for arguments, code in ((("count", table), 0), (("count", table / "nowhere"), 2)):
        running = process(*arguments, program=("-c", ABORTS_WHEN_TORN_DOWN + START))
        out, err = running.communicate()
        assert running.returncode == code, err
        assert out == (b"" if code else b"2\n")
        assert bool(err) == bool(code)


def test_what_a_command_began_is_ended_before_the_process() -> None:
    running = process("end", program=("-c", ENDS_SOMETHING + START))
    assert running.communicate() == (b"begun\nended\n", b"")
    assert running.returncode == 0


def test_a_bug_that_is_shown_fails(table: Path) -> None:
    broken = "from pktable import Table; Table.count = lambda *_, **__: 1 / 0\n"
    running = process("count", table, program=("-c", broken + START), PKTABLE_TRACEBACK="1")
    out, err = running.communicate()
    assert (running.returncode, out) == (1, b"")
    assert b"ZeroDivisionError" in err
