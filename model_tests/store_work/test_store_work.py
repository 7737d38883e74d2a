"""Scripts do on the store what is recorded, and a record shows more work, less, and other contents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pktable.bucket import run_writer
from pktable.catalog import retention
from pktable.catalog.snapshots import SnapshotLog
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.metadata.stats import collect_stats
from pktable.kinds import primary_key

from model_tests.histories.checks import CheckFailed
from model_tests.store_work.play import RECORDS, store_work_is_as_recorded
from model_tests.store_work.scripts import SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_work_on_the_store_is_as_recorded(name: str) -> None:
    store_work_is_as_recorded(name, SCRIPTS[name])


def test_each_record_is_of_a_script() -> None:
    assert {path.stem for path in RECORDS.glob("*")} == set(SCRIPTS)


def _expect(name: str, *lines: str) -> None:
    with pytest.raises(CheckFailed) as found:
        store_work_is_as_recorded(name, SCRIPTS[name])
    for line in lines:
        assert line in found.value.message.splitlines()


def test_a_read_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = SnapshotLog.latest

    def twice(log: SnapshotLog) -> Snapshot | None:
        latest(log)
        return latest(log)

    monkeypatch.setattr(SnapshotLog, "latest", twice)
    _expect("writes", "+read snapshot/LATEST")


def test_a_hint_that_is_not_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotLog, "hint_earliest", lambda log, snapshot: None)
    _expect("expiry", "-write snapshot/EARLIEST")


def test_other_statistics_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_nulls(table: Any, fields: Any, *, truncate: int | None) -> Any:
        return replace(collect_stats(table, fields, truncate=truncate), null_counts=None)

    monkeypatch.setattr(run_writer, "collect_stats", without_nulls)
    with pytest.raises(CheckFailed, match=r"nulls \[0, 1\]"):
        store_work_is_as_recorded("writes", SCRIPTS["writes"])


def test_a_file_that_is_left_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "remove_quietly", lambda store, paths: None)
    _expect("expiry", "-delete bucket-0/data-<1>-0.parquet")


def test_another_pick_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primary_key, "pick", lambda runs, options: None)
    with pytest.raises(CheckFailed, match="levels: the work on the store has changed"):
        store_work_is_as_recorded("levels", SCRIPTS["levels"])
