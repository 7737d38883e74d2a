"""Reads and compactions decode what they need, in drawn schedules."""

from __future__ import annotations

import pytest
from pktable.bucket import locate, read
from pktable.bucket.locate import Locator
from pktable.catalog import file_bounds
from pktable_conform.judge.checks import CheckFailed

from model_tests.histories import work

SCHEDULES = 6


def test_nothing_is_decoded_in_vain() -> None:
    work.draw(SCHEDULES, 1)


def test_rows_that_statistics_rule_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "rows_that_may_match", lambda *_: None)
    with pytest.raises(CheckFailed, match=r"read_decodes_no_more: .* decoded in vain"):
        work.draw(SCHEDULES, 1)


def test_columns_that_are_read_before_keys_are_found_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "key_equalities", lambda *_: None)
    with pytest.raises(CheckFailed, match=r"read_decodes_no_more: .* decoded in vain"):
        work.draw(SCHEDULES, 1)


def test_row_groups_without_the_keys_of_a_lookup_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "greatest_of_row_groups", lambda *_: None)
    with pytest.raises(CheckFailed, match=r"compaction_does_no_more: .* decoded in vain"):
        work.draw(SCHEDULES, 1)


def test_a_lookup_that_goes_on_after_the_live_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    to_the_end = Locator.locate
    monkeypatch.setattr(Locator, "locate", lambda self, keys, ends: to_the_end(self, keys))
    with pytest.raises(CheckFailed, match=r"compaction_does_no_more: .* in vain"):
        work.draw(SCHEDULES, 1)


def test_a_guess_that_is_far_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bounds, "PIECES", 1)
    with pytest.raises(CheckFailed, match=r"guess_is_near: .* guessed"):
        work.draw(SCHEDULES, 1)
