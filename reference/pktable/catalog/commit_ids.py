"""Which commits the retained snapshots are of.

A snapshot that is still there as it was shows that all before it are as they were: a rollback to one of them would have
removed it. So each snapshot is read once, however many writes ask.

Clauses: CMT-53.
"""

from __future__ import annotations

from itertools import chain

from pktable_spec.vocabulary import COMPACT

from pktable.catalog.changes import BATCH, CommitId
from pktable.catalog.snapshots import SnapshotLog
from pktable.format.metadata.snapshot import Snapshot


class CommitIds:
    """The identifiers of the writes of one table, remembered from one look to the next."""

    def __init__(self, snapshots: SnapshotLog) -> None:
        self._snapshots = snapshots
        self._newest: Snapshot | None = None
        self._seen: set[CommitId] = set()

    def find(self, wanted: CommitId, latest: Snapshot) -> Snapshot | None:
        """Return the last retained snapshot of a write: that of its compaction, if that was committed too.

        Return None if no snapshot up to ``latest`` is of the write, or if it has no identifier.
        Raises CorruptFileError. Clauses: CMT-53, CMT-58.
        """
        if wanted.identifier == BATCH:
            return None
        self._look_at_new(latest)
        if wanted not in self._seen:
            return None
        # It may be of a snapshot that has expired since, or was rolled back.
        retained = self._snapshots.retained()
        if not any(_write(one) == wanted for one in retained):
            return None
        return next(one for one in reversed(retained) if _id_of(one) == wanted)

    def _look_at_new(self, latest: Snapshot) -> None:
        for snapshot in chain([latest], self._snapshots.before(latest)):
            if snapshot == self._newest:
                break
            if found := _write(snapshot):
                self._seen.add(found)
        self._newest = latest


def _write(snapshot: Snapshot) -> CommitId | None:
    """Return the identifier of the write that ``snapshot`` is of; a compaction has that of the write it follows."""
    if snapshot.commit_kind == COMPACT or snapshot.commit_identifier == BATCH:
        return None
    return _id_of(snapshot)


def _id_of(snapshot: Snapshot) -> CommitId:
    return CommitId(snapshot.commit_user, snapshot.commit_identifier)
