"""Make a change visible as the next snapshot, or say what stands against it.

Every attempt looks at the latest snapshot, checks the change against it, writes the metadata, and puts the
snapshot file if it is absent. When another commit was faster, the metadata of the attempt is removed and
everything is checked again: what was right for the old snapshot may be wrong for the new one.

Clauses: CMT-1 to CMT-12, CMT-14, DV-14, META-11.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

from pktable_spec.errors import CommitConflictError
from pktable_spec.vocabulary import APPEND, COMPACT

from pktable.bucket.write import BucketAppend
from pktable.catalog.manifests import ADD, DELETE, Manifests, ManifestWriter, MissingManifestError
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry, ManifestEntry, ManifestFileMeta
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketChange, BucketId
from pktable.lsm.runs import KeyOrder, level_run
from pktable.store.new_files import remove_quietly

ATTEMPTS = 1000
BATCH_COMMIT = (1 << 63) - 1  # commitIdentifier of a commit that is no streaming checkpoint

Indexes = Mapping[BucketId, IndexManifestEntry]
Result = TypeVar("Result")


class StaleSequenceError(CommitConflictError):
    """Another write took the sequence numbers of this one."""

    def __init__(self, buckets: Sequence[BucketId], state: TableState) -> None:
        super().__init__(f"{len(buckets)} buckets have newer sequence numbers", state.id)


class CommittedError(KeyboardInterrupt):
    """Interrupted after the snapshot file was there: the commit has happened, nothing of it may be removed."""

    def __init__(self, snapshot: int) -> None:
        super().__init__(f"interrupted after snapshot {snapshot} was committed")
        self.snapshot = snapshot


@dataclass(frozen=True, slots=True)
class _Delta:
    """Entries of one commit and the indexes of vectors after it."""

    kind: str
    entries: tuple[ManifestEntry, ...]
    indexes: Indexes


class Committer:
    """Commits to one table. ``clock`` gives milliseconds since the epoch."""

    def __init__(
        self,
        context: TableContext,
        snapshots: SnapshotLog,
        manifests: Manifests,
        states: StateLoader,
        clock: Callable[[], int],
    ) -> None:
        self._context, self._snapshots, self._manifests, self._states = context, snapshots, manifests, states
        self._clock = clock

    def latest(self) -> TableState:
        """Return the state of the latest snapshot."""
        return self.retry_on_latest_state(lambda state: state)

    def retry_on_latest_state(self, work: Callable[[TableState], Result]) -> Result:
        """Return what ``work`` makes of the state of the latest snapshot; anew if that expires. Clauses: RD-10."""
        return self._snapshots.retry_on_latest(
            lambda found: work(self._states.at(found) if found else TableState())
        )

    def append(
        self, appends: Sequence[BucketAppend], user: str, base: TableState | None = None
    ) -> TableState:
        """Commit new level-0 files as an APPEND snapshot and return its state.

        ``base``: the state they were numbered on. It saves looking for the latest where it still is that.
        Raises StaleSequenceError if they are not newer than all that is live.
        Clauses: CMT-2, CMT-6, CMT-10, CMT-18.
        """

        def delta(state: TableState) -> _Delta:
            stale = [a.place.id for a in appends if not _newer(a, state.files.get(a.place.id, ()))]
            if stale:
                raise StaleSequenceError(stale, state)
            entries = [self._entry(ADD, a.place.id, file) for a in appends for file in a.files]
            return _Delta(APPEND, tuple(entries), state.indexes)

        committed = self._commit(delta, user, base)
        assert committed is not None, "an append is never empty"
        return committed

    def compact(
        self,
        changes: Sequence[BucketChange],
        user: str,
        base: TableState | None = None,
        *,
        partly: bool = True,
    ) -> tuple[TableState | None, dict[BucketId, str]]:
        """Commit those changes that fit the latest snapshot as one COMPACT snapshot; not ``partly``: all or none.

        ``base``: the state they were planned on, or a later one.
        Returns its state (None if nothing fits, or nothing changes) and, for each bucket whose change did
        not fit, what stands against it: plan those anew. Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-14.
        """
        refused: dict[BucketId, str] = {}

        def delta(state: TableState) -> _Delta | None:
            refused.clear()
            entries: list[ManifestEntry] = []
            indexes = dict(state.indexes)
            for change in changes:
                identity = change.place.id
                reason = conflict(change, state, self._context.order)
                if reason:
                    refused[identity] = reason
                    continue
                entries += [self._entry(DELETE, identity, file) for file in change.removed]
                entries += [self._entry(ADD, identity, file) for file in change.added]
                indexes.pop(identity, None)
                if change.index is not None:
                    indexes[identity] = change.index
            nothing = not entries and indexes == state.indexes
            return None if nothing or (refused and not partly) else _Delta(COMPACT, tuple(entries), indexes)

        return self._commit(delta, user, base), refused

    def _commit(
        self, make_delta: Callable[[TableState], _Delta | None], user: str, base: TableState | None
    ) -> TableState | None:
        for attempt in range(ATTEMPTS):
            # Whether ``base`` is still the latest need not be known: if it is not, the put will fail.
            state = base if base and not attempt and self._is_retained(base) else self.latest()
            delta = make_delta(state)
            if delta is None:
                return None
            writer = self._manifests.writer()
            try:
                snapshot, after = self._next(state, delta, writer, user)
                if self._snapshots.put(snapshot, partial(self._is_base_of, after)):
                    self._states.remember(after)
                    return after
            except BaseException as error:
                # If the snapshot is there after all, the commit has happened, whatever failed then: its files stay.
                if not self._is_committed(state.id + 1, writer):
                    remove_quietly(self._context.store, writer.paths)
                    # A manifest of a snapshot that has expired: another commit was faster, and more than that.
                    if isinstance(error, MissingManifestError) and not self._is_retained(state):
                        continue
                    raise
                if not isinstance(error, Exception):
                    raise CommittedError(state.id + 1) from error
                return self.latest()
            remove_quietly(self._context.store, writer.paths)
        raise CommitConflictError(f"{ATTEMPTS} attempts to commit lost the race", self.latest().id)

    def _is_base_of(self, state: TableState, following: Snapshot) -> bool:
        """Whether ``following`` was made from ``state``. Raises SnapshotNotFoundError. Clauses: CMT-5."""
        try:
            base = self._manifests.read_list(following.base_manifest_list, following.base_manifest_list_size)
            return self._manifests.fold(base).keys() == self._manifests.fold(state.manifests).keys()
        except MissingManifestError as error:
            raise self._snapshots.expired_error(following) or error from None

    def _is_retained(self, state: TableState) -> bool:
        """Whether ``state`` is of a snapshot that is there, not rolled back or replaced since."""
        return state.snapshot is not None and self._snapshots.expired_error(state.snapshot) is None

    def _is_committed(self, snapshot: int, writer: ManifestWriter) -> bool:
        try:
            found = self._snapshots.read(snapshot)
        except Exception:
            return self._context.store.exists(self._context.paths.snapshot(snapshot))
        return any(path.endswith("/" + found.delta_manifest_list) for path in writer.paths)

    def _next(
        self, state: TableState, delta: _Delta, writer: ManifestWriter, user: str
    ) -> tuple[Snapshot, TableState]:
        """Write the metadata of the next snapshot. Clauses: CMT-5, CMT-6, META-11."""
        base = writer.merged(state.manifests)
        new = writer.entries(delta.entries) if delta.entries else []
        base_name, base_size = writer.manifest_list(base)
        delta_name, delta_size = writer.manifest_list(new)
        all_indexes = (*delta.indexes.values(), *state.other_indexes)
        if delta.indexes == state.indexes:
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
            index_manifest=index_name,
            commit_user=user,
            commit_identifier=BATCH_COMMIT,
            commit_kind=delta.kind,
            # Time travel needs times that do not run backwards, whatever the clocks of the writers.
            time_millis=max(self._clock(), state.snapshot.time_millis if state.snapshot else 0),
            total_record_count=(state.snapshot.total_record_count if state.snapshot else 0) + change,
            delta_record_count=change,
        )
        return snapshot, _after(state, snapshot, (*base, *new), delta)

    def _entry(self, kind: int, identity: BucketId, file: DataFileMeta) -> ManifestEntry:
        return ManifestEntry(kind, identity[0], identity[1], self._context.options.bucket, file)


def conflict(change: BucketChange, state: TableState, order: KeyOrder) -> str | None:
    """Return what stands against ``change`` in ``state``, or None.

    Clauses: CMT-7, CMT-8, CMT-9, CMT-11.
    """
    identity = change.place.id
    live = {(file.file_name, file.level): file for file in state.files.get(identity, ())}
    for file in change.removed:
        if live.pop((file.file_name, file.level), None) is None:
            return f"{file.file_name} is no longer live at level {file.level}"
    latest, base = state.indexes.get(identity), change.base_index
    if (latest and latest.file_name) != (base and base.file_name):
        return f"the vectors of bucket {identity[1]} have changed"
    after = [*live.values(), *change.added]
    names = {file.file_name for file in after}
    for vector in (change.index.ranges or ()) if change.index else ():
        if vector.data_file not in names:
            return f"{vector.data_file}, which a vector names, is no longer live"
    for level in {file.level for file in change.added if file.level > 0}:
        run = level_run(after, level, order)
        for left, right in pairwise(run):
            if order.greatest(left) >= order.smallest(right):
                return f"{left.file_name} and {right.file_name} overlap at level {level}"
    return None


def _newer(append: BucketAppend, live: Sequence[DataFileMeta]) -> bool:
    # Not the least number that is in a file: below it there may be room for a write that came between.
    return append.first_sequence > max((file.max_sequence_number for file in live), default=-1)


def _after(
    state: TableState, snapshot: Snapshot, manifests: Sequence[ManifestFileMeta], delta: _Delta
) -> TableState:
    """Return the state that ``delta`` makes of ``state``, without reading anything back. Clauses: CMT-4."""
    files = dict(state.files)
    for entry in delta.entries:
        identity = (entry.partition, entry.bucket)
        if entry.kind == ADD:
            files[identity] = (*files.get(identity, ()), entry.file)
        else:
            gone = (entry.file.file_name, entry.file.level)
            files[identity] = tuple(f for f in files[identity] if (f.file_name, f.level) != gone)
    counts = state.bucket_counts | {entry.total_buckets for entry in delta.entries if entry.kind == ADD}
    return TableState(
        snapshot,
        tuple(manifests),
        {identity: found for identity, found in files.items() if found},
        dict(delta.indexes),
        state.other_indexes,
        counts,
    )
