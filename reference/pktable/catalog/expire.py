"""Let go of old snapshots, and of the files that then nothing refers to.

The snapshot file goes first, the oldest before the others; only then what no retained snapshot and no tag
refers to. So whatever interrupts an expiry leaves files that nothing names, never a name without its file.
Tags are listed after the snapshot files are gone, and whoever makes a tag looks once more for its snapshot
when the tag is there: so one of the two sees the other.

Clauses: CMT-16, CMT-17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pktable_spec.errors import InvalidRequestError

from pktable.bucket.table_files import TableFiles, remove_quietly
from pktable.catalog.manifests import Manifests
from pktable.catalog.snapshots import Snapshots
from pktable.catalog.state import Identity, States
from pktable.format.manifest import DataFileMeta, ManifestFileMeta
from pktable.format.snapshot import Snapshot


class Expiry:
    """Expires snapshots of one table, and drops tags."""

    def __init__(self, files: TableFiles, snapshots: Snapshots, manifests: Manifests, states: States) -> None:
        self._files, self._snapshots, self._manifests, self._states = files, snapshots, manifests, states

    def expire(self, *, retain_last: int, older_than: int | None) -> list[int]:
        """Expire all but the ``retain_last`` newest snapshots; return the ids of those expired, ascending.

        ``older_than``: milliseconds since the epoch; only the snapshots before the first one that is not
        older. Raises InvalidRequestError. Clauses: CMT-16.
        """
        if not isinstance(retain_last, int) or retain_last < 1:
            raise InvalidRequestError(f"retain_last: expected 1 or more, found {retain_last!r}")
        self._expect_no_branches()
        old: list[Snapshot] = []
        for snapshot in map(self._snapshots.read, self._snapshots.ids()[:-retain_last]):
            if older_than is not None and snapshot.time_millis >= older_than:
                break
            if snapshot.changelog_manifest_list:
                raise InvalidRequestError(
                    f"{self._snapshots.path(snapshot.id)}: expected a snapshot without changelog, found one"
                )
            old.append(snapshot)
        if old:
            candidates = self._named(old)
            for snapshot in old:
                self._files.store.delete(self._snapshots.path(snapshot.id))
            self._snapshots.hint_earliest(old[-1].id + 1)
            self._remove(candidates)
        return [snapshot.id for snapshot in old]

    def drop_tag(self, tag: str) -> None:
        """Remove a tag, and what only it referred to. Raises SnapshotNotFoundError. Clauses: CMT-17."""
        self._expect_no_branches()
        candidates = self._named([self._snapshots.tagged(tag)])
        self._files.store.delete(self._snapshots.tag_path(tag))
        self._remove(candidates)

    def _remove(self, candidates: set[str]) -> None:
        """Delete those of ``candidates`` that no retained snapshot and no tag needs."""
        kept = [self._snapshots.read(snapshot) for snapshot in self._snapshots.ids()]
        kept += [self._snapshots.tagged(tag) for tag in self._snapshots.tags()]
        needed = {path for snapshot in kept for path in self._needed(snapshot)}
        for path in candidates - needed:
            store, place = self._files.located(path)
            remove_quietly(store, [place])

    def _needed(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield the paths of the files that reading ``snapshot`` needs."""
        state = self._states.at(snapshot)
        for identity, live in state.files.items():
            yield from self._data(identity, live)
        yield from self._metadata(snapshot)

    def _named(self, snapshots: Iterable[Snapshot]) -> set[str]:
        """Return the paths of all files that ``snapshots`` name, those they removed included."""
        paths: set[str] = set()
        for snapshot in snapshots:
            paths.update(self._metadata(snapshot))
            for manifest in self._manifests_of(snapshot):
                for entry in self._manifests.read(manifest):
                    paths.update(self._data((entry.partition, entry.bucket), [entry.file]))
        return paths

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        directory = f"{self._files.root}/manifest"
        yield from (f"{directory}/{name}" for name in _lists(snapshot))
        yield from (f"{directory}/{manifest.file_name}" for manifest in self._manifests_of(snapshot))
        if snapshot.index_manifest:
            yield f"{directory}/{snapshot.index_manifest}"
            for index in self._manifests.read_index(snapshot.index_manifest):
                yield self._files.index_path(index)

    def _manifests_of(self, snapshot: Snapshot) -> Iterator[ManifestFileMeta]:
        for name in _lists(snapshot):
            yield from self._manifests.read_list(name)

    def _data(self, identity: Identity, live: Iterable[DataFileMeta]) -> Iterator[str]:
        place = self._files.place(*identity)
        for file in live:
            yield self._files.data_path(place, file)
            yield from (f"{place.directory}/{extra}" for extra in file.extra_files)

    def _expect_no_branches(self) -> None:
        # A branch has snapshots of its own, elsewhere, that name files of this table.
        branches = self._files.store.list_names(f"{self._files.root}/branch")
        if branches:
            raise InvalidRequestError(
                f"{self._files.root}: expected a table without branches, which share its files, "
                f"found {', '.join(sorted(branches))}"
            )


def _lists(snapshot: Snapshot) -> list[str]:
    return [snapshot.base_manifest_list, snapshot.delta_manifest_list]
