"""Options that a table gets when it has commits already, drawn."""

from __future__ import annotations

import pytest
from pktable.catalog import earlier_commits
from pktable_conform.judge.checks import CheckFailed

from model_tests.histories import late_options


@pytest.mark.parametrize("seed", range(1, 4))
def test_full_compactions_come_when_they_are_due(seed: int) -> None:
    late_options.draw(seed)


@pytest.mark.parametrize("count", [0, 9])
def test_one_that_comes_too_late_or_too_early_is_noticed(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_commits, "delta_commits", lambda *_: count)
    with pytest.raises(CheckFailed, match="a full compaction was"):
        late_options.draw(1)
