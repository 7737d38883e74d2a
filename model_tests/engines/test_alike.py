"""Runs that other writers have numbered alike, drawn."""

from __future__ import annotations

import pytest
from pktable.bucket import windows
from pktable.merge.grouping import Window
from pktable_conform.judge.checks import CheckFailed

from model_tests.engines import alike

SCHEDULES = 6


def test_equal_numbers_are_decided_as_the_clauses_say() -> None:
    alike.draw(SCHEDULES, 1)


def test_records_that_stay_in_the_order_of_their_runs_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Window, "in_order", lambda window, order: window)
    with pytest.raises(CheckFailed, match=r"rows_agree: .* expected"):
        alike.draw(SCHEDULES, 1)


def test_runs_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    merge = windows.aligned
    monkeypatch.setattr(windows, "aligned", lambda context, buffers: merge(context, buffers[::-1]))
    with pytest.raises(CheckFailed, match=r"rows_agree: .* expected"):
        alike.draw(SCHEDULES, 1)
