"""Of large manifests only the entries that remain are made, and damage in the others is found all the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError
from pktable.catalog.manifests import Manifests, decode_entries
from pktable.format.metadata import manifest_fields
from pktable.format.metadata.manifest import (
    ADD,
    DELETE,
    MANIFEST,
    ManifestEntry,
    ManifestFileMeta,
    encode_manifest,
)
from pktable.format.metadata.record_columns import ColumnarValues
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.paths import TablePaths
from pktable.format.types import parse_columns
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.options import parse_options

from model_tests.format.manifests import entries

FIELDS = parse_columns("k INT")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of entries that are made each time."""
    counts: list[int] = []
    make = ColumnarValues.made

    def counted(self: Any, places: Any = None) -> Any:
        values = make(self, places)
        counts.append(len(values))
        return values

    monkeypatch.setattr(ColumnarValues, "made", counted)
    return counts


def opened(root: Path, *manifests: Sequence[ManifestEntry]) -> tuple[Manifests, list[ManifestFileMeta]]:
    """Write each of ``manifests`` as a file of a table, and return what reads them and their names."""
    store, paths = LocalFileIO(), TablePaths(str(root))
    schema = TableSchema(0, FIELDS, 1, (), ("k",), {}, "", 0)
    metas = []
    for i, written in enumerate(manifests):
        data = encode_manifest(written)
        store.write(paths.manifest(f"manifest-{i}"), data)
        metas.append(ManifestFileMeta(f"manifest-{i}", len(data), 0, 0, SimpleStats(b"", b"", None), 0))
    return Manifests(store, paths, schema, parse_options({})), metas


def added(count: int) -> list[ManifestEntry]:
    return [
        replace(entry, kind=ADD, file=replace(entry.file, file_name=f"data-{i}", external_path=None))
        for i, entry in enumerate(entries(count))
    ]


@covers("CMT-4")
def test_only_the_entries_that_remain_are_made(tmp_path: Path, made: list[int]) -> None:
    first = added(900)
    gone = random.Random(3).sample(range(900), 620)
    manifests, metas = opened(tmp_path, first, [replace(first[i], kind=DELETE) for i in gone])
    remain = [entry for i, entry in enumerate(first) if i not in gone]
    assert manifests.fold(metas) == {entry.identity: entry for entry in remain}
    assert made == [280]
    assert list(manifests.read(metas[0])) == first
    assert list(manifests.read(metas[0]))[17:19] == first[17:19]
    assert made == [280, 900], "all are made once"


@covers("CMT-4")
def test_a_removal_of_what_was_not_added_remains_behind_what_was(tmp_path: Path) -> None:
    first = added(300)
    alone = replace(first[5], kind=DELETE, bucket=77)
    manifests, metas = opened(tmp_path, [alone, *first[:200]], first[200:])
    assert list(manifests.fold(metas).values()) == [*first, alone]


@covers("CMT-4")
@pytest.mark.parametrize("kind", [ADD, DELETE])
def test_a_file_that_is_there_twice_is_damage_though_it_does_not_remain(tmp_path: Path, kind: int) -> None:
    first = added(300)
    again = replace(first[7], kind=kind, file=replace(first[7].file, row_count=1))
    gone = [replace(entry, kind=DELETE) for entry in first]
    manifests, metas = opened(tmp_path, first, [*gone, again])
    with pytest.raises(CorruptFileError, match=r"each file added and deleted once, found data-7 twice"):
        manifests.fold(metas)


@covers("META-22", "META-23")
def test_the_attributes_of_entries_are_those_of_the_entries_made(made: list[int]) -> None:
    wanted = entries(500)
    found = decode_entries(encode_manifest(wanted), "m")
    named = [(kind, identity) for kind, identity, _ in found.places()]
    assert named == [(entry.kind, entry.identity) for entry in wanted]
    assert list(found.external_paths()) == [e.file.external_path for e in wanted if e.file.external_path]
    assert made == []


@covers("META-22", "META-23")
def test_chosen_entries_are_those_of_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_fields, "MANY_RECORDS", 1)
    draw = random.Random(11)
    for count in (1, 2, 9, 400):
        wanted = entries(count)
        (part,) = MANIFEST.parts(encode_manifest(wanted), "m", None)
        assert isinstance(part, ColumnarValues)
        for some in range(min(count, 5) + 1):
            places = sorted(draw.sample(range(count), some))
            assert part.made(places) == [wanted[place] for place in places]


@covers("META-22", "RD-11")
@pytest.mark.parametrize(
    "changes", [{"file_name": "a/b"}, {"extra_files": ("a", "b/c")}, {"level": 1 << 40}, {"kind": 2}]
)
def test_damage_in_an_entry_that_is_removed_is_found(tmp_path: Path, changes: dict[str, Any]) -> None:
    first = added(300)
    own = {name: value for name, value in changes.items() if name == "kind"}
    inner = {name: value for name, value in changes.items() if name != "kind"}
    first[7] = replace(first[7], **own, file=replace(first[7].file, **inner))
    gone = [replace(entry, kind=DELETE) for entry in first]
    manifests, metas = opened(tmp_path, first, gone)
    with pytest.raises(CorruptFileError, match=r"manifest-0"):
        manifests.fold(metas)
