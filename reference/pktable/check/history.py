"""Follow a table from snapshot to snapshot, and give the versions of every bucket.

1. The first snapshot is folded from all of its manifests.
2. For each following snapshot only two differences are folded: its delta list, which gives the changes, and those
   manifests of its base list that differ from the snapshot before. Commits merge manifests, so the base list may name
   others, but they must amount to the same entries (CMT-5).
3. If a snapshot is missing or cannot be read, the next one begins with step 1 again.
4. A bucket gets a new version whenever its files, its index files or its deletion vectors option change.

Clauses: APP-11, APP-24, BKT-3, CMT-4, CMT-5, CMT-6, CMP-10, DV-16, META-11, TBL-3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pktable_spec.options import TableOptions
from pktable_spec.vocabulary import APPEND, DELETION_VECTORS, HASH

from pktable.check.changelogs import ChangelogFile, Changelogs
from pktable.check.findings import NOTE, Findings, counted
from pktable.check.manifests import CheckedManifests, Entries
from pktable.check.readable_snapshots import ReadableSnapshot
from pktable.context import INDEX_FILES, TableContext
from pktable.format.metadata.manifest import IndexManifestEntry, ManifestEntry, ManifestFileMeta
from pktable.format.paths import BUCKET, GREATEST
from pktable.lsm.bucket import BucketId, BucketPath

SECONDS: Final = range(10**9, 10**10)
"""The times from 2001 to 2286 in seconds."""


@dataclass(frozen=True, slots=True)
class Version:
    """A bucket as it is in consecutive ``snapshots`` (ids, ascending; none as long as it may have more).

    ``first``: how many snapshots were followed before these. ``entries``: of its live files. ``indexes``: the entries
    of its DV index files. ``hashes``: that of its hash index file, None if it has none. ``vectors_known``: False if the
    index manifest cannot be read. ``vectors_enabled``: whether the schema of these snapshots enables deletion vectors.
    ``apart``: the first of them stands apart, and was not made from the version before.
    """

    first: int
    snapshots: tuple[int, ...]
    entries: tuple[ManifestEntry, ...]
    indexes: tuple[IndexManifestEntry, ...]
    hashes: IndexManifestEntry | None
    vectors_known: bool
    vectors_enabled: bool
    apart: bool


@dataclass(frozen=True, slots=True)
class BucketHistory:
    """A bucket and all its versions, oldest first. ``changelog``: its changelog files."""

    place: BucketPath
    partition: str
    versions: tuple[Version, ...]
    changelog: tuple[ChangelogFile, ...] = ()


@dataclass
class History:
    """Follows the snapshots of a table, oldest first, and records the versions of each bucket.

    ``options``: by schema id. ``index_files``: the paths of all index files that the snapshots name, of any type.
    """

    context: TableContext
    options: Mapping[int, TableOptions]
    manifests: CheckedManifests
    findings: Findings
    index_files: set[str] = field(default_factory=set)
    _ids: list[int] = field(default_factory=list)
    _closed: dict[BucketId, list[Version]] = field(default_factory=dict)
    _open: dict[BucketId, Version] = field(default_factory=dict)
    _live: dict[BucketId, Entries] = field(default_factory=dict)
    _indexes: dict[BucketId, tuple[IndexManifestEntry, ...]] | None = field(default_factory=dict)
    _hashes: dict[BucketId, IndexManifestEntry] = field(default_factory=dict)
    _index_manifest: str | None = None
    _vectors_enabled: bool | None = None
    _rows: int = 0
    _previous: tuple[int, Sequence[ManifestFileMeta]] | None = None

    def __post_init__(self) -> None:
        self._changelogs = Changelogs(self.context, self.manifests, self.findings)

    def follow_changelog(self, current: ReadableSnapshot) -> None:
        """Add the changelog files alone of an expired snapshot. Clauses: CHG-17."""
        self._changelogs.follow(current)

    def follow(self, current: ReadableSnapshot) -> None:
        """Add the next snapshot."""
        snapshot = current.snapshot
        self._expect_schema(current)
        self._expect_milliseconds(current)
        self._changelogs.follow(current)
        base = self.manifests.list_of(snapshot, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self.manifests.list_of(
            snapshot, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        before, self._previous = None if current.apart else self._previous, None
        if base is None or delta is None:
            return
        touched = self._changed(current, before, base, delta)
        continued = touched is not None
        if touched is None:
            touched = self._begin(current, [*base, *delta])
        if touched is None:
            return
        self._previous = (current.id, (*base, *delta))
        self._expect_count(current, "total record count", snapshot.total_record_count, self._rows)
        touched |= self._follow_indexes(current, continued=continued)
        enabled = self.options.get(snapshot.schema_id, self.context.options).deletion_vectors_enabled
        if enabled != self._vectors_enabled:
            self._vectors_enabled = enabled
            touched |= self._live.keys()
        self._begin_versions(touched, enabled, current.apart)
        self._ids.append(current.id)

    def buckets(self) -> list[BucketHistory]:
        """Return every bucket, by partition and number. To be called once, after the last snapshot."""
        for identity in list(self._open):
            self._close(identity)
        buckets = []
        changelog = self._changelogs.by_bucket()
        for partition, number in sorted(self._closed.keys() | changelog.keys()):
            versions = self._closed.get((partition, number), ())
            logged = changelog.get((partition, number), ())
            with self.findings.guard("META-4", file=self.context.paths.manifests):
                place = self.context.place(partition, number)
                directory = place.directory.removeprefix(self.context.root + "/").rpartition(BUCKET)[0]
                buckets.append(BucketHistory(place, directory.rstrip("/"), tuple(versions), logged))
        return buckets

    # ---------------------------------------------------------------- files

    def _changed(
        self,
        current: ReadableSnapshot,
        before: tuple[int, Sequence[ManifestFileMeta]] | None,
        base: Sequence[ManifestFileMeta],
        delta: Sequence[ManifestFileMeta],
    ) -> set[BucketId] | None:
        """Apply the snapshot's changes to the state before it, and return the buckets they touch.

        None, and the state is as before, if the previous snapshot is missing, was not readable or differs.
        ``before``: the id and the manifests of the previous snapshot.
        """
        if before is None or current.id != before[0] + 1:
            return None
        changes = self.manifests.fold(current.snapshot, delta, one_commit=True)
        if changes is None or not self._same_content(current, before[1], base):
            return None
        adds, deletes, rows = changes
        self._expect_count(current, "delta record count", current.snapshot.delta_record_count, rows)
        self._expect_only_levels_change(current, adds, deletes)
        self._expect_next_row_id(current, adds)
        for identity, entry in deletes.items():
            live = self._live.get((entry.partition, entry.bucket), {})
            if live.pop(identity, None) is None:
                self._report_entry(current, entry, "each deleted file to be live", "a DELETE without an ADD")
            else:
                self._rows -= entry.file.row_count
        for identity, entry in adds.items():
            live = self._live.setdefault((entry.partition, entry.bucket), {})
            if identity in live:
                self._report_entry(current, entry, "each file added once", "an ADD of a live file")
            else:
                self._rows += entry.file.row_count
                live[identity] = entry
        return {(entry.partition, entry.bucket) for entry in (*adds.values(), *deletes.values())}

    def _same_content(
        self, current: ReadableSnapshot, before: Sequence[ManifestFileMeta], base: Sequence[ManifestFileMeta]
    ) -> bool:
        """Return whether a base list amounts to the entries of the previous snapshot. Clauses: CMT-5."""
        old, new = {meta.file_name for meta in before}, {meta.file_name for meta in base}
        if old == new:
            return True
        gone = self.manifests.fold(current.snapshot, [meta for meta in before if meta.file_name not in new])
        come = self.manifests.fold(current.snapshot, [meta for meta in base if meta.file_name not in old])
        if gone is None or come is None:
            return False
        if gone[:2] == come[:2]:
            return True
        differing = sum(
            len(one.items() ^ other.items()) for one, other in zip(gone[:2], come[:2], strict=True)
        )
        self.findings.add(
            "CMT-5",
            "base manifest list",
            self.manifests.path(current.snapshot.base_manifest_list),
            expected=f"the files of snapshot {current.id - 1}",
            found=f"a difference of {counted(differing, 'entry', 'entries')}",
            snapshots=[current.id],
        )
        return False

    def _begin(self, current: ReadableSnapshot, metas: Sequence[ManifestFileMeta]) -> set[BucketId] | None:
        """Begin again with the snapshot's own manifests, and return all buckets before and after."""
        folded = self.manifests.fold(current.snapshot, metas)
        if folded is None:
            return None
        adds, deletes, self._rows = folded
        self._expect_next_row_id(current, adds)
        for entry in deletes.values():
            self._report_entry(current, entry, "each deleted file to be live", "a DELETE without an ADD")
            self._rows += entry.file.row_count
        touched = set(self._live)
        self._live = {}
        for identity, entry in adds.items():
            self._live.setdefault((entry.partition, entry.bucket), {})[identity] = entry
        return touched | set(self._live)

    def _report_entry(
        self, current: ReadableSnapshot, entry: ManifestEntry, expected: str, found: str
    ) -> None:
        self.findings.add(
            "CMT-4",
            f"entries of {entry.file.file_name}",
            current.path,
            expected=expected,
            found=found,
            snapshots=[current.id],
        )

    def _expect_only_levels_change(self, current: ReadableSnapshot, adds: Entries, deletes: Entries) -> None:
        """Expect a file that is deleted and added again to have another level and the same metadata otherwise.

        Clauses: CMP-10.
        """
        gone = {entry.file.file_name: entry for entry in deletes.values()}
        for entry in adds.values():
            old = gone.get(entry.file.file_name)
            if old is not None and (old.partition, old.bucket) == (entry.partition, entry.bucket):
                if old.file.at_level(entry.file.level) == entry.file:
                    continue
                self.findings.add(
                    "CMP-10",
                    f"upgrade of {entry.file.file_name}",
                    current.path,
                    expected="the level alone to change",
                    found="other changed metadata",
                    snapshots=[current.id],
                )

    def _expect_next_row_id(self, current: ReadableSnapshot, adds: Entries) -> None:
        """Expect the next row id to be greater than all ids of added files. A commit gives it. Clauses: APP-24."""
        files = [entry.file for entry in adds.values()]
        ends = [one.first_row_id + one.row_count for one in files if one.first_row_id is not None]
        end = max((one for one in ends if one <= GREATEST), default=0)
        found = current.snapshot.next_row_id
        if (found or 0) < end:
            self.findings.add(
                "APP-24",
                "next row id",
                current.path,
                expected=f"at least {end}, behind the ids of the files",
                found="null" if found is None else found,
                snapshots=[current.id],
            )

    # -------------------------------------------------------------- vectors

    def _follow_indexes(self, current: ReadableSnapshot, *, continued: bool) -> set[BucketId]:
        """Add the index manifest, and return the buckets whose index files changed. Clauses: BKT-3, CMT-6, DV-16."""
        name = current.snapshot.index_manifest
        before, hashes = self._indexes, self._hashes
        if name == self._index_manifest and before is not None:
            return set()
        self._index_manifest = name
        entries = self.manifests.index(current.snapshot, name) if name is not None else ()
        if entries is None:
            self._indexes = None
            return set(self._live)
        self._indexes, self._hashes = {}, {}
        for entry in entries:
            self.index_files.add(self.context.index_path(entry))
            identity = entry.partition, entry.bucket
            if entry.index_type == HASH:
                first = self._hashes.setdefault(identity, entry)
                if first is not entry:
                    self._report_second("BKT-3", first, entry, current)
            if entry.index_type != DELETION_VECTORS:
                continue
            entry = replace(entry, ranges=entry.ranges or ())  # pypaimon makes null of an empty list
            others = self._indexes.get(identity, ())
            if not others or self.context.has_unaware_buckets:
                self._indexes[identity] = (*others, entry)
            else:
                self._report_second("DV-16", others[0], entry, current)
        if before is None:
            return {*self._live, *self._indexes, *self._hashes}
        grown = {one for one in {*hashes, *self._hashes} if hashes.get(one) != self._hashes.get(one)}
        changed = {one for one in {*before, *self._indexes} if before.get(one) != self._indexes.get(one)}
        if changed and continued and current.snapshot.commit_kind == APPEND:
            self.findings.add(
                "CMT-6",
                "index manifest of an APPEND",
                current.path,
                expected=f"the DV index files of snapshot {current.id - 1}",
                found=f"others in {counted(len(changed), 'bucket')}",
                snapshots=[current.id],
            )
        return changed | grown

    def _report_second(
        self, clause: str, first: IndexManifestEntry, second: IndexManifestEntry, current: ReadableSnapshot
    ) -> None:
        """Report two index files of a type in one bucket."""
        self.findings.add(
            clause,
            f"{INDEX_FILES[second.index_type]}s of bucket {second.bucket}",
            self.manifests.path(str(current.snapshot.index_manifest)),
            expected="one",
            found=f"{first.file_name} and {second.file_name}",
            snapshots=[current.id],
        )

    # ------------------------------------------------------------- versions

    def _begin_versions(self, touched: Iterable[BucketId], enabled: bool, apart: bool) -> None:
        """Begin a new version of each bucket that changed."""
        known = self._indexes is not None
        for identity in touched:
            entries = tuple(self._live.get(identity, {}).values())
            indexes = (self._indexes or {}).get(identity, ())
            hashes = self._hashes.get(identity)
            new = Version(len(self._ids), (), entries, indexes, hashes, known, enabled, apart)
            old = self._open.get(identity)
            if old is not None and replace(old, first=new.first, apart=apart) == new:
                continue
            self._close(identity)
            if entries or indexes or hashes:
                self._open[identity] = new

    def _close(self, identity: BucketId) -> None:
        old = self._open.pop(identity, None)
        if old is not None:
            version = replace(old, snapshots=tuple(self._ids[old.first :]))
            self._closed.setdefault(identity, []).append(version)

    # ------------------------------------------------------------ snapshots

    def _expect_schema(self, current: ReadableSnapshot) -> None:
        if current.snapshot.schema_id not in self.options:
            self.findings.add(
                "META-1",
                "schema",
                self.context.paths.schema(current.snapshot.schema_id),
                expected="a readable schema file",
                found="none",
                snapshots=[current.id],
            )

    def _expect_milliseconds(self, current: ReadableSnapshot) -> None:
        """Note a time that is a likely one in seconds, and as milliseconds in the spring of 1970. Clauses: META-2."""
        if current.snapshot.time_millis in SECONDS:
            self.findings.add(
                "META-2",
                "timeMillis",
                current.path,
                expected="milliseconds since 1970",
                found=f"{current.snapshot.time_millis}, which may be seconds",
                snapshots=[current.id],
                severity=NOTE,
            )

    def _expect_count(self, current: ReadableSnapshot, what: str, stated: int, counted: int) -> None:
        """Expect a count that the snapshot states to be true. Clauses: META-11."""
        if stated != counted:
            self.findings.add(
                "META-11", what, current.path, expected=counted, found=stated, snapshots=[current.id]
            )
