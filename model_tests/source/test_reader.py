"""Batch reads: which rows, which columns, and of which snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, SnapshotNotFoundError, Table
from pktable.run.runner import TASK_BYTES
from pktable.spark_source import pieces
from pktable.spark_source.data_source import PkTableSource
from pktable_spec.covers import covers
from pyspark.sql import types as st

from model_tests.changelog.tables import new_table, put, rows
from model_tests.source.driven import moved, read, read_all, source


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table whose latest rows lie at level 0."""
    table = new_table(tmp_path / "t", "none", bucket="2")
    put(table, ("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3))
    put(table, ("+U", 1, 5))
    put(table, ("-D", 2, None), write_only=True)
    return table


def as_rows(found: pa.Table) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in found.to_pylist()}


@covers("RD-12", "RD-27")
@pytest.mark.parametrize("bytes", [0, TASK_BYTES])
def test_a_read_is_that_of_the_table(table: Table, bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "TASK_BYTES", bytes)
    assert as_rows(read(table.path)) == rows(table)
    assert as_rows(read(table.path, fresh="true")) == rows(table, fresh=True) != rows(table)
    assert as_rows(read(table.path, filter="v > 4")) == rows(table, where="v > 4")
    table.create_tag("first", snapshot=2)
    time = table.snapshots()[1].time_millis
    for options in ({"scan__snapshot_id": 2}, {"scan__tag_name": "first"}, {"scan__timestamp_millis": time}):
        assert as_rows(read(table.path, **options)) == {(1, 1), (2, 2), (3, 3)}
    assert read(Table.create(f"{table.path}2", "id INT", primary_key=None).path).num_rows == 0


@covers("CHG-11", "RD-12")
def test_incremental_between_gives_changes(table: Table) -> None:
    found = read(table.path, incremental_between="0,3")
    assert found.column_names == ["_row_kind", "id", "v"]
    assert as_rows(found) == {("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3), ("+U", 1, 5)}
    assert as_rows(read(table.path, incremental_between="3,5", filter="id = 2")) == {("-D", 2, None)}
    assert read(table.path, incremental_between="5,5").num_rows == 0


def test_rows_read_as_changes_are_inserted(table: Table) -> None:
    found = read(table.path, read__changelog="true", scan__snapshot_id=2)
    assert as_rows(found) == {("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3)}


def test_a_given_schema_chooses_the_columns(table: Table) -> None:
    schema = st.StructType([st.StructField("v", st.IntegerType()), st.StructField("id", st.LongType())])
    assert read(table.path, schema).column_names == ["v", "id"]
    assert read(table.path, st.StructType(schema.fields[:1])).num_rows == 3
    reader = source(table.path).reader(st.StructType(schema.fields[:1]))
    assert {one.columns for part in reader.partitions() for one in part.value} == {("v",)}


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("x", st.LongType(), "column x is not in the table; columns are id, v"),
        ("ID", st.LongType(), "column ID is not in the table; columns are id, v"),
        ("v", st.LongType(), "column v: expected type int, as the table has it, found bigint"),
    ],
)
def test_a_given_schema_that_is_not_the_tables_is_refused(
    table: Table, column: str, kind: st.DataType, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        read(table.path, st.StructType([st.StructField(column, kind)]))


@covers("RD-27", "RD-10")
def test_all_partitions_read_the_snapshot_of_the_plan(table: Table) -> None:
    found = source(table.path)
    schema = found.schema()
    reader = found.reader(schema)
    before, planned = rows(table), moved(reader.partitions())
    put(table, ("+I", 9, 9), ("-D", 3, None))
    table.compact(full=True)
    assert as_rows(read_all(reader, planned, schema)) == before
    table.expire_snapshots(retain_last=1)
    with pytest.raises(
        SnapshotNotFoundError, match=r"snapshot 5 does not exist or has expired; retained: 8 to 8"
    ):
        read_all(reader, planned, schema)


@covers("RD-10", "CHG-13")
def test_changes_that_expire_after_the_plan_are_refused(table: Table) -> None:
    found = source(table.path, incremental_between="0,3")
    schema = found.schema()
    reader = found.reader(schema)
    planned = moved(reader.partitions())
    put(table, ("+I", 9, 9))
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    table.remove_orphans(older_than="2100-01-01")
    message = r"changes after snapshot 0 up to 3: snapshot 1 does not exist or has expired; retained: 8 to 8"
    with pytest.raises(SnapshotNotFoundError, match=message):
        read_all(reader, planned, schema)
    with pytest.raises(SnapshotNotFoundError, match=message):
        read(table.path, incremental_between="0,3")


@covers("RD-11", "CHG-13")
def test_changes_whose_files_are_damaged_are_no_fewer_changes(table: Table) -> None:
    found = source(table.path, incremental_between="0,3")
    schema = found.schema()
    reader = found.reader(schema)
    planned = reader.partitions()
    for file in Path(table.path).glob("bucket-*/*.parquet"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="file size"):
        read_all(reader, planned, schema)
    for manifest in Path(table.path).glob("manifest/manifest-*"):
        manifest.write_bytes(manifest.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=r"manifest/manifest-"):
        reader.partitions()


@covers("CHG-13")
def test_a_table_with_a_column_called_like_the_kinds_of_changes_has_rows_and_no_changes(
    tmp_path: Path,
) -> None:
    table = Table.create(tmp_path, "id BIGINT, _row_kind STRING", primary_key=None)
    table.append([{"id": 1, "_row_kind": "mine"}])
    assert as_rows(read(table.path)) == {(1, "mine")}
    schema = source(table.path).schema()
    for given in (None, schema):
        for options in ({"incremental_between": "0,1"}, {"read__changelog": "true"}):
            with pytest.raises(
                InvalidRequestError, match="changes: the table has a column _row_kind of its own"
            ):
                read(table.path, given, **options)


@covers("RD-14")
def test_a_snapshot_that_is_gone_is_refused_when_it_is_read(table: Table) -> None:
    found = source(table.path, scan__snapshot_id=9)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 9 does not exist"):
        found.reader(found.schema()).partitions()


def test_no_filter_is_pushed_down() -> None:
    """Spark fails reads of a reader that takes filters while a setting, which is off by default, is off."""
    from pktable.spark_source.pieces import BatchReader

    assert "pushFilters" not in vars(BatchReader)
    assert PkTableSource.name() == "pktable"
