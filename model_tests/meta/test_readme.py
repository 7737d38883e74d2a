"""The Python of the READMEs is run as it stands."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pktable.cli import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
WITH_PYTHON = ("README.md", "spec/README.md")


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def ran(block: str, names: dict[str, object]) -> tuple[list[str], list[str]]:
    """Run a block as it stands; return what it printed, and what the comments of its ``print`` lines say."""
    expected = re.findall(r"^ *print\(.*\) +# (.*)$", block, re.M)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "a README", "exec"), names)
    return output.getvalue().splitlines(), expected


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_readme_prints_what_its_comments_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}  # nothing is imported for the first block
    found = blocks((ROOT / page).read_text("utf-8"))
    assert len(found) > 1
    for block in found:
        printed, expected = ran(block, names)
        assert printed == expected
        assert expected


def test_a_wrong_comment_is_noticed() -> None:
    printed, expected = ran("print(1)  # 2\n", {})
    assert printed != expected


def test_every_folder_in_the_readme_exists() -> None:
    for folder in re.findall(r"^\| `([\w/]+)` \|", README, re.M):
        assert (ROOT / folder).is_dir(), folder


def test_the_readme_of_the_tests_has_a_line_for_each_folder() -> None:
    text = (ROOT / "model_tests/README.md").read_text("utf-8")
    folders = {path.parent.name for path in (ROOT / "model_tests").glob("*/__init__.py")}
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.M)) == sorted(folders)


def test_the_files_and_checks_that_the_readme_of_the_tests_names_are_there() -> None:
    text = (ROOT / "model_tests/README.md").read_text("utf-8")
    for name in re.findall(r"`([\w/]+/\w+\.py)`", text):
        assert (ROOT / "model_tests" / name).is_file() or (ROOT / "spec" / name).is_file(), name
    faults = text.partition("A fault goes in here")[2].partition("## ")[0]
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "model_tests").glob("*/*.py"))
    checks = re.findall(r"`(\w+_\w+)`", faults)
    assert len(checks) > 5
    assert [name for name in checks if f"def {name}(" not in sources] == []


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
