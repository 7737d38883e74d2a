"""Compactions, and statements on append tables, whose files exist and are not visible yet.

1. A change is staged on a state: its files are made, and it knows what it would do to that state.
2. `catalog.commit` makes it visible. Where others were faster, it is planned again on the latest state.

Each change plans other parts again. A compaction plans the buckets that others have changed (CMT-14). A
statement is computed again if others have changed rows that it read (STM-6, APP-17). A write is numbered again if
others took its sequence numbers, see `staged_write`.

In an append table a part of a change names files of the state that its maker read. It is refused if others have removed
one of these since, or deleted a row of it that matters. The vectors of what fits are added to those of the state that
the change is committed on, and written for that state; if another commit is faster, this is done again for the next
one. So a row is never deleted twice, no vector of another commit is lost, and the rows of a compaction are those that
are live when it becomes visible.

Clauses: APP-12 to APP-20, CMT-2, CMT-7, CMT-8, CMT-9, CMT-10, CMT-12, CMT-14.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from pktable_spec.vocabulary import COMPACT, OVERWRITE

from pktable.bucket.append_write import numbered
from pktable.bucket.index import changed_indexes
from pktable.catalog import rules
from pktable.catalog.changes import CatalogChange, CommitId, Compaction, Conflicts, entry
from pktable.catalog.commit import AlreadyCommittedError
from pktable.catalog.rules import FileAttempt, FileRule, first_conflict
from pktable.catalog.state import Delta, StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, DELETE, DataFileMeta, ManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.run.runner import RowChange
from pktable.staging import Stager
from pktable.store.new_files import NewFiles, remove_quietly


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


RowWork: TypeAlias = Callable[[TableState], RowChange]
"""Computes what a statement does to an append table from the state that it reads."""


@dataclass(slots=True)
class StagedParts(ABC):
    """Changes of files of some buckets that are not visible yet. Commit them or discard them, once.

    ``is_repeated``: whether the commit finds that it was made before.
    """

    is_followed: ClassVar[bool] = False
    failure: ClassVar[tuple[str, str, str]] = (
        "compaction",
        "others changed its buckets",
        "no row is lost; compact again when fewer write or compact",
    )
    stager: Stager
    changes: Sequence[BucketChange]
    base: TableState
    is_repeated: bool = field(default=False, init=False)

    def commit(self, commit_id: CommitId) -> TableState | None:
        """Make the changes visible, planned again where others were faster; return the state after them.

        None if there are none. If the same ``commit_id`` was committed before, with an identifier of its own, return
        the state after that commit; a compaction is never taken for one that was committed before.
        Raises CommitConflictError after many lost races.
        Clauses: APP-12 to APP-18, BKT-16, CMT-7, CMT-8, CMT-9, CMT-14, CMT-53.
        """
        try:
            return self.stager.committer.commit(self, commit_id)
        except AlreadyCommittedError as before:
            self.is_repeated = True
            return before.state

    def change(self) -> CatalogChange | None:
        """Return the changes as one, None if there are none."""
        return self.as_one() if self.changes else None

    @abstractmethod
    def as_one(self) -> CatalogChange:
        """Return the changes as one, of which there are some."""

    def refuse(self, refused: Conflicts) -> None:
        """Remove the files made: all is planned again."""
        self.discard()

    @abstractmethod
    def plan_again(self, state: TableState) -> None:
        """Plan on ``state`` what was refused."""

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        remove_created(self.stager.context, self.changes)
        self.changes = ()


@dataclass(slots=True)
class StagedCompaction(StagedParts):
    """A compaction of some buckets, of which those that fit are committed without the others.

    Where keys move between partitions, it is committed whole. Clauses: BKT-27.
    """

    full: bool
    _refused: Collection[BucketId] = ()

    @classmethod
    def of(
        cls, stager: Stager, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool
    ) -> StagedCompaction:
        """Stage the compaction of some buckets of ``state``."""
        return cls(stager, stager.compacted(state, bucket_ids, full=full), state, full)

    def as_one(self) -> CatalogChange:
        """Return the changes as one, by the kind of the table."""
        context = self.stager.context
        if not self.stager.kind.has_keys:
            return FileChanges(context, self.stager.states, COMPACT, self.changes)
        return Compaction(self.changes, context.options.bucket, context.order, partly=not context.moves_keys)

    def refuse(self, refused: Conflicts) -> None:
        """Remove the files of the changes that do not fit, and keep in mind which buckets they are of."""
        if not self.stager.context.moves_keys:
            self.changes = [self.changes[number] for number in refused]
        self._refused = dict.fromkeys(change.place.id for change in self.changes)
        self.discard()

    def plan_again(self, state: TableState) -> None:
        """Plan the refused buckets on ``state``."""
        self.base = state
        buckets = [one for one in self._refused if one in state.files]
        self.changes = self.stager.compacted(state, buckets, full=self.full)


@dataclass(slots=True)
class StagedRows(StagedParts):
    """A statement on an append table, which is committed whole. ``work``: computes it."""

    failure: ClassVar[tuple[str, str, str]] = (
        "statement",
        "others changed its rows",
        "nothing of it is visible; execute it again when fewer write to the table",
    )
    work: RowWork

    @classmethod
    def of(cls, stager: Stager, state: TableState, work: RowWork) -> StagedRows:
        """Stage a statement on ``state``."""
        staged = cls(stager, (), state, work)
        staged.plan_again(state)
        return staged

    def as_one(self) -> CatalogChange:
        """Return the changes as one."""
        return FileChanges(self.stager.context, self.stager.states, OVERWRITE, self.changes)

    def plan_again(self, state: TableState) -> None:
        """Compute the statement on ``state``."""
        self.stager.expect_same_keys(state)
        self.base, self.changes = state, self.stager.changed(state, self.work(state))


def remove_created(context: TableContext, changes: Iterable[BucketChange]) -> None:
    """Remove the files that were made for ``changes``. Clauses: CMT-12."""
    remove_quietly(context.store, [path for change in changes for path in change.created])
