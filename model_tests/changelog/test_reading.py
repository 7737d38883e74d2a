"""Ranges, tags, columns, conditions, and tables without a producer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitId, CorruptFileError, InvalidRequestError, SnapshotNotFoundError, Table
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.changelog.tables import applied, changes, folded, new_table, put, rows, three_writes
from model_tests.damage.table_damage import Surgeon
from model_tests.source.driven import Stream


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return three_writes(tmp_path / "t")


@covers("CHG-11")
def test_a_range_leaves_its_start_out_and_has_its_end(table: Table) -> None:
    assert changes(table, 2, 4) == [("-U", 1, 1), ("+U", 1, 5), ("+I", 3, 3)]
    assert changes(table, 4) == changes(table, 4, 6) == [("-D", 2, 2)]
    assert changes(table, 6) == changes(table, 3, 3) == []


@covers("CHG-11")
@pytest.mark.parametrize("start", range(7))
@pytest.mark.parametrize("end", range(7))
def test_the_changes_of_a_range_lead_from_one_read_to_the_other(table: Table, start: int, end: int) -> None:
    if start <= end:
        before = rows(table, snapshot=start) if start else set()
        assert applied(before, changes(table, start, end)) == (rows(table, snapshot=end) if end else set())


MOVING = (
    ("none", "true"),
    ("none", "false"),
    ("input", "true"),
    ("lookup", "true"),
    ("lookup", "false"),
    ("full-compaction", "false"),
)


def moving(path: Path, producer: str, vectors: str, others: Mapping[str, str] = {}) -> Table:
    """Create a table whose keys move between partitions."""
    options = {"changelog-producer": producer, "deletion-vectors.enabled": vectors, "bucket": "-1", **others}
    return Table.create(path, "id INT, p STRING", primary_key="id", partition_by="p", options=options)


def write_only(table: Table, changes: pa.Table, kind: ChangeKind) -> None:
    """Write changes that wait at level 0."""
    staged = table.stage_write(changes, kind, write_only=True)
    assert staged is not None
    staged.commit(CommitId.new())


@covers("CHG-9", "CHG-40", "BKT-27")
@pytest.mark.parametrize(("producer", "vectors"), MOVING)
def test_a_key_leaves_its_partition_before_it_comes_to_the_next(
    tmp_path: Path, producer: str, vectors: str
) -> None:
    table = moving(tmp_path, producer, vectors)
    stream = Stream(table.path, read__changelog="true", scan__mode="from-snapshot", scan__snapshot_id="1")
    ids = pa.array(range(4), pa.int32())
    table.upsert(pa.table({"id": ids, "p": ["a", "a", "b", "b"]}))
    table.compact(full=True)
    ids = pa.array([0, 0, 3, 1, 2, 2], pa.int32())
    kinds = ["+U", "+U", "+U", "-D", "+U", "+U"]
    moved = pa.table({"id": ids, "p": ["b", "a", "a", "b", "a", "b"], "kind": kinds})
    for one in (moved, moved.slice(0, 1)):  # the first key moves there and back, and then there
        write_only(table, one, ChangeKind(column="kind"))
        assert folded([], changes(table, 0)) == rows(table, fresh=True) or producer not in ("none", "input")
        table.compact(full=True, where="p = 'b'")
        assert folded([], changes(table, 0)) == rows(table)
    scan = table.changes(0)
    assert rows(table) == {(0, "b"), (2, "b"), (3, "a")}
    assert scan.to_batches().read_all().equals(scan.to_arrow())
    assert stream.rest() == changes(table, 0)


@covers("CHG-9", "BKT-27")
def test_a_compaction_that_records_changes_takes_the_bucket_that_a_key_has_left(tmp_path: Path) -> None:
    trigger = {"num-sorted-run.compaction-trigger": "3"}
    table = moving(tmp_path, "full-compaction", "false", trigger)

    def upsert(key: int, partition: str) -> None:
        table.upsert(pa.table({"id": pa.array([key], pa.int32()), "p": [partition]}))

    upsert(1, "b")
    table.compact(full=True)
    upsert(2, "a")
    upsert(3, "a")
    upsert(1, "a")  # the third run of one bucket, and the second one of the other
    table.compact(full=True)
    assert folded([], changes(table, 0)) == rows(table) == {(1, "a"), (2, "a"), (3, "a")}


@covers("BKT-27", "BKT-28")
@pytest.mark.parametrize(("producer", "vectors"), MOVING)
def test_an_overwrite_takes_a_key_whose_deletion_waits_elsewhere(
    tmp_path: Path, producer: str, vectors: str
) -> None:
    table = moving(tmp_path, producer, vectors)
    one = pa.table({"id": pa.array([1], pa.int32()), "p": ["a"]})
    table.upsert(one)
    write_only(table, one, ChangeKind(RowKind.DELETE))
    table.overwrite(one.set_column(1, "p", [["b"]]), where="p = 'b'")
    overwrite = table.snapshots()[-1].id
    assert rows(table) == rows(table, fresh=True) == {(1, "b")}
    table.compact(full=True)
    assert folded(rows(table, snapshot=overwrite), changes(table, overwrite)) == {(1, "b")}


@covers("BKT-27", "CMT-12")
def test_an_interrupt_of_the_compaction_before_an_overwrite_is_none_of_the_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = moving(tmp_path, "none", "true")
    one = pa.table({"id": pa.array([1], pa.int32()), "p": ["a"]})
    table.upsert(one)
    write_only(table, one, ChangeKind(RowKind.DELETE))

    def interrupted(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(table.catalog.committer.snapshots, "remember", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        table.overwrite(one.set_column(1, "p", [["b"]]), where="p = 'b'")
    assert type(raised.value) is KeyboardInterrupt, "it does not say that the overwrite is committed"
    assert [one.commit_kind for one in table.snapshots()][-1] == "COMPACT"
    assert rows(table) == set()
    assert table.remove_orphans(older_than=1 << 50, dry_run=True) == []


@covers("CHG-11")
def test_tags_name_the_ends_of_a_range(table: Table) -> None:
    table.create_tag("first", snapshot=2)
    table.create_tag("second", snapshot=4)
    assert changes(table, "first", "second") == changes(table, 2, 4)
    assert changes(table, "second") == changes(table, 4)
    with pytest.raises(SnapshotNotFoundError, match="tag 'third'"):
        changes(table, "third")


@covers("CHG-11")
def test_columns_and_conditions_are_of_the_row_of_a_change(table: Table) -> None:
    assert table.changes(0, columns="v").to_arrow().column_names == ["_row_kind", "v"]
    assert table.changes(0, where="v = 5", columns=["id"]).to_pylist() == [{"_row_kind": "+U", "id": 1}]
    with pytest.raises(InvalidRequestError, match="columns: expected some of id, v"):
        table.changes(0, columns="x").to_arrow()


@covers("CHG-11")
def test_changes_are_an_arrow_stream(table: Table) -> None:
    streamed = pa.RecordBatchReader.from_stream(table.changes(0)).read_all()
    assert streamed.equals(table.changes(0).to_arrow())
    assert streamed.equals(table.changes(0).read())
    assert streamed.schema == table.changes(0).schema
    assert [one.name for one in streamed.schema if not one.nullable] == ["_row_kind", "id"]


@covers("CHG-11")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_without_a_producer_changes_are_what_writes_added_to_level_zero(tmp_path: Path, vectors: str) -> None:
    table = new_table(tmp_path / "t", "none", deletion_vectors__enabled=vectors)
    put(table, ("+I", 1, 1), ("+U", 1, 2), ("+I", 2, 2))
    put(table, ("-D", 2, None), ("+I", 1, 1), ("-D", 1, None))
    table.compact(full=True)
    assert changes(table, 0) == [("+U", 1, 2), ("+I", 2, 2), ("-D", 1, None), ("-D", 2, None)]


@covers("CHG-11", "CHG-12")
def test_rows_of_an_append_table_are_inserted(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT", primary_key=None)
    table.append(pa.table({"id": [1, 1]}))
    table.append(pa.table({"id": [2]}))
    table.compact()
    assert changes(table, 0) == [("+I", 1), ("+I", 1), ("+I", 2)]
    assert changes(table, 1) == [("+I", 2)]
    table.delete(where="id = 1")
    with pytest.raises(InvalidRequestError, match="OVERWRITE"):
        changes(table, 0)


@covers("CHG-11", "RD-14")
def test_changes_have_the_columns_of_the_last_snapshot(table: Table) -> None:
    from dataclasses import replace

    from pktable.format.metadata.schema import encode_schema
    from pktable.format.types import DataType, Field

    schema = table.schema
    added = replace(
        schema,
        id=1,
        fields=(*schema.fields, Field(schema.highest_field_id + 1, "w", DataType("INT"))),
        highest_field_id=schema.highest_field_id + 1,
    )
    Path(f"{table.path}/schema/schema-1").write_bytes(encode_schema(added))
    later = Table.open(table.path)
    assert changes(later, 4) == [("-D", 2, 2)]
    later.upsert({"id": [1], "v": [7], "w": [8]})
    assert changes(later, 4) == [("-D", 2, 2, None), ("-U", 1, 5, None), ("+U", 1, 7, 8)]


@covers("CHG-13")
@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (5, 4, "changes: start 5 is after end 4"),
        (-1, None, "start: expected the id of a snapshot or the name of a tag, found -1"),
        (1.5, None, "start: expected the id of a snapshot or the name of a tag, found 1.5"),
        (
            0,
            9,
            "changes after snapshot 0 up to 9: snapshot 7 does not exist or has expired; retained: 1 to 6",
        ),
    ],
)
def test_a_range_that_there_is_not_is_refused(table: Table, start: Any, end: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError) as found:
        changes(table, start, end)
    assert str(found.value) == message


@covers("CHG-13")
def test_a_tag_of_a_snapshot_that_was_rolled_back_is_no_end(table: Table) -> None:
    table.rollback(snapshot=4)
    put(table, ("+I", 9, 9))
    assert changes(table, 4) == [("+I", 9, 9)]


def test_a_table_with_a_column_of_the_same_name_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, _row_kind STRING", primary_key="id")
    with pytest.raises(InvalidRequestError, match="a column _row_kind of its own"):
        table.changes(0).to_arrow()


@pytest.mark.spark
@covers("CHG-5", "CHG-11")
@pytest.mark.parametrize("producer", ["input", "lookup", "none"])
def test_spark_records_and_reads_the_same_changes(tmp_path: Path, producer: str) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    session = spark_session()
    path = new_table(tmp_path / "t", producer, bucket="2").path
    table = Table.open(path, runner=SparkRunner(session))
    table.upsert(session.createDataFrame([(key, key) for key in range(20)], "id BIGINT, v INT"))
    kinds = session.createDataFrame(
        [(1, 5, "+U"), (1, 6, "+U"), (2, None, "-D")], "id BIGINT, v INT, op STRING"
    )
    table.write_changes(kinds, row_kind="op")
    frame = table.changes(0).read()
    assert frame.columns == ["_row_kind", "id", "v"]
    assert sorted(map(tuple, frame.collect()), key=repr) == sorted(changes(table, 0), key=repr)
    later = sorted(changes(table, 2))
    assert (
        later
        == {
            "lookup": [("+U", 1, 6), ("-D", 2, 2), ("-U", 1, 1)],
            "input": [("+U", 1, 5), ("+U", 1, 6), ("-D", 2, None)],
            "none": [("+U", 1, 6), ("-D", 2, None)],
        }[producer]
    )
    assert not table.check().findings


@covers("TBL-4", "CHG-11")
def test_a_row_kind_that_is_none_is_damage(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "none")
    put(table, ("+I", 1, 1), ("+I", 2, 2), write_only=True)
    (name,) = table.files().column("file_name").to_pylist()
    Surgeon(tmp_path / "t").edit_column(name, "_VALUE_KIND", lambda kinds: [4, *kinds[1:]])
    with pytest.raises(CorruptFileError, match=rf"{name}: row kinds: expected 0 to 3, found others"):
        changes(Table.open(tmp_path / "t"), 0)


@covers("CHG-13")
def test_a_range_that_expires_while_it_is_read_is_refused_as_expired(table: Table) -> None:
    def work(parts: object, context: object) -> None:
        Table.open(table.path).expire_snapshots(retain_last=1)
        raise CorruptFileError("data file", at="data-1", expected="a file", found="none")

    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 2 up to 4: snapshot 3"):
        table.catalog.read_changes(2, 4, work)
