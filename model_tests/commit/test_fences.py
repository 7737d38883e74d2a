"""Fences whose numbers are free again: one that is put too late is no fence, whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable.catalog import fences
from pktable.catalog.fences import FenceLog, FenceTakenError
from pktable.format.metadata.snapshot import Fence, Rollback, encode_fence
from pktable.format.paths import TablePaths
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import SnapshotNotFoundError

from model_tests.commit.hooks import OPTIONS, Hooked, ids, write

KEPT = 2


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of nine writes, in which the two newest fences count."""
    monkeypatch.setattr(fences, "KEPT", KEPT)
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, *range(1, 10))
    return tmp_path / "t"


def expire(path: Path, count: int) -> None:
    """Put ``count`` fences: each expires a snapshot."""
    table = Table.open(path)
    for _ in range(count):
        table.expire_snapshots(retain_last=len(table.snapshots()) - 1)


def numbers(path: Path) -> list[int]:
    return sorted(int(name.name.removeprefix("fence-")) for name in (path / "fence").glob("fence-*"))


def log(path: Path) -> FenceLog:
    return FenceLog(LocalFileIO(), TablePaths(str(path)))


@covers("CMT-44", "CMT-57", "META-54")
@pytest.mark.parametrize("pause", range(1, 6))
def test_a_rollback_that_sleeps_while_others_put_fences_decides_again(path: Path, pause: int) -> None:
    def slept(put: Callable[[], Any]) -> Any:
        expire(path, pause)
        return put()

    store = Hooked("put_if_absent", "/fence-1", slept)
    with pytest.raises(SnapshotNotFoundError):
        Table.open(path, store=store).rollback(snapshot=1)
    assert store.done
    assert ids(path) == list(range(1, 10))
    assert numbers(path) == list(range(max(1, pause - KEPT + 1), pause + 1))


@covers("CMT-42", "CMT-57")
def test_a_rollback_whose_fence_is_old_when_it_looks_removes_what_it_ended(path: Path) -> None:
    def slept(listing: Callable[[], Any]) -> Any:
        if numbers(path) != [1]:
            store.done = False
            return listing()
        write(Table.open(path), 20, 21, 22, 23)
        expire(path, 3)
        return listing()

    store = Hooked("list_names", "/fence", slept)
    assert Table.open(path, store=store).rollback(snapshot=5) == [6, 7, 8, 9]
    assert store.done
    assert ids(path) == [1, 2, 3, 4, 5, 20, 21, 22, 23]
    assert numbers(path) == [3, 4]


@covers("CMT-57")
def test_a_fence_that_does_not_say_what_the_newest_says_was_put_too_late(path: Path) -> None:
    expire(path, 4)
    for late in (Fence(expired=9), Fence(rollbacks=(Rollback(1, 3),))):
        with pytest.raises(FenceTakenError):
            log(path).put(late, Fence())
        assert numbers(path) == [3, 4]
    assert log(path).put(Fence(expired=2), Fence()).number == 4  # that is so already
    assert numbers(path) == [3, 4]


@covers("CMT-37", "CMT-57")
def test_what_a_fence_names_that_was_put_too_late_counts_for_nobody(path: Path) -> None:
    snapshot = Table.open(path).snapshots()[6]
    expire(path, 4)
    late = Fence(ended={snapshot.id: snapshot.delta_manifest_list})
    LocalFileIO().put_if_absent(TablePaths(str(path)).fence(2), encode_fence(late))
    assert log(path).ended_as(log(path).newest(), snapshot) is None
