"""Let go of old snapshots, and of the files that then nothing refers to.

The snapshot file goes first, the oldest before the others; only then what no retained snapshot and no tag
refers to. So whatever interrupts an expiry leaves files that nothing names, never a name without its file.

Several do so at once, while others commit and make tags. Each goes through the same four steps: name all files
of what it lets go of, let go, look at all that is left, delete what that does not need.

Nothing is left behind. Of all that need a file one goes last. Whoever lets go of it has named the file, and
finds nobody who needs it. So what vanishes under our hands is another's to clear away: if a file is missing,
and with it the snapshot that named it, we go on without.

Nothing that is needed is deleted. Commits make no file live again that was not live in the snapshot before, so
a snapshot made later needs of our files only what the newest that we see needs; therefore that one must not
vanish before its files are known. Tags are listed last. Whoever makes a tag looks once more for its snapshot
when the tag is there, and otherwise lets go of the tag again: so a snapshot that we miss has left us its tags.

Clauses: CMT-16, CMT-17.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError

from pktable.catalog.manifests import Manifests, MissingManifestError
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, ManifestFileMeta
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId
from pktable.store.new_files import remove_quietly

Entry = TypeVar("Entry")


class Expiry:
    """Expires snapshots of one table, and makes and drops tags."""

    def __init__(
        self, context: TableContext, snapshots: SnapshotLog, manifests: Manifests, states: StateLoader
    ) -> None:
        self._context, self._snapshots, self._manifests, self._states = context, snapshots, manifests, states

    def expire(self, *, retain_last: int, older_than: int | None) -> list[int]:
        """Expire all but the ``retain_last`` newest snapshots; return the ids of those expired, ascending.

        ``older_than``: milliseconds since the epoch; only the snapshots before the first one that is not
        older. Raises InvalidRequestError. Clauses: CMT-16.
        """
        if not isinstance(retain_last, int) or retain_last < 1:
            raise InvalidRequestError(f"retain_last: expected 1 or more, found {retain_last!r}")
        self._expect_no_branches()
        old = self._old(retain_last, older_than)
        if old:
            candidates = {path for snapshot in old for path in self._named(snapshot)}
            self._needed_by_all()  # damage is met before anything is let go of, not after
            for snapshot in old:
                self._context.store.delete(self._context.paths.snapshot(snapshot.id))
            self._snapshots.hint_earliest(old[-1].id + 1)
            self._remove(candidates)
        return [snapshot.id for snapshot in old]

    def _old(self, retain_last: int, older_than: int | None) -> list[Snapshot]:
        old: list[Snapshot] = []
        for found in self._snapshots.ids()[:-retain_last]:
            try:
                snapshot = self._snapshots.read(found)
            except SnapshotNotFoundError:  # another expiry was faster
                continue
            if older_than is not None and snapshot.time_millis >= older_than:
                break
            if snapshot.changelog_manifest_list:
                raise InvalidRequestError(
                    f"{self._context.paths.snapshot(snapshot.id)}: expected a snapshot without changelog, found one"
                )
            old.append(snapshot)
        return old

    def make_tag(self, tag: str, snapshot: int) -> None:
        """Keep a retained snapshot under a name.

        Raises InvalidRequestError if the name is taken or cannot be one, SnapshotNotFoundError if the snapshot
        expired meanwhile. Clauses: CMT-17.
        """
        kept = self._snapshots.put_tag(tag, snapshot)
        lost = self._snapshots.expired_error(kept)
        if lost:  # The expiry may have seen the tag and kept its files, or not and deleted them.
            self._let_go(tag, kept)
            raise lost

    def drop_tag(self, tag: str) -> None:
        """Remove a tag, and what only it referred to. Raises SnapshotNotFoundError. Clauses: CMT-17."""
        self._expect_no_branches()
        self._let_go(tag, self._snapshots.by_tag(tag))

    def _let_go(self, tag: str, kept: Snapshot) -> None:
        candidates = set(self._named(kept, tag))
        self._context.store.delete(self._context.paths.tag(tag))
        self._remove(candidates)

    def _remove(self, candidates: set[str]) -> None:
        """Delete those of ``candidates`` that no retained snapshot and no tag needs."""
        needed = self._needed_by_all()
        self._expect_no_branches()  # nor one that was made meanwhile
        for path in candidates - needed:
            store, place = self._context.located(path)
            remove_quietly(store, [place])

    def _needed_by_all(self) -> set[str]:
        """Return the paths of the files that some retained snapshot or tag needs."""
        needed = self._snapshots.retry_on_latest(self._needed_by_retained)
        for tag in self._snapshots.tags():
            with contextlib.suppress(SnapshotNotFoundError):  # dropped meanwhile
                needed.update(self._needed_by_tag(tag))
        return needed

    def _needed_by_retained(self, latest: Snapshot | None) -> set[str]:
        """Return what the snapshots up to ``latest`` need; those that expire meanwhile need not be among them."""
        needed = set(self._needed(latest)) if latest else set()
        for snapshot in self._snapshots.up_to(latest):
            try:
                needed.update(self._needed(snapshot))
            except MissingManifestError:
                if self._snapshots.expired_error(snapshot) is None:
                    raise
        return needed

    def _needed_by_tag(self, tag: str) -> set[str]:
        kept = self._snapshots.by_tag(tag)
        try:
            return set(self._needed(kept))
        except MissingManifestError:
            # Made too late, and let go of in a moment. Until then it keeps what there is.
            return set(self._named(kept, tag))

    def _needed(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield the paths of the files that reading ``snapshot`` needs."""
        state = self._states.at(snapshot)
        for identity, live in state.files.items():
            yield from self._data(identity, live)
        yield from self._metadata(snapshot)

    def _named(self, snapshot: Snapshot, tag: str | None = None) -> Iterator[str]:
        """Yield the paths of all files that ``snapshot`` names, those it removed included.

        What a missing manifest named is left out: whoever deleted that has all it named in hand. It is damage
        while the snapshot is there; of a tag that is not told apart from one made too late.
        """
        paths = self._context.paths
        for name in _lists(snapshot):
            yield paths.manifest(name)
            for manifest in self._there(snapshot, tag, partial(self._manifests.read_list, name)):
                yield paths.manifest(manifest.file_name)
                for entry in self._there(snapshot, tag, partial(self._manifests.read, manifest)):
                    yield from self._data((entry.partition, entry.bucket), [entry.file])
        if snapshot.index_manifest:
            yield paths.manifest(snapshot.index_manifest)
            for index in self._there(
                snapshot, tag, partial(self._manifests.read_index, snapshot.index_manifest)
            ):
                yield self._context.index_path(index)

    def _there(
        self, snapshot: Snapshot, tag: str | None, read: Callable[[], Sequence[Entry]]
    ) -> Sequence[Entry]:
        """Return what ``read`` finds; nothing if the manifest went with ``snapshot``."""
        try:
            return read()
        except MissingManifestError:
            if tag is None and self._snapshots.expired_error(snapshot) is None:
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

    def _expect_no_branches(self) -> None:
        # A branch has snapshots of its own, elsewhere, that name files of this table.
        branches = self._context.store.list_names(self._context.paths.branches)
        if branches:
            raise InvalidRequestError(
                f"{self._context.root}: expected a table without branches, which share its files, "
                f"found {', '.join(sorted(branches))}"
            )


def _lists(snapshot: Snapshot) -> list[str]:
    return [snapshot.base_manifest_list, snapshot.delta_manifest_list]
