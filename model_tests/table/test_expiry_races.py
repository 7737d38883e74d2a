"""Expiries, tags, writes and reads at once: nothing that is there is damaged, nothing is left, nobody fails.

One does its work, and before some operation of its on the store another does all of its own: before the first
operation, before the second, and so on until there are no more. So no race is left to chance.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CorruptFileError, SnapshotNotFoundError, Table
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.preempted import preempted

OPTIONS = {"deletion-vectors.enabled": "true", "manifest.merge-min-count": "3"}

Rows = dict[int, str]
Work = Callable[[Table], Any]


def write(table: Table) -> None:
    """Write a value that tells the snapshot."""
    latest = table.snapshots()[-1].id if table.snapshots() else 0
    keys = pa.array([0, latest % 3], pa.int32())
    table.upsert(pa.table({"k": keys, "v": [str(latest)] * 2}))


def content(table: Table, **arguments: Any) -> Rows:
    return {row["k"]: row["v"] for row in table.to_arrow(fresh=True, **arguments).to_pylist()}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of several snapshots and a tag of the oldest, which a first expiry has made the oldest."""
    path = tmp_path_factory.mktemp("races") / "template"
    table = Table.create(path, "k INT, v STRING", primary_key=["k"], options=OPTIONS)
    for _ in range(3):
        write(table)
    table.expire_snapshots(retain_last=4)
    table.create_tag("old", snapshot=table.snapshots()[0].id)
    return path


def expect_sound(table: Table) -> None:
    """Every snapshot can be read, and after all but the latest have expired no other file is left."""
    for snapshot in table.snapshots():
        assert content(table, snapshot=snapshot.id)
    for tag in table.tags():
        assert content(table, tag=tag)
    for tag in table.tags():
        table.delete_tag(tag)
    write(table)
    table.expire_snapshots(retain_last=1)
    report = table.check()
    assert not report.findings, [str(finding) for finding in report.findings]


def expire(retain_last: int) -> Work:
    return lambda table: table.expire_snapshots(retain_last=retain_last)


def write_and_expire(table: Table) -> None:
    write(table)
    write(table)
    table.expire_snapshots(retain_last=1)


def tag(table: Table) -> None:
    table.create_tag("new", snapshot=table.snapshots()[0].id)


def tag_if_there(table: Table) -> None:
    try:
        tag(table)
    except SnapshotNotFoundError:
        assert "new" not in table.tags()


def tag_and_expire(table: Table) -> None:
    tag(table)
    write_and_expire(table)


def untag(table: Table) -> None:
    table.delete_tag("old")


def untag_and_expire(table: Table) -> None:
    untag(table)
    write_and_expire(table)


LETTING_GO = {
    "expire 1": expire(1),
    "expire 3": expire(3),
    "tag": tag_if_there,
    "untag": untag,
    "write": write,
}
OTHERS = {
    "expire 1": expire(1),
    "write and expire": write_and_expire,
    "tag": tag,
}


@covers("CMT-26", "CMT-27", "CMT-29", "CMT-30", "CMT-31", "CMT-17")
@pytest.mark.parametrize(
    ("one", "other"), [(one, other) for one in LETTING_GO for other in OTHERS if not one == other == "tag"]
)
def test_nobody_fails_nothing_is_lost_and_nothing_is_left(
    template: Path, tmp_path: Path, one: str, other: str
) -> None:
    for table in preempted(template, tmp_path / "t", Table.open, LETTING_GO[one], OTHERS[other]):
        expect_sound(table)


@covers("CMT-1", "CMT-29", "CMT-30")
@pytest.mark.parametrize("one", ["expire 1", "expire 3", "tag", "untag"])
def test_a_listing_that_misses_what_comes_and_goes_misleads_nobody(
    template: Path, tmp_path: Path, one: str
) -> None:
    for table in preempted(
        template, tmp_path / "t", Table.open, LETTING_GO[one], write_and_expire, in_listings=True
    ):
        expect_sound(table)


@covers("CMT-26", "CMT-30", "CMT-31", "CMT-17")
@pytest.mark.parametrize("one", ["expire 1", "expire 3", "tag", "write"])
def test_a_tag_that_is_dropped_meanwhile_leaves_nothing(template: Path, tmp_path: Path, one: str) -> None:
    for other in (untag, untag_and_expire):
        for table in preempted(template, tmp_path / "t", Table.open, LETTING_GO[one], other):
            expect_sound(table)


@covers("CMT-17", "CMT-27", "CMT-31")
@pytest.mark.parametrize("one", ["expire 1", "expire 3", "untag"])
def test_a_tag_whose_snapshot_expires_at_the_same_time_keeps_its_files(
    template: Path, tmp_path: Path, one: str
) -> None:
    """An expiry that listed the tags before the snapshots would see neither the tag nor the snapshot."""
    for table in preempted(template, tmp_path / "t", Table.open, LETTING_GO[one], tag_and_expire):
        expect_sound(table)


READS: dict[str, Work] = {
    "to_arrow": lambda table: table.to_arrow(),
    "read": lambda table: table.read(fresh=True),
    "count": lambda table: table.count(),
    "fresh count": lambda table: table.count(fresh=True),
    "files": lambda table: table.files(),
    "tags": lambda table: table.tags(),
}


@covers("RD-18")
@pytest.mark.parametrize("read", READS)
def test_a_read_of_the_latest_snapshot_begins_anew_when_that_expires(
    template: Path, tmp_path: Path, read: str
) -> None:
    before = READS[read](Table.open(template))
    found: list[Any] = []

    def one(table: Table) -> None:
        found.append(READS[read](table))

    for table in preempted(template, tmp_path / "t", Table.open, one, untag_and_expire):
        assert found[-1] in (before, READS[read](table), {})


@covers("CMT-1")
def test_snapshots_are_listed_without_a_gap_while_some_expire(template: Path, tmp_path: Path) -> None:
    def one(table: Table) -> None:
        ids = [snapshot.id for snapshot in table.snapshots()]
        assert ids
        assert ids == list(range(ids[0], ids[-1] + 1))

    assert list(preempted(template, tmp_path / "t", Table.open, one, write_and_expire))


@covers("CMT-1", "CMT-19", "CMT-3", "CMT-5")
@pytest.mark.parametrize("snapshots", [1, 2, 3])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_commit_does_not_take_the_place_of_one_that_has_expired(
    template: Path, tmp_path: Path, snapshots: int, is_first: bool
) -> None:
    """As many snapshots come between as are needed for a gap, and fewer, where only what they hold tells."""
    if is_first:
        template = tmp_path / "empty"
        Table.create(template, "k INT, v STRING", primary_key=["k"], options=OPTIONS)

    def append(table: Table, key: int) -> None:
        rows = pa.table({"k": pa.array([key], pa.int32()), "v": ["new"]})
        prepared = table.stage_write(rows, ChangeKind(), write_only=True)
        assert prepared is not None
        prepared.commit(CommitId("someone"))

    def other(table: Table) -> None:
        for key in range(10, 10 + snapshots):
            append(table, key)
        table.expire_snapshots(retain_last=1)

    for table in preempted(template, tmp_path / "t", Table.open, lambda table: append(table, 9), other):
        assert content(table).keys() >= {9, *range(10, 10 + snapshots)}
        expect_sound(table)


@covers("CMT-2", "RD-10")
def test_a_write_that_begins_again_writes_rows_that_can_be_read_only_once(
    template: Path, tmp_path: Path
) -> None:
    # The compaction of the write looks for key 0 in the files of the others, which expire.
    rows = pa.table({"k": pa.array([0, 9], pa.int32()), "v": ["new", "new"]})

    def one(table: Table) -> None:
        assert table.upsert(rows.to_reader()) is not None

    def other(table: Table) -> None:
        untag_and_expire(table)
        table.compact(full=True)
        table.expire_snapshots(retain_last=1)

    for table in preempted(template, tmp_path / "t", Table.open, one, other):
        assert content(table)[9] == "new"


def overtaken_write(table: Table) -> None:
    rows = pa.table({"k": pa.array([9], pa.int32()), "v": ["new"]})
    prepared = table.stage_write(rows, ChangeKind())
    assert prepared is not None
    write(Table.open(table.path))
    prepared.commit(CommitId("someone"))


def overtaken_compaction(table: Table) -> None:
    prepared = table.stage_compaction(full=True)
    write(Table.open(table.path))
    prepared.commit(CommitId("someone"))


@covers("CMT-24", "CMT-29", "CMT-14")
@pytest.mark.parametrize("one", [overtaken_write, overtaken_compaction])
def test_what_is_planned_anew_is_planned_on_what_is_there(template: Path, tmp_path: Path, one: Work) -> None:
    for table in preempted(template, tmp_path / "t", Table.open, one, write_and_expire):
        assert one is overtaken_compaction or content(table)[9] == "new"
        expect_sound(table)


@covers("RD-10", "RD-11")
@pytest.mark.parametrize("named", ["snapshot", "tag", "timestamp"])
def test_a_read_of_a_snapshot_that_expires_meanwhile_is_refused_as_expired(
    template: Path, tmp_path: Path, named: str
) -> None:
    oldest = Table.open(template).snapshots()[0]
    given = {"snapshot": oldest.id, "tag": "old", "timestamp": oldest.time_millis}[named]
    before = content(Table.open(template), **{named: given})
    refused = 0

    def one(table: Table) -> None:
        nonlocal refused
        try:
            assert content(table, **{named: given}) == before
        except SnapshotNotFoundError:
            refused += 1

    assert len(list(preempted(template, tmp_path / "t", Table.open, one, untag_and_expire))) >= refused > 1


@covers("RD-19")
def test_a_missing_file_of_a_snapshot_that_is_there_is_damage(template: Path, tmp_path: Path) -> None:
    for kind in ("manifest/manifest-list-*", "manifest/manifest-[!l]*", "bucket-0/data-*"):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(template, tmp_path / "t")
        for file in (tmp_path / "t").glob(kind):
            file.unlink()
        for arguments in ({}, {"snapshot": Table.open(template).snapshots()[-1].id}, {"tag": "old"}):
            with pytest.raises(CorruptFileError, match="found none"):
                Table.open(tmp_path / "t").to_arrow(fresh=True, **arguments)


@covers("CMT-27", "RD-19")
def test_damage_is_met_before_anything_is_let_go_of(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template, tmp_path / "t")
    latest = Table.open(template).snapshots()[-1]
    (tmp_path / "t" / "manifest" / latest.delta_manifest_list).unlink()
    before = {file: file.stat().st_size for file in (tmp_path / "t").rglob("*")}
    with pytest.raises(CorruptFileError, match=latest.delta_manifest_list):
        Table.open(tmp_path / "t").expire_snapshots(retain_last=1)
    assert {file: file.stat().st_size for file in (tmp_path / "t").rglob("*")} == before


@covers("RD-18")
def test_a_read_that_never_wins_ends(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(template, tmp_path / "t")
    table, other = Table.open(tmp_path / "t"), Table.open(tmp_path / "t")
    opened = LocalFileIO.open

    def late(store: LocalFileIO, path: str) -> Any:
        with monkeypatch.context() as inner:
            inner.setattr(LocalFileIO, "open", opened)
            untag(other) if other.tags() else None
            write_and_expire(other)
            other.compact(full=True)
            other.expire_snapshots(retain_last=1)
        return opened(store, path)

    monkeypatch.setattr(LocalFileIO, "open", late)
    with pytest.raises(SnapshotNotFoundError):
        table.to_arrow(fresh=True)


@covers("CMT-27", "CMT-34")
def test_a_branch_that_is_made_from_a_tag_meanwhile_keeps_its_files(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag goes as soon as the branch is there, between the two listings that a removal of files makes."""
    root, branch = tmp_path / "t", tmp_path / "t" / "branch" / "branch-b" / "tag"
    shutil.copytree(template, root)
    list_names, delete, listed = LocalFileIO.list_names, LocalFileIO.delete, []

    def begun(store: LocalFileIO, path: str) -> None:
        listed.append(path) if "/snapshot/" in path else None
        delete(store, path)

    def branched(store: LocalFileIO, path: str) -> list[str]:
        names = list_names(store, path)
        if listed and not branch.exists() and Path(path).name in ("tag", "branch"):
            branch.mkdir(parents=True)
            (root / "tag" / "tag-old").rename(branch / "tag-old")
        return names

    expected = content(Table.open(root), tag="old")
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "delete", begun)
        patched.setattr(LocalFileIO, "list_names", branched)
        Table.open(root).expire_snapshots(retain_last=1)
    (branch / "tag-old").rename(root / "tag" / "tag-old")
    assert content(Table.open(root), tag="old") == expected
