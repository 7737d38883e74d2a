"""Commit a change whose files exist as the next snapshot: the one loop in which others may be faster.

Each attempt does this:

1. Take the state that the change was planned on, or the state of the latest snapshot if another commit was faster.
2. Ask the change for its conflicts with that state, and for its delta without the parts that conflict.
3. Write the metadata: manifests, manifest lists and the index manifest.
4. Put the snapshot file if it is absent, and see that it became a snapshot, see `publish`.

If another commit was faster, the metadata of the attempt is removed and everything is checked again: a change
that fits the old snapshot may not fit the new one. The parts that do not fit are planned again on the latest state.

Clauses: APP-12 to APP-20, CMT-1 to CMT-12, CMT-14, CMT-18 to CMT-23, CMT-25, CMT-63, DV-14, META-11.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from pktable_spec.errors import CommitConflictError, CommitUnknownError, CorruptFileError
from pktable_spec.vocabulary import COMPACT

from pktable.catalog.branch_names import gone
from pktable.catalog.changes import CatalogChange, CommitId, Conflicts, with_row_ids
from pktable.catalog.earlier_commits import CommitIds, delta_commits_after
from pktable.catalog.fences import BEGUN, FenceTakenError
from pktable.catalog.manifests import Manifests, ManifestWriter, MissingManifestError
from pktable.catalog.publish import Publisher, Put, Verdict
from pktable.catalog.schemas import expect_latest_schema, expect_opened
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import Delta, StateLoader, TableState, applied
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD
from pktable.format.metadata.snapshot import Fence, Snapshot
from pktable.format.paths import GREATEST
from pktable.retry import RetryPolicy, retry
from pktable.store.new_files import remove_quietly
from pktable.store.requests import together

Result = TypeVar("Result")

COMMITS: Final = RetryPolicy(races=True)
SHOWN: Final = 3
"""How many conflicts a message lists."""
logger = logging.getLogger("pktable")
INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)


class _LostRaceError(Exception):
    """Another commit was faster."""


class _RefusedError(_LostRaceError):
    """The latest snapshot does not admit parts of the change as they were planned. ``failure``: see `Staged`."""

    def __init__(self, refused: Conflicts, failure: tuple[str, str, str]) -> None:
        super().__init__("; ".join([str(one) for one in refused.values()][:SHOWN]))
        self.failure = failure


class CommittedError(KeyboardInterrupt):
    """Interrupted after the snapshot file was there: the commit has happened, nothing of it may be removed."""

    def __init__(self, snapshot: int) -> None:
        super().__init__(f"interrupted after snapshot {snapshot} was committed")
        self.snapshot = snapshot


class AlreadyCommittedError(Exception):
    """A retained snapshot has the identifier of this commit. ``state``: of that snapshot."""

    def __init__(self, state: TableState) -> None:
        super().__init__(f"committed before as snapshot {state.id}")
        self.state = state


@dataclass(slots=True)
class _Doubt:
    """The error that an interrupt becomes while a snapshot may name files of the change; None while they may go."""

    error: CommittedError | CommitUnknownError | None = None


class Staged(Protocol):
    """A change whose files exist. As it stands here it fits every state."""

    @property
    def base(self) -> TableState | None:
        """The state that it is planned on, if it is."""
        return None

    @property
    def is_followed(self) -> bool:
        """Whether the caller makes the next commit at once."""
        return False

    @property
    def failure(self) -> tuple[str, str, str]:
        """The work that always lost, against what, and what to do, for a message."""
        raise AssertionError("it fits every state")

    def change(self) -> CatalogChange | None:
        """Return what is to be committed, None if nothing is left."""
        ...

    def refuse(self, refused: Conflicts) -> None:
        """Remove the files of what others have made void; the other parts, if there are some, are committed."""
        raise AssertionError("it fits every state")

    def plan_again(self, state: TableState) -> None:
        """Plan on ``state`` what was refused."""
        raise AssertionError("it fits every state")

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        ...


class Committer:
    """Commits to one table. ``clock`` gives milliseconds since the epoch."""

    def __init__(
        self,
        context: TableContext,
        snapshots: SnapshotLog,
        manifests: Manifests,
        states: StateLoader,
        clock: Callable[[], int],
        policy: RetryPolicy = COMMITS,
    ) -> None:
        self._context, self.snapshots, self.manifests, self._states = context, snapshots, manifests, states
        self.clock, self.policy = clock, policy
        self.publisher = Publisher(context, snapshots)
        self._commit_ids = CommitIds(snapshots)
        self.expire: Callable[[], object] = lambda: None
        """Expires what the table asks for, after a commit."""

    def latest(self) -> TableState:
        """Return the state of the latest snapshot."""
        return self.retry_on_latest_state(lambda state: state)

    def retry_on_latest_state(self, work: Callable[[TableState], Result], *, commits: bool = False) -> Result:
        """Return what ``work`` makes of the state of the latest snapshot; again if that expires. Clauses: RD-18.

        ``commits``: whether it is for a commit, see `SnapshotLog.latest`.
        """
        return self.snapshots.retry_on_latest(lambda found: work(self._states.opened(found)), commits=commits)

    def commit(self, staged: Staged, commit_id: CommitId) -> TableState | None:
        """Make a change visible, planned again as often as others are faster; return the state after it.

        None if it changes nothing. If it fails its files are removed, unless it may have been committed.
        Raises CommitConflictError if other writers were faster in every attempt, CommittedError if interrupted after
        the snapshot was there, AlreadyCommittedError if the commit was made before, CommitUnknownError if it cannot be
        found out whether the commit succeeded. Raises InvalidRequestError for an id that cannot be stored.
        Clauses: CMT-1, CMT-3, CMT-7, CMT-8, CMT-9, CMT-10, CMT-11, CMT-12, CMT-14, CMT-21, CMT-42, CMT-69.
        """
        doubt = _Doubt()
        try:
            return self._committed(staged, CommitId.given(commit_id), doubt)
        except _LostRaceError as lost:
            staged.discard()
            work, why = "commit", "other writers committed first"
            remedy = "nothing of it is visible; try again when fewer commit to the table"
            if isinstance(lost, _RefusedError):
                work, why, remedy = lost.failure
                why = f"{why}: {lost}"
            what = f"{work} failed: in all {self.policy.attempts} attempts {why}"
            raise CommitConflictError(what, self.latest().id, remedy) from None
        except BaseException as error:
            if doubt.error is None:
                staged.discard()
            elif isinstance(error, INTERRUPTS):
                raise doubt.error from error
            raise

    def _committed(self, staged: Staged, commit_id: CommitId, doubt: _Doubt) -> TableState | None:
        """Do what `commit` says, but for what it does after a failure."""
        # Whether the state is still the latest need not be known: if it is not, the put will fail.
        planned_on, after = staged.base, None
        void: Conflicts = {}  # of what is to be planned again
        lost = _LostRaceError()

        def fitted(state: TableState) -> tuple[TableState, Delta | None, Conflicts]:
            """Return the latest state, and what fits it. Plan again what is void, or if nothing fits."""
            nonlocal void, lost
            if not void:
                delta, refused = self._fitting(staged, state)
                if delta or not refused:
                    return state, delta, refused
                staged.refuse(refused)
                void = refused
            lost = _RefusedError(void, staged.failure)
            staged.plan_again(state)
            void = {}
            return state, *self._fitting(staged, state)

        def attempt() -> TableState | None:
            nonlocal planned_on, after, void, lost
            if not void and staged.change() is None:
                return None
            # Before the state: the snapshot must not claim to know of a rollback that its base does not know of.
            fence = self.snapshots.fences.recent()
            base, planned_on, lost = planned_on, None, _LostRaceError()
            if base and self._has_not_ended(base, fence):
                state, (delta, refused) = base, self._fitting(staged, base)
            else:
                state, delta, refused = self.retry_on_latest_state(fitted, commits=True)
            try:
                if delta:
                    after = self._put(state, delta, commit_id, fence, doubt, is_followed=staged.is_followed)
            except _LostRaceError:
                raise lost from None
            if delta and after and not staged.is_followed:
                self._look_after(after)
            if refused:
                staged.refuse(refused)  # what is committed is no part of it any more
                doubt.error, void = None, refused
                raise _RefusedError(refused, staged.failure)
            return after

        return retry(attempt, on=_LostRaceError, policy=self.policy)

    def _fitting(self, staged: Staged, state: TableState) -> tuple[Delta | None, Conflicts]:
        """Return the effect on ``state`` of what fits it, and the conflicts of what does not."""
        change = staged.change()
        if change is None:
            return None, {}
        try:
            refused = change.conflicts(state)
            return change.delta(state, refused), refused
        except CorruptFileError:  # a file of a snapshot that has expired is missing
            if state.snapshot is None or self._is_retained(state):
                raise
            raise _LostRaceError from None

    def _look_after(self, state: TableState) -> None:
        """Expire what the table asks for. A failure must not look as if the commit had failed. Clauses: CMT-63."""
        try:
            self.expire()
        except FenceTakenError:
            pass  # another process expires
        except Exception as error:
            logger.warning(
                "snapshot %d is committed; older snapshots did not expire, which the next commit tries again: %s",
                state.id,
                error,
            )

    def _expect_new(self, commit_id: CommitId, state: TableState) -> None:
        """Raise AlreadyCommittedError if a retained snapshot is of this commit. Clauses: CMT-53.

        A commit that comes after this look takes the id that follows ``state``.
        """
        found = self._commit_ids.find(commit_id, state.snapshot) if state.snapshot else None
        if found is not None:
            raise AlreadyCommittedError(self._states.at(found))

    def _put(
        self,
        state: TableState,
        delta: Delta,
        commit_id: CommitId,
        fence: Fence,
        doubt: _Doubt,
        *,
        is_followed: bool,
    ) -> TableState:
        """Write the metadata of the next snapshot and put the snapshot.

        Raises _LostRaceError, AlreadyCommittedError, CommitUnknownError, InvalidRequestError if the schema has changed.
        Clauses: CMT-12, CMT-38, TBL-19.
        """
        writer = self.manifests.writer()
        writer.paths += delta.created
        try:
            if delta.kind != COMPACT:
                self._expect_new(commit_id, state)
            snapshot, after = self._next(state, delta, writer, commit_id, fence)
            calls: list[Callable[[], None]] = [writer.flush, partial(expect_latest_schema, self._context)]
            together(self._context.store, calls)
        except BaseException as error:
            remove_quietly(self._context.store, writer.paths)
            # A manifest of a snapshot that has expired is missing: other commits were faster.
            if isinstance(error, MissingManifestError) and not self._is_retained(state):
                raise _LostRaceError from None
            raise
        put = Put(snapshot, state.snapshot, partial(self.is_base_of, state, after))
        committed = CommittedError(snapshot.id)
        doubt.error = CommitUnknownError(self._context.paths.snapshot(snapshot.id), snapshot.id)
        outcome, failure = self.publisher.put(put)
        if outcome is Verdict.UNKNOWN:
            raise doubt.error from failure
        if outcome is Verdict.COMMITTED:
            doubt.error = committed
            with suppress(Exception):  # it must not look as if the commit had failed
                self._states.remember(after)
                self.snapshots.remember(snapshot, is_followed=is_followed)
            if failure is not None and not isinstance(failure, Exception):
                raise failure
            return after
        doubt.error = None
        remove_quietly(self._context.store, writer.paths)
        if outcome is Verdict.GONE:
            expect_opened(self._context)
            raise gone(self._context.store, self._context.paths)
        if outcome is Verdict.BLOCKED:
            raise CommitConflictError(
                f"{self._context.paths.snapshot(snapshot.id)} {BEGUN}", state.id
            ) from failure
        if failure is not None and (outcome is Verdict.FAILED or not isinstance(failure, Exception)):
            raise failure
        raise _LostRaceError

    def is_base_of(self, before: TableState, after: TableState, following: Snapshot) -> bool | None:
        """Return whether ``following`` was made from ``after``, which was made from ``before``; None if it may be.

        Raises SnapshotNotFoundError. Clauses: CMT-5, CMT-41.
        """
        try:
            base = self.manifests.read_list(following.base_manifest_list, following.base_manifest_list_size)
            if self.manifests.fold(base).keys() != self.manifests.fold(after.manifests).keys():
                return False
            indexes = self.manifests.read_index(following.index_manifest) if following.index_manifest else ()
        except MissingManifestError as error:
            raise self.snapshots.expired_error(following) or error from None
        if after.files != before.files:
            return True
        # Only vectors changed: what was made from another state has the same data files, and no other file of ours.
        found = {one.file_name for one in base} | {one.file_name for one in indexes}
        return None if found.isdisjoint(_metadata_names(after) - _metadata_names(before)) else True

    def _has_not_ended(self, state: TableState, fence: Fence) -> bool:
        """Return whether ``state`` may be the latest by ``fence``; without a snapshot, whether nothing has ended."""
        if state.snapshot is None:
            return not fence.has_ended_ids
        return not self.snapshots.fences.hides(fence, state.snapshot)

    def _is_retained(self, state: TableState) -> bool:
        """Whether ``state`` is of a snapshot that is there, not rolled back or replaced since."""
        return state.snapshot is not None and self.snapshots.expired_error(state.snapshot) is None

    def _next(
        self, state: TableState, delta: Delta, writer: ManifestWriter, commit_id: CommitId, fence: Fence
    ) -> tuple[Snapshot, TableState]:
        """Write the metadata of the next snapshot.

        Clauses: APP-24, CHG-1, CHG-2, CMT-5, CMT-6, CMT-22, CMT-23, META-11, META-55.
        """
        if state.id >= GREATEST:
            raise CorruptFileError(
                "snapshot id",
                at=self._context.paths.snapshots,
                expected=f"less than {GREATEST}",
                found=state.id,
            )
        next_row_id = state.snapshot.next_row_id if state.snapshot else None
        if self._context.options.row_tracking:
            before = self._context.paths.snapshot(state.id)
            entries, next_row_id = with_row_ids(delta.entries, state, at=before)
            delta = replace(delta, entries=entries)
        base = writer.merged(state.manifests)
        new = writer.entries(delta.entries) if delta.entries else []
        base_name, base_size = writer.manifest_list(base)
        delta_name, delta_size = writer.manifest_list(new)
        changelog = writer.manifest_list(writer.entries(delta.changelog)) if delta.changelog else None
        vectors = (one for files in delta.indexes.values() for one in files)
        all_indexes = (*vectors, *delta.hashes.values(), *state.other_indexes)
        if delta.indexes == state.indexes and delta.hashes == state.hashes:
            index_name = state.snapshot.index_manifest if state.snapshot else None
        else:
            index_name = writer.index(all_indexes) if all_indexes else None
        change = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta.entries)
        snapshot = Snapshot(
            id=state.id + 1,
            uuid=str(uuid.uuid4()),
            schema_id=self._context.schema.id,
            base_manifest_list=base_name,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_name,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog[0] if changelog else None,
            changelog_manifest_list_size=changelog[1] if changelog else None,
            index_manifest=index_name,
            commit_user=commit_id.user,
            commit_identifier=commit_id.identifier,
            commit_kind=delta.kind,
            # Time travel needs times that do not run backwards, whatever the clocks of the writers.
            time_millis=max(self.clock(), state.snapshot.time_millis if state.snapshot else 0),
            total_record_count=(state.snapshot.total_record_count if state.snapshot else 0) + change,
            delta_record_count=change,
            changelog_record_count=sum(e.file.row_count for e in delta.changelog) if changelog else None,
            next_row_id=next_row_id,
            fence=fence.number,
        )
        after = applied(state, snapshot, (*base, *new), delta)
        count = delta_commits_after(self._context, self.snapshots, state.snapshot, after, delta.kind)
        if count is None:
            return snapshot, after
        snapshot = replace(snapshot, delta_commits=count)
        return snapshot, replace(after, snapshot=snapshot)


def _metadata_names(state: TableState) -> set[str]:
    """Return the names of the manifests and DV index files of a state."""
    indexes = {one.file_name for files in state.indexes.values() for one in files}
    return {one.file_name for one in state.manifests} | indexes
