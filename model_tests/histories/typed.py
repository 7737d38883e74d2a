"""Drawn schedules of tables whose keys and values are of every atomic type, compared with a dict.

The oracle knows integers and text alone. So a table is drawn with one or two key columns of any types and a value
column of any, and takes upserts, deletes and compactions. After each, both reads must give the rows of a dict.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from hypothesis import strategies as st
from pktable import Table
from pktable.bucket import windows
from pktable.catalog import read_plan
from pktable_spec.covers import covers

from model_tests.histories.checks import check, fail
from model_tests.histories.read_expectations import Stats
from model_tests.seeded import play_drawn

VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-32768, -1, 0, 32767],
    "INT": [-(2**31), -1, 0, 1, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 2**63 - 1],
    "FLOAT": [float("-inf"), -1.5, -0.0, 0.0, 0.25, float("inf"), float("nan")],
    "DOUBLE": [float("-inf"), -1.5, -0.0, 0.0, 0.1, 1e300, float("inf"), float("nan")],
    "DECIMAL(9, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("12.34")],
    "DECIMAL(38, 10)": [
        Decimal("-9999999999999999999999999999.0000000001"),
        Decimal("0E-10"),
        Decimal("1.0000000001"),
    ],
    "CHAR(3)": ["a", "ab", "abc"],
    "VARCHAR(20)": ["", "a", "ab", "zz"],
    "STRING": ["", "a", "a\0", "ab", "\uffee", "\U0001f600", "x" * 200],
    "BINARY(2)": [b"\0\0", b"\0\1", b"\xff\0"],
    "BYTES": [b"", b"\0", b"\0\0", b"a", b"\xff" * 120],
    "DATE": [dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "TIMESTAMP(3)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 1, 2, 3, 4, 5)],
    "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIMESTAMP(9)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc),
        dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
    ],
}
"""Some values of each atomic type, in their order."""

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "parquet.block.row.count.limit": ("2", "100"),
    "target-file-size": ("128 mb", "2 kb"),
}

Row = dict[str, Any]
Key = tuple[str, ...]


def draw(number: int, seed: int) -> Stats:
    """Play some drawn schedules, and count. Raises CheckFailed, or what a table raises, at the first that fails."""
    stats = Stats()
    play_drawn(number, seed, lambda data: play(data, stats))
    return stats


def play(data: st.DataObject, stats: Stats) -> None:
    """Do one schedule on a new table, and count it in ``stats``."""
    kinds = dict(zip("abv", data.draw(st.tuples(*[st.sampled_from(list(VALUES))] * 3)), strict=True))
    keys = data.draw(st.sampled_from((["a"], ["a", "b"])))
    options = {name: data.draw(st.sampled_from(values)) for name, values in OPTIONS.items()}
    rows = st.fixed_dictionaries({name: st.sampled_from(VALUES[kind]) for name, kind in kinds.items()})
    batches = data.draw(
        st.lists(st.tuples(st.lists(rows, min_size=1, max_size=8), st.integers(0, 7)), max_size=6)
    )
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(folder + "/t", kinds, primary_key=keys, options=options)
        expected: dict[Key, Row] = {}
        for number, (batch, do) in enumerate(batches):
            if do % 4 == 3:
                table.delete(_arrow(table, batch).select(keys))
                for row in batch:
                    expected.pop(_key(row, keys), None)
            else:
                table.upsert(_arrow(table, batch))
                expected |= {_key(row, keys): row for row in batch}
            if do > 3:
                table.compact(full=do > 5)
            few = mock.patch.object(windows, "rows_to_hold", return_value=1 + number)
            with few, mock.patch.object(read_plan, "MANY_FILES", 1 + number):
                rows_agree(table, expected, keys)
            stats.steps += 1
            stats.snapshots_compared += 1
            stats.reads += 2
    stats.histories += 1


@check
@covers("MRG-5", "MRG-7", "TBL-5", "TBL-10", "LSM-1", "DV-6", "META-8")
def rows_agree(table: Table, expected: Mapping[Key, Row], keys: Sequence[str]) -> None:
    """Compare a fresh and a default read with the rows expected: each write compacts, so both have all of them."""
    for fresh in (True, False):
        found = table.to_arrow(fresh=fresh).to_pylist()
        if len(found) != len(expected) or {_key(row, keys): _texts(row) for row in found} != {
            key: _texts(row) for key, row in expected.items()
        }:
            fail(f"{table.columns}, fresh={fresh}: expected {list(expected.values())}, found {found}")
    findings = [str(one) for one in table.check().findings]
    if findings:
        fail(f"{table.columns}: {findings}")


def _arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    schema = table.schema.arrow_schema
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in schema})


def _key(row: Row, keys: Sequence[str]) -> Key:
    return tuple(_text(row[name]) for name in keys)


def _texts(row: Row) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in "abv")


def _text(value: Any) -> str:
    """Return a value as text: the two zeros differ, and NaN is NaN."""
    return str(value.normalize() if isinstance(value, Decimal) else value)
