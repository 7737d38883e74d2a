"""Changelogs that outlive their snapshots: copies of expired snapshots, in ``changelog/``, as Paimon keeps them.

An option says for how long (`Retention`). An expiry puts the copy of a snapshot after the fence by which it ends, and
before it removes the snapshot's file:

* What has expired stays so. So all expiries put the same copy, and a slow one does no harm.
* As long as the file that has ended is there, it counts as the copy. Who looks at the files first and then at the
  copies misses none, and keeps the files that reading its changes needs.
* The fence that names the snapshot counts no more after a hundred others (CMT-57), and then the file may be a stray. So
  whoever puts a fence puts the copies first that an interrupted expiry has left out. No fence follows that of an expiry
  before the copies are there.
* A fence says up to which id changelogs are kept no more, before a copy is removed. So a copy that a slow expiry puts
  when the others have removed it does not count, and the next expiry removes it.

Copies are removed the oldest first. So the remaining copies end where the snapshots begin.

Clauses: CHG-17, CHG-18, CHG-22 to CHG-24, CHG-36, CMT-61.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pktable_spec.errors import CorruptFileError
from pktable_spec.options import TableOptions

from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, ManifestEntry
from pktable.format.metadata.snapshot import Fence, Snapshot, decode_snapshot, encode_snapshot
from pktable.format.paths import CHANGELOG, EARLIEST, LATEST, numbered


def keeps_changelogs(options: TableOptions) -> bool:
    """Return whether changelogs outlive their snapshots. Clauses: CHG-17."""
    return any(one is not None for one in _limits(options))


def expired_changelogs(
    options: TableOptions, snapshots: Iterable[Snapshot], latest: int, now_millis: int
) -> set[int]:
    """Return the ids of those of ``snapshots``, oldest first, whose changelogs are not to be kept any more.

    They are the first ones. ``latest``: the id of the latest snapshot of all. Clauses: CHG-22.
    """
    least, most, retained = _limits(options)
    if most is None and retained is None:
        most = least
    expired = set()
    for snapshot in snapshots:
        newer = latest - snapshot.id
        too_many = most is not None and newer >= most
        too_old = (
            retained is not None and newer >= (least or 1) and snapshot.time_millis < now_millis - retained
        )
        if not (too_many or too_old):
            break
        expired.add(snapshot.id)
    return expired


def _limits(options: TableOptions) -> tuple[int | None, int | None, int | None]:
    return options.changelog_retained_min, options.changelog_retained_max, options.changelog_retained_millis


def changes_list(options: TableOptions, snapshot: Snapshot) -> tuple[str | None, int | None]:
    """Return name and size of the manifest list that names the changes of a snapshot. Clauses: CHG-1, CHG-11."""
    if options.changelog_producer == "none":
        return snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    return snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def is_change(options: TableOptions, entry: ManifestEntry) -> bool:
    """Return whether an entry of a `changes_list` names a file that a read of changes needs. Clauses: CHG-17."""
    logged = options.changelog_producer != "none"
    return entry.kind == ADD and (logged or entry.file.level == 0)


class KeptChangelogs:
    """The directory ``changelog/`` of a table."""

    def __init__(self, context: TableContext, snapshots: SnapshotLog) -> None:
        self._context, self._snapshots = context, snapshots

    def ids(self) -> list[int]:
        """Return the ids of the copies, ascending, those of snapshots that have not expired included."""
        names = self._context.store.list_names(self._context.paths.changelogs)
        return sorted(number for name in names if (number := numbered(name, CHANGELOG)) is not None)

    def read(self, id: int) -> Snapshot | None:
        """Return a copy, None if there is none. Raises CorruptFileError."""
        path = self._context.paths.changelog(id)
        try:
            return decode_snapshot(self._context.store.read(path), at=path)
        except FileNotFoundError:
            return None

    def of_expired(self) -> list[Snapshot]:
        """Return the copies of snapshots that have expired, oldest first. Clauses: CHG-23."""
        found = self._left()
        ids = [id for id in self.ids() if id not in found]
        earliest = self._earliest() if ids else 0
        found |= {id: copy for id in ids if id < earliest and (copy := self.read(id)) is not None}
        closed = self._closed() if found else 0  # looked at last: a copy may be put late
        return [found[id] for id in sorted(found) if id > closed]

    def of_one(self, id: int) -> Snapshot | None:
        """Return the copy of an expired snapshot, None if there is none. Clauses: CHG-18, CHG-23."""
        left = self._left(ids=[id])
        if left:
            return left[id]
        copy = self.read(id)
        return copy if copy is not None and self._closed() < id < self._earliest() else None

    def ended(self, fence: Fence) -> list[Snapshot]:
        """Return the copies that are there and count no more by ``fence``, oldest first. Clauses: CMT-61."""
        return [copy for id in self.ended_ids(fence) if (copy := self.read(id)) is not None]

    def ended_ids(self, fence: Fence) -> list[int]:
        """Return the ids of the copies that are there and count no more by ``fence``, ascending. Clauses: CMT-61."""
        return [id for id in self.ids() if id <= fence.changelogs] if fence.changelogs else []

    def _closed(self) -> int:
        return self._snapshots.fences.newest().changelogs

    def _left(self, fence: Fence | None = None, ids: Sequence[int] | None = None) -> dict[int, Snapshot]:
        """Return by id the copies of snapshots that have expired and whose files are there.

        ``fence``: the newest one, if it has been read. ``ids``: some of them.
        """
        if not keeps_changelogs(self._context.options):
            return {}
        left = self._snapshots.left_expired(fence or self._snapshots.fences.newest(), ids)
        return {one.id: replace(one, index_manifest=None) for one in left}  # the DV index files go

    def put(self, fence: Fence) -> None:
        """Put the copies of snapshots that have expired by ``fence``, the newest one: their files may now be removed.

        So may that fence, once others follow. Clauses: CHG-17, CHG-23, CHG-36, TBL-71.
        """
        store, paths = self._context.store, self._context.paths
        for id, copy in self._left(fence).items():
            # Without the file another expiry has put the copy, and may have removed it.
            if not store.exists(paths.snapshot(id)):
                continue
            data = encode_snapshot(copy)
            if store.put_if_absent(paths.changelog(id), data):
                self._snapshots.fences.expect_opened_or_remove(paths.changelog(id), data)
            else:
                self._replace_other(copy, paths.changelog(id))

    def _replace_other(self, copy: Snapshot, path: str) -> None:
        """Write over what a writer without fences left: the copy of another snapshot of this id, or half a copy."""
        with contextlib.suppress(CorruptFileError):
            if self.read(copy.id) in (copy, None):  # None: another expiry has removed it since
                return
        self._snapshots.fences.expect_opened()
        data = encode_snapshot(copy)
        self._context.store.write(path, data)
        self._snapshots.fences.expect_opened_or_remove(path, data)

    def remove(self, ids: Iterable[int]) -> None:
        """Remove copies, the oldest first."""
        self._snapshots.fences.remove(map(self._context.paths.changelog, sorted(ids)))

    def write_hints(self) -> None:
        """Say which copies are the first and the last. Clauses: CHG-24."""
        ids = self.ids()
        # The expiry has happened; a hint that cannot be written must not undo it.
        with contextlib.suppress(OSError):
            for name, id in ((EARLIEST, min(ids, default=None)), (LATEST, max(ids, default=None))):
                path = f"{self._context.paths.changelogs}/{name}"
                if id is not None:
                    self._context.store.write(path, str(id).encode())
                elif self._context.store.exists(path):
                    self._context.store.delete(path)

    def _earliest(self) -> int:
        return next(iter(self._snapshots.ids()), 0)
