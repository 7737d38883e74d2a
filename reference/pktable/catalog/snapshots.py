"""Snapshot files: which exist, which is latest, how one more is put.

The hints only save a listing. LATEST is believed when its snapshot exists and the next one does not.

Others commit and expire meanwhile. The ids that exist are always an interval, of which both ends only grow:
commits add the next id, expiries take the oldest first. A listing need not show that interval, because it
takes time; so what a listing seems to lack is looked for by name before it counts.

Clauses: CMT-1, CMT-13, CMT-16, CMT-17, RD-10.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError

from pktable.format.metadata.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.format.paths import EARLIEST, LATEST, SNAPSHOT, TAG, TablePaths, numbered
from pktable.store.cache import Cache
from pktable.store.file_io import FileIO

LONGEST_ID = 19  # digits
TAG_NAME = re.compile(r"(?!\d+$)(?!\.)[\w.-]+", re.ASCII)
ATTEMPTS = 20  # to win a race against expiries; each loss is a commit and an expiry of others

Result = TypeVar("Result")


class SnapshotLog:
    """The directory ``snapshot/`` of a table, and ``tag/``."""

    def __init__(self, store: FileIO, paths: TablePaths) -> None:
        self._store, self._paths = store, paths
        # By their bytes: an id may be used again after a rollback.
        self._decoded = Cache(256)

    def ids(self) -> list[int]:
        """Return the retained ids, ascending. Raises CorruptFileError if they have a gap. Clauses: CMT-1."""
        for _ in range(ATTEMPTS):
            found = self._listed()
            missing = next((i + 1 for i, j in pairwise(found) if i + 1 != j), None)
            if missing is None:
                # None at all, where there has been one: they came and went while the listing went on.
                if found or self._hint(LATEST) is None:
                    break
            elif not self._store.exists(self._paths.snapshot(missing)) and self._store.exists(
                self._paths.snapshot(missing - 1)
            ):
                break
        if missing is not None:
            raise CorruptFileError(
                "snapshots", at=self._paths.snapshots, expected=f"{SNAPSHOT}{missing}", found="none"
            )
        return found

    def _listed(self) -> list[int]:
        names = self._store.list_names(self._paths.snapshots)
        return sorted(found for name in names if (found := numbered(name, SNAPSHOT)) is not None)

    def retained(self) -> list[Snapshot]:
        """Return the retained snapshots, oldest first, up to the latest of when the call began.

        Raises CorruptFileError. Clauses: CMT-1, CMT-16.
        """
        return self.retry_on_latest(self.up_to)

    def up_to(self, latest: Snapshot | None) -> list[Snapshot]:
        """Return the snapshots up to ``latest``, oldest first. Raises CorruptFileError. Clauses: CMT-1."""
        self.ids()  # a gap is damage
        found = [latest] if latest else []
        # The first that is missing has expired, and so have all before it.
        with contextlib.suppress(SnapshotNotFoundError):
            while found and found[-1].id > 1:
                found.append(self.read(found[-1].id - 1))
        return found[::-1]

    def retry_on_latest(self, work: Callable[[Snapshot | None], Result]) -> Result:
        """Return what ``work`` makes of the latest snapshot, None if nothing was written.

        Where ``work`` misses a file because others have committed and expired that snapshot meanwhile, it is
        called anew with the latest of then. Raises SnapshotNotFoundError after many such losses. Clauses: RD-10.
        """
        lost: SnapshotNotFoundError | None = None
        for _ in range(ATTEMPTS):
            latest = self.latest_id()
            try:
                found = None if latest is None else self.read(latest)
            except SnapshotNotFoundError as error:
                lost = error
                continue
            try:
                return work(found)
            except CorruptFileError:
                lost = self.expired_error(found) if found else None
                if lost is None:
                    raise
        assert lost is not None, "each attempt ended so"
        raise lost

    def expired_error(self, snapshot: Snapshot, tag: str | None = None) -> SnapshotNotFoundError | None:
        """Return the error that says so if ``snapshot`` is no longer there, or no longer under ``tag``, or None.

        While it is there, all its files must be: a missing one is damage. Clauses: RD-10, RD-11.
        """
        try:
            found = self.read(snapshot.id) if tag is None else self.by_tag(tag)
        except SnapshotNotFoundError as error:
            return error
        # By content: an id, or a tag's name, may be used again.
        return (
            None if found == snapshot else SnapshotNotFoundError(f"snapshot {snapshot.id}", self._retained())
        )

    def latest_id(self) -> int | None:
        """Return the greatest snapshot id, or None for a table nothing was written to. Clauses: CMT-13."""
        hint = self._hint(LATEST)
        if (
            hint is not None
            and self._store.exists(self._paths.snapshot(hint))
            and not self._store.exists(self._paths.snapshot(hint + 1))
        ):
            return hint
        return max(self.ids(), default=None)

    def read(self, snapshot: int) -> Snapshot:
        """Return a retained snapshot. Raises SnapshotNotFoundError, CorruptFileError. Clauses: RD-10."""
        path = self._paths.snapshot(snapshot)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained()) from None
        found = self._decoded.get(data, lambda: decode_snapshot(data, at=path))
        if found.id != snapshot:
            raise CorruptFileError("snapshot id", at=path, expected=snapshot, found=found.id)
        return found

    def by_tag(self, tag: str) -> Snapshot:
        """Return the snapshot that a tag keeps. Raises SnapshotNotFoundError."""
        path = self._paths.tag(tag)
        try:
            return decode_snapshot(self._store.read(path), at=path)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"tag {tag!r}", f"tags {', '.join(self.tags()) or 'none'}") from None

    def tags(self) -> list[str]:
        """Return the names of all tags, sorted."""
        names = self._store.list_names(self._paths.tags)
        return sorted(name.removeprefix(TAG) for name in names if name.startswith(TAG))

    def put_tag(self, tag: str, snapshot: int) -> Snapshot:
        """Copy a retained snapshot to a name and return it. It may have expired before the tag was there.

        Raises InvalidRequestError if the name is taken or cannot be one, SnapshotNotFoundError. Clauses: CMT-17.
        """
        if not isinstance(tag, str) or not TAG_NAME.fullmatch(tag):
            raise InvalidRequestError(
                f"tag {tag!r}: expected letters, digits and ._-, not digits alone, nor a dot first"
            )
        found = self.read(snapshot)
        try:
            data = self._store.read(self._paths.snapshot(snapshot))  # as it is: it may say more than we know
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained()) from None
        if not self._store.put_if_absent(self._paths.tag(tag), data):
            raise InvalidRequestError(f"tag {tag!r}: expected a new name, found a tag of that name")
        return found

    def as_of(self, time_millis: int) -> Snapshot:
        """Return the latest snapshot not younger than ``time_millis`` since the epoch. Clauses: RD-10."""
        for snapshot in reversed(self.ids()):
            found = self.read(snapshot)
            if found.time_millis <= time_millis:
                return found
        raise SnapshotNotFoundError(f"a snapshot at or before {time_millis} ms", self._retained())

    def put(self, snapshot: Snapshot, is_base_of: Callable[[Snapshot], bool]) -> bool:
        """Make ``snapshot`` the latest, or return False because its id is taken, or was until that one expired.

        ``is_base_of``: whether a snapshot, of the next id, was made from this one. Clauses: CMT-1, CMT-3.
        """
        data = encode_snapshot(snapshot)
        if not self._store.put_if_absent(self._paths.snapshot(snapshot.id), data):
            return False
        if self._was_taken(snapshot, is_base_of):
            self._store.delete(self._paths.snapshot(snapshot.id))
            return False
        self._decoded.put(data, snapshot)
        self._write_hint(LATEST, snapshot.id)
        if snapshot.id == 1:
            self.hint_earliest(1)
        return True

    def _was_taken(self, snapshot: Snapshot, is_base_of: Callable[[Snapshot], bool]) -> bool:
        """Whether ``snapshot`` was put in the place of one that others have committed and expired meanwhile.

        Not so while the one before is there, which would have expired first; nor while there is none after,
        for the latest does not expire.
        """
        if snapshot.id > 1 and self._store.exists(self._paths.snapshot(snapshot.id - 1)):
            return False
        if max(self._listed(), default=0) <= snapshot.id:
            return False
        try:
            return not is_base_of(self.read(snapshot.id + 1))
        except SnapshotNotFoundError:  # expired after ours, unless ours is there
            return self._store.exists(self._paths.snapshot(snapshot.id))

    def hint_earliest(self, snapshot: int) -> None:
        """Say which retained snapshot is the oldest. Clauses: CMT-13."""
        self._write_hint(EARLIEST, snapshot)

    def _write_hint(self, name: str, snapshot: int) -> None:
        # What was committed or expired stays so; a hint that cannot be written must not undo it.
        with contextlib.suppress(OSError):
            self._store.write(self._paths.hint(name), str(snapshot).encode())

    def _hint(self, name: str) -> int | None:
        try:
            text = self._store.read(self._paths.hint(name)).strip()
        except FileNotFoundError:
            return None
        # Longer than any id it is none; Python would refuse to read it, too.
        return int(text) if text.isdigit() and len(text) <= LONGEST_ID else None

    def _retained(self) -> str:
        ids = self._listed()  # as they are: this is for a message about something else
        return f"{ids[0]} to {ids[-1]}" if ids else "none"
