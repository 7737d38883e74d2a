"""The commands that change a Hudi table: what they print, what they refuse, and that a dry run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pktable import HudiTable
from pktable.cli import run
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.log_index import Row

from model_tests.hudi.dying_store import AFTER, DyingStore, Killed
from model_tests.hudi.written_tables import new_table, rows_of, upsert

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """A table of two rows, one of which has changed."""
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1), "b": Row(1, 1)})
    upsert(table, {"b": Row(2, 2)})
    return table


def told(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run([str(one) for one in arguments]) == code
    found = capsys.readouterr()
    return found.out.strip(), found.err.strip()


def outcome(capsys: Capture, *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, *arguments, "--format", "jsonl")[0])
    return found


def everything(root: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def last(table: HudiTable) -> str:
    return table.timeline().last


def test_a_hudi_table_is_created_written_and_tidied_by_commands(tmp_path: Path, capsys: Capture) -> None:
    path, file = tmp_path / "t", tmp_path / "rows.csv"
    file.write_text("k,ts,v\na,1,10\nb,1,20\n")
    columns = ("--columns", "k STRING, ts BIGINT, v INT", "--primary-key", "k", "--ordering", "ts")
    assert outcome(capsys, "create", path, "--hudi", *columns) == {"table": str(path)}
    written = outcome(capsys, "write", path, file)
    table = HudiTable.open(path)
    assert written == {"rows": 2, "instant": last(table), "dry_run": False}
    file.write_text("k,ts,v\na,0,11\nc,1,30\n")
    assert told(capsys, "write", path, file) == (f"2 rows written, instant {last(table)}", "")
    assert rows_of(table) == {"a": Row(1, 10), "b": Row(1, 20), "c": Row(1, 30)}
    deleted = outcome(capsys, "delete", path, "--where", "v > 15")
    assert deleted == {"rows": 2, "instant": last(table), "dry_run": False}
    assert told(capsys, "delete", path, "--where", "v > 15") == ("nothing to do", "")
    compacted = outcome(capsys, "compact", path)
    assert compacted == {"groups": None, "files": None, "instants": [last(table)], "dry_run": False}
    assert outcome(capsys, "compact", path)["instants"] == []
    assert rows_of(table) == {"a": Row(1, 10)}
    would = outcome(capsys, "clean", path, "--retain-versions", 1, "--dry-run")
    cleaned = outcome(capsys, "clean", path, "--retain-versions", 1)
    assert (would["files"], would["instant"]) == (cleaned["files"], None)
    assert cleaned["files"] > 0
    assert outcome(capsys, "clean", path, "--retain-versions", 1)["instant"] is None
    assert outcome(capsys, "archive", path, "--retain-writes", 1) == {"actions": 0}
    assert rows_of(table) == {"a": Row(1, 10)}


def test_old_actions_are_archived(table: HudiTable, capsys: Capture) -> None:
    for value in range(12):
        upsert(table, {"b": Row(3, value)})
    assert told(capsys, "archive", table.path, "--retain-writes", 2) == ("archived 12 actions", "")


def test_a_write_of_a_process_that_died_is_rolled_back(table: HudiTable, capsys: Capture) -> None:
    with pytest.raises(Killed):
        upsert(HudiTable.open(table.path, store=DyingStore(3, AFTER)), {"z": Row(1, 1)})
    (gone,) = outcome(capsys, "rollback", table.path)["instants"]
    assert gone > last(table)
    assert told(capsys, "rollback", table.path) == ("nothing to do", "")


@covers("LOG-58")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["write", "{table}", "{file}"], "would write 1 row"),
        (["delete", "{table}", "--where", "v = 1"], "would delete 1 row"),
        (["delete", "{table}", "--where", "v = 9"], "would delete 0 rows"),
        (["compact", "{table}"], "would compact 1 log file of 1 file group"),
        (["clean", "{table}", "--retain-commits", "1"], "nothing to do"),
    ],
)
def test_a_dry_run_changes_nothing(
    table: HudiTable, tmp_path: Path, capsys: Capture, arguments: list[str], sentence: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"k": "c", "ts": 1, "v": 3}))
    before = everything(table.path)
    given = [one.format(table=table.path, file=file) for one in arguments]
    assert told(capsys, *given, "--dry-run") == (sentence, "")
    assert everything(table.path) == before


@covers("LOG-58")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ["write", "{table}", "{file}", "--row-kind", "op"],
            "--row-kind: not for a Hudi table; use `pktable write`",
        ),
        (["write", "{table}", "{file}"], "column k"),
        (["write", "{table}", "{file}", "--dry-run"], "column k"),
        (["delete", "{table}", "--where", "nothing = 1"], "nothing"),
        (["compact", "{table}", "--full"], "--full: not for a Hudi table; a compaction takes all"),
        (
            ["compact", "{table}", "--follow"],
            "--follow: not for a Hudi table; each compaction ends the writes",
        ),
        (["rollback", "{table}", "--snapshot", "1"], "--snapshot"),
        (["clean", "{table}", "--older-than", "2026-01-01"], "--older-than"),
        (["clean", "{table}", "--retain-commits", "1", "--retain-versions", "1"], "found both"),
        (["expire", "{table}", "--retain-last", "1"], "expire: not for a Hudi table; use `pktable clean"),
        (["tag", "{table}", "kept"], "tag: not for a Hudi table"),
        (["changes", "{table}", "--start", "0"], "changes: not for a Hudi table"),
        (["update", "{table}", "--set", "v = 1"], "update: not for a Hudi table; read the rows"),
        (["create", "{table}2", "--hudi", "--columns", "k STRING"], "--primary-key"),
        (["create", "{table}2", "--hudi", "--columns", "k STRING", "-o", "bucket=1"], "--option"),
        (["create", "{table}2", "--columns", "k STRING", "--ordering", "k"], "--ordering"),
    ],
)
def test_what_does_not_fit_a_hudi_table_is_refused_by_name(
    table: HudiTable, tmp_path: Path, capsys: Capture, arguments: list[str], named: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"k": None, "ts": 1, "v": 3}))
    before = everything(table.path)
    given = [one.format(table=table.path, file=file) for one in arguments]
    found, error = told(capsys, *given, code=2)
    assert found == ""
    assert error.startswith("pktable: ")
    assert named in error
    assert "\n" not in error
    assert everything(table.path) == before
    assert not Path(f"{table.path}2").exists()


@covers("LOG-58")
def test_calls_of_other_tables_are_refused_with_what_to_use(table: HudiTable) -> None:
    before = everything(table.path)
    with pytest.raises(InvalidRequestError, match=r"update: not for a Hudi table; .* upsert$"):
        table.update({"v": 1}, where="k = 'a'")
    with pytest.raises(
        InvalidRequestError, match=r"write_changes: not for a Hudi table; use upsert .* delete"
    ):
        table.write_changes([{"k": "a", "op": "-D"}], row_kind="op")
    assert everything(table.path) == before


def test_what_only_hudi_tables_have_is_refused_for_others(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t"
    told(capsys, "create", path, "--columns", "k INT", "--primary-key", "k")
    for command, named in (("archive", "for Hudi tables only"), ("clean", "--retain-commits")):
        options = ("--retain-commits", 1) if command == "clean" else ()
        _, error = told(capsys, command, path, *options, code=2)
        assert named in error
    assert "expected a table directory" in told(capsys, "archive", tmp_path / "none", code=2)[1]
    assert "expected a table directory" in told(capsys, "tag", tmp_path / "none", code=2)[1]
