"""What `make test` leaves out is named with its fault, and what a run tells at its end is right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_tests import budget

ROOT = Path(__file__).parents[2]
README = (ROOT / "model_tests" / "README.md").read_text("utf-8")


def faults(path: Path) -> Iterator[str]:
    """Yield the fault that each mark ``deep`` of a file names, empty for one that names none."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.deep":
            (fault,) = node.args
            yield ast.literal_eval(fault)
    bare = path.read_text("utf-8").count("mark.deep") - path.read_text("utf-8").count("mark.deep(")
    yield from [""] * bare


def test_the_readme_names_the_faults_that_only_make_deep_finds() -> None:
    marked = {
        (path.relative_to(ROOT / "model_tests").as_posix(), fault)
        for path in sorted((ROOT / "model_tests").rglob("test_*.py"))
        if path != Path(__file__)
        for fault in faults(path)
    }
    rows = [
        line for line in README.partition("make deep` alone finds")[2].splitlines() if line.startswith("| `")
    ]
    named = {tuple(cell.strip().strip("`") for cell in row.strip("|").split("|")) for row in rows}
    assert named == marked


def test_a_mark_without_a_fault_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text("@pytest.mark.deep\ndef test_it(): ...\n", "utf-8")
    assert list(faults(path)) == [""]
    path.write_text("@pytest.mark.deep('it breaks')\ndef test_it(): ...\n", "utf-8")
    assert list(faults(path)) == ["it breaks"]


def test_what_took_longest_and_what_is_beyond_its_budget_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS", {"cli": 20.0, "table": 1.0})
    spent = {
        "model_tests/cli/test_a.py::test_one[1]": 3.0,
        "model_tests/cli/test_a.py::test_one[2]": 4.0,
        "model_tests/cli/test_a.py::test_two": 11.0,
        "model_tests/table/test_b.py::test_three": 2.0,
    }
    assert budget.told(spent) == [
        "cli 18  table 2",
        "  11.0 s     1 cases  model_tests/cli/test_a.py::test_two",
        "   7.0 s     2 cases  model_tests/cli/test_a.py::test_one",
        "   2.0 s     1 cases  model_tests/table/test_b.py::test_three",
    ]
    one = "model_tests/cli/test_a.py::test_two: 11.0 s of 10"
    assert budget.beyond(spent, folders=False) == [one]
    assert budget.beyond(spent, folders=True) == [one, "table: 2 s of 1"]


def test_each_folder_of_tests_has_a_budget() -> None:
    folders = {path.parent.name for path in (ROOT / "model_tests").glob("*/test_*.py")}
    assert folders - set(budget.SECONDS) == set()
