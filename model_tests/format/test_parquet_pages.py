"""Rows that are read by pages are those that are read by row groups, whatever the writer made of the pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import CorruptFileError, Table
from pktable.bucket.reader import DataReader
from pktable.bucket.wanted_rows import bounds_of_pages, rows_that_may_match
from pktable.datafile.page_index import (
    PageBounds,
    PageLayout,
    RowRanges,
    around,
    consistent_pages,
    together,
    where_true,
)
from pktable.datafile.parquet_footer import read_page_index
from pktable.datafile.readers import LIBRARY_ERRORS, ParquetRows
from pktable.datafile.thrift_compact import LIST, STRUCT, CompactReader
from pktable.format.types import DataType
from pktable.predicate import parse
from pktable_spec.covers import covers

ROWS = 40
COLUMNS: dict[str, Any] = {
    "int": pa.array([None if i % 7 == 3 else i for i in range(ROWS)], pa.int32()),
    "long": pa.array(range(ROWS), pa.int64()),
    "text": pa.array([None if i % 5 == 0 else f"text {i % 6}" for i in range(ROWS)]),
    "all null": pa.nulls(ROWS, pa.int16()),
    "bool": pa.array([i % 3 == 0 for i in range(ROWS)]),
    "decimal": pa.array([Decimal(i) for i in range(ROWS)], pa.decimal128(20, 2)),
    "time": pa.array(range(ROWS), pa.timestamp("us")),
    "double": pa.array([i / 3 for i in range(ROWS)]),
    "list": pa.array([[i] * (i % 3) for i in range(ROWS)]),
}
NAMES = {name: DataType("BIGINT") for name in COLUMNS}
FLAT = [name for name in COLUMNS if name != "list"]


def file_of(path: Path, **options: Any) -> Path:
    pq.write_table(pa.table(COLUMNS), path, write_page_index=True, write_page_checksum=True, **options)
    return path


def opened(path: Path) -> ParquetRows:
    rows = ParquetRows(pa.OSFile(str(path)), "the file")
    rows.by_pages = True
    return rows


def read(path: Path, names: list[str], ranges: RowRanges) -> list[tuple[int, pa.Table]]:
    columns = {name: NAMES[name] for name in names}
    return list(opened(path).tables(columns, ranges=ranges, batch_rows=1000))


def expect_right(found: list[tuple[int, pa.Table]], names: list[str], ranges: RowRanges) -> None:
    """All rows of ``ranges`` come, each at its position."""
    seen: list[int] = []
    for start, table in found:
        assert table.equals(pa.table(COLUMNS).select(names).slice(start, table.num_rows))
        seen += range(start, start + table.num_rows)
    assert seen == sorted(set(seen))
    assert {row for start, end in ranges.tolist() for row in range(start, end)} <= set(seen)


RANGES = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(
    lambda flags: where_true(np.array(flags), np.arange(ROWS + 1))
)


@settings(max_examples=40, deadline=None)
@given(
    RANGES,
    st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True),
    st.fixed_dictionaries(
        {
            "max_rows_per_page": st.sampled_from([1, 2, 3, 7]),
            "row_group_size": st.sampled_from([9, 20, ROWS]),
            "compression": st.sampled_from(["none", "snappy", "zstd"]),
            "use_dictionary": st.booleans(),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "dictionary_pagesize_limit": st.sampled_from([8, 1024]),
            "data_page_size": st.sampled_from([1, 1024]),
            "write_batch_size": st.sampled_from([1, 1024]),
        }
    ),
)
@covers("RD-7")
def test_rows_read_by_pages_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, ranges: RowRanges, names: list[str], options: dict[str, Any]
) -> None:
    path = file_of(tmp_path_factory.mktemp("pages") / "f.parquet", **options)
    expect_right(read(path, names, ranges), names, ranges)


@pytest.mark.parametrize("dictionary", [True, False])
def test_only_the_pages_that_are_wanted_are_read(tmp_path: Path, dictionary: bool) -> None:
    numbers = np.arange(100_000) % 300
    options = {"use_dictionary": dictionary, "max_rows_per_page": 1000}
    pq.write_table(pa.table({"long": numbers}), tmp_path / "f", write_page_index=True, **options)
    file = opened(tmp_path / "f")
    read_bytes = 0

    class Counted:
        def seek(self, at: int) -> None:
            source.seek(at)

        def read(self, count: int) -> bytes:
            nonlocal read_bytes
            read_bytes += count
            return bytes(source.read(count))

        def size(self) -> int:
            return int(source.size())

    source, file._source = file._source, Counted()
    ranges = np.array([[30_000, 30_001], [77_777, 77_779]])
    found = list(file.tables({"long": DataType("BIGINT")}, ranges=ranges, batch_rows=1000))
    assert [(start, table.column("long").to_pylist()) for start, table in found] == [
        (30_000, [0]),
        (77_777, [77, 78]),
    ]
    assert read_bytes < (tmp_path / "f").stat().st_size * 0.1


@covers("RD-7", "RD-11")
def test_a_page_index_that_is_not_consistent_gives_no_other_rows(tmp_path: Path) -> None:
    """Every byte of a page index without a checksum is changed: rows are right, or an error says that they are not."""
    path = file_of(tmp_path / "f.parquet", max_rows_per_page=4, use_dictionary=["text"])
    data = path.read_bytes()
    metadata: Any = pq.read_metadata(path)
    last = max(
        (metadata.row_group(0).column(i) for i in range(len(COLUMNS))), key=lambda c: c.data_page_offset
    )
    first = last.data_page_offset + last.total_compressed_size
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    names, ranges = ["int", "text"], np.array([[5, 6], [17, 19]])
    by_pages = errors = 0
    for at in range(first, end, 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        try:
            found = read(path, names, ranges)
        except LIBRARY_ERRORS:
            errors += 1
            continue
        expect_right(found, names, ranges)
        by_pages += len(found) == len(ranges)
    assert by_pages > 30
    assert errors > 0


@covers("RD-11")
def test_a_page_index_that_cannot_be_parsed_is_not_used(tmp_path: Path) -> None:
    """As long as no checksum says that it is damaged, the file may be one of a strange writer."""
    path = file_of(tmp_path / "f.parquet", max_rows_per_page=4)
    data = path.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for size in (10, 100, 1000):
        path.write_bytes(data[: end - size] + b"\xfa" * size + data[end:])
        assert opened(path).page_bounds(0, list(COLUMNS)).keys() < set(COLUMNS)
        expect_right(read(path, FLAT, np.array([[5, 6]])), FLAT, np.array([[5, 6]]))


@covers("RD-11")
def test_bounds_of_more_or_fewer_pages_than_there_are_bound_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"long": range(ROWS)}), path, write_page_index=True, max_rows_per_page=4)
    data = path.read_bytes()
    null_pages = data.index(b"\x19\xa1" + b"\x02" * 10)
    assert opened(path).page_bounds(0, ["long"]).keys() == {"long"}
    path.write_bytes(data[: null_pages + 1] + b"\x91" + data[null_pages + 2 :])
    assert opened(path).page_bounds(0, ["long"]) == {}


@covers("RD-11")
@pytest.mark.parametrize("batch_rows", [10, 1000])
def test_a_row_group_with_fewer_rows_than_its_footer_says_is_damage(batch_rows: int) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"long": range(ROWS)}), sink)
    data = sink.getvalue().to_pybytes()
    at = data.rindex(b"\x16\x50") + 1  # the number of rows of the row group comes last
    rows = ParquetRows(pa.BufferReader(data[:at] + b"\x52" + data[at + 1 :]), "the file")
    with pytest.raises(ValueError, match="40 of 41 rows in row group 0"):
        list(rows.tables({"long": NAMES["long"]}, ranges=None, batch_rows=batch_rows))


@covers("RD-11")
def test_a_file_that_is_cut_while_it_is_read_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pktable.datafile.readers.LIKELY_BYTES", 0)
    path = file_of(tmp_path / "f.parquet", max_rows_per_page=4)
    rows, ranges = opened(path), np.array([[37, 38]])
    expect_right(
        list(rows.tables({"double": NAMES["double"]}, ranges=ranges, batch_rows=9)), ["double"], ranges
    )
    os.truncate(path, 100)
    with pytest.raises(ValueError, match=r"0 of [0-9]+ bytes at [0-9]+"):
        list(rows.tables({"double": NAMES["double"]}, ranges=ranges, batch_rows=9))


@pytest.mark.parametrize(
    ("read_a_value", "data", "error"),
    [
        (CompactReader.varint, b"\xff" * 11, "a number of more than 64 bits"),
        (CompactReader.binary, b"\x05text", "a text that ends behind the bytes"),
        (lambda reader: reader.skip(LIST), b"\x19" * 60, "values within values without end"),
        (lambda reader: reader.skip(STRUCT), b"\x1c" * 60, "values within values without end"),
    ],
)
def test_damaged_values_of_a_footer_are_refused(
    read_a_value: Callable[[CompactReader], Any], data: bytes, error: str
) -> None:
    with pytest.raises((ValueError, IndexError), match=error):
        read_a_value(CompactReader(data))


@pytest.mark.parametrize(
    ("pages", "right"),
    [
        ([(10, 5, 0), (15, 5, 4)], True),
        ([], False),
        ([(9, 6, 0), (15, 5, 4)], False),
        ([(10, 4, 0), (15, 5, 4)], False),
        ([(10, 5, 0), (15, 4, 4)], False),
        ([(10, 5, 1), (15, 5, 4)], False),
        ([(10, 5, 0), (15, 5, 0)], False),
        ([(10, 5, 0), (15, 5, 8)], False),
        ([(10, 10, 0), (20, 0, 4)], False),
    ],
)
def test_pages_follow_each_other_within_the_bytes_and_the_rows_of_their_column(
    pages: list[tuple[int, int, int]], right: bool
) -> None:
    assert (consistent_pages(pages, 8, 10, 20) is not None) == right


@covers("RD-8")
def test_bounds_that_cannot_be_decoded_bound_nothing() -> None:
    first_rows = np.array([0, 4])
    texts = [b"a\xc3", b"b"]
    bounds = PageBounds(first_rows, np.array([False, True]), texts, texts, None)
    found = bounds_of_pages(bounds, DataType("STRING"), np.array([0, 1]))
    assert (found.low[1].tolist(), found.high[1].tolist()) == ([False, False], [False, False])
    assert found.nullable.all()
    numbers = [bytes(4), bytes(8)]
    found = bounds_of_pages(
        PageBounds(first_rows, ~found.present, numbers, numbers, first_rows), DataType("INT"), first_rows // 4
    )
    assert (found.low[1].tolist(), found.nullable.tolist()) == ([True, False], [False, True])


OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "1", "parquet.page.row.count.limit": "3"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("table")
    options = {**OPTIONS, "parquet.block.row.count.limit": "17"}
    table = Table.create(path, "k STRING, n BIGINT, t STRING, s SMALLINT", primary_key=["k"], options=options)
    draw = np.random.default_rng(1)
    keys = [f"key {i:03}" for i in range(90)]
    texts = [None if i % 9 == 1 else "é" * (i % 4) + str(i % 5) for i in range(90)]
    numbers = [None if 20 < i < 30 else int(n) for i, n in enumerate(draw.integers(-50, 50, 90))]
    small = [i // 10 for i in range(90)]
    table.upsert(pa.table({"k": keys, "n": numbers, "t": texts, "s": pa.array(small, pa.int16())}))
    table.upsert(
        pa.table({"k": keys[::8], "n": numbers[::8], "t": texts[::8], "s": pa.array(small[::8], pa.int16())})
    )
    return table


CONDITIONS = [
    "k = 'key 044'",
    "k IN ('key 001', 'key 050', 'key 0899')",
    "k > 'key 08' OR k < 'key 003'",
    "n IN (7, 8, 9, 10)",
    "n IS NULL",
    "n > 45 AND s < 4",
    "s BETWEEN 3 AND 4",
    "s = 5 AND t LIKE 'é%'",
    "t = 'éé2'",
    "t IS NULL AND s = 1",
    "NOT (s = 5)",
    "s + n > 50",
    "s <=> 8",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@covers("RD-8")
def test_the_page_index_skips_rows_and_never_one_that_matches(table: Table, condition: str) -> None:
    predicate = parse(condition, table.schema.fields)
    right = predicate.filter(table.to_arrow())
    assert right.num_rows
    assert table.to_arrow(where=condition).sort_by("k").equals(right.sort_by("k"))


@pytest.mark.parametrize(
    ("condition", "most"), [("k = 'key 044'", 3), ("s = 4 AND n IS NOT NULL", 12), ("s IN (2, 9)", 15)]
)
@covers("RD-7")
def test_a_condition_is_looked_for_in_few_pages(table: Table, condition: str, most: int) -> None:
    context = table.catalog.context
    ((place, file),) = [
        (context.place(*bucket), max(files, key=lambda file: file.row_count))
        for bucket, files in table.catalog.state().files.items()
    ]
    wanted = rows_that_may_match(
        DataReader(context, place, file), context.schema, parse(condition, context.schema.fields)
    )
    assert wanted is not None
    assert 0 < int((wanted[:, 1] - wanted[:, 0]).sum()) <= most


@covers("META-38", "RD-11")
def test_a_damaged_page_index_is_noticed_by_a_read_that_uses_it(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k BIGINT, n BIGINT", primary_key=["k"], options=OPTIONS)
    table.upsert(pa.table({"k": range(60), "n": range(60)}))
    (path,) = tmp_path.glob("bucket-0/data-*")
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[: footer - 1] + bytes([data[footer - 1] ^ 1]) + data[footer:])
    with pytest.raises(CorruptFileError, match="page index checksum"):
        Table.open(tmp_path).to_arrow(where="k = 7")


@covers("RD-7")
def test_the_page_index_is_not_looked_at_where_most_rows_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(tmp_path / "f.parquet", max_rows_per_page=2)
    looked: list[str] = []

    def spied(source: Any, start: int, footer: bytes, *, at: str) -> bytes:
        looked.append(at)
        return read_page_index(source, start, footer, at=at)

    monkeypatch.setattr("pktable.datafile.parquet_pages.read_page_index", spied)
    few, most = np.array([[0, 10], [30, 40]]), np.array([[0, 10], [29, 40]])
    expect_right(read(path, ["long"], most), ["long"], most)
    assert not looked
    expect_right(read(path, ["long"], few), ["long"], few)
    assert looked == ["the file"]


@covers("RD-24", "META-38")
def test_a_page_index_that_is_damaged_after_it_was_read_is_noticed(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k BIGINT, n BIGINT", primary_key=["k"], options=OPTIONS)
    table.upsert(pa.table({"k": range(60), "n": range(60)}))
    assert table.to_arrow(where="k = 7").num_rows == 1
    (path,) = tmp_path.glob("bucket-0/data-*")
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[: footer - 1] + bytes([data[footer - 1] ^ 1]) + data[footer:])
    with pytest.raises(CorruptFileError, match="page index checksum"):
        table.to_arrow(where="k = 7")


@covers("RD-24")
def test_a_page_index_with_other_bytes_is_parsed_again() -> None:
    layout = PageLayout(b"footer and tail", None)
    before = layout.index(7, b"one")
    assert layout.index(7, b"one") is before
    assert layout.index(7, b"two").data == b"two"
    assert layout.index(9, b"two").start == 9


@pytest.mark.parametrize(("key", "columns"), [("044", {"k", "n", "t"}), ("0445", {"k"})])
@covers("RD-8")
def test_other_columns_than_the_key_are_read_where_it_is_found(
    table: Table, key: str, columns: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    tables = ParquetRows.tables

    def watched(self: ParquetRows, names: Any, **options: Any) -> Any:
        read.update(names)
        return tables(self, names, **options)

    monkeypatch.setattr(ParquetRows, "tables", watched)
    found = table.to_arrow(where=f"k = 'key {key}'", columns=["t", "n"])
    assert found.num_rows == len(columns) // 3
    assert read == columns


@covers("RD-6", "DV-1")
def test_a_key_is_looked_for_among_live_rows_only(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k BIGINT, n INT, t STRING", primary_key=["k"], options=OPTIONS)
    table.upsert(pa.table({"k": [1, 2], "n": pa.array([1, -2], pa.int32()), "t": ["old", "two"]}))
    table.upsert(pa.table({"k": [1], "n": pa.array([-3], pa.int32()), "t": ["new"]}))
    # The sum overflows in the row that is deleted, which must not be asked.
    found = table.to_arrow(where="k IN (1, 2) AND n + 2147483647 > 0", columns=["t"])
    assert sorted(found.column("t").to_pylist()) == ["new", "two"]


def test_ranges() -> None:
    assert around(np.array([], np.int64)).shape == (0, 2)
    assert around(np.array([3, 4, 9000, 9100])).tolist() == [[3, 5], [9000, 9101]]
    assert together([np.array([[0, 3]]), np.array([[3, 5], [7, 8]])]).tolist() == [[0, 5], [7, 8]]
    assert together([]).shape == (0, 2)
    assert where_true(np.array([True, False, True]), np.array([0, 4, 6, 9])).tolist() == [[0, 4], [6, 9]]
