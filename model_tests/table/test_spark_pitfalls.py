"""Questions that Spark would answer wrongly of Parquet files, or under settings that were made for others' files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.format.metadata.manifest import DataFileMeta
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import at, rewritten

pytestmark = [pytest.mark.spark, pytest.mark.versions]

DV = {"deletion-vectors.enabled": "true"}


@contextmanager
def setting(name: str, value: str) -> Iterator[Any]:
    """A session in which ``name`` is set."""
    spark = spark_session()
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield spark
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def as_arrow_writes(file: DataFileMeta, path: Path) -> DataFileMeta:
    """Write Parquet with bounds of all columns and dictionaries, as pypaimon does."""
    target = path.with_name("other-" + path.name)
    pq.write_table(pq.ParquetFile(path).read(), target)
    return at(file, target)


@covers("RD-6", "RD-8")
@pytest.mark.parametrize("values", [[1.0, math.nan, -0.0], [-0.0] * 300])
def test_floats_of_files_compare_as_values_do(tmp_path: Path, values: list[float]) -> None:
    columns = "k INT, f FLOAT, d DOUBLE, r ROW<f FLOAT, d DOUBLE>"
    table = Table.create(tmp_path, columns, primary_key=["k"], options=DV, spark=spark_session())
    some = [{"k": k, **both, "r": both} for k, both in enumerate({"f": one, "d": one} for one in values)]
    table.upsert(pa.Table.from_pylist(some, table.schema.arrow_schema))
    conditions: dict[str, Callable[[float], bool]] = {
        "f > 1": lambda f: math.isnan(f) or f > 1,
        "f = CAST('NaN' AS DOUBLE)": math.isnan,
        "f = 0": lambda f: f == 0,
        "NOT f < 0": lambda f: not f < 0,
    }
    for _ in ("as we write", "as others do"):
        for where, holds in conditions.items():
            wanted = [k for k, value in enumerate(values) if holds(value)]
            both = f"{where} AND {where.replace('f ', 'd ')}"
            nested = both.replace("f ", "r.f ").replace("d ", "r.d ")
            for frame in (table.read(where=both), table.read().where(both), table.read().where(nested)):
                assert sorted(row.k for row in frame.collect()) == wanted, where
            assert Table.open(tmp_path).to_arrow(where=both)["k"].to_pylist() == wanted
        rewritten(tmp_path, as_arrow_writes)


@covers("RD-6")
def test_no_bounds_of_floats_are_written(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, f DOUBLE", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": [1, 2], "f": [1.0, math.nan]}))
    (file,) = tmp_path.rglob("data-*")
    footer = pq.ParquetFile(file).metadata
    found = {
        column.path_in_schema: column.is_stats_set
        for column in (footer.row_group(0).column(i) for i in range(footer.num_columns))
    }
    assert found["k"]
    assert not found["f"]


@covers("RD-6")
@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_dates_of_old_are_what_they_are(tmp_path: Path, mode: str) -> None:
    with setting("spark.sql.parquet.datetimeRebaseModeInRead", mode) as spark:
        table = Table.create(tmp_path, "k INT, d DATE", primary_key=["k"], options=DV, spark=spark)
        table.upsert(pa.table({"k": [1], "d": [date(1500, 1, 1)]}))
        table.upsert(table.read())
        assert [row.d for row in table.read(where="d = '1500-01-01'").collect()] == [date(1500, 1, 1)]


@covers("RD-6")
@pytest.mark.parametrize("literals", ["true", "false"])
def test_strings_of_a_condition_are_what_they_are(tmp_path: Path, literals: str) -> None:
    # A session puts the value of the variable HOME in the place of the last one, wherever it finds it in SQL.
    texts = [r"C:\tmp", r"C:\\tmp", "it's", "50%", "a\nb", "${env:HOME}"]
    with setting("spark.sql.parser.escapedStringLiterals", literals) as spark:
        table = Table.create(tmp_path, "k INT, s STRING", primary_key=["k"], options=DV, spark=spark)
        table.upsert(pa.table({"k": range(len(texts)), "s": texts}))
        for where, wanted in {
            r"s = r'C:\tmp'": [0],
            r"s LIKE r'%\\tmp'": [0, 1],
            '''s = "it's"''': [2],
            "s LIKE '%it''s%'": [2],
            r"s LIKE r'%\%'": [3],
            "s IN ('it''s', 'a\nb')": [2, 4],
            "s = '${env:HOME}'": [5],
            "s LIKE '${env:H%'": [5],
        }.items():
            assert sorted(row.k for row in table.read(where=where).collect()) == wanted, where


@covers("RD-8")
def test_a_cast_to_fewer_bits_prunes_nothing(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, n BIGINT", primary_key=["k"], options=DV, spark=spark_session())
    table.upsert(pa.table({"k": [1, 2], "n": [(1 << 32) + 2, (1 << 32) + 1]}))
    for runner in ("local", "spark"):
        with pytest.raises(InvalidRequestError, match=r"where 'CAST\(n AS INT\) = 2'"):
            Table.open(tmp_path, spark=spark_session(), runner=runner).to_arrow(where="CAST(n AS INT) = 2")


@covers("RD-26", "STM-1")
@pytest.mark.parametrize("key", [["k"], None])
def test_what_cannot_be_computed_is_refused_in_every_mode_of_the_session(
    tmp_path: Path, key: list[str] | None
) -> None:
    with setting("spark.sql.ansi.enabled", "false") as spark:
        table = Table.create(
            tmp_path, "k INT, n INT", primary_key=key, options=DV, spark=spark, runner="spark"
        )
        (table.upsert if key else table.append)(pa.table({"k": [0, 1], "n": [5, 2**31 - 1]}))
        before = table.to_arrow()
        work: list[Callable[[], object]] = [
            lambda: table.to_arrow(where="n / k > 0"),
            lambda: table.count(where="n + 1 > 0"),
            lambda: table.update({"n": "n + 1"}),
            lambda: table.update({"k": "0"} if key is None else {"n": "0"}, where="CAST(n AS TINYINT) = 5"),
            lambda: table.delete(where="n / k = 1"),
        ]
        for one in work:
            with pytest.raises(InvalidRequestError):
                one()
        assert table.to_arrow() == before
        assert sorted(row.k for row in table.read(where="n - 1 > 4").collect()) == [1]
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"


@covers("RD-26")
def test_a_session_of_spark_connect_must_itself_have_the_mode_in_which_expressions_fail(
    tmp_path: Path,
) -> None:
    with setting("spark.sql.ansi.enabled", "false") as spark:
        table = Table.create(
            tmp_path, "k INT, n INT", primary_key=["k"], options=DV, spark=spark, runner="spark"
        )
        table.upsert(pa.table({"k": [0, 1], "n": [5, 6]}))
        refused: Any = pytest.raises(
            InvalidRequestError, match=r"session: expected spark\.sql\.ansi\.enabled=true"
        )
        with nullcontext() if hasattr(spark, "sparkContext") else refused:
            assert table.count(where="n + 1 > 6") == 1
        assert table.count(where="n > 5") == 1


@covers("RD-11")
def test_damage_is_not_passed_over(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, s STRING", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": range(20_000), "s": [f"{k * 7919}" for k in range(20_000)]}))
    (file,) = tmp_path.rglob("data-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = b"\xff" * 50
    file.write_bytes(data)
    with setting("spark.sql.files.ignoreCorruptFiles", "true") as spark, pytest.raises(CorruptFileError):
        Table.open(tmp_path, spark=spark).to_arrow()


@covers("RD-1", "RD-7")
@pytest.mark.parametrize("name", ["_metadata", "_Tmp_metadata_row_index"])
def test_columns_may_be_called_as_spark_calls_its_own(tmp_path: Path, name: str) -> None:
    spark = spark_session()
    columns = f"k INT, {name} ROW<file_name STRING, row_index BIGINT>"
    Table.create(tmp_path, columns, primary_key=["k"], options=DV)
    frame = spark.range(10).selectExpr(
        "CAST(id AS INT) AS k", f"named_struct('file_name', 'x', 'row_index', id) AS {name}"
    )
    for runner in ("local", "spark"):
        table = Table.open(tmp_path, spark=spark, runner=runner)
        table.upsert(frame)
        table.upsert(frame.where("k = 3"))
        assert sorted(row.k for row in table.read().collect()) == list(range(10))
        assert sorted(row.k for row in table.read(columns=["k"]).collect()) == list(range(10))
