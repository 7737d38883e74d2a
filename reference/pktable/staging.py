"""Stage a write or a compaction, then commit it: how a change goes from plan to snapshot.

A write:

1. The runner writes the rows as new level-0 files, numbered above all live sequence numbers.
2. The compaction of the touched buckets is planned and carried out as if those files were live (CMP-17).
3. The files are committed as an APPEND snapshot, then the compaction as a COMPACT snapshot.

If the option ``full-compaction.delta-commits`` asks for it, a write compacts the whole table fully instead, after its
own commit (CMP-30).

So a failure before the commits leaves the table as it was. Two races are possible. If another write took our
sequence numbers, our rows are renumbered and step 2 is repeated (CMT-24, CMT-33). If another commit changed what a
compaction was planned on, that compaction is discarded and planned again on the latest snapshot (CMT-14).

Clauses: CMT-2, CMT-12, CMT-14, CMT-20, CMT-24, CMT-25, CMT-33, CMP-17, CMP-30.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import CommitConflictError, CommitUnknownError, InvalidRequestError, StorageError

from pktable.bucket.write import BucketAppend
from pktable.catalog import rules
from pktable.catalog.changes import Append, CommitId, Compaction, Conflicts, Replaces, replaced
from pktable.catalog.commit import AlreadyCommittedError, CommittedError, Committer
from pktable.catalog.delta_commits import is_full_compaction_due
from pktable.catalog.isolation import CLAUSE as STALE
from pktable.catalog.isolation import Isolation
from pktable.catalog.rules import AppendRule
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.file_changes import FileChanger, RowWork, StagedRewrite
from pktable.format.metadata.manifest import DataFileMeta
from pktable.ingest.changes import ChangeKind
from pktable.kinds import TableKind, kind_of
from pktable.lsm.bucket import BucketChange, BucketId, BucketState
from pktable.lsm.universal import Pick
from pktable.retry import RetryPolicy, retry
from pktable.run.runner import CompactionTask, RowChange, Runner
from pktable.store.new_files import NewFiles, remove_quietly

REPLANS: Final = RetryPolicy()
COMPACTION_FAILED: Final = "the write is committed, its compaction is not"
DO_NOT_REPEAT: Final = "do not write the rows again: the next write or compact() compacts them"


class _ConflictError(Exception):
    """The latest snapshot does not admit the change as it was planned."""


class _StaleReadError(Exception):
    """Another commit changed rows that a statement has read. ``snapshot``: the latest."""

    def __init__(self, snapshot: int) -> None:
        self.snapshot = snapshot


Work = Callable[[TableState], tuple[Any, ChangeKind]]
"""Computes the changes of a statement from the state that it reads: rows, and their kinds."""


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """The effect that a compaction would have in one bucket: the files it takes, and the level their rows go to.

    ``partition``: its directory, empty without partitions. ``files``, ``rows``, ``size_bytes``: of all files taken,
    retractions and deleted rows included.
    """

    partition: str
    bucket: int
    files: int
    rows: int
    size_bytes: int
    output_level: int


@dataclass(slots=True)
class Stager:
    """Plans, lets the runner work, and commits. ``clock``: milliseconds since the epoch."""

    context: TableContext
    states: StateLoader
    committer: Committer
    runner: Runner
    clock: Callable[[], int]
    policy: RetryPolicy = REPLANS

    def execute(self, work: Work, commit_id: CommitId, *, write_only: bool) -> TableState | None:
        """Compute a statement on the latest snapshot and commit it; return the state after it, None without changes.

        If another commit changed rows that it read, it is computed again. Raises CommitConflictError after many such
        commits. Clauses: STM-6.
        """

        def attempt() -> TableState | None:
            staged = self.committer.retry_on_latest_state(stage)
            return staged.commit(commit_id) if staged else None

        def stage(state: TableState) -> StagedWrite | None:
            rows, change = work(state)
            return self.write(rows, change, write_only=write_only, read=state)

        try:
            return retry(attempt, on=_StaleReadError, policy=self.policy)
        except _StaleReadError as error:
            raise CommitConflictError(
                f"statement failed: in all {self.policy.attempts} attempts other writers changed the rows it read",
                error.snapshot,
                "nothing of it is visible; execute it again when fewer write to the same keys",
            ) from None

    def write(
        self,
        rows: Any,
        change: ChangeKind,
        *,
        write_only: bool,
        read: TableState | None = None,
        replaces: Replaces | None = None,
    ) -> StagedWrite | None:
        """Stage a write on the latest snapshot; None if it changes nothing. Clauses: CMT-2.

        ``read``: of a statement, the state that it read. ``replaces``: of an overwrite, the partitions whose rows go.
        """
        state = read or self.committer.latest()
        self._expect_same_keys(state)
        new = NewFiles()
        try:
            numbers = {} if self.context.has_unaware_buckets else next_sequences(state)
            appends = self.runner.write(self.context, rows, change, numbers, new, self.clock())
            if not appends and replaces is None:
                return None
            if replaces is not None:
                appends = [self._without_changelog(append, new) for append in appends]
            only = write_only or not self.kind.compacts_writes
            staged = StagedWrite(self, appends, new, only, state, read=read, replaces=replaces)
            if self.context.has_unaware_buckets:
                staged.rules = ()
            staged.plan(state)
            return staged
        except BaseException:
            new.remove(self.context.store)
            raise

    def _without_changelog(self, append: BucketAppend, new: NewFiles) -> BucketAppend:
        """Remove the changelog files of an append that an overwrite commits. Clauses: CHG-12."""
        paths = {self.context.data_path(append.place, file) for file in append.changelog}
        remove_quietly(self.context.store, paths)
        new.paths = [path for path in new.paths if path not in paths]
        return replace(append, changelog=())

    @property
    def kind(self) -> TableKind:
        return kind_of(self.context.schema, self.context.root)

    @property
    def changer(self) -> FileChanger:
        """The part that changes the files of an append table."""
        return FileChanger(self.context, self.states, self.committer, self.runner, self.clock, self.policy)

    def change_rows(self, work: RowWork, commit_id: CommitId) -> TableState | None:
        """Compute a statement on an append table and commit it; return the state after it, None without changes.

        ``work`` gets the latest state, and gives the rows to delete, as `Runner.find` has found them there, and the
        rows to add. It is called again if others have changed the rows to delete before the commit.
        Raises CommitConflictError after many such commits. Clauses: APP-12 to APP-18.
        """

        def checked(state: TableState) -> RowChange:
            self._expect_same_keys(state)
            return work(state)

        return self.changer.execute(checked, commit_id)

    def compact_files(self, state: TableState, *, full: bool) -> StagedRewrite:
        """Stage the compaction of all buckets of ``state``, of an append table. Clauses: APP-19, APP-20."""
        self._expect_same_keys(state)
        return self.changer.compact(state, list(state.files), full=full)

    def compact(self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool) -> StagedCompaction:
        """Stage the compaction of some buckets of ``state``, of a table with a primary key."""
        return StagedCompaction(self, self.changes(state, bucket_ids, full=full), full, state)

    def changes(
        self,
        state: TableState,
        bucket_ids: Iterable[BucketId],
        *,
        full: bool,
        cached_rows: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> list[BucketChange]:
        """Plan the compaction of some buckets of ``state`` and do its data work; nothing becomes visible.

        ``cached_rows``: the rows of some files by name, which then are not read.
        """
        tasks = []
        for bucket, chosen in self._chosen(state, bucket_ids, full=full):
            names = cached_rows.keys() & {file.file_name for file in chosen.files}
            rows = {name: cached_rows[name] for name in names}
            tasks.append(CompactionTask(bucket, chosen, str(uuid.uuid4()), self.clock(), rows))
        changes = self.runner.compact(self.context, tasks) if tasks else []
        return [change for change in changes if not change.empty]

    def planned(self, state: TableState, *, full: bool) -> list[PlannedCompaction]:
        """Return what a compaction of ``state`` would compact, per bucket; nothing is done.

        In an append table a bucket may have several groups of files, each of which is compacted by itself.
        """
        if not self.context.schema.primary_keys:
            tasks = self.changer.picks(state, state.files, full=full)
            return [
                PlannedCompaction(
                    self.context.partition_path(task.state.place.partition),
                    task.state.place.bucket,
                    len(task.files),
                    sum(file.row_count for file in task.files),
                    task.input_bytes,
                    0,
                )
                for task in tasks
            ]
        return [
            PlannedCompaction(
                self.context.partition_path(bucket.place.partition),
                bucket.place.bucket,
                len(chosen.files),
                sum(file.row_count for file in chosen.files),
                sum(file.file_size for file in chosen.files),
                chosen.output_level,
            )
            for bucket, chosen in self._chosen(state, state.files, full=full)
        ]

    def _chosen(
        self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool
    ) -> Iterator[tuple[BucketState, Pick]]:
        """Yield the buckets that need a compaction, each with what to compact in it."""
        self._expect_same_keys(state)
        kind = self.kind
        for bucket_id in bucket_ids:
            bucket = self.states.bucket(state, bucket_id)
            chosen = kind.choose_compaction(self.context, bucket, full=full)
            if chosen is not None:
                yield bucket, chosen

    def is_full_compaction_due(self, state: TableState) -> bool:
        """Return whether the write that is planned on ``state`` is to compact the whole table. Clauses: CMP-30."""
        return is_full_compaction_due(self.context, self.committer.snapshots, state.snapshot)

    def isolation(self, read: TableState) -> Isolation:
        """Return what compares ``read`` with later states."""
        return Isolation(read, self.committer.snapshots, self.committer.manifests, self.context.order)

    def _expect_same_keys(self, state: TableState) -> None:
        """Raise InvalidRequestError unless live files have the table's keys and its number of buckets.

        Clauses: META-41, TBL-18.
        """
        self.context.expect_keys(file for live in state.files.values() for file in live)
        if state.bucket_counts - {self.context.options.bucket}:
            raise InvalidRequestError(
                f"{self.context.root}: option bucket is {self.context.options.bucket}, but live files were written "
                f"under {', '.join(map(str, sorted(state.bucket_counts)))} buckets; rescaling is not supported"
            )


@dataclass(slots=True)
class StagedWrite:
    """A write whose files exist and are not visible. Commit it or discard it, once.

    ``appends``: its new level-0 files. ``changes``: its compaction, planned on ``base`` with these files. ``full``:
    whether the whole table is compacted instead, after the commit.
    ``rules``: what its commit checks; other implementations check less. ``read``, ``replaces``: as in `Stager.write`.
    """

    stager: Stager
    appends: list[BucketAppend]
    new: NewFiles
    write_only: bool
    base: TableState
    changes: list[BucketChange] = field(default_factory=list)
    rules: Sequence[tuple[str, AppendRule]] = field(default_factory=lambda: rules.APPEND_RULES)
    read: TableState | None = None
    replaces: Replaces | None = None
    full: bool = False

    def plan(self, state: TableState) -> None:
        """Compact the touched buckets as if the new files were live in ``state``. Clauses: CMP-17, CMP-30."""
        self.base = state
        self.full = not self.write_only and self.stager.is_full_compaction_due(state)
        if not self.write_only and not self.full:
            self.changes = self.stager.changes(
                _with_appends(state, self.appends, replaced(state, self.replaces)),
                [append.place.id for append in self.appends],
                full=False,
                cached_rows={a.files[0].file_name: a.rows for a in self.appends if a.rows is not None},
            )

    def commit(self, commit_id: CommitId) -> TableState:
        """Make the write visible and return the state after it; if it was committed before, the state at that time.

        A write that was committed before has the same ``commit_id``, with an identifier of its own.
        Raises CommitConflictError and StorageError; their text says whether the rows are committed.
        Clauses: CMT-2, CMT-24, CMT-33, CMT-53.
        """
        try:
            state = self.commit_append(commit_id)
        except AlreadyCommittedError as before:
            self.discard()
            return before.state
        except (CommittedError, CommitUnknownError):
            self._discard_changes()
            raise
        except BaseException:
            self.discard()
            raise
        try:
            return self._commit_changes(state, commit_id)
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
            change = Append(self.appends, total_buckets, self.rules, isolation, self.replaces)
            outcome = committer.commit(change, commit_id, self.base)
            if any(conflict.clause == STALE for conflict in outcome.refused.values()):
                raise _StaleReadError(committer.latest().id)
            if outcome.state is None and not outcome.refused:  # an overwrite of nothing by nothing
                return self.base
            if outcome.state is None:
                committer.retry_on_latest_state(self._renumber)
                raise _ConflictError
            return outcome.state

        try:
            return retry(attempt, on=_ConflictError, policy=self.stager.policy)
        except _ConflictError:
            attempts = self.stager.policy.attempts
            raise CommitConflictError(
                f"write failed: other writers took its sequence numbers in all {attempts} attempts",
                committer.latest().id,
                "nothing of it is visible; write again when fewer write to the same buckets",
            ) from None

    def _renumber(self, state: TableState) -> None:
        """Give the rows sequence numbers above those of ``state``, and plan the compaction on it.

        Clauses: CMT-24, CMT-33.
        """
        context, again = self.stager.context, next_sequences(state)
        self._discard_changes()
        now, kind = self.stager.clock(), self.stager.kind
        self.appends = [
            kind.renumber(context, append, again.get(append.place.id, 0), self.new, now_millis=now)
            for append in self.appends
        ]
        used = {
            context.data_path(append.place, file)
            for append in self.appends
            for file in (*append.files, *append.changelog)
        }
        old = [path for path in self.new.paths if path not in used]
        remove_quietly(context.store, old)
        self.new.paths = [path for path in self.new.paths if path not in old]
        self.plan(state)

    def drop_stale(self, state: TableState) -> list[BucketId]:
        """Discard the compactions whose buckets had other live files, when the write committed, than planned on.

        ``state``: the one after the write. Returns their buckets, which are to be planned again. Clauses: CMT-54.
        """
        own = {append.place.id: append.files for append in self.appends}
        gone = replaced(self.base, self.replaces)
        stale = []
        for bucket_id in (change.place.id for change in self.changes):
            before = () if bucket_id in gone else self.base.files.get(bucket_id, ())
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
            committer.retry_on_latest_state(partial(self._plan, list(refused)))
            raise _ConflictError

        try:
            return retry(attempt, on=_ConflictError, policy=self.stager.policy)
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


def _with_appends(
    state: TableState, appends: Sequence[BucketAppend], gone: Collection[BucketId] = ()
) -> TableState:
    files = {bucket_id: live for bucket_id, live in state.files.items() if bucket_id not in gone}
    indexes = {bucket_id: index for bucket_id, index in state.indexes.items() if bucket_id not in gone}
    for append in appends:
        files[append.place.id] = (*files.get(append.place.id, ()), *append.files)
    return replace(state, files=files, indexes=indexes)


def _entries(*files: DataFileMeta) -> set[tuple[str, int]]:
    return {(file.file_name, file.level) for file in files}


def _remove_created(context: TableContext, changes: Iterable[BucketChange]) -> None:
    remove_quietly(context.store, [path for change in changes for path in change.created])
