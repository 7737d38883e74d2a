"""The records of executed lines: kept as long as the code is the same, and read as the cheapest parts first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from model_tests.mutants.executed import BETWEEN, OUTSIDE, Clean
from model_tests.mutants.records import Records, state
from model_tests.mutants.trial import Bench, Wanted, work_of_tests

CLEAN = Clean(
    {"a.py": {"dear": [3], "t.py::one": [3], "t.py::two": [3], "cheap": [3, 4], OUTSIDE: [1], BETWEEN: [4]}},
    {OUTSIDE: 2.0, BETWEEN: 1.0, "dear": 7.0, "t.py::one": 1.0, "t.py::two": 2.0, "cheap": 2.0},
    ["json"],
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "spec/a.py",
        "model_tests/corpus/b.json",
        "model_tests/mutants/equivalents.json",
        "README.md",
    ):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    return tmp_path / "tree"


def test_a_record_is_found_again_and_only_by_its_name(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    assert Records(folder, root).load("tests, a") is None
    Records(folder, root).store("tests, a", CLEAN)
    assert Records(folder, root).load("tests, a") == CLEAN
    assert Records(folder, root).load("tests, b") is None


@pytest.mark.parametrize("change", ["spec/a.py", "spec/new.py", "model_tests/corpus/b.json"])
def test_a_change_of_the_code_or_of_a_stored_history_forgets_the_records(
    tmp_path: Path, root: Path, change: str
) -> None:
    folder = tmp_path / "kept"
    Records(folder, root).store("a", CLEAN)
    (root / change).write_text("2")
    assert Records(folder, root).load("a") is None
    Records(folder, root).store("b", CLEAN)
    assert len(list(folder.glob("*/*"))) == 1, "the record of the state before is removed"


def test_what_no_work_depends_on_changes_no_state(root: Path) -> None:
    before = state(root)
    (root / "README.md").write_text("2")
    (root / "model_tests/mutants/equivalents.json").write_text("2")
    (root / "spec/__pycache__").mkdir()
    (root / "spec/__pycache__/a.pyc").write_text("2")
    assert state(root) == before


def test_the_cheapest_parts_come_first_and_those_of_a_file_stay_together() -> None:
    assert CLEAN.parts("a.py", range(3, 4)) == ["cheap", "t.py::one", "t.py::two", "dear"]
    assert CLEAN.parts("a.py", range(4, 5)) == ["cheap"]
    assert CLEAN.parts("a.py", range(5, 6)) == []
    every = ["cheap", "t.py::one", "t.py::two", "dear"]
    assert CLEAN.parts("a.py", range(1, 3)) == CLEAN.parts("not_recorded.py", range(3, 4)) == every


def test_parts_take_as_long_as_they_did_with_what_is_outside_of_them() -> None:
    assert CLEAN.computed(["cheap", "dear"]) == 2.0 + 1.0 + 2.0 + 7.0
    assert CLEAN.computed([]) == 0


def test_a_trial_does_its_parts_in_the_order_asked_for(tmp_path: Path) -> None:
    bench, module = Bench(tmp_path), "spec/pktable_spec/model/options.py"

    def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
        return ", ".join(wanted or ())

    assert bench.trial(module, None, work, 60, wanted=("b", "a")).killed_by == "b, a"
    files = ["model_tests/oracle/test_picks.py", "model_tests/oracle/test_merge.py"]
    for order in (files, files[::-1]):
        killed = bench.trial(
            module, "1 / 0", work_of_tests(files), 60, wanted=[f"{file}::test" for file in order]
        )
        assert killed.killed_by == f"test the import of {order[0]}"
