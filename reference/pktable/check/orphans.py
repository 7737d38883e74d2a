"""Find and delete files that nothing needs, old enough not to belong to work that has not committed yet.

1. List all files that are older than the limit.
2. Read all that snapshots, tags, branches and changelogs refer to.
3. A file of step 1 that nothing of step 2 refers to is an orphan.

In this order a file that a commit begins to refer to is noticed. The limit protects files of a write, a compaction or
a commit that are not referred to yet: it must be longer than any of these take. If some metadata cannot be read,
nothing is an orphan, because it is not known what that metadata refers to.

Clauses: CMT-43, CMT-48, CMT-49.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError

from pktable.catalog.kept_changelogs import KeptChangelogs
from pktable.catalog.snapshots import SnapshotLog
from pktable.check.findings import ERROR, Findings
from pktable.check.unreferenced import directories
from pktable.check.walk import read_metadata
from pktable.context import TableContext
from pktable.format.metadata.snapshot import Fence
from pktable.format.paths import SNAPSHOT, id_of_removal, numbered
from pktable.retry import RetryPolicy, retry

EXPIRIES: Final = RetryPolicy(attempts=5)
"""Metadata goes missing under an expiry; each retry is after another one."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that nothing needs. ``size`` in bytes."""

    path: str
    size: int


class _UnknownError(Exception):
    """Some metadata could not be read."""


def find_orphans(context: TableContext, older_than_millis: int) -> list[Orphan]:
    """Return the orphans that were last modified before a time, in milliseconds since the epoch.

    Raises CorruptFileError if some metadata cannot be read. Clauses: CMT-48.
    """

    def attempt() -> list[Orphan]:
        old = _old_files(context, older_than_millis)
        findings = Findings(context.root)
        metadata = read_metadata(context.store, context.paths, findings)
        unreferenced = None if metadata is None else metadata.unreferenced()
        if unreferenced is None:
            errors = [str(one) for one in findings.all() if one.severity == ERROR]
            other = "a manifest is missing that a snapshot of another branch names"
            raise _UnknownError(errors[0] if errors else other)
        paths = {path for _, path in unreferenced} | _ended_files(context)
        return [Orphan(path, old[path]) for path in sorted(paths & old.keys())]

    try:
        return retry(attempt, on=_UnknownError, policy=EXPIRIES)
    except _UnknownError as error:
        raise CorruptFileError(
            "orphans", at=context.root, expected="metadata that can be read", found=str(error)
        ) from None


def remove_orphans(context: TableContext, orphans: list[Orphan]) -> list[Orphan]:
    """Delete orphans; return those that this process deleted. Clauses: CHG-23, CMT-43, CMT-48."""
    log = SnapshotLog(context.store, context.paths)
    KeptChangelogs(context, log).put(
        log.fences.newest()
    )  # of expired snapshots whose files are among the orphans
    return [one for one in orphans if _remove(context, log, one.path)]


def _remove(context: TableContext, log: SnapshotLog, path: str) -> bool:
    """Delete an orphan, unless it is a snapshot file that another process is to remove, or has replaced."""
    directory, _, name = path.rpartition("/")
    snapshot_id = numbered(name, SNAPSHOT) if directory == context.paths.snapshots else None
    fence = Fence() if snapshot_id is None else log.fences.newest()
    if snapshot_id is None or snapshot_id <= fence.expired:
        context.store.delete(path)
        return True
    snapshot = log.file(snapshot_id)
    if snapshot is None or not log.fences.is_rolled_back(fence, snapshot):
        return False
    return log.fences.remove_rolled_back(snapshot)


def _old_files(context: TableContext, older_than_millis: int) -> dict[str, int]:
    return {
        f"{directory}/{file.name}": file.size
        for directory in directories(context)
        for file in context.store.list_files(directory)
        if file.modified_millis < older_than_millis
    }


def _ended_files(context: TableContext) -> set[str]:
    """Return the files that count for nothing by the newest fence.

    1. Snapshot files whose ids have ended.
    2. Changelogs that are kept no more.
    3. Files that say who removes a snapshot, once its id has expired. Until then another snapshot may have the id, and
       a slow process would remove that.

    Clauses: CMT-43, CMT-61.
    """
    log, paths = SnapshotLog(context.store, context.paths), context.paths
    fence = log.fences.newest()
    found = {paths.snapshot(snapshot_id) for snapshot_id, _ in log.ended(fence)}
    found.update(paths.changelog(one) for one in KeptChangelogs(context, log).ended_ids(fence))
    for name in context.store.list_names(paths.fences):
        removed = id_of_removal(name)
        if removed is not None and removed <= fence.expired:
            found.add(f"{paths.fences}/{name}")
    return found
