"""A scan is a value: nothing is read before rows are asked for, and every way to ask gives the same rows."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable.run.together import in_turn
from pktable.scan import Scan
from pktable_spec.covers import covers


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(
        tmp_path / "table",
        "k INT, v STRING, p STRING",
        primary_key=["k", "p"],
        partition_by=["p"],
        options={"bucket": "2", "deletion-vectors.enabled": "true"},
    )
    table.upsert(pa.table({"k": range(100), "v": ["a"] * 100, "p": ["x", "y"] * 50}))
    table.upsert(
        pa.table({"k": range(0, 100, 7), "v": ["b"] * 15, "p": [("x", "y")[k % 2] for k in range(0, 100, 7)]})
    )
    return table


SCANS = [
    {},
    {"where": "k >= 90 AND v = 'a'", "columns": ["v", "k"]},
    {"snapshot": 2, "where": "p = 'x'"},
    {"snapshot": 3, "fresh": True},
    {"where": "k < 0"},
]


def rows(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(map(repr, zip(*found.to_pydict().values(), strict=True)))  # type: ignore[arg-type]


@covers("RD-1", "RD-6")
@pytest.mark.parametrize("options", SCANS)
def test_every_way_to_ask_gives_the_same_rows(table: Table, options: dict[str, object]) -> None:
    scan = table.scan(**options)  # type: ignore[arg-type]
    whole = scan.to_arrow()
    assert whole.schema == scan.schema
    assert rows(table.to_arrow(**options)) == rows(whole)  # type: ignore[arg-type]
    batches = scan.to_batches()
    assert batches.schema == scan.schema
    assert rows(batches.read_all()) == rows(whole)
    assert rows(pa.RecordBatchReader.from_stream(scan).read_all()) == rows(whole)
    assert rows(pa.Table.from_pandas(scan.to_pandas(), scan.schema, preserve_index=False)) == rows(whole)
    assert rows(pa.Table.from_pylist(scan.to_pylist(), scan.schema)) == rows(whole)
    assert scan.count() == whole.num_rows
    divided = [part for split in scan.splits() for part in split.read()]
    assert rows(pa.concat_tables([scan.schema.empty_table(), *divided])) == rows(whole)


def test_others_read_a_scan_as_an_arrow_stream(table: Table) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    changed = table.scan(where="v = 'b'")
    assert duckdb.sql("SELECT count(*), min(k) FROM changed").fetchall() == [(15, 0)]
    assert changed.to_polars().height == polars.DataFrame(changed).height == 15
    assert polars.DataFrame(table).height == 100


def test_a_scan_plans_nothing_before_rows_are_asked_for(table: Table) -> None:
    scan = table.scan(snapshot=99, where="no sql at all (")
    assert isinstance(scan, Scan)
    shutil.rmtree(Path(table.path) / "manifest")
    with pytest.raises(SnapshotNotFoundError):
        scan.to_arrow()


def test_one_column_may_be_given_as_text(table: Table) -> None:
    assert table.scan(columns="v").schema.names == ["v"]
    with pytest.raises(InvalidRequestError, match="vk"):
        table.scan(columns="vk").to_arrow()


def test_arguments_are_checked_when_the_scan_is_made(table: Table) -> None:
    for options in (
        {"limit": -1},
        {"limit": True},
        {"where": 7},
        {"snapshot": "1"},
        {"snapshot": 1, "tag": "t"},
    ):
        with pytest.raises(InvalidRequestError):
            table.scan(**options)
    with pytest.raises(InvalidRequestError, match="without Spark"):
        table.scan().to_spark()


@covers("RD-9")
@pytest.mark.parametrize("limit", [0, 1, 60, 1000])
def test_a_limit_counts_rows_that_are_returned(table: Table, limit: int) -> None:
    scan = table.scan(limit=limit, where="v = 'a'")
    assert scan.to_arrow().num_rows == scan.to_batches().read_all().num_rows == scan.count() == min(limit, 85)
    with pytest.raises(InvalidRequestError, match="limit"):
        scan.splits()


def test_batches_are_read_when_they_are_asked_for(table: Table) -> None:
    many = range(40)
    table.upsert(pa.table({"k": many, "v": ["c"] * 40, "p": [f"p{i}" for i in many]}))
    reader = table.to_batches()
    first = reader.read_next_batch()
    assert 0 < first.num_rows < 100
    for file in Path(table.path).rglob("data-*"):
        file.unlink()
    with pytest.raises(Exception, match="data file"):
        reader.read_all()


def test_few_sources_are_begun_before_they_are_asked_for() -> None:
    begun: list[int] = []

    def source(number: int) -> Iterator[int]:
        begun.append(number)
        yield number

    found = in_turn([partial(source, i) for i in range(50)], threads=2)
    assert next(found) == 0
    deadline = time.monotonic() + 0.2  # others would read ahead now
    while len(begun) < 50 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(begun) <= 3
    assert list(found) == list(range(1, 50))


@covers("RD-10")
def test_a_reader_whose_snapshot_expires_says_so(table: Table) -> None:
    reader = table.to_batches(snapshot=2)
    for number in range(3):
        table.upsert(pa.table({"k": [number], "v": ["c"], "p": ["x"]}))
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    with pytest.raises(Exception, match="snapshot 2"):
        reader.read_all()


READS_SPLITS = """
import pickle, sys
splits = pickle.load(sys.stdin.buffer)
print(sum(table.num_rows for split in splits for table in split.read()))
"""


def test_splits_read_themselves_in_another_process(table: Table) -> None:
    splits = table.scan(where="k < 50").splits()
    assert {split.partition for split in splits} == {"p=x", "p=y"}
    assert {split.bucket for split in splits} == {0, 1}
    assert all(split.size_bytes > 0 and split.row_count and split.paths for split in splits)
    found = subprocess.run(
        [sys.executable, "-c", READS_SPLITS],
        input=pickle.dumps(splits),
        capture_output=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert found.stdout.strip() == b"50"


def test_an_explanation_names_snapshot_condition_and_files(table: Table) -> None:
    text = table.scan(where="p = 'x'").explain()
    assert "snapshot 4" in text
    assert "p=x/bucket-0" in text
    assert "p=y" not in text.partition("files:")[2]
    assert "filter by deletion vectors" in text
    assert "merge" in table.scan(snapshot=3, fresh=True).explain()


def test_a_scan_pickles_and_columns_that_do_not_exist_are_refused_in_every_way(table: Table) -> None:
    scan = table.scan(where="k < 50", columns=["k"], limit=7)
    assert pickle.loads(pickle.dumps(scan)).to_arrow().num_rows == 7
    for ask in (Scan.count, Scan.to_arrow, Scan.to_batches, Scan.explain, Scan.splits):
        with pytest.raises(InvalidRequestError, match="nosuch"):
            ask(table.scan(columns=["nosuch"]))


def test_a_table_pickles_and_says_what_it_is(table: Table) -> None:
    copy = pickle.loads(pickle.dumps(table))
    assert rows(copy.to_arrow()) == rows(table.to_arrow())
    assert "k INT NOT NULL" in repr(table)
    assert table.path in repr(table)
    assert table.columns == {"k": "INT NOT NULL", "v": "STRING", "p": "STRING NOT NULL"}
    assert table.options["bucket"] == "2"


@covers("LSM-7", "DV-1")
def test_an_inspection_shows_files_buckets_vectors_and_records(table: Table) -> None:
    files = table.inspect.files().to_pylist()
    assert sum(one["row_count"] - one["deleted_row_count"] for one in files) == table.count() == 100
    assert [one["file_count"] for one in table.inspect.buckets().to_pylist()]
    vectors = {one["file_name"]: one for one in table.inspect.vectors().to_pylist()}
    assert sum(one["deleted_row_count"] for one in vectors.values()) == 15
    for name, vector in vectors.items():
        records = table.inspect.records(name).to_pylist()
        assert [one["position"] for one in records if one["deleted"]] == vector["positions"]
        assert {one["v"] for one in records if one["deleted"]} == {"a"}
    with pytest.raises(InvalidRequestError, match="not a live data file"):
        table.inspect.records("data-none.parquet")
    assert table.inspect.files(snapshot=1).column("level").to_pylist() == [0] * 4
