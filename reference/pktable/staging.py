"""Stage a write or a compaction: how a change goes from plan to files that a commit makes visible.

A write:

1. The runner writes the rows as new level-0 files, numbered above all live sequence numbers.
2. The compaction of the touched buckets is planned and carried out as if those files were live (CMP-17).
3. `staged` commits the files as an APPEND snapshot, then the compaction as a COMPACT snapshot.

If the option ``full-compaction.delta-commits`` asks for it, a write compacts the whole table fully instead, after its
own commit (CMP-30). So a failure before the commits leaves the table as it was.

Clauses: CMT-2, CMT-12, CMT-20, CMP-17, CMP-30.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pktable_spec.errors import CommitConflictError, InvalidRequestError
from pktable_spec.options import POSTPONE_BUCKET

from pktable.bucket.assign import assigner_of
from pktable.bucket.hash_index import rebuilt
from pktable.bucket.write import BucketAppend
from pktable.catalog.changes import Assignment, CommitId, Replaces
from pktable.catalog.commit import Committer
from pktable.catalog.delta_commits import is_full_compaction_due
from pktable.catalog.isolation import Isolation
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.file_changes import REPLANS, FileChanger, RowWork, StagedRewrite
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.ingest.changes import ChangeKind
from pktable.kinds import TableKind, kind_of
from pktable.lsm.bucket import BucketChange, BucketId, BucketState
from pktable.lsm.universal import Pick
from pktable.postponed import WaitingMove
from pktable.retry import RetryPolicy, retry
from pktable.run.runner import CompactionTask, RowChange, Runner
from pktable.staged import StagedCompaction, StagedWrite, StaleReadError, Written, next_sequences
from pktable.store.new_files import NewFiles

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

    def execute(
        self, work: Work, commit_id: CommitId, *, write_only: bool, replaces: Replaces | None = None
    ) -> TableState | None:
        """Compute a statement on the latest snapshot and commit it; return the state after it, None without changes.

        ``replaces``: of one that writes partitions again, which these are. If another commit changed rows that it read,
        it is computed again. Raises CommitConflictError after many such commits. Clauses: BKT-20, STM-6.
        """

        def attempt() -> TableState | None:
            staged = self.committer.retry_on_latest_state(stage)
            return staged.commit(commit_id) if staged else None

        def stage(state: TableState) -> StagedWrite | None:
            rows, change = work(state)
            if rows is None:
                return None
            return self.write(state, rows, change, write_only=write_only, isolated=True, replaces=replaces)

        try:
            return retry(attempt, on=StaleReadError, policy=self.policy)
        except StaleReadError as error:
            raise CommitConflictError(
                f"statement failed: in all {self.policy.attempts} attempts other writers changed the rows it read",
                error.snapshot,
                "nothing of it is visible; execute it again when fewer write to the same keys",
            ) from None

    def write(
        self,
        state: TableState,
        rows: Any,
        change: ChangeKind,
        *,
        write_only: bool,
        isolated: bool = False,
        replaces: Replaces | None = None,
    ) -> StagedWrite | None:
        """Stage a write on ``state``, the latest; None if it changes nothing. Clauses: CMT-2.

        ``isolated``: whether ``rows`` were computed from ``state``. ``replaces``: of an overwrite, the partitions whose
        rows go.
        """
        self._expect_same_keys(state)
        new = NewFiles()

        def written(state: TableState) -> Written:
            return self._written(state, rows, change, new, replaces)

        try:
            appends, assignment = written(state)
            if not appends and replaces is None:
                new.remove(self.context.store)
                return None
            only = write_only or not self.kind.compacts_writes
            read = state if isolated else None
            staged = StagedWrite(
                self, appends, new, only, state, written, assignment, read=read, replaces=replaces
            )
            if self.context.has_unaware_buckets:
                staged.rules = ()
            staged.plan(state)
            return staged
        except BaseException:
            new.remove(self.context.store)
            raise

    def _written(
        self, state: TableState, rows: Any, change: ChangeKind, new: NewFiles, replaces: Replaces | None
    ) -> Written:
        """Write ``rows`` as files that are to become live after ``state``, whose hash index files assign them.

        Clauses: BKT-4, BKT-8, BKT-9, BKT-11.
        """
        known: dict[BucketId, IndexManifestEntry] = {}
        made: dict[BucketId, IndexManifestEntry] = {}
        if self.context.has_dynamic_buckets and replaces is None:
            lacking = [one for one in state.files if one not in state.hashes]
            made = {one: rebuilt(self.context, self.states.bucket(state, one), new) for one in lacking}
            known = {**state.hashes, **made}
        numbers = {} if self.context.has_unaware_buckets else next_sequences(state)
        assigner = assigner_of(self.context, known)
        appends = self.runner.write(self.context, rows, change, assigner, numbers, new, self.clock())
        if replaces is not None:
            self._expect_replaced(appends, replaces)
        else:
            self.expect_totals(state, appends)
        made |= {append.place.id: append.hashes for append in appends if append.hashes is not None}
        return appends, Assignment(state.hashes, made)

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

    def move_waiting(self, commit_id: CommitId, *, full: bool) -> TableState | None:
        """Give buckets to the rows that wait for one; return the state after it, None if none wait. Clauses: BKT-14."""
        return WaitingMove(self, full).commit(commit_id)

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
        waiting = [
            PlannedCompaction(
                self.context.partition_path(bucket_id[0]),
                bucket_id[1],
                len(state.files[bucket_id]),
                sum(file.row_count for file in state.files[bucket_id]),
                sum(file.file_size for file in state.files[bucket_id]),
                0,
            )
            for bucket_id in state.waiting
        ]
        return waiting + [
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
            if bucket_id[1] < 0:  # rows that wait for a bucket are moved, see `postponed`
                continue
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

    def _expect_replaced(self, appends: Iterable[BucketAppend], replaces: Replaces) -> None:
        """Raise InvalidRequestError unless an overwrite's rows are in partitions that it replaces. Clauses: STM-7."""
        for partition in {append.place.partition for append in appends}:
            if not replaces(partition):
                raise InvalidRequestError(
                    f"overwrite: rows of partition {self.context.partition_path(partition)} are outside of those "
                    "for which the condition holds; leave them out, or change the condition"
                )

    def _expect_same_keys(self, state: TableState) -> None:
        """Raise InvalidRequestError unless live files have the table's keys. Clauses: META-41."""
        self.context.expect_keys(file for live in state.files.values() for file in live)

    def expect_totals(self, state: TableState, appends: Iterable[BucketAppend]) -> None:
        """Raise InvalidRequestError unless the partitions of ``appends`` have the table's number of buckets.

        Clauses: BKT-19, TBL-18.
        """
        wanted = self.context.options.bucket
        for append in appends:
            partition, bucket = append.place.id
            totals = state.totals.get(partition, frozenset())
            if bucket >= 0 and wanted != POSTPONE_BUCKET and totals - {wanted}:
                remedy = "rescale() writes them again, or restore" if wanted > 0 else "restore"
                raise InvalidRequestError(
                    f"{append.place.directory}: option bucket is {wanted}, but live files of the partition were "
                    f"written under {', '.join(map(str, sorted(totals)))} buckets; "
                    f"{remedy} the option"
                )
