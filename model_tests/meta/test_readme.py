"""The README's Python is run as it stands, on the local runner."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)


def ran(block: str, names: dict[str, object]) -> tuple[list[str], list[str]]:
    """Run a block as it stands; return what it printed, and what the comments of its ``print`` lines say."""
    expected = re.findall(r"^ *print\(.*\) +# (.*)$", block, re.M)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "README.md", "exec"), names)
    return output.getvalue().splitlines(), expected


def test_the_python_of_the_readme_prints_what_its_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}  # nothing is imported for the first block
    for block in BLOCKS:
        printed, expected = ran(block, names)
        assert printed == expected
        assert expected


def test_a_wrong_comment_is_noticed() -> None:
    printed, expected = ran("print(1)  # 2\n", {})
    assert printed != expected


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
