"""Real Hudi tables at every instant: the rows that Hudi's own readers read."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import HudiTable
from pktable_hudi.format.names import PROPERTIES
from pktable_spec.covers import covers

from model_tests.hudi.real_tables import each_hudi_table, expected, table_named, unpacked
from model_tests.real_data import hudi_archives, needs_hudi


def plain(value: Any) -> Any:
    """A value as the expected rows have it."""
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def rows_of(table: pa.Table, columns: list[str]) -> list[str]:
    rows = table.select(columns).to_pylist()
    return sorted(json.dumps([plain(row[name]) for name in columns]) for row in rows)


def points(archive: Path) -> Iterator[tuple[str | None, bool, list[str], list[str]]]:
    """Yield (instant, read-optimized, columns, rows as JSON) for every read that the shared tables know the rows of."""
    known = expected(archive)
    if "rows" in known:
        columns = list(known["rows"][0])
        yield (
            None,
            False,
            columns,
            sorted(json.dumps([row[name] for name in columns]) for row in known["rows"]),
        )
        return
    reads = [(instant, False, rows) for instant, rows in known["as_of"].items()]
    steps = known["steps"]
    reads += [
        (step["last_instant"][0], True, step["read_optimized"]) for step in steps if step["op"] == "compact"
    ]
    reads += [(None, kind == "read_optimized", steps[-1][kind]) for kind in ("snapshot", "read_optimized")]
    for instant, read_optimized, found in reads:
        yield instant, read_optimized, found["columns"], sorted(map(json.dumps, found["rows"]))


@covers(
    "LOG-22",
    "LOG-23",
    "LOG-24",
    "LOG-25",
    "LOG-26",
    "LOG-28",
    "LOG-29",
    "LOG-30",
    "LOG-31",
    "LOG-33",
    "LOG-34",
)
@each_hudi_table()
def test_a_real_table_has_the_rows_that_hudi_reads(archive: Path) -> None:
    table = HudiTable.open(unpacked(archive))
    count = 0
    for instant, read_optimized, columns, rows in points(archive):
        found = table.to_arrow(instant=instant, read_optimized=read_optimized)
        assert rows_of(found, columns) == rows, f"{instant} {'read-optimized' if read_optimized else ''}"
        count += 1
    assert count


@each_hudi_table()
def test_the_file_slices_are_those_of_hudi(archive: Path) -> None:
    splits = HudiTable.open(unpacked(archive)).scan().splits()
    assert splits
    known = expected(archive).get("file_slices")  # the newer tables come without
    if known is not None:
        root = f"{unpacked(archive)}/"
        found = [[one.partition, one.slice.group, one.paths[0], sorted(one.paths[1:])] for one in splits]
        assert sorted(found) == sorted(
            [partition, group, root + base, sorted(root + log for log in logs)]
            for partition, group, base, logs in known
        )


@covers("LOG-21", "LOG-33")
@each_hudi_table()
def test_conditions_columns_and_limits_choose_of_the_rows(archive: Path) -> None:
    table = HudiTable.open(unpacked(archive))
    everything = table.to_arrow()
    name = everything.column_names[5]
    some = everything.column("_hoodie_record_key")[0].as_py()
    where = f"_hoodie_record_key <> '{some}'"
    chosen = table.to_arrow(where=where, columns=[name, "_hoodie_commit_time"])
    assert chosen.column_names == [name, "_hoodie_commit_time"]
    assert chosen.num_rows == table.count(where=where) == table.count() - 1
    limited = table.to_arrow(limit=2)
    assert limited.num_rows == 2
    keys = set(everything.column("_hoodie_record_key").to_pylist())
    assert set(limited.column("_hoodie_record_key").to_pylist()) <= keys
    assert pa.table(table.scan(where=where)).num_rows == chosen.num_rows
    assert (
        sum(part.num_rows for split in table.scan(where=where).splits() for part in split.read())
        == chosen.num_rows
    )


@needs_hudi
@covers("LOG-32")
def test_positions_are_used_in_real_tables_and_give_the_same_rows() -> None:
    # The rows of the test above are those of positions, wherever a block has them.
    from pktable_hudi.log_rows import SIGNS, Wanted, block_rows
    from pktable_hudi.merge import ABSENT, fold

    placed = 0
    for archive in hudi_archives():
        for split in HudiTable.open(unpacked(archive)).scan().splits():
            blocks = [block_rows(one, Wanted(SIGNS[:1], None)) for one in split.reader.blocks(split.slice)]
            if blocks and split.slice.base:
                folded = fold(blocks, pa.schema([(SIGNS[0].name, pa.string())]), split.slice.base.instant)
                placed += int((folded.positions != ABSENT).sum())
    assert placed > 50


@needs_hudi
def test_a_table_lists_its_history_and_its_files() -> None:
    table = HudiTable.open(table_named("v9_pendingcompact"))
    history = table.history().to_pylist()
    assert [one["instant"] for one in history] == [
        one[0] for one in expected_of("v9_pendingcompact")["timeline"]
    ]
    assert [one["completion"] for one in history] == [
        one[2] for one in expected_of("v9_pendingcompact")["timeline"]
    ]
    assert {one["action"] for one in history} == {"deltacommit"}
    files = table.files().to_pylist()
    assert sorted({one["partition"] for one in files}) == ["p=2024-01", "p=2024-02"]
    assert [one["kind"] for one in files].count("log") == 12
    sizes = {path.name: path.stat().st_size for path in table_named("v9_pendingcompact").rglob("*")}
    assert all(one["size"] == sizes[one["file"]] for one in files)
    assert f"{len(files)} in {len(table.scan().splits())} file slices" in table.scan().explain()


def expected_of(name: str) -> Any:
    return expected(next(one for one in hudi_archives() if one.stem == name))


@needs_hudi
def test_a_table_is_found_by_its_properties() -> None:
    assert (table_named("v6_late") / PROPERTIES).is_file()
    table = HudiTable.open(table_named("v6_late"))
    assert (table.settings.version, table.settings.ordering_field) == (6, "ts")
    assert [field.name for field in table.fields][:6] == [
        "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path",
        "_hoodie_file_name", "k",
    ]  # fmt: skip
