"""Wrong answers to the questions of histories of append tables are noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import Table
from pktable.catalog.manifests import Manifests
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.covers import covers

from model_tests.append import questions

ROWS: list[questions.Row] = [(1, "x", 1), (2, None, None), (3, "y", 0)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(tmp_path / "t", "id BIGINT, v STRING, p INT", primary_key=None, partition_by="p")
    ids, values, partitions = zip(*ROWS, strict=True)
    made.append(pa.table({"id": ids, "v": values, "p": pa.array(partitions, pa.int32())}))
    return made


@covers("RD-6", "RD-8", "APP-2", "META-12")
def test_rows_of_each_condition_are_compared(table: Table) -> None:
    questions.partitions_are_counted(table)
    for number in range(len(questions.CHOICES)):
        questions.condition_agrees(table, ROWS, number)
    with pytest.raises(CheckFailed, match="p IS NULL"):
        questions.condition_agrees(table, ROWS[:1], 0)


def test_partitions_that_are_counted_wrong_are_noticed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manifests, "read", lambda self, meta: ())
    with pytest.raises(CheckFailed, match="counted as null"):
        questions.partitions_are_counted(table)
