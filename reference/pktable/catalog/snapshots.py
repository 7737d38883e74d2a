"""Snapshot and tag files: which exist, and which is the latest.

The hint files only save a listing. LATEST is believed if its snapshot exists and the next one does not. A snapshot file
whose id has ended by a fence is no snapshot, see `fences`.

Other processes commit and expire at the same time. The ids that exist are always an interval, and both its ends only
grow: a commit adds the next id, an expiry removes the oldest first. A listing takes time and need not show that
interval. So an id that a listing seems to lack is looked for by name before its absence counts.

Clauses: CMT-1, CMT-13, CMT-17, CMT-29, CMT-32, CMT-36, RD-10, RD-17, RD-18.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

from pktable_spec.errors import (
    CorruptFileError,
    InvalidRequestError,
    OutsideTableError,
    SnapshotNotFoundError,
)

from pktable.catalog.branch_names import gone, is_there
from pktable.catalog.fences import FenceLog
from pktable.format.metadata.snapshot import Fence, Snapshot, decode_snapshot, encode_snapshot, with_fields
from pktable.format.paths import (
    EARLIEST,
    LATEST,
    MANIFEST_LIST,
    SNAPSHOT,
    TAG,
    TablePaths,
    number_of,
    numbered,
)
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO
from pktable.store.requests import Cache, ahead, together

EPOCH: Final = datetime(1970, 1, 1)
TAG_NAME = re.compile(r"(?!\d+$)(?!\.)[\w.-]{1,200}", re.ASCII)
RACES: Final = RetryPolicy(attempts=20, longest_wait=0.05)
"""Against expiries: each loss is a commit and an expiry of others. Damage looks the same, so it must not take long."""

Result = TypeVar("Result")


class _ChangedError(Exception):
    """Snapshots came and went during a listing. ``missing``: the first id that the listing lacks, if any."""

    def __init__(self, missing: int | None) -> None:
        self.missing = missing


class _ExpiredError(Exception):
    """The latest snapshot expired, or was rolled back, while it was used."""

    def __init__(self, error: SnapshotNotFoundError) -> None:
        self.error = error


class SnapshotLog:
    """The directory ``snapshot/`` of a table, and ``tag/``.

    ``two_commits``: whether manifests show that a commit built on another one. ``clock``: milliseconds.
    ``expect_opened``: see `FenceLog`.
    """

    def __init__(
        self,
        store: FileIO,
        paths: TablePaths,
        two_commits: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = lambda: 0,
        expect_opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._paths, self._two_commits = store, paths, two_commits
        self.fences = FenceLog(store, paths, clock, expect_opened)
        self._latest = 0  # the id that was the latest at the last look, 0 before one
        # By their bytes: an id may be used again after a rollback.
        self._decoded = Cache(256)

    def ids(self) -> list[int]:
        """Return the retained ids, ascending.

        Raises CorruptFileError if they have a gap, and InvalidRequestError if the table or branch is gone.
        Clauses: CMT-1, CMT-36, TBL-60.
        """
        try:
            return retry(self._dense_ids, on=_ChangedError, policy=RACES)
        except _ChangedError as changed:
            missing = changed.missing
        raise self._gap(missing or self.hint(LATEST) or 1)

    def _dense_ids(self) -> list[int]:
        """Return the listed ids. Raises CorruptFileError for a gap, _ChangedError if the listing is not reliable."""
        found = self._without_ended(self.listed())
        missing = next((i + 1 for i, j in pairwise(found) if i + 1 != j), None)
        if missing is None:
            if found:
                return found
            if not is_there(self._store, self._paths):
                raise gone(self._store, self._paths)
            # None at all, where there was one: snapshots came and went during the listing, or all are lost.
            if not self._has_history():
                return found
        elif not self._store.exists(self._paths.snapshot(missing)) and self._store.exists(
            self._paths.snapshot(missing - 1)
        ):
            raise self._gap(missing)
        raise _ChangedError(missing)

    def _has_history(self) -> bool:
        """Return whether other files show that there was a snapshot, though none is there. Clauses: CMT-51."""
        hint = self.hint(LATEST)
        if self.fences.newest().has_ended_ids:
            return True
        # A hint alone may be of a table that was dropped: it came after the last file of that.
        manifests = self._store.list_names(self._paths.manifests) if hint else ()
        if any(name.startswith(MANIFEST_LIST) for name in manifests):
            return True
        return self._paths.branch is None and bool(self.tags() or self._two_commits())

    def _without_ended(self, found: list[int]) -> list[int]:
        """Return those of the listed ids that have not ended. Raises _ChangedError. Clauses: CMT-36, CMT-42."""
        fence = self.fences.newest()
        found = [one for one in found if one > fence.expired]
        # Files that were rolled back are above all snapshots, which would else have taken their ids.
        while fence.rollbacks and found:
            latest = self.file(found[-1])
            if latest is None:
                raise _ChangedError(None)
            if not self.fences.is_rolled_back(fence, latest):
                break
            found.pop()
        return found

    def _gap(self, missing: int) -> CorruptFileError:
        """Return the error for a gap. Raises InvalidRequestError if what is known is of another table."""
        self.fences.expect_opened()
        return CorruptFileError(
            "snapshots", at=self._paths.snapshots, expected=f"{SNAPSHOT}{missing}", found="none"
        )

    def listed(self) -> list[int]:
        """Return the ids of the snapshot files that one listing shows, ascending, gaps and all."""
        names = self._store.list_names(self._paths.snapshots)
        return sorted(found for name in names if (found := numbered(name, SNAPSHOT)) is not None)

    def left_expired(self, fence: Fence, ids: Sequence[int] | None = None) -> Iterator[Snapshot]:
        """Yield the snapshots that have expired by ``fence``, whose files are there and changelogs may be kept.

        ``ids``: some of them.

        A file that is damaged or leads out of the table counts as gone. So does the file of a snapshot that was rolled
        back: another snapshot may have had the id since.
        Clauses: CHG-23, CMT-61.
        """
        for one in self.listed() if ids is None else ids:
            if fence.changelogs < one <= fence.expired:
                with contextlib.suppress(CorruptFileError, OutsideTableError):
                    found = self.file(one)
                    if (
                        found
                        and self.fences.ended_as(fence, found)
                        and not self.fences.is_rolled_back(fence, found)
                    ):
                        yield found

    def ended(self, fence: Fence) -> Iterator[tuple[int, Snapshot | None]]:
        """Yield the ids of files that are no snapshots by ``fence``, each with its snapshot if that was rolled back.

        A file of an expired id is not read. Raises CorruptFileError. Clauses: CMT-36, CMT-42.
        """
        for one in self.listed():
            if one <= fence.expired:
                yield one, None
            elif (found := self.file(one)) and self.fences.is_rolled_back(fence, found):
                yield one, found

    def retained(self) -> list[Snapshot]:
        """Return the retained snapshots, oldest first, up to the latest of when the call began.

        Raises CorruptFileError. Clauses: CMT-1, CMT-29.
        """
        return self.retry_on_latest(self.up_to)

    def up_to(self, latest: Snapshot | None) -> list[Snapshot]:
        """Return the snapshots up to ``latest``, oldest first; for work that `retry_on_latest` does.

        Raises CorruptFileError, and what `retry_on_latest` retries on if ``latest`` was rolled back. Clauses: CMT-1.
        """
        self.ids()  # a gap is damage
        found = [latest] if latest else []
        found += self.before(latest) if latest else ()
        expired = self.fences.newest().expired
        if latest is not None and latest.id > expired:
            # If it was rolled back, the one that is missing was, too, and snapshots before that may be there.
            gone = self.expired_error(latest)
            if gone is not None:
                raise _ExpiredError(gone)
        return [one for one in reversed(found) if one.id > expired or one is latest]

    def before(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots before ``snapshot``, newest first, whose files are there."""
        for found in ahead(self._store, self.file, range(snapshot.id - 1, 0, -1)):
            if found is None:  # it has expired, and so have all before it
                return
            yield found

    def retry_on_latest(self, work: Callable[[Snapshot | None], Result], *, commits: bool = False) -> Result:
        """Return what ``work`` makes of the latest snapshot, None if nothing was written. ``commits``: see `latest`.

        If the snapshot expires while ``work`` runs, ``work`` is retried on the new latest snapshot.
        Raises SnapshotNotFoundError if that happens again and again. Clauses: RD-18.
        """

        def attempt() -> Result:
            try:
                found = self.latest(commits=commits)
            except SnapshotNotFoundError as error:
                raise _ExpiredError(error) from None
            try:
                return work(found)
            except CorruptFileError:
                expired = self.expired_error(found) if found else None
                if expired is None:
                    raise
            raise _ExpiredError(expired)

        try:
            return retry(attempt, on=_ExpiredError, policy=RACES)
        except _ExpiredError as expired:
            raise expired.error from None

    def expired_error(self, snapshot: Snapshot, tag: str | None = None) -> SnapshotNotFoundError | None:
        """Return the error that says so if ``snapshot`` is no longer there, or no longer under ``tag``, or None.

        While it is there, all its files must be: a missing one is damage. Clauses: RD-10, RD-19.
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
        latest = self.latest()
        return None if latest is None else latest.id

    def latest(self, *, commits: bool = False) -> Snapshot | None:
        """Return the latest snapshot, None for a table nothing was written to.

        ``commits``: whether it becomes the base of a commit. That looks at the newest fence after its put, so here a
        fence will do that was seen a short while ago. Then the latest snapshot may be one that has ended since.
        Raises SnapshotNotFoundError if it expired since it was listed. Clauses: CMT-13, CMT-36.
        """
        fence = self.fences.recent if commits else None
        found = self._if_latest(self._latest, fence) if self._latest else None
        if found is None and (hint := self.hint(LATEST)) not in (None, self._latest):
            found = self._if_latest(hint, fence)
        if found is None and (ids := self.ids()):
            found = self.read(ids[-1])
        self._latest = found.id if found else 0
        return found

    def _if_latest(self, hint: int, fence: Callable[[], Fence] | None) -> Snapshot | None:
        """Return the snapshot of an id if it is the latest. ``fence``: looks at one, None for the newest."""
        looks: list[Callable[[], Any]] = [
            partial(self._store.exists, self._paths.snapshot(hint + 1)),
            partial(self.file, hint),
            fence or (lambda: None),
        ]
        is_followed, found, seen = together(self._store, looks)
        if not found or is_followed:
            return None
        # The newest fence is looked at last: by then the file was the latest snapshot, or it has ended.
        return None if self.fences.hides(seen or self.fences.newest(), found) else found

    def read(self, snapshot: int) -> Snapshot:
        """Return a retained snapshot. Raises SnapshotNotFoundError, CorruptFileError. Clauses: RD-10, CMT-36."""
        found = self.file(snapshot)
        if found is None or self.fences.hides(self.fences.newest(), found):
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained())
        return found

    def file(self, snapshot: int) -> Snapshot | None:
        """Return the content of the file of an id, which may have ended; None if there is no file.

        Raises CorruptFileError.
        """
        path = self._paths.snapshot(snapshot)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            return None
        found = self._decoded.get(data, lambda: decode_snapshot(data, at=path))
        if found.id != snapshot:
            raise CorruptFileError("snapshot id", at=path, expected=snapshot, found=found.id)
        return found

    def by_tag(self, tag: str) -> Snapshot:
        """Return the snapshot that a tag keeps. Raises SnapshotNotFoundError."""
        return decode_snapshot(self.tag_file(tag), at=self._paths.tag(tag))

    def tag_file(self, tag: str) -> bytes:
        """Return what the file of a tag says. Raises SnapshotNotFoundError."""
        try:
            return self._store.read(self._paths.tag(tag))
        except FileNotFoundError:
            others = ", ".join(self.tags())
            raise SnapshotNotFoundError(f"tag {tag!r}", f"tags {others}" if others else "no tags") from None

    def tags(self) -> list[str]:
        """Return the names of all tags, sorted."""
        names = self._store.list_names(self._paths.tags)
        return sorted(name.removeprefix(TAG) for name in names if name.startswith(TAG))

    def put_tag(self, tag: str, snapshot: int, fields: Mapping[str, Any]) -> Snapshot:
        """Copy a retained snapshot to a name and return it. It may have expired before the tag was there.

        ``fields``: what only the tag says.
        Raises InvalidRequestError if the name is taken or cannot be one, SnapshotNotFoundError.
        Clauses: CMT-17, CMT-32.
        """
        expect_tag_name(tag)
        found = self.read(snapshot)
        try:
            data = self._store.read(self._paths.snapshot(snapshot))  # as it is: it may say more than we know
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"snapshot {snapshot}", self._retained()) from None
        self._put_tag(tag, with_fields(data, fields))
        return found

    def copy_tag(self, tag: str, name: str) -> None:
        """Give a tag a second name. Raises SnapshotNotFoundError, InvalidRequestError. Clauses: CMT-32."""
        self._put_tag(name, self.tag_file(tag))

    def _put_tag(self, tag: str, data: bytes) -> None:
        if not self._store.put_if_absent(self._paths.tag(tag), data):
            raise InvalidRequestError(f"tag {tag!r} exists already; take another name, or delete it first")

    def as_of(self, time_millis: int) -> Snapshot:
        """Return the latest snapshot not younger than ``time_millis`` since the epoch.

        Raises SnapshotNotFoundError, with times as ISO text. Clauses: RD-17.
        """
        found: Snapshot | None = None
        for snapshot in reversed(self.ids()):
            try:
                found = self.read(snapshot)
            except SnapshotNotFoundError:  # rolled back since the listing, or expired as all before it
                continue
            if found.time_millis <= time_millis:
                return found
        since = f", the oldest of {_iso(found.time_millis)}" if found else ""
        raise SnapshotNotFoundError(
            f"a snapshot at or before {_iso(time_millis)}", f"{self._retained()}{since}"
        )

    def remember(self, snapshot: Snapshot, *, is_followed: bool = False) -> None:
        """Take ``snapshot`` for the latest: it was just committed.

        ``is_followed``: whether the next commit is made at once, so that its hint will do. Clauses: CMT-13.
        """
        self._decoded.put(encode_snapshot(snapshot), snapshot)
        self._latest = snapshot.id
        if not is_followed:
            self.hint_latest(snapshot.id)
        if snapshot.id == 1:
            self.hint_earliest(1)

    def hint_latest(self, snapshot: int) -> None:
        """Say which snapshot is the latest. Clauses: CMT-13."""
        self._write_hint(LATEST, snapshot)

    def hint_earliest(self, snapshot: int) -> None:
        """Say which retained snapshot is the oldest. Clauses: CMT-13."""
        self._write_hint(EARLIEST, snapshot)

    def _write_hint(self, name: str, snapshot: int) -> None:
        # The commit or expiry has happened; a hint that cannot be written must not undo it.
        with contextlib.suppress(OSError):
            self._store.write(self._paths.hint(name), str(snapshot).encode())

    def hint(self, name: str) -> int | None:
        """Return the id in a hint file, `LATEST` or `EARLIEST`; None if there is none.

        A pipe, or a file without an id, is no hint. Clauses: CMT-13.
        """
        try:
            text = self._store.read(self._paths.hint(name)).strip()
        except (FileNotFoundError, CorruptFileError):
            return None
        return number_of(text.decode("utf-8", "replace"))

    def _retained(self) -> str:
        ids = self.listed()  # as they are: this is for a message about something else
        return f"{ids[0]} to {ids[-1]}" if ids else "none"


def _iso(time_millis: int) -> str:
    """Return a time as ISO text in UTC; as a number where it lies beyond the year 9999 or before the year 1."""
    try:
        text = (EPOCH + timedelta(milliseconds=time_millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{time_millis} ms"
    return text.removesuffix(".000") + "Z"


def expect_tag_name(tag: str) -> None:
    """Raise InvalidRequestError unless a new tag may have this name. Clauses: CMT-17."""
    if not isinstance(tag, str) or not TAG_NAME.fullmatch(tag):
        raise InvalidRequestError(
            f"tag {tag!r}: not a name of a tag, which has at most 200 letters, digits and ._-, "
            "not digits alone, and does not begin with a dot"
        )
