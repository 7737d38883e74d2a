"""Expiry and tags: what is kept reads the same, what nothing needs is gone, and an interruption breaks neither."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

OPTIONS = {
    "deletion-vectors.enabled": "true",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "3",
}

Rows = dict[int, str]


def new_table(path: Path) -> Table:
    return Table.create(
        path, "p INT, k INT, v STRING", primary_key=["p", "k"], partition_by=["p"], options=OPTIONS
    )


def written(table: Table, number: int, keys: list[int]) -> None:
    ints = pa.array(keys, pa.int32())
    table.upsert(
        pa.table(
            {"p": pa.array([k % 2 for k in keys], pa.int32()), "k": ints, "v": [str(number)] * len(keys)}
        )
    )


def content(table: Table, **arguments: Any) -> Rows:
    return {row["k"]: row["v"] for row in table.to_arrow(**arguments).to_pylist()}


def stored(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


class Kept:
    """A table, and what each snapshot and tag of it must read as."""

    def __init__(self, path: Path) -> None:
        self.path, self.table = path, new_table(path)
        self.snapshots: dict[int, Rows] = {}
        self.tags: dict[str, Rows] = {}
        self.writes = 0

    def write(self, keys: list[int]) -> None:
        self.writes += 1
        written(self.table, self.writes, keys)
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.snapshots:
                self.snapshots[snapshot.id] = content(self.table, snapshot=snapshot.id)

    def tag(self) -> None:
        if self.snapshots:
            chosen = sorted(self.snapshots)[self.writes % len(self.snapshots)]
            name = f"t{len(self.tags)}-{self.writes}"
            if name not in self.tags:
                self.table.create_tag(name, snapshot=chosen)
                self.tags[name] = self.snapshots[chosen]

    def untag(self) -> None:
        if self.tags:
            name = min(self.tags)
            self.table.delete_tag(name)
            del self.tags[name]

    def expire(self, retain_last: int) -> None:
        expired = self.table.expire_snapshots(retain_last=retain_last)
        assert expired == sorted(self.snapshots)[:-retain_last]
        for snapshot in expired:
            del self.snapshots[snapshot]

    def check(self) -> None:
        again = Table.open(self.path)
        assert [snapshot.id for snapshot in again.snapshots()] == sorted(self.snapshots)
        for snapshot, rows in self.snapshots.items():
            assert content(again, snapshot=snapshot) == rows, f"snapshot {snapshot}"
        assert again.tags().keys() == self.tags.keys()
        for name, rows in self.tags.items():
            assert content(again, tag=name) == rows, f"tag {name}"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 7), min_size=1, max_size=4)),
        st.tuples(st.just("tag")),
        st.tuples(st.just("untag")),
        st.tuples(st.just("expire"), st.integers(1, 4)),
    ),
    min_size=4,
    max_size=14,
)


@covers("CMT-15", "CMT-16", "CMT-17", "CMT-26", "CMT-27")
@settings(max_examples=25, deadline=None)
@given(steps=steps)
def test_what_is_kept_reads_the_same_and_nothing_else_is_left(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    path = tmp_path_factory.mktemp("expiry") / "t"
    kept = Kept(path)
    for action, *arguments in steps:
        getattr(kept, action)(*arguments)
        kept.check()
    # Down to one snapshot nothing is left but what that snapshot needs: as many files as in a copy of it.
    kept.write([0, 1])
    while kept.tags:
        kept.untag()
    kept.expire(1)
    kept.check()
    needed = set(kept.table.catalog.expiry.needed_files(kept.table.snapshots()[0]))
    left = {
        str(path / name) for name in stored(path) if not name.startswith(("snapshot/", "schema/", "fence/"))
    }
    assert left == needed
    shutil.rmtree(path)


@covers("CMT-16", "CMT-27", "CMT-28", "CMT-17")
def test_an_interrupted_expiry_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after any number of deletions, every snapshot and tag that is left reads as before."""
    original = LocalFileIO.delete
    for stop_after in range(0, 40, 3):
        kept = Kept(tmp_path / str(stop_after))
        for number in range(5):
            kept.write([number, number + 1])
        kept.table.create_tag("early", snapshot=3)
        kept.tags["early"] = kept.snapshots[3]
        left = stop_after

        def delete(self: LocalFileIO, path: str) -> None:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            original(self, path)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFileIO, "delete", delete)
            with contextlib.suppress(KeyboardInterrupt):
                kept.table.expire_snapshots(retain_last=2)
        there = {snapshot.id for snapshot in Table.open(kept.path).snapshots()}
        assert set(sorted(kept.snapshots)[-2:]) <= there
        kept.snapshots = {snapshot: rows for snapshot, rows in kept.snapshots.items() if snapshot in there}
        kept.check()


@covers("CMT-16")
def test_time_and_number_both_keep(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for number in range(3):
        written(table, number, [1])
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    assert table.expire_snapshots(retain_last=1, older_than=0) == []
    assert table.expire_snapshots(retain_last=len(times)) == []
    expected = [snapshot for snapshot, time in times.items() if time < times[4]]
    assert table.expire_snapshots(retain_last=1, older_than=times[4]) == expected
    with pytest.raises(InvalidRequestError, match="retain_last"):
        table.expire_snapshots(retain_last=0)
    table.expire_snapshots(retain_last=1)
    with pytest.raises(SnapshotNotFoundError):
        table.read(snapshot=1)
    written(table, 9, [2])
    assert content(Table.open(table.path)) == {1: "2", 2: "9"}


@covers("CMT-17")
@pytest.mark.parametrize("name", ["", "7", "a/b", ".hidden", "a b", "x" * 201])
def test_a_name_that_cannot_be_a_tag_is_refused(tmp_path: Path, name: str) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match="tag"):
        table.create_tag(name)
    written(table, 1, [1])
    with pytest.raises(InvalidRequestError, match="tag"):
        table.create_tag(name)
    assert table.tags() == {}


@covers("CMT-32")
def test_a_tag_is_a_copy_of_the_file_of_its_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    written(table, 1, [1])
    for snapshot in table.snapshots():
        table.create_tag(f"of-{snapshot.id}", snapshot=snapshot.id)
        tag = tmp_path / "t" / "tag" / f"tag-of-{snapshot.id}"
        assert tag.read_bytes() == (tmp_path / "t" / "snapshot" / f"snapshot-{snapshot.id}").read_bytes()


@covers("CMT-17")
def test_a_tag_is_made_once_and_of_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t")
    written(table, 1, [1])
    table.create_tag("one")
    with pytest.raises(InvalidRequestError, match="one"):
        table.create_tag("one", snapshot=1)
    with pytest.raises(SnapshotNotFoundError):
        table.create_tag("two", snapshot=99)
    with pytest.raises(SnapshotNotFoundError, match="tags one"):
        table.delete_tag("two")
    # An expiry that lists the tags just before this one is there.
    put = LocalFileIO.put_if_absent

    def late(self: LocalFileIO, path: str, data: bytes) -> bool:
        if "/tag/" in path:
            table.expire_snapshots(retain_last=1)
        return put(self, path, data)

    monkeypatch.setattr(LocalFileIO, "put_if_absent", late)
    with pytest.raises(SnapshotNotFoundError):
        table.create_tag("late", snapshot=1)
    assert table.tags().keys() == {"one"}
