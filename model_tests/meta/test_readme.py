"""The README's sessions are run as they stand, on the local runner."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sessions = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert len(sessions) > 1
    test = doctest.DocTestParser().get_doctest("".join(sessions), {"pa": pa}, "README.md", None, None)
    found = doctest.DocTestRunner(verbose=False).run(test)
    assert (found.failed, found.attempted > 5) == (0, True)


def test_every_folder_in_the_readme_exists() -> None:
    for folder in re.findall(r"^\| `([\w/]+)` \|", README, re.M):
        assert (ROOT / folder).is_dir(), folder


def test_every_command_in_the_readme_exists() -> None:
    from pktable.cli.commands import app

    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert set(re.findall(r"^pktable ([\w-]+)", README, re.M)) <= known
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"make (verify|test|help|\w+(?= +#))", README)) <= targets
