"""Earlier snapshots say to a commit whether it was made before, and how many commits no full compaction has followed.

A snapshot that is still there as it was shows that all before it are as they were: a rollback to one of them would have
removed it. So each snapshot is read once, however many writes ask of which commits the retained ones are.

The count of commits since the last full compaction, for the option ``full-compaction.delta-commits``, lives in the
snapshots, so that it is the same for all processes and outlives expiries:

* A snapshot whose files are all at the greatest level has 0: there is nothing to compact.
* A compaction that leaves others keeps the count, every other commit adds 1.

Snapshots of other writers, and those from before the table had the option, do not have the field. Then the snapshots
before them are looked at, each commit but a compaction counting 1. No more are read than decide the matter.

Clauses: CMP-30, CMT-53, META-55.
"""

from __future__ import annotations

from itertools import chain

from pktable_spec.vocabulary import COMPACT

from pktable.catalog.changes import BATCH, CommitId
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import TableState
from pktable.context import TableContext
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


def delta_commits(snapshots: SnapshotLog, snapshot: Snapshot | None, most: int) -> int:
    """Return how many commits up to ``snapshot`` no full compaction has followed; not exactly if ``most`` or more.

    A snapshot that is not retained ends the count.
    """
    count = 0
    while snapshot is not None and count < most:
        if snapshot.delta_commits is not None:
            return count + snapshot.delta_commits
        count += snapshot.commit_kind != COMPACT
        snapshot = snapshots.file(snapshot.id - 1)
    return count


def delta_commits_after(
    context: TableContext, snapshots: SnapshotLog, before: Snapshot | None, after: TableState, kind: str
) -> int | None:
    """Return the count of the snapshot that a commit makes; None if the table has no such option.

    ``before``: the snapshot that it follows. ``kind``: of the commit. Clauses: META-55.
    """
    most = context.options.full_compaction_delta_commits
    if most is None:
        return None
    if all(file.level == context.options.max_level for files in after.files.values() for file in files):
        return 0
    return delta_commits(snapshots, before, most) + (kind != COMPACT)


def is_full_compaction_due(context: TableContext, snapshots: SnapshotLog, latest: Snapshot | None) -> bool:
    """Return whether the write that follows ``latest`` is to compact the whole table. Clauses: CMP-30."""
    most = context.options.full_compaction_delta_commits
    return most is not None and delta_commits(snapshots, latest, most) + 1 >= most
