"""Damages to snapshots, schemas and manifests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import ADD, DELETE
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import DataType

from model_tests.check.sample import (
    DEEPEST,
    LAST,
    Damages,
    cut,
    flip,
    levels,
    remove,
    stray,
    tag_of_an_expired_snapshot,
)
from model_tests.damage.table_damage import Surgeon


def _in_manifest(name: Callable[[Surgeon], str]) -> Callable[[Surgeon], Path]:
    return lambda s: s.root / "manifest" / name(s)


def _added_and_deleted(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    passing = replace(entries[0], file=replace(entries[0].file, file_name="data-passing.parquet"))
    surgeon.put_entries(surgeon.delta(LAST), [*entries, passing, replace(passing, kind=DELETE)])


def _delete_alone(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    stray = replace(
        entries[0], kind=DELETE, file=replace(entries[0].file, file_name="data-never.parquet", row_count=0)
    )
    surgeon.put_entries(surgeon.delta(LAST), [*entries, stray])


def _added_twice(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    surgeon.put_entries(surgeon.delta(LAST), entries * 2)
    count = surgeon.snapshot(LAST)
    surgeon.edit_snapshot(LAST, delta_record_count=2 * count.delta_record_count)


def _added_again(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    live = surgeon.at_level(LAST - 1, DEEPEST)
    surgeon.put_entries(surgeon.delta(LAST), [*entries, replace(live, kind=ADD)])
    surgeon.edit_snapshot(LAST, delta_record_count=1 + live.file.row_count)


def _upgrade_that_changes(surgeon: Surgeon) -> None:
    name = levels(surgeon)[DEEPEST]

    def changed(entry: Any) -> Any:
        if entry.kind == ADD and entry.file.file_name == name:
            return replace(entry, file=replace(entry.file, creation_time=1))
        return entry

    surgeon.edit_entries(2, changed)


def _list_of_itself(surgeon: Surgeon) -> None:
    name = surgeon.lists(LAST)[1]
    (meta,) = surgeon.metas(name)
    surgeon.put_metas(name, [replace(meta, file_name=name)])


def _tag_without_vectors(surgeon: Surgeon) -> None:
    fields = json.loads((surgeon.root / f"snapshot/snapshot-{LAST}").read_text("utf-8"))
    kept = {name: value for name, value in fields.items() if name not in ("indexManifest", "pktable.crc32")}
    stray("tag/tag-a", json.dumps(kept).encode())(surgeon)


def _tag_without_manifests(surgeon: Surgeon) -> None:
    (surgeon.root / "manifest" / surgeon.lists(1)[1]).unlink()
    tag_of_an_expired_snapshot(surgeon)


METADATA: Damages = {
    "a snapshot is missing": (remove("snapshot/snapshot-3"), {("CMT-1", "snapshots")}),
    "a snapshot does not match its checksum": (
        flip(lambda s: s.root / "snapshot/snapshot-3"),
        {("META-14", "checksum")},
    ),
    "a snapshot is no JSON": (
        lambda s: (s.root / "snapshot/snapshot-3").write_text("{"),
        {("META-2", "JSON")},
    ),
    "a snapshot has the id of another": (lambda s: s.edit_snapshot(3, id=2), {("META-2", "snapshot id")}),
    "the time of a snapshot is in seconds": (
        lambda s: s.edit_snapshot(3, time_millis=s.snapshot(3).time_millis // 1000),
        {("META-2", "timeMillis")},
    ),
    "a tag is damaged": (
        stray("tag/tag-a", b"{}"),
        {("META-2", "version")},
    ),
    "a manifest list names itself": (_list_of_itself, {("META-3", "_FILE_NAME")}),
    "a tag is no copy of its snapshot": (_tag_without_vectors, {("CMT-32", "tag"), ("DV-12", "live keys")}),
    "a tag is of manifests that are gone": (_tag_without_manifests, {("CMT-15", "manifest")}),
    "a schema does not match its checksum": (
        flip(lambda s: s.root / "schema/schema-0"),
        {("META-14", "checksum")},
    ),
    "a schema has the id of another": (
        lambda s: (s.root / "schema/schema-0").rename(s.root / "schema/schema-1") and None,
        {("META-1", "schema id"), ("META-1", "schema"), ("CMT-15", "schema")},
    ),
    "a snapshot is of a schema that is missing": (
        lambda s: s.edit_snapshot(LAST, schema_id=3),
        {("META-1", "schema")},
    ),
    "the size of a manifest list is wrong": (
        lambda s: s.edit_snapshot(LAST, delta_manifest_list_size=7),
        {("META-2", "size of the manifest list")},
    ),
    "a manifest list is missing": (
        lambda s: (s.root / "manifest" / s.lists(LAST)[1]).unlink(),
        {("CMT-15", "manifest")},
    ),
    "a manifest is missing": (
        lambda s: _in_manifest(lambda s: s.delta(3))(s).unlink(),
        {("CMT-15", "manifest")},
    ),
    "a manifest does not match its checksum": (
        flip(_in_manifest(lambda s: s.delta(3)), 0.98),
        {("META-14", "checksum")},
    ),
    "a manifest list is cut short": (
        cut(_in_manifest(lambda s: s.lists(LAST)[0])),
        {("META-14", "checksum")},
    ),
    "an index manifest is missing": (
        lambda s: _in_manifest(lambda s: str(s.snapshot(LAST).index_manifest))(s).unlink(),
        {("CMT-15", "manifest")},
    ),
    "the size of a manifest is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), file_size=7),
        {("META-12", "size of the manifest")},
    ),
    "the number of added files is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), num_added_files=7),
        {("META-12", "added files")},
    ),
    "the number of deleted files is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), num_deleted_files=7),
        {("META-12", "deleted files")},
    ),
    "the schema of a manifest is older than its files'": (
        lambda s: s.edit_meta(s.delta(LAST), schema_id=-1),
        {("META-12", "schema id")},
    ),
    "the buckets of a manifest are others": (
        lambda s: s.edit_meta(s.delta(LAST), min_bucket=1, max_bucket=1),
        {("META-12", "buckets")},
    ),
    "the levels of a manifest are others": (
        lambda s: s.edit_meta(s.delta(LAST), min_level=1, max_level=1),
        {("META-12", "levels")},
    ),
    "the partitions of a manifest are others": (
        lambda s: s.edit_meta(
            s.delta(LAST),
            partition_stats=SimpleStats(*(encode_row(["b"], [DataType("STRING")]),) * 2, (0,)),
        ),
        {("META-12", "partitions by p")},
    ),
    "a file is deleted that was never added": (
        _delete_alone,
        {("CMT-4", "entries of data-never.parquet")},
    ),
    "a file is added and deleted in one snapshot": (
        _added_and_deleted,
        {("CMT-4", "entries of data-passing.parquet")},
    ),
    "a file is added twice in one snapshot": (_added_twice, {("CMT-4", "entries of {0}")}),
    "a live file is added again": (_added_again, {("CMT-4", "entries of {5}")}),
    "a base list is not what the snapshot before had": (
        lambda s: s.put_metas(s.lists(LAST)[0], [*s.metas(s.lists(LAST)[0])[:-1]]),
        {("CMT-5", "base manifest list"), ("META-11", "total record count")},
    ),
    "an append has other vectors": (
        lambda s: s.edit_snapshot(LAST, index_manifest=s.snapshot(4).index_manifest),
        {("CMT-6", "index manifest of an APPEND"), ("DV-11", "vector of {5}")},
    ),
    "an upgrade changes more than the level": (_upgrade_that_changes, {("CMP-10", "upgrade of {5}")}),
    "the total record count is wrong": (
        lambda s: s.edit_snapshot(LAST, total_record_count=99),
        {("META-11", "total record count")},
    ),
    "the delta record count is wrong": (
        lambda s: s.edit_snapshot(LAST, delta_record_count=99),
        {("META-11", "delta record count")},
    ),
}
