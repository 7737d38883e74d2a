"""A rollback while others expire, tag, clean up and retry: no file goes that somebody needs, and no snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, Table
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import CommitConflictError

from model_tests.commit.hooks import OPTIONS, Hooked, Killed, dying, ids, write

FAR = "2100-01-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of five snapshots: three writes, a full compaction, a write."""
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1, 2, 3)
    table.compact(full=True)
    write(table, 5)
    assert [one.id for one in table.snapshots()] == [1, 2, 3, 4, 5]
    return tmp_path / "t"


def expect_no_errors(path: Path) -> None:
    assert not [str(one) for one in Table.open(path).check().findings if one.severity == "error"]


def removal(path: Path, snapshot: int) -> str:
    """Return the name of the file whose creator removes a snapshot that was rolled back."""
    (found,) = [one for one in Table.open(path).snapshots() if one.id == snapshot]
    return f"/removed-{snapshot}-{found.delta_manifest_list}"


@covers("CMT-27", "CMT-31")
@pytest.mark.parametrize("drops", [False, True])
def test_an_expiry_that_a_rollback_overtakes_keeps_the_files_of_its_target(
    monkeypatch: pytest.MonkeyPatch, path: Path, drops: bool
) -> None:
    """The files of snapshot 3 are live in none that is later."""
    others = Table.open(path)
    if drops:
        others.create_tag("old", snapshot=2)
        others.expire_snapshots(retain_last=3)

    def rolls_back(listing: Callable[[], Any]) -> Any:
        assert others.rollback(snapshot=3) == [4, 5]
        return listing()

    store = Hooked("list_names", "/snapshot", rolls_back)  # after it has found the latest snapshot
    store.done = True

    def delete(path: str) -> None:
        LocalFileIO.delete(store, path)
        store.done = store.done and not path.endswith(("/snapshot-2", "/tag-old"))

    monkeypatch.setattr(store, "delete", delete)
    if drops:
        Table.open(path, store=store).delete_tag("old")
    else:
        assert Table.open(path, store=store).expire_snapshots(retain_last=3) == [1, 2]
    assert store.done
    assert ids(path) == [1, 2, 3]
    expect_no_errors(path)


@covers("CMT-42", "CMT-46", "CMT-52")
@pytest.mark.parametrize("drops", [False, True])
def test_the_files_of_a_commit_that_was_rolled_back_stay_when_its_tag_goes(path: Path, drops: bool) -> None:
    """The committer does not know yet that its snapshot was rolled back, and commits the same data files again."""

    def plans_before_it(put_fence: Callable[[], Any]) -> Any:
        def commits(put: Callable[[], Any]) -> Any:
            done = put()

            def tags(put_tag: Callable[[], Any]) -> Any:
                tagged = put_tag()
                put_fence()
                return tagged

            if drops:
                Table.open(path).create_tag("t", snapshot=6)
                put_fence()
                Table.open(path).delete_tag("t")
            else:
                with pytest.raises(InvalidRequestError, match="snapshot 6"):
                    Table.open(path, store=Hooked("put_if_absent", "/tag-t", tags)).create_tag(
                        "t", snapshot=6
                    )
            return done

        write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-6", commits)), 100)
        return True

    Table.open(path, store=Hooked("put_if_absent", "/fence-1", plans_before_it)).rollback(snapshot=3)
    assert ids(path) == [1, 2, 3, 100]
    assert not Table.open(path).tags()
    expect_no_errors(path)


@covers("CMT-43", "CMT-48")
def test_a_clean_up_does_not_remove_the_snapshot_that_took_the_place_of_one_that_was_rolled_back(
    path: Path,
) -> None:
    store = dying("put_if_absent", removal(path, 5))
    with pytest.raises(Killed):
        Table.open(path, store=store).rollback(snapshot=4)

    orphan = path / "bucket-0" / "data-x-0.parquet"
    orphan.write_bytes(b"")

    def commits(delete: Callable[[], Any]) -> Any:
        write(Table.open(path), 50, 60)
        return delete()

    removed = Table.open(path, store=Hooked("delete", "/data-x-0.parquet", commits)).remove_orphans(
        older_than=FAR
    )
    assert [one.path for one in removed if "/snapshot/" in one.path] == []
    assert not orphan.exists()
    assert ids(path) == [1, 2, 3, 50, 60]
    expect_no_errors(path)


@covers("CMT-43", "CMT-48")
def test_who_is_to_remove_a_snapshot_and_sleeps_until_its_id_has_expired_removes_none(path: Path) -> None:
    """By then the file that says who removes it is an orphan, and may be gone."""
    mark = removal(path, 5)

    def others(put_mark: Callable[[], Any]) -> Any:
        table = Table.open(path)
        write(table, 50, 60)
        table.expire_snapshots(retain_last=1)
        table.remove_orphans(older_than=FAR)
        assert not (path / "fence" / mark.removeprefix("/")).exists()
        return put_mark()

    Table.open(path, store=Hooked("put_if_absent", mark, others)).rollback(snapshot=4)
    assert (path / "fence" / mark.removeprefix("/")).exists()
    assert ids(path) == [1, 2, 3, 50, 60]
    expect_no_errors(path)
    Table.open(path).remove_orphans(older_than=FAR)
    assert not (path / "fence" / mark.removeprefix("/")).exists()


@covers("CMT-43", "CMT-48")
def test_a_clean_up_removes_a_snapshot_that_was_rolled_back(path: Path) -> None:
    store = dying("put_if_absent", removal(path, 5))
    with pytest.raises(Killed):
        Table.open(path, store=store).rollback(snapshot=3)
    assert (path / "snapshot" / "snapshot-5").exists()
    Table.open(path).remove_orphans(older_than=FAR)
    assert sorted(one.name for one in (path / "snapshot").glob("snapshot-*")) == [
        "snapshot-1",
        "snapshot-2",
        "snapshot-3",
    ]
    assert ids(path) == [1, 2, 3]


@covers("CMT-43")
def test_a_rollback_whose_answer_is_lost_before_it_removes_a_file_removes_it(path: Path) -> None:
    def unanswered(put: Callable[[], Any]) -> Any:
        assert put()
        raise OSError("connection reset: the answer is lost")

    store = Hooked("put_if_absent", removal(path, 5), unanswered)
    assert Table.open(path, store=store).rollback(snapshot=3) == [4, 5]
    write(Table.open(path), 10, 11, 12)
    assert ids(path) == [1, 2, 3, 10, 11, 12]


@covers("CMT-43", "CMT-50")
def test_a_repair_does_not_remove_the_snapshot_that_took_the_place_of_one_that_was_rolled_back(
    path: Path,
) -> None:
    store, committed = dying("put_if_absent", removal(path, 5)), []
    with pytest.raises(Killed):
        Table.open(path, store=store).rollback(snapshot=3)

    def commits(delete: Callable[[], Any]) -> Any:
        for one in (50, 60):
            with contextlib.suppress(CommitConflictError):
                write(Table.open(path), one)
                committed.append(one)
        return delete()

    Table.open(path, store=Hooked("delete", "/snapshot-5", commits)).repair()
    assert ids(path) == [1, 2, 3, *committed]
    write(Table.open(path), 70, 80)
    expect_no_errors(path)


@covers("RD-17", "CMT-36")
def test_a_read_as_of_a_time_goes_on_when_the_latest_snapshots_are_rolled_back(path: Path) -> None:
    def rolls_back(read: Callable[[], Any]) -> Any:
        Table.open(path).rollback(snapshot=3)
        return read()

    table = Table.open(path, store=Hooked("read", "/snapshot-5", rolls_back))
    rows = table.to_arrow(timestamp="2100-01-01 00:00:00", fresh=True)
    assert sorted(rows["id"].to_pylist()) == [1, 2, 3]
