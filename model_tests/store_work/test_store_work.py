"""Scripts do on the store what is recorded, and a record shows more work, less, and other contents."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pktable.bucket import run_writer
from pktable.catalog import retention
from pktable.catalog.snapshots import SnapshotLog
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.metadata.stats import collect_stats
from pktable.kinds import primary_key
from pktable_conform.judge.checks import CheckFailed

from model_tests.store_work.play import RECORDS, store_work_is_as_recorded
from model_tests.store_work.scripts import SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_work_on_the_store_is_as_recorded(name: str) -> None:
    store_work_is_as_recorded(name, SCRIPTS[name])


def test_each_record_is_of_a_script() -> None:
    assert {path.stem for path in RECORDS.glob("*")} == set(SCRIPTS)


def _expect(name: str, found: str) -> None:
    with pytest.raises(CheckFailed, match=found):
        store_work_is_as_recorded(name, SCRIPTS[name])


def test_a_read_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = SnapshotLog.latest

    def twice(log: SnapshotLog, *, commits: bool = False) -> Snapshot | None:
        latest(log, commits=commits)
        return latest(log, commits=commits)

    monkeypatch.setattr(SnapshotLog, "latest", twice)
    asked = "read LATEST: none, list snapshot fence schema, read LATEST: none, list fence tag manifest"
    _expect("writes", rf"-  {re.escape(asked)}, read.*\n\+  2 x \({re.escape(asked)}\), read")


def test_a_hint_that_is_not_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotLog, "hint_earliest", lambda log, snapshot: None)
    _expect(
        "expiry",
        r"-.* list snapshot, read schema-0, delete snapshot-1..4, write EARLIEST: 5\n"
        r"\+.* list snapshot, read schema-0, delete snapshot-1..4\n",
    )


def test_other_statistics_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_nulls(table: Any, fields: Any, *, truncate: int | None) -> Any:
        return replace(collect_stats(table, fields, truncate=truncate), null_counts=None)

    monkeypatch.setattr(run_writer, "collect_stats", without_nulls)
    digest = re.escape("adds data-1 level 0, 3 rows, keys [1] to [3], numbers 0 to 2 #")
    _expect("writes", rf"-  {digest}(?s:.*)\+  {digest}(?s:.*)in full: .* value stats .* nulls \[\]")


def test_a_file_that_is_left_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "remove_quietly", lambda store, paths: None)
    _expect("expiry", r"-.* delete data-2(?s:.*)\n\+.* list changelog branch\n")


def test_another_pick_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primary_key, "pick", lambda runs, options: None)
    _expect("levels", re.escape("-  adds data-4 level 4, 40 rows, keys [0] to [39], numbers 0 to 59 #"))
