"""Writes of more rows than the write buffer: the same rows, records and files, whatever form the rows come in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.ingest import sources
from pktable.ingest.parts import Spooled, spooled
from pktable.store import scratch
from pktable_spec.covers import covers

COLUMNS = "k INT NOT NULL, p INT NOT NULL, a BIGINT, b BIGINT, s STRING"
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {"deletion-vectors.enabled": "true"},
    "sequence field": {"sequence.field": "b"},
    "ignored deletes": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true", "changelog-producer": "lookup"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "changelog": {"changelog-producer": "input"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    "postpone": {"bucket": "-2"},
}
Row = tuple[int, int, int | None, int | None, str]


def table_of(path: Path, options: dict[str, str], buffer: str, *, key: bool = True) -> Table:
    keys = ["k", "p"] if key else []
    buckets = {"bucket": "2"} if key else {}
    options = {**buckets, **options, "write-buffer-size": buffer}
    return Table.create(path, COLUMNS, primary_key=keys, partition_by=["p"], options=options)


def arrow(rows: Sequence[Row], kinds: Sequence[int]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * 5
    types = (pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.string())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.table([*arrays, pa.array(kinds, pa.int8())], names=["k", "p", "a", "b", "s", "kind"])


def read(table: Table) -> list[Any]:
    rows = table.to_arrow(fresh=True)
    return sorted(rows.to_pylist(), key=lambda row: [str(value) for value in row.values()])


numbers = st.one_of(st.none(), st.integers(0, 3))
row = st.tuples(st.integers(0, 9), st.integers(0, 1), numbers, numbers, st.text("ab", max_size=3))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "BATCH_ROWS", 3)
    monkeypatch.setattr(sources, "PART_ROWS", 4)


@covers("SAFE-9", "TBL-6", "LSM-5")
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=5)
@given(written=st.lists(st.tuples(row, st.sampled_from([0, 0, 2, 3])), min_size=1, max_size=40))
def test_a_small_buffer_changes_no_row(
    tmp_path_factory: pytest.TempPathFactory, engine: str, written: list[tuple[Row, int]]
) -> None:
    path, options = tmp_path_factory.mktemp("tables"), ENGINES[engine]
    if engine == "aggregation":
        written = [(row, 0) for row, _ in written]
    rows = arrow([row for row, _ in written], [kind for _, kind in written])
    tables = [table_of(path / buffer, options, buffer) for buffer in ("256 mb", "64 b")]
    for table in tables:
        for part in (rows, rows.slice(len(rows) // 2)):
            table.write_changes(part, row_kind="kind")
        table.compact(full=True)
    large, small = tables
    assert read(small) == read(large)
    assert small.to_arrow().num_rows == large.to_arrow().num_rows
    assert small.check().errors == 0
    if "changelog-producer" in options:
        found = [table.changes(0).to_arrow().to_pylist() for table in tables]
        assert sorted(map(str, found[0])) == sorted(map(str, found[1]))


@covers("SAFE-9", "MRG-8")
def test_rows_that_are_ignored_are_kept_as_from_a_large_buffer(tmp_path: Path) -> None:
    rows = arrow([(k % 7, 0, k, None, "") for k in range(40)], [3] * 40)
    found = []
    for buffer in ("256 mb", "64 b"):
        table = table_of(tmp_path / buffer, {"ignore-delete": "true", "write-only": "true"}, buffer)
        table.write_changes(rows, row_kind="kind")
        live = [file for files in table.catalog.state().files.values() for file in files]
        found.append(sorted((file.row_count, file.max_sequence_number, file.min_key) for file in live))
    assert found[0] == found[1]


def forms(rows: pa.Table) -> Iterator[tuple[str, Callable[[], Any]]]:
    batches = rows.to_batches(max_chunksize=7)
    yield "reader", lambda: pa.RecordBatchReader.from_batches(rows.schema, batches)
    yield "dataset", lambda: ds.dataset(rows)
    yield "scanner", lambda: ds.dataset(rows).scanner()
    yield "batches", lambda: iter(batches)
    yield "dicts", lambda: iter(rows.to_pylist())
    yield "table", lambda: rows


@covers("SAFE-9", "TBL-4", "TBL-6")
@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_every_form_gives_one_run_per_bucket_in_the_order_of_the_rows(
    tmp_path: Path, key: bool, vectors: str
) -> None:
    rows = arrow([(k % 50, k % 2, k, None, "x" * (k % 5)) for k in range(200)], [0] * 200).drop(["kind"])
    expected = None
    for form, made in forms(rows):
        options = {"write-only": "true"} if key else {}
        table = table_of(tmp_path / form, {"deletion-vectors.enabled": vectors, **options}, "1 kb", key=key)
        (table.upsert if key else table.append)(made())
        live = table.catalog.state().files
        assert [len(files) for files in live.values()] == [1] * (4 if key else 2), form
        if not key:
            assert table.to_arrow(where="p = 0").column("a").to_pylist() == list(range(0, 200, 2)), form
        expected = expected or read(table)
        assert read(table) == expected, form
        assert table.check().errors == 0


@covers("SAFE-9", "TBL-8")
@pytest.mark.parametrize("form", ["reader", "batches", "dicts", "table"])
def test_a_row_that_does_not_fit_at_the_end_leaves_nothing(tmp_path: Path, form: str) -> None:
    rows = arrow([(k, 0, 1, 1, "x") for k in range(100)], [0] * 99 + [7])
    table = table_of(tmp_path / "table", {}, "1 kb")
    before = {str(file) for file in tmp_path.rglob("*")}
    with pytest.raises(
        InvalidRequestError, match=r"row kind of row \d+: .*found 7$|rows are counted from row \d+ on$"
    ):
        table.write_changes(dict(forms(rows))[form](), row_kind="kind")
    left = {str(file) for file in tmp_path.rglob("*") if file.is_file()}
    assert left <= before


@covers("TBL-8")
def test_a_wrong_value_is_named_by_the_number_of_its_row(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", {}, "1 kb")
    rows = [{"k": k, "p": 0, "a": None, "b": None, "s": ""} for k in range(30)]
    rows[25]["a"] = "text"
    with pytest.raises(InvalidRequestError, match="column a, row 25: "):
        table.upsert(iter(rows))
    del rows[26]["s"]
    rows[25]["a"] = 1
    with pytest.raises(InvalidRequestError, match="row 26: column s is missing"):
        table.upsert(iter(rows))


@covers("TBL-8")
def test_batches_of_other_columns_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", {}, "1 kb")
    one, other = pa.record_batch({"k": [1]}), pa.record_batch({"k": ["a"]})
    with pytest.raises(InvalidRequestError, match="same columns: k int64, found k string"):
        table.upsert(iter([one, other]))
    with pytest.raises(InvalidRequestError, match="expected record batches of the same columns"):
        table.upsert(iter([one, {"k": 1}]))


@covers("TBL-4")
@pytest.mark.parametrize("form", ["table", "scan", "dataset"])
def test_rows_of_another_table_are_taken(tmp_path: Path, form: str) -> None:
    rows = arrow([(k, 0, k, None, "x") for k in range(9)], [0] * 9).drop(["kind"])
    source, table = (table_of(tmp_path / name, {}, "256 mb") for name in ("source", "table"))
    source.upsert(rows)
    table.upsert({"table": source, "scan": source.scan(fresh=True), "dataset": source.to_dataset()}[form])
    assert read(table) == read(source)


@covers("SAFE-9")
def test_rows_on_disk_can_be_read_again_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tables = [pa.table({"k": range(start, start + 10)}) for start in range(0, 100, 10)]
    found = spooled(iter(tables), most_bytes=200)
    assert isinstance(found, Spooled)
    assert [found.whole(), found.whole()] == [pa.concat_tables(tables)] * 2
    assert os.listdir(tmp_path) == []
    assert spooled(iter(tables), most_bytes=1 << 20) == pa.concat_tables(tables)
