"""Rollbacks: to a snapshot, to a tag, and with others at work."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, StorageError, Table
from pktable.catalog.fences import FenceLog
from pktable.format.metadata.snapshot import Fence, Rollback, decode_fence, encode_fence
from pktable.format.paths import TablePaths
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import CommitConflictError, CorruptFileError

from model_tests.commit.hooks import OPTIONS, Hooked, Killed, dying, ids, write
from model_tests.simulation.explore import BadRun
from model_tests.simulation.preemptions import with_preemptions
from model_tests.simulation.tables import Job


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of five snapshots, one write each."""
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, *range(1, 6))
    return tmp_path / "t"


def expect_sound(path: Path) -> None:
    table = Table.open(path)
    assert not [str(one) for one in table.check().findings if one.severity == "error"]
    table.remove_orphans(older_than="2100-01-01")
    assert not table.check().findings


@covers("CMT-42", "CMT-45", "META-53")
def test_the_target_is_the_latest_snapshot_and_writes_go_on_from_it(path: Path) -> None:
    table = Table.open(path)
    assert table.rollback(snapshot=3) == [4, 5]
    assert [one.id for one in table.snapshots()] == [1, 2, 3]
    assert ids(path) == [1, 2, 3]
    write(table, 6)
    assert table.snapshots()[-1].id == 4
    assert ids(path) == [1, 2, 3, 6]
    stored = json.loads((path / "snapshot" / "snapshot-4").read_text())
    assert stored["pktable.fence"] == 1  # the fence of the rollback
    assert json.loads((path / "snapshot" / "snapshot-3").read_text())["pktable.fence"] == 0
    assert table.rollback(snapshot=4) == []
    expect_sound(path)


@covers("CMT-45", "CMT-17")
def test_a_rollback_that_cannot_be_done_changes_nothing(path: Path) -> None:
    table = Table.open(path)
    table.create_tag("late", snapshot=5)
    for wrong, message in (
        ({"snapshot": 3}, "tags keep later snapshots; delete them first: late"),
        ({"snapshot": 9}, "snapshot 9 does not exist"),
        ({"tag": "none"}, "tag 'none' does not exist"),
        ({}, "either a snapshot or a tag"),
        ({"snapshot": 3, "tag": "late"}, "either a snapshot or a tag"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            table.rollback(**wrong)
    assert ids(path) == [1, 2, 3, 4, 5]
    assert table.rollback(tag="late") == []


@covers("CMT-17", "CMT-42")
def test_a_tag_that_is_made_while_its_snapshot_is_rolled_back_can_be_read_and_checked(path: Path) -> None:
    others = Table.open(path)

    def tagged(put: Callable[[], Any]) -> Any:
        others.create_tag("late", snapshot=5)
        return put()

    assert Table.open(path, store=Hooked("put_if_absent", "/fence-1", tagged)).rollback(snapshot=3) == [4, 5]
    write(others, 10, 11, 12)
    assert ids(path) == [1, 2, 3, 10, 11, 12]
    assert sorted(others.to_arrow(tag="late", fresh=True)["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert not [str(one) for one in others.check().findings if one.severity == "error"]
    others.delete_tag("late")
    expect_sound(path)


@covers("CMT-47", "CMT-4")
@pytest.mark.parametrize("vectors", [False, True])
def test_a_tag_of_an_expired_snapshot_is_committed_again_with_copies_of_its_files(
    tmp_path: Path, vectors: bool
) -> None:
    path = tmp_path / "t"
    options = {**OPTIONS, "deletion-vectors.enabled": str(vectors).lower(), "write-only": "false"}
    table = Table.create(path, "id BIGINT, v STRING", primary_key=["id"], options=options)
    write(table, 1, 2, 3, 2)
    table.compact()
    write(table, 3)
    table.create_tag("kept")
    expected = table.to_arrow(fresh=True).sort_by("id")
    write(table, 1, 7, 8)
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    latest = table.snapshots()[-1].id
    assert table.rollback(tag="kept") == [latest]
    assert [one.id for one in table.snapshots()] == [latest + 1]
    assert table.to_arrow(fresh=True).sort_by("id") == expected
    assert table.to_arrow(tag="kept", fresh=True).sort_by("id") == expected
    assert table.rollback(tag="kept") == [latest + 1]  # again: no file is added twice
    write(table, 9)
    table.compact(full=True)
    assert ids(path) == [1, 2, 3, 9]
    assert table.tags().keys() == {"kept"}
    expect_sound(path)


@covers("CMT-47", "CMT-12")
def test_a_rollback_to_a_tag_whose_commit_finds_a_full_disk_says_so_and_leaves_nothing(path: Path) -> None:
    table = Table.open(path)
    table.create_tag("kept", snapshot=3)
    table.expire_snapshots(retain_last=1)

    def full(put: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        Table.open(path, store=Hooked("put_if_absent", "/snapshot-6", full)).rollback(tag="kept")
    assert (ids(path), set(table.tags())) == ([1, 2, 3, 4, 5], {"kept"})
    assert table.remove_orphans(older_than="2100-01-01") == []


@pytest.mark.parametrize("end", [".parquet", "/snapshot-6"])
@covers("CMT-47", "CMT-50")
def test_a_repair_removes_the_second_tag_of_a_rollback_that_died(path: Path, end: str) -> None:
    table = Table.open(path)
    for tag in ("kept", "rollback-1", f"rollback-{'g' * 8}-4444-4444-4444-121212121212"):
        table.create_tag(tag, snapshot=3)
    table.expire_snapshots(retain_last=1)
    before = set(table.tags())
    name = "create" if end == ".parquet" else "put_if_absent"
    with pytest.raises(Killed):
        Table.open(path, store=dying(name, end)).rollback(tag="kept")
    (second,) = set(table.tags()) - before
    assert f"tag {second}: removed, a rollback put it for itself" in table.repair()
    assert set(table.tags()) == before
    table.rollback(tag="kept")
    assert (ids(path), set(table.tags())) == ([1, 2, 3], before)
    expect_sound(path)


@covers("CMT-42", "CMT-46")
@pytest.mark.parametrize("name", ["put_if_absent", "read"])
def test_a_commit_that_a_rollback_overtakes_is_committed_after_it(path: Path, name: str) -> None:
    others = Table.open(path)

    def overtaken(operation: Callable[[], Any]) -> Any:
        others.rollback(snapshot=2)
        return operation()

    end = "/snapshot-6" if name == "put_if_absent" else "/snapshot-5"
    write(Table.open(path, store=Hooked(name, end, overtaken)), 100)
    assert ids(path) == [1, 2, 100]
    expect_sound(path)


@covers("CMT-42", "CMT-43")
def test_a_file_that_was_put_over_a_rollback_harms_nobody_and_makes_room(path: Path) -> None:
    others = Table.open(path)

    store = dying("put_if_absent", "/snapshot-6", lambda: others.rollback(snapshot=2), does=True)
    with pytest.raises(Killed):
        write(Table.open(path, store=store), 100)
    assert (path / "snapshot" / "snapshot-6").exists()
    assert [one.id for one in Table.open(path).snapshots()] == [1, 2]
    assert [str(one) for one in Table.open(path).check().findings if one.clause == "CMT-40"]
    write(others, *range(20, 26))  # over 3 to 8: the file at 6 is removed by whoever needs its id
    assert ids(path) == [1, 2, *range(20, 26)]
    assert len(Table.open(path).snapshots()) == 8
    expect_sound(path)


@covers("CMT-42", "CMT-45")
def test_a_rollback_that_dies_after_its_fence_has_happened(path: Path) -> None:
    store = dying("delete", "/snapshot-5")
    with pytest.raises(Killed):
        Table.open(path, store=store).rollback(snapshot=3)
    assert ids(path) == [1, 2, 3]
    write(Table.open(path), 4)  # the file of snapshot 4 is nobody's yet
    with pytest.raises(
        CommitConflictError, match=r"snapshot-5 was rolled back.*run `pktable check --repair`"
    ):
        write(Table.open(path), 5)
    assert any("removed" in line for line in Table.open(path).repair())  # it was to remove snapshot 5
    write(Table.open(path), 6, 7, 8)
    assert ids(path) == [1, 2, 3, 4, 6, 7, 8]
    expect_sound(path)


@covers("CMT-43", "CMT-45", "SAFE-5")
@pytest.mark.parametrize("name", ["put_if_absent", "delete"])
def test_a_rollback_whose_store_fails_can_be_finished_or_says_what_finishes_it(path: Path, name: str) -> None:
    failing = Denying(name, "/snapshot-4" if name == "delete" else "/fence/removed-4")
    with pytest.raises(
        StorageError, match=r"Permission denied; the snapshots are rolled back; when the store works"
    ):
        Table.open(path, store=failing).rollback(snapshot=3)
    assert (ids(path), (path / "snapshot" / "snapshot-5").exists()) == ([1, 2, 3], False)
    if name == "delete":
        with pytest.raises(
            CommitConflictError, match=r"snapshot-4 was rolled back.*run `pktable check --repair`"
        ):
            Table.open(path).rollback(snapshot=3)
        Table.open(path).repair()
    else:
        assert Table.open(path).rollback(snapshot=3) == [4]
    assert Table.open(path).rollback(snapshot=3) == []
    write(Table.open(path), 4, 5)
    assert ids(path) == [1, 2, 3, 4, 5]
    expect_sound(path)


@covers("SAFE-5", "CMT-12")
def test_a_copy_that_can_be_neither_written_nor_closed_is_named_by_its_first_failure(path: Path) -> None:
    table = Table.open(path)
    table.create_tag("kept", snapshot=3)
    table.expire_snapshots(retain_last=1)
    with pytest.raises(StorageError, match=r"cannot write: No space left on device; free some space"):
        Table.open(path, store=FullDisk()).rollback(tag="kept")
    assert (ids(path), set(table.tags())) == ([1, 2, 3, 4, 5], {"kept"})
    assert table.remove_orphans(older_than="2100-01-01") == []


class Denying(LocalFileIO):
    """Does not permit the operation ``name`` on paths with ``part`` in them."""

    def __init__(self, name: str, part: str) -> None:
        real = getattr(self, name)

        def operation(path: str, *rest: Any) -> Any:
            if part in path:
                raise OSError(errno.EACCES, "Permission denied")
            return real(path, *rest)

        setattr(self, name, operation)


class FullDisk(LocalFileIO):
    """What is written to it fails, and again when it is closed."""

    def create(self, path: str) -> Any:
        return FullFile(path, "wb")


class FullFile(io.FileIO):
    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device, when closed")


@covers("CMT-43")
def test_only_the_process_that_created_the_file_for_it_removes_a_rolled_back_snapshot(path: Path) -> None:
    """Between its two operations another commit would take the place, if a second process removed the file."""
    table, log = Table.open(path), FenceLog(LocalFileIO(), TablePaths(str(path)))
    fifth = table.snapshots()[-1]
    assert log.remove_rolled_back(fifth)
    (path / "snapshot" / "snapshot-5").write_bytes(b"the snapshot of another commit")
    assert not log.remove_rolled_back(fifth)
    assert (path / "snapshot" / "snapshot-5").exists()


@covers("CMT-44")
def test_a_fence_that_another_process_put_first_is_decided_again(path: Path) -> None:
    others = Table.open(path)

    def first(put: Callable[[], Any]) -> Any:
        others.expire_snapshots(retain_last=1)  # with it goes the target of the rollback
        return put()

    with pytest.raises(SnapshotNotFoundError, match="snapshot 2 "):
        Table.open(path, store=Hooked("put_if_absent", "/fence-1", first)).rollback(snapshot=2)
    assert ids(path) == [1, 2, 3, 4, 5]

    def later(put: Callable[[], Any]) -> Any:
        others.expire_snapshots(retain_last=2)
        return put()

    write(others, 6, 7, 8)
    expired = Table.open(path, store=Hooked("put_if_absent", "/fence-2", later)).expire_snapshots(
        retain_last=1
    )
    assert expired == [7]
    assert sorted(one.name for one in (path / "fence").iterdir()) == ["fence-1", "fence-2", "fence-3"]
    expect_sound(path)


@covers("CMT-42", "CMT-43", "CMT-46")
@pytest.mark.parametrize("other", ["write", "expire most", "compact", "rollback 1", "tag", "clean"])
def test_a_rollback_and_another_operation_can_preempt_each_other_anywhere(other: str) -> None:
    found = list(with_preemptions({"a": Job(("rollback 2",)), "b": Job((other,))}, 1))
    assert len(found) >= 2  # either goes first; what does not race with a rollback gives no others
    assert not [one.error for one in found if isinstance(one, BadRun)]


@covers("META-52")
def test_a_fence_file_says_what_the_clause_says_and_refuses_anything_else() -> None:
    fence = Fence(2, 3, (Rollback(1, 7),), {3: "manifest-list-a", 2: "manifest-list-b"}, changelogs=1)
    data = encode_fence(fence)
    assert decode_fence(2, data, at="f") == fence
    assert b"changelogs" not in encode_fence(replace(fence, changelogs=0))  # as releases before wrote it
    assert fence.continues(replace(fence, changelogs=0))
    assert not replace(fence, changelogs=0).continues(fence)
    stored = json.loads(data)
    del stored["pktable.crc32"]
    assert stored == {
        "version": 1,
        "expired": 3,
        "rollbacks": [{"fence": 1, "target": 7}],
        "ended": {"2": "manifest-list-b", "3": "manifest-list-a"},
        "changelogs": 1,
    }
    for name, value in (
        ("version", 2),
        ("expired", "3"),
        ("rollbacks", [1]),
        ("rollbacks", [{"fence": 1}]),
        ("ended", {"x": "y"}),
        ("ended", [1]),
        ("changelogs", "1"),
    ):
        with pytest.raises(CorruptFileError):
            decode_fence(2, json.dumps({**stored, name: value}).encode(), at="f")
    for end in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode_fence(2, data[:end], at="f")


def test_old_fences_go(path: Path) -> None:
    table, log = Table.open(path), FenceLog(LocalFileIO(), TablePaths(str(path)))
    fence = log.newest()
    for _ in range(103):
        fence = log.put_expired(fence, 1, [])
    assert fence.number == 103
    assert not (path / "fence" / "fence-3").exists()
    assert (path / "fence" / "fence-4").exists()
    assert [one.id for one in table.snapshots()] == [2, 3, 4, 5]
