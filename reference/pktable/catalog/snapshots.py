"""Snapshot files: which exist, which is latest, how one more is put.

The hints only save a listing. LATEST is believed when its snapshot exists and the next one does not.

Clauses: CMT-1, CMT-13, CMT-17, RD-10.
"""

from __future__ import annotations

import contextlib
import re

from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError

from pktable.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.store.cache import Cache
from pktable.store.file_io import FileIO

PREFIX, TAG_PREFIX = "snapshot-", "tag-"
LONGEST_ID = 19  # digits
TAG_NAME = re.compile(r"(?!\d+$)(?!\.)[\w.-]+", re.ASCII)


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
        path = self.tag_path(tag)
        try:
            return decode_snapshot(self._store.read(path), at=path)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"tag {tag!r}", f"tags {', '.join(self.tags()) or 'none'}") from None

    def tags(self) -> list[str]:
        """Return the names of all tags, sorted."""
        names = self._store.list_names(f"{self._root}/tag")
        return sorted(name[len(TAG_PREFIX) :] for name in names if name.startswith(TAG_PREFIX))

    def put_tag(self, tag: str, snapshot: int) -> None:
        """Keep a retained snapshot under a name.

        Raises InvalidRequestError if the name is taken or cannot be one, SnapshotNotFoundError if the snapshot
        expired meanwhile. Clauses: CMT-17.
        """
        if not TAG_NAME.fullmatch(tag):
            raise InvalidRequestError(
                f"tag {tag!r}: expected letters, digits and ._-, not digits alone, nor a dot first"
            )
        self.read(snapshot)
        try:
            data = self._store.read(self.path(snapshot))  # as it is: it may say more than we know
            if not self._store.put_if_absent(self.tag_path(tag), data):
                raise InvalidRequestError(f"tag {tag!r}: expected a new name, found a tag of that name")
            self._store.read(self.path(snapshot))
        except FileNotFoundError:  # expired, and the expiry may not have seen the tag
            self._store.delete(self.tag_path(tag))
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained()) from None

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
        self._write_hint("LATEST", snapshot.id)
        if snapshot.id == 1:
            self.hint_earliest(1)
        return True

    def hint_earliest(self, snapshot: int) -> None:
        """Say which retained snapshot is the oldest. Clauses: CMT-13."""
        self._write_hint("EARLIEST", snapshot)

    def path(self, snapshot: int) -> str:
        return f"{self._root}/snapshot/{PREFIX}{snapshot}"

    def tag_path(self, tag: str) -> str:
        return f"{self._root}/tag/{TAG_PREFIX}{tag}"

    def _write_hint(self, name: str, snapshot: int) -> None:
        # What was committed or expired stays so; a hint that cannot be written must not undo it.
        with contextlib.suppress(OSError):
            self._store.write(f"{self._root}/snapshot/{name}", str(snapshot).encode())

    def _hint(self, name: str) -> int | None:
        try:
            text = self._store.read(f"{self._root}/snapshot/{name}").strip()
        except FileNotFoundError:
            return None
        # Longer than any id it is none; Python would refuse to read it, too.
        return int(text) if text.isdigit() and len(text) <= LONGEST_ID else None

    def _retained(self) -> str:
        ids = self.ids()
        return f"{ids[0]} to {ids[-1]}" if ids else "none"
