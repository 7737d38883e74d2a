"""The retained snapshots in numbers, also of a damaged table: one damaged file hides only what it says.

For each snapshot file that a listing shows:

1. Read the snapshot. If that fails, only its id is known.
2. Read its manifests. If that fails, the number of files is not known.
3. Read its index manifest. If that fails, neither vectors nor deleted rows are known.

No data file is read, and a DV index file only where the index manifest gives no cardinalities.

Clauses: CMT-1, CMT-4, DVF-13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pktable_spec.errors import CorruptFileError, SnapshotNotFoundError

from pktable.catalog.catalog import Catalog
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader
from pktable.context import TableContext
from pktable.format.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """One snapshot in numbers; None is not known, because of ``damage``.

    ``records``: rows of all live files, deleted ones included. ``files``: live data files. ``vectors``: live data
    files with a deletion vector. ``deleted_rows``: rows that these vectors delete.
    """

    id: int
    kind: str | None = None
    time_millis: int | None = None
    records: int | None = None
    files: int | None = None
    vectors: int | None = None
    deleted_rows: int | None = None
    damage: CorruptFileError | None = None


def history(catalog: Catalog) -> Iterator[SnapshotSummary]:
    """Yield the retained snapshots, oldest first, and a missing one among them as one of which only the id is known.

    Damage is in the summaries; raises nothing for it. Clauses: CMT-1.
    """
    for snapshot_id, gap in _ids(catalog.snapshots):
        if gap is not None:
            yield SnapshotSummary(snapshot_id, damage=gap)
            continue
        try:
            snapshot = catalog.snapshots.read(snapshot_id)
        except SnapshotNotFoundError:  # it expired since it was listed
            continue
        except CorruptFileError as error:
            yield SnapshotSummary(snapshot_id, damage=error)
            continue
        summary = summarize(catalog.context, catalog.states, snapshot)
        if summary.damage is None or catalog.snapshots.expired_error(snapshot) is None:
            yield summary


def _ids(snapshots: SnapshotLog) -> Iterator[tuple[int, CorruptFileError | None]]:
    """Yield the ids of the snapshots, ascending, and the first missing one among them with the error for it."""
    gap: CorruptFileError | None = None
    try:
        ids = snapshots.ids()
    except CorruptFileError as error:
        gap, ids = error, snapshots.listed()
    expected = ids[0] if ids else 0
    for snapshot_id in ids:
        if gap is not None and snapshot_id != expected:
            yield expected, gap
            gap = None
        yield snapshot_id, None
        expected = snapshot_id + 1


def summarize(context: TableContext, states: StateLoader, snapshot: Snapshot) -> SnapshotSummary:
    """Return ``snapshot`` in numbers. Raises nothing for damage, which the summary names.

    Clauses: CMT-4, DVF-13.
    """
    known = SnapshotSummary(
        snapshot.id, snapshot.commit_kind, snapshot.time_millis, snapshot.total_record_count
    )
    try:
        state = states.at(snapshot)
        known = replace(known, files=sum(map(len, state.files.values())))
        counts = [context.deleted_counts(states.bucket(state, bucket)) for bucket in state.indexes]
    except CorruptFileError as error:
        files = _file_count(states, snapshot) if known.files is None else known.files
        return replace(known, files=files, damage=error)
    return replace(
        known, vectors=sum(map(len, counts)), deleted_rows=sum(sum(count.values()) for count in counts)
    )


def _file_count(states: StateLoader, snapshot: Snapshot) -> int | None:
    """Return the number of live files where only the index manifest is damaged, otherwise None."""
    try:
        return len(states.live_entries(snapshot)[1])
    except CorruptFileError:
        return None
