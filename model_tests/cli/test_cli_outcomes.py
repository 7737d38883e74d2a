"""The reports of commands: objects with stable names, dry runs, notes, progress, and messages a user can act on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.cli import app as frame
from pktable.cli import run
from pktable.cli.progress import SECONDS_BETWEEN_LINES, Reporter, be_quiet, note
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two rows, compacted."""
    table = Table.create(tmp_path / "table", "id INT, s STRING", primary_key=["id"], options=VECTORS)
    table.upsert(rows(1, 2))
    return table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "s": [f"row {i}" for i in ids]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("id,s\n2,new\n3,c\n")
    return path


def everything(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def output(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run([str(argument) for argument in arguments]) == code
    found = capsys.readouterr()
    return found.out, found.err


def outcome(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    out, err = output(capsys, *arguments, "--format", "jsonl")
    assert err == ""
    (line,) = out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


# Objects for programs


def test_every_command_gives_an_object_with_its_fields(
    table: Table, tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table.path
    other = tmp_path / "other"
    made = outcome(capsys, "create", other, "--columns", "id INT", "--primary-key", "id", "--quiet")
    assert made == {"table": str(other)}
    assert outcome(capsys, "count", path) == {"rows": 2}
    assert outcome(capsys, "write", path, file) == {"rows": 2, "snapshot": 4, "dry_run": False}
    assert outcome(capsys, "delete", path, "--where", "id = 3") == {
        "rows": 1,
        "snapshot": 6,
        "dry_run": False,
    }
    assert outcome(capsys, "delete", path, "--where", "id = 3") == {
        "rows": 0,
        "snapshot": None,
        "dry_run": False,
    }
    compacted = {"buckets": None, "files": None, "rows": None, "snapshot": 7, "dry_run": False}
    assert outcome(capsys, "compact", path, "--full") == compacted
    assert outcome(capsys, "compact", path, "--full") == {**compacted, "snapshot": None}
    assert outcome(capsys, "tag", path, "kept") == {"tag": "kept", "snapshot": 7, "deleted": False}
    assert outcome(capsys, "tag", path) == {"tag": "kept", "snapshot": 7}
    assert outcome(capsys, "tag", path, "kept", "--delete") == {
        "tag": "kept",
        "snapshot": None,
        "deleted": True,
    }
    assert outcome(capsys, "expire", path, "--retain-last", 2) == {
        "snapshots": [1, 2, 3, 4, 5],
        "dry_run": False,
    }
    assert outcome(capsys, "expire", path, "--retain-last", 2) == {"snapshots": [], "dry_run": False}


def test_an_object_is_a_line_of_csv_too(table: Table, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "count", table.path, "--format", "csv") == ("rows\n2\n", "")
    written, _ = output(capsys, "write", table.path, file, "--format", "csv")
    assert written == "rows,snapshot,dry_run\n2,4,false\n"
    expired, _ = output(capsys, "expire", table.path, "--retain-last", 2, "--format", "csv")
    assert expired == 'snapshots,dry_run\n"[1, 2]",false\n'
    nothing, _ = output(capsys, "delete", table.path, "--where", "id > 9", "--format", "csv")
    assert nothing == "rows,snapshot,dry_run\n0,,false\n"


# Dry runs


@pytest.mark.parametrize(
    ("arguments", "sentence", "fields"),
    [
        (["write", "{table}", "{file}"], "would write 2 rows", {"rows": 2, "snapshot": None}),
        (["delete", "{table}", "--where", "id > 1"], "would delete 1 row", {"rows": 1, "snapshot": None}),
        (["delete", "{table}", "--where", "id > 9"], "would delete 0 rows", {"rows": 0, "snapshot": None}),
        (["compact", "{table}"], "nothing to do", {"buckets": 0, "files": 0, "rows": 0, "snapshot": None}),
        (
            ["expire", "{table}", "--retain-last", "3"],
            "would expire snapshots 1 to 3",
            {"snapshots": [1, 2, 3]},
        ),
        (["expire", "{table}", "--retain-last", "5"], "would expire snapshot 1", {"snapshots": [1]}),
        (["expire", "{table}", "--retain-last", "6"], "nothing to do", {"snapshots": []}),
    ],
)
def test_a_dry_run_says_what_would_be_done_and_changes_nothing(
    table: Table,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    sentence: str,
    fields: dict[str, Any],
) -> None:
    table.delete(where="id = 1")
    table.upsert(rows(1, 2))
    before = everything(Path(table.path))
    filled = [part.format(table=table.path, file=file) for part in (*arguments, "--dry-run")]
    assert outcome(capsys, *filled) == {**fields, "dry_run": True}
    assert output(capsys, *filled) == (f"{sentence}\n", "")
    assert everything(Path(table.path)) == before


@covers("CMT-16")
def test_an_expiry_does_what_its_dry_run_says(table: Table) -> None:
    for i in range(3):
        table.upsert(rows(i))
    planned = table.expire_snapshots(retain_last=3, dry_run=True)
    assert planned == [1, 2, 3, 4, 5]
    assert table.expire_snapshots(retain_last=3) == planned


@covers("CMP-3")
def test_a_compaction_takes_what_its_dry_run_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.create(
        tmp_path / "parts",
        "p STRING, id INT",
        primary_key=["p", "id"],
        partition_by=["p"],
        options={**VECTORS, "write-only": "true"},
    )
    for part in ("a", "b", "b"):
        table.upsert(pa.table({"p": [part], "id": pa.array([1], pa.int32())}))
    planned = table.plan_compaction()
    assert [(one.partition, one.bucket, one.files, one.rows) for one in planned] == [
        ("p=a", 0, 1, 1),
        ("p=b", 0, 2, 2),
    ]
    files = table.files()
    assert sum(one.size_bytes for one in planned) == sum(files.column("file_size").to_pylist())
    out, _ = output(capsys, "compact", table.path, "--dry-run")
    assert out == "would compact 3 files of 2 buckets, 3 rows\n"
    assert table.files().equals(files)


def test_a_dry_run_refuses_what_the_write_would_refuse(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "null.csv").write_text("id,s\n,a\n")
    (tmp_path / "less.csv").write_text("id\n1\n")
    (tmp_path / "kind.csv").write_text("id,s,op\n1,a,9\n")
    for name, *options in (["null.csv"], ["less.csv"], ["kind.csv", "--row-kind", "op"]):
        errors = [
            output(capsys, "write", table.path, tmp_path / name, *options, *dry, code=2)
            for dry in ([], ["--dry-run"])
        ]
        assert errors[0] == errors[1]
        assert errors[0][1].count("\n") == 1


# Notes


@covers("RD-1", "RD-3")
def test_rows_that_a_default_read_leaves_out_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**VECTORS, "write-only": "true"}
    table = Table.create(tmp_path / "table", "id INT, s STRING", primary_key=["id"], options=options)
    path = table.path
    assert output(capsys, "count", path) == ("0\n", "")
    table.upsert(rows(1))
    one = "pktable: 1 change is not compacted yet and left out; use --fresh to include them\n"
    assert output(capsys, "count", path) == ("0\n", one)
    table.upsert(rows(1, 2))
    three = "pktable: 3 changes are not compacted yet and left out; use --fresh to include them\n"
    for command in ("read", "count"):
        assert output(capsys, command, path, "--format", "csv")[1] == three
        assert output(capsys, command, path, "--snapshot", 1)[1] == one
        assert output(capsys, command, path, "--fresh")[1] == ""
        assert output(capsys, command, path, "--quiet")[1] == ""
        assert output(capsys, "--quiet", command, path)[1] == ""
        note("what else the process does")
        assert capsys.readouterr().err == "pktable: what else the process does\n"
    table.create_tag("first", snapshot=1)
    assert output(capsys, "read", path, "--tag", "first")[1] == one
    assert output(capsys, "read", path, "--timestamp", "2999-01-01")[1] == three
    table.compact()
    assert output(capsys, "read", path)[1] == ""


@covers("RD-4")
def test_no_row_is_reported_as_left_out_where_reads_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table.create(
        tmp_path / "table", "id INT, s STRING", primary_key=["id"], options={"write-only": "true"}
    )
    table.upsert(rows(1))
    assert output(capsys, "count", table.path) == ("1\n", "")


def test_errors_are_printed_however_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected a table" in output(capsys, "count", tmp_path / "nowhere", "--quiet", code=2)[1]


# Messages in the user's terms


@covers("RD-17")
def test_a_time_before_the_first_snapshot_is_answered_as_a_time(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = output(capsys, "read", table.path, "--timestamp", "1999-01-01T12:00:00", code=2)
    first = datetime(1970, 1, 1) + timedelta(milliseconds=table.snapshots()[0].time_millis)
    assert "a snapshot at or before 1999-01-01T12:00:00Z" in err
    assert (
        f"retained: 1 to 2, the oldest of {first.isoformat(timespec='milliseconds').removesuffix('.000')}Z"
        in err
    )
    _, err = output(capsys, "read", table.path, "--timestamp", "-" + "9" * 18, code=2)
    assert "at or before -999999999999999999 ms" in err


def test_times_are_read_as_the_product_prints_them(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = output(capsys, "history", table.path, "--format", "jsonl")
    times = [json.loads(line)["time"] for line in out.splitlines()]
    assert times[0].endswith("Z")
    exact = int(datetime.fromisoformat(times[1][:-1]).replace(tzinfo=timezone.utc).timestamp() * 1000)
    for time in (times[1], exact):
        assert output(capsys, "read", table.path, "--timestamp", time, "--format", "csv")[0].count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["expire", "{table}", "--retain-last", "0"], "--retain-last"),
        (["expire", "{table}", "--retain-last", "1", "--older-than", "soon"], "--older-than"),
        (["read", "{table}", "--timestamp", "soon"], "--timestamp"),
        (["read", "{table}", "--limit", "-1"], "--limit"),
    ],
)
def test_an_error_names_the_option_that_was_typed(
    table: Table, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], named: str
) -> None:
    _, err = output(capsys, *(part.format(table=table.path) for part in arguments), code=2)
    assert named in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--snapshot", "x"], "'--snapshot': expected an integer"),
        (["--limit", "-1"], "'--limit': expected a value greater than or equal to 0"),
        (["--format", "xml"], "'--format': 'xml' is not one of 'table', 'jsonl', 'csv'"),
    ],
)
def test_an_error_is_in_words_of_the_command_line(
    table: Table, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], words: str
) -> None:
    _, err = output(capsys, "read", table.path, *arguments, code=2)
    assert err.startswith(f"pktable: Invalid value for {words}")


@pytest.mark.parametrize("command", [["read"], ["compact"], ["sql", "SELECT 1", "--warehouse"]])
def test_a_missing_pyspark_is_one_line(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [one for one in sys.modules if one.startswith(("pktable.run.spark", "pktable.spark_sql"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    _, err = output(capsys, *command, table.path, "--spark", code=2)
    assert err == "pktable: --spark: pyspark is not installed; install it with: pip install pyspark\n"


def test_a_mistake_is_found_before_spark_starts(
    table: Table,
    tmp_path: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started: list[str] = []

    def start() -> None:
        started.append("spark")
        raise InvalidRequestError("started")

    monkeypatch.setattr(frame, "spark_session", start)
    (tmp_path / "wrong.csv").write_text("id,s\nx,a\n")
    nowhere = tmp_path / "nowhere"
    for arguments in (
        ["write", nowhere, file],
        ["write", table.path, nowhere],
        ["write", table.path, tmp_path / "wrong.csv"],
        ["read", nowhere],
        ["count", nowhere],
        ["compact", nowhere],
        ["delete", nowhere, "--where", "id = 1"],
    ):
        output(capsys, *arguments, "--spark", code=2)
    output(capsys, "write", table.path, file, "--spark", "--dry-run")
    assert started == []
    output(capsys, "write", table.path, file, "--spark", code=2)
    assert started == ["spark"]


# Progress


class Clock:
    """A clock to be moved by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pktable.cli.progress.time", clock)
    return clock


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Reporter() as show:
        for bucket in range(85):
            clock.now += 1.0
            show(f"bucket {bucket}", 1, 1)
            show("all", bucket + 1, 85)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["bucket 29: 1 of 1", "bucket 59: 1 of 1", "all: 85 of 85"]
    assert SECONDS_BETWEEN_LINES == 30


def test_short_work_gets_one_line_and_no_work_none(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter() as show:
        for done in range(1, 6):
            show("files", done, 5)
    assert capsys.readouterr().err == "files: 5 of 5\n"
    with Reporter():
        pass
    assert capsys.readouterr().err == ""


def test_progress_is_silent_where_it_is_asked_to_be(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    be_quiet()
    try:
        with Reporter() as show:
            show.say("begun")
            clock.now += 100.0
            show("files", 1, 1)
    finally:
        be_quiet(False)
    assert capsys.readouterr().err == ""


@covers("WH-29")
def test_a_compaction_shows_on_a_terminal_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"write-only": "true"}
    table = Table.create(tmp_path / "t", "id INT, s STRING", primary_key="id", options=options)

    def err(*arguments: str, terminal: bool) -> str:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        for _ in range(2):
            table.upsert(rows(1, 2))
        return output(capsys, "compact", table.path, "--full", *arguments)[1]

    assert "compact" in err(terminal=True)
    assert err("--quiet", terminal=True) == ""
    assert err(terminal=False) == ""
