"""Fences: files that say which snapshot ids have ended. A file under such an id is no snapshot.

Putting a snapshot file if it is absent does not show that nobody had its id: the file is absent again after an expiry
or a rollback. So both put a fence before they remove a snapshot file, and a committer looks at the fences after it put
one. Fences are put if absent under dense numbers. So whoever puts the next fence has decided on all fences before it.

Old fences are removed, which makes their numbers free again. A process that slept since before can put a fence under
such a number, though it knows no fence that followed. So it looks at the newest fence after its put. If its own is
older by `KEPT` or more, and the newest does not say the same, it was put too late, and the process decides again.
Readers take all fences that are so old for removed ones.

A file under an expired id is removed by its name: no snapshot can have that id again. A file above the target of a
rollback may stand where another committer wants to put a snapshot. One process may remove it: the one that creates
a second file, which names it. Otherwise a slow process could remove the snapshot that took its place.

Clauses: CMT-35, CMT-36, CMT-37, CMT-42, CMT-43, CMT-44, CMT-57, CMT-61, CMT-62, META-52, META-54.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from pktable_spec.errors import CommitUnknownError, CorruptFileError, InvalidRequestError, PkTableError

from pktable.format.metadata.snapshot import Fence, Rollback, Snapshot, decode_fence, encode_fence
from pktable.format.paths import FENCE, GREATEST, TablePaths, numbered
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO
from pktable.store.new_files import put_once, remove_quietly
from pktable.store.requests import Cache

KEPT: Final = 100
"""How many fences count, the newest included. Older ones would help only commits in doubt since before them."""
FENCES: Final = RetryPolicy(races=True)
"""Against others who put fences: expiries, rollbacks and makers of consumers."""
LOOKS: Final = RetryPolicy(attempts=20)
"""Each loss is a hundred expiries of others during one listing."""
RECENT: Final = 1_000
"""Milliseconds. A commit that knows an old fence cannot find out its outcome if its id ended `KEPT` fences ago."""
_REPAIR: Final = "if that is dead, run `pktable check --repair`"
BEGUN: Final = f"was rolled back, and the process that began to remove it has not; {_REPAIR}"
"""The end of a message about a snapshot file that only another process may remove."""


class FenceTakenError(Exception):
    """Another process put the fence of this number."""


class FenceLog:
    """The directory ``fence/`` of a table.

    ``clock``: milliseconds. ``expect_opened``: raises InvalidRequestError if another table has taken its place.
    """

    def __init__(
        self,
        store: FileIO,
        paths: TablePaths,
        clock: Callable[[], int] = lambda: 0,
        expect_opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._paths, self._clock = store, paths, clock
        self.expect_opened = expect_opened
        self._decoded = Cache(KEPT)
        self._seen: tuple[Fence, int] | None = None

    def newest(self) -> Fence:
        """Return the newest fence. Raises CorruptFileError. Clauses: CMT-36."""
        return self._listed()[0]

    def recent(self) -> Fence:
        """Return the newest fence of a look that was made within `RECENT`, or of one that is made now.

        A commit may know an older fence: it looks at the newest one after its put. Raises CorruptFileError.
        Clauses: CMT-36.
        """
        if self._seen and abs(self._clock() - self._seen[1]) < RECENT:
            return self._seen[0]
        return self.newest()

    def _listed(self) -> tuple[Fence, list[int]]:
        """Return the newest fence, and the numbers of all that are there."""

        def look() -> tuple[Fence, list[int]]:
            # Fences are put in order, and removed long after newer ones were put: a listing shows the newest, or one
            # that was put while it ran.
            names = self._store.list_names(self._paths.fences)
            numbers = [number for name in names if (number := numbered(name, FENCE)) is not None]
            return (self._read(max(numbers)) if numbers else Fence()), numbers

        found = retry(look, on=FileNotFoundError, policy=LOOKS)
        self._seen = found[0], self._clock()
        return found

    def _read(self, number: int) -> Fence:
        """Return a fence by its number. Raises FileNotFoundError, CorruptFileError."""
        path = self._paths.fence(number)
        return self._decoded.get(number, lambda: decode_fence(number, self._store.read(path), at=path))

    def put_expired(
        self, after: Fence, expired: int, ended: list[Snapshot], changelogs: int | None = None
    ) -> Fence:
        """Put the fence of an expiry that was decided when ``after`` was the newest.

        ``expired``: the greatest id that expires; ``ended``: the snapshots; ``changelogs``: the greatest id whose
        changelog is kept no more, None for no more than before.
        Raises FenceTakenError if another fence came between. Clauses: CMT-35, CMT-44, CMT-61.
        """
        closed = after.changelogs if changelogs is None else changelogs
        return self.put(replace(after, expired=expired, ended=_names(ended), changelogs=closed), after)

    def put_no_end(self, before: Callable[[Fence], None]) -> None:
        """Put a fence that ends nothing: whoever decided something before decides again.

        ``before``: what to do before a fence is put, with the newest one. Clauses: CHG-36, CMT-44, CMT-62.
        """

        def attempt() -> None:
            newest = self.newest()
            before(newest)
            self.put(replace(newest, ended={}), newest)

        retry(attempt, on=FenceTakenError, policy=FENCES)

    def put_rollback(self, after: Fence, target: int, ended: list[Snapshot]) -> Fence:
        """Put the fence of a rollback that was decided when ``after`` was the newest.

        Raises FenceTakenError if another fence came between, CommitUnknownError if the store does not say whether the
        fence is there: it may still come. Clauses: CMT-39, CMT-42, CMT-44.
        """
        rollbacks = (*after.rollbacks, Rollback(after.number + 1, target))
        self.expect_opened()
        try:
            return self._put(replace(after, rollbacks=rollbacks, ended=_names(ended)), after)
        except OSError as error:
            raise CommitUnknownError(self._paths.fence(after.number + 1), target) from error

    def put(self, fence: Fence, after: Fence) -> Fence:
        """Put the fence that follows ``after``, and return the one that now has its contents.

        That is a later one if the fence is already old. Raises FenceTakenError, and InvalidRequestError if the table
        was dropped or replaced: its fence must not end snapshots of the next one. Clauses: CMT-44, CMT-57, TBL-71.
        """
        self.expect_opened()
        return self._put(fence, after)

    def _put(self, fence: Fence, after: Fence) -> Fence:
        fence = replace(fence, number=after.number + 1, writer=str(uuid.uuid4()))
        if fence.number > GREATEST:
            raise CorruptFileError(
                "fence number", at=self._paths.fences, expected=f"less than {GREATEST}", found=after.number
            )
        path, data = self._paths.fence(fence.number), encode_fence(fence)
        if not put_once(self._store, path, data):
            raise FenceTakenError
        self.expect_opened_or_remove(path, data)
        newest, numbers = self._listed()
        old = [number for number in numbers if _is_old(number, newest)]
        remove_quietly(self._store, [self._paths.fence(number) for number in old])
        if not _is_old(fence.number, newest):
            return fence
        if not newest.continues(fence):  # its number had been free again
            raise FenceTakenError
        return newest

    def expect_opened_or_remove(self, path: str, data: bytes) -> None:
        """Remove a file that was put, and raise InvalidRequestError, if another table has taken the place of ours.

        ``data``: what was put. The other table may have a file of its own there by now, which stays. Clauses: TBL-71.
        """
        try:
            self.expect_opened()
        except InvalidRequestError:
            with contextlib.suppress(OSError, PkTableError):
                if self._store.read(path) == data:
                    self._store.delete(path)
            raise

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, in order, that another table here would name alike.

        Raises InvalidRequestError if it has taken the place of ours. It looks again each `RECENT`. Clauses: TBL-71.
        """
        looked = None
        for path in paths:
            if looked is None or abs(self._clock() - looked) >= RECENT:
                looked = self._clock()
                self.expect_opened()
            self._store.delete(path)

    def hides(self, fence: Fence, snapshot: Snapshot) -> bool:
        """Return whether the file of ``snapshot`` is no snapshot by ``fence``. Clauses: CMT-36, CMT-42."""
        return snapshot.id <= fence.expired or self.is_rolled_back(fence, snapshot)

    def is_rolled_back(self, fence: Fence, snapshot: Snapshot) -> bool:
        """Return whether ``snapshot`` was rolled back, or was put by a writer that did not know of a rollback.

        Other writers do not say what they know. Their snapshots were rolled back if the fence names them.
        Clauses: CMT-42.
        """
        unknown = fence.rolled_back(snapshot)
        if snapshot.fence is not None:
            return bool(unknown)
        return any(self._named_by(number, snapshot) for number in unknown)

    def _named_by(self, number: int, snapshot: Snapshot) -> bool:
        """Return whether a fence names ``snapshot`` as one that it ended; False for a fence that no longer counts."""
        try:
            name = self._read(number).ended.get(snapshot.id)
        except FileNotFoundError:
            return False
        return name == snapshot.delta_manifest_list and not _is_old(number, self.newest())

    def ended_as(self, fence: Fence, snapshot: Snapshot) -> bool | None:
        """Return whether a fence up to ``fence`` names ``snapshot`` as one that it ended; None if that is not known.

        Clauses: CMT-35, CMT-37, CMT-57.
        """
        named = other = False
        oldest = fence.number
        # Fences that the writer of the snapshot knew did not end it.
        for oldest in range(fence.number, snapshot.fence or 0, -1):
            try:
                name = self._read(oldest).ended.get(snapshot.id)
            except FileNotFoundError:
                return None
            named = name == snapshot.delta_manifest_list
            if named:
                break
            other = other or name is not None
        if _is_old(oldest, self.newest()):  # what was read may have been put too late
            return None
        # Such an id has expired and no fence names it: a writer without fences had removed the snapshot before.
        return named or (False if other or snapshot.id > fence.expired else None)

    def remove_rolled_back(self, snapshot: Snapshot) -> bool:
        """Remove the file of a snapshot that was rolled back; return False if another process was to do so.

        Raises InvalidRequestError as `put`. Clauses: CMT-43, TBL-71.
        """
        path, data = (
            self._paths.removal(snapshot.id, snapshot.delta_manifest_list),
            str(uuid.uuid4()).encode(),
        )
        if not put_once(self._store, path, data):
            return False
        self.expect_opened_or_remove(path, data)
        self._store.delete(self._paths.snapshot(snapshot.id))
        return True


def _is_old(number: int, newest: Fence) -> bool:
    """Return whether a fence no longer counts, so that it may have been removed. Clauses: CMT-57."""
    return number <= newest.number - KEPT


def _names(snapshots: list[Snapshot]) -> dict[int, str]:
    return {snapshot.id: snapshot.delta_manifest_list for snapshot in snapshots}
