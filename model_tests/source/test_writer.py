"""Writes: which rows are written, what is left of tasks that fail, and what a repetition does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, PkTableError, Table
from pktable.spark_source import data_source
from pktable.store.file_io import abort
from pktable_spec.covers import covers
from pyspark.sql import types as st

from model_tests.source.driven import Sink, Stream, moved, read, source, staged, write

SCHEMA = st.StructType([st.StructField("v", st.IntegerType()), st.StructField("id", st.LongType())])


def some(*rows: tuple[int, int]) -> pa.Table:
    """Return rows of id and v, with the columns in another order than the table's."""
    return pa.table(
        {"v": pa.array([v for _, v in rows], pa.int32()), "id": pa.array([id for id, _ in rows], pa.int64())}
    )


@pytest.fixture(params=["messages", "files"])
def table(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table to which tasks send their rows in messages or by files."""
    if request.param == "files":
        monkeypatch.setattr("pktable.spark_source.writer.FEW_BYTES", 0)
    return Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key="id", options={"bucket": "2"})


def held(table: Table) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_arrow(fresh=True).to_pylist()}


def left(table: Table) -> list[str]:
    """Return the staged files."""
    return [one.name for one in Path(table.path).glob("staged/*")]


def test_a_write_upserts_all_rows_of_all_tasks_in_one_commit(table: Table) -> None:
    write(table.path, SCHEMA, some((1, 1), (2, 1)), some(), some((2, 2), (3, 2)))
    assert held(table) == {1: 1, 2: 2, 3: 2}
    assert [one.commit_kind for one in table.snapshots()].count("APPEND") == 1
    assert left(table) == []
    write(table.path, SCHEMA, some())
    write(table.path, SCHEMA)
    assert [one.commit_kind for one in table.snapshots()].count("APPEND") == 1


@covers("TBL-60", "CMT-56")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_write_is_not_committed_into_a_table_that_takes_the_place_of_its_own(
    table: Table, overwrite: bool, gone: bool
) -> None:
    writer = moved(source(table.path)).writer(SCHEMA, overwrite)
    messages = staged(writer, [some((1, 1))])
    shutil.rmtree(table.path)
    if not gone:
        options = {"bucket": "2"}
        other = Table.create(
            table.path, "id BIGINT, v INT", primary_key="id", options=options, comment="another"
        )
        other.upsert([{"id": 9, "v": 9}])
    with pytest.raises(PkTableError, match=r"has taken its place|found nothing"):
        moved(writer).commit(messages)
    moved(writer).abort(messages)
    assert gone or (held(other), left(other)) == ({9: 9}, [])


@covers("CMT-12", "TBL-60", "WH-23")
def test_an_abort_removes_no_table_that_takes_the_place_of_the_one_that_was_made(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = moved(source(path, primary_key="id")).writer(SCHEMA, False)
    shutil.rmtree(path)
    Table.create(path, "id BIGINT, v INT", primary_key="id", comment="another")
    moved(writer).abort([])
    assert Table.open(path).count() == 0


@covers("BRN-1", "BRN-3")
def test_a_branch_is_read_and_written_by_its_option_or_path(table: Table) -> None:
    write(table.path, SCHEMA, some((1, 1)))
    table.create_branch("b")
    write(table.path, SCHEMA, some((2, 2)), branch="b")
    write(f"{table.path}$branch_b", SCHEMA, some((3, 3)))
    branch = table.branch("b")
    assert (held(table), held(branch)) == ({1: 1}, {1: 1, 2: 2, 3: 3})
    stream = Stream(table.path, branch="b", read__changelog="true")
    assert sorted(row[1] for row in stream.next() or ()) == [1, 2, 3]
    Sink(table.path, SCHEMA, "query", branch="b").write(1, some((4, 4)))
    assert (len(held(table)), len(held(branch))) == (1, 4)
    branch.alter(add="n INT")
    found = read(table.path, branch="b", fresh="true")
    assert (found.column_names, sorted(found["id"].to_pylist())) == (["id", "v", "n"], [1, 2, 3, 4])
    assert read(table.path, fresh="true").column_names == ["id", "v"]
    assert left(table) == []
    with pytest.raises(InvalidRequestError, match="not found"):
        write(table.path, SCHEMA, some((4, 4)), branch="none")


@covers("CMT-56")
def test_rows_of_a_later_partition_are_newer(table: Table) -> None:
    writer = source(table.path).writer(SCHEMA, False)
    messages = staged(writer, [some((1, number)) for number in range(5)])
    moved(writer).commit(messages[::-1])
    assert held(table) == {1: 4}


def test_an_overwrite_replaces_all_rows(table: Table) -> None:
    write(table.path, SCHEMA, some((1, 1), (2, 2)))
    write(table.path, SCHEMA, some((3, 3)), overwrite=True)
    assert held(table) == {3: 3}
    write(table.path, SCHEMA, overwrite=True)
    assert held(table) == {}


def test_row_kinds_come_in_a_column(table: Table) -> None:
    schema = st.StructType([*SCHEMA, st.StructField("op", st.StringType())])
    write(table.path, SCHEMA, some((1, 1), (2, 2)))
    rows = some((1, 0), (3, 3)).append_column("op", pa.array(["-D", "+I"]))
    write(table.path, schema, rows, row_kind_column="op")
    assert held(table) == {2: 2, 3: 3}
    for options, overwrite, message in (
        ({}, False, "column op is not in the table|op"),
        ({"row_kind_column": "kind"}, False, "row kinds: expected one column 'kind'"),
        ({"row_kind_column": "op"}, True, "an overwrite has rows only"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            source(table.path, **options).writer(schema, overwrite)


def test_an_append_table_gets_all_rows(tmp_path: Path) -> None:
    events = Table.create(tmp_path / "e", "id BIGINT, v INT", primary_key=None)
    for _ in range(2):
        write(events.path, SCHEMA, some((1, 1), (1, 1)), some((1, 1)))
    assert events.count() == 6
    write(events.path, SCHEMA, some((2, 2)), overwrite=True)
    assert events.to_arrow().to_pylist() == [{"id": 2, "v": 2}]
    with pytest.raises(InvalidRequestError, match="row-kind-column: the table has no primary key"):
        source(events.path, row_kind_column="v").writer(SCHEMA, False)


def test_columns_that_do_not_fit_are_refused_before_a_task_runs(table: Table) -> None:
    for fields in (SCHEMA.fields[:1], [st.StructField("id", st.StringType()), SCHEMA.fields[0]]):
        with pytest.raises(InvalidRequestError, match="id"):
            source(table.path).writer(st.StructType(fields), False)
    assert table.snapshots() == []


@covers("WH-23")
def test_a_write_makes_the_table_if_it_is_given_the_key(tmp_path: Path) -> None:
    path = tmp_path / "new"
    given: dict[str, Any] = {"primary_key": "id", "bucket": "3"}
    with pytest.raises(InvalidRequestError, match="expected a table, found none; to make one"):
        source(path).writer(SCHEMA, False)
    for _ in range(2):  # the same program runs again
        write(path, SCHEMA, some((1, 1), (2, 2)), **given)
    table = Table.open(path)
    assert (held(table), table.options["bucket"]) == ({1: 1, 2: 2}, "3")
    assert table.schema.primary_keys == ("id",)
    for other in ({"primary_key": "v"}, {"partition": "v"}, {"bucket": "4"}):
        with pytest.raises(InvalidRequestError, match="which is there already"):
            source(path, **{**given, **other}).writer(SCHEMA, False)
    write(tmp_path / "plain", SCHEMA, some((1, 1)), primary_key="", partition="v")
    plain = Table.open(tmp_path / "plain")
    assert (plain.schema.primary_keys, plain.schema.partition_keys) == ((), ("v",))


@covers("WH-23")
def test_a_write_that_fails_leaves_no_table(tmp_path: Path) -> None:
    writer = source(tmp_path / "new", primary_key="id").writer(SCHEMA, False)
    messages = staged(writer, [some((1, 1))])
    moved(writer).abort(messages)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidRequestError):
        source(tmp_path / "new", primary_key="nosuch").writer(SCHEMA, False)
    assert list(tmp_path.iterdir()) == []


@covers("CMT-12", "CMT-66")
def test_a_task_that_fails_leaves_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pktable.spark_source.writer.FEW_BYTES", 0)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from some((1, 1)).to_batches()
        raise RuntimeError("asked to fail")

    writer = source(table.path).writer(SCHEMA, False)
    [message] = staged(writer, [some((2, 2))])
    with (
        mock.patch("pktable.spark_source.writer.abort", wraps=abort) as aborted,
        pytest.raises(RuntimeError, match="asked to fail"),
    ):
        moved(writer).write(failing())
    assert aborted.call_count == 1  # an object store would publish the rows of a sink that is closed
    assert len(left(table)) == 1
    moved(writer).abort([message, None])
    assert left(table) == []
    assert table.snapshots() == []


@covers("CMT-66")
def test_a_task_that_ran_twice_counts_once(table: Table) -> None:
    events = Table.create(f"{table.path}-events", "id BIGINT, v INT", primary_key=None)
    writer = source(events.path).writer(SCHEMA, False)
    [first] = staged(writer, [some((1, 1))])
    staged(writer, [some((1, 1))])  # whose message Spark drops
    moved(writer).commit([first])
    assert events.count() == 1
    assert left(events) == []


@covers("CMT-48", "CMT-56", "CMT-67")
def test_rows_of_a_write_that_was_killed_are_orphans(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pktable.spark_source.writer.FEW_BYTES", 0)
    write(table.path, SCHEMA, some((1, 1)))
    staged(source(table.path).writer(SCHEMA, False), [some((2, 2))])
    [name] = left(table)
    assert held(table) == {1: 1}
    [finding] = table.check().findings
    assert finding.severity == "note"
    assert name in str(finding)
    assert table.remove_orphans() == []  # it may be of a write that runs
    assert [one.path for one in table.remove_orphans(older_than="2100-01-01")] == [
        f"{table.path}/staged/{name}"
    ]
    assert left(table) == []
    assert table.check().findings == []


@covers("CMT-68")
def test_a_commit_that_fails_leaves_no_staged_rows(table: Table) -> None:
    writer = source(table.path).writer(SCHEMA, False)
    messages = staged(writer, [some((1, 1)).set_column(1, "id", pa.array([None], pa.int64()))])
    with pytest.raises(InvalidRequestError, match="id"):
        moved(writer).commit(messages)
    assert left(table) == []
    assert table.snapshots() == []


@covers("CMT-53")
def test_a_write_with_a_name_is_committed_once(tmp_path: Path) -> None:
    events = Table.create(tmp_path / "e", "id BIGINT, v INT", primary_key=None)
    for _ in range(2):
        write(events.path, SCHEMA, some((1, 1)), commit_user="nightly", commit_identifier=17)
    assert events.count() == 1
    [snapshot] = events.snapshots()
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("nightly", 17)
    for options in (
        {"commit_user": "a"},
        {"commit_identifier": 1},
        {"commit_user": "", "commit_identifier": 1},
    ):
        with pytest.raises(InvalidRequestError, match=r"commit-identifier: expected both|commit_id"):
            source(events.path, **options).writer(SCHEMA, False)


@covers("CMT-55")
def test_a_batch_that_comes_again_is_committed_once(tmp_path: Path) -> None:
    events = Table.create(tmp_path / "e", "id BIGINT, v INT", primary_key=None)
    sink = Sink(events.path, SCHEMA, "one")
    for number in (0, 0, 1, 1, 0):
        sink.write(number, some((number, 1)), some((number, 2)))
    assert events.count() == 4
    assert {(one.commit_user, one.commit_identifier) for one in events.snapshots()} == {
        ("spark-one", 0),
        ("spark-one", 1),
    }
    Sink(events.path, SCHEMA, "two").write(0, some((5, 5)))  # a new checkpoint
    assert events.count() == 5
    Sink(events.path, SCHEMA, "three", commit_user="mine").write(0, some((6, 6)))
    assert events.snapshots()[-1].commit_user == "mine"
    assert left(events) == []


@covers("CMT-55")
def test_a_batch_of_a_table_with_a_key_is_committed_once_too(table: Table) -> None:
    schema = st.StructType([*SCHEMA, st.StructField("op", st.StringType())])
    kinds = some((2, 2)).append_column("op", pa.array(["+I"]))
    for _ in range(2):
        Sink(table.path, SCHEMA, "one").write(0, some((1, 1)))
        Sink(table.path, schema, "two", row_kind_column="op").write(0, kinds)
    assert [one.commit_user for one in table.snapshots() if one.commit_kind == "APPEND"] == [
        "spark-one",
        "spark-two",
    ]
    assert held(table) == {1: 1, 2: 2}


@covers("CMT-55")
def test_a_batch_without_a_name_is_refused(table: Table) -> None:
    sink = Sink(table.path, SCHEMA, None)
    with pytest.raises(InvalidRequestError, match="does not tell the id of the query"):
        sink.write(0, some((1, 1)))
    assert left(table) == []


@covers("CMT-12", "CMT-56")
def test_a_batch_that_is_given_up_leaves_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pktable.spark_source.writer.FEW_BYTES", 0)
    sink = Sink(table.path, SCHEMA, "one")
    messages = sink.stage(some((1, 1)), some((2, 2)))
    assert len(left(table)) == 2
    sink.writer().abort([messages[0], None], 0)
    assert left(table) == []


def test_complete_mode_overwrites(table: Table) -> None:
    sink = Sink(table.path, SCHEMA, "one")
    sink.overwrite = True
    sink.write(0, some((1, 1), (2, 2)))
    sink.write(1, some((1, 3)))
    sink.write(1, some((1, 3)))
    assert held(table) == {1: 3}


def test_a_pyspark_without_streams_of_arrow_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        pass

    monkeypatch.setattr(data_source, "datasource", Older)
    with pytest.raises(
        InvalidRequestError, match=r"expected pyspark 4\.1 or later, found .* use foreachBatch"
    ):
        source(table.path).streamWriter(SCHEMA, False)
