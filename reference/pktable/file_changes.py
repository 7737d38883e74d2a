"""Stage and commit changes of an append table: rows to delete by their position, files to write again.

1. A change names files of the state that it read: some go, some come, of some rows become deleted (`FileChange`).
2. Before a commit it is compared with the latest snapshot. Changes of other files do not matter. If others have removed
   one of its files, or deleted a row of it that matters, the change is stale, and its maker computes it again.
3. Its vectors are then added to those of that snapshot, and written, and the commit is made. If other vectors came in
   between, this step is repeated from step 2.

So a row is never deleted twice, no vector of another commit is lost, and the rows of a compaction are those that are
live when it becomes visible.

Clauses: APP-12 to APP-18, CMT-2, CMT-12, CMT-14.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pktable_spec.errors import CommitConflictError, CommitUnknownError, CorruptFileError
from pktable_spec.vocabulary import COMPACT, OVERWRITE, RowKind

from pktable.bucket.append_vectors import changed_indexes
from pktable.bucket.append_write import numbered
from pktable.bucket.assign import assigner_of
from pktable.bucket.run_writer import FROM_COMPACTION, FROM_WRITE
from pktable.bucket.write import BucketAppend
from pktable.catalog import rules
from pktable.catalog.changes import CommitId, FileChanges
from pktable.catalog.commit import AlreadyCommittedError, CommittedError, Committer
from pktable.catalog.rules import Conflict, FileAttempt, FileRule, first_conflict
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.ingest.changes import ChangeKind
from pktable.lsm.append_pick import in_order, pick_files
from pktable.lsm.bucket import BucketId, FileChange, IndexedChange
from pktable.retry import RetryPolicy, retry
from pktable.run.runner import FoundRows, RewriteTask, RowChange, Runner
from pktable.store.new_files import NewFiles, remove_quietly

REPLANS: Final = RetryPolicy(races=True)
"""How often a compaction, here or of a table with a key, is planned again because others have changed its files."""
INSERTED, UPDATED = ChangeKind(RowKind.INSERT), ChangeKind(RowKind.INSERT, row_ids=True)


class StaleChangeError(Exception):
    """Others have changed what a change is about. ``snapshot``: the latest; ``conflicts``: why, by change."""

    def __init__(self, snapshot: int, conflicts: Mapping[int, Conflict]) -> None:
        super().__init__("; ".join(map(str, conflicts.values())))
        self.snapshot, self.conflicts = snapshot, conflicts


RowWork: TypeAlias = Callable[[TableState], RowChange]
"""Computes what a statement does from the state that it reads."""


class _LostRaceError(Exception):
    """Others have changed the vectors or the numbers of a bucket while a commit was made."""


@dataclass(slots=True)
class FileChanger:
    """Makes and commits changes of one append table. ``clock``: milliseconds since the epoch."""

    context: TableContext
    states: StateLoader
    committer: Committer
    runner: Runner
    clock: Callable[[], int]
    policy: RetryPolicy = REPLANS

    def execute(self, work: RowWork, commit_id: CommitId) -> TableState | None:
        """Compute a statement on the latest snapshot and commit it; return the state after it, None without changes.

        If others have changed the rows that it changes, it is computed again. Raises CommitConflictError after many
        such commits. Clauses: APP-12, APP-17.
        """

        def stage(state: TableState) -> StagedFileChange | None:
            change = work(state)
            appends: list[BucketAppend] = []
            new = NewFiles()
            try:
                for rows, kind in ((change.rows, INSERTED), (change.updated, UPDATED)):
                    if rows is not None:
                        appends += self.runner.write(
                            self.context, rows, kind, assigner_of(self.context, {}), {}, new, self.clock()
                        )
                return self.delete_rows(state, change.found, appends) if change.found or appends else None
            except BaseException:
                new.remove(self.context.store)
                raise

        def attempt() -> TableState | None:
            staged = self.committer.retry_on_latest_state(stage)
            try:
                return staged.commit(commit_id) if staged else None
            except StaleChangeError:
                assert staged is not None
                staged.discard()
                raise

        try:
            return retry(attempt, on=StaleChangeError, policy=self.policy)
        except StaleChangeError as error:
            raise CommitConflictError(
                f"statement failed: in all {self.policy.attempts} attempts others changed its rows: {error}",
                error.snapshot,
                "nothing of it is visible; execute it again when fewer write to the table",
            ) from None

    def delete_rows(
        self, state: TableState, found: Sequence[FoundRows], appends: Sequence[BucketAppend] = ()
    ) -> StagedFileChange:
        """Stage the deletion of the rows ``found`` in ``state``, and new files that come in the same snapshot.

        With deletion vectors the rows become deleted positions, without them their files are written again.
        ``found``: rows that are live in ``state``. Clauses: APP-12.
        """
        changes = [self._added(append) for append in appends]
        if self.context.options.deletion_vectors_enabled:
            for one in found:
                place = self.context.place(*one.bucket_id)
                changes.append(FileChange(place, deleted=one.positions))
        else:
            changes += self._rewritten(state, found)
        return StagedFileChange(self, OVERWRITE, changes, state)

    def _added(self, append: BucketAppend) -> FileChange:
        paths = tuple(self.context.data_path(append.place, file) for file in append.files)
        return FileChange(append.place, added=append.files, created=paths)

    def _rewritten(self, state: TableState, found: Sequence[FoundRows]) -> list[FileChange]:
        """Write each file without the rows found in it. Clauses: APP-12."""
        tasks = []
        for one in found:
            bucket = self.states.bucket(state, one.bucket_id)
            for file in bucket.files:
                if file.file_name in one.positions:
                    dropped = {file.file_name: one.positions[file.file_name]}
                    token = str(uuid.uuid4())
                    tasks.append(RewriteTask(bucket, (file,), token, self.clock(), FROM_WRITE, dropped))
        return self.runner.rewrite(self.context, tasks) if tasks else []

    def picks(self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool) -> list[RewriteTask]:
        """Return what a compaction of some buckets of ``state`` writes again, in groups. Reads metadata only.

        Clauses: APP-19, APP-20.
        """
        tasks = []
        for bucket_id in bucket_ids:
            bucket = self.states.bucket(state, bucket_id)
            counts = self.context.deleted_counts(bucket)
            target = self.context.target_file_bytes
            for files in pick_files(bucket, counts, self.context.options, target, full=full):
                token = str(uuid.uuid4())
                tasks.append(RewriteTask(bucket, in_order(files), token, self.clock(), FROM_COMPACTION))
        return tasks

    def compact(self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool) -> StagedRewrite:
        """Stage the compaction of some buckets of ``state``."""
        return StagedRewrite(self, self.compacted(state, bucket_ids, full=full), full, state)

    def compacted(self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool) -> list[FileChange]:
        """Do the data work of a compaction; nothing becomes visible."""
        tasks = self.picks(state, bucket_ids, full=full)
        return self.runner.rewrite(self.context, tasks) if tasks else []


@dataclass(slots=True)
class StagedFileChange:
    """Changes whose files exist and are not visible. Commit them or discard them, once.

    ``base``: the state they were made on, or a later one. ``rules``: what a commit checks.
    """

    changer: FileChanger
    kind: str
    changes: list[FileChange]
    base: TableState
    rules: Sequence[tuple[str, FileRule]] = field(default_factory=lambda: rules.FILE_RULES)

    def commit(self, commit_id: CommitId) -> TableState:
        """Make the changes visible together, and return the state after them.

        Changes that an earlier try has committed under the same ``commit_id`` are not committed twice: return the state
        after that commit. This takes a ``commit_id`` with an identifier of its own.
        Raises StaleChangeError if others have changed what they are about; the files made stay until they are
        discarded. Raises CommitConflictError if others were faster again and again. Clauses: APP-12 to APP-18, CMT-53.
        """
        committer, policy = self.changer.committer, self.changer.policy
        first = [self.base]

        def attempt() -> TableState:
            new = NewFiles()
            try:
                state, indexed = self._on_latest(first.pop() if first else None, new)
                change = FileChanges(self.kind, indexed, self.changer.context.options.bucket)
                outcome = committer.commit(change, commit_id, state)
            except (CommittedError, CommitUnknownError):
                raise
            except BaseException:
                new.remove(self.changer.context.store)
                raise
            if outcome.state is None:
                new.remove(self.changer.context.store)
                raise _LostRaceError
            return outcome.state

        try:
            return retry(attempt, on=_LostRaceError, policy=policy)
        except (CommittedError, CommitUnknownError, StaleChangeError):
            raise
        except AlreadyCommittedError as before:
            self.discard()
            return before.state
        except _LostRaceError:
            self.discard()
            raise CommitConflictError(
                f"commit failed: others changed the same buckets in all {policy.attempts} attempts",
                committer.latest().id,
                "nothing of it is visible; try again when fewer write to the table",
            ) from None
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        discard(self.changer.context, self.changes)
        self.changes = []

    def _on_latest(
        self, planned_on: TableState | None, new: NewFiles
    ) -> tuple[TableState, list[IndexedChange]]:
        """Return a state and the changes as they are to be committed on it: the given state, or the latest one.

        Raises StaleChangeError. Clauses: APP-13 to APP-17.
        """

        def work(state: TableState) -> tuple[TableState, list[IndexedChange]]:
            conflicts = self.conflicts(state)
            if conflicts:
                raise StaleChangeError(state.id, conflicts)
            return state, self._indexed(state, new)

        if planned_on is not None:
            try:
                return work(planned_on)
            except CorruptFileError:  # it may have expired, and its DV index files with it
                new.remove(self.changer.context.store)
        return self.changer.committer.retry_on_latest_state(work)

    def conflicts(self, state: TableState) -> dict[int, Conflict]:
        """Return why changes do not fit ``state``, by the number of the change. Clauses: APP-15, APP-16, APP-17."""
        found = {}
        known: dict[BucketId, tuple[frozenset[str], Mapping[str, DeletionVector]]] = {}
        for i, change in enumerate(self.changes):
            if change.place.id not in known:
                bucket = self.changer.states.bucket(state, change.place.id)
                names = frozenset(file.file_name for file in bucket.files)
                known[change.place.id] = names, self.changer.context.vectors(bucket)
            conflict = first_conflict(self.rules, FileAttempt(change, *known[change.place.id]))
            if conflict:
                found[i] = conflict
        return found

    def _indexed(self, state: TableState, new: NewFiles) -> list[IndexedChange]:
        """Write the vectors of the changed buckets as they are after the changes. Clauses: APP-13, APP-14, CMT-10."""
        context = self.changer.context
        by_bucket: dict[BucketId, list[FileChange]] = {}
        for change in self.changes:
            by_bucket.setdefault(change.place.id, []).append(change)
        indexed = []
        for bucket_id, changes in by_bucket.items():
            bucket = self.changer.states.bucket(state, bucket_id)
            removed = tuple(file for change in changes for file in change.removed)
            added = tuple(file for change in changes for file in change.added)
            first = None
            if self.kind != COMPACT and added and not context.has_unaware_buckets:
                first = max((file.max_sequence_number for file in bucket.files), default=-1) + 1
                added = numbered(context, added, first)
            deleted = {name: vector for change in changes for name, vector in change.deleted.items()}
            names = frozenset(file.file_name for file in removed)
            indexes = changed_indexes(context, bucket, deleted, names, new)
            place = changes[0].place
            indexed.append(IndexedChange(place, removed, added, bucket.indexes, indexes, first))
        return indexed


@dataclass(slots=True)
class StagedRewrite:
    """A compaction of an append table whose files exist and are not visible. Commit it or discard it, once."""

    changer: FileChanger
    changes: list[FileChange]
    full: bool
    base: TableState

    def commit(self, commit_id: CommitId) -> TableState | None:
        """Make the compaction visible; return the state after it, None if it changed nothing.

        Groups of files that others have changed are given up; their buckets are planned again, until nothing is left
        to compact. Raises CommitConflictError after many such attempts. Clauses: APP-15, APP-16, CMT-14.
        """
        committed: TableState | None = None

        def attempt() -> TableState | None:
            nonlocal committed
            refused: set[BucketId] = set()
            while self.changes:
                staged = StagedFileChange(self.changer, COMPACT, self.changes, self.base)
                try:
                    committed = staged.commit(commit_id)
                    self.changes = []
                except StaleChangeError as error:
                    stale = [self.changes[i] for i in error.conflicts]
                    refused |= {change.place.id for change in stale}
                    discard(self.changer.context, stale)
                    self.changes = [c for i, c in enumerate(self.changes) if i not in error.conflicts]
                    self.base = self.changer.committer.latest()
            if refused:
                self.changer.committer.retry_on_latest_state(lambda state: self._plan(refused, state))
                raise _LostRaceError
            return committed

        try:
            return retry(attempt, on=_LostRaceError, policy=self.changer.policy)
        except _LostRaceError:
            self.discard()
            raise CommitConflictError(
                f"compaction failed: in all {self.changer.policy.attempts} attempts others changed its files",
                self.changer.committer.latest().id,
                "no row is lost; compact again when fewer write to the table",
            ) from None

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        discard(self.changer.context, self.changes)
        self.changes = []

    def _plan(self, bucket_ids: Iterable[BucketId], state: TableState) -> None:
        self.base = state
        live = [bucket_id for bucket_id in bucket_ids if bucket_id in state.files]
        self.changes = self.changer.compacted(state, live, full=self.full)


def discard(context: TableContext, changes: Iterable[FileChange]) -> None:
    """Remove the files that were made for ``changes``. Clauses: CMT-12."""
    remove_quietly(context.store, [path for change in changes for path in change.created])
