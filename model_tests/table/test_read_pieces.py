"""The pieces that a read in this process is done in: by file, by page, and by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.bucket.read import BucketRead, by_file
from pktable.catalog.read_plan import plan_read
from pktable.datafile.readers import ParquetRows
from pktable.run import local
from pktable_spec.covers import covers

DV = {"deletion-vectors.enabled": "true"}


def rows_of(keys: range | list[int], numbers: range | list[int]) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "n": pa.array(numbers, pa.int32())})


@covers("RD-1", "RD-6", "DV-1")
def test_reading_several_files_at_once_keeps_the_order_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path, "k INT, n INT", primary_key=["k"], options={**DV, "bucket": "4"})
    for keys in (range(4000), range(0, 4000, 3)):
        table.upsert(rows_of(keys, range(len(keys))))
    expected = [table.to_arrow(where=where) for where in (None, "n > 300")]
    monkeypatch.setattr(local, "ONE_THREAD_BYTES", 0)
    started, start = list[object](), ThreadPoolExecutor.submit

    def counted(*arguments: Any) -> Any:
        started.append(arguments)
        return start(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    assert [table.to_arrow(where=where) for where in (None, "n > 300")] == expected
    assert not started, "the files are small"
    monkeypatch.setattr(local, "SMALL_FILE_BYTES", 0)
    assert [table.to_arrow(where=where) for where in (None, "n > 300")] == expected
    assert started
    assert table.count(fresh=True) == expected[0].num_rows == 4000
    assert table.files().num_rows == 8


def test_of_a_large_file_only_the_pages_of_a_key_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**DV, "parquet.page.row.count.limit": "1000"}
    table = Table.create(tmp_path, "k INT, n INT", primary_key=["k"], options=options)
    table.upsert(rows_of(range(200_000), range(200_000)))
    decoded, tables = list[int](), ParquetRows.tables

    def counted(*arguments: Any, **named: Any) -> Any:
        for start, rows in tables(*arguments, **named):
            decoded.append(rows.num_rows)
            yield start, rows

    monkeypatch.setattr(ParquetRows, "tables", counted)
    where = " OR ".join(f"k BETWEEN {at} AND {at + 35_000}" for at in (1_000, 101_000))
    assert table.count(where=where) == 2 * 35_001
    assert sum(decoded) < 80_000


def test_files_are_read_apart_unless_they_hold_columns_of_the_same_rows_or_are_merged(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, n INT", primary_key=["k"], options={**DV, "write-only": "true"})
    for value in range(3):
        table.upsert(rows_of([1], [value]))
    catalog = table.catalog
    (part,) = plan_read(catalog.context, catalog.states, catalog.state(), fresh=True, predicate=None)
    assert part.merges
    assert by_file(part) == [part]
    one, two, three = part.state.files
    files = one, replace(two, first_row_id=7), replace(three, first_row_id=7, max_sequence_number=9)
    pieces = by_file(BucketRead(replace(part.state, files=files), merges=False))
    assert [piece.state.files for piece in pieces] == [(one,), (files[2], files[1])]
