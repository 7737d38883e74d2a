"""The front page, the manual and the READMEs: their Python is run as it stands, and what they name is there.

A block marked ``python`` is run. One marked ``py`` needs a cluster or a store, and is compiled only.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pktable.cli import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs/command-line.md").read_text("utf-8")
MANUAL = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGES.md", *MANUAL)
LINES = 150
"""The front page has at most so many."""


def blocks(text: str, mark: str = "python") -> list[str]:
    return re.findall(rf"^```{mark}\n(.*?)^```", text, re.M | re.S)


WITH_PYTHON = [page for page in (*PAGES, "spec/README.md") if blocks((ROOT / page).read_text("utf-8"))]


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
    promised = 0
    for block in blocks((ROOT / page).read_text("utf-8")):
        printed, expected = ran(block, names)
        assert printed == expected
        promised += len(expected)
    assert promised


@pytest.mark.parametrize("page", PAGES)
def test_python_that_is_not_run_is_python(page: str) -> None:
    for block in blocks((ROOT / page).read_text("utf-8"), "py"):
        compile(block, page, "exec")


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
    sources = [*ROOT.glob("model_tests/*/*.py"), *ROOT.glob("spec/pktable_conform/judge/*.py")]
    source = "".join(path.read_text("utf-8") for path in sources)
    checks = re.findall(r"`(\w+_\w+)`", faults)
    assert len(checks) > 5
    assert [name for name in checks if f"def {name}(" not in source] == []


def test_every_command_and_option_in_the_manual_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^pktable ([\w-]+)(.*)$", COMMANDS + README, re.M)
    assert len(lines) > 10
    for command, rest in lines:
        assert run([command, "--help"]) == 0, command
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", rest)) <= known, command


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGES.md"])
def test_every_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", (ROOT / page).read_text("utf-8"), re.M)) <= targets


def test_the_front_page_is_short_and_says_how_to_verify() -> None:
    assert len(README.splitlines()) <= LINES
    assert set(re.findall(r"^make (\w+)", README, re.M)) >= {"verify", "test", "deep"}


def test_the_index_of_the_manual_has_a_line_for_each_page() -> None:
    listed = re.findall(r"^\| \[.*?\]\((\S+?)\) \|", (ROOT / "docs/README.md").read_text("utf-8"), re.M)
    assert sorted(f"docs/{page}" for page in ("README.md", *listed)) == list(MANUAL)


def anchors(text: str) -> set[str]:
    """Return what a link may name of a page: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(root: Path) -> list[str]:
    """Return the links to files that are not there, or to headings that their pages do not have."""
    wrong = []
    for path in sorted({*root.glob("*.md"), *root.glob("[!.]*/**/*.md")}):
        for link in re.findall(r"\[[^\]]*\]\(([^()\s]+)\)", path.read_text("utf-8")):
            name, _, heading = link.partition("#")
            target = path.parent / name if name else path
            if "://" not in link and not (
                target.exists() and (not heading or heading in anchors(target.read_text("utf-8")))
            ):
                wrong.append(f"{path.relative_to(root)}: {link}")
    return wrong


def test_every_link_leads_somewhere() -> None:
    assert broken_links(ROOT) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.md").write_text("# One two\n[x](docs/b.md) [x](docs/c.md) [x](#one-two) [x](#three)\n")
    (tmp_path / "docs/b.md").write_text("[x](../a.md#one-two) [x](../a.md#two) [x](https://example.org)\n")
    assert broken_links(tmp_path) == ["a.md: docs/c.md", "a.md: #three", "docs/b.md: ../a.md#two"]
