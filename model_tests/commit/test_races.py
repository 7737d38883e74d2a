"""Commits that others overtake, whose put arrives late, or whose answer is lost: nothing is lost, nothing damaged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitId, Table
from pktable.ingest.changes import ChangeKind
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import CommitUnknownError

from model_tests.commit.hooks import OPTIONS, Hooked, Killed, dying, ids, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1, 2)
    return tmp_path / "t"


def expect_sound(path: Path, *expected: int) -> None:
    """The table has exactly these keys, all of it can be used, and one more commit goes through."""
    table = Table.open(path)
    assert ids(path) == sorted(expected)
    for snapshot in table.snapshots():
        table.to_arrow(snapshot=snapshot.id, fresh=True)
    assert not [str(one) for one in table.check().findings if one.severity == "error"]
    write(table, 300)
    table.expire_snapshots(retain_last=1)
    assert ids(path) == sorted((*expected, 300))
    assert not table.check().findings


@covers("CMT-37", "CMT-36")
def test_two_committers_overtaken_by_commits_that_expired_both_commit(path: Path) -> None:
    others = Table.open(path)

    def first(put: Callable[[], Any]) -> Any:
        write(others, 3)
        second = Hooked("put_if_absent", "/snapshot-4", lambda put_second: between(put, put_second))
        write(Table.open(path, store=second), 200)
        return answers.pop()

    def between(put_first: Callable[[], Any], put_second: Callable[[], Any]) -> Any:
        write(others, *range(4, 11))
        others.expire_snapshots(retain_last=3)
        answers.append(put_first())  # under the id of a snapshot that has expired
        return put_second()

    answers: list[Any] = []
    write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-3", first)), 100)
    expect_sound(path, *range(1, 11), 100, 200)


@covers("CMT-35", "CMT-37")
def test_a_stray_removed_by_a_slow_expiry_is_committed_again(path: Path) -> None:
    others, first, answers = Table.open(path), Table.open(path), []

    def overtaken(put: Callable[[], Any]) -> Any:
        write(others, *range(3, 11))

        def slow(delete: Callable[[], Any]) -> Any:
            first.expire_snapshots(retain_last=3)
            answers.append(put())
            return delete()

        Table.open(path, store=Hooked("delete", "/snapshot-3", slow)).expire_snapshots(retain_last=3)
        return answers.pop()

    write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-3", overtaken)), 100)
    expect_sound(path, *range(1, 11), 100)


@covers("CMT-36", "CMT-40")
def test_a_stray_of_a_committer_that_died_harms_nobody(path: Path) -> None:
    others = Table.open(path)

    def overtake() -> None:
        write(others, *range(3, 11))
        others.expire_snapshots(retain_last=3)

    store = dying("put_if_absent", "/snapshot-3", overtake, does=True)
    with pytest.raises(Killed):
        write(Table.open(path, store=store), 100)
    assert (path / "snapshot" / "snapshot-3").exists()
    table = Table.open(path)
    assert [one.id for one in table.snapshots()] == [8, 9, 10]
    assert table.to_arrow(timestamp="2030-01-01 00:00:00", fresh=True).num_rows == 10
    (note, *_) = [one for one in table.check().findings if one.clause == "CMT-40"]
    assert "snapshot-3" in str(note)
    assert table.expire_snapshots(retain_last=2) == [8]
    assert not (path / "snapshot" / "snapshot-3").exists()
    assert ids(path) == list(range(1, 11))


@covers("CMT-36")
def test_a_stray_is_seen_by_nobody_while_its_committer_pauses(path: Path) -> None:
    others = Table.open(path)

    def overtaken(put: Callable[[], Any]) -> Any:
        write(others, *range(3, 11))
        others.expire_snapshots(retain_last=3)
        done = put()
        table = Table.open(path)
        assert [one.id for one in table.snapshots()] == [8, 9, 10]
        with pytest.raises(Exception, match="snapshot 3 does not exist or has expired"):
            table.to_arrow(snapshot=3)
        assert table.expire_snapshots(retain_last=2) == [8]
        return done

    write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-3", overtaken)), 100)
    expect_sound(path, *range(1, 11), 100)


@covers("CMT-37", "CMT-38")
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("late_puts", [False, True])
def test_a_put_whose_answer_is_lost_is_committed_once(path: Path, expires: bool, late_puts: bool) -> None:
    others = Table.open(path)

    def unanswered(put: Callable[[], Any]) -> Any:
        assert put()
        if expires:
            write(others, *range(4, 8))
            others.expire_snapshots(retain_last=2)
        raise OSError("connection reset: the answer is lost")

    store = Hooked("put_if_absent", "/snapshot-3", unanswered, late_puts=late_puts)
    before = len(Table.open(path).snapshots())
    write(Table.open(path, store=store), 100)
    assert before == 2
    expect_sound(path, 1, 2, 100, *(range(4, 8) if expires else ()))


@covers("CMT-38")
@pytest.mark.parametrize("late_puts", [False, True])
def test_a_put_that_did_not_happen_fails_or_is_sent_again(path: Path, late_puts: bool) -> None:
    def lost(put: Callable[[], Any]) -> Any:
        raise OSError("connection reset: the request is lost")

    table = Table.open(path, store=Hooked("put_if_absent", "/snapshot-3", lost, late_puts=late_puts))
    if late_puts:
        write(table, 100)
        expect_sound(path, 1, 2, 100)
        return
    with pytest.raises(OSError, match="the request is lost"):
        write(table, 100)
    expect_sound(path, 1, 2)


@covers("CMT-38", "CMT-39")
def test_a_commit_whose_outcome_nobody_can_tell_removes_nothing_and_may_still_arrive(path: Path) -> None:
    arrivals: list[Callable[[], Any]] = []

    class Silent(LocalFileIO):
        late_puts = True

        def put_if_absent(self, path: str, data: bytes) -> bool:
            arrivals.append(lambda: LocalFileIO().put_if_absent(path, data))
            raise OSError("no answer")

    table = Table.open(path, store=Silent())
    with pytest.raises(CommitUnknownError, match="snapshot-3: it could not be found out") as raised:
        write(table, 100)
    assert raised.value.snapshot == 3
    assert ids(path) == [1, 2]
    assert arrivals[0]()  # long after its sender gave up
    expect_sound(path, 1, 2, 100)


@covers("CMT-36", "CMT-38")
def test_a_put_that_arrives_after_its_id_expired_is_a_stray(path: Path) -> None:
    arrivals: list[Callable[[], Any]] = []
    others = Table.open(path)

    def late(put: Callable[[], Any]) -> Any:
        arrivals.append(put)
        write(others, *range(3, 8))
        raise OSError("no answer")

    write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-3", late, late_puts=True)), 100)
    others.expire_snapshots(retain_last=2)
    assert arrivals[0]()
    assert ids(path) == [*range(1, 8), 100]
    expect_sound(path, *range(1, 8), 100)


@covers("CMT-53")
@pytest.mark.parametrize("dies", ["never", "/snapshot-3", "/LATEST"])
def test_a_write_that_is_repeated_under_its_identifier_is_there_once(path: Path, dies: str) -> None:
    """Whatever happened to the first try: it died before its put, its answer was lost, or it succeeded."""
    rows = pa.table({"id": pa.array([100], pa.int64()), "v": ["new"]})
    commit_id = CommitId("stream", 7)

    store = dying("put_if_absent" if "snapshot" in dies else "write", dies, does=True)
    with contextlib.suppress(Killed):
        Table.open(path, store=store).upsert(rows, commit_id=commit_id)
    table = Table.open(path)
    first = table.upsert(rows, commit_id=commit_id)
    write(table, 5)
    table.upsert(pa.table({"id": pa.array([100], pa.int64()), "v": ["newer"]}))
    assert Table.open(path).upsert(rows, commit_id=commit_id) == first == 3
    assert Table.open(path).delete([{"id": 5}], commit_id=CommitId("stream", 8)) == 6
    assert [one.commit_identifier for one in table.snapshots()].count(7) == 1
    assert {row["id"]: row["v"] for row in table.to_arrow(fresh=True).to_pylist()}[100] == "newer"
    expect_sound(path, 1, 2, 100)


@covers("CMT-53")
def test_two_who_commit_under_one_identifier_at_once_commit_once(path: Path) -> None:
    rows = pa.table({"id": pa.array([100], pa.int64()), "v": ["new"]})
    other = Table.open(path)

    def overtaken(put: Callable[[], Any]) -> Any:
        other.upsert(rows, commit_id=CommitId("stream", 7))
        return put()

    store = Hooked("put_if_absent", "/snapshot-3", overtaken)
    assert Table.open(path, store=store).upsert(rows, commit_id=CommitId("stream", 7)) == 3
    assert len(other.snapshots()) == 3
    expect_sound(path, 1, 2, 100)


@covers("CMT-54")
def test_a_compaction_planned_before_numbers_started_again_is_planned_again(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t", "id BIGINT, v STRING", primary_key="id", options={**OPTIONS, "write-only": "false"}
    )

    def rows(ids: range, value: str) -> pa.Table:  # of a size that no compression makes small
        return pa.table({"id": pa.array(ids, pa.int64()), "v": [value + os.urandom(50).hex() for _ in ids]})

    table.upsert(rows(range(10_000, 15_000), "deep"))
    table.compact(full=True)
    staged = table.stage_write(rows(range(500), "newer"), ChangeKind())
    assert staged is not None
    table.delete(where="id >= 10000")
    table.compact(full=True)
    assert table.files().num_rows == 0  # so numbers start again, below those of the staged write
    between = table.stage_write(rows(range(1), "older"), ChangeKind(), write_only=True)
    assert between is not None
    between.commit(CommitId("between"))
    staged.commit(CommitId("staged"))
    table.compact()
    (row,) = table.to_arrow(where="id = 0").to_pylist()
    assert row["v"].startswith("newer")
    assert not table.check().findings
