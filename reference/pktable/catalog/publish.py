"""Put a snapshot file, and find out whether it became a snapshot.

A file that was put is a snapshot unless its id had ended before: then the file is a stray, and its commit has to begin
again. An error leaves open whether the file is there, or will be there later. So:

1. Put the file if it is absent. After an error, read it back.
2. Look at the newest fence. If the id has ended, the fences say whether that was this snapshot or another one. A put
   that came too late made a stray, which is removed.
3. If the id has not ended, the file is this snapshot, or another committer has the id, or there is no file. In the last
   case the put is sent again, unless the store can say for certain that it will not arrive later.

Nothing is removed before the outcome is known. If it cannot be found out, CommitUnknownError says so.

A writer that puts no fences may expire or roll back as well. The base of the snapshot shows that: while it is there,
nothing above it has ended. Otherwise the snapshots around it decide, as far as they can (CMT-41).

Clauses: CMT-3, CMT-19, CMT-36 to CMT-41, CMT-42, CMT-43.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError

from pktable.catalog.fences import FenceLog
from pktable.catalog.schemas import not_as_opened
from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.metadata.snapshot import Fence, Snapshot, encode_snapshot
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import puts_may_be_late
from pktable.store.requests import together

ANSWERS: Final = RetryPolicy(attempts=10)
"""Against a store that does not answer: about a second."""


REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors by which a store says that it did not do it."""


class Verdict(Enum):
    """The outcome of a put.

    COMMITTED: the file is, or was, a snapshot. LOST: another commit has the id, or it had ended before the put.
    FAILED: the file is not there and will not be. BLOCKED: a file that was rolled back has the name, and the process
    that was to remove it has not. GONE: the table or branch was removed, or replaced, before the file came, which was
    taken back.
    UNKNOWN: none of these could be shown.
    """

    COMMITTED = "committed"
    LOST = "lost"
    FAILED = "failed"
    BLOCKED = "blocked"
    GONE = "gone"
    UNKNOWN = "unknown"


class _AbsentError(Exception):
    """There is no file of the id, which has not ended. ``blocked``: but one that was rolled back."""

    def __init__(self, *, blocked: bool) -> None:
        self.blocked = blocked


@dataclass(frozen=True, slots=True)
class Put:
    """A snapshot to be put. ``base``: the one it was made from.

    ``is_base_of``: whether another was made from it, None if nothing shows that. ``data``: the file of the snapshot, if
    it says more than we know.
    """

    snapshot: Snapshot
    base: Snapshot | None
    is_base_of: Callable[[Snapshot], bool | None]
    data: bytes | None = None


class Publisher:
    """Puts the snapshots of one table."""

    def __init__(self, context: TableContext, snapshots: SnapshotLog, policy: RetryPolicy = ANSWERS) -> None:
        self._context, self._store, self._paths = context, context.store, context.paths
        self._snapshots, self.policy = snapshots, policy
        self._fences: FenceLog = snapshots.fences

    def put(self, put: Put) -> tuple[Verdict, BaseException | None]:
        """Put a snapshot. Return the outcome, and the error that came before it was known, if one did."""
        path, data = self._paths.snapshot(put.snapshot.id), put.data or encode_snapshot(put.snapshot)
        try:
            try:
                done = self._store.put_if_absent(path, data)
            except InvalidRequestError as error:  # the store cannot do this
                return Verdict.FAILED, error
            return self.outcome(put, put.snapshot if done else self._snapshots.file(put.snapshot.id)), None
        except _AbsentError:
            return self.after_error(None, put, path, data), None
        except BaseException as error:
            return self.after_error(error, put, path, data), error

    def after_error(self, error: BaseException | None, put: Put, path: str, data: bytes) -> Verdict:
        """Return the outcome of a put that ended in ``error``, or found a file that no longer has the id.

        Clauses: CMT-38.
        """
        interrupted = error is not None and not isinstance(error, Exception)

        def attempt() -> Verdict:
            try:
                return self.outcome(put, self._snapshots.file(put.snapshot.id))
            except _AbsentError as absent:
                if absent.blocked:
                    raise
                if not puts_may_be_late(self._store) or getattr(error, "errno", None) in REFUSALS:
                    return Verdict.FAILED if error else Verdict.LOST
                if interrupted:
                    return Verdict.UNKNOWN
            self._store.put_if_absent(path, data)
            return self.outcome(put, self._snapshots.file(put.snapshot.id))

        try:
            return retry(attempt, on=Exception, policy=self.policy)
        except _AbsentError:
            return Verdict.UNKNOWN if error and puts_may_be_late(self._store) else Verdict.BLOCKED
        except Exception:
            return Verdict.UNKNOWN

    def outcome(self, put: Put, found: Snapshot | None) -> Verdict:
        """Return the outcome after ``found``, the file of the id, was read and before anything else was.

        Raises _AbsentError if it is None and the id has not ended. Clauses: BRN-9, CMT-36, CMT-37, CMT-39, TBL-60.
        """
        fence, base = self._look(put.base)
        if self._fences.hides(fence, put.snapshot):
            return self._after_end(fence, put.snapshot, found)
        if found is not None and self._fences.is_rolled_back(fence, found):
            # It does not have the id, and a put that is still under way may get it.
            raise _AbsentError(blocked=not self._fences.remove_rolled_back(found))
        if found is None:
            raise _AbsentError(blocked=False)
        if found != put.snapshot:
            return Verdict.LOST
        is_base_there = base is not None and base == put.base
        # A branch loses `schema-0` first, and then the snapshots there are; a table loses all, the base included, and
        # another may be there since.
        may_be_gone = self._paths.branch is not None or not is_base_there
        if may_be_gone and not_as_opened(self._context):
            return self._take_back(put.snapshot, Verdict.GONE)
        return self._without_fences(put, fence, is_base_there=is_base_there)

    def _look(self, base: Snapshot | None) -> tuple[Fence, Snapshot | None]:
        """Return the newest fence, and what the file of the base has now."""
        read = partial(self._snapshots.file, base.id) if base else lambda: None
        looks: list[Callable[[], Any]] = [self._fences.newest, read]
        fence, found = together(self._store, looks)
        return fence, found

    def _after_end(self, fence: Fence, snapshot: Snapshot, found: Snapshot | None) -> Verdict:
        """Return the outcome of a put whose id has ended by now. Clauses: CMT-37, CMT-39, CMT-43."""
        was_ours = self._fences.ended_as(fence, snapshot)
        if was_ours is None:
            return Verdict.UNKNOWN
        if found == snapshot:  # a stray, or a snapshot that has ended
            if snapshot.id > fence.expired:
                self._fences.remove_rolled_back(snapshot)
            elif not was_ours:
                self._store.delete(self._paths.snapshot(snapshot.id))
        return Verdict.COMMITTED if was_ours else Verdict.LOST

    def _without_fences(self, put: Put, fence: Fence, *, is_base_there: bool) -> Verdict:
        """Return the outcome of a put that the fences admit.

        The fences do not show that the id has ended. A writer without fences, such as Paimon, may have expired it or
        rolled it back before the put. Where a fence has ended the base, a snapshot of this id was there: this one, or
        one that such a writer has ended since. Clauses: CMT-41.
        """
        snapshot, base = put.snapshot, put.base
        has_expired = base is not None and base.id <= fence.expired
        if base is None or (is_base_there and not has_expired):
            return Verdict.COMMITTED
        if self._fences.newest().number != fence.number:  # it may have ended the base, or this snapshot
            return self.outcome(put, snapshot)
        others = [one for one in self._snapshots.listed() if one > fence.expired and one != snapshot.id]
        if any(one < snapshot.id for one in others):  # the base was rolled back
            return self._take_back(snapshot)
        if not others:  # the base has expired, and the latest snapshot never does
            return Verdict.COMMITTED
        try:
            made_from_ours = put.is_base_of(self._snapshots.read(snapshot.id + 1))
        except SnapshotNotFoundError:
            if self._fences.newest().number != fence.number:
                return self.outcome(put, snapshot)
            # It has expired. It did so after ours, unless ours came later: then ours is still there.
            if self._snapshots.file(snapshot.id) != snapshot:
                return Verdict.UNKNOWN
            return self._take_back(snapshot)
        if made_from_ours is None and has_expired:
            return Verdict.UNKNOWN
        return Verdict.COMMITTED if made_from_ours else self._take_back(snapshot)

    def _take_back(self, snapshot: Snapshot, verdict: Verdict = Verdict.LOST) -> Verdict:
        with contextlib.suppress(OSError):
            self._store.delete(self._paths.snapshot(snapshot.id))
        return verdict
