"""The command line: what it prints is exact, errors are one line, exit codes say whose fault they are."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pktable
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from pktable import Table, Warehouse
from pktable.cli import run
from pktable.cli.files import read_rows
from pktable.cli.output import Format, print_rows
from pktable_spec.covers import covers

from model_tests.predicate.conditions import FIELDS, ROWS, SCHEMA, table_of

Run = Callable[..., tuple[int, str, str]]

COLUMNS = (
    "id BIGINT, s STRING, m DECIMAL(12, 2), w TIMESTAMP(9), z TIMESTAMP(6) WITH LOCAL TIME ZONE, d DATE, "
    "y BYTES, f DOUBLE, e FLOAT, b BOOLEAN, l ARRAY<INT>, r ROW<p STRING, q DECIMAL(3, 1)>, o MAP<STRING, DATE>"
)
LINES = [
    {
        "id": 1, "s": "", "m": "12.50", "w": "2024-02-29T12:00:00.000000001",
        "z": "2024-02-29T12:00:00Z", "d": "2024-02-29", "y": "AQI=", "f": 0.1, "e": 1.5, "b": True, "l": [1, None],
        "r": {"p": "x", "q": "1.5"}, "o": [["k", "2024-01-01"]],
    },
    {
        "id": 2, "s": 'a,"b"\n c ', "m": "-0.01", "w": "1969-12-31T23:59:59.999",
        "z": "1969-12-31T23:59:59.5Z", "d": "0001-01-01", "y": "", "f": "NaN", "e": "-Infinity", "b": False,
        "l": [], "r": None, "o": [],
    },
    {"id": 3} | dict.fromkeys(("s", "m", "w", "z", "d", "y", "f", "e", "b", "l", "r", "o")),
]  # fmt: skip


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; gives exit code, standard output, standard error."""

    def command(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return command


@pytest.fixture
def place(tmp_path: Path, cli: Run) -> Path:
    path = tmp_path / "table"
    options = ("-o", "bucket=2", "-o", "deletion-vectors.enabled=true")
    assert cli("create", path, "--columns", COLUMNS, "--primary-key", "id", *options)[0] == 0
    return path


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def filled(place: Path, tmp_path: Path, cli: Run) -> Path:
    assert cli("write", place, written(tmp_path / "rows.jsonl", LINES)) == (
        0,
        "3 rows written, snapshot 2\n",
        "",
    )
    return place


def by_id(text: str) -> list[dict[str, Any]]:
    return sorted(map(json.loads, text.splitlines()), key=lambda row: row["id"])


# What is written is read


def test_columns_and_options_are_changed(filled: Path, cli: Run) -> None:
    before = Table.open(filled).columns
    changes = ("--add", "note STRING", "--move", "note=FIRST", "-o", "target-file-size=1 mb")
    assert cli("alter", filled, *changes) == (0, "the table has schema 1\n", "")
    assert list(Table.open(filled).columns) == ["note", *before]
    assert cli("alter", filled, "--reset", "target-file-size", "--drop", "note", "--format", "jsonl")[:2] == (
        0,
        '{"schema": 2}\n',
    )
    assert Table.open(filled).columns == before
    assert cli("alter", filled) == (0, "nothing to do\n", "")
    code, out, err = cli("alter", filled, "--drop", "id")
    assert (code, out) == (2, "")
    assert "column id cannot be dropped" in err


def test_partitions_get_another_number_of_buckets(filled: Path, cli: Run) -> None:
    before = by_id(cli("read", filled, "--fresh", "--format", "jsonl")[1])
    assert cli("rescale", filled) == (0, "nothing to do\n", "")
    assert cli("alter", filled, "-o", "bucket=3")[0] == 0
    last = Table.open(filled).snapshots()[-1].id
    assert cli("rescale", filled, "--format", "jsonl")[:2] == (0, f'{{"snapshot": {last + 1}}}\n')
    assert by_id(cli("read", filled, "--fresh", "--format", "jsonl")[1]) == before
    code, out, err = cli("rescale", filled, "--where", "id = 1")
    assert (code, out) == (2, "")
    assert "expected a condition on partition columns alone" in err


def test_a_consumer_keeps_what_it_has_not_read(filled: Path, cli: Run) -> None:
    said = "consumer report reads snapshot 1 next\n"
    assert cli("consumer", filled, "report", "--next", 1) == (0, said, "")
    assert cli("expire", filled, "--retain-last", 1) == (0, "nothing to do\n", "")
    assert cli("consumer", filled, "--format", "csv") == (0, "consumer,next_snapshot\nreport,1\n", "")
    assert cli("consumer", filled, "report", "--delete") == (0, "removed consumer report\n", "")
    assert cli("expire", filled, "--retain-last", 1) == (0, "expired snapshot 1\n", "")


def test_json_lines_come_back_as_they_were(filled: Path, cli: Run) -> None:
    code, out, err = cli("read", filled, "--format", "jsonl")
    assert (code, err) == (0, "")
    assert by_id(out) == LINES


def test_old_partitions_go_by_what_their_values_say(tmp_path: Path, cli: Run) -> None:
    table = Table.create(
        tmp_path / "t", "id INT, day STRING", primary_key=["id", "day"], partition_by=["day"]
    )
    table.upsert([{"id": 1, "day": day} for day in ("20240101", "20240201", "99990101")])
    asked: tuple[object, ...] = ("expire-partitions", tmp_path / "t", "--timestamp-formatter", "yyyyMMdd")
    assert cli(*asked)[0] == 2
    asked = (*asked, "--expiration-time", "7 d")
    assert cli(*asked, "--dry-run") == (0, "would remove day=20240101, day=20240201\n", "")
    answer = '{"partitions": [{"day": "20240101"}], "dry_run": false}\n'
    assert cli(*asked, "--max-expires", 1, "--format", "jsonl") == (0, answer, "")
    assert cli(*asked) == (0, "removed day=20240201\n", "")
    assert cli(*asked) == (0, "nothing to do\n", "")
    assert cli("count", tmp_path / "t", "--fresh") == (0, "1\n", "")


def test_a_tag_keeps_what_expires(filled: Path, cli: Run) -> None:
    assert cli("tag", filled, "first", "--snapshot", 1) == (0, "tag first keeps snapshot 1\n", "")
    assert cli("expire", filled, "--retain-last", 1) == (0, "expired snapshot 1\n", "")
    assert cli("expire", filled, "--retain-last", 1) == (0, "nothing to do\n", "")
    assert by_id(cli("read", filled, "--tag", "first", "--fresh", "--format", "jsonl")[1]) == LINES
    assert cli("tag", filled, "--format", "csv") == (0, "tag,snapshot\nfirst,1\n", "")
    assert cli("expire-tags", filled)[:2] == (0, "nothing to do\n")
    assert cli("tag", filled, "gone", "--retain", "1 ms")[0] == 0
    assert cli("expire-tags", filled, "--dry-run")[:2] == (0, "would delete gone\n")
    assert cli("expire-tags", filled)[:2] == (0, "deleted gone\n")
    assert cli("expire-tags", filled, "--older-than", "2020-01-01")[:2] == (0, "nothing to do\n")
    assert cli("tag", filled, "first", "--delete") == (0, "removed tag first\n", "")
    code, out, err = cli("tag", filled, "first", "--snapshot", 1)
    assert (code, out) == (2, "")
    assert "snapshot 1 does not exist or has expired" in err


@covers("BRN-1", "BRN-10")
def test_a_branch_is_made_read_taken_over_listed_and_removed(filled: Path, tmp_path: Path, cli: Run) -> None:
    rows = written(tmp_path / "more.jsonl", [{**LINES[2], "id": 4}])
    latest = Table.open(filled).snapshots()[-1].id
    assert cli("branch", filled, "b") == (0, f"branch b begins with snapshot {latest}\n", "")
    assert cli("branch", filled, "bare", "--empty") == (0, "branch bare is empty\n", "")
    assert cli("branch", filled, "--format", "csv") == (
        0,
        f"branch,snapshot\nb,{latest}\nbare,\n",
        "",
    )
    assert cli("write", filled, rows, "--branch", "b")[0::2] == (0, "")
    read = ("read", filled, "--columns", "id", "--where", "id = 4", "--fresh", "--format", "csv")
    assert (cli(*read)[1], cli(*read, "--branch", "b")[1]) == ("id\n", "id\n4\n")
    code, out, err = cli("branch", filled, "b", "--fast-forward", "--format", "jsonl")
    assert (code, err) == (0, "")
    taken = [one.id for one in Table.open(filled).snapshots() if one.id > latest]
    assert taken
    assert json.loads(out) == {"branch": "b", "snapshots": taken}
    assert cli(*read)[1] == "id\n4\n"
    assert cli("branch", filled, "b", "--fast-forward") == (0, "nothing to do\n", "")
    assert cli("branch", filled, "b", "--delete") == (0, "removed branch b\n", "")
    for arguments, message in (
        (("--delete",), "--delete: expected a NAME, found none"),
        (("b", "--delete", "--empty"), "branch b: expected one of --empty, --delete"),
        (("b", "--delete"), "not found; there are bare"),
    ):
        code, out, err = cli("branch", filled, *arguments)
        assert (code, out) == (2, "")
        assert message in err


@covers("CMT-42", "CMT-48")
def test_a_table_goes_back_and_is_cleaned(filled: Path, tmp_path: Path, cli: Run) -> None:
    before = [one.id for one in Table.open(filled).snapshots()]
    assert cli("write", filled, written(tmp_path / "more.jsonl", [{**LINES[2], "id": 4}]))[0] == 0
    later = [one.id for one in Table.open(filled).snapshots()][len(before) :]
    shown = f"snapshot {later[0]}" if len(later) == 1 else f"snapshots {later[0]} to {later[-1]}"
    assert cli("rollback", filled, "--snapshot", before[-1]) == (0, f"removed {shown}\n", "")
    assert cli("rollback", filled, "--snapshot", before[-1]) == (0, "nothing to do\n", "")
    assert cli("clean", filled) == (0, "nothing to do\n", "")  # nothing is a day old
    limit = 1 << 42
    asked = json.loads(cli("clean", filled, "--older-than", limit, "--dry-run", "--format", "jsonl")[1])
    assert asked == {"files": asked["files"], "bytes": asked["bytes"], "dry_run": True}
    code, out, err = cli("clean", filled, "--older-than", limit)
    assert (code, out, err) == (0, f"deleted {asked['files']} files, {asked['bytes']:,} bytes\n", "")
    assert asked["files"] > 1
    assert by_id(cli("read", filled, "--format", "jsonl", "--fresh")[1]) == LINES


def test_a_repair_says_what_it_did(filled: Path, cli: Run) -> None:
    assert cli("check", filled, "--repair")[2] == "nothing to repair\n"
    (filled / "snapshot" / "LATEST").write_text("1")
    assert cli("check", filled, "--repair")[2] == "LATEST: written as 2, found 1\n"


def test_the_version_is_told(cli: Run) -> None:
    assert cli("--version") == (0, f"pktable {pktable.__version__}\n", "")


def test_csv_comes_back_as_it_was(filled: Path, tmp_path: Path, cli: Run) -> None:
    copy = tmp_path / "copy"
    assert cli("create", copy, "--columns", COLUMNS, "--primary-key", "id")[0] == 0
    _, csv, _ = cli("read", filled, "--format", "csv")
    (tmp_path / "rows.csv").write_text(csv, "utf-8", newline="")
    assert cli("write", copy, tmp_path / "rows.csv")[0] == 0
    assert by_id(cli("read", copy, "--format", "jsonl", "--fresh")[1]) == LINES


def test_parquet_is_written_as_it_is(filled: Path, tmp_path: Path, cli: Run) -> None:
    rows = Table.open(filled).to_arrow()
    pq.write_table(rows, tmp_path / "rows.parquet")
    copy = tmp_path / "copy"
    assert cli("create", copy, "--columns", COLUMNS, "--primary-key", "id")[0] == 0
    assert cli("write", copy, tmp_path / "rows.parquet")[0] == 0
    assert same(Table.open(copy).to_arrow(fresh=True).sort_by("id"), rows.sort_by("id"))


@settings(max_examples=100, deadline=None)
@given(rows=ROWS.filter(bool))
def test_every_value_survives_csv_and_json(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp()
    table = table_of(rows)
    for output in (Format.CSV, Format.JSONL):
        path = place / f"rows.{output.value}"
        with path.open("w", encoding="utf-8", newline="") as file, contextlib.redirect_stdout(file):
            print_rows(table, output)
        back = read_rows(path, FIELDS, None)
        assert same(back.select(SCHEMA.names).cast(SCHEMA), table)


def same(a: pa.Table, b: pa.Table) -> bool:
    """Whether two tables hold the same values, NaN being itself."""
    left, right = a.to_pylist(), b.to_pylist()
    return repr(left) == repr(right)


def test_row_kinds_decide(filled: Path, tmp_path: Path, cli: Run) -> None:
    lines = [{"id": 1, "op": "-D"}, {"id": 3, "s": "new", "op": "+U"}]
    assert cli("write", filled, written(tmp_path / "changes.jsonl", lines), "--row-kind", "op")[0] == 2
    full = [{**dict.fromkeys(LINES[0]), **line} for line in lines]
    assert cli("write", filled, written(tmp_path / "full.jsonl", full), "--row-kind", "op")[0] == 0
    found = by_id(cli("read", filled, "--format", "jsonl", "--columns", "id,s")[1])
    assert found == [{"id": 2, "s": LINES[1]["s"]}, {"id": 3, "s": "new"}]


def test_a_table_for_people_shows_null_and_names(filled: Path, cli: Run) -> None:
    _, out, _ = cli("read", filled, "--columns", "id,m", "--where", "id <> 2")
    assert [
        line for line in out.splitlines() if "id" in line or "12.50" in line or "NULL" in line
    ].__len__() == 3


# The commands on a table


def test_reads_take_filter_columns_limit_and_time(filled: Path, cli: Run) -> None:
    assert (
        cli("read", filled, "--format", "csv", "--where", "m > 5", "--columns", "m,id")[1]
        == "m,id\n12.50,1\n"
    )
    assert len(cli("read", filled, "--format", "jsonl", "--limit", 2)[1].splitlines()) == 2
    assert cli("read", filled, "--format", "jsonl", "--snapshot", 1)[1] == ""
    assert len(cli("read", filled, "--format", "jsonl", "--snapshot", 1, "--fresh")[1].splitlines()) == 3
    assert len(cli("read", filled, "--format", "jsonl", "--timestamp", "2999-01-01")[1].splitlines()) == 3
    code, _, err = cli("read", filled, "--timestamp", "1999-01-01")
    assert code == 2
    assert "retained: 1 to 2" in err


def test_update_changes_the_rows_of_a_condition(filled: Path, cli: Run) -> None:
    update = ("update", filled, "--set", "s = s || '!'", "--where", "id <> 2")
    assert cli(*update, "--dry-run")[1] == "would update 2 rows\n"
    before = by_id(cli("read", filled, "--format", "jsonl", "--columns", "id,s")[1])
    assert cli(*update)[1] == "2 rows updated, snapshot 4\n"
    after = by_id(cli("read", filled, "--format", "jsonl", "--columns", "id,s")[1])
    expected = [row["s"] if row["id"] == 2 or row["s"] is None else row["s"] + "!" for row in before]
    assert [row["s"] for row in after] == expected
    assert cli("update", filled, "--set", "s = 'x'", "--where", "id = 99")[1] == "nothing to do\n"
    code, _, err = cli("update", filled, "--set", "s")
    assert code == 2
    assert "--set: expected COLUMN=SQL, each column once, found 's'" in err


def test_delete_compact_count_history_and_files(filled: Path, cli: Run) -> None:
    assert cli("count", filled)[1] == "3\n"
    assert cli("delete", filled, "--where", "s = ''")[1] == "1 row deleted, snapshot 4\n"
    assert cli("delete", filled, "--where", "s = ''")[1] == "nothing to do\n"
    assert cli("count", filled)[1] == "2\n"
    assert cli("count", filled, "--snapshot", 2)[1] == "3\n"
    history = [json.loads(line) for line in cli("history", filled, "--format", "jsonl")[1].splitlines()]
    assert [(row["kind"], row["vectors"], row["deleted_rows"]) for row in history[2:]] == [
        ("APPEND", 0, 0),
        ("COMPACT", 1, 1),
    ]
    assert cli("compact", filled, "--full")[1] == "compacted, snapshot 5\n"
    files = [json.loads(line) for line in cli("files", filled, "--format", "jsonl")[1].splitlines()]
    assert sum(row["row_count"] for row in files) == 2
    assert all(row["deleted_row_count"] == 0 for row in files)
    assert "data-" in cli("files", filled)[1]


def test_count_takes_the_filter_and_the_times_of_a_read(filled: Path, cli: Run) -> None:
    assert cli("tag", filled, "kept", "--snapshot", 2)[0] == 0
    assert cli("delete", filled, "--where", "id = 1")[0] == 0
    assert cli("count", filled, "--where", "id <> 2")[1] == "1\n"
    assert cli("count", filled, "--where", "id <> 2", "--tag", "kept")[1] == "2\n"
    assert cli("count", filled, "--timestamp", "2999-01-01")[1] == "2\n"
    assert cli("count", filled, "--timestamp", "1999-01-01")[0] == 2
    assert cli("count", filled, "--snapshot", 2, "--tag", "kept")[0] == 2


@covers("WH-20")
def test_some_partitions_are_compacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "parted")
    options = {"write-only": "true", "bucket": "1"}
    table = Table.create(path, "p INT, id INT", primary_key=["p", "id"], partition_by="p", options=options)
    table.upsert([{"p": p, "id": 1} for p in (1, 2)])
    table.upsert([{"p": p, "id": 2} for p in (1, 2)])
    assert run(["compact", path, "--full", "--where", "p = 1"]) == 0
    runs = [row["partition"] for row in table.metadata("files").to_pylist()]
    assert sorted(runs) == ["{1}", "{2}", "{2}"]
    capsys.readouterr()
    for other in ("--follow", "--dry-run"):
        assert run(["compact", path, "--where", "p = 1", other]) == 2
        assert "--where: expected one compaction" in capsys.readouterr().err


def test_what_is_made_without_being_asked_for_is_said(tmp_path: Path, cli: Run) -> None:
    _, _, err = cli("create", tmp_path / "a", "--columns", "id BIGINT")
    assert "an append table, because no --primary-key is given" in err
    assert "deletion vectors off" in err
    _, _, err = cli("create", tmp_path / "k", "--columns", "id BIGINT, at TIMESTAMP", "--primary-key", "id")
    assert "append table" not in err
    assert "deletion vectors off" in err
    assert "bucket=1" in err
    assert "at: TIMESTAMP is wall-clock time" in err


def test_describe_lists_columns_keys_and_options(tmp_path: Path, cli: Run) -> None:
    columns = (
        "--columns",
        "id BIGINT, day DATE, s STRING",
        "--primary-key",
        "id,day",
        "--partition-by",
        "day",
    )
    options = ("-o", "deletion-vectors.enabled=true", "--comment", "All, of it")
    assert cli("create", tmp_path / "t", *columns, *options)[0] == 0
    assert cli("describe", tmp_path / "t", "--format", "csv")[1].splitlines() == [
        "part,name,value",
        "column,id,BIGINT NOT NULL",
        "column,day,DATE NOT NULL",
        "column,s,STRING",
        "primary key,id,",
        "primary key,day,",
        "partition key,day,",
        "option,bucket,1",
        "option,deletion-vectors.enabled,true",
        'comment,,"All, of it"',
    ]
    assert cli("describe", tmp_path / "nosuch")[0] == 2


# Whose fault it is


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "Missing command"),
        (("nosuch",), "nosuch"),
        (("read",), "PATH"),
        (("read", "{table}", "--format", "xml"), "xml"),
        (("read", "{table}", "--limit", "x"), "--limit"),
        (("read", "{table}", "--limit", "-1"), "limit"),
        (("read", "{nowhere}"), "expected a table"),
        (("read", "{table}", "--where", "nosuch = 1"), "nosuch"),
        (("read", "{table}", "--where", "id = "), "line 1"),
        (("read", "{table}", "--columns", "nosuch"), "nosuch"),
        (("read", "{table}", "--snapshot", "9"), "snapshot 9"),
        (("read", "{table}", "--timestamp", "soon"), "soon"),
        (("read", "{table}", "--timestamp", "²"), "²"),
        (("read", "{table}", "--timestamp", "9" * 5000), "999"),
        (("read", "{table}", "--tag", "nosuch"), "nosuch"),
        (("create", "{table}", "--columns", "id INT", "--primary-key", "id"), "table"),
        (("create", "{nowhere}", "--columns", "id NOSUCH", "--primary-key", "id"), "NOSUCH"),
        (("create", "{nowhere}", "--columns", "id INT", "--primary-key", "id", "-o", "bucket"), "NAME=VALUE"),
        (("create", "{nowhere}", "--columns", "id INT", "--primary-key", "id", "-o", "bucket=0"), "bucket"),
        (("create", "", "--columns", "id INT", "--primary-key", "id"), "PATH"),
        (("count", " "), "PATH"),
        (("tag", "{table}", "--delete"), "NAME"),
        (("tag", "{table}", "--snapshot", "1"), "NAME"),
        (("tag", "{table}", "--retain", "1 d"), "NAME"),
        (("tag", "{table}", "name", "--retain", "1 x"), "time_retained: expected"),
        (("tag", "{table}", "name", "--delete", "--snapshot", "1"), "--snapshot 1"),
        (("consumer", "{table}", "--next", "1"), "NAME"),
        (("consumer", "{table}", "name"), "--next N or --delete"),
        (("consumer", "{table}", "name", "--next", "9"), "snapshot 9 does not exist"),
        (("write", "{table}", "{nowhere}.csv"), "No such file"),
        (("write", "{table}", "{nowhere}.xlsx"), ".parquet, .csv, .jsonl"),
        (("delete", "{table}"), "--where"),
        (("replay-git", "{nowhere}"), "REPOSITORY TABLE"),
        (("replay-git", "{nowhere}", "", "--local"), "REPOSITORY TABLE"),
        (("replay-git", "{nowhere}", "{nowhere}", "--local"), "git repository"),
        (("verify", "--profile", "sloppy"), "quick or deep"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    place: Path,
    tmp_path: Path,
    cli: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = cli(*(part.format(table=place, nowhere=tmp_path / "nowhere") for part in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("pktable: ")
    assert err.count("\n") == 1
    assert named in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("rows.csv", "id,s\none,x\n", "rows.csv: line 2, column id: expected BIGINT"),
        ("rows.csv", "id,nosuch\n1,x\n", "nosuch"),
        ("rows.csv", "id,s\n1\n", "rows.csv"),
        ("rows.csv", "", "rows.csv"),
        ("rows.jsonl", '{"id": 1}\n{"id": }\n', "line 2"),
        ("rows.jsonl", "[1]\n", "object"),
        ("rows.jsonl", '{"id": 1.5}\n', "rows.jsonl: line 1, column id"),
        ("rows.jsonl", '{"id": true}\n', "column id"),
        ("rows.jsonl", '{"id": 1, "s": 5}\n', "column s"),
        ("rows.jsonl", '{"id": 1, "m": "1.005"}\n', "column m"),
        ("rows.jsonl", '{"id": 1, "y": "*"}\n', "column y"),
        ("rows.jsonl", '{"id": 1, "l": [300000000000]}\n', "column l"),
        ("rows.jsonl", '{"id": 1, "l": 3}\n', "column l"),
        ("rows.jsonl", '{"id": 1, "w": "2024-01-01T00:00:00Z"}\n', "column w"),
        ("rows.jsonl", '{"id": 1}\n', "columns"),
        ("rows.parquet", "no Parquet", "rows.parquet"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    place: Path, tmp_path: Path, cli: Run, name: str, body: str, named: str
) -> None:
    (tmp_path / name).write_text(body)
    code, out, err = cli("write", place, tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert named in err


def test_damage_is_one_line_and_exit_code_1(filled: Path, cli: Run) -> None:
    snapshot = filled / "snapshot" / "snapshot-2"
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    code, out, err = cli("read", filled)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "snapshot-2" in err


def test_a_bug_is_one_line_too(filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Table, "count", broken)
    assert cli("count", filled)[0] == 1
    monkeypatch.setenv("PKTABLE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli("count", filled)


# As a process


COMMAND = ("-c", "from pktable.cli import main; main()")


def process(
    *arguments: object, program: Sequence[object] = COMMAND, **environment: str
) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(
        str(Path(module.__file__ or "").parents[1]) for module in (pktable, sys.modules["pktable_spec"])
    )
    return subprocess.Popen(
        [sys.executable, *map(str, (*program, *arguments))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


def test_the_version_is_that_of_the_package() -> None:
    out, _ = process("--version").communicate()
    assert out.decode() == f"pktable {pktable.__version__}\n"


def test_a_reader_may_stop_reading(place: Path, tmp_path: Path) -> None:
    count = 20_000
    rows = pa.table({"id": range(count)} | {name: [None] * count for name in LINES[0] if name != "id"})
    Table.open(place).upsert(rows)
    running = process("read", place, "--format", "jsonl")
    assert running.stdout is not None
    assert running.stderr is not None
    assert json.loads(running.stdout.readline())["s"] is None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait() == 0
    running.stderr.close()


@pytest.mark.parametrize("java", ["absent", "old"])
def test_without_java_spark_is_refused_in_one_line(place: Path, tmp_path: Path, java: str) -> None:
    home = tmp_path / "java"
    if java == "old":
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
        (home / "bin" / "java").chmod(0o755)
    for arguments in (("count", place, "--spark"), ("verify",)):
        running = process(*arguments, JAVA_HOME=str(home))
        out, err = running.communicate()
        assert (running.returncode, out, err.count(b"\n")) == (2, b"", 1), err
        assert b"expected Java 17 or newer" in err
        assert b"JAVA_HOME" in err


def test_without_its_packages_spark_connect_is_refused_in_one_line(place: Path, tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError")  # next to the script, so found first
    script = tmp_path / "script.py"
    script.write_text("from pktable.cli import main\nmain()\n")
    running = process("count", place, "--spark", program=[script], SPARK_REMOTE="sc://127.0.0.1")
    out, err = running.communicate()
    assert (running.returncode, out, err.count(b"\n")) == (2, b"", 1), err
    assert b"grpcio" in err
    assert b"pip install 'pyspark[connect]'" in err


@pytest.mark.spark
def test_spark_reads_what_this_process_reads(filled: Path, cli: Run) -> None:
    columns = "id,s,m,z,d,y,f,e,b,l,r,o"  # Spark has no nanoseconds
    here = by_id(cli("read", filled, "--format", "jsonl", "--columns", columns)[1])
    on_spark = by_id(cli("read", filled, "--format", "jsonl", "--columns", columns, "--spark")[1])
    assert on_spark == here
    assert not math.isnan(here[0]["f"])


@pytest.mark.spark
@covers("WH-10", "WH-13")
def test_sql_by_spark_carries_out_statements(tmp_path: Path, cli: Run) -> None:
    Warehouse(tmp_path).create_database("shop")

    def sql(statement: str, *more: str) -> tuple[int, str, str]:
        return cli("sql", statement, "--warehouse", tmp_path, "--spark", "--format", "csv", *more)

    code, out, _ = sql("CREATE TABLE shop.t (id BIGINT, n INT) TBLPROPERTIES ('primary-key' = 'id')")
    assert (code, out) == (0, "")
    code, out, _ = sql("INSERT INTO t VALUES (1, 10), (2, 20)", "--database", "shop")
    assert (code, out.partition(",")[0]) == (0, "num_affected_rows")
    code, out, _ = sql("SELECT n, id FROM t ORDER BY id DESC", "--database", "shop")
    assert (code, out) == (0, "n,id\n20,2\n10,1\n")
    for statement, message in (
        ("SELECT * FROM shop.tt", "did you mean t"),
        ("SELECT nosuch FROM shop.t", "line 1 pos 7\n"),
        ("SELECT raise_error('asked to fail') FROM shop.t", "asked to fail"),
    ):
        code, out, err = sql(statement)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err


@covers("WH-28")
def test_columns_of_one_name_are_no_object(tmp_path: Path, cli: Run) -> None:
    Warehouse(tmp_path).create_database("shop")
    table = Warehouse(tmp_path).create_table("shop.t", "id INT", primary_key="id")
    table.upsert([{"id": 7}])
    asked = ("sql", "SELECT a.id, b.id FROM shop.t a JOIN shop.t b ON a.id = b.id", "--warehouse", tmp_path)
    code, out, err = cli(*asked, "--format", "jsonl")
    assert (code, out) == (2, "")
    assert "2 columns are named id; name them apart by AS, or write csv" in err
    assert cli(*asked, "--format", "csv")[:2] == (0, "id,id\n7,7\n")
