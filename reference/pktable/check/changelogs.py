"""Gather the changelog files of the retained snapshots, by bucket, so that they are checked with the bucket.

A tag keeps the rows of an expired snapshot and not its changes, so nothing is expected of a tag. A branch may have
begun with one.

Clauses: CHG-1, CHG-2, CHG-14, CHG-37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pktable.check.findings import Findings
from pktable.check.manifests import CheckedManifests
from pktable.check.readable_snapshots import ReadableSnapshot
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, ManifestEntry
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId


@dataclass(frozen=True, slots=True)
class ChangelogFile:
    """A changelog file, and the id of the snapshot that names it."""

    snapshot: int
    entry: ManifestEntry


@dataclass
class Changelogs:
    """The changelog files found so far."""

    context: TableContext
    manifests: CheckedManifests
    findings: Findings
    _found: dict[BucketId, list[ChangelogFile]] = field(default_factory=dict)

    def follow(self, current: ReadableSnapshot) -> None:
        """Add the changelog files of a snapshot that is retained, or of which there is a copy.

        Clauses: CHG-1, CHG-2, CHG-17, CHG-37.
        """
        snapshot = current.snapshot
        name = snapshot.changelog_manifest_list
        paths = self.context.paths
        if name is None or current.path not in (paths.snapshot(snapshot.id), paths.changelog(snapshot.id)):
            return
        if current.begins_branch and self._has_gone(snapshot, name):
            return
        metas = self.manifests.list_of(snapshot, name, snapshot.changelog_manifest_list_size)
        read = [self.manifests.entries(snapshot, meta) for meta in metas or ()]
        entries = [entry for one in read for entry in one or ()]
        if metas is None or None in read:
            return
        for entry in entries:
            if entry.kind != ADD:
                self._report(current, "CHG-1", f"entries of {entry.file.file_name}", "ADD", "DELETE")
            self._found.setdefault((entry.partition, entry.bucket), []).append(
                ChangelogFile(snapshot.id, entry)
            )
        records = sum(entry.file.row_count for entry in entries)
        if snapshot.changelog_record_count not in (None, records):
            stated = snapshot.changelog_record_count
            self._report(current, "CHG-2", "changelog record count", records, stated)

    def _has_gone(self, snapshot: Snapshot, name: str) -> bool:
        """Return whether something of a changelog is missing. ``name``: of its manifest list."""
        quiet = CheckedManifests(self.context, Findings(self.context.root))
        metas = quiet.list_of(snapshot, name, None) or ()
        entries = [entry for meta in metas for entry in quiet.entries(snapshot, meta) or ()]
        places = ((self.context.place(one.partition, one.bucket), one.file) for one in entries)
        exists = self.context.store.exists
        return quiet.missing or not all(exists(self.context.data_path(*place)) for place in places)

    def by_bucket(self) -> Mapping[BucketId, tuple[ChangelogFile, ...]]:
        return {bucket_id: tuple(files) for bucket_id, files in self._found.items()}

    def _report(
        self, current: ReadableSnapshot, clause: str, what: str, expected: object, found: object
    ) -> None:
        self.findings.add(clause, what, current.path, expected=expected, found=found, snapshots=[current.id])
