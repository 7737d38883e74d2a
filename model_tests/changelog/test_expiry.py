"""What becomes of changelog files: expiries, tags, rollbacks, the removal of orphans, and the check."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable.bucket import changelog, write
from pktable.format.metadata.snapshot import decode_snapshot, encode_snapshot
from pktable_spec.covers import covers

from model_tests.changelog.tables import changes, new_table, put, rows, stored

PRODUCERS = pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])


def with_history(path: Path, producer: str) -> Table:
    vectors = "false" if producer == "full-compaction" else "true"
    table = new_table(path, producer, deletion_vectors__enabled=vectors)
    for value in range(4):
        put(table, ("+I", 1, value), ("+I", 2, value), ("-D", 3, value))
        table.compact(full=True)
    return table


def logged(table: Table) -> set[str]:
    return {path for path in stored(table) if "/changelog-" in path}


@PRODUCERS
@covers("CHG-13", "CHG-14", "CMT-28")
def test_an_expiry_removes_the_changelogs_of_its_snapshots_and_no_others(
    tmp_path: Path, producer: str
) -> None:
    table = with_history(tmp_path / "t", producer)
    before, last = logged(table), table.snapshots()[-1].id
    wanted = changes(table, last - 3)
    expired = table.expire_snapshots(retain_last=3)
    assert changes(table, last - 3) == wanted
    assert logged(table) < before
    message = f"changes after snapshot 0 up to {last}: snapshot 1 does not exist or has expired"
    with pytest.raises(SnapshotNotFoundError, match=message):
        changes(table, 0)
    assert not table.check().findings
    assert table.remove_orphans(older_than=1 << 50, dry_run=True) == []
    table.expire_snapshots(retain_last=1)
    assert len(logged(table)) <= 1
    assert expired == list(range(1, last - 2))


@PRODUCERS
@covers("CHG-14", "CMT-17")
def test_a_tag_keeps_rows_and_no_changes(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path / "t", producer)
    kept = next(one.id for one in table.snapshots()[1:] if one.changelog_manifest_list)
    table.create_tag("kept", snapshot=kept)
    read = rows(table, tag="kept")
    table.expire_snapshots(retain_last=1)
    assert rows(table, tag="kept") == read
    assert len(logged(table)) <= 1
    assert not table.check().findings
    assert table.remove_orphans(older_than=1 << 50, dry_run=True) == []
    table.delete_tag("kept")
    assert not table.check().findings


@covers("CHG-13")
def test_a_range_that_expires_while_it_is_read_is_refused(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup")
    batches = table.changes(0).to_batches()
    Table.open(table.path).expire_snapshots(retain_last=1)
    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 0 up to"):
        batches.read_all()


@covers("CHG-13")
def test_a_tag_of_an_expired_snapshot_begins_a_range(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup")
    last = table.snapshots()[-1].id
    wanted = changes(table, last - 2)
    table.create_tag("kept", snapshot=last - 2)
    table.expire_snapshots(retain_last=2)
    assert changes(table, "kept") == wanted


@PRODUCERS
@covers("CHG-1", "CMT-43", "CMT-48")
def test_a_rollback_leaves_changelogs_to_the_removal_of_orphans(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path / "t", producer)
    ids = [one.id for one in table.snapshots() if one.changelog_manifest_list]
    target = ids[1]
    wanted, before = changes(table, 0, target), logged(table)
    table.rollback(snapshot=target)
    assert logged(table) == before
    removed = {one.path.removeprefix(f"{table.path}/") for one in table.remove_orphans(older_than=1 << 50)}
    assert removed & before
    assert changes(table, 0) == wanted
    assert logged(table) == before - removed
    assert not table.check().findings
    put(table, ("+I", 7, 7))
    assert len(changes(Table.open(table.path), 0)) >= len(wanted)


@covers("CHG-13")
def test_a_tag_of_what_was_rolled_back_ends_no_range(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup")
    tag = table.catalog.context.paths.tag("gone")
    Path(tag).parent.mkdir(exist_ok=True)
    last = Path(table.catalog.context.paths.snapshot(table.snapshots()[-1].id)).read_bytes()
    table.rollback(snapshot=2)
    Path(tag).write_bytes(last)
    with pytest.raises(InvalidRequestError, match=r"tag 'gone' keeps a snapshot .* that was rolled back"):
        changes(table, 0, "gone")


@covers("CHG-18")
def test_changes_of_an_expired_snapshot_are_read_from_its_copy(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup")
    wanted = changes(table, 0)
    root = Path(table.path)
    (root / "changelog").mkdir()
    for one in (1, 2):
        (root / f"snapshot/snapshot-{one}").rename(root / f"changelog/changelog-{one}")
    again = Table.open(table.path)
    assert again.snapshots()[0].id == 3
    assert changes(again, 0) == wanted
    assert not again.check().findings


@covers("CHG-2", "CHG-3")
def test_the_check_finds_a_wrong_count_and_a_missing_file(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "input")
    path = Path(table.catalog.context.paths.snapshot(1))
    snapshot = json.loads(path.read_text())
    snapshot.pop("pktable.crc32")
    snapshot["changelogRecordCount"] = 9
    path.write_text(json.dumps(snapshot))
    gone = min(logged(table))
    (Path(table.path) / gone).unlink()
    found = [str(one) for one in table.check().findings]
    assert any("CHG-2" in one and "expected 3, found 9" in one for one in found), found
    assert any(gone in one and "expected a file, found none" in one for one in found), found


@covers("CHG-3")
def test_the_check_finds_keys_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = changelog.write_input

    def backwards(context: Any, place: Any, window: Any, *more: Any, **named: Any) -> Any:
        return right(context, place, replace(window, order=window.order[::-1]), *more, **named)

    monkeypatch.setattr(write, "write_input", backwards)
    table = new_table(tmp_path / "t", "input")
    put(table, ("+I", 1, 1), ("+I", 2, 2))
    (found,) = [one for one in table.check().findings if one.clause == "CHG-3"]
    assert (found.what, found.expected) == ("keys", "ascending")


@covers("CHG-2", "META-2")
def test_a_snapshot_file_keeps_what_it_says_of_its_changelog(tmp_path: Path) -> None:
    table = with_history(tmp_path / "t", "lookup")
    (found, *_) = [one for one in table.snapshots() if one.changelog_manifest_list]
    data = encode_snapshot(found)
    assert decode_snapshot(data, at="") == found
    named = json.loads(data)
    size = (Path(table.path) / "manifest" / named["changelogManifestList"]).stat().st_size
    assert (named["changelogManifestListSize"], named["changelogRecordCount"]) == (size, 2)
