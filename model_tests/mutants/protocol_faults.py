"""Faults of the protocol, each a function that makes a faulty one of a function or method of `pktable`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pktable import staged_write
from pktable.bucket.write import BucketAppend
from pktable.catalog.changes import Compaction
from pktable.catalog.commit import CommittedError
from pktable.catalog.fences import FenceLog
from pktable.catalog.publish import Publisher, Put, Verdict
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import Delta
from pktable.format.metadata.snapshot import Fence, Snapshot
from pktable_spec.errors import CommitUnknownError, SnapshotNotFoundError


def false_for_unknown(original: Any) -> Any:
    return lambda log, fence, snapshot: bool(original(log, fence, snapshot))


def true_for_unknown(original: Any) -> Any:
    return lambda log, fence, snapshot: original(log, fence, snapshot) is not False


def own_snapshots_only(original: Any) -> Any:
    """Roll back what the fence names, and leave what was committed before it was put."""

    def rolled_back(log: FenceLog, fence: Fence, snapshot: Snapshot) -> bool:
        return fence.ended.get(snapshot.id) == snapshot.delta_manifest_list and original(log, fence, snapshot)

    return rolled_back


def no_look(original: Any) -> Any:
    def outcome(publisher: Publisher, put: Put, found: Snapshot | None) -> Verdict:
        return Verdict.COMMITTED if found == put.snapshot else original(publisher, put, found)

    return outcome


def error_is_failure(original: Any) -> Any:
    return lambda publisher, error, *rest: Verdict.FAILED if error else original(publisher, error, *rest)


def interrupt_is_failure(original: Any) -> Any:
    def outcome(publisher: Publisher, error: BaseException | None, *rest: Any) -> Verdict:
        if error is None or isinstance(error, Exception):
            found: Verdict = original(publisher, error, *rest)
            return found
        return Verdict.FAILED

    return outcome


def removes_after_an_interrupt(original: Any) -> Any:
    """Discard a write though its commit has happened, or may have."""

    def committed(write: staged_write.StagedWrite, commit_id: Any) -> Any:
        try:
            return original(write, commit_id)
        except (CommittedError, CommitUnknownError):
            write.discard()
            raise

    return committed


def as_of_any(original: Any) -> Any:
    """Find the oldest snapshot that is not younger than a time."""

    def as_of(log: SnapshotLog, time_millis: int) -> Snapshot:
        for one in log.ids():
            found = log.read(one)
            if found.time_millis >= time_millis:
                return found
        raise SnapshotNotFoundError(f"a snapshot at {time_millis}", "")

    return as_of


def fence_without_names(original: Callable[..., Fence]) -> Callable[..., Fence]:
    return lambda log, fence, after: original(log, replace(fence, ended={}), after)


def logged_twice(original: Any) -> Any:
    def renumber(context: Any, append: BucketAppend, *rest: Any, **named: Any) -> BucketAppend:
        again: BucketAppend = original(context, append, *rest, **named)
        return replace(again, changelog=(*append.changelog, *again.changelog))

    return staticmethod(renumber)


def without_changelog(original: Any) -> Any:
    def delta(compaction: Compaction, *rest: Any) -> Delta | None:
        found: Delta | None = original(compaction, *rest)
        return None if found is None else replace(found, changelog=())

    return delta
