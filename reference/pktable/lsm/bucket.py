"""A bucket as values: where it lies, its state at one snapshot, and what a commit changes in it.

Clauses: APP-11, DV-16, TBL-14, CMT-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector

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
    """A bucket at one snapshot: its live files, and its DV index files.

    Without buckets, an append table may have any number of DV index files in a partition. Any other bucket has at
    most one, which is ``index``. Clauses: DV-16, APP-11.
    """

    place: BucketPath
    files: tuple[DataFileMeta, ...]
    indexes: tuple[IndexManifestEntry, ...] = ()

    @property
    def index(self) -> IndexManifestEntry | None:
        """The DV index file of a bucket that has at most one."""
        assert len(self.indexes) <= 1, "the caller knows the kind of the table"
        return self.indexes[0] if self.indexes else None

    @property
    def files_with_vector(self) -> frozenset[str]:
        """The names of the data files that a vector names."""
        return frozenset(one.data_file for index in self.indexes for one in index.ranges or ())


@dataclass(frozen=True, slots=True)
class BucketChange:
    """The effect of a commit on a bucket: files ``removed`` and ``added``, and changed deletion vectors.

    ``created``: paths of the files made for it; they are removed if it is not committed. ``changelog``: its changelog
    files.

    With a key, a compaction writes the vectors. ``base_index``: the DV index file that it was planned on. ``index``:
    the one it wants, the same if no vector changed, None if no vector is left.

    In an append table, the commit writes the vectors. ``read_under``: by data file, the vectors under which the rows of
    ``removed`` were read. ``deleted``: by data file, positions that become deleted and were live when they were read.
    """

    place: BucketPath
    removed: tuple[DataFileMeta, ...] = ()
    added: tuple[DataFileMeta, ...] = ()
    base_index: IndexManifestEntry | None = None
    index: IndexManifestEntry | None = None
    created: tuple[str, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    read_under: Mapping[str, DeletionVector] = field(default_factory=dict)
    deleted: Mapping[str, DeletionVector] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.removed or self.added or self.deleted) and self.index == self.base_index

    @property
    def indexes(self) -> tuple[IndexManifestEntry, ...]:
        """The bucket's DV index files after the compaction."""
        return () if self.index is None else (self.index,)


@dataclass(frozen=True, slots=True)
class ChangeRead:
    """Files that hold the changes of one bucket in one snapshot, in the order in which they are read.

    ``snapshot``, ``time_millis``: its id, and its time since 1970; 0 where nobody asks.
    """

    place: BucketPath
    files: tuple[DataFileMeta, ...]
    snapshot: int = 0
    time_millis: int = 0
