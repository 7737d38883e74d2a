"""The methods that SQL needs of a table: tags with other names, some partitions, and changes with their commit."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable_spec.covers import covers

COLUMNS = "id BIGINT, n INT, p STRING"
ROWS = [(1, 1, "a"), (2, 2, "a"), (3, 3, "b")]


def dicts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(("id", "n", "p"), row, strict=True)) for row in rows]


def made(path: Path, *, keyed: bool = True, **options: str) -> Table:
    table = Table.create(
        path, COLUMNS, primary_key=["id", "p"] if keyed else None, partition_by="p", options=options
    )
    (table.upsert if keyed else table.append)(dicts(ROWS))
    return table


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


@covers("WH-19")
def test_a_tag_gets_another_name_or_another_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.create_tag("one", snapshot=1)
    table.upsert(dicts([(4, 4, "b")]))
    latest = table.snapshots()[-1].id
    table.rename_tag("one", "first")
    assert {name: kept.id for name, kept in table.tags().items()} == {"first": 1}
    for name in ("", "1", ".x", "first"):
        with pytest.raises(InvalidRequestError):
            table.rename_tag("first", name)
    with pytest.raises(SnapshotNotFoundError):
        table.rename_tag("one", "two")
    with pytest.raises(SnapshotNotFoundError):
        table.replace_tag("first", snapshot=99)
    assert table.tags()["first"].id == 1
    table.replace_tag("first")
    assert table.tags()["first"].id == latest
    empty = Table.create(tmp_path / "empty", COLUMNS, primary_key="id")
    with pytest.raises(InvalidRequestError, match="tag 'one': the table has no snapshot yet"):
        empty.replace_tag("one")


@covers("WH-9")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([2024, 2, 29, 23, 58, 59, 123_456_789], datetime(2024, 2, 29, 23, 58, 59, 123_000)),
        ([2024, 2, 29, 23, 58], datetime(2024, 2, 29, 23, 58)),
        ("2024-02-29T23:58:59.123456789", datetime(2024, 2, 29, 23, 58, 59, 123_000)),
    ],
)
def test_a_tag_shows_the_time_that_paimon_has_stored_in_it(
    tmp_path: Path, stored: object, expected: datetime
) -> None:
    table = made(tmp_path)
    table.create_tag("one")
    file = tmp_path / "tag" / "tag-one"
    fields = {**json.loads(file.read_text()), "tagCreateTime": stored, "tagTimeRetained": 86400.0}
    del fields["pktable.crc32"]
    file.write_text(json.dumps(fields))
    (row,) = table.metadata("tags").to_pylist()
    assert row["create_time"] == expected.replace(tzinfo=timezone.utc)
    assert row["time_retained"] == "PT24H"


@covers("WH-20")
@pytest.mark.parametrize("keyed", [True, False])
def test_a_dynamic_overwrite_replaces_the_partitions_of_its_rows(tmp_path: Path, keyed: bool) -> None:
    table = made(tmp_path, keyed=keyed)
    table.overwrite(dicts([(9, 9, "b"), (8, 8, "c")]), dynamic=True)
    assert rows(table) == [(1, 1, "a"), (2, 2, "a"), (8, 8, "c"), (9, 9, "b")]
    before = table.snapshots()[-1].id
    assert table.overwrite(table.schema.arrow_schema.empty_table(), dynamic=True) is None
    assert table.snapshots()[-1].id == before
    with pytest.raises(InvalidRequestError, match="without where"):
        table.overwrite(dicts(ROWS), where="p = 'a'", dynamic=True)


@covers("STM-7")
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_are_removed_by_a_condition_and_whole_partitions_without_writing_files(
    tmp_path: Path, keyed: bool
) -> None:
    table = made(tmp_path, keyed=keyed)
    before = _files(table)
    assert table.truncate(where="p = 'c'") is None
    assert table.truncate(where="p < 'b'") is not None
    assert rows(table) == [(3, 3, "b")]
    assert _files(table) == {"b": before["b"]}
    assert table.truncate(where="n = 3") is not None
    assert rows(table) == []


@covers("WH-20")
@pytest.mark.parametrize("keyed", [True, False])
def test_a_compaction_takes_the_partitions_of_its_condition(tmp_path: Path, keyed: bool) -> None:
    table = made(tmp_path, keyed=keyed, **{"write-only": "true"})
    for n in range(6):
        (table.upsert if keyed else table.append)(dicts([(1, n, "a"), (3, n, "b")]))
    before = _files(table)
    assert table.compact(full=True, where="p = 'a'") is not None
    after = _files(table)
    assert len(after["a"]) == 1 < len(before["a"])
    assert after["b"] == before["b"]
    with pytest.raises(InvalidRequestError, match="partition columns alone"):
        table.compact(where="n = 1")


def _files(table: Table) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in table.metadata("files").to_pylist():
        found.setdefault(row["partition"].strip("{}"), set()).add(row["file_path"])
    return found


@covers("WH-21")
def test_changes_say_which_snapshot_they_are_of(tmp_path: Path) -> None:
    table = made(tmp_path)
    second = table.upsert(dicts([(4, 4, "b")]))
    assert second is not None
    found = table.changes(0, commits=True).to_arrow().to_pylist()
    assert [(row["id"], row["_commit_version"]) for row in found] == [(1, 1), (2, 1), (3, 1), (4, second)]
    times = {one.id: one.time_millis for one in table.snapshots()}
    assert {int(row["_commit_timestamp"].timestamp() * 1000) for row in found} <= set(times.values())
    assert table.changes(0).schema.names == ["_row_kind", "id", "n", "p"]
