"""The README's Python is run as it stands, on the local runner."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pktable.cli import run

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


def test_every_command_and_option_in_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^pktable ([\w-]+)(.*)$", README, re.M)
    assert len(lines) > 10
    for command, rest in lines:
        assert run([command, "--help"]) == 0, command
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", rest)) <= known, command


def test_every_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"make (verify|test|help|\w+(?= +#))", README)) <= targets
