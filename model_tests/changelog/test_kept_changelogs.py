"""Changelogs that outlive their snapshots: they are read, and expire, and nothing is left of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pktable import SnapshotNotFoundError, Table
from pktable.catalog import fences
from pktable.catalog.kept_changelogs import KeptChangelogs
from pktable.format.metadata.snapshot import Fence
from pktable.format.paths import CHANGELOG, numbered
from pktable_spec.covers import covers

from model_tests.changelog.tables import Row, applied, changes, new_table, put, rows, stored
from model_tests.commit.hooks import Hooked, Killed
from model_tests.real_data import PAIMON, needs_shared

PRODUCERS = pytest.mark.parametrize("producer", ["none", "input", "lookup"])
MOST = "changelog.num-retained.max"
LEAST = "changelog.num-retained.min"
TIME = "changelog.time-retained"


def with_history(path: Path, producer: str, **options: str) -> Table:
    """Return a table of ten snapshots, of APPEND and COMPACT in turn."""
    table = new_table(path, producer, **options)
    for value in range(4):
        put(table, ("+I", 1, value), ("+I", 2, value), ("-D", 1, value))
    put(table, ("+I", 1, 9))
    assert len(table.snapshots()) == 10
    return table


def kept(table: Table) -> list[int]:
    names = [path.name for path in Path(table.path, "changelog").glob("*")]
    return sorted(number for name in names if (number := numbered(name, CHANGELOG)) is not None)


def hints(table: Table) -> list[str]:
    return [Path(table.path, "changelog", name).read_text() for name in ("EARLIEST", "LATEST")]


def by_snapshot(table: Table, first: int) -> list[list[Row]]:
    return [changes(table, id - 1, id) for id in range(first, table.snapshots()[-1].id + 1)]


def nothing_is_wrong(table: Table) -> None:
    assert not table.check().findings
    assert table.remove_orphans(older_than=1 << 50, dry_run=True) == []


@PRODUCERS
@covers("CHG-14", "CHG-17", "CHG-18", "CHG-22", "CHG-24")
def test_changes_of_expired_snapshots_are_read_until_they_expire_too(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path / "t", producer, **{MOST: "7"})
    wanted, read = by_snapshot(table, 1), rows(table)
    assert table.expire_snapshots(retain_last=2) == list(range(1, 9))
    assert (kept(table), hints(table)) == ([4, 5, 6, 7, 8], ["4", "8"])
    again = Table.open(table.path)
    assert by_snapshot(again, 4) == wanted[3:]
    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 2 up to 10: snapshot 3 does not"):
        changes(again, 2)
    nothing_is_wrong(again)
    put(table, ("+I", 5, 5))
    table.expire_snapshots(retain_last=2)
    assert (kept(table), hints(table)) == ([6, 7, 8, 9, 10], ["6", "10"])
    assert by_snapshot(again, 6)[:5] == wanted[5:]
    nothing_is_wrong(again)
    assert rows(table) == {*read, (5, 5)}


@PRODUCERS
@covers("CHG-17", "CMT-48")
def test_changes_stay_where_the_manifests_of_their_snapshots_are_gone(tmp_path: Path, producer: str) -> None:
    """Later writes merge the manifests. So the lists of an expired snapshot no longer show which files were live."""
    options = {MOST: "100", "manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"}
    table = with_history(tmp_path / "t", producer, **options)
    wanted = by_snapshot(table, 1)
    table.expire_snapshots(retain_last=1)
    nothing_is_wrong(table)
    assert table.remove_orphans(older_than=1 << 50) == []
    assert by_snapshot(Table.open(table.path), 1) == wanted
    writes, live = 5, table.files().num_rows
    assert len(list(Path(table.path).glob("bucket-0/*"))) <= writes + live, (
        "files of compactions in between are gone"
    )


@PRODUCERS
@covers("CHG-17", "CHG-22")
def test_nothing_is_left_of_changelogs_that_have_expired(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path / "t", producer, **{MOST: "8"})
    first = stored(table)
    table.expire_snapshots(retain_last=4)
    assert kept(table) == [3, 4, 5, 6]
    for value in range(4):
        put(table, ("+I", 1, value))
    table.expire_snapshots(retain_last=8)
    assert not list(Path(table.path, "changelog").iterdir())
    table.compact(full=True)
    put(table, ("+I", 1, 1), write_only=True)
    table.expire_snapshots(retain_last=1)
    nothing_is_wrong(table)
    live = {f"bucket-0/{name}" for name in table.files().column("file_name").to_pylist()}
    assert {path for path in first & stored(table) if path.startswith("bucket")} <= live


@covers("CHG-22")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({MOST: "5"}, [6, 7, 8, 9]),
        ({LEAST: "5"}, [6, 7, 8, 9]),
        ({LEAST: "5", TIME: "1 ms"}, [6, 7, 8, 9]),
        ({LEAST: "3", MOST: "5", TIME: "1 d"}, [6, 7, 8, 9]),
        ({LEAST: "3", MOST: "5", TIME: "1 ms"}, [8, 9]),
        ({TIME: "1 d"}, list(range(1, 10))),
        ({TIME: "1 ms"}, []),
        ({}, []),
    ],
)
def test_number_and_age_decide_which_changelogs_stay(
    tmp_path: Path, options: dict[str, str], expected: list[int]
) -> None:
    table = with_history(tmp_path / "t", "lookup", **options)
    expiry, later = table.catalog.expiry, table.snapshots()[-1].time_millis + 1000
    expiry.expire(retain_last=1, older_than=None, now_millis=later)
    assert kept(table) == expected
    nothing_is_wrong(table)


@covers("CHG-14", "CHG-17", "CMT-17", "CMT-31")
def test_a_tag_that_goes_leaves_the_changelog_of_its_snapshot(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "9"})
    table.create_tag("kept", snapshot=4)
    wanted = by_snapshot(table, 2)
    table.expire_snapshots(retain_last=1)
    table.delete_tag("kept")
    assert by_snapshot(table, 2) == wanted
    nothing_is_wrong(table)


@covers("CHG-17", "CMT-47")
def test_a_rollback_to_an_expired_tag_keeps_the_changelogs(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    table.create_tag("kept", snapshot=4)
    wanted, read = by_snapshot(table, 1), rows(table, tag="kept")
    table.expire_snapshots(retain_last=1)
    table.rollback(tag="kept")
    assert rows(table) == read
    assert kept(table) == list(range(1, 11))
    assert [changes(table, id - 1, id) for id in range(1, 11)] == wanted
    nothing_is_wrong(table)


@covers("CHG-38", "CMT-35", "CMT-42")
def test_a_copy_of_a_snapshot_that_was_rolled_back_instead_is_not_read(tmp_path: Path) -> None:
    """Paimon dies after its copies, before it removes snapshots. They are rolled back, and others get their ids."""
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    Path(table.path, "changelog").mkdir()
    for id in range(1, 10):
        shutil.copy(
            Path(table.path, f"snapshot/snapshot-{id}"), Path(table.path, f"changelog/changelog-{id}")
        )
    nothing_is_wrong(table)
    table.rollback(snapshot=4)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 5 does not"):
        changes(table, 0, 8)
    put(table, ("+I", 7, 7))
    put(table, ("+I", 8, 8))
    wanted = by_snapshot(table, 1)
    table.expire_snapshots(retain_last=1)
    assert by_snapshot(table, 1) == wanted
    assert applied((), changes(table, 0)) == rows(table)


@covers("CHG-23", "CMT-46")
def test_a_late_put_of_a_snapshot_that_was_rolled_back_is_not_what_expired(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    rolled_back = Path(table.path, "snapshot/snapshot-10")
    late = rolled_back.read_bytes()
    table.rollback(snapshot=8)
    put(table, ("+I", 7, 7))
    put(table, ("+I", 8, 8))
    wanted = by_snapshot(table, 1)
    table.expire_snapshots(retain_last=1)
    rolled_back.write_bytes(late)
    assert by_snapshot(Table.open(table.path), 1) == wanted
    put(table, ("+I", 9, 9))
    table.expire_snapshots(retain_last=1)
    assert by_snapshot(Table.open(table.path), 1)[: len(wanted)] == wanted


@covers("CHG-17", "CHG-23")
def test_a_clean_up_before_the_copies_leaves_what_paimon_needs_and_no_temporary_file(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "none", **{MOST: "20"})
    bases = [
        Path(table.path, "manifest", json.loads(path.read_text())["baseManifestList"])
        for path in Path(table.path, "snapshot").glob("snapshot-*")
    ]

    def die(put: object) -> None:
        raise Killed

    store = Hooked("put_if_absent", "/changelog-1", die)
    with pytest.raises(Killed):
        Table.open(table.path, store=store).expire_snapshots(retain_last=1)
    Path(table.path, "changelog").mkdir(exist_ok=True)
    Path(table.path, "changelog/.changelog-1.0.tmp").write_text("{")
    table.remove_orphans(older_than=1 << 50)
    assert all(path.exists() for path in bases)
    assert kept(table) == list(range(1, 10))
    assert not list(Path(table.path, "changelog").glob("*.tmp"))


@covers("CHG-23", "CMT-50")
def test_a_repair_removes_a_damaged_file_of_an_expired_snapshot(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    table.expire_snapshots(retain_last=2)
    wanted = by_snapshot(table, 1)
    Path(table.path, "snapshot/snapshot-4").write_text("{")
    assert by_snapshot(Table.open(table.path), 5) == wanted[4:]
    assert any("snapshot-4: removed" in one for one in table.repair())
    assert by_snapshot(table, 1) == wanted


@covers("CHG-23")
def test_half_a_copy_is_written_again(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    wanted = by_snapshot(table, 1)
    Path(table.path, "changelog").mkdir()
    Path(table.path, "changelog/changelog-3").write_text('{"version": 3,')
    table.expire_snapshots(retain_last=1)
    assert by_snapshot(Table.open(table.path), 1) == wanted
    nothing_is_wrong(table)


@PRODUCERS
@pytest.mark.parametrize("copied", [0, 1, 4])
@covers("CHG-17", "CHG-23", "CMT-26")
def test_an_expiry_that_dies_before_all_its_copies_loses_no_changelog(
    tmp_path: Path, producer: str, copied: int
) -> None:
    table = with_history(tmp_path / "t", producer, **{MOST: "9"})
    wanted = by_snapshot(table, 1)

    def die(copy: object) -> None:
        raise Killed

    store = Hooked("put_if_absent", f"/changelog-{2 + copied}", die)
    with pytest.raises(Killed):
        Table.open(table.path, store=store).expire_snapshots(retain_last=3)
    assert (kept(table), table.snapshots()[0].id) == (list(range(2, 2 + copied)), 8)
    again = Table.open(table.path)
    assert by_snapshot(again, 2) == wanted[1:]
    assert not [one for one in again.check().findings if one.severity == "error"]
    again.create_tag("t", snapshot=9)
    again.delete_tag("t")
    again.remove_orphans(older_than=1 << 50)
    assert by_snapshot(again, 2) == wanted[1:]
    again.expire_snapshots(retain_last=2)
    assert kept(again) == list(range(2, 9))
    assert by_snapshot(again, 2) == wanted[1:]
    nothing_is_wrong(again)


@covers("CHG-36", "CMT-57")
@pytest.mark.parametrize("other", ["consumer", "rollback", "expiry"])
def test_the_fences_of_others_cost_no_changelog_whose_copy_an_expiry_did_not_live_to_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr(fences, "KEPT", 2)
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    wanted = by_snapshot(table, 1)

    def die(copy: object) -> None:
        raise Killed

    def dying() -> Table:
        return Table.open(table.path, store=Hooked("put_if_absent", "/changelog-1", die))

    with pytest.raises(Killed):
        dying().expire_snapshots(retain_last=3)
    again = Table.open(table.path)
    if other == "consumer":
        for one in range(2):
            again.set_consumer(f"reader-{one}", next_snapshot=9)
    elif other == "rollback":
        for _ in range(2):
            put(again, ("+I", 5, 5))
            again.rollback(snapshot=10)
    else:  # which dies as well
        for left in (2, 1):
            with pytest.raises(Killed):
                dying().expire_snapshots(retain_last=left)
    again.remove_orphans(older_than=1 << 50)
    assert by_snapshot(Table.open(table.path), 1) == wanted


@covers("CHG-17", "CHG-23", "CMT-44")
def test_an_expiry_that_another_one_overtakes_loses_no_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the fence of an expiry and its copies another one puts them, removes the oldest, and its files."""
    table = with_history(tmp_path / "t", "lookup", **{MOST: "7"})
    wanted, copies, again = by_snapshot(table, 1), KeptChangelogs.put, list[int]()

    def overtaken(kept: KeptChangelogs, fence: Fence) -> None:
        if not again:
            again.append(1)
            other = Table.open(table.path)
            put(other, ("+I", 5, 5))
            other.expire_snapshots(retain_last=2)
        copies(kept, fence)

    monkeypatch.setattr(KeptChangelogs, "put", overtaken)
    table.expire_snapshots(retain_last=2)
    assert kept(table) == [6, 7, 8, 9, 10]
    assert by_snapshot(table, 6)[:5] == wanted[5:]
    nothing_is_wrong(table)


@covers("CMT-61", "CHG-22", "CHG-23")
@pytest.mark.parametrize("by_expiry", [True, False])
def test_a_copy_that_is_put_when_others_have_removed_it_counts_for_nobody(
    tmp_path: Path, by_expiry: bool
) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "2"})

    def after_others(put_copy: Callable[[], bool]) -> bool:
        other = Table.open(table.path)
        for value in range(2):
            put(other, ("+I", 5, value))
            other.expire_snapshots(retain_last=1)
        return put_copy()

    slow = Table.open(table.path, store=Hooked("put_if_absent", "/changelog-9", after_others))
    slow.expire_snapshots(retain_last=1)
    again = Table.open(table.path)
    assert kept(again) == [9, 13]
    for wrong in (lambda: changes(again, 8, 9), lambda: again.set_consumer("reader", next_snapshot=9)):
        with pytest.raises(SnapshotNotFoundError, match="snapshot 9"):
            wrong()
    (finding,) = again.check().findings
    assert (finding.clause, finding.severity) == ("CMT-61", "note")
    if by_expiry:
        again.expire_snapshots(retain_last=1)
    else:
        assert len(again.remove_orphans(older_than=1 << 50)) == 1
    assert kept(again) == [13]
    nothing_is_wrong(again)


@covers("CHG-17", "CHG-2")
def test_the_check_reads_changelogs_of_expired_snapshots(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup", **{MOST: "20"})
    table.expire_snapshots(retain_last=1)
    gone = min(Path(table.path).glob("bucket-*/changelog-*"))
    gone.unlink()
    assert any(gone.name in str(one) for one in table.check().findings)


@needs_shared
@covers("CHG-17", "CHG-18")
def test_a_table_of_paimon_is_expired_as_its_options_say(tmp_path: Path) -> None:
    shutil.copytree(PAIMON / "spark-1.4.2/tables/pk_cl_full", tmp_path / "t")
    table = Table.open(tmp_path / "t")
    ids = [one.id for one in table.snapshots()]
    wanted, read = by_snapshot(table, ids[0]), rows(table)
    table.expire_snapshots(retain_last=1)
    assert kept(table) == [1, 2, *ids[:-1]]
    assert by_snapshot(Table.open(table.path), ids[0]) == wanted
    assert rows(table) == read
    assert not table.check().findings
