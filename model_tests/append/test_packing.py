"""Which files a compaction of an append table takes, drawn."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pktable.lsm import plan
from pktable_conform.judge.checks import CheckFailed

from model_tests.append import packing

SCHEDULES = 25


def test_files_are_taken_as_the_clauses_say() -> None:
    packing.draw(SCHEDULES, 1)


@pytest.mark.parametrize(("name", "to"), [("SMALL_SHARE", Fraction(8, 10)), ("is_above", lambda *_: False)])
def test_another_choice_is_noticed(name: str, to: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, name, to)
    with pytest.raises(CheckFailed, match="taken"):
        packing.draw(SCHEDULES, 1)
