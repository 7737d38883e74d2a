"""Tables that change their shape, drawn: buckets of every kind, columns, branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pktable import postponed
from pktable.bucket import moving
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.errors import PkTableError

from model_tests.backends.spark_session import spark_session
from model_tests.histories import reshaping
from model_tests.seeded import cases

NUMBER = cases(12)


def test_tables_of_every_shape_read_as_the_oracle_says() -> None:
    reshaping.draw(NUMBER, seed=4)


@pytest.mark.spark
@pytest.mark.deep("a fault of the executors' code where keys move, rows wait, or columns have changed")
def test_tables_of_every_shape_read_as_the_oracle_says_on_spark() -> None:
    for seed in range(3):
        reshaping.play(random.Random(seed), spark=spark_session(), runner="spark")


FAULTS: dict[str, tuple[int, Any, str, Callable[..., Any]]] = {
    "keys stay where they are": (0, moving, "moves", moving.stays),
    "rows that wait are taken in another order": (
        5,
        postponed,
        "in_order",
        lambda files: tuple(files[::-1]),
    ),
}
"""A seed that shows the fault, and what is replaced by what."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_histories_notice(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, *patch = FAULTS[fault]
    reshaping.play(random.Random(seed))
    monkeypatch.setattr(*patch)
    with pytest.raises((CheckFailed, PkTableError)):
        reshaping.play(random.Random(seed))
