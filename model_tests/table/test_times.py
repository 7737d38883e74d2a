"""Times of nanoseconds: stored as Paimon stores them, and on Spark read where Spark can hold them."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.datafile.parquet_footer import has_nanoseconds, meanings, stored_schema
from pktable.format.metadata.manifest import DataFileMeta
from pktable.ingest.changes import ChangeKind
from pktable.run.spark.runner import SparkRunner
from pktable.run.spark.types import for_spark, spark_schema
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import as_orc, at, read_parquet, rewritten

DV = {"deletion-vectors.enabled": "true"}
DAY, JULIAN_EPOCH = 86_400 * 10**9, 2_440_588
MOMENT = 1_700_000_000_123_456_789
COLUMNS = (
    "k INT, n TIMESTAMP(9), l TIMESTAMP(9) WITH LOCAL TIME ZONE, t TIMESTAMP(3), z TIMESTAMP(6) WITH LOCAL TIME ZONE, "
    "s STRING, r ROW<a TIMESTAMP(3), `b.c` ROW<d TIMESTAMP(9), e TIMESTAMP(6)>>, m MAP<INT, TIMESTAMP(6)>, "
    "x ARRAY<TIMESTAMP(3)>, p DECIMAL(9, 2), q TINYINT"
)


def rows(table: Table, moments: list[int | None]) -> pa.Table:
    schema = table.schema.arrow_schema

    def value(kind: Any, moment: int | None) -> Any:
        if moment is None:
            return None
        if pa.types.is_timestamp(kind):
            return moment // {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        if pa.types.is_struct(kind):
            return {field.name: value(field.type, moment) for field in kind}
        if pa.types.is_map(kind):
            return [(1, value(kind.item_type, moment)), (2, None)]
        if pa.types.is_list(kind):
            return [None, value(kind.value_type, moment)]
        return str(moment) if pa.types.is_string(kind) else moment % 100

    columns = [
        pa.array(
            range(len(moments)) if field.name == "k" else [value(field.type, m) for m in moments], field.type
        )
        for field in schema
    ]
    return pa.table(columns, schema=schema)


@covers("META-46", "META-8", "META-6")
def test_times_of_nanoseconds_are_int96_and_the_others_are_what_they_would_be_alone(tmp_path: Path) -> None:
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options=DV)
    given_rows = rows(table, [MOMENT, None, -1, MOMENT + 1, 1 - 2**62, 2**62])
    table.upsert(given_rows)
    assert Table.open(tmp_path).to_arrow().equals(given_rows)
    (path,) = (tmp_path / "bucket-0").iterdir()
    with path.open("rb") as file:
        stored = pq.ParquetFile(file)
        kinds = {
            stored.schema.column(i).path: (
                stored.schema.column(i).physical_type,
                stored.schema.column(i).logical_type,
            )
            for i in range(len(stored.schema))
        }
        physical = {path: kind for path, (kind, _) in kinds.items()}
        coarse = Table.create(
            tmp_path / "coarse", COLUMNS.replace("(9)", "(6)"), primary_key=["k"], options=DV
        )
        coarse.upsert(rows(coarse, [MOMENT]))
        (other,) = (tmp_path / "coarse" / "bucket-0").iterdir()
        with other.open("rb") as twin:
            without = pq.ParquetFile(twin)
            for i in range(len(without.schema)):
                column = without.schema.column(i)
                if physical[column.path] != "INT96":
                    assert kinds[column.path][0] == column.physical_type
                    assert str(kinds[column.path][1]) == str(column.logical_type)
            identifiers = [field.metadata for field in stored.schema_arrow]
            assert identifiers == [field.metadata for field in without.schema_arrow]
        statistics = stored.metadata.row_group(0).column(list(kinds).index("t")).statistics
        assert statistics.null_count == 1
    before_1970 = struct.pack("<qI", DAY - 1, JULIAN_EPOCH - 1)
    assert before_1970 in path.read_bytes(), "days count from a midnight, nanoseconds from the day"
    assert {path for path, kind in physical.items() if kind == "INT96"} == {"n", "l", "r.b.c.d"}


def test_a_table_without_times_of_nanoseconds_has_no_int96(tmp_path: Path) -> None:
    table = Table.create(tmp_path, COLUMNS.replace("(9)", "(6)"), primary_key=["k"], options=DV)
    assert not has_nanoseconds(table.catalog.context.file_schema)


@covers("META-46")
@settings(max_examples=15, deadline=None)
@given(st.permutations(["a", "b", "c", "d", "e"]), st.integers(0, 40))
def test_any_order_and_number_of_columns_is_named_right(order: list[str], more: int) -> None:
    kinds = {
        "a": pa.timestamp("ns"),
        "b": pa.timestamp("ms"),
        "c": pa.int64(),
        "d": pa.timestamp("us", "UTC"),
        "e": pa.struct([pa.field("f", pa.list_(pa.timestamp("us")))]),
    }
    schema = pa.schema(
        [*((name, kinds[name]) for name in order), *((f"m{i}", pa.int64()) for i in range(more))]
    )
    assert len(meanings(schema)) == len(schema)
    assert stored_schema(schema).names == schema.names
    assert sum(meaning is not None for meaning in meanings(schema)) == 3


NESTED = "ROW<a ARRAY<TIMESTAMP(9)>, b MAP<INT, TIMESTAMP(9)>>"


def spelled(time: int) -> bytes:
    """INT96 as Arrow and pktable write it: nanoseconds of a day from its midnight on."""
    return struct.pack("<qI", time % DAY, time // DAY + JULIAN_EPOCH)


def with_bytes(path: Path, before: bytes, after: bytes) -> None:
    """Rewrite the one file of a table without checksums, as others do, and with other bytes."""

    def change(file: DataFileMeta, path: Path) -> DataFileMeta:
        sink = pa.BufferOutputStream()
        pq.write_table(read_parquet(path), sink, compression="none", use_deprecated_int96_timestamps=True)
        data = sink.getvalue().to_pybytes()
        assert before in data
        path.write_bytes(data.replace(before, after))
        return at(file, path)

    rewritten(path, change)


@covers("META-47", "RD-11")
@pytest.mark.parametrize("kind", ["TIMESTAMP(9)", NESTED])
@pytest.mark.parametrize(
    ("nanos", "day"),
    [
        (0, 5373484),  # the last day of the year 9999
        (84_873_709_551_615, JULIAN_EPOCH + 213_503),  # wraps to the nanosecond before 1970
        (-(2**63), JULIAN_EPOCH - 1),
    ],
)
def test_a_time_that_nanoseconds_cannot_count_is_refused_and_not_another_one(
    tmp_path: Path, kind: str, nanos: int, day: int
) -> None:
    table = Table.create(tmp_path, f"k INT, v {kind}, i INT", primary_key=["k"], options=DV)
    table.upsert(rows(table, [MOMENT, None, -1]))
    assert Table.open(tmp_path).to_arrow().num_rows == 3
    with_bytes(tmp_path, spelled(MOMENT), struct.pack("<qI", nanos, day))
    with pytest.raises(InvalidRequestError, match="column v: a time lies outside 1677 to 2262"):
        Table.open(tmp_path).to_arrow()
    assert Table.open(tmp_path).to_arrow(columns=["k", "i"]).num_rows == 3


@covers("META-47", "RD-11")
@pytest.mark.parametrize("kind", ["TIMESTAMP(9)", NESTED])
@pytest.mark.parametrize("time", [-1, -1_000_000, 1 - DAY, -DAY, -5 * DAY // 2, -(2**63) + DAY])
def test_a_time_before_1970_is_read_as_paimon_spells_it(tmp_path: Path, kind: str, time: int) -> None:
    table = Table.create(tmp_path, f"k INT, v {kind}, i INT", primary_key=["k"], options=DV)
    written = rows(table, [MOMENT, time, None])
    table.upsert(written)
    days = -(-time // DAY)  # Java divides towards 1970
    with_bytes(tmp_path, spelled(time), struct.pack("<qI", time - days * DAY, days + JULIAN_EPOCH))
    assert Table.open(tmp_path).to_arrow().equals(written)
    only_nulls = Table.create(tmp_path / "nulls", f"k INT, v {kind}", primary_key=["k"], options=DV)
    only_nulls.upsert(rows(only_nulls, [None, None]))
    assert Table.open(tmp_path / "nulls").to_arrow().column("v").null_count == 2


@covers("META-17")
def test_times_of_orc_that_nanoseconds_cannot_count_are_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v TIMESTAMP(3)", primary_key=["k"], options=DV)
    far = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([253_402_214_400_000], pa.timestamp("ms"))})
    table.upsert(far)
    assert Table.open(tmp_path).to_arrow().equals(far.cast(table.schema.arrow_schema))
    rewritten(tmp_path, as_orc)
    with pytest.raises(InvalidRequestError, match="a time lies outside 1677 to 2262"):
        Table.open(tmp_path).to_arrow()
    assert Table.open(tmp_path).to_arrow(columns=["k"]).num_rows == 1


@pytest.mark.versions
@pytest.mark.spark
@covers("RD-12", "TBL-8")
def test_the_time_zone_of_the_session_moves_no_time(tmp_path: Path) -> None:
    spark = spark_session()
    table = Table.create(tmp_path, "k INT, t TIMESTAMP(3), z TIMESTAMP_LTZ(6)", primary_key=["k"], options=DV)
    written = rows(table, [MOMENT // 1000 * 1000, None, -(10**6)])
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        for in_driver in (True, False):
            on_spark = Table.open(tmp_path, spark=spark)
            if not in_driver:
                on_spark.runner = on_spark.stager.runner = SparkRunner(spark)
            # A run of level 0 is merged in by the kernel, the others are for Spark's own scan.
            for write_only in (False, True):
                prepared = on_spark.stage_write(written, ChangeKind(), write_only=write_only)
                assert prepared is not None
                prepared.commit(CommitId("test"))
                frame = on_spark.read(fresh=True)
                assert [kind for _, kind in frame.dtypes] == ["int", "timestamp_ntz", "timestamp"]
                for found in (Table.open(tmp_path).to_arrow(fresh=True), on_spark.to_arrow(fresh=True)):
                    assert found.sort_by("k").equals(written), (in_driver, write_only)
                assert frame.where("t = TIMESTAMP_NTZ '2023-11-14 22:13:20.123'").count() == 1
            on_spark.compact(full=True)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.versions
@pytest.mark.spark
@pytest.mark.parametrize("runner", ["spark", "local"])
@covers("TBL-11")
def test_a_frame_has_its_wall_times_in_the_zone_of_the_session(tmp_path: Path, runner: str) -> None:
    spark = spark_session()
    row = "ROW<x ARRAY<TIMESTAMP(6)>, m MAP<TIMESTAMP(6), INT>>"
    columns = f"k TIMESTAMP(6), z TIMESTAMP_LTZ(6), `r.s` {row}, `a.b` INT"
    table = Table.create(tmp_path, columns, primary_key=["k"], options=DV, spark=spark, runner=runner)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        frame = spark.sql(
            "SELECT TIMESTAMP '2024-01-01 00:00:00' AS k, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS z, "
            "named_struct('x', array(TIMESTAMP '2024-06-01 00:00:00', NULL), "
            "'m', map(TIMESTAMP '2024-01-02 00:00:00', 7)) AS `r.s`, 1 AS `a.b`"
        )
        table.upsert(frame)
        (row,) = Table.open(tmp_path).to_arrow().to_pylist()
        assert row == {
            "k": dt.datetime(2024, 1, 1),
            "z": dt.datetime(2023, 12, 31, 15, tzinfo=dt.timezone.utc),
            "r.s": {"x": [dt.datetime(2024, 6, 1), None], "m": [(dt.datetime(2024, 1, 2), 7)]},
            "a.b": 1,
        }
        assert table.delete(frame.select("k"))
        assert table.count() == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@covers("TBL-11")
def test_arrow_data_has_its_wall_times_in_utc(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k TIMESTAMP(6), z TIMESTAMP_LTZ(6)", primary_key=["k"], options=DV)
    moment = dt.datetime(2024, 1, 1)
    written = pa.table(
        {
            "k": pa.array([moment], pa.timestamp("us", "Asia/Tokyo")),
            "z": pa.array([moment], pa.timestamp("us")),
        }
    )
    table.upsert(written)
    (row,) = table.to_arrow().to_pylist()
    assert row == {"k": moment, "z": moment.replace(tzinfo=dt.timezone.utc)}


@pytest.mark.versions
@pytest.mark.spark
@covers("RD-12", "TBL-8")
def test_spark_reads_and_writes_times_that_it_can_hold_and_rounds_none(tmp_path: Path) -> None:
    spark = spark_session()
    columns = "k INT, n TIMESTAMP(9), t TIMESTAMP(3)"
    table = Table.create(tmp_path, columns, primary_key=["k"], options=DV, spark=spark)
    table.runner = table.stager.runner = SparkRunner(spark)
    exact = rows(table, [MOMENT // 1000 * 1000, None, -1000])
    table.upsert(spark.createDataFrame(for_spark(exact), spark_schema(table.schema.fields)))
    assert table.to_arrow().sort_by("k").equals(exact)
    assert table.to_arrow(where="n > '2020-01-01'").num_rows == 1
    Table.open(tmp_path).upsert(rows(table, [MOMENT]))
    with pytest.raises(
        InvalidRequestError, match="column n: a time is finer than microseconds, as Spark holds them"
    ):
        table.to_arrow()
    assert table.to_arrow(columns=["k", "t"]).num_rows == 3


@pytest.mark.versions
@pytest.mark.spark
@pytest.mark.parametrize("runner", ["spark", "local"])
@covers("RD-12")
def test_only_a_query_that_uses_a_time_too_fine_for_spark_fails(tmp_path: Path, runner: str) -> None:
    columns = "k INT, n TIMESTAMP(9), z TIMESTAMP_LTZ(9), a ARRAY<TIMESTAMP(9)>"
    table = Table.create(tmp_path, columns, primary_key="k", options={"bucket": "1"})
    kinds = [table.schema.arrow_schema.field(name).type for name in "nza"]
    for key, time in ((1, 2_000), (2, None), (3, 2_001)):
        values = (time, time, [time])
        arrays = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
        table.upsert(pa.table([[key], *arrays], names=["k", *"nza"]))
    opened = Table.open(tmp_path, spark=spark_session(), runner=runner)
    frame = opened.scan().to_spark()
    assert sorted(frame.select("k").collect()) == [(1,), (2,), (3,)]
    assert frame.where("k < 3").agg({"n": "max"}).collect()[0][0] == dt.datetime(1970, 1, 1, 0, 0, 0, 2)
    assert opened.scan(where="k < 3").to_spark().orderBy("k").collect()[1].a == [None]
    for name in "nza":
        with pytest.raises(Exception, match=f"column {name}: a time is finer than microseconds"):
            frame.select(name).collect()
    assert opened.changes(0).read().select("k").count() == 3
