"""A check of a Hudi table finds every kind of damage, and nothing in sound tables."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pktable import HudiTable
from pktable.cli import run
from pktable_hudi.format.bloom import filter_of
from pktable_hudi.format.key_summary import (
    GREATEST,
    LEAST,
    KeyBatch,
    KeyCollation,
    KeySummary,
    footer_of_summary,
    summary_of_footer,
)
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock
from pktable_spec.covers import covers

from model_tests.hudi.made_tables import MadeTable, at_positions, instant, row
from model_tests.hudi.real_tables import each_hudi_table, table_named, unpacked
from model_tests.hudi.test_real_rows import expected_of
from model_tests.real_data import needs_hudi

Damage = Callable[[MadeTable], object]


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    found = MadeTable(tmp_path / "t")
    base = found.base(10, [row("a", 1, 10), row("b", 1, 10)])
    found.commit(10, wrote=[base.name])
    log = found.log(20, found.data(20, [row("b", 2, 20)], header=at_positions(10, 1)))
    found.commit(20, wrote=[log.name])
    return found


@each_hudi_table()
def test_real_tables_are_sound(archive: Path) -> None:
    report = HudiTable.open(unpacked(archive)).check()
    assert report.findings == []
    assert report.files
    assert report.snapshots


def base_of(table: MadeTable) -> Path:
    return table.root / f"g_0-0-0_{instant(10)}.parquet"


def log_of(table: MadeTable) -> Path:
    return table.root / f".g_{instant(20)}.log.1_0-0-0"


def commit_of(table: MadeTable) -> Path:
    return table.timeline / f"{instant(10)}_{instant(10)}.deltacommit"


def with_footer(table: MadeTable) -> None:
    """Put a footer entry at the end of the block, as RFC-06 wanted it."""
    data = log_of(table).read_bytes()
    body = data[14:-12] + struct.pack(">iii", 1, 0, 3) + b"yes"
    lengths = (struct.pack(">q", len(body) + more) for more in (8, 14))
    log_of(table).write_bytes(data[:6] + next(lengths) + body + next(lengths))


def with_summary(table: MadeTable, keys: str, low: str = "a", high: str = "b") -> None:
    """Give the base file a bloom filter of ``keys`` and a key range."""
    made = filter_of([key.encode() for key in keys], sized_for=9, false_positives=0.001)
    rows = pq.read_table(base_of(table))
    entries = footer_of_summary(KeySummary(low, high, KeyCollation.JAVA, made))
    pq.write_table(rows.replace_schema_metadata(entries), base_of(table))


def rewrite(table: MadeTable, change: Callable[[bytes], bytes]) -> None:
    log_of(table).write_bytes(change(log_of(table).read_bytes()))


def with_content(table: MadeTable, kind: BlockKind, content: bytes) -> None:
    table.log(20, LogBlock(kind, table.data(20, []).header, content))


def with_positions(table: MadeTable, header: dict[HeaderKey, bytes]) -> None:
    table.log(20, table.data(20, [row("b", 2, 2)], header=header))


def with_link(table: MadeTable) -> None:
    log_of(table).unlink()
    os.symlink("/etc/hostname", log_of(table))


FAULTS: list[tuple[str, Damage]] = [
    ("LOG-5", with_footer),
    ("LOG-2", lambda table: rewrite(table, lambda data: data[:-1])),
    ("LOG-2", lambda table: rewrite(table, lambda data: data + b"x")),
    ("LOG-2", lambda table: rewrite(table, lambda data: data[:16])),
    ("LOG-1", lambda table: rewrite(table, lambda data: b"x" + data)),
    ("LOG-7", lambda table: with_content(table, BlockKind.AVRO, b"\0\0\0\3\0\0\0\1\0\0\0\1\7")),
    ("LOG-9", lambda table: with_content(table, BlockKind.AVRO, b"\0\0\0\4\0\0\0\0")),
    ("LOG-10", lambda table: with_content(table, BlockKind.DELETE, b"\0\0\0\3\0\0\0\x09")),
    ("LOG-35", lambda table: with_content(table, BlockKind.PARQUET, b"PAR1")),
    ("LOG-35", lambda table: with_content(table, BlockKind.CDC, b"")),
    ("LOG-7", lambda table: with_positions(table, {HeaderKey.POSITIONS: b"?"})),
    ("LOG-12", lambda table: with_positions(table, at_positions(10, 0, 1))),
    ("LOG-32", lambda table: with_positions(table, at_positions(10, 0))),
    ("LOG-32", lambda table: with_positions(table, at_positions(10, 9))),
    ("LOG-14", lambda table: with_summary(table, "a")),
    ("LOG-16", lambda table: with_summary(table, "ab", "b")),
    ("LOG-16", lambda table: with_summary(table, "ab", "a", "a")),
    ("LOG-37", lambda table: log_of(table).unlink()),
    ("LOG-37", lambda table: base_of(table).unlink()),
    ("LOG-35", lambda table: base_of(table).write_bytes(b"PAR1")),
    ("LOG-20", lambda table: commit_of(table).write_text("{")),
    ("LOG-21", lambda table: commit_of(table).write_text('{"extraMetadata": {"schema": "{}"}}')),
    ("SAFE-2", with_link),
]


@covers("LOG-2", "LOG-5", "LOG-6", "LOG-14", "LOG-16", "LOG-32", "LOG-37")
@pytest.mark.parametrize(("clause", "damage"), FAULTS)
def test_a_fault_is_found_and_nothing_else(table: MadeTable, clause: str, damage: Damage) -> None:
    assert table.open().check().findings == []
    damage(table)
    report = table.open().check()
    assert {(one.clause, one.severity) for one in report.findings} == {(clause, "error")}, report.findings
    assert report.errors == len(report.findings)


def test_a_torn_block_of_a_write_that_died_is_a_note(table: MadeTable) -> None:
    path = table.log(30, table.data(30, [row("b", 3, 30)]))
    path.write_bytes(path.read_bytes()[:-1])
    table.begin(30)
    (finding,) = table.open().check().findings
    assert (finding.clause, finding.severity) == ("LOG-2", "note")


@covers("LOG-37")
def test_files_that_were_cleaned_or_replaced_are_not_missed(table: MadeTable) -> None:
    newer = table.base(30, [row("a", 1, 10), row("b", 2, 20)])
    table.commit(30, action="commit", wrote=[newer.name])
    log_of(table).unlink()
    base_of(table).unlink()
    assert table.open().check().findings == []
    table.base(40, [row("a", 1, 10)], "h")
    table.commit(40, action="replacecommit", replaced=["g"])
    newer.unlink()
    assert table.open().check().findings == []


def admitted(summary: KeySummary, *keys: str) -> set[str]:
    return {keys[i] for i in summary.among(KeyBatch(keys))}


@covers("LOG-16")
def test_ranges_of_base_files_are_in_the_order_of_java() -> None:
    first, second = "\U0001f600", "\uff5e"  # in UTF-16; in UTF-8 it is the other way round
    java = KeySummary(first, second, KeyCollation.JAVA, None)
    assert admitted(java, first, second, "a") == {first, second}
    assert admitted(KeySummary(second, first, KeyCollation.BYTES, None), first, second) == {first, second}
    assert admitted(KeySummary(first, second, KeyCollation.BYTES, None), first, second) == set()


def test_a_summary_is_read_back_under_the_names_of_hudi() -> None:
    made = filter_of([b"a", b"b"], sized_for=9, false_positives=0.001)
    entries = footer_of_summary(KeySummary("a", "b", KeyCollation.JAVA, made))
    assert (entries[LEAST], entries[GREATEST]) == (b"a", b"b")
    again = summary_of_footer(entries, at="file")
    assert again is not None
    assert admitted(again, "a", "b", "aa", "c") == {"a", "b"}
    assert summary_of_footer({}, at="file") is None


# The command line


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: object) -> tuple[int, str, str]:
        code = run([str(one) for one in arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return command


Run = Callable[..., tuple[int, str, str]]


def test_commands_take_hudi_tables(table: MadeTable, cli: Run) -> None:
    def read(*options: object) -> str:
        return cli("read", table.root, "--columns", "k,v", *options, "--format", "csv")[1]

    assert read() == "k,v\na,10\nb,20\n"
    assert read("--where", "k = 'b'", "--instant", instant(10)) == "k,v\nb,10\n"
    assert read("--read-optimized", "--limit", 1) == "k,v\na,10\n"
    assert cli("count", table.root)[:2] == (0, "2\n")
    assert cli("count", table.root, "--instant", instant(10), "--read-optimized")[:2] == (0, "2\n")
    assert cli("count", table.root, "--where", "k = 'b'")[:2] == (0, "1\n")
    assert "column,v,INT\nprimary key,k,\n" in cli("describe", table.root, "--format", "csv")[1]
    history = [json.loads(line) for line in cli("history", table.root, "--format", "jsonl")[1].splitlines()]
    assert [(one["instant"], one["files"]) for one in history] == [(instant(10), 1), (instant(20), 1)]
    files = [json.loads(line) for line in cli("files", table.root, "--format", "jsonl")[1].splitlines()]
    assert [one["kind"] for one in files] == ["base", "log"]
    code, found, _ = cli("check", table.root)
    assert (code, found.split(";")[0]) == (0, "clean")
    with_footer(table)
    code, found, _ = cli("check", table.root)
    assert code == 1
    assert "LOG-5" in found
    assert cli("check", table.root, "--metadata-only")[0] == 0


def test_options_of_one_kind_of_table_are_refused_for_the_other(
    table: MadeTable, tmp_path: Path, cli: Run
) -> None:
    for option in (("--snapshot", 1), ("--fresh",), ("--tag", "x"), ("--timestamp", "2026-01-01")):
        code, _, error = cli("read", table.root, *option)
        assert (code, option[0] in error) == (2, True)
    assert cli("check", table.root, "--repair")[0] == 2
    other = tmp_path / "paimon"
    assert cli("create", other, "--columns", "k INT", "--primary-key", "k")[0] == 0
    for command in ("read", "files", "count"):
        code, _, error = cli(command, other, "--instant", instant(1))
        assert (code, "--instant" in error) == (2, True)


@needs_hudi
def test_the_command_line_prints_the_rows_of_a_real_table(cli: Run) -> None:
    known = expected_of("v9_groups")["steps"][-1]["snapshot"]
    columns = ",".join(known["columns"])
    code, found, _ = cli("read", table_named("v9_groups"), "--columns", columns, "--format", "jsonl")
    assert code == 0
    rows = [list(json.loads(line).values()) for line in found.splitlines()]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, known["rows"]))
