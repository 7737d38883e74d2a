"""Arguments of a wrong kind are refused in one line that names them, before anything is written."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
from pktable import CommitId, HudiTable, InvalidRequestError, Table
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers

ROW = {"id": 1, "v": "a"}
DAY = datetime.timedelta(days=1)
A_PATH = "path: expected the directory or URI of a table, found "
A_COMMIT = "commit_id: expected "
A_TIME = "older_than: expected a datetime, ISO text or milliseconds since 1970, found "
NO_TIME = "expected a datetime, ISO text or milliseconds since 1970, found NaT"
NO_NAMES: tuple[Any, ...] = (0, False, pc.field("v"))
A_SNAPSHOT = "snapshot: expected an integer, found "

FLAGS: tuple[tuple[Callable[..., object], str], ...] = (
    (Table.scan, "fresh"),
    (Table.count, "fresh"),
    (Table.compact, "full"),
    (Table.plan_compaction, "full"),
    (Table.stage_compaction, "full"),
    (Table.stage_write, "write_only"),
    (Table.expire_snapshots, "dry_run"),
    (Table.remove_orphans, "dry_run"),
    (Table.check, "reads_rows"),
)


def called(call: Callable[..., object], name: str, table: Table) -> None:
    """Call a method of a table with each of several values that are no boolean; raise if one is taken."""
    needed: dict[str, Any] = {}
    if call is Table.expire_snapshots:
        needed = {"retain_last": 1}
    elif call is Table.stage_write:
        needed = {"rows": [ROW], "change": ChangeKind()}
    wrong: list[Any] = ["false", "", 0, 1, []]
    for value in wrong:
        with pytest.raises(
            InvalidRequestError, match=re.escape(f"{name}: expected True or False, found {value!r}")
        ):
            call(table, **needed, **{name: value})
    call(table, **needed, **{name: "no"})


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "commit_id as text": (lambda t: t.upsert([ROW], commit_id="nightly"), A_COMMIT),
    "a number as text": (lambda t: t.upsert([ROW], commit_id=CommitId("nightly", "7")), A_COMMIT),  # type: ignore[arg-type]
    "a number too great": (lambda t: t.upsert([ROW], commit_id=CommitId("nightly", 1 << 63)), A_COMMIT),
    "a user without a name": (
        lambda t: t.upsert([ROW], commit_id=CommitId("", 1)),
        f"{A_COMMIT}a text that is not empty",
    ),
    "a user with half a character": (lambda t: t.upsert([ROW], commit_id=CommitId("\ud800", 1)), A_COMMIT),
    "a user that is a number": (lambda t: t.delete(where="true", commit_id=CommitId(5, 5)), A_COMMIT),  # type: ignore[arg-type]
    "update": (lambda t: t.update({"v": "'b'"}, commit_id=("nightly", 7)), A_COMMIT),
    "merge": (lambda t: t.merge([ROW], "id").when_matched_delete().execute(commit_id=7), A_COMMIT),
    "what a merge compares": (
        lambda t: t.merge([ROW], on=5),
        "on: expected a condition, a column or several, found 5",
    ),
    "aliases that are equal": (
        lambda t: t.merge([ROW], on="id", source_alias="Target"),
        "merge: expected two aliases that differ, found 'target' for both",
    ),
    "an alias that is no text": (
        lambda t: t.merge([ROW], on="id", source_alias=5),
        "merge: expected aliases that are text, found ('target', 5)",
    ),
    "names that a merge compares": (
        lambda t: t.merge([ROW], on=[5]),
        "on: expected columns of target and source",
    ),
    "overwrite": (lambda t: t.overwrite([], commit_id=7), A_COMMIT),
    "a snapshot as text": (lambda t: t.rollback(snapshot="1"), A_SNAPSHOT),
    "a tag that is a number": (lambda t: t.rollback(tag=1), "tag: expected a name, found 1"),
    "the snapshot of a tag": (lambda t: t.create_tag("a", snapshot="1"), A_SNAPSHOT),
    "the snapshot of files": (lambda t: t.files(snapshot="1"), A_SNAPSHOT),
    "a span of time": (lambda t: t.expire_snapshots(retain_last=1, older_than=DAY), A_TIME),
    "an age": (lambda t: t.remove_orphans(older_than=1.5), A_TIME),
    "a timestamp": (lambda t: t.count(timestamp=DAY), "timestamp: expected a datetime, "),
    "no time": (lambda t: t.count(timestamp=pd.NaT), f"timestamp: {NO_TIME}"),
    "no time of metadata": (lambda t: t.metadata("files", timestamp=pd.NaT), f"timestamp: {NO_TIME}"),
    "no time of an expiry": (
        lambda t: t.expire_snapshots(retain_last=1, older_than=pd.NaT),
        f"older_than: {NO_TIME}",
    ),
    "no age": (lambda t: t.remove_orphans(older_than=pd.NaT), f"older_than: {NO_TIME}"),
    "no snapshot": (lambda t: t.effect(None), f"{A_SNAPSHOT}None"),
    "no next snapshot": (
        lambda t: t.set_consumer("c", next_snapshot=None),
        "next_snapshot: expected an integer, found None",
    ),
    "metadata of an expression": (lambda t: t.metadata(pc.field("files")), "metadata: expected one of "),
    "an option without a name": (
        lambda t: t.alter(set_options={1: 2}),
        "option: expected text of whole characters, found 1",
    ),
    **{
        f"{value!r} to {name}": (partial(Table.alter, **{name: value}), f"{name}: expected a column name or ")
        for name in ("drop", "nullable", "reset_options")
        for value in (*NO_NAMES, {})
    },
    **{
        f"{value!r} to set_options": (partial(Table.alter, set_options=value), "options: expected a dict of ")
        for value in (*NO_NAMES, [], "")
    },
    "a limit": (lambda t: t.count(limit="3"), "limit: expected an integer from 0 to 2147483647, found '3'"),
    **{
        f"{name} of {call.__name__}": (partial(called, call, name), f"{name}: expected True or False, found ")
        for call, name in FLAGS
    },
    "no path": (lambda t: Table.open(None), A_PATH),  # type: ignore[arg-type]
    "an empty path": (lambda t: Table.create("", "id INT", primary_key="id"), A_PATH),
    "options": (
        lambda t: Table.create(f"{t.path}2", "id INT", primary_key="id", options=["bucket"]),  # type: ignore[arg-type]
        "options: expected a dict of names and values, found ",
    ),
    "a session": (
        lambda t: Table.open(t.path, spark="local[2]"),
        "spark: expected a SparkSession, found 'local",
    ),
    "columns": (
        lambda t: Table.create(f"{t.path}2", "id BIGNT", primary_key="id"),
        "columns 'id BIGNT': expected a type, found 'BIGNT'",
    ),
    "no columns": (
        lambda t: Table.create(f"{t.path}2", "", primary_key="id"),
        "columns '': expected a name, found the end",
    ),
}


def files_of(table: Table) -> list[str]:
    return sorted(str(file) for file in Path(table.path).parent.rglob("*") if file.is_file())


@covers("CMT-65")
@pytest.mark.parametrize("what", CALLS)
def test_an_argument_of_a_wrong_kind_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.chdir(tmp_path)  # of an empty path
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    table.upsert([ROW])
    before = files_of(table)
    call, message = CALLS[what]
    with pytest.raises(InvalidRequestError) as refused:
        call(table)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert files_of(table) == before


def test_flags_of_a_hudi_table_are_booleans(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", "id STRING", key="id")
    table.upsert([{"id": "a"}])
    not_a_flag: Any = "no"
    with pytest.raises(InvalidRequestError, match=r"^read_optimized: expected True or False"):
        table.count(read_optimized=not_a_flag)
    with pytest.raises(InvalidRequestError, match=r"^reads_rows: expected True or False"):
        table.check(reads_rows=not_a_flag)


@covers("RD-10")
def test_a_flag_may_be_a_boolean_of_numpy(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    table.upsert([ROW])
    flag: Any = np.bool_(True)
    assert table.count(fresh=flag) == 1


@covers("RD-10")
def test_a_snapshot_may_be_an_integer_of_numpy(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    table.upsert([ROW])
    assert table.count(snapshot=np.int64(1)) == 1
    table.create_tag("a", snapshot=np.int64(1))
    assert table.tags()["a"].id == 1


def test_an_option_may_be_a_boolean(tmp_path: Path) -> None:
    options: Any = {"deletion-vectors.enabled": True, "bucket": 2}
    table = Table.create(tmp_path / "t", "id BIGINT", primary_key="id", options=options)
    assert table.options == {"deletion-vectors.enabled": "true", "bucket": "2"}


def test_a_message_about_a_whole_condition_quotes_it_once(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    for where in ("id = 'a'", "id = 'a' OR id = 1"):
        with pytest.raises(InvalidRequestError) as refused:
            table.count(where=where)
        assert str(refused.value).count("id = 'a'") == 1 + (" OR " in where)


def test_scans_merges_and_reports_print_what_they_are(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    table.upsert([ROW])
    assert repr(table.scan()) == f"<Scan of {tmp_path}/t: all rows>"
    scan = table.scan(snapshot=1, where="id > 1", columns="id", limit=2)
    assert repr(scan) == f"<Scan of {tmp_path}/t: snapshot=1, where='id > 1', columns=['id'], limit=2>"
    merge = table.merge([ROW], on="id").when_matched_delete()
    assert repr(merge) == f"<MergeBuilder of {tmp_path}/t: 1 clauses, not executed>"
    assert str(table.check()) == "clean; checked: 1 snapshot, 1 bucket, 1 data file, 1 row"
