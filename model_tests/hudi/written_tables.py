"""Hudi tables that we write, with the columns ``k`` (the key), ``ts`` (the ordering column) and ``v``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import HudiTable
from pktable_hudi.placing import WriteOptions
from pktable_spec.errors import SnapshotNotFoundError
from pktable_spec.model.log_index import LogTable, Row

COLUMNS = "k STRING, ts BIGINT, v INT"


def new_table(path: Path, *, by_event_time: bool = True, **options: Any) -> HudiTable:
    return HudiTable.create(path, COLUMNS, key="k", ordering="ts" if by_event_time else None, **options)


def arrow(rows: Mapping[str, Row]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(rows, pa.string()),
            "ts": pa.array([row.ordering for row in rows.values()], pa.int64()),
            "v": pa.array([row.value for row in rows.values()], pa.int32()),
        }
    )


def upsert(table: HudiTable, rows: Mapping[str, Row]) -> str | None:
    return table.upsert(arrow(rows))


def delete(table: HudiTable, *keys: str) -> str | None:
    return table.delete(pa.table({"k": pa.array(keys, pa.string())}))


def rows_of(table: HudiTable, instant: str | None = None) -> dict[str, Row]:
    """The rows of a table; no key is there twice."""
    found = table.to_arrow(instant=instant, columns=["k", "ts", "v"]).to_pylist()
    assert len({one["k"] for one in found}) == len(found)
    return {one["k"]: Row(one["ts"], one["v"]) for one in found}


def data_files(path: str) -> set[Path]:
    """Return the base and log files of a table: those without metadata of the table or of a partition."""
    found = (one for one in Path(path).rglob("*") if one.is_file())
    return {one for one in found if ".hoodie" not in str(one.relative_to(path))}


def look_of(path: Path) -> tuple[tuple[str, int], ...]:
    """The names and sizes of the files of a table, instants by their order and file groups without their names.

    Tables that were the same before, and were worked on by the same operations, differ in nothing else if they look
    alike and have the same rows.
    """
    files = [(str(file.relative_to(path)), file.stat().st_size) for file in path.rglob("*") if file.is_file()]
    instants = sorted({instant for name, _ in files for instant in re.findall(r"\d{17}", name)})
    numbers = {instant: str(number) for number, instant in enumerate(instants)}
    named = [(re.sub(r"\d{17}", lambda instant: numbers[instant[0]], name), size) for name, size in files]
    return tuple(sorted((re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "group", name), size) for name, size in named))


def completions(table: HudiTable) -> dict[str, str]:
    """When each write was completed."""
    return {one["instant"]: one["completion"] for one in table.history().to_pylist()}


def tiny_groups(table: HudiTable, *, rows: int = 3) -> HudiTable:
    """Make the file groups of a table take so few rows that there are several of them."""
    table.write_options = WriteOptions(small_bytes=1 << 20, most_bytes=rows)
    return table


def add_write(oracle: LogTable, table: HudiTable, instant: str | None, rows: Mapping[str, Row]) -> None:
    """Add a write that is complete to the oracle."""
    if instant is not None:
        based = table.to_arrow(read_optimized=True, columns="k", where=f"_hoodie_commit_time = '{instant}'")
        oracle.write(instant, completions(table)[instant], rows, based["k"].to_pylist())


def expect_as(oracle: LogTable, table: HudiTable, *, at_every_instant: bool = True) -> None:
    """Compare the rows, the keys that are found, and what a check reports.

    ``at_every_instant``: also the rows at each. One that need not be readable may be refused.
    """
    latest = table.timeline().latest
    assert rows_of(table) == oracle.rows(latest)
    found = table.locate(["a", "b", "c", "d", "e", "f"]).to_pylist()
    assert len({one["key"] for one in found}) == len(found), "a key in two file groups"
    assert {one["key"] for one in found} == oracle.located(latest)
    assert table.check().findings == []
    if not at_every_instant:
        return
    for at in (*(one.requested for one in oracle.writes), *oracle.executed):
        try:
            assert rows_of(table, at) == oracle.rows(at), at
        except SnapshotNotFoundError:
            assert at < oracle.retained, at
