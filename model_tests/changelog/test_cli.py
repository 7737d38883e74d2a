"""The command ``pktable changes``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pktable import Table
from pktable.cli import run
from pktable_spec.covers import covers

from model_tests.changelog.tables import changes, new_table, put, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = new_table(tmp_path / "t", "lookup")
    put(table, ("+I", 1, 1), ("+I", 2, 2))
    put(table, ("+U", 1, 5), ("-D", 2, None))
    table.create_tag("first", snapshot=2)
    return table


@covers("CHG-11")
@pytest.mark.parametrize("start", ["2", "first"])
def test_changes_are_printed_as_lines(table: Table, capsys: pytest.CaptureFixture[str], start: str) -> None:
    assert run(["changes", table.path, "--start", start, "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [tuple(line.values()) for line in lines] == changes(table, 2)
    assert list(lines[0]) == ["_row_kind", "id", "v"]


@covers("CHG-11")
def test_printed_changes_can_be_written_to_another_table(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["changes", table.path, "--start", "0", "--end", "4", "--format", "jsonl"]) == 0
    (tmp_path / "changes.jsonl").write_text(capsys.readouterr().out)
    other = new_table(tmp_path / "u", "none")
    assert run(["write", other.path, str(tmp_path / "changes.jsonl"), "--row-kind", "_row_kind"]) == 0
    assert rows(Table.open(other.path)) == rows(table) == {(1, 5)}


@covers("CHG-13")
def test_a_range_that_is_not_retained_is_one_line(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.expire_snapshots(retain_last=1)
    assert run(["changes", table.path, "--start", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "changes after snapshot 0 up to 4: snapshot 1 does not exist or has expired; retained: 4" in line


def test_columns_and_a_condition_choose_changes(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["changes", table.path, "--start", "0", "--columns", "v", "--where", "v = 5", "--format", "csv"]
    assert run(given) == 0
    assert capsys.readouterr().out.splitlines() == ["_row_kind,v", "+U,5"]
