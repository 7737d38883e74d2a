"""A directory is complete or not there, however many processes make it, and whichever are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from model_tests.interop.kept import kept, root

PROGRAM = """
import os, sys, time
from pathlib import Path
from model_tests.interop.kept import kept

def make(folder: Path) -> None:
    (folder / "first").touch()
    print("begun", flush=True)
    sys.stdin.readline()
    (folder / "second").write_text(str(os.getpid()))

print("started", flush=True)
print(kept("thing", ["of this"], make), flush=True)
"""


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PKTABLE_INTEROP", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pktable" / "interop"


def maker() -> subprocess.Popen[str]:
    """Start a process that makes the thing: it waits for a line when it has begun."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def fill(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "second").write_text(text)


def test_of_two_set_ups_at_once_one_makes_it_and_both_have_it(caches: Path) -> None:
    with maker() as first:
        assert [said(first), said(first)] == ["started", "begun"]
        with maker() as second:
            assert said(second) == "started"
            go_on(first)
            place = said(first)
            assert said(second) == place
    assert (Path(place) / "second").read_text() == str(first.pid)
    assert [one.suffix for one in caches.iterdir() if one.name.startswith(".")] == [".lock"]


def test_what_a_killed_set_up_leaves_is_made_again(caches: Path) -> None:
    with maker() as killed:
        assert [said(killed), said(killed)] == ["started", "begun"]
        os.kill(killed.pid, signal.SIGKILL)
    assert len(list(caches.glob(".*.part"))) == 1
    assert (kept("thing", ["of this"], fill("whole")) / "second").read_text() == "whole"
    assert not list(caches.glob(".*.part"))


def test_other_contents_are_another_directory_and_the_same_are_not_made_again() -> None:
    one = kept("thing", ["of this"], fill("one"))
    other = kept("thing", ["of that"], fill("other"))
    assert kept("thing", ["of this"], fill("again")) == one != other
    assert [(place / "second").read_text() for place in (one, other)] == ["one", "other"]


def test_a_set_up_that_fails_leaves_nothing(caches: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "first").touch()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        kept("thing", [], fail)
    assert [one.suffix for one in caches.iterdir()] == [".lock"]


def test_a_cache_of_a_relative_path_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert root() == Path.home() / ".cache" / "pktable" / "interop"
    monkeypatch.setenv("PKTABLE_INTEROP", "here")
    assert root() == Path.cwd() / "here"
