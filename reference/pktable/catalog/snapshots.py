"""Snapshot files: which exist, which is latest, how one more is put.

The hints only save a listing. LATEST is believed when its snapshot exists and the next one does not.

Clauses: CMT-1, CMT-13, RD-10.
"""

from __future__ import annotations

from pktable_spec.errors import CorruptFileError, SnapshotNotFoundError

from pktable.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.store.cache import Cache
from pktable.store.file_io import FileIO

PREFIX = "snapshot-"


class Snapshots:
    """The directory ``snapshot/`` of a table, and ``tag/``."""

    def __init__(self, store: FileIO, root: str) -> None:
        self._store, self._root = store, root
        # By their bytes: an id may be used again after a rollback.
        self._decoded = Cache(256)

    def ids(self) -> list[int]:
        """Return the retained ids, ascending. Raises CorruptFileError if they have a gap. Clauses: CMT-1."""
        names = self._store.list_names(f"{self._root}/snapshot")
        found = sorted(
            int(name[len(PREFIX) :])
            for name in names
            if name.startswith(PREFIX) and name[len(PREFIX) :].isdigit()
        )
        if found and found[-1] - found[0] + 1 != len(found):
            missing = next(i for i in range(found[0], found[-1]) if i not in set(found))
            raise CorruptFileError(
                "snapshots", at=f"{self._root}/snapshot", expected=f"{PREFIX}{missing}", found="none"
            )
        return found

    def latest_id(self) -> int | None:
        """Return the greatest snapshot id, or None for a table nothing was written to. Clauses: CMT-13."""
        hint = self._hint("LATEST")
        if (
            hint is not None
            and self._store.exists(self.path(hint))
            and not self._store.exists(self.path(hint + 1))
        ):
            return hint
        return max(self.ids(), default=None)

    def read(self, snapshot: int) -> Snapshot:
        """Return a retained snapshot. Raises SnapshotNotFoundError, CorruptFileError. Clauses: RD-10."""
        path = self.path(snapshot)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained()) from None
        found = self._decoded.get(data, lambda: decode_snapshot(data, at=path))
        if found.id != snapshot:
            raise CorruptFileError("snapshot id", at=path, expected=snapshot, found=found.id)
        return found

    def tagged(self, tag: str) -> Snapshot:
        """Return the snapshot that a tag keeps. Raises SnapshotNotFoundError."""
        path = f"{self._root}/tag/tag-{tag}"
        try:
            return decode_snapshot(self._store.read(path), at=path)
        except FileNotFoundError:
            names = sorted(n[4:] for n in self._store.list_names(f"{self._root}/tag") if n.startswith("tag-"))
            raise SnapshotNotFoundError(f"tag {tag!r}", f"tags {', '.join(names) or 'none'}") from None

    def at(self, time_millis: int) -> Snapshot:
        """Return the latest snapshot not younger than ``time_millis`` since the epoch. Clauses: RD-10."""
        for snapshot in reversed(self.ids()):
            found = self.read(snapshot)
            if found.time_millis <= time_millis:
                return found
        raise SnapshotNotFoundError(f"a snapshot at or before {time_millis} ms", self._retained())

    def put(self, snapshot: Snapshot) -> bool:
        """Make ``snapshot`` the latest, or return False because its id is taken. Clauses: CMT-1."""
        data = encode_snapshot(snapshot)
        if not self._store.put_if_absent(self.path(snapshot.id), data):
            return False
        self._decoded.put(data, snapshot)
        # Once the snapshot is there the commit has happened; a hint that cannot be written must not undo that.
        for hint in ("LATEST", "EARLIEST") if snapshot.id == 1 else ("LATEST",):
            try:
                self._store.write(f"{self._root}/snapshot/{hint}", str(snapshot.id).encode())
            except OSError:
                continue
        return True

    def path(self, snapshot: int) -> str:
        return f"{self._root}/snapshot/{PREFIX}{snapshot}"

    def _hint(self, name: str) -> int | None:
        try:
            text = self._store.read(f"{self._root}/snapshot/{name}").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def _retained(self) -> str:
        ids = self.ids()
        return f"{ids[0]} to {ids[-1]}" if ids else "none"
