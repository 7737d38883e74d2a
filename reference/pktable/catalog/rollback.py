"""Go back to an earlier snapshot or to a tag: the later snapshots go.

Back to a retained snapshot:

1. Put a fence that names the target and the snapshots above it. From here on these have ended, and every commit that
   was planned before has to be planned again. If another fence came between, begin again.
2. Remove the files of these snapshots, the latest first. An interruption leaves files that the next committer removes.

A tag may keep a snapshot that has expired. Its id cannot come back, so the state of the tag is committed as a new
snapshot, and then all others expire. A second tag keeps its files until then.

The data files of the snapshots that went are orphans; an expiry cannot tell that nothing will need them.

Clauses: CMT-42, CMT-43, CMT-45, CMT-46, CMT-47.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError
from pktable_spec.vocabulary import OVERWRITE

from pktable.catalog.changes import CommitId, Conflicts, entry
from pktable.catalog.commit import Committer
from pktable.catalog.fences import FenceTakenError
from pktable.catalog.retention import FENCES, Expiry
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import Delta, StateLoader, TableState
from pktable.format.metadata.manifest import ADD, DELETE
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId
from pktable.retry import retry


@dataclass(frozen=True)
class Restore:
    """The change that makes the latest state equal to an earlier one. ``total_buckets``: of the table."""

    wanted: TableState
    total_buckets: int

    def conflicts(self, state: TableState) -> Conflicts:
        """Return no conflict: it fits every state."""
        return {}

    def delta(self, state: TableState, refused: Collection[BucketId]) -> Delta:
        """Return the files that go and those that come back, and the DV index files as they were."""
        now, then = (
            {(bucket, one.file_name, one.level): one for bucket, files in of.files.items() for one in files}
            for of in (state, self.wanted)
        )
        entries = [entry(DELETE, key[0], self.total_buckets, now[key]) for key in now.keys() - then.keys()]
        entries += [entry(ADD, key[0], self.total_buckets, then[key]) for key in then.keys() - now.keys()]
        return Delta(OVERWRITE, tuple(entries), self.wanted.indexes)


class Rollback:
    """Rolls one table back."""

    def __init__(
        self, snapshots: SnapshotLog, states: StateLoader, committer: Committer, expiry: Expiry, buckets: int
    ) -> None:
        self._snapshots, self._states, self._committer = snapshots, states, committer
        self._expiry, self._buckets = expiry, buckets

    def to_snapshot(self, target: int) -> list[int]:
        """Make a retained snapshot the latest; return the ids of those that went, ascending.

        Raises SnapshotNotFoundError, and InvalidRequestError if a tag keeps a later snapshot.
        Clauses: CMT-42, CMT-43, CMT-45.
        """
        return retry(lambda: self._to_snapshot(target), on=FenceTakenError, policy=FENCES)

    def _to_snapshot(self, target: int) -> list[int]:
        fence = self._snapshots.fences.newest()
        self._snapshots.read(target)
        ended = []
        for later in (one for one in self._snapshots.ids() if one > target):
            snapshot = self._snapshots.file(later)
            if snapshot is None:
                raise FenceTakenError  # another rollback was faster
            ended.append(snapshot)
        if not ended:
            return []
        self._expect_no_later_tags(target)
        fence = self._snapshots.fences.put_rollback(fence, target, ended)
        # Also those that were committed since.
        for later in sorted((one for one in self._snapshots.listed() if one > target), reverse=True):
            snapshot = self._snapshots.file(later)
            if snapshot is not None and self._snapshots.fences.is_rolled_back(fence, snapshot):
                self._snapshots.fences.remove_rolled_back(snapshot)
        self._snapshots.hint_latest(target)
        return [snapshot.id for snapshot in ended]

    def to_tag(self, tag: str, commit_id: CommitId) -> list[int]:
        """Make the latest snapshot what a tag keeps; return the ids of those that went, ascending.

        Raises SnapshotNotFoundError, and InvalidRequestError if another tag keeps a later snapshot.
        Clauses: CMT-45, CMT-47.
        """
        kept = self._snapshots.by_tag(tag)
        if self._snapshots.expired_error(kept) is None:
            return self.to_snapshot(kept.id)
        second = f"rollback-{uuid.uuid4()}"
        self._expiry.copy_tag(tag, kept, second)
        try:
            state = self._states.at(kept)
            self._committer.commit(Restore(state, self._buckets), commit_id)
        finally:
            self._expiry.drop_tag(second)
        return self._expiry.expire(retain_last=1, older_than=None)

    def _expect_no_later_tags(self, target: int) -> None:
        later = [name for name in self._snapshots.tags() if self._id_of(name) > target]
        if later:
            raise InvalidRequestError(
                f"rollback to snapshot {target}: tags keep later snapshots; delete them first: {', '.join(later)}"
            )

    def _id_of(self, tag: str) -> int:
        try:
            kept: Snapshot = self._snapshots.by_tag(tag)
        except SnapshotNotFoundError:  # deleted since the listing
            return 0
        return kept.id
