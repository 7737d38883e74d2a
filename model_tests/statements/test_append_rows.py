"""UPDATE and MERGE of append tables: what lies in the snapshot, and what others commit meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable import Table
from pktable_spec.covers import covers

ROWS = [{"g": "a", "n": 1}, {"g": "b", "n": 2}, {"g": "b", "n": 2}, {"g": "c", "n": 3}]


def made(path: Path, **options: str) -> Table:
    table = Table.create(path / "t", "g STRING, n INT", primary_key=None, options=options)
    table.append(ROWS)
    return table


def rows(table: Table) -> list[tuple[str, int]]:
    return sorted((row["g"], row["n"]) for row in table.to_arrow().to_pylist())


@covers("APP-31")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_an_update_is_one_snapshot_that_deletes_old_rows_and_adds_new_ones(
    tmp_path: Path, vectors: str
) -> None:
    table = made(tmp_path, **{"deletion-vectors.enabled": vectors})
    before = {file["file_name"] for file in table.files().to_pylist()}
    table.update({"n": "n * 10"}, where="g = 'b'")
    assert rows(table) == [("a", 1), ("b", 20), ("b", 20), ("c", 3)]
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND", "OVERWRITE"]
    after = {file["file_name"]: file for file in table.files().to_pylist()}
    if vectors == "true":
        assert {name: after[name]["deleted_row_count"] for name in before} == dict.fromkeys(before, 2)
        assert sum(file["row_count"] for name, file in after.items() if name not in before) == 2
    else:
        assert not before & after.keys()
    assert table.update({"n": 0}, where="g = 'none'") is None
    assert not table.check().findings


@covers("APP-31", "APP-17")
def test_an_update_of_rows_that_another_deletes_is_computed_again(tmp_path: Path) -> None:
    table = made(tmp_path, **{"deletion-vectors.enabled": "true"})
    runner, other, computed = table.runner, Table.open(table.path), []
    original = runner.divided

    def divided(*arguments: object) -> object:
        computed.append(1)
        found = original(*arguments)  # type: ignore[arg-type]
        if len(computed) == 1:
            other.delete(where="n = 3")
        return found

    runner.divided = divided  # type: ignore[assignment,method-assign]
    table.update({"n": "n + 1"}, where="n >= 2")
    assert len(computed) == 2
    assert rows(table) == [("a", 1), ("b", 3), ("b", 3)]
    assert not [one for one in table.check().findings if one.severity == "error"]


@covers("APP-4", "STM-7", "STM-11")
def test_an_overwrite_of_an_append_table_leaves_the_compaction_of_its_files(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t",
        "g STRING, n INT",
        primary_key=None,
        options={
            "row-tracking.enabled": "true",
            "deletion-vectors.enabled": "true",
            "compaction.min.file-num": "1",
        },
    )
    table.append(ROWS)
    table.overwrite([{"g": "b", "n": 9}])
    assert rows(table) == [("b", 9)]
    assert not table.check().findings


@covers("STM-7")
def test_an_overwrite_and_truncate_of_an_append_table(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t",
        "g STRING, n INT",
        primary_key=None,
        partition_by="g",
        options={"deletion-vectors.enabled": "true"},
    )
    table.append(ROWS)
    table.delete(where="n = 2 AND g = 'b'")
    table.overwrite([{"g": "b", "n": 9}, {"g": "b", "n": 9}], where="g = 'b'")
    assert rows(table) == [("a", 1), ("b", 9), ("b", 9), ("c", 3)]
    assert table.truncate() is not None
    assert rows(table) == []
    assert not table.check().findings
