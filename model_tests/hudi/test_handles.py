"""Handles of Hudi tables: of one that was dropped or made again, their options, and directories with another table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable import HudiTable, Table
from pktable_hudi.format.names import DIRECTORY
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError, NotATableError

from model_tests.hudi.written_tables import COLUMNS, new_table, rows_of

ROW = {"k": "a", "ts": 1, "v": 1}
USES: dict[str, Callable[[HudiTable], Any]] = {
    "count": lambda table: table.count(),
    "to_arrow": lambda table: table.to_arrow(),
    "check": lambda table: table.check(),
    "history": lambda table: table.history(),
    "files": lambda table: table.files(),
    "locate": lambda table: table.locate(["a"]),
    "upsert": lambda table: table.upsert([ROW]),
    "delete": lambda table: table.delete([{"k": "a"}]),
    "delete where": lambda table: table.delete(where="v = 1"),
    "plan_compaction": lambda table: table.plan_compaction(),
    "compact": lambda table: table.compact(),
    "rollback": lambda table: table.rollback(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
}


def made_again(path: Path, **options: Any) -> HudiTable:
    shutil.rmtree(path)
    columns = options.pop("columns", COLUMNS)
    table = HudiTable.create(path, columns, **{"key": "k", "ordering": "ts", **options})
    table.upsert([ROW])
    return table


@covers("LOG-81")
@pytest.mark.parametrize("use", USES)
def test_a_handle_of_a_table_that_was_dropped_says_so(tmp_path: Path, use: str) -> None:
    table = new_table(tmp_path / "t")
    table.upsert([ROW])
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotATableError, match="the table was dropped or renamed after it was opened"):
        USES[use](table)
    assert not (tmp_path / "t").exists()


@covers("LOG-81")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "options", [{"ordering": None}, {"key": ["k", "v"]}, {"partition_by": "v"}, {"name": "u"}]
)
def test_a_handle_of_a_table_that_was_made_again_is_refused(
    tmp_path: Path, options: dict[str, Any], use: str
) -> None:
    table = new_table(tmp_path / "t")
    new = made_again(tmp_path / "t", **options)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        InvalidRequestError, match=r"another table has taken its place since it was opened.*open it again"
    ):
        USES[use](table)
    assert sorted(tmp_path.rglob("*")) == before
    assert new.count() == 1


@covers("LOG-81")
def test_a_table_that_is_made_again_under_a_write_does_not_get_its_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert([ROW])
    real = table.writer()
    made: list[HudiTable] = []

    def clock() -> int:
        if not made:
            made.append(made_again(tmp_path / "t", ordering=None))
        return real.clock()

    writer = replace(real, clock=clock)
    with pytest.raises(InvalidRequestError, match="another table has taken its place"):
        writer.upsert([{**ROW, "v": 7}])
    assert rows_of(made[0])["a"].value == 1
    assert len(made[0].timeline().completed) == 1


@covers("LOG-81")
def test_a_handle_writes_to_a_table_that_was_made_again_as_it_was(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    made_again(tmp_path / "t")
    table.upsert([{**ROW, "v": 2}])
    assert rows_of(table)["a"].value == 2


@covers("LOG-82")
def test_no_table_is_created_over_one_of_the_other_kind(tmp_path: Path) -> None:
    Table.create(tmp_path / "p", "k STRING NOT NULL, v INT", primary_key="k")
    with pytest.raises(InvalidRequestError, match="a table already exists here, and is none of Hudi's"):
        HudiTable.create(tmp_path / "p", "k STRING", key="k")
    assert not (tmp_path / "p" / DIRECTORY).exists()
    new_table(tmp_path / "h")
    with pytest.raises(
        InvalidRequestError, match=r"a table of Hudi already exists here; pktable.HudiTable opens it"
    ):
        Table.create(tmp_path / "h", "k STRING NOT NULL, v INT", primary_key="k")
    assert not (tmp_path / "h" / "schema").exists()
