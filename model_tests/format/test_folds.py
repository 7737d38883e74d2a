"""Manifests are folded to the same entries whether some of them were folded before or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pktable import CorruptFileError, Table
from pktable.catalog.manifests import Manifests
from pktable.format.metadata.manifest import ADD, DELETE, ManifestEntry, ManifestFileMeta
from pktable_spec.covers import covers

from model_tests.seams.memory_store import MemoryFileIO

OPTIONS = {"deletion-vectors.enabled": "true", "manifest.merge-min-count": "7"}


def remaining(manifests: Manifests, metas: Sequence[ManifestFileMeta]) -> list[ManifestEntry]:
    """Return what remains of ``metas`` by the rule alone: ADDs in order, without those that have a DELETE."""
    entries = [entry for meta in metas for entry in manifests.read(meta)]
    deleted = {entry.identity for entry in entries if entry.kind == DELETE}
    return [entry for entry in entries if entry.kind == ADD and entry.identity not in deleted]


@covers("CMT-4", "RD-24")
def test_a_reader_that_follows_a_writer_folds_what_one_folds_that_has_seen_nothing() -> None:
    store = MemoryFileIO()
    writer = Table.create("t", "k INT", primary_key=["k"], options=OPTIONS, store=store)
    manifests = Table.open("t", store=store).catalog.committer.manifests
    folded = 0
    for key in range(30):
        writer.upsert([{"k": key % 11}])
        for snapshot in writer.snapshots()[-1 - key % 3 :]:  # not all of them
            metas = [
                *manifests.read_list(snapshot.base_manifest_list),
                *manifests.read_list(snapshot.delta_manifest_list),
            ]
            assert list(manifests.fold(metas).values()) == remaining(manifests, metas)
            folded += len(metas)
    assert folded > 100


@covers("CMT-4")
@pytest.mark.parametrize("again", [ADD, DELETE])
def test_an_entry_that_comes_twice_is_damage_also_after_its_file_is_gone(again: int) -> None:
    table = Table.create("t", "k INT", primary_key=["k"], store=MemoryFileIO())
    table.upsert([{"k": 1}])
    manifests = table.catalog.committer.manifests
    metas = [*manifests.read_list(table.snapshots()[-1].delta_manifest_list)]
    ((entry,),) = [manifests.read(meta) for meta in metas]
    for kind in (DELETE, again):
        assert [one.kind for one in manifests.fold(metas).values()] == [ADD] * (len(metas) % 2)
        writer = manifests.writer()
        metas += writer.entries([replace(entry, kind=kind)])
        writer.flush()
    with pytest.raises(CorruptFileError, match="each file added and deleted once"):
        manifests.fold(metas)
