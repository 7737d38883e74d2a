"""Branches that are made, fast-forwarded and removed while others work, or by a process that dies."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pktable import CommitConflictError, CommitUnknownError, InvalidRequestError, Table
from pktable.catalog import holds
from pktable.catalog.fast_forward import FastForward
from pktable.catalog.holds import Consumers
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.commit.hooks import Hooked, Killed
from model_tests.preempted import preempted
from model_tests.table.branch_tables import (
    Work,
    clean,
    expect_sound,
    expire,
    files,
    ids,
    made,
    snapshots,
    write,
)


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
    if removes is clean:  # so that there are orphans that no running work has made
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


def repair(table: Table) -> None:
    table.repair()


def begin_repair(table: Table) -> None:
    with contextlib.suppress(Killed):
        Table.open(table.path, store=Dying(1, does=True)).repair()


@covers("BRN-6")
@pytest.mark.parametrize("makes", [make, make_from_tag])
@pytest.mark.parametrize("repairs", [repair, begin_repair])
def test_a_branch_whose_tag_a_repair_removes_meanwhile_is_whole_or_not_there(
    tmp_path: Path, makes: Work, repairs: Work
) -> None:
    template = made(tmp_path / "t", "keys", 1, 2)
    template.create_tag("two", snapshot=2)
    write(template, 3)
    template.compact(full=True)

    def other(table: Table) -> None:
        repairs(table)
        table.delete_tag("two")
        expire(table)

    seen = set()
    for table in preempted(tmp_path / "t", tmp_path / "one", Table.open, makes, other):
        seen.add("new" in table.branches())
        if "new" in table.branches():
            assert ids(table.branch("new")) == [1, 2]
        table.repair()
        expect_sound(table.path, checked=False)
    assert seen == {True, False}


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

    def put_and_lose(consumers: Consumers, name: str, following: int, **options: bool) -> None:
        put(consumers, name, following, **options)
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
        mended = table.repair()
        assert ("branch b: removed, it was half made or half removed" in mended) == half
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
    with pytest.raises(InvalidRequestError, match="removed it, or its tag, while it was made"):
        maker.create_branch("b")
    assert table.branches() == {}
    expect_sound(tmp_path / "t")


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
