"""A change of an append table: files that go and come, and rows that become deleted by their position.

A part of it names files of the state that its maker read. It is refused if others have removed one of these since, or
deleted a row of it that matters. The vectors of what fits are added to those of the state that the change is committed
on, and written for that state; if another commit is faster, this is done again for the next one.

So a row is never deleted twice, no vector of another commit is lost, and the rows of a compaction are those that are
live when it becomes visible.

Clauses: APP-12 to APP-18, CMT-2, CMT-10, CMT-12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pktable_spec.vocabulary import COMPACT

from pktable.bucket.append_vectors import changed_indexes
from pktable.bucket.append_write import numbered
from pktable.catalog import rules
from pktable.catalog.changes import Conflicts, entry
from pktable.catalog.rules import FileAttempt, FileRule, first_conflict
from pktable.catalog.state import Delta, StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, DELETE, DataFileMeta, ManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.store.new_files import NewFiles


@dataclass(frozen=True)
class FileChanges:
    """Changes of files of an append table, as one snapshot of a kind: OVERWRITE, or COMPACT.

    Of a compaction the changes that fit are committed without the others, of a statement all or none.
    """

    context: TableContext
    states: StateLoader
    kind: str
    changes: Sequence[BucketChange]
    rules: Sequence[tuple[str, FileRule]] = field(default_factory=lambda: rules.FILE_RULES)

    def conflicts(self, state: TableState) -> Conflicts:
        """Return why changes do not fit ``state``, by their numbers. Clauses: APP-15, APP-16, APP-17."""
        found = {}
        known: dict[BucketId, tuple[frozenset[str], Mapping[str, DeletionVector]]] = {}
        for number, change in enumerate(self.changes):
            if change.place.id not in known:
                bucket = self.states.bucket(state, change.place.id)
                names = frozenset(file.file_name for file in bucket.files)
                known[change.place.id] = names, self.context.vectors(bucket)
            conflict = first_conflict(self.rules, FileAttempt(change, *known[change.place.id]))
            if conflict:
                found[number] = conflict
        return found

    def delta(self, state: TableState, refused: Collection[object]) -> Delta | None:
        """Write the vectors after the changes that fit, and return files and DV index files after them.

        Clauses: APP-13, APP-14, APP-18, CMT-2.
        """
        if refused and self.kind != COMPACT:
            return None
        by_bucket: dict[BucketId, list[BucketChange]] = {}
        for number, change in enumerate(self.changes):
            if number not in refused:
                by_bucket.setdefault(change.place.id, []).append(change)
        entries: list[ManifestEntry] = []
        indexes, new, total = dict(state.indexes), NewFiles(), self.context.options.bucket
        try:
            for bucket_id, changes in by_bucket.items():
                bucket = self.states.bucket(state, bucket_id)
                removed = tuple(file for change in changes for file in change.removed)
                deleted = {name: vector for change in changes for name, vector in change.deleted.items()}
                names = frozenset(file.file_name for file in removed)
                left = changed_indexes(self.context, bucket, deleted, names, new)
                indexes.pop(bucket_id, None)
                if left:
                    indexes[bucket_id] = left
                entries += [entry(DELETE, bucket_id, total, file) for file in removed]
                entries += [entry(ADD, bucket_id, total, file) for file in self._added(changes, bucket.files)]
        except BaseException:
            new.remove(self.context.store)
            raise
        if not entries and indexes == state.indexes:
            return None
        return Delta(self.kind, tuple(entries), indexes, state.hashes, created=tuple(new.paths))

    def _added(self, changes: Sequence[BucketChange], live: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        """Return the files that come, new rows numbered above all live ones. Clauses: CMT-10."""
        added = tuple(file for change in changes for file in change.added)
        if self.kind == COMPACT:
            return added
        return numbered(self.context, added, max((file.max_sequence_number for file in live), default=-1) + 1)
