"""Another fixed number of buckets: partition by partition, by writing its rows again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, Table
from pktable.catalog import commit
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.append.paimon_tables import expected_of, expected_rows, rows_of
from model_tests.backends.spark_session import spark_session
from model_tests.buckets.tables import real, rows_in
from model_tests.commit.hooks import Hooked
from model_tests.real_data import needs_shared


def new_table(path: Path, buckets: int = 2, **options: str) -> Table:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    table = Table.create(
        path,
        "p STRING, k INT, v INT",
        primary_key=["p", "k"],
        partition_by="p",
        options={"bucket": str(buckets), "deletion-vectors.enabled": "true", **given},
    )
    for partition in "ab":
        table.upsert(rows_in(partition, range(20)))
        table.upsert(rows_in(partition, range(10, 25), 1))
    return table


def totals(table: Table) -> dict[str, set[int]]:
    """Return the numbers of buckets that the manifest entries of each partition say."""
    _, entries = table.catalog.states.live_entries(table.snapshots()[-1])
    found: dict[str, set[int]] = {}
    for entry in entries:
        found.setdefault(table.catalog.context.partition_path(entry.partition), set()).add(
            entry.total_buckets
        )
    return found


def shown(table: Table) -> list[Any]:
    return sorted(tuple(row.values()) for row in table.to_arrow(fresh=True).to_pylist())


@covers("BKT-18", "BKT-20", "TBL-18", "TBL-5")
@pytest.mark.parametrize("write_only", ["true", "false"])
def test_partitions_get_another_number_of_buckets_one_by_one(tmp_path: Path, write_only: str) -> None:
    table = new_table(tmp_path / "t", write_only=write_only)  # with write-only all rows are at level 0
    before = shown(table)
    table.alter(set_options={"bucket": "5"})
    table = Table.open(tmp_path / "t")
    assert totals(table) == {"p=a": {2}, "p=b": {2}}
    with pytest.raises(
        InvalidRequestError, match=r"option bucket is 5, but live files of the partition .* 2 buckets"
    ):
        table.upsert(rows_in("a", [1]))
    assert table.rescale(where="p = 'a'")
    assert totals(table) == {"p=a": {5}, "p=b": {2}}
    assert shown(table) == before
    table.upsert(rows_in("a", [3, 90], 7))
    with pytest.raises(InvalidRequestError, match="p=b"):
        table.upsert(rows_in("b", [1]))
    table.compact(full=True)
    assert totals(table) == {"p=a": {5}, "p=b": {2}}
    assert table.rescale() is not None
    assert table.rescale() is None
    assert set().union(*totals(table).values()) == {5}
    expected = {(p, k): v for p, k, v in before} | {("a", 3): 7, ("a", 90): 7}
    assert shown(table) == sorted((p, k, v) for (p, k), v in expected.items())
    assert all(table.count(where=f"p = 'b' AND k = {k}", fresh=True) == 1 for k in range(25))
    assert not check(tmp_path / "t").findings


@covers("BKT-18", "TBL-18")
def test_an_overwrite_of_a_partition_gives_it_the_new_number(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.alter(set_options={"bucket": "3"})
    table = Table.open(tmp_path / "t")
    table.overwrite(rows_in("b", [1, 2], 9), where="p = 'b'")
    assert totals(table) == {"p=a": {2}, "p=b": {3}}
    assert not check(tmp_path / "t").findings


def racing(path: Path, work: Callable[[], object]) -> Table:
    """Return a table whose next commit is made after ``work``, which others do."""

    def late(put: Callable[[], Any]) -> Any:
        work()
        return put()

    return Table.open(
        path, store=Hooked("put_if_absent", f"snapshot-{len(Table.open(path).snapshots()) + 1}", late)
    )


@pytest.fixture
def looks_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes commit as if they had looked for a later schema before it came (TBL-19)."""
    monkeypatch.setattr(commit, "expect_latest_schema", lambda _: None)


@covers("BKT-20")
@pytest.mark.usefixtures("looks_early")
def test_rows_that_come_between_are_not_lost(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    staged = Table.open(tmp_path / "t").stage_write(rows_in("a", [1, 70], 8), ChangeKind(RowKind.INSERT))
    table.alter(set_options={"bucket": "3"})
    assert staged is not None
    late = racing(tmp_path / "t", lambda: staged.commit(CommitId.new()))
    late.rescale(where="p = 'a'")
    found = {(p, k): v for p, k, v in shown(late)}
    assert (found["a", 1], found["a", 70], len(found)) == (8, 8, 51)
    assert totals(late) == {"p=a": {3}, "p=b": {2}}
    assert not check(tmp_path / "t").findings


@covers("BKT-19")
@pytest.mark.usefixtures("looks_early")
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_a_write_that_was_staged_before_is_refused(tmp_path: Path, before: int, after: int) -> None:
    table = new_table(tmp_path / "t", before)
    of_last = next(key for key in range(100, 200) if _bucket(table, key) == before - 1)
    staged = [table.stage_write(rows_in(p, [of_last], 8), ChangeKind(RowKind.INSERT)) for p in "ab"]
    Table.open(tmp_path / "t").alter(set_options={"bucket": str(after)})
    late = Table.open(tmp_path / "t")
    late.rescale(where="p = 'a'")
    rows_then = shown(late)
    assert staged[0] is not None
    assert staged[1] is not None
    with pytest.raises(
        InvalidRequestError, match=f"files of the partition were written under {after} buckets"
    ):
        staged[0].commit(CommitId.new())
    assert shown(late) == rows_then
    staged[1].commit(CommitId.new())
    assert totals(late) == {"p=a": {after}, "p=b": {before}}
    assert not check(tmp_path / "t").findings


def _bucket(table: Table, key: int) -> int:
    """Return the bucket that a key would get."""
    staged = table.stage_write(rows_in("a", [key]), ChangeKind(RowKind.INSERT))
    assert staged is not None
    staged.discard()
    return staged.appends[0].place.bucket


@covers("BKT-18")
def test_only_fixed_numbers_of_whole_partitions_change(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for wanted in ("-1", "-2", "0"):
        with pytest.raises(InvalidRequestError, match="bucket"):
            table.alter(set_options={"bucket": wanted})
    with pytest.raises(InvalidRequestError, match="a condition on partition columns alone, found 'k = 1'"):
        table.rescale(where="k = 1")
    dynamic = Table.create(tmp_path / "d", "k INT", primary_key="k", options={"bucket": "-1"})
    with pytest.raises(InvalidRequestError, match="dynamic buckets grow by themselves"):
        dynamic.rescale()
    with pytest.raises(InvalidRequestError, match="option bucket cannot change"):
        dynamic.alter(set_options={"bucket": "4"})


@covers("BKT-18", "BKT-19")
@needs_shared
def test_a_table_that_paimon_rescaled_is_rescaled_again(tmp_path: Path) -> None:
    table, truth = real("pk_rescale", tmp_path), expected_of("pk_rescale")
    expected = expected_rows(truth["snapshots"][max(truth["snapshots"], key=int)]["rows"])
    assert rows_of(table.to_arrow().to_pylist()) == expected
    assert totals(table) == {"": {3}}
    table.alter(set_options={"bucket": "2"})
    table = Table.open(table.path)
    table.rescale()
    assert rows_of(table.to_arrow().to_pylist()) == expected
    table.upsert(table.to_arrow())
    assert totals(table) == {"": {2}}
    assert rows_of(table.to_arrow().to_pylist()) == expected
    assert not [one for one in check(table.path).findings if one.severity == "error"]


@pytest.mark.spark
@covers("BKT-18")
def test_spark_rescales_too(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    before = shown(table)
    table.alter(set_options={"bucket": "3"})
    spark = Table.open(tmp_path / "t", spark=spark_session(), runner="spark")
    spark.rescale()
    again = Table.open(tmp_path / "t")
    assert shown(again) == before
    assert totals(again) == {"p=a": {3}, "p=b": {3}}
    assert not check(tmp_path / "t").findings
