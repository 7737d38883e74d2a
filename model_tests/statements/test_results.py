"""A change says what it did: rows inserted, updated and deleted, files and bytes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Effect, Table
from pktable.catalog.changes import CommitId
from pktable.catalog.state import StateLoader, TableState
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketId, BucketState
from pktable.merge_builder import MergeBuilder
from pktable.staged_write import StagedWrite
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import RowKind

ROWS = [{"id": i, "n": i} for i in range(4)]
PAIR = "target.id = source.id"
CHANGES = [{"id": 3, "n": 33}, {"id": 9, "n": 9}, {"id": 2, "n": None}]


def made(path: Path, *, keyed: bool, vectors: bool) -> Table:
    options = {"deletion-vectors.enabled": str(vectors).lower(), "bucket": "1" if keyed else "-1"}
    table = Table.create(path, "id BIGINT, n INT", primary_key="id" if keyed else None, options=options)
    (table.upsert if keyed else table.append)(ROWS)
    return table


def effect(result: Any) -> Effect:
    assert result is not None
    assert result.effect is not None
    found: Effect = result.effect
    assert found.snapshot == result
    return found


def counts(result: Any) -> tuple[int | None, ...]:
    found = effect(result)
    return found.inserted, found.updated, found.deleted


@covers("WH-12")
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_change_says_how_many_rows_it_changed(tmp_path: Path, keyed: bool, vectors: bool) -> None:
    table = made(tmp_path, keyed=keyed, vectors=vectors)
    assert counts((table.upsert if keyed else table.append)([{"id": 7, "n": 7}])) == (
        (None, None, 0) if keyed else (1, 0, 0)
    )
    assert counts(table.update({"n": "n + 1"}, where="id < 2")) == (0, 2, 0)
    assert counts(table.delete(where="id = 7")) == (0, 0, 1)
    merged = (
        table.merge(CHANGES, on="id")
        .when_matched_delete("source.n IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"n": "0"}, "target.id = 0")
        .execute()
    )
    assert counts(merged) == (1, 2, 1)
    assert table.update({"n": "1"}, where="id = 99") is None
    assert counts(table.overwrite(ROWS[:2])) == ((2, 0, None) if keyed else (2, 0, 4))


INSERTS: dict[str, tuple[Callable[[Table], Any], tuple[int | None, ...]]] = {
    "an overwrite by a condition": (lambda t: t.overwrite([CHANGES[0]], where="n = 33"), (None, None, 0)),
    "an overwrite of rows that it has read": (lambda t: t.overwrite([CHANGES[0]], where="id = 3"), (0, 1, 0)),
    "pairs of other columns": (lambda t: t.merge(CHANGES, on="n"), (None, None, 0)),
    "pairs of more columns": (lambda t: t.merge(CHANGES, on=["id", "n"]), (None, None, 0)),
    "pairs by a condition": (lambda t: t.merge(CHANGES, on=f"{PAIR} AND target.n > 9"), (None, None, 0)),
    "another key": (
        lambda t: t.merge(CHANGES, on="id").when_not_matched_insert({"id": "source.id - 7"}),
        (None, None, 0),
    ),
    "a key of another type": (
        lambda t: t.merge([{"x": 3.0}, {"x": 2.5}], on="target.id = source.x").when_not_matched_insert(
            {"id": "CAST(source.x AS BIGINT)"}
        ),
        (None, None, 0),
    ),
    "the key": (lambda t: t.merge(CHANGES, on="id"), (1, 0, 0)),
    "the key as its values": (
        lambda t: t.merge(CHANGES, on=PAIR).when_not_matched_insert({"id": "source.id"}),
        (1, 0, 0),
    ),
    "a narrower key": (
        lambda t: t.merge(pa.table({"id": pa.array([3, 9], pa.int16()), "n": [1, 2]}), on="id"),
        (1, 0, 0),
    ),
    "no insert": (
        lambda t: t.merge(CHANGES, on="n").when_not_matched_by_source_update({"n": "0"}, "target.id < 2"),
        (0, 2, 0),
    ),
}


@covers("STM-8", "WH-12")
@pytest.mark.parametrize("what", INSERTS)
def test_a_row_that_may_replace_one_unseen_is_not_counted_as_inserted(tmp_path: Path, what: str) -> None:
    change, expected = INSERTS[what]
    result = change(made(tmp_path, keyed=True, vectors=True))
    if isinstance(result, MergeBuilder):
        result = (result if result.clauses else result.when_not_matched_insert_all()).execute()
    assert counts(result) == expected


@covers("STM-8", "WH-12")
def test_pairs_of_some_columns_of_the_key_show_that_a_row_is_new(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "day STRING, id INT", primary_key=["day", "id"], partition_by="day")
    table.upsert([{"day": "a", "id": 1}])
    merge = table.merge([{"day": "b", "id": 1}, {"day": "b", "id": 2}], on="id").when_not_matched_insert_all()
    assert counts(merge.execute()) == (1, 0, 0)


@covers("WH-12")
def test_a_result_counts_files_and_is_the_id_of_its_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=True, vectors=True)
    first = table.upsert([{"id": 50, "n": 1}])
    assert isinstance(first, int)
    assert (json.dumps(first), f"{first}", pickle.loads(pickle.dumps(first))) == ("4", "4", 4)
    assert table.count(snapshot=first) == 5
    found = effect(first)
    assert (found.put, found.files_added, found.files_removed) == (1, 1, 0)
    assert found.bytes_added > 0
    compacted = effect(table.compact(full=True))
    assert (compacted.put, compacted.inserted, compacted.updated, compacted.deleted) == (0, 0, 0, 0)
    assert (compacted.files_added, compacted.files_removed) == (1, 2)
    table.expire_snapshots(retain_last=1)
    late = table.effect(4)
    assert late is None


@covers("WH-12")
def test_a_write_apart_from_its_compaction_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(
        tmp_path,
        "id INT, n INT",
        primary_key="id",
        options={"bucket": "2", "deletion-vectors.enabled": "true"},
    )
    table.upsert([{"id": i, "n": i} for i in range(10)])
    look, others = StagedWrite.drop_stale, [Table.open(tmp_path)]

    def after_another(staged: StagedWrite, state: TableState) -> list[BucketId]:
        if others:
            others.pop().upsert([{"id": 100, "n": 1}])
        return look(staged, state)

    monkeypatch.setattr(StagedWrite, "drop_stale", after_another)
    result = table.update({"n": "n + 1"}, where="id < 3")
    assert result is not None
    before, last = (table.catalog.snapshots.read(one) for one in (result - 1, result))
    assert last.commit_kind == "COMPACT"
    assert before.commit_user != last.commit_user
    assert result.effect is None


@covers("WH-12")
@pytest.mark.parametrize("keyed", [True, False])
def test_a_repeated_statement_does_not_report_the_counts_of_the_second_time(
    tmp_path: Path, keyed: bool
) -> None:
    table = made(tmp_path, keyed=keyed, vectors=True)

    def merge() -> Any:
        merging = table.merge(CHANGES, on="id").when_matched_update_all().when_not_matched_insert_all()
        return merging.execute(commit_id=CommitId("job", 1))

    first = merge()
    assert counts(first) == (1, 2, 0)
    second = merge()
    assert second == first
    assert counts(second) == ((None, None, 0) if keyed else (None, None, None))


@covers("WH-12")
def test_a_delete_of_keys_does_not_say_how_many_were_there(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=True, vectors=True)
    assert counts(table.delete([{"id": 99}])) == (0, 0, None)


@covers("WH-12")
def test_a_row_that_moves_to_another_partition_is_not_deleted(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path, "id INT, day STRING", primary_key="id", partition_by="day", options={"bucket": "-1"}
    )
    table.upsert([{"id": 1, "day": "a"}, {"id": 2, "day": "a"}])
    assert table.catalog.context.moves_keys
    assert counts(table.update({"day": "'b'"}, where="id = 1")) == (0, 1, None)
    assert counts(table.upsert([{"id": 2, "day": "b"}])) == (None, None, None)
    assert counts(table.delete(where="id = 2")) == (0, 0, 1)


def uncounted(bucket: BucketState) -> BucketState:
    """Return the bucket as one whose index manifest has no cardinalities, so that its vectors are read."""
    indexes = [
        replace(index, ranges=tuple(replace(one, cardinality=None) for one in index.ranges or ()))
        for index in bucket.indexes
    ]
    return replace(bucket, indexes=tuple(indexes))


@covers("WH-12")
@pytest.mark.parametrize("name", ["at", "bucket"])
def test_an_effect_is_none_if_its_snapshots_expire_while_it_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, keyed=False, vectors=True).delete(where="id = 1")
    table, others = Table.open(tmp_path), [Table.open(tmp_path)]
    snapshot, look = 2, getattr(StateLoader, name)

    def after_expiry(states: StateLoader, *given: Any) -> Any:
        if states is table.catalog.states and others:
            other = others.pop()
            other.overwrite(ROWS)
            other.expire_snapshots(retain_last=1)
        found = look(states, *given)
        return uncounted(found) if name == "bucket" else found

    monkeypatch.setattr(StateLoader, name, after_expiry)
    assert table.effect(snapshot) is None
    assert not others


@covers("WH-12")
def test_an_effect_whose_files_are_damaged_is_an_error(tmp_path: Path) -> None:
    made(tmp_path, keyed=False, vectors=True).delete(where="id = 1")
    for path in (tmp_path / "manifest").iterdir():
        path.unlink()
    with pytest.raises(CorruptFileError):
        Table.open(tmp_path).effect(2)


@covers("WH-12")
def test_a_repeated_write_does_not_report_what_others_wrote_since(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=True, vectors=True)
    again, rows = CommitId("job", 1), [{"id": 50, "n": 1}]
    staged = table.stage_write(rows, ChangeKind(RowKind.INSERT), write_only=True)
    assert staged is not None
    staged.commit(again)
    table.compact(full=True)
    others = table.upsert([{"id": 60, "n": 1}, {"id": 61, "n": 1}])
    result = table.upsert(rows, commit_id=again)
    assert result == others
    assert result is not None
    assert result.effect is None
