"""Damage a table in exactly one way: rewrite what one file says, and mend everything that would tell of it.

Sizes, counts and checksums up the chain are made true again, so that a finding is about the damage itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.format.metadata.manifest import (
    ADD,
    DELETE,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index

Entries = list[ManifestEntry]


class Surgeon:
    """Rewrites the files of the table at ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ------------------------------------------------------------- snapshots

    def snapshot(self, number: int) -> Snapshot:
        path = self.root / f"snapshot/snapshot-{number}"
        return decode_snapshot(path.read_bytes(), at=str(path))

    def edit_snapshot(self, number: int, **changes: Any) -> None:
        snapshot = replace(self.snapshot(number), **changes)
        (self.root / f"snapshot/snapshot-{number}").write_bytes(encode_snapshot(snapshot))

    def snapshots(self) -> list[int]:
        return sorted(int(path.name[9:]) for path in self.root.glob("snapshot/snapshot-*"))

    # ------------------------------------------------------------- manifests

    def lists(self, number: int) -> tuple[str, str]:
        snapshot = self.snapshot(number)
        return snapshot.base_manifest_list, snapshot.delta_manifest_list

    def metas(self, name: str) -> list[ManifestFileMeta]:
        return decode_manifest_list((self.root / "manifest" / name).read_bytes(), name)

    def put_metas(self, name: str, metas: Sequence[ManifestFileMeta]) -> None:
        """Rewrite a manifest list, and its size in every snapshot and in the tags of these."""
        data = encode_manifest_list(metas)
        (self.root / "manifest" / name).write_bytes(data)
        for number in self.snapshots():
            base, delta = self.lists(number)
            path = self.root / f"snapshot/snapshot-{number}"
            stored = path.read_bytes()
            if name == base:
                self.edit_snapshot(number, base_manifest_list_size=len(data))
            if name == delta:
                self.edit_snapshot(number, delta_manifest_list_size=len(data))
            for tag in self.root.glob("tag/tag-*"):
                if tag.read_bytes() == stored:
                    tag.write_bytes(path.read_bytes())

    def edit_meta(self, manifest: str, **changes: Any) -> None:
        """Change what every list says of a manifest."""
        for name in {name for number in self.snapshots() for name in self.lists(number)}:
            metas = self.metas(name)
            changed = [replace(m, **changes) if m.file_name == manifest else m for m in metas]
            if changed != metas:
                self.put_metas(name, changed)

    def delta(self, number: int) -> str:
        """Return the name of the one manifest of a snapshot's delta."""
        (meta,) = self.metas(self.lists(number)[1])
        return meta.file_name

    def entries(self, manifest: str) -> Entries:
        return decode_manifest((self.root / "manifest" / manifest).read_bytes(), manifest)

    def put_entries(self, manifest: str, entries: Entries) -> None:
        """Rewrite a manifest, and what every list says of it."""
        data = encode_manifest(entries)
        (self.root / "manifest" / manifest).write_bytes(data)
        self.edit_meta(
            manifest,
            file_size=len(data),
            num_added_files=sum(entry.kind == ADD for entry in entries),
            num_deleted_files=sum(entry.kind == DELETE for entry in entries),
            schema_id=max(entry.file.schema_id for entry in entries),
            min_bucket=min(entry.bucket for entry in entries),
            max_bucket=max(entry.bucket for entry in entries),
            min_level=min(entry.file.level for entry in entries),
            max_level=max(entry.file.level for entry in entries),
        )

    def edit_entries(self, number: int, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
        """Change every entry of a snapshot's delta."""
        name = self.delta(number)
        self.put_entries(name, [change(entry) for entry in self.entries(name)])

    def edit_file(self, file: str, **changes: Any) -> None:
        """Change what every manifest says of a data file."""
        for name in self.manifests():
            entries = self.entries(name)
            changed = [
                replace(entry, file=replace(entry.file, **changes)) if entry.file.file_name == file else entry
                for entry in entries
            ]
            if changed != entries:
                self.put_entries(name, changed)

    def relevel(self, file: str, old: int, new: int) -> None:
        """Make every manifest say that a data file lies at another level, wherever it says ``old``."""
        for name in self.manifests():
            entries = self.entries(name)
            changed = [
                replace(entry, file=entry.file.at_level(new))
                if (entry.file.file_name, entry.file.level) == (file, old)
                else entry
                for entry in entries
            ]
            if changed != entries:
                self.put_entries(name, changed)

    def manifests(self) -> list[str]:
        names = {
            meta.file_name for n in self.snapshots() for one in self.lists(n) for meta in self.metas(one)
        }
        return sorted(names)

    def live(self, number: int) -> Iterator[ManifestEntry]:
        """Yield the entries that are live in a snapshot."""
        entries = [
            e for one in self.lists(number) for meta in self.metas(one) for e in self.entries(meta.file_name)
        ]
        gone = {entry.identity for entry in entries if entry.kind == DELETE}
        yield from (entry for entry in entries if entry.kind == ADD and entry.identity not in gone)

    def at_level(self, number: int, level: int) -> ManifestEntry:
        """Return the one live entry of a level."""
        (entry,) = (entry for entry in self.live(number) if entry.file.level == level)
        return entry

    # --------------------------------------------------------------- vectors

    def index(self, number: int) -> list[IndexManifestEntry]:
        name = self.snapshot(number).index_manifest
        assert name is not None
        return decode_index_manifest((self.root / "manifest" / name).read_bytes(), name)

    def edit_index(self, number: int, change: Callable[[IndexManifestEntry], IndexManifestEntry]) -> None:
        """Rewrite an index manifest, for all snapshots that have it."""
        self.put_index(number, [change(entry) for entry in self.index(number)])

    def put_index(self, number: int, entries: Sequence[IndexManifestEntry]) -> None:
        name = self.snapshot(number).index_manifest
        (self.root / "manifest" / str(name)).write_bytes(encode_index_manifest(entries))

    def put_vectors(self, number: int, vectors: Mapping[str, Sequence[int]]) -> None:
        """Rewrite the one index file of a snapshot, for all snapshots that have it."""
        data, ranges = encode_index({n: DeletionVector.from_positions(p) for n, p in vectors.items()})
        (entry,) = self.index(number)
        self.index_file(number).write_bytes(data)
        new = replace(entry, file_size=len(data), row_count=len(ranges), ranges=ranges)
        self.edit_index(number, lambda _: new)

    def index_file(self, number: int) -> Path:
        (entry,) = self.index(number)
        return self.root / "index" / entry.file_name

    # ------------------------------------------------------------------ data

    def data_file(self, file: str) -> Path:
        (path,) = self.root.rglob(file)
        return path

    def edit_rows(self, file: str, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
        """Rewrite the rows of a data file; of its metadata only the size is made true again.

        ``options``: other ones of `pyarrow.parquet.write_table` than a writer takes.
        """
        path = self.data_file(file)
        with path.open("rb") as source:
            table = pq.read_table(source)
        pq.write_table(change(table), path, **(PARQUET_WRITE_OPTIONS | options))
        self.edit_file(file, file_size=path.stat().st_size)

    def edit_column(self, file: str, column: str, change: Callable[[list[Any]], list[Any]]) -> None:
        def edited(table: pa.Table) -> pa.Table:
            at = table.column_names.index(column)
            field = table.schema.field(at)
            values = pa.array(change(table.column(at).to_pylist()), field.type)
            return table.set_column(at, field.with_nullable(True), values)

        self.edit_rows(file, edited)
