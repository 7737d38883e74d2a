"""Drawn tables with data evolution."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pktable_conform.judge.checks import CheckFailed

from model_tests.append import evolved


def test_the_newest_file_that_has_a_column_decides() -> None:
    evolved.draw(25, seed=1)


def test_a_value_of_an_older_file_is_noticed(tmp_path: Path) -> None:
    table, rows = evolved.made(tmp_path / "t", random.Random(1))
    evolved.rows_agree(table, rows, ["id", "b"], None)
    with pytest.raises(CheckFailed, match="expected"):
        evolved.rows_agree(table, [{**rows[0], "b": 9}, *rows[1:]], ["id", "b"], None)
    with pytest.raises(CheckFailed, match="expected"):
        evolved.rows_agree(table, rows[1:], ["id"], None)
