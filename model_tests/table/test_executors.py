"""The work of executors: what the driver does itself when it is tiny is sent out here, however tiny."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.run.spark import write
from pktable.run.spark.runner import SparkRunner
from pktable.run.spark.session import with_setting
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pyspark.errors import PySparkException

from model_tests.backends.spark_session import spark_session

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2", "write-buffer-size": "1 kb"}

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"

pytestmark = [pytest.mark.spark, pytest.mark.versions]


def sent_out(table: Table) -> Table:
    table.runner = table.stager.runner = SparkRunner(spark_session())
    return table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    columns = "p STRING, k INT, v STRING"
    spark = spark_session()
    return sent_out(
        Table.create(
            tmp_path, columns, primary_key=["p", "k"], partition_by=["p"], options=OPTIONS, spark=spark
        )
    )


def content(table: Table, **arguments: Any) -> dict[tuple[str, int], str]:
    rows = table.to_arrow(**arguments).to_pylist()
    found = {(row["p"], row["k"]): row["v"] for row in rows}
    assert len(found) == len(rows), "two rows of one key"
    return found


@covers("TBL-6", "LSM-5", "LSM-10", "DV-6", "RD-1", "RD-15", "RD-3", "RD-12")
def test_executors_write_compact_and_read_in_the_order_of_the_rows(table: Table) -> None:
    drawn = random.Random(1)
    expected: dict[tuple[str, int], str] = {}
    for step in range(3):
        keys = [drawn.randrange(60) for _ in range(150)]
        columns = {
            "p": [f"p{k % 2}" for k in keys],
            "k": pa.array(keys, pa.int32()),
            "v": [f"{step}-{i}" for i in range(150)],
        }
        rows = pa.table(columns)
        expected.update(zip(zip(columns["p"], keys, strict=True), columns["v"], strict=True))
        # Several partitions: the order of a frame is theirs, one after the other.
        table.upsert(rows if step == 1 else spark_session().createDataFrame(rows).repartition(1))
        assert content(table) == content(table, fresh=True) == content(Table.open(table.path)) == expected
    table.delete(where="k < 10")
    expected = {key: value for key, value in expected.items() if key[1] >= 10}
    assert content(table) == content(table, fresh=True) == expected
    assert sum(table.files().column("deleted_row_count").to_pylist()) > 0
    table.compact(full=True)
    assert content(table, where="v LIKE '2-%'") == {k: v for k, v in expected.items() if v.startswith("2-")}
    assert table.count() == len(expected)


@covers("TBL-6", "LSM-5", "LSM-10")
@pytest.mark.parametrize("buffer", ["1 kb", "256 mb"])
@pytest.mark.parametrize("packet_bytes", [1 << 20, 100])
def test_rows_of_many_partitions_are_numbered_in_their_order_however_they_travel(
    tmp_path: Path, buffer: str, packet_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "PACKET_BYTES", packet_bytes)
    monkeypatch.setattr(write, "SMALL_PACKET_BYTES", packet_bytes)
    spark = spark_session()
    options = {**OPTIONS, "write-buffer-size": buffer, "write-only": "true"}
    table = sent_out(
        Table.create(tmp_path, "k BIGINT, v BIGINT", primary_key=["k"], options=options, spark=spark)
    )
    before = spark.conf.get(BATCH_ROWS)
    spark.conf.set(BATCH_ROWS, "100")  # so that there is more than one batch to put on disk
    try:
        table.upsert(spark.range(0, 2000, 1, 5).selectExpr("id AS v", "id % 300 AS k"))
    finally:
        spark.conf.set(BATCH_ROWS, before)
    found = table.to_arrow(fresh=True).sort_by("k").to_pydict()
    assert found == {"k": list(range(300)), "v": [1800 + k if k < 200 else 1500 + k for k in range(300)]}
    files = table.catalog.state().files
    assert len(files) == 2
    assert [len(live) for live in files.values()] == [1, 1], (
        "a bucket has one run, however small the buffer is"
    )
    assert sum(file.max_sequence_number + 1 for live in files.values() for file in live) == 2000


@covers("TBL-6")
def test_a_session_without_a_limit_of_batches_is_served(table: Table) -> None:
    spark = spark_session()
    with with_setting(spark, BATCH_ROWS, lambda _: "0"):
        table.upsert([{"p": "a", "k": key, "v": "x"} for key in range(3)])
        table.update({"v": "soundex(v)"}, where="k = 1", by_spark=True)
        assert content(table) == {("a", 0): "x", ("a", 1): "X000", ("a", 2): "x"}
        assert spark.conf.get(BATCH_ROWS) == "0"


@covers("TBL-8", "CMT-12")
def test_a_value_that_a_column_cannot_hold_leaves_no_file_of_any_task(tmp_path: Path) -> None:
    spark = spark_session()
    options = {**OPTIONS, "bucket": "4"}
    table = sent_out(
        Table.create(tmp_path, "k BIGINT, v TINYINT", primary_key=["k"], options=options, spark=spark)
    )
    rows = spark.range(0, 2000, 1, 4).selectExpr("id AS k", "if(id = 1234, 1000, 1) AS v")
    with pytest.raises(InvalidRequestError, match="column v"):
        table.upsert(rows)
    assert not list(tmp_path.rglob("data-*"))
    assert table.snapshots() == []


@covers("TBL-6", "TBL-8")
def test_executors_write_rows_of_python_and_pandas(table: Table) -> None:
    rows = [{"p": f"p{k % 2}", "k": k, "v": f"v{k}"} for k in (3, 1, 2, 3)]
    rows[-1]["v"] = "last"
    table.upsert(rows)
    table.upsert(pd.DataFrame({"p": ["p0"], "k": [4], "v": [None]}, index=[9]))
    table.delete({"p": "p1", "k": 1})
    assert content(table) == {("p1", 3): "last", ("p0", 2): "v2", ("p0", 4): None}


@covers("TBL-6", "TBL-8", "TBL-11")
def test_frames_of_pandas_on_spark_are_written_without_their_index(table: Table) -> None:
    frame = spark_session().createDataFrame(pd.DataFrame({"p": ["a"], "k": [1], "v": ["x"]}))
    try:
        table.upsert(frame.pandas_api())
    except PySparkException:  # Spark 4.0 refuses pandas in ANSI mode unless an option allows it
        from pyspark import pandas

        with pandas.option_context("compute.fail_on_ansi_mode", False):
            table.upsert(frame.pandas_api())
    assert content(table) == {("a", 1): "x"}


@covers("TBL-6")
@pytest.mark.parametrize("sizes", [(2, 3), (2, 0, 3), (0, 0, 1), (0, 4)])
def test_rows_of_every_chunk_reach_the_executors(table: Table, sizes: tuple[int, ...]) -> None:
    # Spark alone loses what follows an empty batch (without Connect) or the first one (Connect 4.0.0).
    keys = iter(range(sum(sizes)))
    chunks = [[{"p": "a", "k": next(keys), "v": "x"} for _ in range(size)] for size in sizes]
    schema = table.schema.arrow_schema
    table.upsert(pa.concat_tables([pa.Table.from_pylist(chunk, schema) for chunk in chunks]))
    assert content(table) == {("a", k): "x" for k in range(sum(sizes))}


class NoRoomForTwo(LocalFileIO):
    """A directory that gives a process one data file, and then fails unforeseen."""

    made = 0

    def create(self, path: str) -> Any:
        self.made += "/data-" in path
        if self.made > 1:
            raise MemoryError("no room for a second one")
        return super().create(path)


@covers("SAFE-5", "CMT-12", "LSM-5")
def test_a_write_on_executors_that_fails_unforeseen_loses_no_rows_and_leaves_no_file(table: Table) -> None:
    rows = pa.table({"p": ["a"] * 300, "k": pa.array(range(300), pa.int32()), "v": ["x" * 40] * 300})
    table.upsert(rows)
    before = {str(path) for path in Path(table.path).rglob("data-*")}
    broken = sent_out(Table.open(table.path, spark=spark_session(), store=NoRoomForTwo()))
    with pytest.raises(Exception, match="MemoryError: no room for a second one"):
        broken.upsert(rows)
    assert content(Table.open(table.path)) == {("a", k): "x" * 40 for k in range(300)}
    assert {str(path) for path in Path(table.path).rglob("data-*")} == before
    table.upsert(rows)


@covers("TBL-13", "TBL-8", "RD-11", "CMT-12")
def test_what_fails_on_an_executor_is_raised_as_what_it_was(table: Table) -> None:
    rows = pa.table({"p": ["a"] * 9, "k": pa.array(range(9), pa.int32()), "v": ["x" * 40] * 9})
    table.upsert(rows)
    root = Path(table.path)
    before = {str(path) for path in root.rglob("data-*")}
    frame = spark_session().createDataFrame(rows).selectExpr("p", "nullif(k, 3) AS k", "v")
    with pytest.raises(InvalidRequestError, match="column k"):
        table.upsert(frame)
    with pytest.raises(InvalidRequestError, match="column v, row 0: expected STRING, found 5"):
        table.upsert([{"p": "a", "k": 1, "v": 5}])
    assert {str(path) for path in root.rglob("data-*")} == before
    table.upsert(rows.slice(0, 1))
    marked = next(file["file_name"] for file in table.files().to_pylist() if file["deleted_row_count"])
    (victim,) = root.rglob(marked)
    good = bytearray(victim.read_bytes())
    good[len(good) // 4] ^= 0xFF
    victim.write_bytes(good)
    with pytest.raises(CorruptFileError, match=marked):
        sent_out(Table.open(root, spark=spark_session())).to_arrow()
    with pytest.raises(CorruptFileError, match=marked):
        table.compact(full=True)
