"""Expire old snapshots, keep others by tags, and delete the files that are no longer referenced.

An expiry takes five steps, and the removal of a tag the same without the second:

1. List every file that the snapshots to be removed name.
2. Put a fence that names these snapshots. From here on they have expired. If another fence came between, begin again.
3. Put the copies that keep their changelogs (`kept_changelogs`). Remove the snapshot files, the oldest first.
4. Load what all remaining snapshots need, and after that what all tags need.
5. Delete the files of step 1 that nobody needs.

So an interruption leaves files that nothing names, never a name without its file. Snapshot files that an interrupted
expiry has left are found by the fences, and the next expiry takes them through steps 3 to 5 with its own.

Several processes expire at once, while others commit and make tags.

* No file is leaked. Some process removes the last snapshot or tag of those that need a file. It has listed the file in
  step 1, and finds in step 4 that nobody needs it. So a file that vanishes during an expiry is another process's to
  delete: if a manifest is missing and the snapshot that named it is gone too, the expiry goes on without it.
* No needed file is deleted. A commit makes no file live again that was not live in the snapshot before it. So of our
  files, a later snapshot needs only what the newest snapshot in step 4 needs. That one must not expire before its files
  are known. Tags are listed last. The maker of a tag looks for the snapshot once more after the tag is written, and
  removes the tag if the snapshot is gone: a snapshot that step 4 misses has left its tags.
* Branches have snapshots, tags and changelogs of their own, and share the files. The needs of the others are read last,
  and the main branch is read after all others. They are read again until a look finds nothing new. One of two looks
  finds what goes from one branch to another concurrently: a new branch has a tag in the one that it is made from until
  it is there, and a fast-forward keeps a consumer until it is done. A branch that is half there needs nothing.
* A commit that was rolled back before its process looked at the fences is made again with the same data files. So the
  files of a tag whose snapshot was rolled back are left to the removal of orphans.

A snapshot that expires takes its changelog files with it, unless a copy of it is kept for them (`kept_changelogs`). A
tag does not keep them: it keeps rows, not changes.

Clauses: BRN-7, BRN-8, CHG-14, CHG-17, CHG-22, CHG-23, CHG-36, CMT-16, CMT-17, CMT-26 to CMT-32, CMT-34, CMT-35, CMT-40,
CMT-44, CMT-52, CMT-59, CMT-61 to CMT-64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from typing import Any, TypeVar

from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError
from pktable_spec.options import parse_options

from pktable.catalog.branch_names import is_gone, other_branches
from pktable.catalog.fences import FENCES, FenceTakenError
from pktable.catalog.holds import Consumers, Retained
from pktable.catalog.kept_changelogs import (
    KeptChangelogs,
    changes_list,
    expired_changelogs,
    is_change,
    keeps_changelogs,
)
from pktable.catalog.manifests import Manifests, MissingManifestError
from pktable.catalog.schemas import load_schemas
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, ManifestFileMeta
from pktable.format.metadata.snapshot import Fence, Snapshot, decode_snapshot
from pktable.format.paths import TablePaths
from pktable.lsm.bucket import BucketId
from pktable.retry import retry
from pktable.store.new_files import remove_quietly
from pktable.store.requests import ahead

Entry = TypeVar("Entry")


class Expiry:
    """Expires snapshots of one table, and makes and drops tags."""

    def __init__(
        self, context: TableContext, snapshots: SnapshotLog, manifests: Manifests, states: StateLoader
    ) -> None:
        self._context, self._snapshots, self._manifests, self._states = context, snapshots, manifests, states
        self._changelogs = KeptChangelogs(context, snapshots)
        self.consumers = Consumers(context.store, context.paths)

    def expire(
        self, *, retain_last: int, older_than: int | None, now_millis: int, dry_run: bool = False
    ) -> list[int]:
        """Expire all but the ``retain_last`` newest snapshots; return the ids of those expired, ascending.

        ``older_than``: milliseconds since the epoch; only the snapshots before the first one that is not
        older. ``now_millis`` decides which changelogs have expired. ``dry_run``: only return the ids.
        Snapshots that a consumer has not read stay. Raises InvalidRequestError and CorruptFileError.
        Clauses: CHG-22, CMT-16, CMT-59.
        """
        if not isinstance(retain_last, int) or retain_last < 1:
            raise InvalidRequestError(f"retain_last: expected 1 or more, found {retain_last!r}")
        retained = Retained(retain_last, older_than)
        if dry_run:
            fence, unread = self._snapshots.fences.newest(), self._first_unread(now_millis)
            return [one.id for one in self._old(fence, retained, unread)]
        return retry(lambda: self._expire(retained, now_millis), on=FenceTakenError, policy=FENCES)

    def after_commit(self, now_millis: int) -> list[int]:
        """Expire what the options of the table say, if they say anything; return the ids of those expired.

        Raises CorruptFileError, FenceTakenError if others expire at the same time. Clauses: CMT-63.
        """
        retained = Retained.asked_for(self._context.options, now_millis)
        if retained is None or not self._old(self._snapshots.fences.recent(), retained, unread=None):
            return []
        return self._expire(retained, now_millis)

    def _first_unread(self, now_millis: int) -> int | None:
        """Return the least id that a consumer reads next, None without consumers. Clauses: CMT-59, CMT-64."""
        expiration = self._context.options.consumer_expiration_millis
        return self.consumers.first_needed(None if expiration is None else now_millis - expiration)

    def _expire(self, retained: Retained, now_millis: int) -> list[int]:
        """Expire and return the ids. Raises FenceTakenError if another fence came between."""
        fence = self._snapshots.fences.newest()
        unread = self._first_unread(now_millis)
        old = self._old(fence, retained, unread)
        left = [one for one in self._snapshots.listed() if one <= fence.expired]
        copies = self._changelogs.of_expired()
        latest = max(self._snapshots.ids(), default=0)  # which may be rolled back by now
        read = [one for one in (*copies, *old) if unread is None or one.id < unread]
        gone = expired_changelogs(self._context.options, read, latest, now_millis)
        late = self._changelogs.ended(fence)
        if not old and not left and not gone and not late:
            return []
        candidates = {path for snapshot in old for path in self._named(snapshot)}
        # The files of a snapshot that was removed before may be gone, too.
        candidates |= {
            path for snapshot in self._left_behind(left, fence) for path in self._named(snapshot, ended=True)
        }
        for copy in (*late, *(one for one in copies if one.id in gone)):
            candidates.update(self._changelog_files(copy, ended=True))
        self._needed_by_all()  # finds damage before anything is removed
        if old or gone:
            self.put_copies(fence)
            expired = old[-1].id if old else fence.expired
            closed = max(gone, default=fence.changelogs)
            fence = self._snapshots.fences.put_expired(fence, expired, old, closed)
        self.put_copies(fence)
        ended = sorted(one for one in self._snapshots.listed() if one <= fence.expired)
        self._snapshots.fences.remove(map(self._context.paths.snapshot, ended))
        self._snapshots.hint_earliest(fence.expired + 1)
        if copies or late or keeps_changelogs(self._context.options):
            self._changelogs.remove(self._changelogs.ended_ids(fence))
            self._changelogs.write_hints()
        self._remove(candidates)
        return [snapshot.id for snapshot in old]

    def put_copies(self, fence: Fence) -> None:
        """Put the copies that keep the changelogs of what has expired by the newest fence. Clauses: CHG-17, CHG-36."""
        self._changelogs.put(fence)

    def _old(self, fence: Fence, retained: Retained, unread: int | None) -> list[Snapshot]:
        """Return the snapshots to expire, oldest first. Raises FenceTakenError if one was removed concurrently.

        ``unread``: the first that a consumer has not read.
        """
        old: list[Snapshot] = []
        candidates = list(retained.candidates(self._snapshots.ids()))
        files = ahead(self._context.store, self._snapshots.file, [one for one, _ in candidates])
        for (found, since), snapshot in zip(candidates, files, strict=True):
            if snapshot is None or found <= fence.expired:
                raise FenceTakenError  # another expiry was faster
            young = since is not None and snapshot.time_millis >= since
            if young or (unread is not None and found >= unread):
                break
            old.append(snapshot)
        return old

    def _left_behind(self, expired: Sequence[int], fence: Fence) -> list[Snapshot]:
        """Return the snapshots, among files of expired ids, that an interrupted expiry left; the others are strays.

        The files that a stray names are not touched: its commit may be under way again with the same data files.
        Clauses: CMT-40.
        """
        found = [snapshot for one in expired if (snapshot := self._snapshots.file(one))]
        return [one for one in found if self._snapshots.fences.ended_as(fence, one)]

    def set_consumer(self, name: str, next_snapshot: int) -> None:
        """Keep ``next_snapshot`` and what follows it for a consumer.

        Raises InvalidRequestError, and SnapshotNotFoundError if its changes cannot be read and it is not the next one.
        Clauses: CMT-59, CMT-62, CMT-64.
        """
        self._expect_changes_of(next_snapshot)
        before = self.consumers.next_of(name)
        self.consumers.put(name, next_snapshot, is_new=before is None)
        may_be_stale = self._context.options.consumer_expiration_millis is not None
        if before is not None and before <= next_snapshot and not may_be_stale:
            return  # it has been kept
        try:
            # An expiry that has looked at the consumers before looks again.
            self._snapshots.fences.put_no_end(self.put_copies)
            self._expect_changes_of(next_snapshot)
        except BaseException:
            if before is None:
                remove_quietly(self._context.store, [self._context.paths.consumer(name)])
            else:
                self.consumers.put(name, before)
            raise

    def _expect_changes_of(self, wanted: int) -> None:
        copies, ids = self._changelogs.of_expired(), self._snapshots.ids()
        kept = [*(one.id for one in copies), *ids, max(ids, default=0) + 1]
        if wanted not in kept:
            raise SnapshotNotFoundError(f"snapshot {wanted}", f"{kept[0]} to {kept[-1]}, the last to come")

    def make_tag(self, tag: str, snapshot: int, fields: Mapping[str, Any] | None = None) -> None:
        """Keep a retained snapshot under a name. ``fields``: what only the tag says.

        Raises InvalidRequestError if the name is taken or cannot be one, SnapshotNotFoundError if the snapshot
        expired concurrently. Clauses: CMT-17.
        """
        kept = self._snapshots.put_tag(tag, snapshot, fields or {})
        lost = self._snapshots.expired_error(kept)
        if lost:  # The expiry may have seen the tag and kept its files, or not and deleted them.
            self._remove_tag(tag, kept)
            raise lost

    def copy_tag(self, tag: str, kept: Snapshot, name: str) -> None:
        """Keep what a tag keeps under a second name. Raises SnapshotNotFoundError if the tag goes concurrently."""
        self._snapshots.copy_tag(tag, name)
        lost = self._snapshots.expired_error(kept, tag)
        if lost:
            self._remove_tag(name, kept)
            raise lost

    def drop_tag(self, tag: str) -> None:
        """Remove a tag, and the files that only it kept. Raises SnapshotNotFoundError. Clauses: CMT-17, CMT-31."""
        self._remove_tag(tag, self._snapshots.by_tag(tag))

    def drop_tag_that_says(self, tag: str, data: bytes) -> bool:
        """Remove a tag as above if its file still says ``data``; return whether it did. Clauses: CMT-70."""
        with contextlib.suppress(SnapshotNotFoundError):  # removed since
            return self._remove_tag(tag, decode_snapshot(data, at=self._context.paths.tag(tag)), data)
        return False

    def _remove_tag(self, tag: str, kept: Snapshot, says: bytes | None = None) -> bool:
        """Remove a tag; return False if its file does not say ``says``. Raises SnapshotNotFoundError."""
        candidates = set(self._named(kept, tag))
        if says is not None and self._snapshots.tag_file(tag) != says:
            return False
        self._context.store.delete(self._context.paths.tag(tag))
        self._remove(candidates, kept)
        return True

    def _remove(self, candidates: set[str], tagged: Snapshot | None = None) -> None:
        """Delete those of ``candidates`` that no retained snapshot, no tag and no other branch needs.

        ``tagged``: the snapshot that names them, of a tag that was removed. Clauses: CMT-52.
        """
        needed = self._needed_by_all()
        fences = self._snapshots.fences
        # Looked at last: a snapshot that is rolled back after this was needed before.
        if tagged is not None and fences.is_rolled_back(fences.newest(), tagged):
            return
        located = map(self._context.located, sorted(candidates - needed))  # in an order that can be repeated
        for store, places in groupby(located, key=itemgetter(0)):
            remove_quietly(store, [place for _, place in places])

    def _needed_by_all(self) -> set[str]:
        """Return the paths of the files that this branch or another one needs. Raises CorruptFileError.

        Clauses: BRN-7, CMT-34.
        """
        store, paths = self._context.store, self._context.paths
        needed = self._needed_here()
        for look in count():
            before, others = len(needed), other_branches(store, paths)
            for other in others:
                needed.update(self._needed_by(other))
            if not others or (look and len(needed) == before):
                break
        return needed

    def _needed_here(self) -> set[str]:
        """Return the paths of the files that some retained snapshot, tag or kept changelog of the branch needs."""
        needed = self._snapshots.retry_on_latest(self._needed_by_retained)
        for tag in self._snapshots.tags():
            with contextlib.suppress(SnapshotNotFoundError):  # deleted since the listing
                needed.update(self.needed_by_tag(tag))
        for copy in self._changelogs.of_expired():
            needed.update(self._changelog_files(copy, ended=True))
        return needed

    def _needed_by(self, paths: TablePaths) -> set[str]:
        """Return the paths of the files that another branch needs, none if it goes concurrently.

        Raises CorruptFileError. Clauses: BRN-7, CMT-34.
        """
        store = self._context.store
        try:
            try:
                schemas = load_schemas(store, paths)
            except FileNotFoundError:  # others remove the branch, its schemas first
                schemas = {}
            if not schemas:
                return set(self._named_in(paths))
            schema = schemas[max(schemas)]
            options = parse_options(schema.options)
            context = TableContext(store, paths.root, schema, options, schemas, paths.branch)
            manifests = Manifests(store, paths, schema, options)
            log = SnapshotLog(store, paths, manifests.show_two_commits)
            return Expiry(context, log, manifests, StateLoader(context, manifests))._needed_here()
        except (CorruptFileError, FileNotFoundError, InvalidRequestError):
            if paths.branch is None or not is_gone(store, paths):
                raise
            return set()

    def _named_in(self, paths: TablePaths) -> Iterator[str]:
        """Yield the files that the snapshots and tags of a branch without schemas name, as far as they are there.

        Paimon puts the schemas last. Or the branch is or was removed, and work on it came late.
        """
        store, log = self._context.store, SnapshotLog(self._context.store, paths)
        for path in (*map(paths.snapshot, log.listed()), *map(paths.tag, log.tags())):
            with contextlib.suppress(FileNotFoundError):  # removed since
                yield from self._named(decode_snapshot(store.read(path), at=path), ended=True)

    def _needed_by_retained(self, latest: Snapshot | None) -> set[str]:
        """Return the files that the snapshots up to ``latest`` need; those that expire concurrently may be left out."""
        needed = {*self.needed_files(latest), *self._changelog_files(latest)} if latest else set()
        for snapshot in self._snapshots.up_to(latest):
            try:
                needed.update(self.needed_files(snapshot))
                needed.update(self._changelog_files(snapshot))
            except MissingManifestError:
                if self._snapshots.expired_error(snapshot) is None:
                    raise
        return needed

    def needed_by_tag(self, tag: str) -> set[str]:
        """Return the files that a tag needs. Raises SnapshotNotFoundError."""
        kept = self._snapshots.by_tag(tag)
        try:
            return set(self.needed_files(kept))
        except MissingManifestError:
            # Made too late, its maker will remove it. Until then it keeps the files that are there.
            return set(self._named(kept, tag))

    def needed_files(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield the paths of the files that reading ``snapshot`` needs, without its changelog files."""
        state = self._states.at(snapshot)
        for identity, live in state.files.items():
            yield from self._data(identity, live)
        yield from self._metadata(snapshot)

    def _changelog_files(self, snapshot: Snapshot, *, ended: bool = False) -> Iterator[str]:
        """Yield the paths of the files that reading the changes of ``snapshot`` needs.

        ``ended``: whether it is a copy, which may be removed at any time. So is what a branch begins with, if a tag
        kept it: a tag keeps rows, not changes. Clauses: BRN-7, CHG-1, CHG-14, CHG-17.
        """
        ended = ended or self._context.paths.branch is not None
        name, _ = changes_list(self._context.options, snapshot)
        if name is None:
            return
        yield self._context.paths.manifest(name)
        if name == snapshot.delta_manifest_list:
            # Paimon 0.9 looks there which manifests later snapshots need, before it removes those of changelogs.
            yield self._context.paths.manifest(snapshot.base_manifest_list)
        for manifest in self._there(snapshot, None, ended, partial(self._manifests.read_list, name)):
            yield self._context.paths.manifest(manifest.file_name)
            for entry in self._there(snapshot, None, ended, partial(self._manifests.read, manifest)):
                if is_change(self._context.options, entry):
                    yield from self._data((entry.partition, entry.bucket), [entry.file])

    def _named(self, snapshot: Snapshot, tag: str | None = None, *, ended: bool = False) -> Iterator[str]:
        """Yield the paths of all files that ``snapshot`` names, those it removed included.

        ``ended``: whether it is known to have expired before.

        Entries of a missing manifest are skipped: the expiry that deleted it has listed the files it names. While the
        snapshot exists, a missing manifest is damage. For a tag we cannot distinguish damage from a tag that was made
        after its files were deleted. Changes may be missing: a branch that was made from a tag begins without them.
        """
        paths = self._context.paths
        logged = snapshot.changelog_manifest_list
        for name in [*_lists(snapshot), *([logged] if logged else [])]:
            gone = ended or name == logged
            yield paths.manifest(name)
            for manifest in self._there(snapshot, tag, gone, partial(self._manifests.read_list, name)):
                yield paths.manifest(manifest.file_name)
                for entry in self._there(snapshot, tag, gone, partial(self._manifests.read, manifest)):
                    yield from self._data((entry.partition, entry.bucket), [entry.file])
        if snapshot.index_manifest:
            yield paths.manifest(snapshot.index_manifest)
            for index in self._there(
                snapshot, tag, ended, partial(self._manifests.read_index, snapshot.index_manifest)
            ):
                yield self._context.index_path(index)

    def _there(
        self, snapshot: Snapshot, tag: str | None, ended: bool, read: Callable[[], Iterable[Entry]]
    ) -> Iterable[Entry]:
        """Return what ``read`` finds; nothing if the manifest went with ``snapshot``."""
        try:
            return read()
        except MissingManifestError:
            if tag is None and not ended and self._snapshots.expired_error(snapshot) is None:
                raise
            return ()

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        paths = self._context.paths
        yield from (paths.manifest(name) for name in _lists(snapshot))
        yield from (paths.manifest(manifest.file_name) for manifest in self._manifests_of(snapshot))
        if snapshot.index_manifest:
            yield paths.manifest(snapshot.index_manifest)
            for index in self._manifests.read_index(snapshot.index_manifest):
                yield self._context.index_path(index)

    def _manifests_of(self, snapshot: Snapshot) -> Iterator[ManifestFileMeta]:
        for name in _lists(snapshot):
            yield from self._manifests.read_list(name)

    def _data(self, identity: BucketId, live: Iterable[DataFileMeta]) -> Iterator[str]:
        place = self._context.place(*identity)
        for file in live:
            yield self._context.data_path(place, file)
            yield from (f"{place.directory}/{extra}" for extra in file.extra_files)


def _lists(snapshot: Snapshot) -> list[str]:
    return [snapshot.base_manifest_list, snapshot.delta_manifest_list]
