"""Branches: made, read, written, fast-forwarded and removed."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import (
    CorruptFileError,
    InvalidRequestError,
    NotATableError,
    SnapshotNotFoundError,
    Table,
)
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import Rows, expected_of, expected_rows, path_of, rows_of
from model_tests.real_data import needs_shared
from model_tests.table.branch_tables import (
    COLUMNS,
    FOR_EVER,
    KINDS,
    clean,
    expect_sound,
    expire,
    files,
    ids,
    made,
    snapshots,
    write,
)


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return made(tmp_path / "t", request.param, 1, 2, 3)


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
    for name in ("main", "MAIN", "12", "a/b", "", " ", "..", ".hidden", "x" * 201, "a b", "ä", 3, None):
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


@covers("CMT-51", "BRN-9")
def test_a_table_without_snapshots_stays_one_when_its_branches_are_gone(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, v INT", primary_key="k")
    table.create_branch("b", empty=True)
    for value in (1, 2):
        table.branch("b").upsert([{"k": 1, "v": value}])
    table.delete_branch("b")
    again = Table.open(table.path)
    assert (again.count(), again.branches()) == (0, {})
    again.create_branch("c", empty=True)
    again.upsert([{"k": 1, "v": 3}])
    assert again.to_arrow().to_pylist() == [{"k": 1, "v": 3}]
    again.delete_branch("c")
    again.remove_orphans(older_than="2100-01-01")
    assert again.check().findings == []


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
    table.create_branch("altered")
    table.branch("altered").alter(add="z INT")
    table.create_branch("short")
    write(table.branch("short"), 4)
    table.branch("short").expire_snapshots(retain_last=1)
    refused("short", "begins with snapshot 4")
    assert table.fast_forward("b") == [4]
    refused("altered", "other columns or options and no commit of its own")
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
