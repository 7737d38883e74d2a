"""Spark's relations of data files are remembered, and no read shows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import PkTableError, Table
from pktable.run.spark import native_scan, wire
from pktable.run.spark.relations import Relations
from pktable_spec.covers import covers
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from model_tests.backends.spark_session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.versions]

SCHEMA = StructType([StructField("k", LongType())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two buckets with vectors, too many rows for the driver."""
    path = tmp_path / "t [1]"  # Spark would take the name for a pattern
    options = {"deletion-vectors.enabled": "true", "bucket": "2"}
    table = Table.create(path, "k BIGINT, v INT", primary_key=["k"], options=options)
    table.upsert(pa.table({"k": range(12_000), "v": pa.array(range(12_000), pa.int32())}))
    table.upsert(pa.table({"k": range(300, 900), "v": pa.array([-1] * 600, pa.int32())}))
    return path


@covers("RD-25")
def test_a_join_of_two_reads_compares_the_rows_of_one_with_those_of_the_other(path: Path) -> None:
    table = Table.open(path, spark=spark_session(), runner="spark")
    left, right, before = table.read(), table.read(), table.read(snapshot=2)
    joined = left.join(right, left["k"] == right["v"])
    assert joined.count() == 11_400
    changed = left.join(before, (left["k"] == before["k"]) & (left["v"] != before["v"]))
    assert changed.select(F.sum(before["v"] - left["v"])).collect()[0][0] == sum(range(301, 901))


@covers("RD-24")
def test_a_data_file_that_is_gone_is_missed_by_a_read_that_was_made_before(path: Path) -> None:
    table = Table.open(path, spark=spark_session(), runner="spark")
    assert table.read(columns=["v"]).count() == 12_000
    next(path.glob("bucket-0/data-*")).unlink()
    with pytest.raises((PkTableError, PySparkException)):
        table.read(columns=["v"]).collect()


@covers("RD-24")
def test_a_relation_is_made_again_when_a_file_has_changed(tmp_path: Path) -> None:
    spark, relations = spark_session(), Relations(most_files=2)
    if not hasattr(spark, "sparkContext"):
        pytest.skip("nothing is remembered for Spark Connect")
    files = [tmp_path / f"{name}.parquet" for name in "abc"]
    for file in files:
        pq.write_table(pa.table({"k": [1, 2]}), file)
    first, *others = map(str, files)
    made = relations.get(spark, [first], SCHEMA, {})
    assert relations.get(spark, [first], SCHEMA, {}) is made
    assert relations.get(spark, [first], SCHEMA, {"mergeSchema": "false"}) is not made
    pq.write_table(pa.table({"k": [1, 2, 3]}), first)
    again = relations.get(spark, [first], SCHEMA, {})
    assert again is not made
    assert again.count() == 3
    os.utime(first, ns=(1, 1))
    later = relations.get(spark, [first], SCHEMA, {})
    assert later is not again
    relations.get(spark, others, SCHEMA, {})
    assert relations.get(spark, [first], SCHEMA, {}) is not later, "others have taken its place"


@covers("RD-24", "DV-1")
def test_the_same_files_with_other_vectors_are_filtered_anew(path: Path) -> None:
    table = Table.open(path, spark=spark_session(), runner="spark")
    for removed in (-1, 11_000, 11_001):
        table.delete(pa.table({"k": [removed]}))
        keys = {row.k for row in table.read(columns=["k"]).collect()}
        assert keys == {row.k for row in table.read(columns=["k"]).collect()}
        assert keys == set(table.to_arrow(columns=["k"], runner="local").column("k").to_pylist())
        assert removed not in keys


@covers("RD-24")
def test_a_filter_is_made_once_for_the_same_files_and_vectors(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(spark_session(), "sparkContext"):
        pytest.skip("nothing is remembered for Spark Connect")
    made: list[object] = []
    whole_frame = wire.whole_frame

    def watched(*given: Any) -> Any:
        made.append(given)
        return whole_frame(*given)

    monkeypatch.setattr(native_scan, "whole_frame", watched)
    table = Table.open(path, spark=spark_session(), runner="spark")
    assert [table.read(columns=["v"]).count() for _ in range(3)] == [12_000] * 3
    assert len(made) == 1
    assert table.read(columns=["v"], where="k >= 0").count() == 12_000
    assert len(made) == 2
