"""How a write or a compaction goes from plan to snapshot, whoever does the work in between.

A write does all its data work first: the new level-0 files, and the compaction of the buckets they go to,
as if they were there already. Then it commits twice, APPEND and COMPACT. So a failure before the commits
leaves the table as it was. Two races are possible, and each has its answer. Another write took our sequence
numbers: ours are given anew (CMT-10). Another compaction changed what ours was planned on: ours is thrown
away and planned anew from the latest snapshot (CMT-14).

Clauses: CMT-2, CMT-10, CMT-12, CMT-14, CMP-17.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
from pktable_spec.errors import CommitConflictError, InvalidRequestError

from pktable.bucket.write import BucketAppend, renumber
from pktable.catalog.commit import CommittedError, Committer, StaleSequenceError
from pktable.catalog.state import StateLoader, TableState
from pktable.check.bucket import BucketReport, BucketTask
from pktable.check.findings import Progress
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.run.local import CompactionTask, Query
from pktable.store.new_files import NewFiles, remove_quietly

ATTEMPTS = 200  # to win a race against others who write the same buckets; each loss is another's success


class Runner(Protocol):
    """Who does the bucket work: this process or a cluster. Nothing it does is visible before a commit."""

    def write(
        self,
        context: TableContext,
        rows: Any,
        change: ChangeKind,
        next_sequence: Mapping[BucketId, int],
        new: NewFiles,
        now_millis: int,
    ) -> list[BucketAppend]: ...

    def compact(self, context: TableContext, tasks: Sequence[CompactionTask]) -> list[BucketChange]: ...

    def read(self, context: TableContext, query: Query) -> Any: ...

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table: ...

    def count(self, context: TableContext, query: Query) -> int: ...

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]: ...


@dataclass(slots=True)
class Stager:
    """Plans, lets the runner work, commits. ``clock``: milliseconds since the epoch."""

    context: TableContext
    states: StateLoader
    committer: Committer
    runner: Runner
    clock: Callable[[], int]

    def write(self, rows: Any, change: ChangeKind, *, write_only: bool) -> StagedWrite | None:
        """Do the data work of a write on the latest snapshot; None if ``rows`` is empty. Clauses: CMT-2."""
        state = self.committer.latest()
        self._expect_same_keys(state)
        new = NewFiles()
        try:
            appends = self.runner.write(self.context, rows, change, next_sequences(state), new, self.clock())
            if not appends:
                return None
            prepared = StagedWrite(self, appends, new, write_only, state)
            prepared.plan(state)
            return prepared
        except BaseException:
            new.remove(self.context.store)
            raise

    def compact(self, state: TableState, identities: Iterable[BucketId], *, full: bool) -> StagedCompaction:
        """Do the data work of compacting some buckets of ``state``."""
        return StagedCompaction(self, self._changes(state, identities, full=full), full, state)

    def _changes(
        self,
        state: TableState,
        identities: Iterable[BucketId],
        *,
        full: bool,
        cached_rows: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> list[BucketChange]:
        self._expect_same_keys(state)
        tasks = []
        kind = kind_of(self.context.schema, self.context.root)
        for identity in identities:
            bucket = self.states.bucket(state, identity)
            chosen = kind.choose_compaction(self.context, bucket, full=full)
            if chosen is not None:
                names = cached_rows.keys() & {file.file_name for file in chosen.files}
                rows = {name: cached_rows[name] for name in names}
                tasks.append(CompactionTask(bucket, chosen, str(uuid.uuid4()), self.clock(), rows))
        return (
            [change for change in self.runner.compact(self.context, tasks) if not change.empty]
            if tasks
            else []
        )

    def _expect_same_keys(self, state: TableState) -> None:
        """Raise InvalidRequestError unless live files have the table's keys, in the buckets that the table has."""
        self.context.expect_keys(file for live in state.files.values() for file in live)
        if state.bucket_counts - {self.context.options.bucket}:
            raise InvalidRequestError(
                f"{self.context.root}: option bucket is {self.context.options.bucket}, but live files were written "
                f"under {', '.join(map(str, sorted(state.bucket_counts)))} buckets; rescaling is not supported"
            )


@dataclass(slots=True)
class StagedWrite:
    """Data work that is done and not visible. Commit it or discard it, once."""

    changer: Stager
    appends: list[BucketAppend]
    new: NewFiles
    write_only: bool
    base: TableState
    changes: list[BucketChange] = field(default_factory=list)

    def plan(self, state: TableState) -> None:
        """Compact the buckets as if the new files were in ``state`` already. Clauses: CMP-17."""
        self.base = state
        if not self.write_only:
            self.changes = self.changer._changes(
                _with_appends(state, self.appends),
                [append.place.id for append in self.appends],
                full=False,
                cached_rows={a.files[0].file_name: a.rows for a in self.appends if a.rows is not None},
            )

    def commit(self, user: str) -> TableState:
        """Make the write visible; return the state after it. Clauses: CMT-2, CMT-10."""
        try:
            state = self._append(user)
        except CommittedError:
            self._discard_changes()
            raise
        except BaseException:
            self.discard()
            raise
        if not self.changes:
            return state
        compaction = StagedCompaction(self.changer, self.changes, full=False, base=state)
        try:
            return compaction.commit(user) or state
        except CommitConflictError as error:
            raise CommitConflictError(
                f"the write is committed, its compaction is not: {error.what}", error.snapshot
            ) from None

    def discard(self) -> None:
        """Remove the files; nothing of the write is left. Clauses: CMT-12."""
        self._discard_changes()
        self.new.remove(self.changer.context.store)

    def _append(self, user: str) -> TableState:
        for _ in range(ATTEMPTS):
            try:
                return self.changer.committer.append(self.appends, user, self.base)
            except StaleSequenceError:
                self.changer.committer.retry_on_latest_state(self._renumber)
        raise CommitConflictError(
            f"{ATTEMPTS} attempts to number the rows lost the race", self.changer.committer.latest().id
        )

    def _renumber(self, state: TableState) -> None:
        """Give the rows sequence numbers above those of ``state``, and plan the compaction on it. Clauses: CMT-10."""
        files, again = self.changer.context, next_sequences(state)
        self._discard_changes()
        old = list(self.new.paths)
        now = self.changer.clock()
        self.appends = [
            renumber(files, append, again.get(append.place.id, 0), self.new, now_millis=now)
            for append in self.appends
        ]
        remove_quietly(files.store, old)
        self.new.paths = [path for path in self.new.paths if path not in old]
        self.plan(state)

    def _discard_changes(self) -> None:
        remove_quietly(
            self.changer.context.store, [path for change in self.changes for path in change.created]
        )
        self.changes = []


@dataclass(slots=True)
class StagedCompaction:
    """A compaction that is done and not visible. Commit it or discard it, once."""

    changer: Stager
    changes: list[BucketChange]
    full: bool
    base: TableState

    def commit(self, user: str) -> TableState | None:
        """Make the compaction visible; return the state after it, None if it changed nothing.

        What no longer fits is planned anew. Raises CommitConflictError after many lost races.
        Clauses: CMT-7, CMT-8, CMT-9, CMT-14.
        """
        committed: TableState | None = None
        for _ in range(ATTEMPTS):
            if not self.changes:
                return committed
            try:
                state, refused = self.changer.committer.compact(self.changes, user, self.base)
            except CommittedError:
                raise
            except BaseException:
                self.discard()
                raise
            committed = state or committed
            if not refused:
                return committed
            self.changes = [change for change in self.changes if change.place.id in refused]
            self.discard()
            self.changer.committer.retry_on_latest_state(partial(self._plan, refused))
        self.discard()
        raise CommitConflictError("; ".join(refused.values()), self.changer.committer.latest().id)

    def _plan(self, identities: Iterable[BucketId], state: TableState) -> None:
        self.base = state
        self.changes = self.changer._changes(state, identities, full=self.full)

    def commit_once(self, user: str) -> bool:
        """Make all of the compaction visible as it was planned, or drop it and return False. Clauses: CMT-7."""
        _, refused = self.changer.committer.compact(self.changes, user, self.base, partly=False)
        if refused:
            self.discard()
        return not refused

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        remove_quietly(
            self.changer.context.store, [path for change in self.changes for path in change.created]
        )
        self.changes = []


def next_sequences(state: TableState) -> dict[BucketId, int]:
    """Return per bucket the first sequence number above all of its live files. Clauses: LSM-5."""
    return {
        identity: max(file.max_sequence_number for file in files) + 1
        for identity, files in state.files.items()
    }


def _with_appends(state: TableState, appends: Sequence[BucketAppend]) -> TableState:
    files = dict(state.files)
    for append in appends:
        files[append.place.id] = (*files.get(append.place.id, ()), *append.files)
    return replace(state, files=files)
