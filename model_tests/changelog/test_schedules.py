"""Whatever the engine and the schedule of compactions, the changes so far give the rows above level 0."""

from __future__ import annotations

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.covers import covers

from model_tests.changelog import schedules


@covers("CHG-5", "CHG-7", "CHG-8", "CHG-9", "CHG-10", "CHG-16", "DV-20")
@pytest.mark.parametrize(("engine", "producer", "vectors"), schedules.CASES)
def test_the_changes_so_far_give_the_rows(engine: str, producer: str, vectors: str) -> None:
    schedules.draw(engine, producer, vectors, 12, seed=1)


def test_a_row_that_is_replaced_by_an_equal_one_is_noticed() -> None:
    schedules.no_row_is_replaced_by_an_equal_one(1, [("-U", 1, 2), ("+U", 1, 3), ("-D", 2, 2), ("+I", 2, 2)])
    with pytest.raises(CheckFailed, match="is followed by"):
        schedules.no_row_is_replaced_by_an_equal_one(1, [("+I", 2, 2), ("-U", 1, 2), ("+U", 1, 2)])
