"""Delete rows of append tables: by vectors or by writing files again, alone and with others at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitConflictError, CommitId, InvalidRequestError, Table
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import TableState
from pktable.format.metadata.manifest import ADD, ManifestEntry
from pktable.predicate import parse
from pktable.run import runner
from pktable.run.runner import FoundRows, Query, RowChange
from pktable.run.spark.runner import SparkRunner
from pktable.staged import RowWork, StagedRows
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import rows_of
from model_tests.append.test_writing import FIXED, made, some, sound
from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import commit

DV = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "vectors": DV,
    "vectors of 64 bits": {**DV, "deletion-vectors.bitmap64": "true"},
    "vectors in buckets": {**DV, **FIXED},
    "files written again": {},
    "files of buckets written again": FIXED,
}
each_kind = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
with_vectors = pytest.mark.parametrize("options", [DV, {**DV, **FIXED}], ids=["no buckets", "buckets"])


def ids(table: Table, **options: Any) -> list[int]:
    found: list[int] = sorted(Table.open(table.path).to_arrow(**options).column("id").to_pylist())
    return found


def indexes(table: Table) -> set[str]:
    return {one.file_name for files in table.catalog.state().indexes.values() for one in files}


def query_of(table: Table, where: str, columns: Sequence[str] = (), state: TableState | None = None) -> Query:
    context, predicate = table.catalog.context, parse(where, table.schema.fields)
    state = state or table.catalog.state()
    parts = plan_read(context, table.catalog.states, state, fresh=True, predicate=predicate)
    return Query(parts, columns, predicate)


def found_rows(table: Table, where: str, state: TableState | None = None) -> list[FoundRows]:
    """Return where the rows lie that satisfy a condition, at some state of the table."""
    return runner.found_rows(table.runner, table.catalog.context, query_of(table, where, state=state))


@covers("APP-1", "APP-12", "APP-13", "META-11", "RD-15")
@each_kind
@pytest.mark.parametrize("partition", [(), "p"])
def test_exactly_the_rows_of_the_condition_go(
    tmp_path: Path, options: dict[str, str], partition: Any
) -> None:
    table = made(tmp_path, options, partition_by=partition)
    rows = pa.concat_tables([some(0, 60, 1), some(60, 90, None)])
    table.append(rows)
    table.append(rows.slice(0, 10))
    assert table.delete(where="id % 3 = 0 OR v IS NULL") == 3
    kept = [row for row in [*rows.to_pylist(), *rows.slice(0, 10).to_pylist()] if row["id"] % 3 and row["v"]]
    table = sound(table)
    assert rows_of(table.to_arrow().to_pylist()) == rows_of(kept)
    assert table.count() == len(kept)
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND", "APPEND", "OVERWRITE"]
    assert table.count(snapshot=2) == 100
    assert table.delete(where="id = 3") is None
    assert table.delete(where="id = 4", commit_id=CommitId("d", 1)) == 4
    assert table.delete(where="id = 5", commit_id=CommitId("d", 1)) == 4, "committed before"
    assert (4 in ids(table), 5 in ids(table)) == (False, True)
    assert table.delete(where="TRUE") == 5
    assert sound(table).count() == 0
    assert table.append(some(0, 3)) == 6
    assert ids(sound(table)) == [0, 1, 2]


@covers("APP-12", "META-11")
def test_a_delete_by_vectors_adds_and_removes_no_file(tmp_path: Path) -> None:
    table = made(tmp_path, DV)
    table.append(some(0, 50))
    table.delete(where="id < 9")
    snapshot = table.snapshots()[-1]
    assert (snapshot.delta_record_count, snapshot.total_record_count, table.count()) == (0, 50, 41)
    files = table.files().to_pylist()
    assert [(file["row_count"], file["deleted_row_count"]) for file in files] == [(50, 9)]


@covers("APP-14")
def test_without_buckets_only_touched_index_files_are_written_again(tmp_path: Path) -> None:
    table = made(tmp_path, DV)
    for start in (0, 10, 20, 30):
        table.append(some(start, start + 10))
    table.delete(where="id IN (1, 11)")
    (first,) = indexes(table)
    table.delete(where="id = 21")
    assert first in indexes(table)
    (second,) = indexes(table) - {first}
    table.delete(where="id IN (2, 31)")
    after = indexes(table)
    assert second in after, "it has no vector of a file that changed"
    assert first not in after
    by_index: dict[str, list[int]] = {}
    for row in table.inspect.vectors().to_pylist():
        by_index.setdefault(row["index_file"], []).append(row["deleted_row_count"])
    # The vector of 11 alone, that of 21, and those of the files that changed.
    assert sorted(map(sorted, by_index.values())) == [[1], [1], [1, 2]]
    assert ids(sound(table)) == sorted(set(range(40)) - {1, 2, 11, 21, 31})


@covers("APP-14", "DV-16")
def test_with_buckets_a_bucket_keeps_one_index_file(tmp_path: Path) -> None:
    table = made(tmp_path, {**DV, **FIXED})
    for start in (0, 10, 20):
        table.append(some(start, start + 10))
        table.delete(where=f"id >= {start} AND id < {start + 5}")
    assert all(len(files) == 1 for files in table.catalog.state().indexes.values())
    assert ids(sound(table)) == [*range(5, 10), *range(15, 20), *range(25, 30)]


class OvertakenError(Exception):
    """Others have changed what a delete is about."""


def staged_delete(table: Table, state: TableState, where: str) -> StagedRows:
    """Stage a delete that is computed once."""

    def work(on: TableState) -> RowChange:
        if on is not state:
            raise OvertakenError
        return RowChange(found_rows(table, where, state))

    return StagedRows.of(table.stager, state, work)


def change_rows(table: Table, work: RowWork) -> TableState | None:
    """Compute a change on the latest snapshot and commit it."""
    return StagedRows.of(table.stager, table.catalog.state(), work).commit(CommitId.new())


@covers("APP-14")
def test_an_index_file_is_closed_at_its_target_size(tmp_path: Path) -> None:
    table = made(tmp_path, {**DV, "deletion-vector.index-file.target-size": "60 b"})
    for start in range(0, 60, 10):
        table.append(some(start, start + 10))
    table.delete(where="id % 10 = 4")
    assert len(indexes(table)) == 3
    assert sound(table).count() == 54


@covers("APP-13", "APP-18")
@with_vectors
def test_deletes_at_the_same_time_in_one_file_lose_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    state = table.catalog.state()
    staged = [staged_delete(table, state, where) for where in ("id < 10", "id >= 20")]
    for one in staged:
        one.commit(CommitId.new())
    assert ids(sound(table)) == list(range(10, 20))


@covers("APP-17")
@each_kind
def test_a_row_that_others_have_deleted_makes_the_change_stale(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    state = table.catalog.state()
    first, second = (staged_delete(table, state, where) for where in ("id = 7", "id IN (7, 8)"))
    first.commit(CommitId.new())
    with pytest.raises(OvertakenError):
        second.commit(CommitId.new())
    assert ids(sound(table)) == [i for i in range(30) if i != 7]


@covers("APP-15", "APP-17")
@each_kind
def test_a_delete_that_a_compaction_overtook_is_computed_again(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    table.append(some(30, 60))
    calls = []

    def work(state: TableState) -> RowChange:
        found = found_rows(table, "id % 10 = 3", state)
        calls.append({name for one in found for name in one.positions})
        if len(calls) == 1:
            assert Table.open(table.path).compact(full=True) is not None
        return RowChange(found)

    assert change_rows(table, work) is not None
    assert len(calls) == 2
    assert calls[0] != calls[1]
    assert ids(sound(table)) == [i for i in range(60) if i % 10 != 3]


@covers("APP-16")
@each_kind
def test_a_compaction_that_a_delete_overtook_revives_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    table.append(some(30, 60))
    staged = table.stage_compaction(full=True)
    assert staged.changes
    Table.open(table.path).delete(where="id < 5")
    assert staged.commit(CommitId.new()) is not None
    table = sound(table)
    assert ids(table) == list(range(5, 60))
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert not indexes(table) or all(row["positions"] == [] for row in table.inspect.vectors().to_pylist())


@covers("APP-13", "APP-18", "CMT-14")
@with_vectors
def test_a_compaction_of_other_files_keeps_the_vectors_of_a_delete(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, {**options, "compaction.min.file-num": "2"})
    table.append(some(0, 400))
    table.append(some(400, 700))
    table.delete(where="id < 300")
    staged = table.stage_compaction()
    new = some(700, 760)
    table.append(new)
    Table.open(table.path).delete(where="id >= 730")
    staged.commit(CommitId.new())
    assert ids(sound(table)) == list(range(300, 730))


@covers("APP-12", "APP-17")
@each_kind
def test_rows_are_replaced_in_one_snapshot(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    calls = []

    def work(state: TableState) -> RowChange:
        calls.append(state.id)
        if len(calls) == 1:
            table.delete(where="id = 4")
        found = found_rows(table, "id < 8", state)
        rows = table.to_arrow(where="id < 8", snapshot=state.id)
        ids = pa.array([100 + i for i in rows.column("id").to_pylist()], pa.int64())
        return RowChange(found, rows.set_column(0, "id", ids))

    after = change_rows(table, work)
    assert after is not None
    assert calls == [1, 2], "the row that the other delete took is not written again"
    assert ids(sound(table)) == [*range(8, 30), *(100 + i for i in range(8) if i != 4)]
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND", "OVERWRITE", "OVERWRITE"]


@covers("APP-12", "CMT-12")
@each_kind
def test_a_statement_that_always_loses_is_refused_and_leaves_no_file(
    tmp_path: Path, options: dict[str, str]
) -> None:
    from pktable.retry import RetryPolicy

    table = made(tmp_path, options)
    table.append(some(0, 30))
    table.catalog.committer.policy = RetryPolicy(attempts=2)
    left = iter(range(30))

    def work(state: TableState) -> RowChange:
        found = found_rows(table, "id > 20", state)
        Table.open(table.path).delete(where=f"id = {30 - 1 - next(left)}")
        return RowChange(found, some(100, 103))

    with pytest.raises(
        CommitConflictError, match="statement failed: in all 2 attempts others changed its rows"
    ):
        change_rows(table, work)
    assert ids(sound(table)) == list(range(28))


@covers("APP-1", "STM-7")
@each_kind
def test_rows_are_overwritten_and_truncated(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options, partition_by="p")
    table.append(some(0, 20, 1))
    table.append(some(20, 40, 2))
    table.delete(where="id % 2 = 0")
    table.overwrite(some(100, 103, 2), where="p = 2")
    assert ids(sound(table)) == [*range(1, 20, 2), 100, 101, 102]
    table.overwrite(some(7, 9, 1))
    assert ids(sound(table)) == [7, 8]
    assert not indexes(table)
    table.truncate()
    assert sound(table).count() == 0
    table.append(some(0, 3, 1))
    assert ids(sound(table)) == [0, 1, 2]


@covers("APP-13", "DV-4")
@with_vectors
def test_a_vector_of_a_file_that_is_gone_hinders_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    """Other writers leave such vectors; a check says so, and the next change of the DV index file drops them."""
    table = made(tmp_path, {**options, **({"bucket": "1"} if "bucket" in options else {})})
    table.append(some(0, 10))
    table.append(some(10, 20))
    table.delete(where="id IN (3, 13)")
    state = table.catalog.state()
    ((bucket_id, files),) = state.files.items()
    kept = [ManifestEntry(ADD, *bucket_id, table.catalog.context.options.bucket, file) for file in files[1:]]
    commit(Path(table.path), kept, list(state.indexes[bucket_id]))
    table = Table.open(table.path)
    left = ids(table)
    table.delete(where=f"id = {left[0]}")
    assert ids(table) == left[1:]
    (named,) = table.inspect.vectors().column("file_name").to_pylist()
    assert named == files[1].file_name
    table.compact(full=True)
    assert ids(table) == left[1:]


@covers("APP-13", "APP-18", "CMT-26")
@with_vectors
def test_a_change_whose_snapshot_has_expired_is_committed_on_the_latest(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 30))
    table.delete(where="id = 1")
    state = table.catalog.state()
    staged = staged_delete(table, state, "id = 2")
    other = Table.open(table.path)
    for number in (3, 4):
        other.delete(where=f"id = {number}")
    other.expire_snapshots(retain_last=1)
    # Another process, which has read none of the DV index files of the base.
    fresh = replace(staged, stager=Table.open(table.path).stager)
    fresh.commit(CommitId.new())
    assert ids(sound(table)) == [0, *range(5, 30)]


@covers("APP-12")
def test_a_bad_condition_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, DV)
    table.append(some(0, 3))
    for where in ("nope = 1", "id +", "1 / (id - 1) > 0"):
        with pytest.raises(InvalidRequestError):
            table.delete(where=where)
    assert table.catalog.state().id == 1


@covers("APP-12", "APP-13", "DV-4")
def test_vectors_of_a_table_that_has_them_no_more_go_with_their_files(tmp_path: Path) -> None:
    from pktable.format.metadata.schema import encode_schema

    table = made(tmp_path, DV)
    table.append(some(0, 10))
    table.append(some(10, 20))
    table.delete(where="id IN (3, 13)")
    off = replace(table.schema, id=1, options={})
    Path(table.path, "schema", "schema-1").write_bytes(encode_schema(off))
    table = Table.open(table.path)
    table.delete(where="id = 4")
    assert ids(sound(table)) == [i for i in range(20) if i not in (3, 4, 13)]
    assert table.inspect.vectors().num_rows == 1


@pytest.mark.versions
@pytest.mark.spark
@covers("APP-2", "APP-12", "APP-21")
@pytest.mark.parametrize("kind", ["vectors of 64 bits", "files of buckets written again"])
def test_spark_deletes_and_compacts_the_same_rows(tmp_path: Path, kind: str) -> None:
    made(tmp_path, KINDS[kind], partition_by="p")
    table = Table.open(tmp_path / "t", spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    table.append(pa.concat_tables([some(0, 100, 1), some(100, 150, None)]))
    table.append(some(150, 200, 2))
    table.delete(where="id % 7 = 0")
    located = table.runner.read_located(table.catalog.context, query_of(table, "id < 4", ["id"])).collect()
    assert sorted(row["id"] for row in located) == [1, 2, 3]
    assert {row["__pktable_file"] for row in located} <= set(table.files().column("file_name").to_pylist())
    assert all(isinstance(row["__pktable_position"], int) for row in located)
    expected = [i for i in range(200) if i % 7]
    assert ids(sound(table)) == expected
    table.compact(full=True)
    assert ids(sound(table)) == expected


@covers("APP-12", "APP-13", "APP-16", "APP-17", "APP-18", "APP-21")
@each_kind
def test_deletes_updates_and_compactions_of_several_at_once_lose_nothing(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, {**options, "compaction.min.file-num": "2"})
    table.append(some(0, 60))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        own = Table.open(table.path)
        try:
            for step in range(4):
                own.delete(where=f"id = {10 * number + step}")
                own.append(some(1000 * number + 10 * step, 1000 * number + 10 * step + 10))
        except BaseException as error:  # a thread of its own loses it
            errors.append(error)

    def compact() -> None:
        own = Table.open(table.path)
        try:
            for step in range(4):
                own.compact(full=step % 2 == 0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)] + [
        threading.Thread(target=compact)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    deleted = {10 * n + step for n in (1, 2, 3) for step in range(4)}
    added = [1000 * n + i for n in (1, 2, 3) for i in range(40)]
    assert ids(sound(table)) == sorted([*(i for i in range(60) if i not in deleted), *added])


@covers("CMT-12", "APP-12")
def test_a_statement_that_fails_while_it_writes_leaves_no_file(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id INT, v INT", primary_key=None, options=DV)
    table.append([{"id": 1, "v": 1}])
    before, write = sorted((tmp_path / "t").rglob("*")), table.runner.write

    def failing(*arguments: Any) -> Any:
        write(*arguments)
        raise OSError("the disk is gone")

    table.stager.runner.write = table.runner.write = failing  # type: ignore[method-assign,assignment]
    with pytest.raises(OSError, match="the disk is gone"):
        table.update({"v": "2"}, where="id = 1")
    assert sorted((tmp_path / "t").rglob("*")) == before
