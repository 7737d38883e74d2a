"""A write: its rows and then its compaction.

A write is committed as an APPEND snapshot, then its compaction as a COMPACT snapshot. Two races are possible. If
another write took our sequence numbers, our rows are renumbered, and the compaction is planned and carried out again
(CMT-24, CMT-33). If others gave buckets to new keys (BKT-8), moved keys to other partitions (BKT-26), or changed rows
that a statement has read (STM-6), the rows are computed and written again.

An overwrite leaves nothing older in a bucket. So the compaction of its files fits whatever others commit, and one
snapshot holds the result (STM-11).

Clauses: BKT-8, BKT-26, CMT-2, CMT-10, CMT-12, CMT-14, CMT-18, CMT-24, CMT-25, CMT-33, CMT-54, CMT-58, CMP-17, CMP-30,
RD-18, STM-6, STM-11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    CompactionFailedError,
    CorruptFileError,
    StorageError,
)
from pktable_spec.vocabulary import COMPACT

from pktable.bucket.write import BucketAppend
from pktable.catalog import rules
from pktable.catalog.changes import Append, Assignment, CatalogChange, CommitId, Conflicts, Replaces, replaced
from pktable.catalog.commit import INTERRUPTS, AlreadyCommittedError, CommittedError
from pktable.catalog.isolation import CLAUSE as STALE
from pktable.catalog.rules import AppendRule
from pktable.catalog.state import TableState
from pktable.format.metadata.manifest import DataFileMeta
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.staged import StagedCompaction, remove_created
from pktable.staging import Stager, next_sequences
from pktable.store.new_files import NewFiles, remove_quietly

Work: TypeAlias = Callable[[TableState], tuple[Any, ChangeKind]]
"""Returns the rows of a write and their kinds. A statement computes them from the state that it reads."""

COMPACTION_FAILED: Final = "the write is committed, its compaction is not"
DO_NOT_REPEAT: Final = "do not write the rows again: the next write or compact() compacts them"


@dataclass(slots=True)
class StagedWrite:
    """A write whose files exist and are not visible. Commit it or discard it, once.

    ``work``: returns its rows. ``base``: the state that it is planned on. ``read``: the state that a statement's rows
    were computed from. ``replaces``: of an overwrite, the partitions whose rows go. ``appends``: its new files, at
    level 0 but for an overwrite's. ``assignment``: what they were assigned to dynamic buckets by. ``changes``: its
    compaction, planned on ``base`` with these files. ``full``: whether the whole table is compacted instead, after the
    commit. ``rules``: what its commit checks; other implementations check less. ``is_repeated``: whether the commit
    finds that it was made before.
    """

    stager: Stager
    work: Work
    base: TableState
    write_only: bool
    read: TableState | None = None
    replaces: Replaces | None = None
    appends: list[BucketAppend] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    new: NewFiles = field(default_factory=NewFiles)
    changes: Sequence[BucketChange] = ()
    rules: Sequence[tuple[str, AppendRule]] = field(default_factory=lambda: rules.APPEND_RULES)
    full: bool = False
    is_repeated: bool = False
    _is_void: bool = False

    @classmethod
    def of(
        cls,
        stager: Stager,
        state: TableState,
        work: Work,
        *,
        write_only: bool,
        isolated: bool = False,
        replaces: Replaces | None = None,
    ) -> StagedWrite | None:
        """Stage a write on ``state``, the latest; None if it changes nothing. Clauses: CMT-2.

        ``isolated``: whether ``work`` computes the rows from the state. ``replaces``: of an overwrite, the partitions
        whose rows go.
        """
        read = state if isolated else None
        staged = cls(stager, work, state, write_only or not stager.kind.has_keys, read, replaces)
        if stager.context.has_unaware_buckets:
            staged.rules = ()
        try:
            staged._write(state)
        except BaseException:
            staged.discard()
            raise
        return None if staged._is_void else staged

    def _write(self, state: TableState) -> None:
        """Write the rows for ``state``, and plan their compaction. Without rows the write is void."""
        self.stager.expect_same_keys(state)
        rows, change = self.work(state)
        self.base, self.appends = state, []
        if self.read is not None:
            self.read = state
        if rows is not None:
            written = self.stager.written(state, rows, change, self.new, self.replaces)
            self.appends, self.assignment = written
        self._is_void = rows is None or not (self.appends or self.replaces)
        if self._is_void:
            self.discard()
        else:
            self.plan(self._without_waiting(state))

    def _without_waiting(self, state: TableState) -> TableState:
        """Return the state on which an overwrite is planned: where keys move, after a compaction of what stays.

        A default read would find a key twice whose retraction waits at level 0 of another partition. Clauses: BKT-27.
        """
        context, options = self.stager.context, self.stager.context.options
        level = options.max_level if options.records_full_compactions else int(options.compacts_level_zero)
        if self.replaces is None or not (self.appends and context.moves_keys):
            return state
        gone = replaced(state, self.replaces)
        stay = {one: files for one, files in state.files.items() if one not in gone}
        if all(file.level >= level for files in stay.values() for file in files):
            return state
        staged = StagedCompaction.of(self.stager, state, stay, full=options.records_full_compactions)
        try:
            return staged.commit(CommitId.new()) or state
        except CommittedError as error:  # the compaction is committed, and nothing of the overwrite
            raise KeyboardInterrupt from error
        except CommitUnknownError as error:
            reason = "its answer was lost; a compaction may be committed, and nothing was overwritten"
            raise StorageError("commit", error.path, None, reason) from error

    def plan(self, state: TableState) -> None:
        """Compact the touched buckets as if the new files were live in ``state``. Clauses: CMP-17, CMP-30, STM-11."""
        self.base = state
        self.full = not self.write_only and self.stager.is_full_compaction_due(state)
        if self.replaces is not None:
            # Nothing is looked up in older files, so that a table which leaves compaction to others need not wait.
            skipped = self.stager.kind.has_keys and self.stager.context.options.one_record_per_key
            self._settle(self._compacted(state) if skipped or not self.write_only else ())
        elif not self.write_only and not self.full:
            self.changes = self._compacted(state)

    def _compacted(self, state: TableState) -> Sequence[BucketChange]:
        """Return the compaction of the touched buckets as if the new files were live in ``state``."""
        return self.stager.compacted(
            with_appends(state, self.appends, replaced(state, self.replaces)),
            [append.place.id for append in self.appends],
            full=False,
            cached_rows={a.files[0].file_name: a.rows for a in self.appends if a.rows is not None},
            alone=self.replaces is not None,
        )

    def _settle(self, changes: Iterable[BucketChange]) -> None:
        """Put an overwrite's files where their compaction puts them; no changelog stays. Clauses: STM-11, CHG-12."""
        context, by_bucket = self.stager.context, {change.place.id: change for change in changes}
        self.new.paths += [path for change in by_bucket.values() for path in change.created]
        for i, append in enumerate(self.appends):
            files, change = append.files, by_bucket.get(append.place.id)
            if change is not None:
                gone = {file.file_name for file in change.removed}
                files = (*(file for file in files if file.file_name not in gone), *change.added)
            self.appends[i] = replace(append, files=files, changelog=(), rows=None)
        used = {context.data_path(a.place, file) for a in self.appends for file in a.files}
        self._keep_only(used | self._index_paths())

    def commit(self, commit_id: CommitId) -> TableState | None:
        """Make the write visible and return the state after it; if it was committed before, the state at that time.

        A write that was committed before has the same ``commit_id``, with an identifier of its own. If it died before
        its compaction was committed, the compaction is done now. None if there is nothing to change by now.
        Raises CommitConflictError, CorruptFileError and StorageError; their text says whether the rows are committed.
        Any other failure after the rows are committed is a CompactionFailedError, an interrupt a CommittedError.
        Clauses: CMT-2, CMT-24, CMT-33, CMT-53, CMT-58, CMT-69.
        """
        follow = self._commit_changes
        try:
            state = self.commit_append(commit_id)
        except AlreadyCommittedError as before:
            self.is_repeated = True
            state, follow = before.state, self._finish
        except (CommittedError, CommitUnknownError):
            self._discard_changes()
            raise
        if state is None:
            return None
        try:
            return follow(state, commit_id)
        except CommitConflictError as error:
            raise CommitConflictError(
                f"{COMPACTION_FAILED}: {error.what}", error.snapshot, DO_NOT_REPEAT
            ) from None
        except StorageError as error:
            raise error.with_remedy(f"{COMPACTION_FAILED}; {DO_NOT_REPEAT}") from error
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{COMPACTION_FAILED} (do not write the rows again): {error.what}",
                at=error.at,
                expected=error.expected,
                found=error.found,
            ) from error
        except (CommittedError, CommitUnknownError):
            raise
        except INTERRUPTS as error:
            raise CommittedError(state.id) from error
        except Exception as error:
            raise CompactionFailedError(f"{COMPACTION_FAILED}: {error}; {DO_NOT_REPEAT}", state.id) from error

    def _commit_changes(self, state: TableState, commit_id: CommitId) -> TableState:
        """Commit the compaction of a write that is committed; ``state``: the one after the write.

        Clauses: CMP-30, CMT-54, RD-18.
        """
        planned = [change.place.id for change in self.changes]
        again = list(state.files) if self.full else self.drop_stale(state)
        staged = None
        try:
            if again:
                self.changes = [*self.changes, *self.stager.compacted(state, again, full=self.full)]
        except CorruptFileError:
            self._discard_changes()
            assert state.snapshot is not None, "it is committed"
            if self.stager.committer.snapshots.expired_error(state.snapshot) is None:
                raise
            # Commits by others have expired it, and its files went with it.
            staged = self._on_latest(dict.fromkeys([*planned, *again]), full=self.full)
        except BaseException:
            self._discard_changes()
            raise
        staged = staged or StagedCompaction(self.stager, self.changes, state, self.full)
        return staged.commit(commit_id) or state

    def _on_latest(self, buckets: Collection[BucketId], *, full: bool) -> StagedCompaction:
        """Stage the compaction of those of ``buckets`` that the latest state has. Clauses: RD-18."""

        def stage(latest: TableState) -> StagedCompaction:
            touched = [one for one in buckets if one in latest.files]
            return StagedCompaction.of(self.stager, latest, touched, full=full)

        return self.stager.committer.retry_on_latest_state(stage)

    def _finish(self, state: TableState, commit_id: CommitId) -> TableState:
        """Do the compaction of a write that was committed before, unless it was; ``state``: the last of the write.

        Clauses: CMT-58.
        """
        assert state.snapshot is not None, "it was committed"
        shown = self.replaces is not None or not self.stager.context.options.one_record_per_key
        if self.write_only or shown or state.snapshot.commit_kind == COMPACT:
            return state
        compaction = self._on_latest([append.place.id for append in self.appends], full=False)
        # Without a change others have compacted the rows.
        return compaction.commit(commit_id) or compaction.base

    def commit_append(self, commit_id: CommitId) -> TableState | None:
        """Commit the rows alone, as an APPEND snapshot, and return the state after it; the compaction stays staged.

        None if there is nothing to change by now. Raises CommitConflictError if other writers were always faster.
        Clauses: CMT-10, CMT-18, CMT-24.
        """
        return self.stager.committer.commit(self, commit_id)

    def change(self) -> CatalogChange | None:
        """Return the new files, and what they replace; None if the write is void."""
        if self._is_void:
            return None
        isolation = None if self.read is None else self.stager.isolation(self.read)
        total = self.stager.context.options.bucket
        return Append(self.appends, total, self.rules, isolation, self.replaces, self.assignment)

    def refuse(self, refused: Conflicts) -> None:
        """Remove the files of the compaction, and all files if the rows are to be computed again. Clauses: STM-6."""
        self._discard_changes()
        self._is_void = any(conflict.clause == STALE for conflict in refused.values())
        if self._is_void:
            self.discard()

    def plan_again(self, state: TableState) -> None:
        """Give the rows sequence numbers above those of ``state``, and plan the compaction on it.

        If others have changed rows that it read, given buckets to keys or moved them, the rows are computed and written
        again. Clauses: BKT-8, BKT-26, CMT-24, CMT-33, STM-6.
        """
        context, kind, next_numbers = self.stager.context, self.stager.kind, next_sequences(state)
        if not self._is_void:
            if self.replaces is None:
                self.stager.expect_totals(state, self.appends)
            self._is_void = bool(self.assignment.conflicts(self.appends, state))
        if self._is_void:
            self.discard()
            self._write(state)
            return
        self._discard_changes()
        now = self.stager.clock()
        self.appends = [
            kind.renumber(context, append, next_numbers.get(append.place.id, 0), self.new, now_millis=now)
            for append in self.appends
        ]
        used = {
            context.data_path(append.place, file)
            for append in self.appends
            for file in (*append.files, *append.changelog)
        }
        self._keep_only(used | self._index_paths())
        self.plan(state)

    @property
    def is_followed(self) -> bool:
        """Whether its compaction is committed at once."""
        return bool(self.changes)

    @property
    def failure(self) -> tuple[str, str, str]:
        """The work that always lost, against what, and what to do. Clauses: CMT-24, STM-6."""
        if self._is_void:
            remedy = "nothing of it is visible; execute it again when fewer write to the same keys"
            return "statement", "other writers changed the rows it read", remedy
        remedy = "nothing of it is visible; write again when fewer write to the same buckets"
        return "write", "other writers took its sequence numbers", remedy

    def discard(self) -> None:
        """Remove the files; nothing of the write is left. Clauses: CMT-12."""
        self._discard_changes()
        self.new.remove(self.stager.context.store)

    def _index_paths(self) -> set[str]:
        """Return the paths of the hash index files of the write."""
        return {self.stager.context.index_path(index) for index in self.assignment.new.values()}

    def _keep_only(self, used: Collection[str]) -> None:
        """Remove the new files but for those of the paths ``used``."""
        remove_quietly(self.stager.context.store, [path for path in self.new.paths if path not in used])
        self.new.paths = [path for path in self.new.paths if path in used]

    def drop_stale(self, state: TableState) -> list[BucketId]:
        """Discard the compactions whose buckets had other live files, when the write committed, than planned on.

        ``state``: the one after the write. Returns their buckets, which are to be planned again. Clauses: CMT-54.
        """
        own = {append.place.id: append.files for append in self.appends}
        stale = []
        for bucket_id in (change.place.id for change in self.changes):
            before = self.base.files.get(bucket_id, ())
            if _entries(*before, *own.get(bucket_id, ())) != _entries(*state.files.get(bucket_id, ())):
                stale.append(bucket_id)
        if stale and self.stager.context.moves_keys:  # what is planned on another state is no whole
            stale = [change.place.id for change in self.changes]
        dropped = [change for change in self.changes if change.place.id in stale]
        self.changes = [change for change in self.changes if change.place.id not in stale]
        remove_created(self.stager.context, dropped)
        return stale

    def _discard_changes(self) -> None:
        remove_created(self.stager.context, self.changes)
        self.changes = ()


def with_appends(
    state: TableState, appends: Sequence[BucketAppend], gone: Collection[BucketId] = ()
) -> TableState:
    """Return ``state`` as if new files were live, and the buckets ``gone`` had none."""
    files = {bucket_id: live for bucket_id, live in state.files.items() if bucket_id not in gone}
    indexes = {bucket_id: index for bucket_id, index in state.indexes.items() if bucket_id not in gone}
    for append in appends:
        files[append.place.id] = (*files.get(append.place.id, ()), *append.files)
    return replace(state, files=files, indexes=indexes)


def _entries(*files: DataFileMeta) -> set[tuple[str, int]]:
    return {(file.file_name, file.level) for file in files}
