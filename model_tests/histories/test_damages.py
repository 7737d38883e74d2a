"""Every damage of a small table is reported, and a table that does not report one is noticed."""

from __future__ import annotations

import pytest
from pktable.catalog.snapshots import SnapshotLog

from model_tests.histories import damages
from model_tests.histories.checks import CheckFailed

NUMBER = 2


def test_every_damage_is_reported() -> None:
    damages.draw(NUMBER, seed=1)


def test_a_log_that_is_shown_without_what_it_has_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotLog, "ids", lambda log: log.listed())
    with pytest.raises(CheckFailed, match=r"expected 'snapshots: .*found nothing"):
        damages.draw(NUMBER, seed=1)
