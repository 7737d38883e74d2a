"""Reads are refused where an option asks for other rows; a caller who knows better reads nevertheless."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pktable import InvalidRequestError, Table, UnsupportedOptionError
from pktable.cli import run
from pktable.format.metadata.schema import encode_schema
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.table.foreign_tables import as_orc, rewritten

ROWS = [{"k": 1, "v": 10}, {"k": 2, "v": 20}]


def with_options(path: Path, **options: str) -> Table:
    """Return the table at ``path`` under a new schema, which has ``options``: ``_`` is ``-``, ``__`` a dot."""
    schema = Table.open(path).schema
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    later = replace(schema, id=schema.id + 1, options={**schema.options, **given})
    (path / "schema" / f"schema-{later.id}").write_bytes(encode_schema(later))
    return Table.open(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of one file, which no read has to merge."""
    path = tmp_path / "t"
    Table.create(path, "k INT, v INT", primary_key=["k"], options={"write-only": "true"}).upsert(ROWS)
    return path


@covers("TBL-31")
@pytest.mark.parametrize(
    "option",
    ["sequence.snapshot-ordering", "fields.v.nested-sequence-field", "fields.v.nested-key-null-strategy"],
)
def test_a_read_is_refused_where_it_would_merge_otherwise(path: Path, option: str) -> None:
    value = "true" if option.startswith("sequence") else "ignore"
    table = with_options(path, **{option: value})
    assert table.to_arrow().to_pylist() == ROWS
    assert table.count(fresh=True) == 2
    with pytest.raises(UnsupportedOptionError, match=option):
        table.upsert(ROWS)
    # Somebody else writes a second file, and now records of a key are in two.
    whole = path / "schema/schema-1"
    kept = whole.read_bytes()
    whole.unlink()
    Table.open(path).upsert([{"k": 1, "v": 11}])
    whole.write_bytes(kept)
    for read in (
        Table.open(path).to_arrow,
        Table.open(path).count,
        Table.open(path).scan(where="k = 1").to_arrow,
    ):
        with pytest.raises(UnsupportedOptionError, match=f"option {option}='{value}'"):
            read()
    assert Table.open(path, ignore_options=option).count() == 2


@covers("TBL-31", "TBL-34")
def test_a_merge_by_an_engine_that_nobody_knows_is_refused_whatever_a_caller_knows(path: Path) -> None:
    Table.open(path).upsert([{"k": 1, "v": 11}])
    with_options(path, merge_engine="of-tomorrow")
    refused = "option merge-engine='of-tomorrow' is not supported: expected deduplicate or partial-update or"
    for read in ("to_arrow", "count"):
        with pytest.raises(UnsupportedOptionError, match=refused):
            getattr(Table.open(path, ignore_options="merge-engine"), read)()


@covers("TBL-32")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("record-level.expire-time", "1 d"), ("table-read.sequence-number.enabled", "true"), ("rowkind.field", "v"),
        ("postpone.merge-on-read", "true"), ("batch-scan-mode", "compact"), ("sink.parallelism", "4"),
    ],
)  # fmt: skip
def test_a_read_is_not_refused_for_what_it_does_not_depend_on(path: Path, option: str, value: str) -> None:
    assert with_options(path, **{option: value}).to_arrow().to_pylist() == ROWS


@covers("TBL-32")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("snapshot.ignore-empty-commit", "true"), ("file.compression", "lz4"), ("commit.force-compact", "false"),
        ("scan.mode", "from-snapshot"), ("log.scan", "latest-delta"), ("incremental-between", "1,2"),
        ("fields.v.default-value", "7"), ("fields.v.stats-mode", "none"), ("pk-btree.index.columns", "v"),
    ],
)  # fmt: skip
def test_a_write_is_not_refused_for_what_only_others_depend_on(path: Path, option: str, value: str) -> None:
    table = with_options(path, **{option: value})
    table.upsert([{"k": 3, "v": 30}])
    table.compact(full=True)
    assert Table.open(path, ignore_options=[option]).count() == 3


@covers("TBL-30")
def test_a_read_of_changes_says_itself_which_snapshots_it_reads(path: Path) -> None:
    table = with_options(path, scan__mode="from-snapshot", incremental_between="1,2")
    assert table.changes(0).to_arrow().num_rows == 2
    with pytest.raises(UnsupportedOptionError, match=r"scan.mode='from-snapshot'"):
        table.to_arrow()
    table = with_options(path, type="object-table")
    with pytest.raises(
        UnsupportedOptionError, match=r"type='object-table'.*expected materialized-table or table"
    ):
        table.changes(0).to_arrow()


@covers("TBL-33")
def test_a_read_warns_once_of_an_option_that_nobody_knows(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = with_options(path, of__tomorrow="1", of__no_release="2", sink__parallelism="4")
    with caplog.at_level(logging.WARNING, "pktable"):
        assert table.to_arrow().num_rows == table.count() == table.changes(0).to_arrow().num_rows == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: option '{option}': no release that is known has this option, and it is ignored"
        for option in ("of.tomorrow", "of.no-release")
    ]
    caplog.clear()
    Table.open(path).count(snapshot=1)
    assert len(caplog.records) == 2
    caplog.clear()
    assert Table.open(path, ignore_options=["of.tomorrow", "of.no-release"]).count() == 2
    assert not caplog.records
    with pytest.raises(UnsupportedOptionError, match=r"of.tomorrow='1'"):
        table.upsert(ROWS)


@covers("TBL-33", "TBL-30")
def test_a_check_notes_what_nobody_knows_and_what_reads_refuse(path: Path) -> None:
    with_options(path, of__tomorrow="1", fields__v__of_tomorrow="2", scan__version="3")
    assert [(one.clause, one.severity, one.what, one.found) for one in check(path).findings] == [
        ("TBL-30", "note", "option fields.v.of-tomorrow", "'2', because of which reads are refused"),
        ("TBL-30", "note", "option scan.version", "'3', because of which reads are refused"),
        ("TBL-33", "note", "option of.tomorrow", "'1', which is ignored"),
    ]


@covers("TBL-34", "TBL-35")
def test_a_caller_who_knows_that_no_row_depends_on_an_option_reads(path: Path) -> None:
    table = with_options(path, fields__v__of_tomorrow="1")
    for read in (table.to_arrow, table.count, lambda: table.changes(0).to_arrow()):
        with pytest.raises(UnsupportedOptionError, match=r"fields.v.of-tomorrow='1'.*ignore_options"):
            read()
    table = Table.open(path, ignore_options=["fields.v.of-tomorrow"])
    for same in (table, pickle.loads(pickle.dumps(table))):
        assert same.to_arrow().to_pylist() == ROWS
        assert same.changes(0).to_arrow().num_rows == 2
    assert pickle.loads(pickle.dumps(table.catalog)).context.options.unusable == ()
    with pytest.raises(UnsupportedOptionError, match=r"fields.v.of-tomorrow"):
        table.upsert(ROWS)
    with pytest.raises(UnsupportedOptionError, match=r"fields.v.of-tomorrow"):
        table.update({"v": "v + 1"})


@covers("TBL-35")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (5, "found 5"),
        ([""], r"found \[''\]"),
        ([1], r"found \[1\]"),
        (["bucket"], "that reads refuse, found bucket"),
    ],
)
def test_what_cannot_be_ignored_is_refused(path: Path, given: object, found: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^ignore_options: expected .*{found}$"):
        Table.open(path, ignore_options=given)  # type: ignore[arg-type]


@covers("TBL-35", "TBL-33")
def test_the_command_line_ignores_the_options_that_its_user_names(
    path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with_options(path, fields__v__of_tomorrow="1", type="x", of__tomorrow="2")
    ignoring = ["--ignore-option", "fields.v.of-tomorrow", "--ignore-option", "type"]
    for command in (["read"], ["count"], ["changes", "--start", "0"]):
        assert run([*command, str(path)]) == 2
        assert "fields.v.of-tomorrow" in capsys.readouterr().err
        assert run([*command, str(path), *ignoring]) == 0
        assert "of.tomorrow" in caplog.text
        caplog.clear()
        assert run([*command, str(path), *ignoring, "--quiet"]) == 0
        assert not caplog.text


@covers("TBL-37")
def test_instants_of_orc_files_are_those_of_a_reader_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "k INT, z TIMESTAMP(6) WITH LOCAL TIME ZONE", primary_key=["k"])
    moment = dt.datetime(1969, 7, 20, 20, 17, 40, 5, tzinfo=dt.timezone.utc)
    table.upsert([{"k": 1, "z": moment}, {"k": 2, "z": None}])
    rewritten(path, as_orc)
    legacy = "orc.timestamp-ltz.legacy.type"
    for options in ({}, {legacy: "false"}, {legacy: "true"}):
        assert with_options(path, **options).to_arrow().column("z").to_pylist() == [moment, None]
