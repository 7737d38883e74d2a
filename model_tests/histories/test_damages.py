"""Every damage of a small table is told of, and a table that does not tell of one is noticed."""

from __future__ import annotations

from typing import Any

import pytest
from pktable.bucket.reader import DataReader
from pktable.catalog.snapshots import SnapshotLog

from model_tests.histories import damages
from model_tests.histories.checks import CheckFailed

NUMBER = 2


def test_every_damage_is_told_of() -> None:
    damages.draw(NUMBER, seed=1)


@pytest.mark.parametrize(
    "fault",
    [
        (SnapshotLog, "ids", lambda log: log.listed()),
        (DataReader, "_expect_rows", lambda *_: None),
    ],
    ids=["a log that has lost snapshots is shown as it is", "nobody counts the rows of a file"],
)
def test_the_damages_notice(fault: tuple[type, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault)
    with pytest.raises(CheckFailed, match=r"expected '.*found"):
        damages.draw(NUMBER, seed=1)
