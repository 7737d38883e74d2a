"""Work on a table that others change each time it is planned, drawn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pktable import CommitConflictError, Table, staged
from pktable.catalog.isolation import Isolation
from pktable.staged import StagedCompaction
from pktable_conform.judge.checks import CheckFailed

from model_tests.histories import contests

OPTIONS = {"deletion-vectors.enabled": "true"}


def test_work_is_done_once_or_given_up_and_leaves_nothing() -> None:
    contests.draw(8, seed=1)


def test_a_statement_that_undoes_what_others_write_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Isolation, "conflicts", lambda *_: {})
    with pytest.raises(CheckFailed, match="expected"):
        contests.draw(12, seed=1)


def test_a_compaction_that_leaves_its_files_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StagedCompaction, "discard", lambda self: setattr(self, "changes", ()))
    with pytest.raises(CheckFailed, match="files that nobody needs"):
        contests.draw(12, seed=1)


def test_work_on_a_disk_that_fills_up_leaves_nothing() -> None:
    contests.fill_disks(seed=1)


def test_what_such_work_leaves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "remove_quietly", lambda *_: None)
    with pytest.raises(CheckFailed, match="files that nobody needs"):
        contests.fill_disks(seed=1)


def test_work_that_is_given_up_too_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = contests.Contest(
        Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options=OPTIONS), random.Random(1)
    )
    error: Any = CommitConflictError(contests.GAVE_UP["compact"], 0, "")
    contest.gave_up_rightly("compact", error, contests.ATTEMPTS, sure=True)
    with pytest.raises(CheckFailed, match="given up after others acted 1 times"):
        contest.gave_up_rightly("compact", error, 1, sure=True)
    with pytest.raises(CheckFailed, match="done, though others won 8 times"):
        contest.gave_up_rightly("compact", None, contests.SURELY, sure=True)
