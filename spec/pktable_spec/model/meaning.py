"""What a table means: the fold of the log of committed writes. Nothing here knows of files.

The subtle case is a table with deletion vectors, whose plain read lags behind: it is the same fold,
over the changes that compaction has absorbed (RD-2). `absorbed_rows` is given which ones those are,
per bucket, as the first snapshot that is not absorbed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pktable_spec.interface import BucketId, Change, Key, Row
from pktable_spec.model.changelog import difference
from pktable_spec.model.merge import DEDUPLICATE, MergeEngine, UserOrder


def fold(
    changes: Iterable[Change],
    key_of: Callable[[Row], Key],
    engine: MergeEngine = DEDUPLICATE,
    order: UserOrder | None = None,
) -> dict[Key, Row]:
    """Return the rows that remain, by key, after applying ``changes`` in order.

    Clauses: TBL-4, TBL-6, TBL-7, MRG-1, MRG-3, MRG-19.
    """
    rows: dict[Key, Row] = {}
    for change in changes if order is None else order.sorted_changes(list(changes)):
        key = key_of(change.row)
        row = engine.apply(rows.get(key), change)
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
    return rows


class Meaning:
    """The log of one table's committed writes, and what it says at every snapshot."""

    def __init__(
        self,
        key_of: Callable[[Row], Key],
        bucket_of: Callable[[Row], BucketId],
        engine: MergeEngine = DEDUPLICATE,
        order: UserOrder | None = None,
    ) -> None:
        self._key_of, self._bucket_of, self._engine, self._order = key_of, bucket_of, engine, order
        self.log: list[tuple[int, tuple[Change, ...]]] = []
        self._replaced: list[tuple[int, Callable[[Row], bool]]] = []

    def commit(self, snapshot: int, changes: Sequence[Change]) -> None:
        """Append a write that became visible with ``snapshot``."""
        assert not self.log or self.log[-1][0] < snapshot, "writes come in commit order"
        self.log.append((snapshot, tuple(changes)))

    def overwrite(self, snapshot: int, changes: Sequence[Change], replaces: Callable[[Row], bool]) -> None:
        """Append a write with whose ``snapshot`` all rows before it are gone for which ``replaces`` holds.

        They are gone whether their writes were compacted or not. Clauses: STM-7.
        """
        self.commit(snapshot, changes)
        self._replaced.append((snapshot, replaces))

    def rows(self, snapshot: int) -> list[Row]:
        """Return the fold of every write up to and including ``snapshot``. Clauses: TBL-7, RD-3, RD-4."""
        changes = [change for _, change in self._kept(snapshot)]
        return list(fold(changes, self._key_of, self._engine, self._order).values())

    def _kept(self, snapshot: int) -> list[tuple[int, Change]]:
        """Return the changes up to ``snapshot`` that no overwrite has replaced, each with its own snapshot."""
        return [
            (at, change)
            for at, write in self.log
            if at <= snapshot
            for change in write
            if not any(at < gone <= snapshot and replaces(change.row) for gone, replaces in self._replaced)
        ]

    def absorbed_rows(self, snapshot: int, first_unabsorbed: Mapping[BucketId, int]) -> list[Row]:
        """Return the fold of the writes up to ``snapshot`` that compaction has absorbed.

        ``first_unabsorbed`` gives, for each bucket that has live level-0 files, the snapshot of the
        oldest write one of them holds; that write and all later ones of the bucket are not absorbed.
        Clauses: RD-2, RD-15.
        """
        return list(self._absorbed(snapshot, first_unabsorbed)[0].values())

    def recorded(
        self,
        before: tuple[int, Mapping[BucketId, int]],
        after: tuple[int, Mapping[BucketId, int]],
    ) -> list[Change]:
        """Return the changes that a compaction must record that absorbs more writes.

        ``before``, ``after``: a snapshot, and the first write of each bucket that is not absorbed, as in
        `absorbed_rows`. Absorbed is here what the recorded rows are made of. Clauses: CHG-5, CHG-7, CHG-9, CHG-10.
        """
        old, old_writes = self._absorbed(*before)
        new, new_writes = self._absorbed(*after)
        keys = {key for at, key in new_writes if (at, key) not in old_writes}
        if self._engine.lookup == "presence":  # a row that is there stays as it is
            keys -= old.keys()
        return difference(old, new, keys)

    def _absorbed(
        self, snapshot: int, first_unabsorbed: Mapping[BucketId, int]
    ) -> tuple[dict[Key, Row], set[tuple[int, Key]]]:
        """Return the fold of the absorbed changes, and the writes and keys of those that are not ignored."""
        absorbed = [
            (at, change)
            for at, change in self._kept(snapshot)
            if at < first_unabsorbed.get(self._bucket_of(change.row), snapshot + 1)
        ]
        rows = fold((change for _, change in absorbed), self._key_of, self._engine, self._order)
        counting = (one for one in absorbed if one[1].kind.is_add or not self._engine.ignores_retractions)
        return rows, {(at, self._key_of(change.row)) for at, change in counting}
