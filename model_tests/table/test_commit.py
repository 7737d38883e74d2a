"""A commit and the metadata it writes, and what happens when it loses a race or fails."""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitConflictError, CorruptFileError, SnapshotNotFoundError, Table
from pktable.catalog.changes import CommitId
from pktable.catalog.manifests import ManifestEntries
from pktable.format.metadata.snapshot import encode_snapshot
from pktable.ingest.changes import ChangeKind
from pktable.staged import StagedCompaction
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.backends.as_planned import commit_as_planned

DV = {"deletion-vectors.enabled": "true"}
INSERT = ChangeKind(RowKind.INSERT)


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table({"k": pa.array([k for k, _ in pairs], pa.int32()), "v": [v for _, v in pairs]})


def content(table: Table, **arguments: Any) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.to_arrow(**arguments).to_pylist()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=DV)


@covers("CMT-2", "META-11", "CMT-6", "CMT-21")
def test_a_write_is_an_append_and_a_compact_and_counts_records(table: Table) -> None:
    table.upsert(rows((1, "a"), (2, "b")))
    table.upsert(rows((1, "c")))
    kinds = [(s.id, s.commit_kind, s.total_record_count, s.delta_record_count) for s in table.snapshots()]
    # The second write deletes a position of the level below and does not rewrite the file: three records are stored.
    assert kinds == [
        (1, "APPEND", 2, 2),
        (2, "COMPACT", 2, 0),
        (3, "APPEND", 3, 1),
        (4, "COMPACT", 3, 0),
    ] or kinds[:3] == [(1, "APPEND", 2, 2), (2, "COMPACT", 2, 0), (3, "APPEND", 3, 1)]
    assert table.snapshots()[3].total_record_count == sum(table.files().column("row_count").to_pylist())
    assert table.upsert(rows()) is None
    assert len(table.snapshots()) == 4


@covers("CMT-6", "CMT-23", "DV-14")
def test_an_append_carries_the_index_manifest_and_a_compact_replaces_it(table: Table) -> None:
    table.upsert(rows((1, "a"), (2, "b"), (3, "c")))
    for value in "xyz":
        table.upsert(rows((1, value)))
    snapshots = {s.id: s for s in table.snapshots()}
    appended = [s for s in snapshots.values() if s.commit_kind == "APPEND" and s.id > 1]
    assert all(s.index_manifest == snapshots[s.id - 1].index_manifest for s in appended)
    assert len({s.index_manifest for s in snapshots.values()}) > 1


@covers("CMT-5", "CMT-4")
def test_base_and_delta_lists_of_a_snapshot_hold_all_manifests_before_it(table: Table) -> None:
    for i in range(3):
        table.upsert(rows((i, "a")))
    manifests = table.catalog.committer.manifests
    for before, after in zip(table.snapshots(), table.snapshots()[1:], strict=False):
        all_before = [
            *manifests.read_list(before.base_manifest_list),
            *manifests.read_list(before.delta_manifest_list),
        ]
        assert list(manifests.read_list(after.base_manifest_list)) == all_before


@covers("CMT-22")
def test_the_delta_list_of_a_snapshot_holds_the_manifest_of_its_own_commit(table: Table) -> None:
    for i in range(2):
        table.upsert(rows((i, "a")))
    manifests = table.catalog.manifests
    before: set[tuple[str, int]] = set()
    for snapshot in table.snapshots():
        listed = table.files(snapshot.id)
        after = set(zip(*(listed.column(name).to_pylist() for name in ("file_name", "level")), strict=True))
        (own,) = manifests.read_list(snapshot.delta_manifest_list)
        changed = {(entry.file.file_name, entry.file.level) for entry in manifests.read(own)}
        assert changed == before ^ after
        before = after


@covers("RD-24")
def test_a_manifest_is_decoded_once_for_all_who_open_its_table_and_damage_to_it_is_seen(
    tmp_path: Path,
) -> None:
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options={"bucket": "1"})
    table.upsert(rows((1, "a")))
    first, second, third = (Table.open(tmp_path / "t").catalog for _ in range(3))
    (meta,) = first.state().manifests
    assert first.manifests.read(meta) is second.manifests.read(meta)
    path = tmp_path / "t" / "manifest" / meta.file_name
    damaged = bytearray(path.read_bytes())
    damaged[-20] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptFileError):
        third.manifests.read(meta)


@covers("RD-24")
def test_which_files_are_live_is_found_out_once_for_all_who_open_a_table_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a copy has the same names: what is remembered are bytes."""
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options={"bucket": "50"})
    table.upsert(rows(*((k, "a") for k in range(2000))))
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    asked, places = list[ManifestEntries](), ManifestEntries.places

    def counted(entries: ManifestEntries) -> Any:
        asked.append(entries)
        return places(entries)

    monkeypatch.setattr(ManifestEntries, "places", counted)
    for name in ("t", "t", "u"):
        assert Table.open(tmp_path / name).files().num_rows == table.files().num_rows == 50
    assert len(asked) == len(table.catalog.state().manifests)
    table.upsert(rows((1, "b")))
    assert content(Table.open(tmp_path / "t"))[1] == "b"
    assert content(Table.open(tmp_path / "u"))[1] == "a"


@covers("CMT-5")
def test_manifests_that_reach_the_target_together_are_merged_however_few_they_are(tmp_path: Path) -> None:
    options = {"manifest.target-file-size": "4 kb", "manifest.merge-min-count": "1000"}
    table = Table.create(tmp_path, "k INT", primary_key=["k"], options={**options, "write-only": "true"})
    for k in range(6):
        table.upsert(pa.table({"k": [k]}))
    assert len(table.catalog.state().manifests) < 6


@covers("CMT-5")
def test_many_small_manifests_are_merged_and_live_files_stay_the_same(tmp_path: Path) -> None:
    options = {**DV, "manifest.merge-min-count": "3"}
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=options)
    for i in range(12):
        table.upsert(rows((i % 5, f"v{i}")))
    last = table.snapshots()[-1]
    assert len(table.catalog.committer.manifests.read_list(last.base_manifest_list)) <= 4
    assert content(Table.open(tmp_path)) == {10 % 5: "v10", 11 % 5: "v11", 2: "v7", 3: "v8", 4: "v9"}
    for snapshot in table.snapshots():
        assert content(Table.open(tmp_path), snapshot=snapshot.id, fresh=True) == content(
            table, snapshot=snapshot.id, fresh=True
        )


@covers("CMT-13")
@pytest.mark.parametrize("hint", [b"1", b"999", b"x", b"", None])
def test_the_hints_may_lie(table: Table, hint: bytes | None) -> None:
    for value in "abc":
        table.upsert(rows((1, value)))
    for name in ("LATEST", "EARLIEST"):
        path = Path(table.path, "snapshot", name)
        path.unlink() if hint is None else path.write_bytes(hint)
    again = Table.open(table.path)
    assert content(again) == {1: "c"}
    again.upsert(rows((1, "d")))
    assert content(again) == {1: "d"}


@covers("CMT-3", "CMT-10", "CMT-24")
def test_a_write_that_lost_its_sequence_numbers_is_numbered_anew(table: Table) -> None:
    table.upsert(rows((1, "a")))
    other = Table.open(table.path)
    mine, theirs = (
        table.stage_write(rows((1, "mine")), INSERT),
        other.stage_write(rows((1, "theirs")), INSERT),
    )
    assert mine is not None
    assert theirs is not None
    theirs.commit(CommitId("them"))
    mine.commit(CommitId("me"))
    assert content(table) == content(table, fresh=True) == {1: "mine"}
    assert content(Table.open(table.path), fresh=True) == {1: "mine"}


@covers("CMT-3", "CMT-14", "CMT-7")
def test_a_compaction_that_lost_its_inputs_is_planned_anew(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options={**DV, "write-only": "true"})
    table.upsert(rows((1, "a"), (2, "b")))
    table.upsert(rows((1, "c")))
    slow = table.stage_compaction()
    Table.open(tmp_path).compact()
    table.upsert(rows((2, "d")))
    slow.commit(CommitId("slow"))
    assert content(table) == {1: "c", 2: "d"}
    levels = table.files().column("level").to_pylist()
    assert 0 not in levels


@covers("CMP-17")
@pytest.mark.parametrize(
    ("options", "waits"),
    [(DV, False), ({"merge-engine": "first-row"}, False), ({}, True), ({**DV, "write-only": "true"}, False)],
)
def test_a_write_does_not_compact_a_table_that_leaves_it_to_another_process(
    tmp_path: Path, options: dict[str, str], waits: bool
) -> None:
    options = {**options, "lookup-wait": "false", "num-sorted-run.compaction-trigger": "2"}
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=options)
    for key in range(3):
        table.upsert(rows((key, "a")))
    assert ("COMPACT" in [one.commit_kind for one in table.snapshots()]) == waits
    assert len(content(table)) == (3 if waits else 0)
    table.compact()
    assert len(content(table)) == 3


def test_a_compaction_of_one_commit_is_all_or_nothing(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options={**DV, "write-only": "true"})
    table.upsert(rows((1, "a")))
    slow = table.stage_compaction()
    Table.open(tmp_path).compact()
    before = len(table.snapshots())
    (conflict,) = commit_as_planned(slow, CommitId("slow")).values()
    assert conflict.clause == "CMT-7"
    assert len(table.snapshots()) == before


class FailingIO(LocalFileIO):
    """Fails the n-th change of the store, before or after it is made."""

    def __init__(self, countdown: int, after: bool) -> None:
        super().__init__()
        self.countdown, self.after = countdown, after

    def _step(self, make: Any) -> Any:
        self.countdown -= 1
        if self.countdown == 0 and not self.after:
            raise OSError("injected")
        made = make()
        if self.countdown == 0:
            raise OSError("injected")
        return made

    def create(self, path: str) -> Any:
        return self._step(lambda: super(FailingIO, self).create(path))

    def write(self, path: str, data: bytes) -> None:
        self._step(lambda: super(FailingIO, self).write(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return bool(self._step(lambda: super(FailingIO, self).put_if_absent(path, data)))


def referenced(table: Table) -> Iterator[str]:
    for snapshot in table.snapshots():
        yield from table.files(snapshot.id).column("file_name").to_pylist()


@covers("CMT-12", "CMT-20", "CMT-25", "CMT-15")
@pytest.mark.parametrize("after", [False, True])
def test_a_write_that_fails_anywhere_changes_no_read_and_leaves_no_data_file(
    tmp_path: Path, after: bool
) -> None:
    for countdown in range(1, 40):
        path = tmp_path / str(countdown)
        table = Table.create(path, "k INT, v STRING", primary_key=["k"], options=DV)
        table.upsert(rows((1, "a"), (2, "b")))
        expected = {s.id: content(table, snapshot=s.id, fresh=True) for s in table.snapshots()}
        failing = FailingIO(countdown, after)
        table = Table.open(path, store=failing)
        # Not every failure stops the write: a hint that cannot be written is only a hint.
        with contextlib.suppress(OSError):
            table.upsert(rows((1, "c"), (3, "d")))
        if failing.countdown > 0:
            assert countdown > 10
            return
        again = Table.open(path)
        for snapshot, found in expected.items():
            assert content(again, snapshot=snapshot, fresh=True) == found
        committed = {1: "c", 2: "b", 3: "d"}
        assert content(again, fresh=True) in (expected[2], committed)
        if content(again, fresh=True) == expected[2]:
            on_disk = {p.name for p in path.rglob("data-*")}
            assert on_disk <= set(referenced(again)), "a data file of the failed write is left"
        again.upsert(rows((4, "e")))
        again.compact()
        assert content(again)[4] == "e"
    pytest.fail("the write never succeeded")


@covers("CMT-4")
def test_a_delete_without_its_add_is_damage(table: Table) -> None:
    table.upsert(rows((1, "a")))
    table.upsert(rows((1, "b")))
    manifests = table.catalog.committer.manifests
    last = table.snapshots()[-1]
    writer = manifests.writer()
    base, size = writer.manifest_list(())
    writer.flush()
    path = Path(table.path, "snapshot", f"snapshot-{last.id}")
    path.write_bytes(encode_snapshot(replace(last, base_manifest_list=base, base_manifest_list_size=size)))
    with pytest.raises(CorruptFileError, match="DELETE"):
        Table.open(table.path).read()


@covers("RD-10")
def test_a_snapshot_that_does_not_exist_is_refused(table: Table) -> None:
    table.upsert(rows((1, "a")))
    with pytest.raises(
        SnapshotNotFoundError, match="snapshot 7 does not exist or has expired; retained: 1 to 2"
    ):
        table.read(snapshot=7)
    with pytest.raises(SnapshotNotFoundError):
        table.read(timestamp=0)
    with pytest.raises(SnapshotNotFoundError):
        table.read(tag="none")


@covers("RD-17")
def test_a_timestamp_names_the_latest_snapshot_not_younger_than_it(table: Table) -> None:
    now = iter(range(1000, 9000, 1000))
    table.catalog.committer.clock = lambda: next(now)
    for value in "abc":
        table.upsert(rows((1, value)))
    times = [s.time_millis for s in table.snapshots()]
    assert times == sorted(times)
    for snapshot in table.snapshots():
        for millis in (snapshot.time_millis, snapshot.time_millis + 999):
            assert content(table, timestamp=millis) == content(table, snapshot=snapshot.id)


@covers("CMT-11")
def test_a_change_that_would_overlap_in_a_level_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options={**DV, "write-only": "true"})
    table.upsert(rows((1, "a"), (3, "b")))
    one = table.stage_compaction()
    (change,) = one.changes
    table.compact()
    table.upsert(rows((2, "c")))
    (second,) = table.stage_compaction().changes
    wrong = replace(second, added=tuple(replace(f, level=5) for f in second.added), index=second.base_index)
    wrong = replace(wrong, removed=tuple(f for f in wrong.removed if f.level == 0))
    staged = StagedCompaction(table.stager, [wrong], full=False, base=table.catalog.state())
    (conflict,) = commit_as_planned(staged, CommitId("x")).values()
    assert conflict.clause == "CMT-11"
    assert "overlap" in str(conflict)
    assert change.removed


def test_a_conflict_error_names_what_changed() -> None:
    error = CommitConflictError("data-1 is no longer live at level 0", 7)
    assert str(error) == "data-1 is no longer live at level 0 (latest snapshot: 7); read again and retry"
    copy = pickle.loads(pickle.dumps(CommitConflictError("lost", 7, "wait")))
    assert (str(copy), copy.remedy) == ("lost (latest snapshot: 7); wait", "wait")
