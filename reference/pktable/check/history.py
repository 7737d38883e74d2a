"""The versions of every bucket, from snapshot to snapshot.

The manifests of a snapshot are not folded anew each time: what the snapshot before it had is carried on, and
only the manifests that differ are looked at. A base list that merged some manifests into others must come to
the same as they did. Where a snapshot is missing or cannot be read, the next begins with all of its own.

Clauses: CMT-4, CMT-5, CMT-6, CMP-10, DV-5, META-11, TBL-3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pktable_spec.options import TableOptions
from pktable_spec.vocabulary import APPEND, DELETION_VECTORS

from pktable.check.findings import Findings
from pktable.check.heads import Head
from pktable.check.manifests import CheckedManifests, Entries
from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry, ManifestEntry, ManifestFileMeta
from pktable.format.paths import BUCKET
from pktable.lsm.bucket import BucketId, BucketPath


@dataclass(frozen=True, slots=True)
class Version:
    """A bucket as it is in some consecutive ``snapshots`` (ids, ascending).

    ``index``: of its vectors. ``vectors_known``: False where the index manifest could not be read.
    ``vectors_enabled``: whether the schema of these snapshots has deletion vectors.
    """

    snapshots: tuple[int, ...]
    entries: tuple[ManifestEntry, ...]
    index: IndexManifestEntry | None
    vectors_known: bool
    vectors_enabled: bool


@dataclass(frozen=True, slots=True)
class BucketHistory:
    """A bucket and all its versions, oldest first."""

    place: BucketPath
    partition: str
    versions: tuple[Version, ...]


@dataclass(slots=True)
class _Open:
    """The version of a bucket that has not ended yet, from the head of that ordinal on."""

    first: int
    entries: tuple[ManifestEntry, ...]
    index: IndexManifestEntry | None
    vectors_known: bool
    vectors_enabled: bool


@dataclass
class History:
    """Follows the heads of a table, oldest first, and remembers what each bucket was.

    ``options``: by schema id. ``index_files``: paths of all index files met, of whatever type.
    """

    context: TableContext
    options: Mapping[int, TableOptions]
    manifests: CheckedManifests
    found: Findings
    index_files: set[str] = field(default_factory=set)
    _ids: list[int] = field(default_factory=list)
    _closed: dict[BucketId, list[Version]] = field(default_factory=dict)
    _open: dict[BucketId, _Open] = field(default_factory=dict)
    _live: dict[BucketId, Entries] = field(default_factory=dict)
    _indexes: dict[BucketId, IndexManifestEntry] | None = field(default_factory=dict)
    _index_manifest: str | None = None
    _vectors_enabled: bool | None = None
    _rows: int = 0
    _previous: tuple[int, Sequence[ManifestFileMeta]] | None = None

    def follow(self, head: Head) -> None:
        """Take in the next head."""
        snapshot = head.snapshot
        self._expect_schema(head)
        base = self.manifests.list_of(snapshot, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self.manifests.list_of(
            snapshot, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        before, self._previous = self._previous, None
        if base is None or delta is None:
            return
        touched = self._carried_on(head, before, base, delta)
        carried_on = touched is not None
        if touched is None:
            touched = self._begun(head, [*base, *delta])
        if touched is None:
            return
        self._previous = (head.id, (*base, *delta))
        self._expect_count(head, "total record count", snapshot.total_record_count, self._rows)
        touched |= self._follow_indexes(head, carried_on=carried_on)
        enabled = self.options.get(snapshot.schema_id, self.context.options).deletion_vectors_enabled
        if enabled != self._vectors_enabled:
            self._vectors_enabled = enabled
            touched |= self._live.keys()
        self._note_versions(touched, enabled)
        self._ids.append(head.id)

    def buckets(self) -> list[BucketHistory]:
        """Return every bucket met, by partition and number. To be called once, after the last head."""
        for identity in list(self._open):
            self._close(identity)
        found = []
        for (partition, number), versions in sorted(self._closed.items()):
            with self.found.guard("META-4", file=self.context.paths.manifests):
                place = self.context.place(partition, number)
                directory = place.directory.removeprefix(self.context.root + "/").rpartition(BUCKET)[0]
                found.append(BucketHistory(place, directory.rstrip("/"), tuple(versions)))
        return found

    # ---------------------------------------------------------------- files

    def _carried_on(
        self,
        head: Head,
        before: tuple[int, Sequence[ManifestFileMeta]] | None,
        base: Sequence[ManifestFileMeta],
        delta: Sequence[ManifestFileMeta],
    ) -> set[BucketId] | None:
        """Change the state before into this head's; return the buckets touched, None if that cannot be done."""
        if before is None or head.id != before[0] + 1:
            return None
        changes = self.manifests.fold(head.snapshot, delta, one_commit=True)
        if changes is None or not self._same_content(head, before[1], base):
            return None
        adds, deletes, rows = changes
        self._expect_count(head, "delta record count", head.snapshot.delta_record_count, rows)
        self._expect_only_levels_change(head, adds, deletes)
        for identity, entry in deletes.items():
            live = self._live.get((entry.partition, entry.bucket), {})
            if live.pop(identity, None) is None:
                self._odd_entry(head, entry, "an ADD before each DELETE", "DELETE alone")
            else:
                self._rows -= entry.file.row_count
        for identity, entry in adds.items():
            live = self._live.setdefault((entry.partition, entry.bucket), {})
            if identity in live:
                self._odd_entry(head, entry, "each file added once", "ADD of a live file")
            else:
                self._rows += entry.file.row_count
                live[identity] = entry
        return {(entry.partition, entry.bucket) for entry in (*adds.values(), *deletes.values())}

    def _same_content(
        self, head: Head, before: Sequence[ManifestFileMeta], base: Sequence[ManifestFileMeta]
    ) -> bool:
        """Whether a base list comes to what the snapshot before had. Clauses: CMT-5."""
        old, new = {meta.file_name for meta in before}, {meta.file_name for meta in base}
        if old == new:
            return True
        gone = self.manifests.fold(head.snapshot, [meta for meta in before if meta.file_name not in new])
        come = self.manifests.fold(head.snapshot, [meta for meta in base if meta.file_name not in old])
        if gone is None or come is None:
            return False
        if gone[:2] == come[:2]:
            return True
        differing = sum(
            len(one.items() ^ other.items()) for one, other in zip(gone[:2], come[:2], strict=True)
        )
        self.found.add(
            "CMT-5",
            "base manifest list",
            self.manifests.path(head.snapshot.base_manifest_list),
            expected=f"the files of snapshot {head.id - 1}",
            found=f"{differing} entries differ",
            snapshots=[head.id],
        )
        return False

    def _begun(self, head: Head, metas: Sequence[ManifestFileMeta]) -> set[BucketId] | None:
        """Take this head's own manifests for the state; return all buckets before and after."""
        folded = self.manifests.fold(head.snapshot, metas)
        if folded is None:
            return None
        adds, deletes, self._rows = folded
        for entry in deletes.values():
            self._odd_entry(head, entry, "an ADD before each DELETE", "DELETE alone")
            self._rows += entry.file.row_count
        touched = set(self._live)
        self._live = {}
        for identity, entry in adds.items():
            self._live.setdefault((entry.partition, entry.bucket), {})[identity] = entry
        return touched | set(self._live)

    def _odd_entry(self, head: Head, entry: ManifestEntry, expected: str, found: str) -> None:
        self.found.add(
            "CMT-4",
            f"entries of {entry.file.file_name}",
            head.path,
            expected=expected,
            found=found,
            snapshots=[head.id],
        )

    def _expect_only_levels_change(self, head: Head, adds: Entries, deletes: Entries) -> None:
        """A file that is deleted and added again has another level and nothing else. Clauses: CMP-10."""
        gone = {entry.file.file_name: entry for entry in deletes.values()}
        for entry in adds.values():
            old = gone.get(entry.file.file_name)
            if old is not None and (old.partition, old.bucket) == (entry.partition, entry.bucket):
                if old.file.at_level(entry.file.level) == entry.file:
                    continue
                self.found.add(
                    "CMP-10",
                    f"upgrade of {entry.file.file_name}",
                    head.path,
                    expected="another level and nothing else",
                    found="other metadata",
                    snapshots=[head.id],
                )

    # -------------------------------------------------------------- vectors

    def _follow_indexes(self, head: Head, *, carried_on: bool) -> set[BucketId]:
        """Take in the index manifest; return the buckets whose index of vectors changed. Clauses: CMT-6, DV-5."""
        name = head.snapshot.index_manifest
        before = self._indexes
        if name == self._index_manifest and before is not None:
            return set()
        self._index_manifest = name
        entries = self.manifests.index(head.snapshot, name) if name is not None else ()
        if entries is None:
            self._indexes = None
            return set(self._live)
        self._indexes = {}
        for entry in entries:
            self.index_files.add(self.context.index_path(entry))
            if entry.index_type != DELETION_VECTORS:
                continue
            identity = entry.partition, entry.bucket
            other = self._indexes.setdefault(identity, entry)
            if other is not entry:
                self.found.add(
                    "DV-5",
                    f"indexes of vectors of bucket {entry.bucket}",
                    self.manifests.path(str(name)),
                    expected="one",
                    found=f"{other.file_name} and {entry.file_name}",
                    snapshots=[head.id],
                )
        if before is None:
            return {*self._live, *self._indexes}
        changed = {one for one in {*before, *self._indexes} if before.get(one) != self._indexes.get(one)}
        if changed and carried_on and head.snapshot.commit_kind == APPEND:
            self.found.add(
                "CMT-6",
                "index manifest of an APPEND",
                head.path,
                expected=f"the vectors of snapshot {head.id - 1}",
                found=f"other ones in {len(changed)} buckets",
                snapshots=[head.id],
            )
        return changed

    # ------------------------------------------------------------- versions

    def _note_versions(self, touched: Iterable[BucketId], enabled: bool) -> None:
        known = self._indexes is not None
        for identity in touched:
            entries = tuple(self._live.get(identity, {}).values())
            index = (self._indexes or {}).get(identity)
            new = _Open(len(self._ids), entries, index, known, enabled)
            old = self._open.get(identity)
            if old is not None and replace(old, first=new.first) == new:
                continue
            self._close(identity)
            if entries or index is not None:
                self._open[identity] = new

    def _close(self, identity: BucketId) -> None:
        old = self._open.pop(identity, None)
        if old is not None:
            version = Version(
                tuple(self._ids[old.first :]), old.entries, old.index, old.vectors_known, old.vectors_enabled
            )
            self._closed.setdefault(identity, []).append(version)

    # ------------------------------------------------------------ snapshots

    def _expect_schema(self, head: Head) -> None:
        if head.snapshot.schema_id not in self.options:
            self.found.add(
                "META-1",
                "schema",
                self.context.paths.schema(head.snapshot.schema_id),
                expected="a file that decodes",
                found="none",
                snapshots=[head.id],
            )

    def _expect_count(self, head: Head, what: str, told: int, counted: int) -> None:
        """Clauses: META-11."""
        if told != counted:
            self.found.add("META-11", what, head.path, expected=counted, found=told, snapshots=[head.id])
