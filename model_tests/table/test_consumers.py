"""Consumers and branches: what they have not read, or share with the table, stays."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pktable import CorruptFileError, InvalidRequestError, SnapshotNotFoundError, StorageError, Table
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.commit.hooks import OPTIONS, write
from model_tests.preempted import preempted

COLUMNS = "id BIGINT, v STRING"


def ids(table: Table) -> list[int]:
    return [one.id for one in table.snapshots()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=OPTIONS)
    write(table, *range(1, 6))
    return table


@covers("CMT-59", "META-58")
def test_an_expiry_keeps_what_a_consumer_has_not_read(table: Table) -> None:
    directory = Path(table.path, "consumer")
    directory.mkdir()
    (directory / "consumer-theirs").write_text('{"nextSnapshot":3,"more":[]}')  # as Paimon writes it
    table.set_consumer("ours", next_snapshot=5)
    assert table.consumers() == {"ours": 5, "theirs": 3}
    assert table.expire_snapshots(retain_last=1, dry_run=True) == [1, 2]
    assert table.expire_snapshots(retain_last=1) == [1, 2]
    assert table.changes(2).to_arrow().num_rows == 3
    table.delete_consumer("theirs")
    assert table.expire_snapshots(retain_last=1) == [3, 4]
    table.set_consumer("ours", next_snapshot=6)
    assert not table.check().findings
    assert not table.remove_orphans(older_than=1 << 60)
    assert table.consumers() == {"ours": 6}


@covers("CMT-51", "CMT-59", "CMT-62")
@pytest.mark.parametrize("branch", [None, "b"])
def test_a_consumer_may_wait_for_the_first_snapshot(tmp_path: Path, branch: str | None) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=OPTIONS)
    if branch:
        table.create_branch(branch, empty=True)
        table = table.branch(branch)
    table.set_consumer("early", next_snapshot=1)
    assert table.count() == 0
    assert not table.check().findings
    write(table, 1, 2, 3)
    assert table.expire_snapshots(retain_last=1) == []
    assert table.count(fresh=True) == 3


@covers("CMT-59", "CHG-22")
def test_an_expiry_keeps_the_changelogs_that_a_consumer_has_not_read(tmp_path: Path) -> None:
    options = {**OPTIONS, "changelog.num-retained.max": "3"}
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=options)
    write(table, *range(1, 6))
    assert table.expire_snapshots(retain_last=1) == [1, 2, 3, 4]
    table.set_consumer("reader", next_snapshot=3)
    write(table, 6, 7)
    assert table.expire_snapshots(retain_last=1) == []
    assert table.changes(2).to_arrow()["id"].to_pylist() == [3, 4, 5, 6, 7]
    table.delete_consumer("reader")
    assert table.expire_snapshots(retain_last=1) == [5, 6]
    with pytest.raises(SnapshotNotFoundError, match="3"):
        table.changes(2).to_arrow()


def expire(table: Table) -> None:
    table.expire_snapshots(retain_last=1)


def expire_copies(table: Table) -> None:
    assert table.expire_snapshots(retain_last=3) == []


def set_reader(table: Table) -> None:
    with contextlib.suppress(SnapshotNotFoundError):
        table.set_consumer("reader", next_snapshot=2)


@covers("CMT-59", "CMT-61", "CMT-62")
@pytest.mark.parametrize("during", [True, False])
@pytest.mark.parametrize(("copies", "removes"), [(False, expire), (True, expire), (True, expire_copies)])
def test_a_consumer_that_is_made_during_an_expiry_reads_what_it_was_told(
    tmp_path: Path, copies: bool, removes: Callable[[Table], None], during: bool
) -> None:
    options = {**OPTIONS, **({"changelog.num-retained.max": "3"} if copies else {})}
    template = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=options)
    write(template, *range(1, 5))
    if copies:
        template.expire_snapshots(retain_last=1)
        write(template, 5, 6)
    first, second = (removes, set_reader) if during else (set_reader, removes)
    refused = 0
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, first, second):
        if table.consumers():
            assert table.changes(1).to_arrow()["id"].to_pylist()[0] == 2
            assert not table.check().findings
        else:
            refused += 1
            table.expire_snapshots(retain_last=1)
            assert 2 not in ids(table)
    assert refused


@covers("CMT-59", "META-58")
@pytest.mark.parametrize(
    "text", ['{"nextSnapshot":', "{}", '{"nextSnapshot": "3"}', '{"nextSnapshot": 0}', "[]"]
)
def test_a_damaged_consumer_is_named_and_nothing_is_removed(table: Table, text: str) -> None:
    path = Path(table.path, "consumer", "consumer-reader")
    path.parent.mkdir()
    path.write_text(text)
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(CorruptFileError, match=r"consumer-reader.*delete_consumer removes it"):
        table.expire_snapshots(retain_last=1)
    with pytest.raises(CorruptFileError, match="consumer-reader"):
        table.rollback(snapshot=1)
    assert sorted(Path(table.path).rglob("*")) == before
    (finding,) = table.check().findings
    assert finding.clause == "META-58"


@covers("CMT-59")
def test_a_consumer_for_whose_file_there_is_no_room_is_none(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: LocalFileIO, path: str, data: bytes) -> None:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFileIO, "write", full)
    with pytest.raises(StorageError, match="No space left"):
        table.set_consumer("reader", next_snapshot=3)
    monkeypatch.undo()
    assert table.consumers() == {}
    assert table.expire_snapshots(retain_last=1)


@covers("META-58")
def test_a_consumer_that_is_half_written_is_read_again(table: Table) -> None:
    table.set_consumer("reader", next_snapshot=3)
    path = Path(table.path, "consumer", "consumer-reader")
    whole = path.read_bytes()
    path.write_bytes(whole[:7])
    timer = threading.Timer(0.02, lambda: path.write_bytes(whole))
    timer.start()
    assert table.expire_snapshots(retain_last=1) == [1, 2]
    timer.join()


@covers("CMT-60")
def test_a_rollback_below_what_a_consumer_has_read_is_refused(table: Table) -> None:
    table.set_consumer("reader", next_snapshot=5)
    with pytest.raises(InvalidRequestError, match="reader"):
        table.rollback(snapshot=3)
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.rollback(snapshot=4) == [5]
    table.set_consumer("reader", next_snapshot=4)
    assert table.rollback(snapshot=3) == [4]


@covers("CMT-59", "META-58")
def test_a_consumer_is_of_a_name_and_a_snapshot_that_is_there(table: Table) -> None:
    table.expire_snapshots(retain_last=2)
    for wrong in (3, 7):
        with pytest.raises(SnapshotNotFoundError):
            table.set_consumer("reader", next_snapshot=wrong)
    for name in ("", "a/b", "..", "a b"):
        with pytest.raises(InvalidRequestError, match="consumer"):
            table.set_consumer(name, next_snapshot=5)
    with pytest.raises(InvalidRequestError, match="consumer 'none'"):
        table.delete_consumer("none")
    assert table.consumers() == {}
    assert not os.path.exists(Path(table.path, "consumer"))


def branched(table: Table, snapshot: int) -> Path:
    """Make a branch from a tag as Paimon does: copy the tag, the snapshot and the schemas, one after the other."""
    root = Path(table.path)
    branch = root / "branch" / "branch-b"
    table.create_tag("base", snapshot=snapshot)
    for name in ("tag/tag-base", f"snapshot/snapshot-{snapshot}", "schema/schema-0"):
        (branch / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, branch / name)
    return branch


def as_a_table(table: Table, branch: Path, copy: Path) -> Table:
    """Return the branch as a table of its own: its metadata over a copy of the shared files."""
    shutil.copytree(table.path, copy, ignore=shutil.ignore_patterns("branch", "snapshot", "tag", "fence"))
    shutil.copytree(branch, copy, dirs_exist_ok=True)
    return Table.open(copy)


@covers("CMT-34", "CMT-27")
@pytest.mark.parametrize("left", ["tag/tag-base", "snapshot/snapshot-2", None])
def test_an_expiry_keeps_the_files_of_a_branch(table: Table, tmp_path: Path, left: str | None) -> None:
    table.compact(full=True)
    branch = branched(table, 2)
    for name in ("tag/tag-base", "snapshot/snapshot-2"):
        if left not in (None, name):
            (branch / name).unlink()
    table.delete_tag("base")
    table.expire_snapshots(retain_last=1)
    assert ids(table) == [6]
    if left == "tag/tag-base":
        (branch / "snapshot").mkdir(exist_ok=True)
        shutil.copy(branch / left, branch / "snapshot" / "snapshot-2")
    rows = as_a_table(table, branch, tmp_path / "b").to_arrow(fresh=True).sort_by("id")
    assert rows["id"].to_pylist() == [1, 2]
    names = {file.name for file in Path(table.path).rglob("*.parquet")}
    assert len(names) == 3  # those of the branch, and that of the latest snapshot
    shutil.rmtree(branch)
    assert len(table.remove_orphans(older_than=1 << 60)) > 2


@covers("CMT-34", "CMT-48")
def test_the_changelogs_that_a_branch_keeps_are_no_orphans(tmp_path: Path) -> None:
    options = {**OPTIONS, "changelog.num-retained.max": "3"}
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=options)
    write(table, 1, 2, 3)
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    branch = Path(table.path, "branch", "branch-b")
    for name in ("changelog", "snapshot", "schema"):
        shutil.copytree(Path(table.path, name), branch / name)
    write(table, 4, 5, 6, 7)
    table.expire_snapshots(retain_last=1)
    assert not table.remove_orphans(older_than=1 << 60)
    assert not table.check().findings
    shutil.rmtree(branch)
    assert len(table.remove_orphans(older_than=1 << 60)) > 2


@covers("CMT-34")
def test_a_branch_that_cannot_be_read_keeps_all_files(table: Table) -> None:
    branch = branched(table, 2)
    (branch / "snapshot" / "snapshot-2").write_text("{")
    with pytest.raises(CorruptFileError, match="branch-b"):
        table.expire_snapshots(retain_last=1)
    assert ids(table) == [1, 2, 3, 4, 5]
    with pytest.raises(CorruptFileError, match="branch-b"):
        table.delete_tag("base")
    assert len(list(Path(table.path).rglob("*.parquet"))) == 5


@covers("CMT-34", "CMT-47")
def test_a_rollback_to_the_tag_of_an_expired_snapshot_keeps_the_files_of_a_branch(
    table: Table, tmp_path: Path
) -> None:
    branch = branched(table, 2)
    table.expire_snapshots(retain_last=1)
    table.rollback(tag="base")
    table.delete_tag("base")
    assert as_a_table(table, branch, tmp_path / "b").count(fresh=True) == 2
    assert sorted(table.to_arrow(fresh=True)["id"].to_pylist()) == [1, 2]
