"""What a log of writes means."""

from __future__ import annotations

from pktable_spec.covers import covers
from pktable_spec.interface import BucketId, Change, Comparison, Key, Query, Row, Shape
from pktable_spec.model.meaning import Meaning
from pktable_spec.vocabulary import RowKind

PUT, DELETE = RowKind.INSERT, RowKind.DELETE
SHAPE = Shape("int", (("k", "INT"), ("v", "STRING")), ("k",))


def key_of(row: Row) -> Key:
    return row[:1]


def bucket_of(row: Row) -> BucketId:
    assert isinstance(row[0], int)
    return (), row[0] % 2


def meaning(*writes: tuple[int, list[Change]]) -> Meaning:
    told = Meaning(key_of, bucket_of)
    for snapshot, changes in writes:
        told.commit(snapshot, changes)
    return told


@covers("TBL-4", "TBL-6", "MRG-1", "MRG-3")
def test_the_last_change_of_a_key_decides() -> None:
    kinds = [(PUT, "a"), (RowKind.UPDATE_BEFORE, "a"), (RowKind.UPDATE_AFTER, "b")]
    told = meaning((1, [Change(kind, (1, value)) for kind, value in kinds]), (3, [Change(DELETE, (1, None))]))
    assert told.rows(1) == told.rows(2) == [(1, "b")]
    assert told.rows(3) == []


@covers("RD-2", "TBL-7")
def test_a_write_after_an_unabsorbed_one_of_its_bucket_is_not_absorbed() -> None:
    told = meaning((1, [Change(PUT, (1, "a")), Change(PUT, (2, "a"))]), (2, [Change(PUT, (2, "b"))]))
    assert told.absorbed_rows(2, {}) == [(1, "a"), (2, "b")]
    assert told.absorbed_rows(2, {((), 0): 2}) == [(1, "a"), (2, "a")]
    assert told.absorbed_rows(2, {((), 0): 1}) == [(1, "a")]
    assert told.absorbed_rows(1, {}) == [(1, "a"), (2, "a")]


@covers("RD-6")
def test_a_comparison_with_null_is_not_true() -> None:
    rows: list[Row] = [(1, None), (2, "a")]
    for operator in ("=", "<>", "<", "<=", ">", ">="):
        assert (1, None) not in Query((Comparison("v", operator, "a"),)).over(SHAPE, rows)
    assert Query((Comparison("k", ">", 1), Comparison("v", "=", "a")), ("v",)).over(SHAPE, rows) == [("a",)]
    assert [one.sql for one in (Comparison("k", "<=", 1), Comparison("v", "=", "a"))] == ["k <= 1", "v = 'a'"]
