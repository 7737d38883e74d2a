"""Read manifests, and compare each with what the manifest list says about it.

A manifest belongs to many snapshots. If it cannot be read, its error is cached, so that it becomes the same finding
for each of them.

Clauses: CMT-4, META-2, META-3, META-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pktable_spec.errors import CorruptFileError, OutsideTableError

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
from pktable.store.requests import Cache

Entries = dict[tuple[object, ...], ManifestEntry]
"""Entries by their identity, which a DELETE has in common with its ADD."""

KINDS: Final = {ADD: "added", DELETE: "deleted"}

Value = TypeVar("Value")


@dataclass
class CheckedManifests:
    """The files in ``manifest/``. Where one cannot be read, its reader returns None and adds a finding.

    ``requested``: the names of all files that were asked for. ``missing``, ``damaged``: whether one of them was.
    """

    context: TableContext
    findings: Findings
    requested: set[str] = field(default_factory=set)
    missing: bool = False
    damaged: bool = False

    def __post_init__(self) -> None:
        self._known = Cache(1024)
        self._checked: set[str] = set()

    def list_of(self, snapshot: Snapshot, name: str, size: int | None) -> Sequence[ManifestFileMeta] | None:
        """Return the manifests of a list. ``size``: in bytes, as the snapshot states it; None if it does not."""
        read = self._read(name, decode_manifest_list, snapshot.id)
        if read is None:
            return None
        metas, length = read
        if size not in (None, length):
            self.findings.add(
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
            with self.findings.guard("META-12", snapshots=[snapshot.id], file=self.path(meta.file_name)):
                self._compare(snapshot, meta, entries, length)
        return entries

    def index(self, snapshot: Snapshot, name: str) -> Sequence[IndexManifestEntry] | None:
        """Return the entries of an index manifest."""
        read = self._read(name, decode_index_manifest, snapshot.id)
        return None if read is None else read[0]

    def fold(
        self, snapshot: Snapshot, metas: Iterable[ManifestFileMeta], *, one_commit: bool = False
    ) -> tuple[Entries, Entries, int] | None:
        """Return the ADDs without a DELETE, the DELETEs without an ADD, and by how much the record count grows.

        None if a manifest cannot be read. ``one_commit``: whether the manifests are those of a single commit, which
        must not add and delete the same file. Clauses: CMT-4.
        """
        adds: Entries = {}
        deletes: Entries = {}
        rows, complete = 0, True

        def report(entry: ManifestEntry, name: str, found: str) -> None:
            self.findings.add(
                "CMT-4",
                f"entries of {entry.file.file_name}",
                self.path(name),
                expected="each file added once and deleted once",
                found=found,
                snapshots=[snapshot.id],
            )

        for meta in metas:
            entries = self.entries(snapshot, meta)
            complete = complete and entries is not None
            for entry in entries or ():
                known = adds if entry.kind == ADD else deletes
                if entry.identity in known:
                    report(entry, meta.file_name, f"{KINDS[entry.kind]} twice")
                known[entry.identity] = entry
                rows += entry.file.row_count if entry.kind == ADD else -entry.file.row_count
        for identity in adds.keys() & deletes.keys():
            if one_commit:
                report(adds[identity], snapshot.delta_manifest_list, "added and deleted in one snapshot")
            del adds[identity], deletes[identity]
        return (adds, deletes, rows) if complete else None

    def path(self, name: str) -> str:
        return self.context.paths.manifest(name)

    def _read(self, name: str, decode: Callable[..., Value], snapshot: int) -> tuple[Value, int] | None:
        """Return the content of a file and its size in bytes; None, and a finding, if it cannot be read."""
        self.requested.add(name)
        path = self.path(name)

        def load() -> tuple[Value, int] | CorruptFileError:
            try:
                data = self.context.store.read(path)
                return decode(data, at=path), len(data)
            except FileNotFoundError:
                return CorruptFileError("manifest", at=path, expected="a file", found="none")
            except OutsideTableError as error:
                return CorruptFileError("path", at=path, expected="a file in the table", found=error.leads_to)
            except CorruptFileError as error:
                # Kept: without the frames that it passed through, which hold what was unpacked so far.
                error.__context__ = error.__cause__ = None
                return error.with_traceback(None)

        read = self._known.get((name, decode), load)
        if isinstance(read, CorruptFileError):
            self.missing = self.missing or read.found == "none"
            self.damaged = self.damaged or read.found != "none"
            self.findings.damage(read, "META-3", snapshots=[snapshot], file=path)
            return None
        return read

    def _compare(
        self, snapshot: Snapshot, meta: ManifestFileMeta, entries: Sequence[ManifestEntry], length: int
    ) -> None:
        """Compare a manifest with what its list says about it. Clauses: META-12."""

        def expect(what: str, holds: bool, expected: object, found: object) -> None:
            if not holds:
                self.findings.add(
                    "META-12",
                    what,
                    self.path(meta.file_name),
                    expected=expected,
                    found=found,
                    snapshots=[snapshot.id],
                )

        expect("size of the manifest", meta.file_size == length, meta.file_size, length)
        for what, kind, stated in (
            ("added files", ADD, meta.num_added_files),
            ("deleted files", DELETE, meta.num_deleted_files),
        ):
            count = sum(entry.kind == kind for entry in entries)
            expect(what, count == stated, stated, count)
        newest = max((entry.file.schema_id for entry in entries), default=0)
        expect("schema id", newest <= meta.schema_id, f"at most {meta.schema_id}", newest)
        spans: tuple[tuple[str, Any, Any, list[int]], ...] = (
            ("buckets", meta.min_bucket, meta.max_bucket, [entry.bucket for entry in entries]),
            ("levels", meta.min_level, meta.max_level, [entry.file.level for entry in entries]),
        )
        for what, low, high, values in spans:
            outside = [value for value in values if _outside(value, low, high)]
            expect(what, not outside, f"{low} to {high}", _first(outside))
        fields = self.context.schema.partition_fields
        types = [one.type for one in fields]
        distinct = {entry.partition for entry in entries}
        rows = [decode_row(row, types, at=self.path(meta.file_name)) for row in distinct]
        bounds = decode_stats(meta.partition_stats, types, at=self.path(meta.file_name)) if types else ()
        for i, (low, high, _) in enumerate(bounds):
            strange = [row[i] for row in rows if row[i] is not None and _outside(row[i], low, high)]
            expect(f"partitions by {fields[i].name}", not strange, f"{low!r} to {high!r}", _first(strange))


def _first(values: Sequence[Any]) -> str:
    """Return the first few values as text."""
    return ", ".join(map(repr, values[:3]))


def _outside(value: Any, low: Any, high: Any) -> bool:
    return (low is not None and value < low) or (high is not None and value > high)
