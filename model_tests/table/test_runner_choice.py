"""A read with a session is answered by this process if it is small, otherwise by Spark, with the same rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.catalog import file_bounds
from pktable.run import by_size
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

ROWS = 12_000
COLUMNS = "k BIGINT, s STRING, d DECIMAL(12, 2), f DOUBLE, t TIMESTAMP(6), z TIMESTAMP_LTZ(6), b BYTES, a ARRAY<INT>"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of two buckets, with vectors, and nulls in every column but the key."""
    path = tmp_path_factory.mktemp("choice")
    options = {"deletion-vectors.enabled": "true", "bucket": "2"}
    table = Table.create(path, COLUMNS, primary_key=["k"], options=options)
    moment = dt.datetime(2024, 2, 29, 12, 30, 0, 5)
    columns: list[list[Any]] = [
        [f"text {k % 50}" for k in range(ROWS)],
        [Decimal(k) / 100 for k in range(ROWS)],
        [float("nan") if k % 9 == 4 else k / 7 for k in range(ROWS)],
        [moment + dt.timedelta(seconds=k) for k in range(ROWS)],
        [moment.replace(tzinfo=dt.timezone.utc) + dt.timedelta(days=k % 900) for k in range(ROWS)],
        [bytes([k % 256]) for k in range(ROWS)],
        [[k, None] for k in range(ROWS)],
    ]
    schema = table.schema.arrow_schema
    arrays = [
        pa.array([None if k % 11 == i else v for k, v in enumerate(column)], schema.field(i + 1).type)
        for i, column in enumerate(columns)
    ]
    rows = pa.table([pa.array(range(ROWS), pa.int64()), *arrays], schema=schema)
    table.upsert(rows)
    table.delete(where="k % 10 = 3")
    return path


@pytest.fixture
def table(path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    spark = spark_session()
    monkeypatch.setattr(by_size, "SMALL_BYTES", 32 << 20)
    monkeypatch.setattr(by_size, "FOUND_ROWS", 10_000)
    return Table.open(path, spark=spark)


def is_local(frame: Any, capsys: pytest.CaptureFixture[str]) -> bool:
    """Return whether a DataFrame holds its rows, and Spark reads no file for them."""
    capsys.readouterr()
    frame.explain()
    plan = capsys.readouterr().out
    assert "Physical Plan" in plan
    return "FileScan parquet" not in plan


READS: list[tuple[dict[str, Any], bool]] = [
    ({"where": "k = 4321"}, True),
    ({"where": "k = 4323"}, True),  # deleted
    ({"where": "k IN (5, 77, 11999, 500000)", "columns": ["s", "k"]}, True),
    ({"where": "s = 'text 7'", "columns": ["k", "t", "z", "d"]}, True),
    ({"columns": ["k"], "limit": 100_000}, False),
    ({"where": "k >= 0", "columns": ["k", "s"]}, False),  # finds too many rows
    ({}, False),
]


@pytest.mark.spark
@covers("RD-9", "RD-12", "RD-6")
@pytest.mark.parametrize(("asked", "local"), READS)
def test_either_runner_gives_the_same_rows_and_types(
    table: Table, asked: dict[str, Any], local: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = {runner: table.read(**asked, runner=runner) for runner in (None, "local", "spark")}
    assert {runner: is_local(frame, capsys) for runner, frame in frames.items()} == {
        None: local,
        "local": True,
        "spark": False,
    }
    assert len({str(frame.schema.jsonValue()) for frame in frames.values()}) == 1
    arrow = {runner: table.to_arrow(**asked, runner=runner) for runner in (None, "local", "spark")}
    assert len({str(found.schema) for found in arrow.values()}) == 1
    wanted = sorted(map(repr, arrow["local"].to_pylist()))
    assert all(sorted(map(repr, found.to_pylist())) == wanted for found in arrow.values())
    for frame in frames.values():
        assert sorted(map(repr, frame.toArrow().cast(arrow["local"].schema).to_pylist())) == wanted
    assert {table.count(**asked, runner=runner) for runner in (None, "local", "spark")} == {len(wanted)}


@pytest.mark.spark
@covers("RD-9")
def test_a_read_of_a_tiny_table_is_answered_here_and_one_of_more_bytes_is_not(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = Table.create(tmp_path, "k INT", primary_key=["k"], spark=spark_session())
    tiny.upsert(pa.table({"k": pa.array([1, 2], pa.int32())}))
    assert is_local(tiny.read(), capsys)
    monkeypatch.setattr(by_size, "SMALL_BYTES", 1 << 10)
    assert not is_local(table.read(where="k = 4321"), capsys)
    text = table.scan(where="k = 4321").explain()
    assert "runner: spark (" in text
    assert "beyond the limits of 1,024 bytes" in text


@pytest.mark.versions
@pytest.mark.spark
@covers("RD-12", "RD-9")
@pytest.mark.parametrize(("last", "shuffles"), [(800, True), (4000, False)])
def test_rows_that_were_read_here_are_one_partition_unless_they_are_very_few(
    table: Table, last: int, shuffles: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = table.read(columns=["k"], where=f"k <= {last}")
    assert is_local(frame, capsys)
    assert sorted(row.k for row in frame.collect()) == [k for k in range(last + 1) if k % 10 != 3]
    frame.selectExpr("sum(k)").explain()
    assert ("Exchange" in capsys.readouterr().out) == shuffles


@pytest.mark.spark
@covers("RD-12", "TBL-21")
@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_delete_finds_its_rows_here_where_a_frame_of_them_would_be_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, runner: str
) -> None:
    spark = spark_session()
    monkeypatch.setattr(by_size, "TINY_BYTES", 100)
    monkeypatch.setattr(by_size, "SMALL_BYTES", 100 if runner == "spark" else 32 << 20)
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], spark=spark)
    numbers = pa.array(range(5000), pa.int32())
    table.upsert(pa.table({"k": numbers, "v": numbers}))
    assert "runner of a DataFrame: spark (" in table.scan(where="v % 2 = 1").explain()
    with caplog.at_level("DEBUG", logger="pktable"):
        table.delete(where="v < 4000 AND v <> 7")
    assert f"statement: {runner} (" in caplog.text
    assert ("bytes of Arrow" in caplog.text) == (runner == "local")
    assert sorted(table.to_arrow()["k"].to_pylist()) == [7, *range(4000, 5000)]


@pytest.mark.spark
@covers("RD-16")
def test_an_explanation_says_who_answers_and_what_ruled_files_out(table: Table) -> None:
    text = table.scan(where="k = 4321").explain()
    assert "runner: local (" in text
    assert "ruled out: 1 by bucket" in text
    assert "vectors: 1 of files to read" in text
    text = table.scan().explain()
    assert "runner: local (" in text
    assert "runner of a DataFrame: spark (DataFrame of 12,000 rows" in text
    assert "runner: spark (asked for)" in table.scan(runner="spark").explain()


def test_a_runner_that_is_not_there_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"])
    table.upsert({"k": 1})
    assert table.to_arrow(runner="local").num_rows == 1
    assert "runner: local (the table was opened without Spark)" in table.scan().explain()
    with pytest.raises(InvalidRequestError, match="opened without Spark"):
        table.to_arrow(runner="spark")
    with pytest.raises(InvalidRequestError, match="runner: expected local or spark, found 'flink'"):
        table.scan(runner="flink")


@pytest.mark.spark
@covers("RD-12", "RD-9")
def test_a_guess_of_few_rows_that_is_wrong_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file_bounds, "PAGE_ROWS", 100)
    monkeypatch.setattr(by_size, "FOUND_ROWS", 50)
    options = {"deletion-vectors.enabled": "true", "bucket": "1"}
    table = Table.create(
        tmp_path, "k BIGINT, n BIGINT", primary_key=["k"], options=options, spark=spark_session()
    )
    keys = [*range(20_000), 1 << 60]  # all but one are in a small part of the range
    table.upsert(pa.table({"k": keys, "n": keys}))
    monkeypatch.setattr(by_size, "SMALL_BYTES", 40_000)
    assert "runner of a DataFrame: local (" in table.scan(where="k BETWEEN 3 AND 9").explain()
    assert is_local(table.read(where="k BETWEEN 3 AND 9"), capsys)
    many = table.read(where="k BETWEEN 3 AND 9000")
    assert not is_local(many, capsys)
    assert many.count() == 8998
    assert "runner of a DataFrame: spark (" in table.scan(where="n BETWEEN 3 AND 9").explain()
