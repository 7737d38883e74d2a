"""Go back to an earlier snapshot or to a tag: the later snapshots go.

Back to a retained snapshot:

1. Put a fence that names the target and the snapshots above it. From here on these have ended, and every commit that
   was planned before has to be planned again. If another fence came between, begin again.
2. Remove the files of these snapshots, the latest first. An interruption leaves files that the next committer removes.

A tag may keep a snapshot that has expired. Its id cannot come back, nor can its files: a file that manifests have
deleted may not be added again (CMT-4). So its files are copied under new names and committed as a new snapshot, and
then all others expire. A second tag keeps the files while they are copied. If the process dies, a repair removes it.

The data files of the snapshots that went are orphans; an expiry cannot tell that nothing will need them.

Clauses: CMT-42, CMT-43, CMT-45, CMT-46, CMT-47, CMT-60.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pktable_spec.errors import (
    CommitConflictError,
    InvalidRequestError,
    SnapshotNotFoundError,
    StorageError,
)
from pktable_spec.vocabulary import OVERWRITE

from pktable.bucket.hash_index import read_hashes, write_hashes
from pktable.bucket.index import write_index
from pktable.catalog import holds
from pktable.catalog.changes import CommitId, Conflicts, entry
from pktable.catalog.commit import Committer, Staged
from pktable.catalog.fences import BEGUN, FENCES, FenceTakenError
from pktable.catalog.retention import Expiry
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import Delta, IndexFiles, StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import ADD, DELETE, DataFileMeta, IndexManifestEntry
from pktable.format.metadata.snapshot import Fence, Snapshot
from pktable.lsm.bucket import BucketId
from pktable.retry import retry
from pktable.store.file_io import FileIO, abort
from pktable.store.new_files import NewFiles

COPIED_BYTES: Final = 8 << 20

STORE_FAILED: Final = (
    "the snapshots are rolled back; when the store works again, run `pktable check --repair`"
)


@dataclass(frozen=True)
class Replacement(Staged):
    """The change that puts new files in the place of all live ones, and is staged. ``total_buckets``: of the table.

    ``kept``: the state whose files they are copies of. ``new``: the files.
    """

    files: Mapping[BucketId, Sequence[DataFileMeta]]
    indexes: Mapping[BucketId, IndexFiles]
    hashes: Mapping[BucketId, IndexManifestEntry]
    total_buckets: int
    kept: TableState
    store: FileIO
    new: NewFiles

    def change(self) -> Replacement:
        """Return itself: it is committed whole."""
        return self

    def discard(self) -> None:
        """Remove the files made. Clauses: CMT-12."""
        self.new.remove(self.store)

    def conflicts(self, state: TableState) -> Conflicts:
        """Return no conflict: it fits every state."""
        return {}

    def delta(self, state: TableState, refused: Collection[BucketId]) -> Delta:
        """Return the files that go and those that come, and the index files of the latter."""
        changes = ((DELETE, state, state.files), (ADD, self.kept, self.files))
        entries = [
            entry(kind, bucket_id, of.total(bucket_id, self.total_buckets), file)
            for kind, of, files in changes
            for bucket_id, live in files.items()
            for file in live
        ]
        return Delta(OVERWRITE, tuple(entries), self.indexes, self.hashes)


class Rollback:
    """Rolls one table back."""

    def __init__(
        self,
        context: TableContext,
        snapshots: SnapshotLog,
        states: StateLoader,
        committer: Committer,
        expiry: Expiry,
    ) -> None:
        self._context, self._snapshots, self._states = context, snapshots, states
        self._committer, self._expiry = committer, expiry

    def to_snapshot(self, target: int) -> list[int]:
        """Make a retained snapshot the latest; return the ids of those that went, ascending.

        Raises SnapshotNotFoundError. Raises InvalidRequestError if a tag keeps a later snapshot or a consumer has read
        one.
        Clauses: CMT-42, CMT-43, CMT-45, CMT-60.
        """
        return retry(lambda: self._to_snapshot(target), on=FenceTakenError, policy=FENCES)

    def _to_snapshot(self, target: int) -> list[int]:
        fence = self._snapshots.fences.newest()
        self._snapshots.read(target)
        ended = []
        for later in (one for one in self._snapshots.ids() if one > target):
            snapshot = self._snapshots.file(later)
            if snapshot is None:
                raise FenceTakenError  # another rollback was faster
            ended.append(snapshot)
        if not ended:
            return self._finished(fence, target)
        self._expect_no_later_tags(target)
        self._expect_unread(target)
        self._expiry.put_copies(fence)
        fence = self._snapshots.fences.put_rollback(fence, target, ended)
        try:
            self._remove(fence, target)  # also those that were committed since
        except StorageError as error:
            raise error.with_remedy(STORE_FAILED) from error
        self._snapshots.hint_latest(target)
        return [snapshot.id for snapshot in ended]

    def _finished(self, fence: Fence, target: int) -> list[int]:
        """Remove what an earlier rollback to ``target`` has left; return the ids.

        Raises CommitConflictError if only another process may remove it, though it may be dead.
        Clauses: CMT-43, CMT-45.
        """
        removed, left = self._remove(fence, target)
        if left:
            raise CommitConflictError(f"{self._context.paths.snapshot(left[0])} {BEGUN}", target)
        return sorted(removed)

    def _remove(self, fence: Fence, target: int) -> tuple[list[int], list[int]]:
        """Remove what is rolled back above ``target``; return the ids that went, and those left to other processes."""
        removed: list[int] = []
        left: list[int] = []
        for later in sorted((one for one in self._snapshots.listed() if one > target), reverse=True):
            snapshot = self._snapshots.file(later)
            if snapshot is not None and self._snapshots.fences.is_rolled_back(fence, snapshot):
                ours = self._snapshots.fences.remove_rolled_back(snapshot)
                (removed if ours else left).append(later)
        return removed, left

    def to_tag(self, tag: str, commit_id: CommitId) -> list[int]:
        """Make the latest snapshot what a tag keeps; return the ids of those that went, ascending.

        Raises SnapshotNotFoundError. Raises InvalidRequestError if the snapshot is retained and a tag keeps a later
        one or a consumer has read one. Clauses: CMT-45, CMT-47, CMT-60.
        """
        kept = self._snapshots.by_tag(tag)
        if self._snapshots.expired_error(kept) is None:
            return self.to_snapshot(kept.id)
        second = holds.new_hold(holds.ROLLBACK)
        self._expiry.copy_tag(tag, kept, second)
        try:
            self._committer.commit(self._copied(self._states.at(kept)), commit_id)
        finally:
            self._expiry.drop_tag(second)
        return self._expiry.expire(retain_last=1, older_than=None, now_millis=self._committer.clock())

    def _copied(self, state: TableState) -> Replacement:
        """Return copies of the data files of a state, and index files for the copies. Clauses: CMT-12."""
        new = NewFiles()
        try:
            return self._copied_to(state, new)
        except BaseException:
            new.remove(self._context.store)
            raise

    def _copied_to(self, state: TableState, new: NewFiles) -> Replacement:
        """Copy the data files of a state, and write index files for the copies. Clauses: BKT-12, CMT-47, DV-14."""
        files, indexes = {}, {}
        for bucket_id in state.files:
            bucket = self._states.bucket(state, bucket_id)
            names: dict[str, str] = {}
            copies = []
            for file in bucket.files:
                path = new.data_path(bucket.place.directory, file.file_name.rpartition(".")[2])
                self._copy(self._context.data_path(bucket.place, file), path)
                names[file.file_name] = path.rpartition("/")[2]
                # An index of the file only speeds up reads; it is not copied.
                copies.append(
                    replace(file, file_name=names[file.file_name], extra_files=(), external_path=None)
                )
            files[bucket_id] = tuple(copies)
            vectors = {
                names[name]: vector for name, vector in self._context.vectors(bucket).items() if name in names
            }
            if vectors:
                indexes[bucket_id] = (write_index(self._context, bucket.place, vectors, new),)
        hashes = {}
        for bucket_id, index in state.hashes.items():
            place = self._context.place(*bucket_id)
            hashes[bucket_id] = write_hashes(self._context, place, read_hashes(self._context, index), new)
        context = self._context
        return Replacement(files, indexes, hashes, context.options.bucket, state, context.store, new)

    def _copy(self, source: str, target: str) -> None:
        copy = self._context.store.create(target)
        try:
            with self._context.open(source) as old:
                while block := old.read(COPIED_BYTES):
                    copy.write(block)
        except BaseException:
            abort(copy)
            raise
        copy.close()

    def _expect_no_later_tags(self, target: int) -> None:
        later = [name for name in self._snapshots.tags() if self._id_of(name) > target]
        if later:
            raise InvalidRequestError(
                f"rollback to snapshot {target}: tags keep later snapshots; delete them first: {', '.join(later)}"
            )

    def _expect_unread(self, target: int) -> None:
        """Raise InvalidRequestError if a consumer has read a snapshot above the target. Clauses: CMT-60."""
        late = [name for name, following in self._expiry.consumers.all().items() if following > target + 1]
        if late:
            raise InvalidRequestError(
                f"rollback to snapshot {target}: consumers have read later snapshots, and would miss what gets their "
                f"ids; set them to {target + 1} or delete them first: {', '.join(late)}"
            )

    def _id_of(self, tag: str) -> int:
        try:
            kept: Snapshot = self._snapshots.by_tag(tag)
        except SnapshotNotFoundError:  # deleted since the listing
            return 0
        return kept.id
