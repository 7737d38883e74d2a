"""Whether the rows that a statement read are still as it read them, when it commits.

A statement reads one snapshot, computes changes, and commits them on a later one. A write between the two may have
changed a row that the statement changes, too. Committed on top, the statement would undo that write. The snapshots
between the two say which keys were written:

1. A COMPACT snapshot changes no row.
2. The files that an APPEND snapshot added hold keys within their ranges. If a range meets that of a file of the
   statement, in the same bucket, the statement is computed again.
3. After any other commit in one of its buckets, or if one of the snapshots has expired, it is computed again.

Where keys move between partitions, a key of the statement may be written in any bucket (BKT-26).

Clauses: BKT-26, STM-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pktable_spec.errors import CorruptFileError, SnapshotNotFoundError
from pktable_spec.vocabulary import APPEND, COMPACT

from pktable.catalog.manifests import Manifests
from pktable.catalog.rules import Conflict
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import TableState
from pktable.format.metadata.manifest import ADD, ManifestEntry
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId, KeyOrder

if TYPE_CHECKING:
    from pktable.bucket.write import BucketAppend

CLAUSE: Final = "STM-6"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The read of a statement, the rows of ``base``, compared with the state that it is to be committed on.

    ``across``: whether a key that it changes may be written in any bucket. ``clause``: which its conflicts break.
    """

    base: TableState
    snapshots: SnapshotLog
    manifests: Manifests
    order: KeyOrder
    across: bool = False
    clause: str = CLAUSE

    def conflicts(self, appends: Sequence[BucketAppend], state: TableState) -> dict[BucketId, Conflict]:
        """Return the buckets in which another commit may have changed a row of ``appends`` since ``base``."""
        if state.id == self.base.id and state.snapshot == self.base.snapshot:
            return {}
        found: dict[BucketId, Conflict] = {}
        of_bucket: dict[BucketId, Sequence[BucketAppend]] = {one.place.id: [one] for one in appends}
        try:
            for snapshot in self._between(state):
                for entry in self._delta(snapshot):
                    same = appends if self.across else of_bucket.get((entry.partition, entry.bucket), ())
                    for append in same:
                        if self._changes_keys_of(append, snapshot, entry):
                            what = f"snapshot {snapshot.id} changed keys that are changed"
                            found[append.place.id] = Conflict(self.clause, what)
        except (SnapshotNotFoundError, CorruptFileError):
            # It expired or was rolled back, and its manifests with it. Damage is met when the statement reads again.
            what = f"a snapshot since {self.base.id}, which was read, is gone"
            return {append.place.id: Conflict(self.clause, what) for append in appends}
        return found

    def conflicts_of_replaced(
        self, replaces: Callable[[bytes], bool], state: TableState
    ) -> dict[BucketId, Conflict]:
        """Return the buckets of what an overwrite replaces that are not as they were when it read them.

        ``replaces``: whether it replaces a partition. Clauses: BKT-20.
        """
        return {
            bucket_id: Conflict(CLAUSE, f"others changed bucket {bucket_id[1]}, which is written again")
            for bucket_id in {*self.base.files, *state.files}
            if replaces(bucket_id[0]) and self._differs(bucket_id, state)
        }

    def _differs(self, bucket_id: BucketId, state: TableState) -> bool:
        before, after = (
            (one.files.get(bucket_id, ()), one.indexes.get(bucket_id, ())) for one in (self.base, state)
        )
        return before != after

    def _between(self, state: TableState) -> Iterator[Snapshot]:
        """Yield the snapshots after the base but compactions. Raises SnapshotNotFoundError unless they follow it."""
        if self.base.snapshot is not None:
            gone = self.snapshots.expired_error(self.base.snapshot)
            if gone is not None:
                raise gone
        later = [self.snapshots.read(snapshot) for snapshot in range(self.base.id + 1, state.id)]
        for found in (*later, state.snapshot):
            if found is not None and found.commit_kind != COMPACT:
                yield found

    def _delta(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        delta = self.manifests.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        for meta in delta:
            yield from self.manifests.read(meta)

    def _changes_keys_of(self, append: BucketAppend, snapshot: Snapshot, entry: ManifestEntry) -> bool:
        if snapshot.commit_kind != APPEND or entry.kind != ADD:
            return True
        low, high = self.order.smallest(entry.file), self.order.greatest(entry.file)
        return any(self.order.smallest(f) <= high and low <= self.order.greatest(f) for f in append.files)
