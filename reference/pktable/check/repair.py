"""Repair what can be repaired without a loss: strays, files that a rollback left, hints that are wrong, half branches.

Run it while no rollback and no other repair is under way, and no branch is made, removed or fast-forwarded. Nor may a
commit have found a rolled-back file. A repair removes what another process is about to remove.

Clauses: BRN-4, BRN-6, BRN-10, BRN-13, CMT-13, CMT-36, CMT-40, CMT-43, CMT-50.
"""

from __future__ import annotations

from typing import Final

from pktable.catalog.branch_names import halves, other_branches
from pktable.catalog.branches import remove_branch
from pktable.catalog.catalog import Catalog
from pktable.catalog.fences import FENCES, FenceTakenError
from pktable.catalog.holds import BRANCH, FAST_FORWARD, REMOVAL, ROLLBACK, Consumers, kind_of_hold
from pktable.catalog.kept_changelogs import KeptChangelogs
from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.paths import EARLIEST, LATEST, SNAPSHOT, TablePaths
from pktable.retry import retry

_MAKERS: Final = {
    ROLLBACK: "a rollback",
    BRANCH: "the maker of a branch",
    FAST_FORWARD: "a fast-forward",
    REMOVAL: "the removal of the branch",
}


def repair(catalog: Catalog) -> list[str]:
    """Repair a table, and return what was done, a sentence each. Raises CorruptFileError. Clauses: CMT-50."""
    context, log = catalog.context, catalog.snapshots
    return [
        *_remove_consumers(context, context.paths),
        *retry(lambda: _fence_strays(context, log), on=FenceTakenError, policy=FENCES),
        *_remove_ended(context, log),
        *_remove_tags(context, log),
        *_mend_hints(context, log),
        *(_mend_branches(context) if context.paths.branch is None else ()),
    ]


def _fence_strays(context: TableContext, log: SnapshotLog) -> list[str]:
    """Fence snapshot files below the hint EARLIEST that a gap parts from the others.

    Snapshots expire in order. So a file below a gap was put after its id had expired, by a writer that puts no fences,
    or is left of an expiry. That the gap is no damage is shown by the hint: an expiry wrote it.
    """
    fence, earliest = log.fences.newest(), log.hint(EARLIEST)
    ids = [one for one in log.listed() if one > fence.expired]
    if earliest is None or earliest not in ids or earliest - 1 in ids:
        return []
    below, kept = [one for one in ids if one < earliest], [one for one in ids if one >= earliest]
    if not below or kept != list(range(earliest, kept[-1] + 1)):
        return []
    KeptChangelogs(context, log).put(fence)
    log.fences.put_expired(fence, earliest - 1, [])
    return [
        f"{SNAPSHOT}{one}: ended, because EARLIEST is {earliest} and {earliest - 1} is gone" for one in below
    ]


def _remove_ended(context: TableContext, log: SnapshotLog) -> list[str]:
    """Remove the snapshot files whose ids have ended. Clauses: CHG-23, CMT-36, CMT-40, TBL-71."""
    fence, done = log.fences.newest(), []
    KeptChangelogs(context, log).put(fence)
    for snapshot_id, rolled_back in log.ended(fence):
        # If nobody was to remove it, now we are. Else whoever was to is dead.
        if rolled_back is None or not log.fences.remove_rolled_back(rolled_back):
            log.fences.remove([context.paths.snapshot(snapshot_id)])
        done.append(f"{SNAPSHOT}{snapshot_id}: removed, its id has ended by fence {fence.number}")
    return done


def _remove_tags(context: TableContext, log: SnapshotLog) -> list[str]:
    """Remove the tags that dead rollbacks and makers of branches left.

    A live rollback still has the tag that it goes back to. Clauses: BRN-6, CMT-47.
    """
    left = [(tag, kind) for tag in log.tags() if (kind := kind_of_hold(tag))]
    for tag, _ in left:
        context.store.delete(context.paths.tag(tag))
    return [f"tag {tag}: removed, {_MAKERS[kind]} put it for itself" for tag, kind in left]


def _remove_consumers(context: TableContext, paths: TablePaths) -> list[str]:
    """Remove the consumers that dead fast-forwards and removals left. Clauses: BRN-10, BRN-13."""
    names = Consumers(context.store, paths).names()
    left = [(name, kind) for name in names if (kind := kind_of_hold(name))]
    for name, _ in left:
        context.store.delete(paths.consumer(name))
    return [f"consumer {name}: removed, {_MAKERS[kind]} put it for itself" for name, kind in left]


def _mend_branches(context: TableContext) -> list[str]:
    """Remove branches that are half there, and the consumers that work left in others. Clauses: BRN-4."""
    done = []
    for paths in halves(context.store, context.paths):
        remove_branch(context.store, paths)
        done.append(f"branch {paths.branch}: removed, it was half made or half removed")
    for paths in other_branches(context.store, context.paths):
        done += _remove_consumers(context, paths)
    return done


def _mend_hints(context: TableContext, log: SnapshotLog) -> list[str]:
    """Write hints that differ from the snapshots. Clauses: CMT-13."""
    ids, done = log.ids(), []
    for name, right in ((EARLIEST, ids[0]), (LATEST, ids[-1])) if ids else ():
        found = log.hint(name)
        if found != right:
            context.store.write(context.paths.hint(name), str(right).encode())
            done.append(f"{name}: written as {right}, found {'none' if found is None else found}")
    return done
