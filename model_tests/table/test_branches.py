"""Branches: made, read, written, fast-forwarded and removed, while others remove files."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pktable import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidRequestError,
    NotATableError,
    SnapshotNotFoundError,
    Table,
)
from pktable.catalog import holds
from pktable.catalog.consumers import Consumers
from pktable.catalog.fast_forward import FastForward
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import Rows, expected_of, expected_rows, path_of, rows_of
from model_tests.commit.hooks import Hooked, Killed
from model_tests.preempted import preempted
from model_tests.real_data import needs_shared

COLUMNS = "id BIGINT, v STRING"
KINDS = {
    "keys": {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"},
    "append": {"deletion-vectors.enabled": "true", "compaction.min.file-num": "2"},
}
FOR_EVER = 1 << 60
"""A limit that makes every file old."""

Work = Callable[[Table], object]


def write(table: Table, *ids: int) -> None:
    put = table.upsert if table.schema.primary_keys else table.append
    for one in ids:
        put(pa.table({"id": pa.array([one], pa.int64()), "v": [f"v{one}"]}))


def ids(table: Table, **arguments: Any) -> list[int]:
    return sorted(table.to_arrow(fresh=True, **arguments)["id"].to_pylist())


def snapshots(table: Table) -> list[int]:
    return [one.id for one in table.snapshots()]


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def made(path: Path, kind: str, *written: int) -> Table:
    table = Table.create(
        path,
        COLUMNS,
        primary_key="id" if kind == "keys" else None,
        options={**KINDS[kind], "write-only": "true"},
    )
    write(table, *written)
    return table


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return made(tmp_path / "t", request.param, 1, 2, 3)


def expect_sound(path: str | Path, *, checked: bool = True) -> None:
    """Each snapshot and tag of each branch can be read, and its check finds no error."""
    main = Table.open(path)
    for table in (main, *map(main.branch, main.branches())):
        for one in snapshots(table):
            ids(table, snapshot=one)
        for tag in table.tags():
            ids(table, tag=tag)
        found = table.check().findings if checked else ()
        assert not [str(one) for one in found if one.severity == "error"]


@covers("BRN-1", "BRN-2")
def test_a_branch_has_rows_and_snapshots_of_its_own(table: Table) -> None:
    table.create_tag("two", snapshot=2)
    table.create_branch("newest")
    table.create_branch("tagged", tag="two")
    table.create_branch("first", snapshot=1)
    table.create_branch("empty", empty=True)
    found = table.branches()
    assert {name: one and one.id for name, one in found.items()} == {
        "newest": 3,
        "tagged": 2,
        "first": 1,
        "empty": None,
    }
    for name, before in (("newest", [1, 2, 3]), ("tagged", [1, 2]), ("first", [1]), ("empty", [])):
        branch = Table.open(table.path, branch=name)
        assert ids(branch) == before
        write(branch, 7, 8)
        branch.delete(where="id = 1")
        branch.compact(full=True)
        expected = sorted({*before, 7, 8} - {1})
        assert sorted(branch.to_arrow()["id"].to_pylist()) == expected
        assert ids(pickle.loads(pickle.dumps(branch))) == expected
        for part in (branch.catalog, branch.catalog.context):
            sent = pickle.loads(pickle.dumps(part))
            assert getattr(sent, "context", sent).paths == branch.catalog.context.paths
        assert ids(Table.open(f"{table.path}$branch_{name}")) == expected
        first = snapshots(branch)[0]
        assert branch.changes(first, first + 1).to_arrow().num_rows == 1
        assert f"branch {name}" in repr(branch)
    assert ids(table) == [1, 2, 3]
    assert ids(table.branch("newest").branch("main")) == [1, 2, 3]
    expect_sound(table.path)
    assert not [one for name in ("main", *found) for one in table.branch(name).check().findings]
    with pytest.raises(
        InvalidRequestError, match=r"'none'.*not found; there are empty, first, newest, tagged"
    ):
        Table.open(table.path, branch="none")
    with pytest.raises(NotATableError):
        Table.open(Path(table.path).parent / "no", branch="newest")


@covers("BRN-1")
def test_tags_consumers_schemas_and_fences_of_a_branch_are_its_own(table: Table) -> None:
    table.create_branch("b")
    branch = table.branch("b")
    branch.alter(add="n INT", comment="ours")
    write_more = branch.upsert if branch.schema.primary_keys else branch.append
    write_more([{"id": 4, "v": "v4", "n": 4}])
    branch.create_tag("four")
    branch.set_consumer("reader", next_snapshot=5)
    assert branch.rollback(snapshot=4) == []
    branch.delete_tag("four")
    branch.delete_consumer("reader")
    assert branch.rollback(snapshot=3) == [4]
    write_more([{"id": 5, "v": "v5", "n": 5}])
    assert table.columns == {"id": branch.columns["id"], "v": "STRING"}
    assert (table.tags(), table.consumers(), snapshots(table)) == ({}, {}, [1, 2, 3])
    write(table, 6)  # its schema has not changed
    assert not (Path(table.path) / "fence").exists()
    assert (ids(table), ids(branch)) == ([1, 2, 3, 6], [1, 2, 3, 5])
    assert branch.repair() == ["EARLIEST: written as 3, found none"]  # Paimon's branches have none, too
    expect_sound(table.path)


@covers("BRN-1", "BRN-5")
def test_the_files_of_a_branch_lie_where_paimon_has_them(table: Table) -> None:
    root = Path(table.path)
    table.expire_snapshots(retain_last=1)  # the snapshots know a fence from here on
    write(table, 4)
    table.create_tag("four")
    table.create_branch("b", tag="four")
    branch = root / "branch" / "branch-b"
    names = {"claim", "schema/schema-0", "snapshot/snapshot-4", "tag/tag-four"}
    assert set(files(branch)) == names
    assert (branch / "schema/schema-0").read_bytes() == (root / "schema/schema-0").read_bytes()
    for name in ("snapshot/snapshot-4", "tag/tag-four"):
        ours, theirs = (json.loads((at / name).read_text()) for at in (branch, root))
        assert theirs.pop("pktable.fence") == 1
        assert "pktable.fence" not in ours
        assert ours.pop("pktable.crc32") != theirs.pop("pktable.crc32")
        assert ours == theirs
    shared = {name.partition("/")[0] for name in files(root)} - {"branch"}
    write(table.branch("b"), 5)
    assert {name.partition("/")[0] for name in files(root)} - {"branch"} == shared
    assert {"snapshot/snapshot-5", "snapshot/LATEST"} <= set(files(branch))


@covers("BRN-3")
def test_a_name_that_no_branch_can_have_is_refused_and_nothing_is_written(table: Table) -> None:
    before = files(Path(table.path))
    for name in ("main", "MAIN", "12", "a/b", "", " ", "..", ".hidden", "a b", "ä", 3, None):
        with pytest.raises(InvalidRequestError, match="branch"):
            table.create_branch(name)  # type: ignore[arg-type]
    for name in ("a/b", "", "..", 3):
        with pytest.raises(InvalidRequestError, match="branch"):
            Table.open(table.path, branch=name)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="one of tag, snapshot and empty"):
        table.create_branch("b", tag="t", empty=True)
    with pytest.raises(InvalidRequestError, match="'t'"):
        table.create_branch("b", tag="t")
    with pytest.raises(InvalidRequestError, match="snapshot 9"):
        table.create_branch("b", snapshot=9)
    with pytest.raises(InvalidRequestError, match="create_branch"):
        Table.create(f"{table.path}$branch_b", COLUMNS, primary_key="id")
    assert files(Path(table.path)) == before
    table.create_branch("b")
    before = files(Path(table.path))
    with pytest.raises(InvalidRequestError, match="exists already"):
        table.create_branch("b", empty=True)
    with pytest.raises(InvalidRequestError, match="'b', which the path names"):
        Table.open(f"{table.path}$branch_b", branch="c")
    assert files(Path(table.path)) == before
    assert ids(Table.open(table.path, branch="Main")) == [1, 2, 3]


@covers("BRN-9")
def test_a_branch_is_deleted_and_its_files_become_orphans(table: Table) -> None:
    table.create_branch("b")
    branch = table.branch("b")
    write(branch, 4)
    for name, match in (("main", "main"), ("none", "not found; there are b")):
        with pytest.raises(InvalidRequestError, match=match):
            table.delete_branch(name)
    with pytest.raises(InvalidRequestError, match="the one that is open"):
        branch.delete_branch("b")
    before = files(Path(table.path))
    table.delete_branch("b")
    assert not list(Path(table.path, "branch").iterdir())
    assert set(before) - set(files(Path(table.path))) == {
        name for name in before if name.startswith("branch")
    }
    assert table.branches() == {}
    with pytest.raises(InvalidRequestError, match="no branches"):
        branch.branch("b")
    assert table.remove_orphans(older_than=FOR_EVER)
    assert (ids(table), table.check().findings) == ([1, 2, 3], [])
    table.create_branch("b", snapshot=2)
    assert ids(table.branch("b")) == [1, 2]


@covers("BRN-9")
def test_a_branch_that_another_reads_is_not_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)
    table.create_branch("b")
    schema = tmp_path / "t/schema/schema-0"
    text = json.loads(schema.read_text())
    text["options"]["scan.fallback-branch"] = "b"
    text.pop("pktable.crc32")
    schema.write_text(json.dumps(text))
    with pytest.raises(InvalidRequestError, match=r"scan\.fallback-branch"):
        Table.open(table.path).delete_branch("b")
    assert list(Table.open(table.path).branches()) == ["b"]


@covers("BRN-7", "CMT-34")
def test_no_expiry_or_clean_up_on_one_branch_removes_what_another_needs(table: Table) -> None:
    table.create_tag("one", snapshot=1)
    table.create_branch("b", tag="one")
    table.create_branch("c")
    everything = [table, table.branch("b"), table.branch("c")]
    everything[1].create_branch("d")
    everything.append(table.branch("d"))
    expected = [[1, 2, 3], [1], [1, 2, 3], [1]]
    for turn in range(2):
        for number, one in enumerate(everything):
            write(one, 10 * turn + number + 4)
            expected[number].append(10 * turn + number + 4)
            one.compact(full=True)
            one.expire_snapshots(retain_last=1)
            one.remove_orphans(older_than=FOR_EVER)
            if turn == 0 and number == 0:
                table.delete_tag("one")
            assert [ids(each) for each in everything] == list(map(sorted, expected))
            expect_sound(table.path)
    for name in ("b", "c", "d"):
        table.delete_branch(name)
    table.remove_orphans(older_than=FOR_EVER)
    assert len(list(Path(table.path).rglob("*.parquet"))) == 1
    assert ids(table) == expected[0]


@covers("BRN-7", "CMT-34")
@pytest.mark.parametrize("damage", ["snapshot", "manifest", "manifest list"])
@pytest.mark.parametrize("where", ["main", "b"])
def test_nothing_is_removed_if_another_branch_cannot_be_read(tmp_path: Path, where: str, damage: str) -> None:
    table = made(tmp_path / "t", "keys", 1, 2)
    table.create_branch("b")
    branch = table.branch("b")
    for one in (table, branch):
        write(one, 3)
        write(one, 4)
    damaged, other = (table, branch) if where == "main" else (branch, table)
    latest = damaged.snapshots()[-1]
    if damage == "snapshot":
        Path(damaged.catalog.context.paths.snapshot(latest.id)).write_text("{")
    else:
        meta = damaged.catalog.manifests.read_list(latest.delta_manifest_list)
        name = latest.delta_manifest_list if damage == "manifest list" else meta[0].file_name
        Path(table.catalog.context.paths.manifest(name)).unlink()
    other = Table.open(table.path, branch=other.catalog.context.paths.branch)
    before = files(tmp_path / "t")
    for work in (
        lambda: other.expire_snapshots(retain_last=1),
        lambda: other.remove_orphans(older_than=FOR_EVER),
    ):
        with pytest.raises(CorruptFileError):
            work()
    assert files(tmp_path / "t") == before
    assert ids(other) == [1, 2, 3, 4]


@covers("CMT-51", "BRN-1")
def test_a_table_is_not_taken_for_a_damaged_one_because_of_its_branches(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys")
    table.create_branch("b")
    branch = table.branch("b")
    write(branch, 1, 2)
    table.create_branch("c", empty=True)
    for name in ("main", "c"):
        assert table.branch(name).snapshots() == []
        assert not table.branch(name).check().findings
    assert table.expire_snapshots(retain_last=1) == []
    assert table.fast_forward("b") == [1, 2]
    assert ids(table) == [1, 2]


@covers("BRN-10", "BRN-5")
def test_a_fast_forward_brings_all_commits_of_a_branch(table: Table) -> None:
    table.expire_snapshots(retain_last=2)
    table.rollback(snapshot=2)  # its fence must not hide what comes from the branch
    clean(table)
    write(table, 3)
    table.create_branch("b")
    branch = table.branch("b")
    write(branch, 4, 5)
    branch.compact(full=True)
    assert table.fast_forward("b") == [4, 5, 6]
    assert (ids(table), snapshots(table)) == ([1, 2, 3, 4, 5], [2, 3, 4, 5, 6])
    assert [ids(table, snapshot=one) for one in (3, 4, 5)] == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert table.fast_forward("b") == []
    write(table, 6)
    assert table.fast_forward("b") == []
    assert branch.consumers() == {}
    assert ids(branch) == [1, 2, 3, 4, 5]
    table.delete_branch("b")
    table.expire_snapshots(retain_last=1)
    left = table.remove_orphans(older_than=FOR_EVER)
    assert all("/fence/removed-" in one.path for one in left)
    assert (ids(table), table.check().findings) == ([1, 2, 3, 4, 5, 6], [])


@covers("BRN-1", "BRN-4")
def test_a_branch_has_the_schemas_that_others_have_put_since_the_table_was_opened(table: Table) -> None:
    other = Table.open(table.path)
    other.alter(add="n INT")
    (other.upsert if other.schema.primary_keys else other.append)([{"id": 4, "v": "v4", "n": 4}])
    table.create_branch("b")
    table.create_branch("c", empty=True)
    assert list(table.branch("b").columns) == list(table.branch("c").columns) == ["id", "v", "n"]
    assert ids(table.branch("b")) == [1, 2, 3, 4]
    other.create_tag("four")
    other.expire_snapshots(retain_last=1)
    write_on = other.upsert if other.schema.primary_keys else other.append
    write_on([{"id": 5, "v": "v5", "n": 5}])
    tag = Path(table.path, "tag", "tag-four")
    text = {**json.loads(tag.read_text()), "tagCreateTime": [2024, 1, 2, 3, 4], "tagTimeRetained": "PT1H"}
    text.pop("pktable.crc32")
    tag.write_text(json.dumps(text))  # as Paimon writes a tag that expires
    other.expire_snapshots(retain_last=1)
    table.create_branch("d", tag="four")
    assert ids(table.branch("d")) == [1, 2, 3, 4]
    root = Path(table.path, "branch", "branch-d")
    assert "tagTimeRetained" in json.loads((root / "tag" / "tag-four").read_text())
    assert "tagTimeRetained" not in json.loads((root / "snapshot" / "snapshot-4").read_text())
    expect_sound(table.path)


@covers("BRN-5", "BRN-11")
def test_a_branch_that_others_have_made_without_our_fields_is_fast_forwarded_to(tmp_path: Path) -> None:
    options = {"full-compaction.delta-commits": "9", "deletion-vectors.enabled": "true"}
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=options)
    write(table, 1, 2)
    table.expire_snapshots(retain_last=1)
    write(table, 3)
    table.create_branch("b")
    path = Path(table.branch("b").catalog.context.paths.snapshot(snapshots(table)[-1]))
    found = json.loads(path.read_text())
    assert "pktable.deltaCommits" in found
    path.write_text(json.dumps({name: one for name, one in found.items() if not name.startswith("pktable.")}))
    write(table.branch("b"), 4)
    assert table.fast_forward("b")
    assert ids(table) == [1, 2, 3, 4]
    expect_sound(tmp_path / "t")


@covers("BRN-10", "BRN-12", "TBL-19")
def test_schemas_and_tags_of_a_branch_go_along(table: Table) -> None:
    table.create_tag("base")
    table.create_branch("b", tag="base")
    branch = table.branch("b")
    branch.alter(add="n INT")
    put = branch.upsert if branch.schema.primary_keys else branch.append
    put([{"id": 4, "v": "v4", "n": 4}])
    branch.create_tag("four")
    put([{"id": 5, "v": "v5", "n": 5}])
    table.delete_tag("base")
    other = Table.open(table.path)
    assert table.fast_forward("b") == [4, 5]
    assert "n" in table.columns
    assert (list(table.tags()), ids(table, tag="four")) == (["four"], [1, 2, 3, 4])
    with pytest.raises(InvalidRequestError, match="schema has changed"):
        write(other, 6)
    table.expire_snapshots(retain_last=1)
    assert table.to_arrow(tag="four", fresh=True).sort_by("id")["n"].to_pylist() == [None, None, None, 4]
    expect_sound(table.path)


@covers("BRN-11", "BRN-12")
def test_a_fast_forward_that_would_lose_something_is_refused(table: Table) -> None:
    def refused(name: str, match: str) -> None:
        before = files(Path(table.path))
        with pytest.raises(InvalidRequestError, match=match):
            table.fast_forward(name)
        after = files(Path(table.path))
        assert {one: data for one, data in after.items() if "/fence/" not in one} == {
            one: data for one, data in before.items() if "/fence/" not in one
        }

    table.create_branch("empty", empty=True)
    refused("empty", "no snapshot")
    write(table.branch("empty"), 1, 2, 3, 4, 5)
    refused("empty", "does not have snapshot 3")  # Paimon would remove all of the table
    refused("none", "not found")
    refused("main", "another than the one that is open")
    table.create_branch("b")
    branch = table.branch("b")
    write(branch, 4)
    table.create_tag("t", snapshot=1)
    branch.create_tag("t")
    refused("b", "tag 't'")
    table.delete_tag("t")
    table.create_branch("short")
    write(table.branch("short"), 4)
    table.branch("short").expire_snapshots(retain_last=1)
    refused("short", "begins with snapshot 4")
    assert table.fast_forward("b") == [4]
    table.create_branch("c")
    write(table.branch("c"), 5)
    table.alter(add="n INT")
    refused("c", "schema has changed")
    table.create_branch("d")
    for one in (table, table.branch("d")):
        put = one.upsert if one.schema.primary_keys else one.append
        put([{"id": 6, "v": "v6", "n": 6}])
    refused("d", "does not have snapshot 5")
    expect_sound(table.path)


# Others at the same time


def expire(table: Table) -> None:
    table.expire_snapshots(retain_last=1)


def clean(table: Table) -> None:
    table.remove_orphans(older_than=FOR_EVER)


def on(branch: str, work: Work) -> Work:
    return lambda table: work(Table.open(table.path, branch=branch))


def make(table: Table) -> None:
    with contextlib.suppress(InvalidRequestError):
        table.create_branch("new", snapshot=2)


def make_from_tag(table: Table) -> None:
    with contextlib.suppress(InvalidRequestError):
        table.create_branch("new", tag="two")


@covers("BRN-6", "BRN-7", "BRN-8", "CMT-29")
@pytest.mark.parametrize("makes", [make, make_from_tag])
@pytest.mark.parametrize("removes", [expire, on("b", expire), lambda table: table.delete_tag("two"), clean])
@pytest.mark.parametrize("first", ["maker", "remover"])
def test_a_branch_that_is_made_during_a_removal_of_files_is_whole(
    tmp_path: Path, makes: Work, removes: Work, first: str
) -> None:
    template = made(tmp_path / "t", "keys", 1, 2)
    template.compact(full=True)
    template.create_tag("two", snapshot=2)
    template.create_branch("b", tag="two")
    write(template.branch("b"), 3)
    template.branch("b").compact(full=True)
    write(template, 4)
    if removes is clean:  # its orphans are those of no running work
        template.expire_snapshots(retain_last=2)
    one, other = (makes, removes) if first == "maker" else (removes, makes)
    seen = set()
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, one, other):
        seen.add("new" in table.branches())
        if "new" in table.branches():
            assert ids(table.branch("new")) == [1, 2]
        assert not [tag for tag in table.tags() if tag != "two"]
        expect_sound(table.path, checked=False)
    assert True in seen or removes is clean


@covers("BRN-8")
def test_an_expiry_finds_what_goes_from_branch_to_branch_in_its_time(tmp_path: Path) -> None:
    """The third branch shares files that the first hands over to a new one, and forgets."""
    template = made(tmp_path / "t", "keys", 1, 2)
    template.compact(full=True)
    for name in ("x", "y"):
        template.create_branch(name)
    template.truncate()
    template.expire_snapshots(retain_last=1)

    def hand_over(table: Table) -> None:
        source = Table.open(table.path, branch="x")
        source.create_branch("z")
        source.truncate()
        source.expire_snapshots(retain_last=1)

    third = template.branch("y")
    third.truncate()
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, on("y", expire), hand_over):
        assert ids(table.branch("z")) == [1, 2]
        expect_sound(table.path, checked=False)


def roll_back(table: Table) -> None:
    table.delete_tag("mine")
    table.rollback(snapshot=3)


def go(table: Table) -> None:
    with contextlib.suppress(InvalidRequestError, CommitConflictError):
        table.fast_forward("b")


@covers("BRN-10", "BRN-11", "CMT-29")
@pytest.mark.parametrize("first", ["fast-forward", "other"])
@pytest.mark.parametrize(
    "other",
    [
        expire,
        on("b", expire),
        on("c", expire),
        clean,
        go,
        lambda table: write(table, 9),
        on("b", lambda table: write(table, 9)),
        lambda table: table.rollback(snapshot=1),
        on("b", roll_back),
    ],
)
def test_a_fast_forward_during_other_work_loses_nothing(tmp_path: Path, other: Work, first: str) -> None:
    template = made(tmp_path / "t", "keys", 1, 2)
    template.create_branch("b")
    template.create_branch("c")
    branch = template.branch("b")
    write(branch, 3, 4)
    branch.create_tag("mine")
    branch.compact(full=True)

    def quietly(table: Table) -> None:
        with contextlib.suppress(InvalidRequestError):  # a consumer, or what it rolls back, has gone on
            other(table)

    one, two = (go, quietly) if first == "fast-forward" else (quietly, go)
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, one, two):
        found = ids(table)
        assert found in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 9], [1, 2, 3, 9], [1, 2, 3, 4, 9])
        if 9 in found:
            assert 9 in ids(table, snapshot=snapshots(table)[-1])
        expect_sound(table.path, checked=False)
        assert Table.open(table.path, branch="b").consumers() == {}


def remove(table: Table) -> None:
    with contextlib.suppress(InvalidRequestError):  # a fast-forward keeps its snapshots
        table.delete_branch("b")


def remove_and_clean(table: Table) -> None:
    remove(table)
    clean(table)


def go_and_remove(table: Table) -> None:
    go(table)
    remove(table)


def hand_over(table: Table) -> None:
    with contextlib.suppress(InvalidRequestError):
        Table.open(table.path, branch="b").create_branch("c")


def hand_over_and_remove(table: Table) -> None:
    hand_over(table)
    remove(table)


@covers("BRN-8", "BRN-13", "CMT-29")
@pytest.mark.parametrize(
    ("one", "two"),
    [
        (clean, go_and_remove),
        (go, remove_and_clean),
        (remove_and_clean, go),
        (clean, hand_over_and_remove),
        (hand_over, remove_and_clean),
        (remove_and_clean, hand_over),
    ],
)
def test_a_branch_that_is_removed_takes_nothing_along_that_others_have_of_it(
    tmp_path: Path, one: Work, two: Work
) -> None:
    template = made(tmp_path / "t", "keys", 1, 2)
    template.create_branch("b")
    write(template.branch("b"), 3, 4)
    template.branch("b").compact(full=True)
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, one, two):
        assert ids(table) in ([1, 2], [1, 2, 3], [1, 2, 3, 4])
        assert "c" not in table.branches() or ids(table.branch("c")) == [1, 2, 3, 4]
        expect_sound(table.path, checked=False)


@covers("BRN-13", "CMT-50")
def test_a_fast_forward_and_the_removal_of_its_branch_see_each_other(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)
    table.create_branch("b")
    write(table.branch("b"), 2)
    source = table.branch("b").catalog
    forward, consumers = FastForward(table.catalog, source), source.expiry.consumers
    with (
        forward.held(),
        pytest.raises(InvalidRequestError, match="reads it; delete it afterwards"),
    ):
        table.delete_branch("b")
    assert consumers.all() == {}
    with contextlib.suppress(CommitUnknownError), forward.held():
        raise CommitUnknownError("a put that may still come", 2)
    with pytest.raises(InvalidRequestError, match="check --repair"):
        table.delete_branch("b")
    assert len(table.repair()) == 2
    removal = holds.new_hold(holds.REMOVAL)
    consumers.put(removal, 1)
    with pytest.raises(InvalidRequestError, match="another process removes it"):
        table.fast_forward("b")
    with pytest.raises(InvalidRequestError, match="another process removes it"):
        table.branch("b").create_branch("c")
    assert table.branch("b").tags() == {}
    assert len(table.repair()) == 1
    assert (table.fast_forward("b"), ids(table)) == ([2], [1, 2])


@covers("BRN-13")
@pytest.mark.parametrize("gone", ["schema/schema-0", "consumer/*"])
def test_a_fast_forward_looks_whether_its_branch_is_there_after_its_consumers(
    tmp_path: Path, gone: str
) -> None:
    table = made(tmp_path / "t", "keys", 1)
    table.create_branch("b")
    write(table.branch("b"), 2)
    put, puts = Consumers.put, count(1)

    def put_and_lose(consumers: Consumers, name: str, following: int) -> None:
        put(consumers, name, following)
        for path in Path(table.path).glob(f"branch/branch-b/{gone}") if next(puts) == 2 else ():
            path.unlink()

    with (
        mock.patch.object(Consumers, "put", put_and_lose),
        pytest.raises(InvalidRequestError, match="removes"),
    ):
        table.fast_forward("b")
    assert (snapshots(table), table.branch("b").consumers() if gone == "consumer/*" else {}) == ([1], {})


def interrupted(path: Path, work: Work, *, does: bool) -> Iterator[bool]:
    """Yield after each run of ``work`` that died at its first change of the store, its second one, and so on.

    ``does``: after the change, not before it. True when it did not die any more.
    """
    template = files(path)
    for point in range(1, 1000):
        shutil.rmtree(path)
        for name, data in template.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        store = Dying(point, does=does)
        with contextlib.suppress(Killed):
            work(Table.open(path, store=store))
        yield not store.is_dead
        if not store.is_dead:
            return


class Dying(LocalFileIO):
    """A store whose process dies at a change of it."""

    def __init__(self, point: int, *, does: bool) -> None:
        self.point, self.does, self.is_dead = point, does, False

    def changed(self, change: Callable[[], Any]) -> Any:
        self.point -= 1
        if self.is_dead or (self.point < 1 and not self.does):
            self.is_dead = True
            raise Killed
        found = change()
        if self.point < 1:
            self.is_dead = True
            raise Killed
        return found

    def write(self, path: str, data: bytes) -> None:
        self.changed(lambda: super(Dying, self).write(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def put() -> bool:
            if os.path.exists(path):
                return False
            LocalFileIO().write(path, data)
            return True

        return bool(self.changed(put))

    def delete(self, path: str) -> None:
        self.changed(lambda: super(Dying, self).delete(path))


@covers("BRN-4", "BRN-6", "CMT-50")
@pytest.mark.parametrize("does", [False, True])
@pytest.mark.parametrize("what", ["make", "make from a tag", "make empty", "remove"])
def test_who_dies_while_a_branch_is_made_or_removed_leaves_it_there_or_half_there(
    tmp_path: Path, what: str, does: bool
) -> None:
    path = tmp_path / "t"
    table = made(path, "keys", 1, 2)
    table.alter(add="n INT")
    table.create_tag("two", snapshot=2)
    works: dict[str, Work] = {
        "make": lambda table: table.create_branch("b"),
        "make from a tag": lambda table: table.create_branch("b", tag="two"),
        "make empty": lambda table: table.create_branch("b", empty=True),
        "remove": lambda table: table.delete_branch("b"),
    }
    rows = [] if what == "make empty" else [1, 2]
    if what == "remove":
        table.create_branch("b")
        table.branch("b").upsert([{"id": 2, "v": "b", "n": 1}])
        expire(table.branch("b"))
    for ended in interrupted(path, works[what], does=does):
        table = Table.open(path)
        there = list(table.branches()) == ["b"]
        assert there or not table.branches()
        if there:
            assert ids(table.branch("b")) == rows
        if ended:
            assert there == (what != "remove")
        table.create_branch("other")
        table.branch("other").delete(where="id = 1")
        table.delete(where="id = 1")
        expire(table)  # whatever is half there keeps nobody from it
        expire(table.branch("other"))
        expect_sound(path)
        half = not there and (path / "branch/branch-b/claim").exists()
        assert ["BRN-4"] * half == [one.clause for one in table.check().findings if one.clause == "BRN-4"]
        if half:
            with pytest.raises(InvalidRequestError, match="half"):
                table.branch("b")
            with pytest.raises(InvalidRequestError, match="another process is making or removing it"):
                table.create_branch("b")
        table.repair()
        assert not table.repair()
        assert (list(table.branches()), list(table.tags())) == (
            ["b", "other"] if there else ["other"],
            ["two"],
        )
        if there:
            assert ids(table.branch("b")) == rows
            table.delete_branch("b")
        table.create_branch("b")
        assert ids(table.branch("b")) == [2]
        table.delete_branch("b")
        table.delete_tag("two")
        clean(table)
        assert not table.check().findings


@covers("BRN-4")
def test_what_is_left_of_a_branch_can_be_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)
    for _ in interrupted(tmp_path / "t", lambda table: table.create_branch("b"), does=True):
        table = Table.open(tmp_path / "t")
        if not (tmp_path / "t/branch/branch-b").exists():
            continue
        table.delete_branch("b")
        assert not list((tmp_path / "t/branch").iterdir())
        table.create_branch("b")
        assert ids(table.branch("b")) == [1]


@covers("BRN-4")
def test_a_branch_that_is_removed_while_it_is_made_is_not_there(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)

    def removed(operation: Callable[[], Any]) -> Any:
        table.delete_branch("b")
        return operation()

    maker = Table.open(tmp_path / "t", store=Hooked("put_if_absent", "branch-b/schema/schema-0", removed))
    with pytest.raises(InvalidRequestError, match="removed it while it was made"):
        maker.create_branch("b")
    assert table.branches() == {}
    expect_sound(tmp_path / "t")


class SlowDeletes(LocalFileIO):
    """Takes several requests at once, and is slow to delete snapshots. ``deleted``: the names of files, in order."""

    requests_at_once = 4

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.gone_at_put: str | None = None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and self.gone_at_put:
            self.delete(self.gone_at_put)
        return super().put_if_absent(path, data)

    def delete(self, path: str) -> None:
        if "/snapshot/" in path:
            time.sleep(0.05)
        super().delete(path)
        self.deleted.append(path.rpartition("/")[2])


@covers("BRN-9")
def test_a_snapshot_that_is_taken_back_goes_before_what_it_names(tmp_path: Path) -> None:
    store = SlowDeletes()
    table = Table.create(str(tmp_path / "t"), "id INT, v INT", primary_key="id", store=store)
    table.upsert([{"id": 1, "v": 1}])
    table.create_branch("b")
    branch = table.branch("b")
    branch.upsert([{"id": 2, "v": 2}])
    store.deleted.clear()
    store.gone_at_put = branch.catalog.context.paths.schema(0)
    with pytest.raises(InvalidRequestError, match="half made or half removed"):
        branch.upsert([{"id": 3, "v": 3}])
    assert store.deleted[:2] == ["schema-0", "snapshot-3"]
    assert any(name.startswith("manifest") for name in store.deleted[2:])


@covers("BRN-7")
def test_a_branch_from_a_tag_whose_changes_have_expired_lets_the_table_expire(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "deletion-vectors.enabled": "true"}
    table = Table.create(tmp_path / "t", "id INT, v INT", primary_key="id", options=options)
    for number in range(4):
        table.upsert([{"id": number, "v": number}])
    table.create_tag("x", snapshot=2)
    table.expire_snapshots(retain_last=1)
    table.create_branch("b", tag="x")
    table.upsert([{"id": 9, "v": 9}])
    assert table.expire_snapshots(retain_last=1)
    branch = table.branch("b")
    branch.upsert([{"id": 5, "v": 5}])
    branch.expire_snapshots(retain_last=1)
    assert branch.to_arrow()["id"].to_pylist() == [0, 5]
    assert table.count() == 5


@covers("BRN-7")
def test_a_branch_expires_the_snapshot_whose_changes_the_table_has_expired(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "write-only": "true"}
    table = Table.create(tmp_path / "t", "id INT, v INT", primary_key="id", options=options)
    table.upsert([{"id": 1, "v": 1}])
    table.create_tag("x", snapshot=1)
    table.upsert([{"id": 2, "v": 2}])
    assert table.expire_snapshots(retain_last=1) == [1]
    table.create_branch("b", tag="x")
    branch = table.branch("b")
    branch.upsert([{"id": 2, "v": 2}])
    assert branch.expire_snapshots(retain_last=1) == [1]
    branch.upsert([{"id": 3, "v": 3}])
    assert branch.expire_snapshots(retain_last=1) == [2]
    assert branch.to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert (branch.check().findings, table.check().findings) == ([], [])
    assert table.to_arrow(tag="x")["id"].to_pylist() == [1]


@covers("CHG-37")
def test_a_branch_is_sound_without_the_changes_of_the_snapshot_that_it_begins_with(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "deletion-vectors.enabled": "true"}
    table = Table.create(tmp_path / "t", "id INT, v INT", primary_key="id", options=options)
    table.upsert([{"id": 1, "v": 1}])
    table.create_tag("x", snapshot=1)
    table.create_branch("whole", tag="x")
    table.upsert([{"id": 2, "v": 2}])
    whole = table.branch("whole")
    assert whole.changes(0).to_arrow().num_rows == 1
    table.expire_snapshots(retain_last=1)
    assert (whole.changes(0).to_arrow().num_rows, whole.check().findings) == (1, [])
    table.delete_branch("whole")
    table.remove_orphans(older_than=1 << 50)
    table.create_branch("b", tag="x")
    branch = table.branch("b")
    branch.upsert([{"id": 5, "v": 5}])
    assert branch.check().findings == []
    assert branch.remove_orphans(older_than=1 << 50) == []
    assert branch.changes(1).to_arrow()["id"].to_pylist() == [5]
    with pytest.raises(SnapshotNotFoundError, match="changelog of snapshot 1, with which the branch begins"):
        branch.changes(0).to_arrow()
    for logged in (tmp_path / "t/bucket-0").glob("changelog-*"):
        logged.unlink()
    assert {one.snapshots for one in branch.check().findings if one.severity == "error"} == {(2,)}


@covers("BRN-2")
def test_a_branch_is_as_old_as_its_first_schema(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)
    table.create_branch("b")
    table.branch("b").alter(add="n INT")
    for number, seconds in ((0, 1_000), (1, 2_000)):
        os.utime(tmp_path / f"t/branch/branch-b/schema/schema-{number}", (seconds, seconds))
    (found,) = table.metadata("branches").to_pylist()
    assert (found["branch_name"], found["create_time"].timestamp()) == ("b", 1_000)


@covers("BRN-9")
def test_a_write_to_a_branch_that_was_removed_is_refused(table: Table) -> None:
    table.create_branch("b")
    branch = table.branch("b")
    table.delete_branch("b")
    before = files(Path(table.path))
    works: list[Callable[[], Any]] = [
        lambda: write(branch, 4),
        lambda: branch.delete(where="id = 1"),
        branch.compact,
    ]
    for work in works:
        with contextlib.suppress(InvalidRequestError):
            assert work() is None
    assert files(Path(table.path)) == before
    with pytest.raises(InvalidRequestError, match="not found"):
        write(branch, 4)
    table.create_branch("b")
    assert (ids(table.branch("b")), table.check().findings) == ([1, 2, 3], [])


@covers("BRN-10", "CMT-50")
@pytest.mark.parametrize("does", [False, True])
def test_a_fast_forward_that_is_interrupted_is_repeated(tmp_path: Path, does: bool) -> None:
    path = tmp_path / "t"
    table = made(path, "keys", 1, 2)
    table.create_branch("b")
    branch = table.branch("b")
    branch.alter(add="n INT")
    for one in (3, 4, 5):
        branch.upsert([{"id": one, "v": "b", "n": one}])
        branch.create_tag(f"t{one}")
    states = [[1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    seen = set()
    for _ in interrupted(path, lambda table: table.fast_forward("b"), does=does):
        table = Table.open(path)
        seen.add(len(ids(table)))
        assert ids(table) in states
        if table.branch("b").consumers():  # they keep what is to come
            expire(table.branch("b"))
        expect_sound(path)
        table.fast_forward("b")
        assert ids(table) == states[-1]
        assert set(table.tags()) >= {"t3", "t4", "t5"}
        assert ids(table, tag="t4") == states[2]
        table.repair()
        assert table.branch("b").consumers() == {}
        expect_sound(path)
    assert seen == {2, 3, 4, 5}


@covers("BRN-11")
def test_a_fast_forward_that_another_commit_ends_says_how_far_it_came(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "keys", 1)
    table.create_branch("b")
    write(table.branch("b"), 2, 3)

    def commit(operation: Callable[[], Any]) -> Any:
        write(table, 9)
        return operation()

    store = Hooked("put_if_absent", "t/snapshot/snapshot-3", commit)
    with pytest.raises(CommitConflictError, match=r"after snapshot 2.*up to that one"):
        Table.open(tmp_path / "t", store=store).fast_forward("b")
    assert (ids(table), ids(table.branch("b"))) == ([1, 2, 9], [1, 2, 3])
    expect_sound(tmp_path / "t")


# Tables of Paimon


def rows_at(table: Table, **arguments: Any) -> Rows:
    return sorted(rows_of(table.to_arrow(**arguments).to_pylist()))


@needs_shared
@covers("BRN-1", "BRN-7", "BRN-11")
def test_a_branch_of_paimon_is_read_and_written_on(tmp_path: Path) -> None:
    shutil.copytree(path_of("pk_tags"), tmp_path / "t")
    listing = expected_of("pk_tags")
    table, branch = Table.open(tmp_path / "t"), Table.open(tmp_path / "t$branch_br")
    expected = {int(one): expected_rows(found["rows"]) for one, found in listing["branches"]["br"].items()}
    assert snapshots(branch) == sorted(expected)
    for one, rows in expected.items():
        assert rows_at(branch, snapshot=one) == rows
    assert not [one for one in branch.check().findings if one.severity == "error"]
    before = rows_at(table)
    with pytest.raises(InvalidRequestError, match="does not have snapshot"):
        table.fast_forward("br")
    gone = branch.to_arrow()["id"].to_pylist()[0]
    branch.delete([{"id": gone}])
    branch.compact(full=True)
    after = rows_at(branch, fresh=True)
    assert len(after) == len(expected[max(expected)]) - 1
    for each in (table, branch):
        expire(each)
        clean(each)
    assert (rows_at(table), rows_at(branch), rows_at(branch, tag="two")) == (before, after, expected[6])
    table.delete_tag("two")
    branch.create_branch("ours")
    write_on = table.branch("ours")
    write_on.delete([{"id": branch.to_arrow()["id"].to_pylist()[0]}])
    assert len(branch.fast_forward("ours")) >= 1
    assert rows_at(branch, fresh=True) == rows_at(write_on, fresh=True)
    table.delete_branch("br")
    expect_sound(tmp_path / "t")
    assert rows_at(table) == before
