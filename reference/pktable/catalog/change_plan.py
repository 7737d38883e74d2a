"""Plan a read of changes: which files hold the changes of a range of snapshots, in order.

1. The range is found: after one snapshot, up to another one, which tags may name.
2. Every snapshot of the range is read. An expired one may have left a copy in ``changelog/`` (`kept_changelogs`).
3. Each names its changelog files. If the table writes none, the level-0 files of APPEND snapshots hold its changes, and
   a COMPACT snapshot changes nothing.
4. A key that moves between partitions is in the files of two buckets. So all buckets are read for what leaves no row,
   and then again for the rows.

An OVERWRITE replaces rows, and nobody records which. So its changes are not known, and a range with one is refused.

Clauses: CHG-11, CHG-12, CHG-13, CHG-18, CHG-23, CHG-40.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError
from pktable_spec.vocabulary import APPEND, OVERWRITE

from pktable.catalog.kept_changelogs import KeptChangelogs, changes_list
from pktable.catalog.manifests import Manifests, MissingManifestError
from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, DataFileMeta
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId, ChangeRead


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The ids of the snapshots whose changes are read: those after ``start`` up to ``end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"changes after snapshot {self.start} up to {self.end}"


def change_range(snapshots: SnapshotLog, start: int | str, end: int | str | None) -> ChangeRange:
    """Return the range from ``start`` to ``end``, ids or names of tags; None is the latest snapshot.

    Raises InvalidRequestError, SnapshotNotFoundError. Clauses: CHG-11, CHG-13.
    """
    first = _id_of(snapshots, "start", start)
    last = (snapshots.latest_id() or 0) if end is None else _id_of(snapshots, "end", end)
    if first > last:
        raise InvalidRequestError(f"changes: start {start} is after end {last if end is None else end}")
    return ChangeRange(first, last)


def _id_of(snapshots: SnapshotLog, what: str, named: int | str) -> int:
    if isinstance(named, str):
        kept = snapshots.by_tag(named)
        if snapshots.fences.is_rolled_back(snapshots.fences.newest(), kept):
            raise InvalidRequestError(
                f"changes: tag {named!r} keeps a snapshot {kept.id} that was rolled back; its changes are gone"
            )
        return kept.id
    if not isinstance(named, int) or isinstance(named, bool) or named < 0:
        raise InvalidRequestError(
            f"{what}: expected the id of a snapshot or the name of a tag, found {named!r}"
        )
    return named


def snapshots_between(context: TableContext, snapshots: SnapshotLog, wanted: ChangeRange) -> list[Snapshot]:
    """Return the snapshots of a range, oldest first. Raises SnapshotNotFoundError, which names the range.

    Clauses: CHG-13, CHG-18.
    """
    found, kept_changelogs = [], KeptChangelogs(context, snapshots)
    for one in range(wanted.start + 1, wanted.end + 1):
        try:
            found.append(snapshots.read(one))
        except SnapshotNotFoundError as error:
            kept = kept_changelogs.of_one(one)
            if kept is None:
                raise SnapshotNotFoundError(f"{wanted}: snapshot {one}", error.retained) from None
            found.append(kept)
    return found


def expect_kept(
    context: TableContext, snapshots: SnapshotLog, wanted: ChangeRange, found: Sequence[Snapshot]
) -> None:
    """Raise SnapshotNotFoundError if a snapshot of a range has gone since ``found`` were there. Clauses: CHG-13."""
    if snapshots_between(context, snapshots, wanted) != list(found):
        raise SnapshotNotFoundError(str(wanted), "others, after a rollback") from None


def plan_changes(
    context: TableContext, manifests: Manifests, found: Sequence[Snapshot], wanted: ChangeRange
) -> list[ChangeRead]:
    """Return the parts of a read of the changes of ``found``, in order. Raises InvalidRequestError, CorruptFileError.

    Raises SnapshotNotFoundError if a branch begins with a snapshot whose changelog has gone.
    Clauses: CHG-11, CHG-12, CHG-37, CHG-40, TBL-30.
    """
    context.require_changes_readable()
    if context.options.data_evolution:
        raise InvalidRequestError(f"{context.root}: changes of a table with data evolution are not supported")
    logged = context.options.changelog_producer != "none"
    parts: list[ChangeRead] = []
    for snapshot in found:
        if snapshot.commit_kind == OVERWRITE:
            raise InvalidRequestError(
                f"{wanted}: snapshot {snapshot.id} is an OVERWRITE, whose changes nobody recorded; "
                f"read the changes up to {snapshot.id - 1} and those after {snapshot.id}"
            )
        name, size = changes_list(context.options, snapshot)
        if name is None or (not logged and snapshot.commit_kind != APPEND):
            continue
        try:
            divided = _files(context, manifests, name, size)
        except MissingManifestError:
            if context.paths.branch is None or snapshot.fence is not None:
                raise
            what = f"{wanted}: the changelog of snapshot {snapshot.id}, with which the branch begins,"
            raise SnapshotNotFoundError(what, f"those of the snapshots after {snapshot.id}") from None
        if not logged:
            for files in divided.values():
                files.sort(key=lambda file: (file.min_sequence_number, file.max_sequence_number))
        passes = (False, True) if context.moves_keys and len(divided) > 1 else (None,)
        parts += [
            ChangeRead(context.place(*bucket_id), tuple(files), snapshot.id, snapshot.time_millis, final)
            for final in passes
            for bucket_id, files in divided.items()
        ]
    return parts


def _files(
    context: TableContext, manifests: Manifests, name: str, size: int | None
) -> dict[BucketId, list[DataFileMeta]]:
    """Return the files that a list of changes names, by bucket. Raises CorruptFileError if it removes a file."""
    divided: dict[BucketId, list[DataFileMeta]] = {}
    for meta in manifests.read_list(name, size):
        for entry in manifests.read(meta):
            if entry.kind != ADD:
                raise CorruptFileError(
                    "manifest entry",
                    at=context.paths.manifest(meta.file_name),
                    expected="changes that only add files",
                    found=f"DELETE of {entry.file.file_name}",
                )
            divided.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    return divided
