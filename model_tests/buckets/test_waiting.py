"""Rows that wait for a bucket: they are written beside the table, and a compaction makes them rows of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.bucket import assign
from pktable.bucket.assign import BucketAssigner, HashedBuckets, HashFiles
from pktable.catalog.changes import CommitId
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.append.paimon_tables import expected_of, expected_rows, rows_of
from model_tests.backends.spark_session import spark_session
from model_tests.buckets.tables import real, rows, values
from model_tests.commit.hooks import Hooked
from model_tests.real_data import needs_shared

NUMBER = "postpone.default-bucket-num"


def new_table(path: Path, **options: str) -> Table:
    """Create a table whose rows wait. ``options``: with _ for - and __ for a dot."""
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    defaults = {"bucket": "-2", NUMBER: "2", "deletion-vectors.enabled": "true"}
    return Table.create(path, "k INT, v INT NOT NULL", primary_key="k", options={**defaults, **given})


def totals(table: Table) -> set[tuple[int, int]]:
    """Return bucket and number of buckets of all live files, as the manifests say."""
    catalog = table.catalog
    _, entries = catalog.states.live_entries(table.snapshots()[-1])
    return {(entry.bucket, entry.total_buckets) for entry in entries}


@covers("BKT-13", "RD-21")
def test_written_rows_wait_beside_the_table(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(range(5)))
    table.delete(rows([1]).select(["k"]))
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND", "APPEND"]
    assert totals(table) == {(-2, -2)}
    assert (table.count(), table.count(fresh=True)) == (0, 0)
    names = [path.name for path in (tmp_path / "t" / "bucket-postpone").iterdir()]
    assert len(names) == 2
    assert all(
        re.fullmatch(r"data--u-[0-9a-f-]{36}-s-0-w-[0-9a-f-]{36}-\d+\.parquet", name) for name in names
    )
    (waiting,) = table.plan_compaction()
    assert (waiting.bucket, waiting.files, waiting.rows) == (-2, 2, 6)


@covers("BKT-14", "BKT-15", "TBL-6")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_compaction_gives_waiting_rows_their_buckets(tmp_path: Path, vectors: str) -> None:
    table = new_table(tmp_path / "t", deletion_vectors__enabled=vectors)
    for number in range(3):
        table.upsert(rows(range(number, number + 6), number))
    table.delete(rows([0, 7]).select(["k"]))
    table.compact()
    assert [one.commit_kind for one in table.snapshots()][-1] == "COMPACT"
    expected = {1: 1 - 1 + 1, **dict.fromkeys(range(2, 7), 2)}
    assert values(table) == expected
    assert totals(table) == {(0, 2), (1, 2)}
    table.upsert(rows([3, 9], 5))
    table.compact(full=True)
    assert values(table) == {**expected, 3: 5, 9: 5}
    assert table.compact() is None
    assert {one.clause for one in check(tmp_path / "t").findings} == {"TBL-20"}  # a note on bucket -2
    fixed = Table.create(tmp_path / "fixed", "k INT, v INT", primary_key="k", options={"bucket": "2"})
    fixed.upsert(rows(expected))
    for file in table.files().to_pylist():
        for key in table.inspect.records(file["file_name"]).column("k").to_pylist():
            (split,) = fixed.scan(where=f"k = {key}").splits() if key in expected else (None,)
            assert split is None or split.bucket == file["bucket"]


@covers("BKT-15")
def test_a_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(range(40)))
    table.compact()
    table.alter(set_options={NUMBER: "7"})
    again = Table.open(tmp_path / "t")
    again.upsert(rows(range(80), 1))
    again.compact()
    assert totals(again) == {(0, 2), (1, 2)}
    assert values(again) == dict.fromkeys(range(80), 1)


def in_real_buckets(context: TableContext, known: HashFiles) -> BucketAssigner:
    """Return the assigner of Paimon's batches, whose rows do not wait."""
    return HashedBuckets(context.schema.bucket_key_fields, 2)


@covers("BKT-16", "CMT-54")
@pytest.mark.parametrize("moves", [True, False])
def test_rows_are_moved_again_if_others_change_their_buckets(tmp_path: Path, moves: bool) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(range(6)))
    table.compact()
    table.upsert(rows(range(3, 9), 1))

    def others(put: Callable[[], Any]) -> Any:
        other = Table.open(tmp_path / "t")
        if moves:
            other.compact()
            other.upsert(rows([20], 2))
        else:
            direct = [(lambda context: True, in_real_buckets)]
            with mock.patch.object(assign, "ASSIGNERS", direct):
                staged = other.stage_write(rows([8, 20] * 9, 2), ChangeKind(RowKind.INSERT), write_only=True)
                assert staged is not None
                staged.commit(CommitId.new())
        return put()

    last = len(table.snapshots())
    late = Table.open(tmp_path / "t", store=Hooked("put_if_absent", f"snapshot-{last + 1}", others))
    late.compact()
    late.compact()
    assert values(late) == {**dict.fromkeys(range(3), 0), **dict.fromkeys(range(3, 9), 1), 20: 2}
    assert {one.clause for one in check(tmp_path / "t").findings} <= {"TBL-20", "TBL-3", "TBL-5"}


@covers("BKT-17")
def test_statements_are_refused_while_rows_wait(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows(range(4)))
    statements: list[Callable[[], object]] = [
        lambda: table.update({"v": 1}),
        lambda: table.delete(where="k > 1"),
        lambda: table.merge(rows([1], 2), on="k").when_matched_update_all().execute(),
        lambda: table.overwrite(rows([3], 3), where="k = 3"),
    ]
    for statement in statements:
        with pytest.raises(
            InvalidRequestError, match=r"rows that wait for a bucket; compact the table first"
        ):
            statement()
    with pytest.raises(InvalidRequestError, match="compacted whole; leave where out"):
        table.compact(where="k = 1")
    table.compact()
    table.update({"v": "k * 10"}, where="k < 2")
    table.compact()
    table.delete(where="k = 3")
    table.compact()
    assert values(table) == {0: 0, 1: 10, 2: 0}
    table.upsert(rows([5], 5))
    table.overwrite(rows([6], 6))
    assert (values(table), table.compact() is not None, values(table)) == ({}, True, {6: 6})


@covers("BKT-14", "CHG-1")
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_the_changelog_has_rows_when_they_get_a_bucket(tmp_path: Path, producer: str) -> None:
    table = new_table(tmp_path / "t", changelog_producer=producer)
    table.upsert(rows([1, 2]))
    assert table.snapshots()[-1].changelog_manifest_list is None
    table.compact()
    table.upsert(rows([2], 5))
    table.compact()
    kinds = [(row["_row_kind"], row["k"], row["v"]) for row in table.changes(start=0).to_arrow().to_pylist()]
    old = [("-U", 2, 0), ("+U", 2, 5)] if producer == "lookup" else [("+I", 2, 5)]
    assert sorted(kinds[:2]) == [("+I", 1, 0), ("+I", 2, 0)]
    assert kinds[2:] == old


@covers("BKT-14", "BKT-13")
@needs_shared
def test_rows_that_wait_in_a_table_of_paimon_are_moved(tmp_path: Path) -> None:
    table, truth = real("pk_postpone", tmp_path), expected_of("pk_postpone")
    last = max(truth["snapshots"], key=int)
    before = table.to_arrow()
    assert rows_of(before.to_pylist()) == expected_rows(truth["snapshots"][last]["rows"])
    table.upsert(before.slice(0, 1))
    table.compact()
    after = {row["id"]: row for row in table.to_arrow().to_pylist()}
    first = before.slice(0, 1).to_pylist()[0]
    old = {row["id"]: row for row in before.to_pylist()}
    changed = {key for key, row in after.items() if row != old.get(key)}
    assert after[first["id"]] == first, "the row that was written last is the newest"
    assert changed <= set(range(3, 9)), "what Paimon's last INSERT left in bucket -2"
    assert changed
    assert {bucket for bucket, _ in totals(table)} == {0, 1}
    assert not [one for one in check(table.path).findings if one.severity == "error"]


@pytest.mark.spark
@covers("BKT-13", "BKT-14", "TBL-6")
def test_spark_writes_and_moves_the_same_rows(tmp_path: Path) -> None:
    found = []
    for runner in ("local", "spark"):
        new_table(tmp_path / runner)
        table = Table.open(tmp_path / runner, spark=spark_session(), runner=runner)
        table.upsert(pa.concat_tables([rows(range(20), 1), rows(range(10, 30), 2)]))
        table.upsert(rows(range(25, 40), 3))
        table.delete(rows([0, 39]).select(["k"]))
        table.compact()
        table.upsert(rows([5], 9))
        table.compact(full=True)
        assert not [one for one in check(tmp_path / runner).findings if one.severity == "error"]
        found.append((values(Table.open(tmp_path / runner)), totals(table)))
    assert found[0] == found[1]
