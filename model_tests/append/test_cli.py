"""Append tables on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pktable.cli import run
from pktable_spec.covers import covers

ROWS = "id,v,p\n1,a,1\n2,b,2\n3,c,\n"


@covers("APP-1", "APP-8", "APP-12", "APP-21")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_commands_know_append_tables(
    tmp_path: Path, vectors: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = str(tmp_path / "t"), tmp_path / "rows.csv"
    rows.write_text(ROWS)

    def command(*arguments: object, code: int = 0) -> list[dict[str, object]]:
        assert run([*map(str, arguments), *(["--format", "jsonl"] if code == 0 else [])]) == code
        out = capsys.readouterr()
        return [json.loads(line) for line in out.out.splitlines()] if code == 0 else [{"error": out.err}]

    command("create", path, "--columns", "id BIGINT, v STRING, p INT", "--partition-by", "p",
            "-o", f"deletion-vectors.enabled={vectors}")  # fmt: skip
    assert command("write", path, rows) == [{"rows": 3, "snapshot": 1, "dry_run": False}]
    assert command("write", path, rows, "--dry-run") == [{"rows": 3, "snapshot": None, "dry_run": True}]
    command("write", path, rows)
    assert command("delete", path, "--where", "id = 2", "--dry-run")[0]["rows"] == 2
    assert command("delete", path, "--where", "id = 2") == [{"rows": 2, "snapshot": 3, "dry_run": False}]
    assert command("delete", path, "--where", "id = 2") == [{"rows": 0, "snapshot": None, "dry_run": False}]
    assert command("count", path) == [{"rows": 4}]
    assert [row["id"] for row in command("read", path, "--where", "p IS NULL")] == [3, 3]
    assert command("compact", path, "--full")[0]["snapshot"] == 4
    assert [one["kind"] for one in command("history", path)] == ["APPEND", "APPEND", "OVERWRITE", "COMPACT"]
    assert [row["level"] for row in command("files", path)] == [0, 0]
    assert command("check", path) == []
    update = ("update", path, "--set", "v = 'x'", "--where", "id = 1")
    assert command(*update, "--dry-run") == [{"rows": 2, "snapshot": None, "dry_run": True}]
    assert command(*update) == [{"rows": 2, "snapshot": 5, "dry_run": False}]
    (refused,) = command("write", path, rows, "--row-kind", "v", code=2)
    assert "the table has no primary key; use append" in str(refused["error"])
