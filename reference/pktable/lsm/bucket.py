"""A bucket as values: where it lies, its state at one snapshot, and what a compaction changes in it.

Clauses: DV-5, LSM-2, CMT-12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry

BucketId: TypeAlias = tuple[bytes, int]
"""The partition as a BinaryRow, and the number of the bucket."""


@dataclass(frozen=True, slots=True)
class BucketPath:
    """One bucket and its directory. ``partition``: a BinaryRow."""

    partition: bytes
    bucket: int
    directory: str

    @property
    def id(self) -> BucketId:
        return self.partition, self.bucket


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket at one snapshot: its live files, and its DV index file if it has one."""

    place: BucketPath
    files: tuple[DataFileMeta, ...]
    index: IndexManifestEntry | None


@dataclass(frozen=True, slots=True)
class BucketChange:
    """The effect of a compaction on a bucket: files removed and added, and its new DV index file.

    ``base_index`` is the DV index file that the compaction was planned on. ``index`` is the one it wants: the
    same if no vector changed, None if no vector is left. ``deleted_count``: how many positions this compaction
    added to vectors. ``created``: paths of the files it made; they are removed if it is not committed.
    """

    place: BucketPath
    removed: tuple[DataFileMeta, ...]
    added: tuple[DataFileMeta, ...]
    base_index: IndexManifestEntry | None
    index: IndexManifestEntry | None
    deleted_count: int = 0
    created: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.removed and not self.added and self.index == self.base_index
