"""The history of a table: its numbers come from metadata alone, and damage hides only what the damaged file says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.catalog.summaries import SnapshotSummary, history
from pktable.cli import run
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers


class Recording(LocalFileIO):
    """The local store, which remembers what was read."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return super().read(path)

    def open(self, path: str) -> Any:
        self.paths.append(path)
        return super().open(path)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two buckets and eight snapshots, with deletion vectors from the fourth on."""
    options = {"deletion-vectors.enabled": "true", "bucket": "2"}
    table = Table.create(tmp_path / "table", "id INT, n INT", primary_key=["id"], options=options)
    for ids in (range(20), range(5), range(3, 9), [0, 19]):
        table.upsert(pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(ids, pa.int32())}))
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, 9))
    return table


def summaries(table: Table) -> list[SnapshotSummary]:
    return list(history(Table.open(table.path).catalog))


def damaged(table: Table) -> dict[int, str]:
    """Return what is damaged, by snapshot, the table's path left out."""
    return {
        one.id: str(one.damage).replace(table.path, "") for one in summaries(table) if one.damage is not None
    }


@covers("CMT-4", "DVF-13")
def test_the_numbers_are_those_of_files_and_vectors(table: Table) -> None:
    found = summaries(table)
    assert [one.id for one in found] == list(range(1, 9))
    for one, snapshot in zip(found, table.snapshots(), strict=True):
        files, vectors = table.inspect.files(one.id), table.inspect.vectors(one.id)
        assert one == SnapshotSummary(
            snapshot.id,
            snapshot.commit_kind,
            snapshot.time_millis,
            sum(files.column("row_count").to_pylist()),
            files.num_rows,
            vectors.num_rows,
            sum(vectors.column("deleted_row_count").to_pylist()),
        )
    assert found[-1].vectors
    assert found[-1].deleted_rows


@covers("DVF-13")
def test_no_vector_and_no_data_file_is_read(table: Table) -> None:
    store = Recording()
    found = list(history(Table.open(table.path, store=store).catalog))
    assert sum(one.deleted_rows or 0 for one in found) > 0
    assert store.paths
    read = {path.removeprefix(table.path).split("/")[1] for path in store.paths}
    assert read == {"manifest", "schema", "snapshot"}


@covers("DVF-13")
def test_vectors_are_counted_where_the_index_manifest_gives_no_cardinalities(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Recording()
    catalog = Table.open(table.path, store=store).catalog
    read_index = catalog.manifests.read_index

    def without_cardinalities(name: str) -> Sequence[IndexManifestEntry]:
        return [
            replace(entry, ranges=tuple(replace(found, cardinality=None) for found in entry.ranges or ()))
            for entry in read_index(name)
        ]

    monkeypatch.setattr(catalog.manifests, "read_index", without_cardinalities)
    assert list(history(catalog)) == summaries(table)
    assert any("/index/" in path for path in store.paths)


# Damage


def cut(path: str | Path) -> None:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:-7])


def test_a_damaged_snapshot_hides_only_itself(table: Table) -> None:
    whole = summaries(table)
    cut(table.catalog.context.paths.snapshot(3))
    found = summaries(table)
    assert [replace(one, damage=None) for one in found] == [*whole[:2], SnapshotSummary(3), *whole[3:]]
    assert set(damaged(table)) == {3}
    assert "/snapshot/snapshot-3" in damaged(table)[3]


@covers("CMT-1")
def test_a_missing_snapshot_is_a_row_of_its_own(table: Table) -> None:
    whole = summaries(table)
    Path(table.catalog.context.paths.snapshot(4)).unlink()
    found = summaries(table)
    assert [replace(one, damage=None) for one in found] == [*whole[:3], SnapshotSummary(4), *whole[4:]]
    assert "snapshot-4" in damaged(table)[4]


def of_snapshot(table: Table, snapshot: int, name: str) -> str:
    """Return the path of a manifest that only this snapshot needs."""
    found = getattr(table.catalog.snapshots.read(snapshot), name)
    return table.catalog.context.paths.manifest(found)


@pytest.mark.parametrize(
    ("name", "known"),
    [("delta_manifest_list", False), ("base_manifest_list", False), ("index_manifest", True)],
)
@pytest.mark.parametrize("damage", [cut, lambda path: Path(path).unlink()])
def test_a_damaged_manifest_hides_the_numbers_it_holds(
    table: Table, name: str, known: bool, damage: Callable[[str], None]
) -> None:
    whole = summaries(table)
    path = of_snapshot(table, 4, name)
    damage(path)
    found = summaries(table)
    hidden = damaged(table)
    assert 4 in hidden
    assert all(path.removeprefix(table.path) in what for what in hidden.values())
    for before, after in zip(whole, found, strict=True):
        if before.id in hidden:
            files = before.files if known else None
            before = replace(before, files=files, vectors=None, deleted_rows=None, damage=after.damage)
        assert after == before
    assert len(hidden) < len(whole)


def test_a_snapshot_that_expires_during_the_listing_is_left_out(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Table.open(table.path).catalog
    read = catalog.manifests.read_list

    def expiring(name: str, size: int | None = None) -> Any:
        if table.catalog.snapshots.listed()[0] < 4:
            table.expire_snapshots(retain_last=5)
        return read(name, size)

    monkeypatch.setattr(catalog.manifests, "read_list", expiring)
    assert [one.id for one in history(catalog)] == [4, 5, 6, 7, 8]


def test_the_command_shows_every_row_and_names_each_damage(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["history", table.path, "--format", "jsonl"]) == 0
    whole = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(whole[0]) == ["snapshot", "kind", "time", "records", "files", "vectors", "deleted_rows"]
    cut(table.catalog.context.paths.snapshot(2))
    cut(of_snapshot(table, 4, "index_manifest"))
    assert run(["history", table.path, "--format", "jsonl", "--quiet"]) == 1
    found = capsys.readouterr()
    expected = [{**dict.fromkeys(whole[1]), "snapshot": 2} if row["snapshot"] == 2 else row for row in whole]
    for row, line in zip(expected, found.out.splitlines(), strict=True):
        shown = json.loads(line)
        assert shown in (row, {**row, "vectors": None, "deleted_rows": None})
    notes = found.err.splitlines()
    assert notes[0].startswith("pktable: snapshot 2: ")
    assert any(note.startswith("pktable: snapshot 4: ") for note in notes[1:])
    assert run(["history", table.path]) == 1
    assert "NULL" in capsys.readouterr().out
