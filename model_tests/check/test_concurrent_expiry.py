"""A check of a table whose snapshots expire while it runs: what has gone with them is no damage, and the rest is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import SnapshotNotFoundError, Table
from pktable.check import bucket, walk
from pktable.table import check
from pktable_spec.covers import covers

Step = tuple[Any, str]
STEPS: dict[str, Step] = {
    "before the files are looked for": (walk, "check_bucket"),
    "after their rows were read": (bucket, "check_keys"),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", "id INT, v INT", primary_key="id")
    for value in range(4):
        table.upsert([{"id": one, "v": value} for one in range(3)])
        table.compact(full=True)
    return table


def before(monkeypatch: pytest.MonkeyPatch, step: Step, work: Callable[[], object]) -> None:
    original = getattr(*step)

    def replaced(*args: Any) -> Any:
        work()
        return original(*args)

    monkeypatch.setattr(*step, replaced)


@covers("CMT-15")
@pytest.mark.parametrize("step", STEPS)
def test_files_of_snapshots_that_expire_during_a_check_are_no_damage(
    table: Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before(monkeypatch, STEPS[step], lambda: table.expire_snapshots(retain_last=1))
    assert not check(table.path).errors
    assert len(table.snapshots()) == 1


@covers("CMT-15")
def test_a_file_of_a_snapshot_that_stays_is_missed_all_the_same(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expires_and_loses() -> None:
        table.expire_snapshots(retain_last=1)
        for file in Path(table.path).rglob("data-*"):
            file.unlink()

    before(monkeypatch, STEPS["before the files are looked for"], expires_and_loses)
    report = check(table.path)
    assert [one.snapshots for one in report.findings if one.severity == "error"] == [
        (table.snapshots()[-1].id,)
    ]


def test_a_check_of_one_snapshot_that_expires_says_so(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before(
        monkeypatch,
        STEPS["before the files are looked for"],
        lambda: table.expire_snapshots(retain_last=1),
    )
    with pytest.raises(SnapshotNotFoundError):
        check(table.path, snapshot=table.snapshots()[0].id)
