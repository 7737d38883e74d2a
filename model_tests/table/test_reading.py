"""Reads of tables that the machine does not make: every key type, foreign layouts, skipped files and row groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.catalog.changes import CommitId
from pktable.catalog.read_plan import plan_read
from pktable.format import binary_row
from pktable.format.metadata.schema import encode_schema
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketChange
from pktable.predicate import parse
from pktable.staged import StagedCompaction
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.backends.as_planned import commit_as_planned
from model_tests.histories.typed import VALUES

DV = {"deletion-vectors.enabled": "true"}


def key_table(table: Table, values: list[Any], numbers: list[int]) -> pa.Table:
    schema = table.schema.arrow_schema
    return pa.table({"k": pa.array(values, schema.field("k").type), "n": pa.array(numbers, pa.int32())})


@covers("MRG-7", "TBL-5", "LSM-1", "DV-6")
@pytest.mark.parametrize("kind", VALUES)
def test_every_atomic_type_is_a_key(tmp_path: Path, kind: str) -> None:
    values = [value for value in VALUES[kind] if value == value]
    table = Table.create(tmp_path, f"k {kind}, n INT", primary_key=["k"], options={**DV, "bucket": "2"})
    table.upsert(key_table(table, values, list(range(len(values)))))
    table.upsert(key_table(table, values[1:], [100 + i for i in range(len(values) - 1)]))
    table.delete(key_table(table, values[:1], [0]).select(["k"]))
    expected = {value: 100 + i for i, value in enumerate(values[1:])}
    for fresh in (False, True):
        found = Table.open(tmp_path).to_arrow(fresh=fresh)
        assert (
            dict(zip(found.column("k").to_pylist(), found.column("n").to_pylist(), strict=True)) == expected
        )
    for bucket in {0, 1}:
        stored = [
            f
            for identity, files in table.catalog.state().files.items()
            for f in files
            if identity[1] == bucket
        ]
        assert all(
            table.catalog.context.order.smallest(f) <= table.catalog.context.order.greatest(f) for f in stored
        )


@covers("MRG-7")
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_both_zeros_and_every_nan_are_keys_of_their_own(tmp_path: Path, kind: str) -> None:
    table = Table.create(tmp_path, f"k {kind}, n INT", primary_key=["k"], options=DV)
    values = [float("nan"), 0.0, -0.0, float("-inf"), 1.0]
    table.upsert(key_table(table, values, [1, 2, 3, 4, 5]))
    table.upsert(key_table(table, values, [10, 20, 30, 40, 50]))
    table.compact(full=True)
    found = table.to_arrow()
    assert [str(k) for k in found.column("k").to_pylist()] == ["-inf", "-0.0", "0.0", "1.0", "nan"]
    assert found.column("n").to_pylist() == [40, 30, 20, 50, 10]


@covers("MRG-5", "MRG-7", "TBL-10")
@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(
        st.lists(
            st.tuples(
                st.integers(-2, 2), st.text("ab\0", max_size=3), st.sampled_from([b"", b"\0", b"x" * 110])
            ),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_composite_keys_come_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]]
) -> None:
    table = Table.create(
        tmp_path_factory.mktemp("t"),
        "a INT, b STRING, c BYTES, n INT",
        primary_key=["a", "b", "c"],
        options=DV,
    )
    expected: dict[Any, int] = {}
    number = 0
    for batch in batches:
        part = []
        for key in batch:
            number += 1
            expected[key] = number
            part.append((*key, number))
        columns = list(zip(*part, strict=True))
        schema = table.schema.arrow_schema
        table.upsert(
            pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], names=schema.names)
        )
    table.compact(full=True)
    found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    assert found == [(*key, expected[key]) for key in sorted(expected)]


def tombstones_above_level_zero(path: Path) -> Table:
    """A table whose levels >= 1 hold a retraction: written without vectors, then declared to have them."""
    plain = Table.create(
        path, "k INT, v STRING", primary_key=["k"], options={"num-sorted-run.compaction-trigger": "3"}
    )
    big = pa.table({"k": pa.array(range(200), pa.int32()), "v": [f"long value {i}" for i in range(200)]})
    plain.upsert(big)
    plain.compact(full=True)
    plain.delete(pa.table({"k": pa.array([1, 2], pa.int32())}))
    state = plain.catalog.state()
    (identity,) = state.files
    bucket = plain.catalog.states.bucket(state, identity)
    fresh = next(f for f in bucket.files if f.level == 0)
    up = BucketChange(bucket.place, (fresh,), (replace(fresh, level=2),), None, None)
    staged = StagedCompaction(plain.stager, [up], full=False, base=state)
    assert not commit_as_planned(staged, CommitId("test"))
    definition = path / "schema" / "schema-0"
    changed = replace(plain.schema, options={**plain.schema.options, "deletion-vectors.enabled": "true"})
    definition.write_bytes(encode_schema(changed))
    return Table.open(path)


@covers("DV-15", "DV-18", "DV-12")
@pytest.mark.parametrize("write_first", [False, True])
def test_vectors_switched_on_later_hide_what_was_written_before(tmp_path: Path, write_first: bool) -> None:
    """Counterexample C8: levels that were merged on read are not any more."""
    plain = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"])
    plain.upsert(pa.table({"k": pa.array(range(200), pa.int32()), "v": ["old"] * 200}))
    plain.compact(full=True)
    plain.upsert(pa.table({"k": pa.array([7, 8], pa.int32()), "v": ["new"] * 2}))
    state = plain.catalog.state()
    (identity,) = state.files
    fresh = next(file for file in state.files[identity] if file.level == 0)
    up = BucketChange(
        plain.catalog.context.place(*identity), (fresh,), (replace(fresh, level=2),), None, None
    )
    staged = StagedCompaction(plain.stager, [up], full=False, base=state)
    assert not commit_as_planned(staged, CommitId("test"))
    options = {**plain.schema.options, "deletion-vectors.enabled": "true"}
    (tmp_path / "schema" / "schema-1").write_bytes(
        encode_schema(replace(plain.schema, id=1, options=options))
    )
    table = Table.open(tmp_path)
    expected = {k: "new" if k in (7, 8) else "old" for k in range(200)}
    if write_first:
        table.upsert(pa.table({"k": pa.array([8, 9], pa.int32()), "v": ["newest"] * 2}))
        expected |= {8: "newest", 9: "newest"}
        assert table.files().column("level").to_pylist() == [5], "the next compaction is a full one"
    assert table.to_arrow().num_rows == table.count() == 200
    assert dict(zip(*table.to_arrow().to_pydict().values(), strict=True)) == expected
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["last"]}))
    assert table.to_arrow(where="k = 1").to_pylist() == [{"k": 1, "v": "last"}]
    assert table.to_arrow().num_rows == 200


@covers("RD-5", "CMP-13", "DV-7")
def test_retractions_above_level_zero_are_merged_by_a_plain_read(tmp_path: Path) -> None:
    table = tombstones_above_level_zero(tmp_path)
    assert sorted(table.to_arrow().column("k").to_pylist()) == [0, *range(3, 200)]
    assert table.count() == 198
    table.upsert(pa.table({"k": pa.array([2, 500], pa.int32()), "v": ["again", "new"]}))
    expected = {0, 2, *range(3, 200), 500}
    assert (
        set(table.to_arrow().column("k").to_pylist())
        == expected
        == set(table.to_arrow(fresh=True).column("k").to_pylist())
    )
    assert table.to_arrow().num_rows == len(expected)


@covers("RD-8", "RD-16", "RD-7", "RD-6")
def test_statistics_skip_files_and_row_groups_and_never_a_row(tmp_path: Path) -> None:
    options = {**DV, "parquet.block.row.count.limit": "3", "target-file-size": "1 b"}
    table = Table.create(tmp_path, "k INT, v INT, s STRING", primary_key=["k"], options=options)
    table.upsert(pa.table({"k": range(30), "v": range(100, 130), "s": [f"s{i:02d}" for i in range(30)]}))
    table.upsert(pa.table({"k": [5, 14], "v": [7, 8], "s": ["x", "y"]}))
    table.delete(pa.table({"k": [6]}))
    everything = {r["k"]: r for r in table.to_arrow().to_pylist()}
    conditions: dict[str, Callable[[dict[str, Any]], bool]] = {
        "v > 125": lambda r: r["v"] > 125,
        "k = 5": lambda r: r["k"] == 5,
        "k between 4 and 7": lambda r: 4 <= r["k"] <= 7,
        "s = 's10' or v = 8": lambda r: r["s"] == "s10" or r["v"] == 8,
        "v = 105": lambda r: r["v"] == 105,
    }
    for where, holds in conditions.items():
        found = {r["k"]: r for r in table.to_arrow(where=where).to_pylist()}
        assert found == {k: r for k, r in everything.items() if holds(r)}, where
    predicate = parse("v > 125", table.schema.fields)
    parts = plan_read(
        table.catalog.context, table.catalog.states, table.catalog.state(), fresh=False, predicate=predicate
    )
    assert sum(len(part.state.files) for part in parts) < table.files().num_rows


@covers("RD-8")
@pytest.mark.parametrize(
    ("kind", "values", "where"),
    [
        ("BOOLEAN", [False, True], "v"),
        ("CHAR(3)", ["a", "b"], "v = 'b'"),
        ("DECIMAL(9, 2)", [Decimal("1.50"), Decimal("2.00")], "v > 1.7"),
        ("DATE", [dt.date(1970, 1, 1), dt.date(2024, 2, 29)], "v > DATE '2000-01-01'"),
    ],
)
def test_statistics_of_values_of_every_type_skip_files(
    tmp_path: Path, kind: str, values: list[Any], where: str
) -> None:
    options = {**DV, "parquet.block.row.count.limit": "1", "target-file-size": "1 b"}
    table = Table.create(tmp_path, f"k INT, v {kind}", primary_key=["k"], options=options)
    rows = pa.table({"k": [1, 2], "v": pa.array(values, table.schema.arrow_schema.field("v").type)})
    table.upsert(rows)
    assert table.files().num_rows == 2
    (split,) = table.scan(where=where).splits()
    assert len(split.paths) == 1
    assert table.to_arrow(where=where)["v"].to_pylist() == values[1:]


@covers("CMP-15", "RD-8")
def test_rows_that_come_at_once_are_cut_like_those_that_come_one_by_one(tmp_path: Path) -> None:
    options = {**DV, "file.block-size": "32 kb", "target-file-size": "100 kb"}
    table = Table.create(tmp_path, "k BIGINT, v BIGINT", primary_key=["k"], options=options)
    values = np.random.default_rng(1).integers(0, 1 << 60, 40_000)
    table.upsert(pa.table({"k": np.arange(len(values)), "v": values}))
    files = [pq.ParquetFile(path).metadata for path in sorted(tmp_path.rglob("data-*.parquet"))]
    assert len(files) > 1
    groups = [file.row_group(i).num_rows for file in files for i in range(file.num_row_groups)]
    assert sum(groups) == len(values)
    assert {file.row_group(0).column(1).compression for file in files} == {"ZSTD"}
    assert max(groups) <= 2 * min(groups) < len(values) // 10
    assert table.to_arrow(where="k = 23456").num_rows == 1


@covers("META-32")
@pytest.mark.parametrize(("count", "codec"), [(10, "UNCOMPRESSED"), (10_000, "ZSTD")])
def test_data_files_are_compressed_with_zstd_unless_they_are_tiny(
    tmp_path: Path, count: int, codec: str
) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": range(count), "v": ["the same"] * count}))
    (path,) = tmp_path.rglob("data-*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {codec}


@covers("RD-8", "RD-16")
def test_a_later_key_column_has_bounds_where_those_before_it_are_equal(tmp_path: Path) -> None:
    options = {**DV, "metadata.stats-mode": "none"}
    table = Table.create(tmp_path, "a INT, b INT, v INT", primary_key=["a", "b"], options=options)
    table.upsert(pa.table({"a": [1, 2], "b": [9, 0], "v": [1, 2]}))
    for where in ("b = 0", "b = 9", "b >= 0 AND b < 9 AND v = 2"):
        assert table.to_arrow(where=where).num_rows == 1, where
    table.delete(where="a = 2")
    table.compact(full=True)
    assert not table.scan(where="b = 8").splits()
    assert not table.scan(where="b > 9 OR b = 0 AND v > 1").splits()


@covers("RD-8", "RD-16")
def test_a_later_key_column_has_the_bounds_of_its_values_elsewhere(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "a INT, b INT", primary_key=["a", "b"], options=DV)
    table.upsert(pa.table({"a": [1, 2], "b": [9, 3]}))
    table.compact(full=True)
    assert not table.scan(where="b = 2").splits()
    assert not table.scan(where="b > 9").splits()
    assert table.to_arrow(where="b = 3").num_rows == 1


@covers("RD-8")
def test_value_statistics_skip_nothing_where_a_merge_follows(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={**DV, "write-only": "true"})
    table.upsert(pa.table({"k": [1], "v": [1]}))
    table.upsert(pa.table({"k": [1], "v": [2]}))
    assert table.to_arrow(fresh=True, where="v = 1").num_rows == 0
    assert table.to_arrow(fresh=True, where="v = 2").num_rows == 1


@covers("CMP-15", "CMP-26", "CMP-16", "RD-12")
def test_the_window_of_a_merge_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pktable.bucket import windows as merge

    def history(path: Path) -> list[dict[str, Any]]:
        options = {**DV, "target-file-size": "1 kb", "parquet.block.row.count.limit": "7", "num-levels": "3"}
        table = Table.create(path, "k INT, v STRING", primary_key=["k"], options=options)
        for step in range(8):
            keys = [(i * (step + 3)) % 101 for i in range(60)]
            table.upsert(pa.table({"k": keys, "v": [f"{step}-{i}" for i in range(60)]}))
            table.delete(pa.table({"k": keys[:5]}))
        found = sorted(table.to_arrow().to_pylist(), key=lambda r: r["k"])
        assert found == sorted(table.to_arrow(fresh=True).to_pylist(), key=lambda r: r["k"])
        assert table.files().num_rows > 3  # the run rolled over
        return found

    whole = history(tmp_path / "whole")
    monkeypatch.setattr(merge, "FEWEST_ROWS", 2)
    monkeypatch.setattr(merge, "WINDOW_BYTES", 1)
    narrow = Table.open(tmp_path / "whole")
    expected = narrow.to_arrow(fresh=True).num_rows
    assert expected == len(whole)
    original = merge.merge
    monkeypatch.setattr(merge, "merge", lambda *a, **k: original(*a, **{**k, "window_bytes": 1}))
    from pktable.bucket import compact, read

    monkeypatch.setattr(compact, "merge", merge.merge)
    monkeypatch.setattr(read, "merge", merge.merge)
    assert history(tmp_path / "narrow") == whole


@covers("RD-9")
def test_a_limit_counts_returned_rows(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": range(10), "v": range(10)}))
    table.delete(pa.table({"k": range(5)}))
    for limit in (0, 1, 3, 5, 9):
        assert table.to_arrow(limit=limit).num_rows == min(limit, 5)
        assert table.to_arrow(limit=limit, where="v > 7").num_rows == min(limit, 2)


def test_nested_columns_and_nulls_survive_compaction(tmp_path: Path) -> None:
    columns = "k INT, a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>"
    table = Table.create(tmp_path, columns, primary_key=["k"], options=DV)
    schema = table.schema.arrow_schema
    first = [
        {"k": 1, "a": [1, None], "m": [("x", 1)], "r": {"x": 1, "y": None}},
        {"k": 2, "a": None, "m": None, "r": None},
    ]
    table.upsert(pa.Table.from_pylist(first, schema=schema))
    second = [{"k": 2, "a": [], "m": [], "r": {"x": None, "y": "z"}}]
    table.upsert(pa.Table.from_pylist(second, schema=schema))
    table.compact(full=True)
    assert table.to_arrow().to_pylist() == [first[0], second[0]]


def test_rows_are_deleted_by_condition_on_the_freshest_rows(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={**DV, "write-only": "true"})
    table.upsert(pa.table({"k": range(6), "v": range(6)}))
    table.delete(where="v >= 3")
    assert sorted(table.to_arrow(fresh=True).column("k").to_pylist()) == [0, 1, 2]
    assert (
        table.stage_write(
            pa.table({"k": pa.array([], pa.int32()), "v": pa.array([], pa.int32())}),
            ChangeKind(RowKind.INSERT),
        )
        is None
    )


@covers("RD-6")
@pytest.mark.parametrize(
    "where", ["10 / v = 2", "k < 9 AND 10 / v = 2", "10 / v = 2 AND 10 / (v - 5 + k) > 0"]
)
def test_a_condition_that_can_fail_is_asked_of_the_rows_left_by_those_before(
    tmp_path: Path, where: str
) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": [0, 1, 2, 3], "v": [0, 0, 0, 0]}))
    table.compact(full=True)
    table.upsert(pa.table({"k": [1, 2, 3], "v": [5, 5, 4]}))
    assert sum(table.files()["deleted_row_count"].to_pylist()) == 3
    with pytest.raises(InvalidRequestError, match="divide by zero"):
        table.to_arrow(where=where)
    table.delete(where="k = 0")
    assert table.to_arrow(where=where)["k"].to_pylist() == [1, 2]


@covers("RD-8", "RD-16")
@pytest.mark.parametrize("statistics", ["truncate(16)", "none"])
@pytest.mark.parametrize("fresh", [False, True])
def test_many_files_are_planned_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool, statistics: str
) -> None:
    options = {**DV, "target-file-size": "1 b", "parquet.block.row.count.limit": "4", "bucket": "2"}
    options["metadata.stats-mode"] = statistics
    table = Table.create(
        tmp_path,
        "p STRING, k INT, v BIGINT, s STRING",
        primary_key=["p", "k"],
        partition_by=["p"],
        options=options,
    )
    keys = list(range(240))
    rows = pa.table(
        {
            "p": [f"p{k % 2}" for k in keys],
            "k": pa.array(keys, pa.int32()),
            "v": [None if k // 40 == 3 else 10 * k for k in keys],
            "s": [f"s{k:03}" for k in keys],
        }
    )
    table.upsert(rows)
    table.upsert(rows.slice(17, 3))
    late = table.stage_write(rows.slice(100, 2), ChangeKind(RowKind.INSERT), write_only=True)
    assert late is not None
    late.commit(CommitId("test"))
    assert table.files().num_rows > 50
    state, context = table.catalog.state(), table.catalog.context

    def planned(where: str, few: int) -> list[tuple[object, ...]]:
        monkeypatch.setattr(binary_row, "FEW_ROWS", few)
        predicate = parse(where, table.schema.fields)
        parts = plan_read(context, table.catalog.states, state, fresh=fresh, predicate=predicate)
        return [(part.state.place, part.merges, part.state.files) for part in parts]

    for where in (
        "k = 77",
        "k BETWEEN 20 AND 60 AND v > 300",
        "v IS NULL",
        "v IN (100, 2000) AND p = 'p0'",
        "s LIKE 's10%' OR v < 50",
        "s >= 's200'",
        "p = 'p1' AND NOT v < 2000",
        "v = 5",
    ):
        assert planned(where, 0) == planned(where, 1 << 30), where
        wanted = table.to_arrow(fresh=fresh).sort_by("k")
        expected = parse(where, table.schema.fields).filter(wanted)
        assert table.to_arrow(where=where, fresh=fresh).sort_by("k") == expected


@covers("RD-8", "RD-16")
def test_text_that_ends_in_zeros_is_compared_as_it_is_with_the_bounds_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numpy leaves out zeros at the end of a text, so that 'a' was not below 'a' with one."""
    monkeypatch.setattr(binary_row, "FEW_ROWS", 0)
    table = Table.create(tmp_path, "k STRING, v STRING", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": ["a"], "v": ["a"]}))
    for where in ("k < 'a\0'", "v < 'a\0'", "NOT v >= 'a\0'", "v <= 'a\0'"):
        assert table.to_arrow(where=where).num_rows == 1, where
    for where in ("k = 'a\0'", "v = 'a\0'", "v >= 'a\0'"):
        assert not table.scan(where=where).splits(), where
