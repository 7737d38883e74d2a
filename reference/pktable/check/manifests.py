"""Read manifests and hold each against what the list that names it says of it.

A manifest that cannot be read is met again and again, once for every snapshot that has it; what it raised is
remembered, so that each time it becomes the same finding.

Clauses: CMT-4, META-2, META-3, META-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pktable_spec.errors import CorruptFileError

from pktable.check.findings import Findings
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import (
    ADD,
    DELETE,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.metadata.stats import decode_stats
from pktable.store.cache import Cache

Entries = dict[tuple[object, ...], ManifestEntry]
"""Entries by what a DELETE and its ADD have in common."""

Value = TypeVar("Value")


@dataclass
class CheckedManifests:
    """The directory ``manifest/``. None stands for what cannot be read.

    ``met``: the names of all that was asked for. ``missing``, ``damaged``: whether some of it was so.
    """

    context: TableContext
    found: Findings
    met: set[str] = field(default_factory=set)
    missing: bool = False
    damaged: bool = False

    def __post_init__(self) -> None:
        self._known = Cache(1024)
        self._checked: set[str] = set()

    def list_of(self, snapshot: Snapshot, name: str, size: int | None) -> Sequence[ManifestFileMeta] | None:
        """Return the manifests of a list. ``size``: in bytes, as the snapshot says, where it does."""
        read = self._read(name, decode_manifest_list, snapshot.id)
        if read is None:
            return None
        metas, length = read
        if size not in (None, length):
            self.found.add(
                "META-2",
                "size of the manifest list",
                self.path(name),
                expected=size,
                found=length,
                snapshots=[snapshot.id],
            )
        return metas

    def entries(self, snapshot: Snapshot, meta: ManifestFileMeta) -> Sequence[ManifestEntry] | None:
        """Return the entries of a manifest."""
        read = self._read(meta.file_name, decode_manifest, snapshot.id)
        if read is None:
            return None
        entries, length = read
        if meta.file_name not in self._checked:
            self._checked.add(meta.file_name)
            with self.found.guard("META-12", snapshots=[snapshot.id], file=self.path(meta.file_name)):
                self._hold(snapshot, meta, entries, length)
        return entries

    def index(self, snapshot: Snapshot, name: str) -> Sequence[IndexManifestEntry] | None:
        """Return the entries of an index manifest."""
        read = self._read(name, decode_index_manifest, snapshot.id)
        return None if read is None else read[0]

    def fold(
        self, snapshot: Snapshot, metas: Iterable[ManifestFileMeta], *, one_commit: bool = False
    ) -> tuple[Entries, Entries, int] | None:
        """Return the ADDs without DELETE, the DELETEs without ADD, and the records added; None if unreadable.

        ``one_commit``: the manifests are of one, which has no business with a file it adds and deletes.
        Clauses: CMT-4.
        """
        adds: Entries = {}
        deletes: Entries = {}
        rows, whole = 0, True

        def odd(entry: ManifestEntry, name: str, found: str) -> None:
            self.found.add(
                "CMT-4",
                f"entries of {entry.file.file_name}",
                self.path(name),
                expected="each file added and deleted once",
                found=found,
                snapshots=[snapshot.id],
            )

        for meta in metas:
            entries = self.entries(snapshot, meta)
            whole = whole and entries is not None
            for entry in entries or ():
                known = adds if entry.kind == ADD else deletes
                if entry.identity in known:
                    odd(entry, meta.file_name, "twice")
                known[entry.identity] = entry
                rows += entry.file.row_count if entry.kind == ADD else -entry.file.row_count
        for identity in adds.keys() & deletes.keys():
            if one_commit:
                odd(adds[identity], snapshot.delta_manifest_list, "both in one snapshot")
            del adds[identity], deletes[identity]
        return (adds, deletes, rows) if whole else None

    def path(self, name: str) -> str:
        return self.context.paths.manifest(name)

    def _read(self, name: str, decode: Callable[..., Value], snapshot: int) -> tuple[Value, int] | None:
        """Return what a file holds and its size in bytes, or None and a finding."""
        self.met.add(name)
        path = self.path(name)

        def load() -> tuple[Value, int] | CorruptFileError:
            try:
                data = self.context.store.read(path)
                return decode(data, at=path), len(data)
            except FileNotFoundError:
                return CorruptFileError("manifest", at=path, expected="a file", found="none")
            except CorruptFileError as error:
                return error

        read = self._known.get(name, load)
        if isinstance(read, CorruptFileError):
            self.missing = self.missing or read.found == "none"
            self.damaged = self.damaged or read.found != "none"
            self.found.damage(read, "META-3", snapshots=[snapshot], file=path)
            return None
        return read

    def _hold(
        self, snapshot: Snapshot, meta: ManifestFileMeta, entries: Sequence[ManifestEntry], length: int
    ) -> None:
        """Compare a manifest with what its list says of it. Clauses: META-12."""

        def expect(what: str, holds: bool, expected: object, found: object) -> None:
            if not holds:
                self.found.add(
                    "META-12",
                    what,
                    self.path(meta.file_name),
                    expected=expected,
                    found=found,
                    snapshots=[snapshot.id],
                )

        expect("size of the manifest", meta.file_size == length, meta.file_size, length)
        for what, kind, told in (
            ("added files", ADD, meta.num_added_files),
            ("deleted files", DELETE, meta.num_deleted_files),
        ):
            count = sum(entry.kind == kind for entry in entries)
            expect(what, count == told, told, count)
        newest = max((entry.file.schema_id for entry in entries), default=0)
        expect("schema id", newest <= meta.schema_id, f"at most {meta.schema_id}", newest)
        spans: tuple[tuple[str, Any, Any, list[int]], ...] = (
            ("buckets", meta.min_bucket, meta.max_bucket, [entry.bucket for entry in entries]),
            ("levels", meta.min_level, meta.max_level, [entry.file.level for entry in entries]),
        )
        for what, low, high, values in spans:
            outside = [value for value in values if _outside(value, low, high)]
            expect(what, not outside, f"{low} to {high}", outside[:3])
        fields = self.context.schema.partition_fields
        types = [one.type for one in fields]
        distinct = {entry.partition for entry in entries}
        rows = [decode_row(row, types, at=self.path(meta.file_name)) for row in distinct]
        bounds = decode_stats(meta.partition_stats, types, at=self.path(meta.file_name)) if types else ()
        for i, (low, high, _) in enumerate(bounds):
            strange = [row[i] for row in rows if row[i] is not None and _outside(row[i], low, high)]
            expect(f"partitions by {fields[i].name}", not strange, f"{low!r} to {high!r}", strange[:3])


def _outside(value: Any, low: Any, high: Any) -> bool:
    return (low is not None and value < low) or (high is not None and value > high)
