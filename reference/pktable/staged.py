"""A write and a compaction whose files exist and are not visible yet, and how they are committed.

A write is committed as an APPEND snapshot, then its compaction as a COMPACT snapshot. Two races are possible. If
another write took our sequence numbers, our rows are renumbered, and the compaction is planned and carried out again
(CMT-24, CMT-33); if it gave buckets to new keys, our rows are assigned and written again (BKT-8). If another commit
changed what a compaction was planned on, that is discarded and planned again on the latest snapshot (CMT-14).

An overwrite leaves nothing older in a bucket. So the compaction of its files fits whatever others commit, and one
snapshot holds the result (STM-11).

Clauses: BKT-8, CMT-2, CMT-10, CMT-12, CMT-14, CMT-18, CMT-24, CMT-25, CMT-33, CMT-54, CMT-58, CMP-17, CMP-30, STM-11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from pktable_spec.errors import CommitConflictError, CommitUnknownError, StorageError
from pktable_spec.vocabulary import COMPACT

from pktable.bucket.write import BucketAppend
from pktable.catalog import rules
from pktable.catalog.changes import (
    Append,
    Assignment,
    CommitId,
    Compaction,
    Conflicts,
    Replaces,
    replaced,
)
from pktable.catalog.commit import AlreadyCommittedError, CommittedError
from pktable.catalog.isolation import CLAUSE as STALE
from pktable.catalog.rules import AppendRule
from pktable.catalog.state import TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.retry import retry
from pktable.store.new_files import NewFiles, remove_quietly

if TYPE_CHECKING:
    from pktable.staging import Stager

Written: TypeAlias = tuple[list[BucketAppend], Assignment]
"""The files of rows that were written, and what the rows were assigned to dynamic buckets by."""

COMPACTION_FAILED: Final = "the write is committed, its compaction is not"
DO_NOT_REPEAT: Final = "do not write the rows again: the next write or compact() compacts them"


class _ConflictError(Exception):
    """The latest snapshot does not admit the change as it was planned."""


class StaleReadError(Exception):
    """Another commit changed rows that a statement has read. ``snapshot``: the latest."""

    def __init__(self, snapshot: int) -> None:
        self.snapshot = snapshot


@dataclass(slots=True)
class StagedWrite:
    """A write whose files exist and are not visible. Commit it or discard it, once.

    ``appends``: its new files, at level 0 but for an overwrite's. ``changes``: its compaction, planned on ``base`` with
    these files. ``full``: whether the whole table is compacted instead, after the commit.
    ``written``: writes its rows again, for a state. ``assignment``: what they were assigned to dynamic buckets by.
    ``rules``: what its commit checks; other implementations check less. ``read``: the state that its rows were computed
    from. ``replaces``: as in `Stager.write`.
    """

    stager: Stager
    appends: list[BucketAppend]
    new: NewFiles
    write_only: bool
    base: TableState
    written: Callable[[TableState], Written]
    assignment: Assignment
    changes: list[BucketChange] = field(default_factory=list)
    rules: Sequence[tuple[str, AppendRule]] = field(default_factory=lambda: rules.APPEND_RULES)
    read: TableState | None = None
    replaces: Replaces | None = None
    full: bool = False

    def plan(self, state: TableState) -> None:
        """Compact the touched buckets as if the new files were live in ``state``. Clauses: CMP-17, CMP-30, STM-11."""
        self.base = state
        self.full = not self.write_only and self.stager.is_full_compaction_due(state)
        if self.replaces is not None:
            # Nothing is looked up in older files, so that a table which leaves compaction to others need not wait.
            waits = self.write_only and not self.stager.context.options.one_record_per_key
            self._settle(() if waits else self._compacted(state))
        elif not self.write_only and not self.full:
            self.changes = self._compacted(state)

    def _compacted(self, state: TableState) -> list[BucketChange]:
        """Return the compaction of the touched buckets as if the new files were live in ``state``."""
        return self.stager.changes(
            with_appends(state, self.appends, replaced(state, self.replaces)),
            [append.place.id for append in self.appends],
            full=False,
            cached_rows={a.files[0].file_name: a.rows for a in self.appends if a.rows is not None},
        )

    def _settle(self, changes: Iterable[BucketChange]) -> None:
        """Put an overwrite's files where their compaction puts them; no changelog stays. Clauses: STM-11, CHG-12."""
        context, by_bucket = self.stager.context, {change.place.id: change for change in changes}
        self.new.paths += [path for change in by_bucket.values() for path in change.created]
        for i, append in enumerate(self.appends):
            files, change = append.files, by_bucket.get(append.place.id)
            if change is not None:
                assert change.index is None, "there are no older rows to delete"
                gone = {file.file_name for file in change.removed}
                files = (*(file for file in files if file.file_name not in gone), *change.added)
            self.appends[i] = replace(append, files=files, changelog=(), rows=None)
        used = {context.data_path(a.place, file) for a in self.appends for file in a.files}
        self._keep_only(used | self._index_paths())

    def commit(self, commit_id: CommitId) -> TableState:
        """Make the write visible and return the state after it; if it was committed before, the state at that time.

        A write that was committed before has the same ``commit_id``, with an identifier of its own. If it died before
        its compaction was committed, the compaction is done now.
        Raises CommitConflictError and StorageError; their text says whether the rows are committed.
        Clauses: CMT-2, CMT-24, CMT-33, CMT-53, CMT-58.
        """
        follow = self._commit_changes
        try:
            state = self.commit_append(commit_id)
        except AlreadyCommittedError as before:
            self.discard()
            state, follow = before.state, self._finish
        except (CommittedError, CommitUnknownError):
            self._discard_changes()
            raise
        except BaseException:
            self.discard()
            raise
        try:
            return follow(state, commit_id)
        except CommitConflictError as error:
            raise CommitConflictError(
                f"{COMPACTION_FAILED}: {error.what}", error.snapshot, DO_NOT_REPEAT
            ) from None
        except StorageError as error:
            raise error.with_remedy(f"{COMPACTION_FAILED}; {DO_NOT_REPEAT}") from error

    def _commit_changes(self, state: TableState, commit_id: CommitId) -> TableState:
        """Commit the compaction of a write that is committed; ``state``: the one after the write.

        Clauses: CMP-30, CMT-54.
        """
        again = list(state.files) if self.full else self.drop_stale(state)
        try:
            if again:
                self.changes += self.stager.changes(state, again, full=self.full)
        except BaseException:
            self._discard_changes()
            raise
        if not self.changes:
            return state
        compaction = StagedCompaction(self.stager, self.changes, full=self.full, base=state)
        return compaction.commit(commit_id) or state

    def _finish(self, state: TableState, commit_id: CommitId) -> TableState:
        """Do the compaction of a write that was committed before, unless it was; ``state``: the last of the write.

        Clauses: CMT-58.
        """
        assert state.snapshot is not None, "it was committed"
        shown = self.replaces is not None or not self.stager.context.options.one_record_per_key
        if self.write_only or shown or state.snapshot.commit_kind == COMPACT:
            return state
        buckets = [append.place.id for append in self.appends]

        def stage(latest: TableState) -> StagedCompaction:
            return self.stager.compact(latest, [one for one in buckets if one in latest.files], full=False)

        compaction = self.stager.committer.retry_on_latest_state(stage)
        # Without a change others have compacted the rows.
        return compaction.commit(commit_id) or compaction.base

    def discard(self) -> None:
        """Remove the files; nothing of the write is left. Clauses: CMT-12."""
        self._discard_changes()
        self.new.remove(self.stager.context.store)

    def commit_append(self, commit_id: CommitId) -> TableState:
        """Commit the rows alone, as an APPEND snapshot, and return the state after it; the compaction stays staged.

        Raises CommitConflictError if other writers took the sequence numbers again and again.
        Clauses: CMT-10, CMT-18, CMT-24.
        """
        committer, total_buckets = self.stager.committer, self.stager.context.options.bucket
        isolation = None if self.read is None else self.stager.isolation(self.read)

        def attempt() -> TableState:
            change = Append(
                self.appends, total_buckets, self.rules, isolation, self.replaces, self.assignment
            )
            outcome = committer.commit(change, commit_id, self.base, is_followed=bool(self.changes))
            if any(conflict.clause == STALE for conflict in outcome.refused.values()):
                raise StaleReadError(committer.latest().id)
            if outcome.state is None and not outcome.refused:  # an overwrite of nothing by nothing
                return self.base
            if outcome.state is None:
                raise _ConflictError
            return outcome.state

        def renumber() -> None:
            committer.retry_on_latest_state(self._renumber)

        try:
            return retry(attempt, on=_ConflictError, policy=self.stager.policy, again=renumber)
        except _ConflictError:
            attempts = self.stager.policy.attempts
            raise CommitConflictError(
                f"write failed: other writers took its sequence numbers in all {attempts} attempts",
                committer.latest().id,
                "nothing of it is visible; write again when fewer write to the same buckets",
            ) from None

    def _renumber(self, state: TableState) -> None:
        """Give the rows sequence numbers above those of ``state``, and plan the compaction on it.

        If others have given buckets to keys, the rows are assigned and written again. Clauses: BKT-8, CMT-24, CMT-33.
        """
        context, again = self.stager.context, next_sequences(state)
        if self.replaces is None:
            self.stager.expect_totals(state, self.appends)
        self._discard_changes()
        now, kind = self.stager.clock(), self.stager.kind
        if self.replaces is None and self.assignment.conflicts(self.appends, state):
            self.appends, self.assignment = self.written(state)
        else:
            self.appends = [
                kind.renumber(context, append, again.get(append.place.id, 0), self.new, now_millis=now)
                for append in self.appends
            ]
        used = {
            context.data_path(append.place, file)
            for append in self.appends
            for file in (*append.files, *append.changelog)
        }
        self._keep_only(used | self._index_paths())
        self.plan(state)

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
        dropped = [change for change in self.changes if change.place.id in stale]
        self.changes = [change for change in self.changes if change.place.id not in stale]
        _remove_created(self.stager.context, dropped)
        return stale

    def _discard_changes(self) -> None:
        _remove_created(self.stager.context, self.changes)
        self.changes = []


@dataclass(slots=True)
class StagedCompaction:
    """A compaction whose files exist and are not visible. Commit it or discard it, once."""

    stager: Stager
    changes: list[BucketChange]
    full: bool
    base: TableState

    def commit(self, commit_id: CommitId) -> TableState | None:
        """Make the compaction visible; return the state after it, None if it changed nothing.

        Buckets that no longer fit are planned again. Raises CommitConflictError after many lost races.
        Clauses: CMT-7, CMT-8, CMT-9, CMT-14.
        """
        committer = self.stager.committer
        committed: TableState | None = None
        refused: Conflicts = {}

        def attempt() -> TableState | None:
            nonlocal committed, refused
            if not self.changes:
                return committed
            try:
                outcome = committer.commit(self._change(), commit_id, self.base)
            except (CommittedError, CommitUnknownError):
                raise
            except BaseException:
                self.discard()
                raise
            committed, refused = outcome.state or committed, outcome.refused
            if not refused:
                return committed
            self.changes = [change for change in self.changes if change.place.id in refused]
            self.discard()
            raise _ConflictError

        def plan() -> None:
            committer.retry_on_latest_state(partial(self._plan, list(refused)))

        try:
            return retry(attempt, on=_ConflictError, policy=self.stager.policy, again=plan)
        except _ConflictError:
            self.discard()
            what = "; ".join(map(str, refused.values()))
            raise CommitConflictError(
                f"compaction failed: in all {self.stager.policy.attempts} attempts others changed its buckets: {what}",
                committer.latest().id,
                "no row is lost; compact again when fewer write or compact",
            ) from None

    def commit_as_planned(self, commit_id: CommitId) -> Conflicts:
        """Make all of the compaction visible as it was planned, or discard it; return the conflicts, none if committed.

        Clauses: CMT-7, CMT-8, CMT-9, CMT-11.
        """
        outcome = self.stager.committer.commit(self._change(partly=False), commit_id, self.base)
        if outcome.refused:
            self.discard()
        return outcome.refused

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        _remove_created(self.stager.context, self.changes)
        self.changes = []

    def _change(self, *, partly: bool = True) -> Compaction:
        context = self.stager.context
        return Compaction(self.changes, context.options.bucket, context.order, partly)

    def _plan(self, bucket_ids: Iterable[BucketId], state: TableState) -> None:
        self.base = state
        self.changes = self.stager.changes(state, bucket_ids, full=self.full)


def next_sequences(state: TableState) -> dict[BucketId, int]:
    """Return per bucket the first sequence number above all of its live files. Clauses: LSM-10."""
    return {
        bucket_id: max(file.max_sequence_number for file in files) + 1
        for bucket_id, files in state.files.items()
    }


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


def _remove_created(context: TableContext, changes: Iterable[BucketChange]) -> None:
    remove_quietly(context.store, [path for change in changes for path in change.created])
