"""Clean-up and repair: what may go, and what must stay."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError, Table
from pktable_spec.covers import covers

from model_tests.commit.hooks import OPTIONS, Hooked, ids, write
from model_tests.format.test_manifest import with_field

FAR = "2100-01-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1, 2, 3)
    table.create_tag("first", snapshot=1)
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    return tmp_path / "t"


def stored(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


def orphans(path: Path) -> list[str]:
    """Add an orphan to every directory, and return them."""
    names = [
        *("bucket-0/data-x-0.parquet", "manifest/manifest-x-0", "manifest/manifest-list-x-0"),
        *("index/index-x-0", "snapshot/.snapshot-9.x.tmp", "tag/.tag-a.x.tmp"),
    ]
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"12345")
    return names


@covers("META-62")
def test_the_sidecars_of_manifests_stay_that_a_list_names(path: Path) -> None:
    """A list as Paimon 2.1 writes it names a sidecar for each manifest."""
    table, sidecar = Table.open(path), "manifest-1.avro.sidecar"
    latest = table.snapshots()[-1]
    at = path / "manifest" / latest.base_manifest_list
    names = ["null", {"type": "array", "items": "string"}]
    at.write_bytes(with_field(at.read_bytes(), None, "_EXTRA_FILES", names, [sidecar]))
    snapshot = path / "snapshot" / f"snapshot-{latest.id}"
    fields = json.loads(snapshot.read_text()) | {"baseManifestListSize": at.stat().st_size}
    fields.pop("pktable.crc32", None)
    snapshot.write_text(json.dumps(fields))
    for name in (sidecar, "manifest-2.avro.sidecar"):
        (path / "manifest" / name).write_bytes(b"PMSC")
    table = Table.open(path)
    (finding,) = [one for one in table.check().findings if "sidecar" in one.file]
    assert (finding.severity, finding.file) == ("note", "manifest/manifest-2.avro.sidecar")
    (orphan,) = table.remove_orphans(older_than=FAR)
    assert orphan.path.endswith("manifest-2.avro.sidecar")
    write(table, 4)
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    (orphan,) = table.remove_orphans(older_than=FAR)
    assert orphan.path.endswith(sidecar)


@covers("CMT-48")
def test_files_that_nothing_needs_go_and_no_others(path: Path) -> None:
    before, added = stored(path), orphans(path)
    table = Table.open(path)
    found = table.remove_orphans(older_than=FAR, dry_run=True)
    assert sorted(one.path.removeprefix(f"{path}/") for one in found) == sorted(added)
    assert {one.size for one in found} == {5}
    assert stored(path) == before | set(added)
    assert table.remove_orphans(older_than=FAR) == found
    assert stored(path) == before
    assert ids(path) == [1, 2, 3]
    assert table.to_arrow(tag="first", fresh=True).num_rows == 1
    assert table.remove_orphans(older_than=FAR) == []


@covers("CMT-48")
def test_young_files_stay(path: Path) -> None:
    added = orphans(path)
    assert Table.open(path).remove_orphans() == []  # one day
    os.utime(path / added[0], (0, 0))
    (found,) = Table.open(path).remove_orphans()
    assert found.path.endswith(added[0])


@covers("CMT-49")
@pytest.mark.parametrize("end", ["/manifest", "/snapshot", "/tag", "/bucket-0"])
def test_files_that_become_needed_while_others_are_listed_stay(path: Path, end: str) -> None:
    """The limit does not protect them here: they are old, and a commit begins to refer to them."""
    writer, done = Table.open(path), []

    def commits(operation: Callable[[], Any]) -> Any:
        found = operation()
        write(writer, 4)
        done.append(True)
        return found

    for name in ("list_files", "list_names"):
        table = Table.open(path, store=Hooked(name, end, commits))
        table.remove_orphans(older_than=FAR)
        assert Table.open(path).to_arrow(fresh=True).num_rows >= 3
        assert not [one for one in Table.open(path).check().findings if one.severity == "error"]
    assert done


@covers("CMT-48")
def test_nothing_is_an_orphan_while_metadata_cannot_be_read(path: Path) -> None:
    manifest = next((path / "manifest").glob("manifest-list-*"))
    added = orphans(path)
    kept = manifest.read_bytes()
    for damage in (b"", kept[:-1]):
        manifest.write_bytes(damage)
        with pytest.raises(CorruptFileError, match="orphans"):
            Table.open(path).remove_orphans(older_than=FAR)
        assert set(added) <= stored(path)


@covers("CMT-50", "CMT-13")
def test_a_repair_mends_hints_and_says_so(path: Path) -> None:
    hints = path / "snapshot"
    (hints / "LATEST").write_text("1")
    (hints / "EARLIEST").unlink()
    table = Table.open(path)
    assert table.repair() == ["EARLIEST: written as 4, found none", "LATEST: written as 4, found 1"]
    assert [(hints / name).read_text() for name in ("EARLIEST", "LATEST")] == ["4", "4"]
    assert table.repair() == []


@covers("CMT-50")
def test_a_repair_removes_a_stray_that_a_writer_without_fences_left(path: Path) -> None:
    table = Table.open(path)
    write(table, 5, 6)
    stray = (path / "snapshot" / "snapshot-4").read_bytes()
    table.expire_snapshots(retain_last=1)
    shutil.rmtree(path / "fence")  # as if all others were such writers
    (path / "snapshot" / "snapshot-3").write_bytes(stray.replace(b'"id" : 4', b'"id" : 3'))
    assert [one.clause for one in Table.open(path).check().findings if one.severity == "error"] == [
        "CMT-1",
        "META-14",
    ]
    assert Table.open(path).repair() == [
        "snapshot-3: ended, because EARLIEST is 6 and 5 is gone",
        "snapshot-3: removed, its id has ended by fence 1",
    ]
    assert ids(path) == [1, 2, 3, 5, 6]
    assert not [one for one in Table.open(path).check().findings if one.severity == "error"]


@covers("CMT-50")
def test_a_gap_that_no_hint_explains_is_damage_and_stays(path: Path) -> None:
    table = Table.open(path)
    write(table, 5, 6, 7)
    (path / "snapshot" / "snapshot-5").unlink()
    with pytest.raises(CorruptFileError, match="snapshot-5"):
        table.repair()
    assert (path / "snapshot" / "snapshot-4").exists()


@covers("CMT-51")
@pytest.mark.parametrize("left", ["hint", "tag", "fence", "manifests"])
def test_a_table_whose_snapshots_are_gone_is_damaged_and_not_empty(tmp_path: Path, left: str) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1, 2)
    if left == "tag":
        table.create_tag("one")
    if left == "fence":
        table.expire_snapshots(retain_last=1)
    for one in (path / "snapshot").iterdir():
        if left != "hint" or one.name != "LATEST":
            one.unlink()
    first = min((path / "manifest").glob("manifest-list-*"))
    for one in (path / "manifest").iterdir() if left != "manifests" else ():
        if left != "hint" or one != first:  # a hint alone may be of a table that was dropped
            one.unlink()
    assert "CMT-51" in [one.clause for one in Table.open(path).check().findings if one.severity == "error"]
    for work in (
        lambda: Table.open(path).to_arrow(fresh=True),
        lambda: Table.open(path).snapshots(),
        lambda: write(Table.open(path), 3),
    ):
        with pytest.raises(CorruptFileError, match="snapshots: expected snapshot-"):
            work()


@covers("CMT-51", "CMT-48")
def test_the_files_of_a_table_whose_snapshots_are_gone_are_no_orphans(path: Path) -> None:
    shutil.rmtree(path / "snapshot")
    before = stored(path)
    with pytest.raises(CorruptFileError, match="snapshots: expected snapshot-"):
        Table.open(path).remove_orphans(older_than=FAR)
    assert stored(path) == before


@covers("CMT-51")
def test_a_first_commit_that_did_not_finish_leaves_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1)
    (path / "snapshot" / "snapshot-1").unlink()
    for name in ("LATEST", "EARLIEST"):
        (path / "snapshot" / name).unlink()
    assert ids(path) == []
    write(Table.open(path), 2)
    assert ids(path) == [2]


@covers("CMT-41")
@pytest.mark.parametrize("commits", [1, 2, 3])
def test_an_expiry_that_puts_no_fences_does_not_make_a_commit_be_lost(path: Path, commits: int) -> None:
    """It removes files of snapshots, one after the other, as Paimon's does."""
    others = Table.open(path)
    latest = others.snapshots()[-1].id

    def overtaken(put: Callable[[], Any]) -> Any:
        write(others, *range(10, 10 + commits))
        for one in range(latest, others.snapshots()[-1].id):
            (path / "snapshot" / f"snapshot-{one}").unlink()
        return put()

    write(Table.open(path, store=Hooked("put_if_absent", f"/snapshot-{latest + 1}", overtaken)), 100)
    assert ids(path) == [1, 2, 3, *range(10, 10 + commits), 100]


@covers("CMT-41")
def test_a_commit_that_others_have_built_on_is_there_though_its_base_has_expired(path: Path) -> None:
    others = Table.open(path)
    latest = others.snapshots()[-1].id

    def built_on(put: Callable[[], Any]) -> Any:
        done = put()
        write(others, 10)
        (path / "snapshot" / f"snapshot-{latest}").unlink()
        return done

    write(Table.open(path, store=Hooked("put_if_absent", f"/snapshot-{latest + 1}", built_on)), 100)
    assert ids(path) == [1, 2, 3, 10, 100]
    assert [one.id for one in Table.open(path).snapshots()] == [latest + 1, latest + 2]


@covers("CMT-41")
@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_commit_whose_base_was_rolled_back_without_fences_is_made_again(
    tmp_path: Path, commits: int
) -> None:
    """A rollback removes files of snapshots, latest first, as Paimon's does. A commit on top of them is a stray."""
    path = tmp_path / "t"
    others = Table.create(path, "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(others, 1, 2, 3)

    def overtaken(put: Callable[[], Any]) -> Any:
        write(others, *range(10, 10 + commits))
        for one in reversed(range(3, 4 + commits)):
            (path / "snapshot" / f"snapshot-{one}").unlink()
        (path / "snapshot" / "LATEST").write_text("2")
        return put()

    write(Table.open(path, store=Hooked("put_if_absent", "/snapshot-4", overtaken)), 100)
    assert ids(path) == [1, 2, 100]
    assert [one.id for one in Table.open(path).snapshots()] == [1, 2, 3]
    assert not [str(one) for one in Table.open(path).check().findings if one.severity == "error"]
    assert not (path / "snapshot" / "snapshot-4").exists()
