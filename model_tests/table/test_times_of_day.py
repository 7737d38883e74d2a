"""TIME: milliseconds of the day, stored as Paimon stores them, and a type of Spark since 4.1."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pktable import InvalidRequestError, Table
from pktable.cli import run
from pktable.format.binary_row import decode_row
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import as_avro, as_orc, of_parquet, rewritten

COLUMNS = "k TIME NOT NULL, t TIME(6), n INT, r ROW<a ARRAY<TIME(3)>>"
EARLY, NOON, LATE = dt.time(0, 0, 1), dt.time(12), dt.time(23, 59, 59, 999000)
ROWS: list[dict[str, Any]] = [
    {"k": EARLY, "t": LATE, "n": 1, "r": {"a": [NOON, None]}},
    {"k": NOON, "t": None, "n": 2, "r": None},
]


def new_table(path: Path, **more: Any) -> Table:
    options = {"deletion-vectors.enabled": "true", "bucket": "2"}
    return Table.create(path, COLUMNS, primary_key=["k"], options=options, **more)


def rows_of(table: Table, **how: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_arrow(**how).sort_by("n").to_pylist()
    return found


@covers("META-70", "META-6")
def test_a_time_is_milliseconds_in_files_keys_and_statistics(tmp_path: Path) -> None:
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"])
    table.upsert(ROWS)
    (path,) = (tmp_path / "bucket-0").iterdir()
    stored: Any = pq.ParquetFile(path).schema
    for name in ("_KEY_k", "k", "t"):
        column = stored.column(stored.names.index(name))
        assert column.physical_type == "INT32"
        assert json.loads(column.logical_type.to_json()) == {
            "Type": "Time", "isAdjustedToUTC": True, "timeUnit": "milliseconds",
        }  # fmt: skip
    (files,) = table.catalog.state().files.values()
    kinds = [field.type for field in table.schema.fields]
    assert decode_row(files[0].min_key, kinds[:1], at="") == (1000,)
    assert files[0].max_key.hex() == "00000001" + "00" * 8 + (43_200_000).to_bytes(8, "little").hex()
    assert decode_row(files[0].value_stats.max_values, kinds, at="")[:2] == (43_200_000, 86_399_999)


@covers("META-70", "META-17")
@pytest.mark.parametrize("written", [as_orc, as_avro])
def test_times_of_other_formats_are_read(tmp_path: Path, written: Any) -> None:
    new_table(tmp_path).upsert(ROWS)
    rewritten(tmp_path, of_parquet(written))
    assert {path.suffix for path in tmp_path.glob("bucket-*/*")} > {".parquet"}
    table = Table.open(tmp_path)
    assert rows_of(table) == ROWS
    table.upsert([{**ROWS[0], "n": 3}])
    assert rows_of(table, where="t > '12:00'") == [{**ROWS[0], "n": 3}]


@covers("TBL-46")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            [{**ROWS[0], "t": dt.time(1, 1, 1, 1)}],
            "column t, row 0: expected TIME\\(6\\), found datetime.time",
        ),
        ([{**ROWS[0], "t": NOON.replace(tzinfo=dt.timezone.utc)}], "column t, row 0: expected TIME\\(6\\)"),
        ([{**ROWS[0], "t": dt.datetime(2024, 1, 1)}], "column t, row 0: expected TIME\\(6\\)"),
        ([{**ROWS[0], "t": 5}], "column t, row 0: expected TIME\\(6\\), found 5"),
        (pl.DataFrame([{**ROWS[0], "t": dt.time(1, 1, 1, 1)}]), "column t: .*would lose data: 3661000001000"),
    ],
)
def test_a_time_with_more_digits_is_refused_and_nothing_is_written(
    tmp_path: Path, given: Any, found: str
) -> None:
    table = new_table(tmp_path)
    with pytest.raises(InvalidRequestError, match=found):
        table.upsert(given)
    assert table.catalog.snapshots.latest_id() is None


@covers("TBL-46")
def test_times_come_from_everywhere_and_go_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = new_table(tmp_path)
    table.upsert(pl.DataFrame(ROWS))
    assert rows_of(table) == ROWS
    assert table.to_polars().sort("n").rows(named=True) == ROWS
    assert table.to_pandas().sort_values("n")["k"].to_list() == [EARLY, NOON]
    assert run(["read", str(tmp_path), "--format", "jsonl", "--where", "k = '12:00:00.000'"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"k": "12:00:00", "t": None, "n": 2, "r": None}
    (tmp_path / "rows.jsonl").write_text(
        '{"k": "12:30", "t": "01:02:03.5", "n": 3, "r": {"a": ["23:59:59.999"]}}'
    )
    assert run(["write", str(tmp_path), str(tmp_path / "rows.jsonl")]) == 0
    expected = {"k": dt.time(12, 30), "t": dt.time(1, 2, 3, 500000), "n": 3, "r": {"a": [LATE]}}
    assert rows_of(table, where="n = 3") == [expected]
    table.update({"t": "TIME '10:00:00.25'"}, where="hour(k) = 12 AND t IS NULL")
    assert rows_of(table, where="t < TIME '10:00:01' AND n < 3") == [
        {**ROWS[1], "t": dt.time(10, 0, 0, 250000)}
    ]
    with pytest.raises(InvalidRequestError, match=r"t = '24:00'.*expected a TIME\(3\), found '24:00'"):
        table.read(where="t = '24:00'")


@pytest.mark.versions
@pytest.mark.spark
@covers("RD-30")
def test_spark_has_times_since_4_1_and_before_reads_the_other_columns(tmp_path: Path) -> None:
    spark = spark_session()
    table = new_table(tmp_path, spark=spark, runner="spark")
    given = pa.Table.from_pylist(ROWS, schema=table.schema.arrow_schema)
    Table.open(tmp_path).upsert(given)

    def source(**schema: str) -> Any:
        reader = spark.read.format("pktable")
        return (reader.schema(**schema) if schema else reader).load(str(tmp_path))

    assert sorted(row.n for row in table.read(columns=["n"]).collect()) == [1, 2]
    assert sorted(row.n for row in source(schema="n INT").collect()) == [1, 2]
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        refused = r"column k: pyspark 4.0.\d has no type for TIME\(0\) NOT NULL; use 4.1 or later"
        with pytest.raises(InvalidRequestError, match=refused):
            table.read()
        with pytest.raises(InvalidRequestError, match=refused):
            table.upsert(given)
        with pytest.raises(Exception, match=refused):
            source()
        return
    assert [row.asDict(recursive=True) for row in table.read().sort("n").collect()] == ROWS
    assert [row.asDict(recursive=True) for row in source().sort("n").collect()] == ROWS
    assert [row.n for row in table.read().where("t > TIME '12:00:00'").collect()] == [1]
    table.upsert(given)
    table.upsert(table.read().selectExpr("k", "t", "n + 2 AS n", "r"))
    table.update({"t": "TIME '10:00:00.25'"}, where="k = TIME '12:00:00'")
    expected = [{**ROWS[0], "n": 3}, {**ROWS[1], "n": 4, "t": dt.time(10, 0, 0, 250000)}]
    assert rows_of(Table.open(tmp_path)) == expected
    finer = table.read().selectExpr("TIME '01:01:01.000001' AS k", "t", "n", "r")
    with pytest.raises(InvalidRequestError, match=r"column k: .*would lose data"):
        table.upsert(finer)
