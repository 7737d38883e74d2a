"""Count the commits since the last full compaction, for the option ``full-compaction.delta-commits``.

The count lives in the snapshots, so that it is the same for all processes and outlives expiries:

* A snapshot whose files are all at the greatest level has 0: there is nothing to compact.
* A compaction that leaves others keeps the count, every other commit adds 1.

Snapshots of other writers, and those from before the table had the option, do not have the field. Then the snapshots
before them are looked at, each commit but a compaction counting 1. No more are read than decide the matter.

Clauses: CMP-30, META-55.
"""

from __future__ import annotations

from pktable_spec.vocabulary import COMPACT

from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import TableState
from pktable.context import TableContext
from pktable.format.metadata.snapshot import Snapshot


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
