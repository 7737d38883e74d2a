"""Strings are decoded with offsets of 64 bits, and have offsets of 32 bits in the rows of a read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable.datafile.encoded import narrowed
from pktable.datafile.readers import ParquetRows
from pktable.format.types import parse_type
from pktable_spec.covers import covers

GIB = 1 << 30


def opened(rows: pa.Table) -> ParquetRows:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False)
    file = ParquetRows(pa.BufferReader(sink.getvalue()), "f")
    file.large = True  # as in a file of many rows
    return file


@covers("META-17")
@pytest.mark.parametrize("batch_rows", [2, 100])
def test_strings_and_bytes_come_in_the_types_of_the_format_wherever_they_are(batch_rows: int) -> None:
    text, data = pa.string(), pa.binary()
    columns = {
        "s": pa.array(["a", None, "", "é"]),
        "b": pa.array([b"\xff", None, b"", b"x"]),
        "l": pa.array([["a", None], None, [], ["b"]]),
        "m": pa.array([[("k", b"v")], None, [], [("", None)]], pa.map_(text, data)),
        "r": pa.array([{"x": "1", "y": [b"2"]}, None, {"x": None, "y": None}, {"x": "", "y": []}]),
    }
    rows = pa.table(columns)
    found = opened(rows).tables(
        {name: parse_type("STRING") for name in columns}, ranges=None, batch_rows=batch_rows
    )
    parts = [table for _, table in found]
    assert pa.concat_tables(parts).equals(rows)
    assert {len(table) for table in parts} == {min(batch_rows, 4)}


@covers("META-17")
@pytest.mark.deep("offsets of 32 bits overflow")
def test_strings_of_more_than_two_gib_come_in_several_chunks() -> None:
    ends = np.array([0, GIB, 2 * GIB, 2 * GIB + 5, 2 * GIB + 6], np.int64)
    text = pa.LargeStringArray.from_buffers(4, pa.py_buffer(ends), pa.py_buffer(np.zeros(ends[-1], np.uint8)))
    lists = pa.array([["a"], None, [], ["b"]], pa.list_(pa.large_string()))
    schema = pa.schema([("s", pa.string()), ("l", pa.list_(pa.string()))])
    found = narrowed(pa.table({"s": text, "l": lists}), schema)
    assert found.schema == schema
    assert [len(value.as_buffer()) for value in found.column("s")] == np.diff(ends).tolist()
    assert found.column("l").to_pylist() == [["a"], None, [], ["b"]]


@covers("META-17")
@pytest.mark.deep("offsets of 32 bits overflow")
def test_an_encoded_column_of_more_than_two_gib_comes_in_several_chunks() -> None:
    count, text = 5, "x" * (GIB // 2)
    encoded = pa.DictionaryArray.from_arrays(
        pa.array([0] * (count - 1) + [None], pa.int32()), pa.array([text])
    )
    found = narrowed(pa.table({"s": encoded}), pa.schema([("s", pa.string())])).column("s")
    assert found.num_chunks > 1
    assert [None if value.as_buffer() is None else len(value.as_buffer()) for value in found] == [
        *[len(text)] * (count - 1),
        None,
    ]
