"""What may be defined, and what may be written to it; a refusal writes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, NotATableError, Table, UnsupportedOptionError
from pktable.format.metadata.schema import encode_schema
from pktable_spec.covers import covers


def files_under(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*")}


@covers("TBL-1")
@pytest.mark.parametrize(
    ("columns", "keys", "partitions", "message"),
    [
        ("k INT, k STRING", ["k"], [], "k"),
        ("k INT, v INT", [], [], "primary key"),
        ("k INT, v INT", ["x"], [], "primary key"),
        ("k INT, v INT", ["k", "k"], [], "primary key"),
        ("k INT, v INT", ["k"], ["v"], "partition keys"),
        ("k INT, v INT", ["k"], ["k"], "partition keys"),
        ("k ARRAY<INT>, v INT", ["k"], [], "atomic"),
        ("_KEY_a INT, v INT", ["v"], [], "_KEY_"),
        ("__pktable_kind INT, v INT", ["v"], [], "__pktable_"),
        ("k NOTATYPE", ["k"], [], "type"),
    ],
)
def test_a_definition_that_breaks_a_rule_is_refused(
    tmp_path: Path, columns: str, keys: list[str], partitions: list[str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Table.create(tmp_path / "t", columns, primary_key=keys, partition_by=partitions)
    assert files_under(tmp_path) == set()


@covers("TBL-9")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("merge-engine", "aggregation"),
        ("sequence.field", "v"),
        ("changelog-producer", "lookup"),
        ("bucket", "-1"),
        ("file.format", "orc"),
        ("no.such.option", "1"),
        ("bucket-function.type", "mod"),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    tmp_path: Path, option: str, value: str
) -> None:
    with pytest.raises(UnsupportedOptionError, match=option.replace(".", r"\.")) as caught:
        Table.create(tmp_path / "t", "k INT, v INT", primary_key=["k"], options={option: value})
    assert (caught.value.option, caught.value.value) == (option, value)
    assert files_under(tmp_path) == set()


@covers("TBL-9")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bucket", "two"),
        ("bucket", str(1 << 31)),
        ("num-sorted-run.compaction-trigger", str(1 << 31)),
        ("compaction.size-ratio", str(-(1 << 31) - 1)),
        ("write-only", "yes"),
        ("target-file-size", "big"),
    ],
)
def test_a_malformed_option_is_refused(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(InvalidRequestError, match=option):
        Table.create(tmp_path / "t", "k INT", primary_key=["k"], options={option: value})


@covers("TBL-9")
def test_the_greatest_integer_of_java_is_one(tmp_path: Path) -> None:
    options = {"bucket": str((1 << 31) - 1)}
    assert Table.create(tmp_path, "k INT", primary_key=["k"], options=options).schema.options == options


@covers("TBL-3", "META-1")
def test_a_table_that_gives_no_number_of_buckets_is_not_ours_to_write(tmp_path: Path) -> None:
    """Paimon takes such a table to have a growing number of buckets, so `Table.create` always gives one."""
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"])
    assert table.schema.options == {"bucket": "1"}
    table.upsert(pa.table({"k": [1], "v": [1]}))
    schema = tmp_path / "schema" / "schema-0"
    without = replace(table.schema, options={})
    schema.write_bytes(encode_schema(without))
    other = Table.open(tmp_path)
    assert other.to_arrow(where="k = 1").num_rows == 1
    with pytest.raises(UnsupportedOptionError, match="bucket"):
        other.upsert(pa.table({"k": [2], "v": [2]}))


@covers("TBL-10")
def test_a_bucket_key_outside_the_primary_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="bucket-key"):
        Table.create(tmp_path / "t", "k INT, v INT", primary_key=["k"], options={"bucket-key": "v"})


def test_a_second_table_at_the_same_place_is_refused(tmp_path: Path) -> None:
    Table.create(tmp_path, "k INT", primary_key=["k"])
    with pytest.raises(InvalidRequestError, match="already exists"):
        Table.create(tmp_path, "k INT", primary_key=["k"])


def test_a_path_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="schema"):
        Table.open(tmp_path)
    with pytest.raises(NotATableError, match="nothing"):
        Table.open(tmp_path / "absent")


@covers("TBL-2", "TBL-8", "TBL-4")
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"k": pa.array([1, None], pa.int32()), "v": ["a", "b"]}), "column k"),
        (pa.table({"v": ["a"]}), "columns"),
        (pa.table({"k": [1], "v": ["a"], "x": [1]}), "columns"),
        (pa.table({"k": ["1"], "v": ["a"]}), "column k"),
        (pa.table({"k": [1 << 40], "v": ["a"]}), "column k"),
        (pa.table({"k": [1.5], "v": ["a"]}), "column k"),
        (pa.table({"k": [1], "v": [b"a"]}), "column v"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: Path, rows: pa.Table, message: str
) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"])
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        table.upsert(rows)
    assert files_under(tmp_path) == before


@covers("TBL-4")
@pytest.mark.parametrize("kind", ["+X", "D", None, 4, -1])
def test_an_unknown_row_kind_is_refused(tmp_path: Path, kind: object) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"])
    before = files_under(tmp_path)
    rows = pa.table({"k": [1], "v": ["a"], "op": pa.array([kind])})
    with pytest.raises(InvalidRequestError, match="row kind"):
        table.write_changes(rows, row_kind="op")
    assert files_under(tmp_path) == before


@covers("TBL-8")
def test_types_that_convert_without_loss_are_taken(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, d DECIMAL(10, 2), f FLOAT, s STRING", primary_key=["k"])
    rows = pa.table(
        {
            "s": pa.array(["x"]).dictionary_encode(),
            "k": pa.array([7], pa.int64()),
            "d": pa.array([3], pa.int8()),
            "f": pa.array([0.5], pa.float64()),
        }
    )
    table.upsert(rows)
    assert table.to_arrow(fresh=True).select(["k", "s", "f"]).to_pylist() == [{"k": 7, "s": "x", "f": 0.5}]


def test_what_is_asked_for_is_of_the_right_type(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"])
    table.upsert(pa.table({"k": [1], "v": [2]}))
    asked: list[dict[str, Any]] = [
        {"snapshot": "1"},
        {"snapshot": True},
        {"where": 5},
        {"limit": True},
        {"limit": -1},
    ]
    for how in asked:
        with pytest.raises(InvalidRequestError, match=next(iter(how))):
            table.to_arrow(**how)
    with pytest.raises(InvalidRequestError, match="tag None"):
        table.create_tag(None)  # type: ignore[arg-type]
