"""Repair what can be repaired without a loss: strays, files that a rollback left, hints that are wrong.

Run it while no rollback and no other repair is under way, nor a commit that found a rolled-back file. A repair removes
what another process is about to remove.

Clauses: CMT-13, CMT-36, CMT-40, CMT-43, CMT-50.
"""

from __future__ import annotations

from pktable.catalog.fences import FENCES, FenceTakenError
from pktable.catalog.kept_changelogs import KeptChangelogs
from pktable.catalog.rollback import is_of_rollback
from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.paths import EARLIEST, LATEST, SNAPSHOT
from pktable.retry import retry


def repair(context: TableContext) -> list[str]:
    """Repair a table, and return what was done, a sentence each. Raises CorruptFileError. Clauses: CMT-50."""
    log = SnapshotLog(context.store, context.paths)
    return [
        *retry(lambda: _fence_strays(log), on=FenceTakenError, policy=FENCES),
        *_remove_ended(context, log),
        *_remove_tags(context, log),
        *_mend_hints(context, log),
    ]


def _fence_strays(log: SnapshotLog) -> list[str]:
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
    log.fences.put_expired(fence, earliest - 1, [])
    return [
        f"{SNAPSHOT}{one}: ended, because EARLIEST is {earliest} and {earliest - 1} is gone" for one in below
    ]


def _remove_ended(context: TableContext, log: SnapshotLog) -> list[str]:
    """Remove the snapshot files whose ids have ended. Clauses: CHG-23, CMT-36, CMT-40."""
    fence, done = log.fences.newest(), []
    KeptChangelogs(context, log).put()
    for snapshot_id, rolled_back in log.ended(fence):
        # If nobody was to remove it, now we are. Else whoever was to is dead.
        if rolled_back is None or not log.fences.remove_rolled_back(rolled_back):
            context.store.delete(context.paths.snapshot(snapshot_id))
        done.append(f"{SNAPSHOT}{snapshot_id}: removed, its id has ended by fence {fence.number}")
    return done


def _remove_tags(context: TableContext, log: SnapshotLog) -> list[str]:
    """Remove the tags that dead rollbacks left. A live one still has the tag that it goes back to. Clauses: CMT-47."""
    left = [tag for tag in log.tags() if is_of_rollback(tag)]
    for tag in left:
        context.store.delete(context.paths.tag(tag))
    return [f"tag {tag}: removed, a rollback put it for itself" for tag in left]


def _mend_hints(context: TableContext, log: SnapshotLog) -> list[str]:
    """Write hints that differ from the snapshots. Clauses: CMT-13."""
    ids, done = log.ids(), []
    for name, right in ((EARLIEST, ids[0]), (LATEST, ids[-1])) if ids else ():
        found = log.hint(name)
        if found != right:
            context.store.write(context.paths.hint(name), str(right).encode())
            done.append(f"{name}: written as {right}, found {'none' if found is None else found}")
    return done
