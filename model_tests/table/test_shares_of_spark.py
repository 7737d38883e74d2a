"""Many small files are read by the kernel on the executors, all others by Spark's own scan. The rows are the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import Table
from pktable.run.spark import shares
from pktable_spec.covers import covers
from pyspark.sql import DataFrame

from model_tests.backends.spark_session import spark_session

pytestmark = pytest.mark.spark

DV = {"deletion-vectors.enabled": "true"}
BUCKETS = shares.MANY_FILES
ROWS = 20 * BUCKETS
SCAN = "FileScan parquet"


def rows(keys: range, text: str) -> pa.Table:
    texts = ["${env:HOME}" if key == 7 else f"{text} {key}" for key in keys]
    return pa.table({"k": pa.array(keys, pa.int32()), "s": texts})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two small files in each bucket, of which the older one has deleted positions."""
    path = tmp_path_factory.mktemp("small")
    table = Table.create(path, "k INT, s STRING", primary_key=["k"], options={**DV, "bucket": str(BUCKETS)})
    for every, text in ((1, "old"), (3, "new")):
        table.upsert(rows(range(0, ROWS, every), text))
    assert sum(table.files()["deleted_row_count"].to_pylist()) == len(range(0, ROWS, 3))
    return path


def plan_of(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain()
    return capsys.readouterr().out


@covers("RD-1", "RD-6", "RD-7", "RD-12", "DV-1")
@pytest.mark.parametrize("where", [None, "s LIKE 'new 1%'", "s = '${env:HOME}'", "k > 1000"])
def test_the_rows_of_many_small_files_are_those_of_a_read_without_spark(
    path: Path, where: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shares, "MANY_FILES", 1)  # of those that a condition leaves
    table = Table.open(path, spark=spark_session())
    expected = Table.open(path).to_arrow(where=where).sort_by("k").to_pylist()
    assert expected
    by_kernel = table.read(where=where, runner="spark")
    assert SCAN not in plan_of(by_kernel, capsys)
    monkeypatch.setattr(shares, "SMALL_FILE_BYTES", 100)
    by_scan = table.read(where=where, runner="spark")
    assert SCAN in plan_of(by_scan, capsys)
    assert by_kernel.schema == by_scan.schema
    for frame in (by_kernel, by_scan):
        assert sorted((row.asDict() for row in frame.collect()), key=lambda row: row["k"]) == expected
    columns = table.read(columns=["s"], where=where, runner="spark").columns
    assert columns == ["s"]


@pytest.mark.versions
@covers("RD-12")
def test_few_files_are_left_to_spark(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shares, "MANY_FILES", 2 * BUCKETS + 1)
    table = Table.open(path, spark=spark_session())
    assert SCAN in plan_of(table.read(runner="spark"), capsys)


@covers("RD-8", "RD-12")
def test_those_of_a_table_with_partitions_are_left_to_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table.create(
        tmp_path,
        "k INT, s STRING",
        primary_key=["k", "s"],
        partition_by=["s"],
        options={**DV, "bucket": str(BUCKETS)},
        spark=spark_session(),
    )
    for text in ("a", "b"):
        table.upsert(pa.table({"k": pa.array(range(ROWS), pa.int32()), "s": [text] * ROWS}))
    assert table.files().num_rows > BUCKETS
    frame = table.read(runner="spark")
    assert SCAN in plan_of(frame, capsys)
    assert frame.where("s = 'b'").count() == ROWS


@covers("APP-2", "RD-12", "STM-1")
def test_an_update_finds_rows_in_many_small_files(tmp_path: Path) -> None:
    options = {**DV, "bucket": str(BUCKETS), "bucket-key": "k"}
    table = Table.create(tmp_path, "k INT, s STRING", primary_key=None, options=options)
    table.append(rows(range(ROWS), "old"))
    assert table.files().num_rows == BUCKETS
    on_spark = Table.open(tmp_path, spark=spark_session(), runner="spark")
    on_spark.update({"s": "upper(s)"}, where="s LIKE 'old 1%'")
    on_spark.delete(where="k % 2 = 0")
    found = table.to_arrow().sort_by("k").to_pylist()
    assert [row["k"] for row in found] == list(range(1, ROWS, 2))
    assert {row["s"][:5] for row in found if str(row["k"]).startswith("1")} == {"OLD 1"}
    assert not any(row["s"].startswith("OLD") for row in found if not str(row["k"]).startswith("1"))
