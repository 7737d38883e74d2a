"""Edges that once went wrong: each of these lost rows, mixed them up, or raised what it should not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.format.metadata.schema import TableSchema, encode_schema
from pktable.format.types import parse_columns
from pktable.run.spark.runner import SparkRunner
from pktable.run.spark.types import spark_schema
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

DV = {"deletion-vectors.enabled": "true"}


def add_schema(path: Path, change: Callable[[TableSchema], TableSchema]) -> None:
    schema = Table.open(path).schema
    changed = replace(change(schema), id=schema.id + 1)
    (path / "schema" / f"schema-{changed.id}").write_bytes(encode_schema(changed))


class FailsAfter(LocalFileIO):
    """Fails with ``error`` once a snapshot has been put."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def put_if_absent(self, path: str, data: bytes) -> bool:
        super().put_if_absent(path, data)
        raise self.error


@covers("CMT-20", "CMT-12")
@pytest.mark.parametrize("error", [OSError("late"), KeyboardInterrupt()])
@pytest.mark.parametrize("full", [False, True])
def test_what_fails_after_the_snapshot_is_there_removes_nothing(
    tmp_path: Path, error: BaseException, full: bool
) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": range(9), "v": ["a"] * 9}))
    table.upsert(pa.table({"k": [1], "v": ["b"]}))
    table = Table.open(tmp_path, store=FailsAfter(error))
    try:
        table.compact(full=True) if full else table.upsert(pa.table({"k": [2], "v": ["c"]}))
    except KeyboardInterrupt:
        assert isinstance(error, KeyboardInterrupt)
    again = Table.open(tmp_path)
    for snapshot in again.snapshots():
        for fresh in (False, True):
            again.to_arrow(snapshot=snapshot.id, fresh=fresh)
    assert again.to_arrow(fresh=True).num_rows == 9


@covers("TBL-18", "TBL-10")
def test_a_partition_of_another_number_of_buckets_is_not_written(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={**DV, "write-only": "true"})
    for _ in range(2):
        table.upsert(pa.table({"k": range(20), "v": range(20)}))
    add_schema(tmp_path, lambda s: replace(s, options={**s.options, "bucket": "4"}))
    changed = Table.open(tmp_path)
    with pytest.raises(InvalidRequestError, match="bucket"):
        changed.upsert(pa.table({"k": [1], "v": [1]}))
    changed.compact(full=True)
    assert all(changed.to_arrow(fresh=True, where=f"k = {k}").num_rows == 1 for k in range(20))


def swapped(schema: TableSchema) -> TableSchema:
    """The names of the two value columns exchanged, their ids kept."""
    key, a, b = schema.fields
    return replace(schema, fields=(key, replace(a, name=b.name), replace(b, name=a.name)))


@covers("META-15", "META-29", "TBL-19")
def test_a_table_object_older_than_the_schema_reads_by_id_and_does_not_write(tmp_path: Path) -> None:
    old = Table.create(
        tmp_path, "k INT, a INT, b INT", primary_key=["k"], options={**DV, "write-only": "true"}
    )
    old.upsert(pa.table({"k": [1], "a": [1], "b": [2]}))
    add_schema(tmp_path, swapped)
    new = Table.open(tmp_path)
    assert new.to_arrow(fresh=True).to_pylist() == [{"k": 1, "b": 1, "a": 2}]
    new.upsert(pa.table({"k": [2], "b": [10], "a": [20]}))
    assert old.to_arrow(fresh=True, where="k = 2").to_pylist() == [{"k": 2, "a": 10, "b": 20}]
    with pytest.raises(InvalidRequestError, match="schema"):
        old.compact(full=True)
    (tmp_path / "schema" / "schema-0").unlink()
    with pytest.raises(CorruptFileError, match="schema-0"):
        Table.open(tmp_path).to_arrow(fresh=True)


@pytest.mark.spark
@covers("META-15", "RD-12")
def test_files_of_an_older_schema_read_by_id_on_spark_too(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, a INT, b INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": [1], "a": [1], "b": [2]}))
    add_schema(tmp_path, swapped)
    table = Table.open(tmp_path, spark=spark_session())
    table.upsert(pa.table({"k": [2], "b": [3], "a": [4]}))
    found = table.read().orderBy("k").collect()
    assert [row.asDict() for row in found] == [{"k": 1, "b": 1, "a": 2}, {"k": 2, "b": 3, "a": 4}]


@covers("RD-16", "MRG-7")
def test_pruning_knows_that_the_two_zeros_are_two_keys(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "f DOUBLE, s STRING", primary_key=["f", "s"], options=DV)
    table.upsert(pa.table({"f": [-0.0, 0.0], "s": ["z", "a"]}))
    assert table.to_arrow(where="s = 'z'").num_rows == 1


@covers("RD-8")
def test_pruning_tells_a_column_from_a_part_of_one(tmp_path: Path) -> None:
    options = {**DV, "parquet.block.row.count.limit": "1"}
    table = Table.create(tmp_path, "k INT, `s.x` INT, s ROW<x INT>", primary_key=["k"], options=options)
    rows = [{"k": 1, "s.x": 5, "s": {"x": 50}}, {"k": 2, "s.x": 6, "s": {"x": 60}}]
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    assert table.to_arrow(where="`s.x` = 5").to_pylist() == rows[:1]


@covers("TBL-8")
def test_values_inside_of_lists_are_not_parsed_or_rounded(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, f ARRAY<FLOAT>, i ARRAY<INT>", primary_key=["k"], options=DV)
    for column, wrong in (("f", [[0.1]]), ("i", [["12"]])):
        rows = {"k": [1], "f": [[0.5]], "i": [[1]], column: wrong}
        with pytest.raises(InvalidRequestError, match=f"column {column}"):
            table.upsert(pa.table(rows))
    table.upsert(pa.table({"k": [1], "f": [[0.5, None]], "i": [[1]]}))
    assert table.to_arrow().to_pylist() == [{"k": 1, "f": [0.5, None], "i": [1]}]


@covers("MRG-7", "TBL-10")
def test_every_nan_is_one_key_in_one_bucket(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k DOUBLE, v INT", primary_key=["k"], options={**DV, "bucket": "8"})
    for number, bits in enumerate((0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, (0x7FF0 << 48) + 1)):
        nan = struct.unpack("<d", struct.pack("<Q", bits))[0]
        table.upsert(pa.table({"k": pa.array([nan]), "v": [number]}))
    assert table.to_arrow(fresh=True).column("v").to_pylist() == [3]


@covers("TBL-4")
@pytest.mark.parametrize(
    "kind", ["DECIMAL(5, 2)", "TIMESTAMP(3)", "TIMESTAMP(9)", "STRING", "BYTES", "BOOLEAN", "DATE"]
)
def test_keys_are_deleted_whatever_columns_must_not_be_null(tmp_path: Path, kind: str) -> None:
    table = Table.create(tmp_path, f"k INT, v {kind} NOT NULL", primary_key=["k"], options=DV)
    values: dict[str, Any] = {"STRING": "a", "BYTES": b"a", "BOOLEAN": True, "DECIMAL(5, 2)": Decimal("1.00")}
    schema = table.schema.arrow_schema
    value = pa.array([values[kind]] if kind in values else [1], None if kind in values else pa.int64())
    column = (
        value.cast(schema.field("v").type) if kind != "DATE" else value.cast(pa.int32()).cast(pa.date32())
    )
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": column}, schema=schema))
    table.delete(pa.table({"k": [1]}))
    assert table.count() == table.count(fresh=True) == 0


def test_columns_that_differ_only_in_case_are_refused_by_spark() -> None:
    with pytest.raises(InvalidRequestError, match="columns A, a differ only in case, which Spark does not"):
        spark_schema(parse_columns("a INT, A INT, b INT"))


def test_a_creation_that_was_interrupted_can_be_done_again(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / ".schema-0.x.tmp").write_text("")
    assert Table.create(tmp_path, "k INT", primary_key=["k"]).to_arrow().num_rows == 0


def test_a_bucket_directory_that_went_away_is_made_again(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": [1]}))
    for path in (tmp_path / "bucket-0").iterdir():
        path.unlink()
    (tmp_path / "bucket-0").rmdir()
    assert table.stage_write(pa.table({"k": [2]}), change=_insert(), write_only=True) is not None


def _insert() -> Any:
    from pktable.ingest.changes import ChangeKind

    return ChangeKind()


@pytest.mark.versions
@pytest.mark.spark
@pytest.mark.parametrize("in_driver", [True, False])
def test_odd_paths_and_names_work_on_spark(tmp_path: Path, in_driver: bool) -> None:
    spark = spark_session()
    table = Table.create(
        tmp_path / "a[1]{x}*",
        "`k.x` INT, `v v` STRING, `p.p` INT",
        primary_key=["k.x", "p.p"],
        partition_by=["p.p"],
        options=DV,
        spark=spark,
    )
    if not in_driver:
        table.runner = table.stager.runner = SparkRunner(spark)
    table.upsert(pa.table({"k.x": pa.array([1, 2], pa.uint32()), "v v": ["a", "b"], "p.p": [0, 0]}))
    table.upsert(spark.sql("SELECT 7 AS `p.p`, 2 AS `k.x`, 'other' AS `v v`"))
    table.upsert(pa.table({"k.x": [2], "v v": ["c" * 50], "p.p": [0]}))
    table.delete(spark.sql("SELECT 7 AS `p.p`, 2 AS `k.x`"))
    assert {row[0]: row[1] for row in table.read().collect()} == {1: "a", 2: "c" * 50}
    assert table.to_arrow(where="`k.x` = 1", columns=["v v"]).to_pylist() == [{"v v": "a"}]


def test_what_a_small_write_brings_is_one_row_group(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key=["id"])
    table.upsert(pa.table({"id": range(100), "v": pa.array(range(100), pa.int32())}))
    (file,) = (tmp_path / "t" / "bucket-0").glob("data-*")
    assert pq.ParquetFile(file).num_row_groups == 1


@covers("META-12")
@pytest.mark.parametrize("size", ["0", "1", "8 mb"])
def test_a_manifest_has_at_least_one_entry_however_small_its_target_size(tmp_path: Path, size: str) -> None:
    options = {"manifest.target-file-size": size, "bucket": "3"}
    table = Table.create(tmp_path / "t", "k INT", primary_key="k", options=options)
    table.upsert(pa.table({"k": pa.array(range(30), pa.int32())}))
    assert table.count() == 30
    manifests = [one.name for one in (tmp_path / "t" / "manifest").iterdir() if "list" not in one.name]
    assert len(manifests) == (1 if size == "8 mb" else 3)
