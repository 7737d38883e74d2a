"""The state of a table at a snapshot: the live files of each bucket, its DV index files and its hash index file.

Clauses: BKT-3, CMT-4, CMT-5, CMT-6, DV-5, DV-16, APP-11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.options import POSTPONE_BUCKET
from pktable_spec.vocabulary import DELETION_VECTORS, HASH

from pktable.catalog.manifests import Manifests
from pktable.catalog.schemas import expect_opened
from pktable.context import INDEX_FILES, TableContext
from pktable.format.metadata.manifest import (
    ADD,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from pktable.format.metadata.snapshot import Snapshot
from pktable.lsm.bucket import BucketId, BucketState
from pktable.store.requests import Cache, together

IndexFiles: TypeAlias = tuple[IndexManifestEntry, ...]
"""The DV index files of a bucket, at least one."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one snapshot; ``snapshot`` None is the table before its first.

    ``files``: per (partition, bucket) its live files. ``indexes``: per bucket its DV index files, if it has some: one,
    but any number in an append table without buckets. ``hashes``: per dynamic bucket its hash index file.
    ``other_indexes``: entries of other index types, carried along.
    ``totals``: per partition the numbers of buckets that its live files in buckets with a number were written under.
    """

    snapshot: Snapshot | None = None
    manifests: tuple[ManifestFileMeta, ...] = ()
    files: Mapping[BucketId, tuple[DataFileMeta, ...]] = field(default_factory=dict)
    indexes: Mapping[BucketId, IndexFiles] = field(default_factory=dict)
    hashes: Mapping[BucketId, IndexManifestEntry] = field(default_factory=dict)
    other_indexes: tuple[IndexManifestEntry, ...] = ()
    totals: Mapping[bytes, frozenset[int]] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return self.snapshot.id if self.snapshot else 0

    @property
    def bucket_counts(self) -> frozenset[int]:
        """The numbers of buckets that live files were written under."""
        return frozenset().union(*self.totals.values())

    @property
    def waiting(self) -> list[BucketId]:
        """The buckets whose rows wait for one of their own. Clauses: BKT-13."""
        return [bucket_id for bucket_id in self.files if bucket_id[1] == POSTPONE_BUCKET]

    def total(self, bucket_id: BucketId, new: int) -> int:
        """Return the number of buckets of the partition of a bucket, which is ``new`` unless it has files.

        Clauses: BKT-15.
        """
        partition, bucket = bucket_id
        return bucket if bucket < 0 else max(self.totals.get(partition, (new,)))


@dataclass(frozen=True, slots=True)
class Delta:
    """The effect of one commit.

    ``kind``: of the snapshot; ``indexes``, ``hashes``: the DV index files and the hash index files after it, by bucket;
    ``changelog``: its changelog files; ``created``: paths of files that were made for this attempt to commit.
    """

    kind: str
    entries: tuple[ManifestEntry, ...]
    indexes: Mapping[BucketId, IndexFiles]
    hashes: Mapping[BucketId, IndexManifestEntry]
    changelog: tuple[ManifestEntry, ...] = ()
    created: tuple[str, ...] = ()


def applied(
    state: TableState, snapshot: Snapshot, manifests: Sequence[ManifestFileMeta], delta: Delta
) -> TableState:
    """Return the state that ``delta`` makes of ``state``, without reading anything back. Clauses: CMT-4."""
    files = dict(state.files)
    for entry in delta.entries:
        bucket_id = (entry.partition, entry.bucket)
        if entry.kind == ADD:
            files[bucket_id] = (*files.get(bucket_id, ()), entry.file)
        else:
            gone = (entry.file.file_name, entry.file.level)
            files[bucket_id] = tuple(f for f in files[bucket_id] if (f.file_name, f.level) != gone)
    live_files = {bucket_id: live for bucket_id, live in files.items() if live}
    return TableState(
        snapshot,
        tuple(manifests),
        live_files,
        dict(delta.indexes),
        dict(delta.hashes),
        state.other_indexes,
        _totals_after(state, live_files, delta),
    )


def _totals_after(
    state: TableState, files: Mapping[BucketId, tuple[DataFileMeta, ...]], delta: Delta
) -> dict[bytes, frozenset[int]]:
    """Return the numbers of buckets by partition after a commit that leaves ``files``."""
    added: dict[bytes, set[int]] = {}
    for entry in delta.entries:
        if entry.kind == ADD and entry.bucket >= 0:
            added.setdefault(entry.partition, set()).add(entry.total_buckets)
    numbered = {partition for partition, bucket in files if bucket >= 0}
    as_before = all(state.totals.get(partition, frozenset()) == found for partition, found in added.items())
    if as_before and numbered == state.totals.keys():
        return dict(state.totals)
    stays = {
        bucket_id[0]
        for bucket_id, live in state.files.items()
        if bucket_id[1] >= 0 and not set(map(_name, live)).isdisjoint(map(_name, files.get(bucket_id, ())))
    }
    return {
        partition: frozenset(added.get(partition, ()))
        | (state.totals[partition] if partition in stays else frozenset())
        for partition in numbered
    }


def _name(file: DataFileMeta) -> str:
    return file.file_name


class StateLoader:
    """Loads the state of a snapshot, and caches the last states."""

    def __init__(self, context: TableContext, manifests: Manifests) -> None:
        self._context, self._manifests = context, manifests
        self._known = Cache(256)

    def at(self, snapshot: Snapshot) -> TableState:
        """Return the state of ``snapshot``, which must be of the table that was opened: `opened` trusts it later.

        Raises CorruptFileError.
        """
        return self._known.get(_key(snapshot), lambda: self._load(snapshot))

    def opened(self, latest: Snapshot | None) -> TableState:
        """Return the state of ``latest``, which was just read, of the table that was opened.

        Raises CorruptFileError, and InvalidRequestError if that was dropped or replaced since. Clauses: TBL-60.
        """
        if latest is None:
            expect_opened(self._context)
            return TableState()
        known: TableState | None = self._known.find(_key(latest))
        if known is not None:  # a snapshot that is still there was not replaced
            return known
        looks: list[Callable[[], Any]] = [partial(expect_opened, self._context), partial(self.at, latest)]
        found: TableState = together(self._context.store, looks)[1]
        return found

    def remember(self, state: TableState) -> None:
        assert state.snapshot is not None
        self._known.put(_key(state.snapshot), state)

    def live_entries(
        self, snapshot: Snapshot
    ) -> tuple[tuple[ManifestFileMeta, ...], Collection[ManifestEntry]]:
        """Return the manifests of ``snapshot`` and the entries of its live files. Raises CorruptFileError."""
        read = self._manifests.read_list
        lists = together(
            self._context.store,
            [
                partial(read, snapshot.base_manifest_list, snapshot.base_manifest_list_size),
                partial(read, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            ],
        )
        metas = tuple(chain.from_iterable(lists))
        entries = self._manifests.fold(metas).values()
        for entry in entries:
            if entry.kind != ADD:
                raise CorruptFileError(
                    "manifest entry",
                    at=self._context.paths.snapshot(snapshot.id),
                    expected="an ADD before each DELETE",
                    found=f"DELETE of {entry.file.file_name} alone",
                )
        return metas, entries

    def _load(self, snapshot: Snapshot) -> TableState:
        index = snapshot.index_manifest
        parts: list[Callable[[], Any]] = [
            partial(self.live_entries, snapshot),
            partial(self._manifests.read_index, index) if index else tuple,
        ]
        (metas, entries), indexes = together(self._context.store, parts)
        return make_state(
            snapshot,
            metas,
            entries,
            indexes,
            at=self._context.root,
            by_name=self._context.has_unaware_buckets,
        )

    def bucket(self, state: TableState, identity: BucketId) -> BucketState:
        """Return one bucket of ``state``. Raises CorruptFileError."""
        try:
            place = self._context.place(*identity)
        except InvalidRequestError as error:
            raise CorruptFileError(
                "partition", at=self._context.root, expected="the name of a directory", found=error
            ) from None
        return BucketState(place, state.files.get(identity, ()), state.indexes.get(identity, ()))


def _key(snapshot: Snapshot) -> tuple[int, str]:
    """Return what names a state. An id alone does not: after a rollback it is used again. The delta list is unique."""
    return snapshot.id, snapshot.delta_manifest_list


def make_state(
    snapshot: Snapshot,
    manifests: Sequence[ManifestFileMeta],
    live: Iterable[ManifestEntry],
    indexes: Sequence[IndexManifestEntry],
    *,
    at: str,
    by_name: bool = False,
) -> TableState:
    """Group live entries by bucket, and index files likewise.

    ``by_name``: whether the table tells DV index files by their names, so that a bucket may have several.
    Raises CorruptFileError. Clauses: BKT-3, DV-5, DV-16, APP-11.
    """
    files: dict[BucketId, list[DataFileMeta]] = {}
    totals: dict[bytes, set[int]] = {}
    for entry in live:
        files.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        if entry.bucket >= 0:
            totals.setdefault(entry.partition, set()).add(entry.total_buckets)
    vectors: dict[BucketId, IndexFiles] = {}
    hashes: dict[BucketId, IndexManifestEntry] = {}
    others: list[IndexManifestEntry] = []

    def expect_first(before: IndexManifestEntry | None, index: IndexManifestEntry) -> None:
        if before is not None:
            raise CorruptFileError(
                "index manifest",
                at=at,
                expected=f"one {INDEX_FILES[index.index_type]} per bucket",
                found=f"{before.file_name} and {index.file_name}",
            )

    for index in indexes:
        bucket_id = (index.partition, index.bucket)
        if index.index_type == DELETION_VECTORS:
            several = vectors.get(bucket_id, ())
            if not by_name:
                expect_first(several[0] if several else None, index)
            vectors[bucket_id] = (*several, index)
        elif index.index_type == HASH:
            expect_first(hashes.get(bucket_id), index)
            hashes[bucket_id] = index
        else:
            others.append(index)
    return TableState(
        snapshot,
        tuple(manifests),
        {identity: tuple(found) for identity, found in files.items()},
        vectors,
        hashes,
        tuple(others),
        {partition: frozenset(found) for partition, found in totals.items()},
    )
