"""Damages to data files and their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pktable.format.binary_row import encode_row
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import DataType

from model_tests.check.sample import (
    BIGINT,
    DEEPEST,
    LAST,
    LEVEL,
    Damage,
    Damages,
    key,
    levels,
    steps,
)
from model_tests.damage.table_damage import Surgeon


def _stats(surgeon: Surgeon, of: str, low: list[Any], high: list[Any], nulls: tuple[int, ...]) -> None:
    kinds = {
        "key_stats": [BIGINT],
        "value_stats": [DataType("STRING"), BIGINT, DataType("STRING"), DataType("DOUBLE")],
    }
    stats = SimpleStats(encode_row(low, kinds[of]), encode_row(high, kinds[of]), nulls)
    surgeon.edit_file(levels(surgeon)[DEEPEST], **{of: stats})


X = "x" * 16
TRUE_LOW, TRUE_HIGH, NO_NULLS = ["a", 0, X, -0.0], ["a", 9, "x" * 15 + "y", 4.5], (0, 0, 0, 0)


def _edit(level: int, column: str, change: Callable[[list[Any]], list[Any]]) -> Damage:
    return lambda s: s.edit_column(levels(s)[level], column, change)


def _with_ids(table: pa.Table, ids: dict[str, int]) -> pa.Table:
    fields = [
        one.with_metadata({"PARQUET:field_id": str(ids[one.name])} if one.name in ids else None)
        for one in table.schema
    ]
    return table.cast(pa.schema(fields))


def _flip_a_page(surgeon: Surgeon) -> None:
    path = surgeon.data_file(levels(surgeon)[DEEPEST])
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 30)] ^= 0x10  # a small file is not compressed
    path.write_bytes(data)


ROWS: Damages = {
    "a data file is missing": (lambda s: s.data_file(levels(s)[LEVEL]).unlink(), {("CMT-15", "data file")}),
    "a page does not match its checksum": (
        _flip_a_page,
        {("RD-11", "parquet data")},
    ),
    "the size of a data file is wrong": (
        lambda s: s.edit_file(levels(s)[LEVEL], file_size=9),
        {("LSM-7", "file size")},
    ),
    "the row count of a data file is wrong": (
        lambda s: s.edit_file(levels(s)[LEVEL], row_count=9),
        {("LSM-7", "row count"), ("META-11", "delta record count"), ("META-11", "total record count")},
    ),
    "keys do not ascend": (
        lambda s: s.edit_rows(levels(s)[LEVEL], lambda table: table.take([1, 0])),
        {("LSM-1", "keys"), ("META-5", "smallest key"), ("META-5", "greatest key")},
    ),
    "a key comes twice": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: table.take([0, 0, *range(2, 10)])),
        {("LSM-1", "keys")},
    ),
    "a row kind is none": (
        _edit(DEEPEST, "_VALUE_KIND", lambda values: [4, *values[1:]]),
        {("TBL-4", "row kinds")},
    ),
    "a retraction is not counted": (
        _edit(0, "_VALUE_KIND", lambda values: [3]),
        {("LSM-7", "retractions")},
    ),
    "a key is null": (
        _edit(0, "k", lambda values: [None]),
        {("TBL-2", "key columns"), ("META-6", "value statistics of k: nulls")},
    ),
    "a row has another key than its key columns": (
        _edit(DEEPEST, "k", lambda values: [*values[:3], 4, *values[4:]]),
        {("META-7", "key columns")},
    ),
    "a row is of another partition": (
        _edit(0, "p", lambda values: ["b"]),
        {("TBL-3", "partition column p"), ("META-6", "value statistics of p: bounds")},
    ),
    "a file has no key columns": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: table.drop_columns(["_KEY_k"])),
        {("META-7", "missing key columns")},
    ),
    "a file has no field ids": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: _with_ids(table, {})),
        {("META-8", "Parquet field ids")},
    ),
    "a column has the field id of another": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: _with_ids(table, {"v": 3, "d": 2})),
        {("META-8", "Parquet field id of v"), ("META-8", "Parquet field id of d")},
    ),
    "a file has no page checksums": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: table, write_page_checksum=False),
        {("META-10", "page checksums")},
    ),
    "sequence numbers are others": (
        _edit(DEEPEST, "_SEQUENCE_NUMBER", lambda values: [*values[:-1], 77]),
        {("LSM-7", "sequence numbers")},
    ),
    "the smallest key is another": (
        lambda s: s.edit_file(levels(s)[DEEPEST], min_key=key(-1)),
        {("META-5", "smallest key")},
    ),
    "the greatest key is another": (
        lambda s: s.edit_file(levels(s)[DEEPEST], max_key=key(8)),
        {("META-5", "greatest key")},
    ),
    "key statistics exclude a present key": (
        lambda s: _stats(s, "key_stats", [1], [9], (0,)),
        {("META-6", "key statistics of _KEY_k: bounds")},
    ),
    "a minimum is above a present value": (
        lambda s: _stats(s, "value_stats", ["a", 1, X, -0.0], TRUE_HIGH, NO_NULLS),
        {("META-6", "value statistics of k: bounds")},
    ),
    "a maximum is below a present value": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, ["a", 9, X, 4.5], NO_NULLS),
        {("META-6", "value statistics of v: bounds")},
    ),
    "a maximum is missing": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, ["a", 9, "xy", None], NO_NULLS),
        {("META-6", "value statistics of d: bounds")},
    ),
    "a null count is wrong": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, TRUE_HIGH, (0, 0, 1, 0)),
        {("META-6", "value statistics of v: nulls")},
    ),
    "there are bounds though a NaN is present": (
        _edit(DEEPEST, "d", lambda values: [float("nan"), *values[1:]]),
        {("META-6", "value statistics of d: bounds")},
    ),
    "a key is live twice": (
        steps(
            lambda s: s.put_vectors(4, {levels(s)[DEEPEST]: []}),
            lambda s: s.put_vectors(LAST, {levels(s)[DEEPEST]: [5]}),
        ),
        {("DV-12", "live keys")},
    ),
    "an older record is in a newer run": (
        steps(
            _edit(0, "_SEQUENCE_NUMBER", lambda values: [3]),
            lambda s: s.edit_file(levels(s)[0], min_sequence_number=3, max_sequence_number=3),
        ),
        {("LSM-6", "order of records")},
    ),
}
