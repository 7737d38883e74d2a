"""Upkeep whose process dies half-way, and reads of what expires concurrently, drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pktable import CorruptFileError
from pktable.catalog.fences import FenceLog
from pktable.catalog.retention import Expiry
from pktable.catalog.snapshots import SnapshotLog
from pktable_conform.judge.checks import CheckFailed

from model_tests.histories import upkeep

NUMBER = 6


def test_upkeep_that_died_is_done_again_and_leaves_nothing() -> None:
    upkeep.draw(NUMBER, seed=1)


FAULTS: dict[str, tuple[int, Any, str, Callable[..., Any]]] = {
    "an expiry forgets what one that died has left": (2, FenceLog, "ended_as", lambda *_: False),
    "an expiry deletes what tags keep": (0, Expiry, "needed_by_tag", lambda *_: set()),
    "a read of what has expired is damage": (3, SnapshotLog, "expired_error", lambda *_: None),
}
"""A seed that shows the fault, and what is replaced by what."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_schedules_notice(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, *patch = FAULTS[fault]
    upkeep.play(random.Random(seed))
    monkeypatch.setattr(*patch)
    with pytest.raises((CheckFailed, CorruptFileError)):
        upkeep.play(random.Random(seed))
