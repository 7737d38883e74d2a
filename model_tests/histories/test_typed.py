"""Tables whose columns are of every type, drawn."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import Table

from model_tests.histories import typed
from model_tests.histories.checks import CheckFailed


def test_tables_of_every_type_have_the_rows_of_a_dict() -> None:
    typed.draw(25, seed=1)


def test_a_row_that_is_not_expected_is_noticed(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", dict.fromkeys("abv", "INT"), primary_key="a")
    table.upsert(pa.table({name: [1] for name in "abv"}))
    typed.rows_agree(table, {("1",): {"a": 1, "b": 1, "v": 1}}, ["a"])
    with pytest.raises(CheckFailed, match="expected"):
        typed.rows_agree(table, {("1",): {"a": 1, "b": 1, "v": 2}}, ["a"])
