"""A bucket as values: where it lies, its state at one snapshot, its sorted runs, and what a commit changes in it.

Runs are in order, the newest first. A file's keys are compared as tuples of internal values, decoded once per distinct
byte string. Floats are mapped to integers in total order first, so that tuples compare as MRG-7 says.

Clauses: APP-11, DV-16, TBL-14, CMT-12, LSM-2, LSM-4, LSM-8, MRG-7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pktable_spec.errors import CorruptFileError

from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.types import DataType
from pktable.format.vectors.deletion_vector import DeletionVector

Key = tuple[object, ...]


class KeyOrder:
    """Decodes the keys that metadata stores. One per table; `types` are those of the trimmed primary key."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._floats = [i for i, t in enumerate(types) if t.root in ("FLOAT", "DOUBLE")]
        self._decoded: dict[bytes, Key] = {}

    def key(self, row: bytes, at: str) -> Key:
        """Return the comparable key stored as ``row``. Raises CorruptFileError."""
        key = self._decoded.get(row)
        if key is None:
            values = list(decode_row(row, self._types, at=at))
            if None in values:
                raise CorruptFileError("key", at=at, expected="no null", found=values)
            for i in self._floats:
                values[i] = total_order(float(values[i]))
            if len(self._decoded) > 100_000:
                self._decoded.clear()
            key = self._decoded[row] = tuple(values)
        return key

    def smallest(self, file: DataFileMeta) -> Key:
        return self.key(file.min_key, file.file_name)

    def greatest(self, file: DataFileMeta) -> Key:
        return self.key(file.max_key, file.file_name)


def total_order(value: float) -> int:
    """Return an integer that compares as the float does: -0.0 below 0.0, every NaN equal and greatest."""
    if value != value:
        return 1 << 63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1


@dataclass(frozen=True, slots=True)
class Run:
    """Files of one level, in key order, their ranges disjoint. At level 0 exactly one file."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in self.files)


def sorted_runs(files: Sequence[DataFileMeta], order: KeyOrder) -> tuple[Run, ...]:
    """Return the runs of a bucket's live ``files``, newest first.

    Clauses: LSM-2, LSM-4, LSM-8.
    """
    fresh = sorted((file for file in files if file.level == 0), key=_age)
    levels = sorted({file.level for file in files if file.level > 0})
    return (
        *(Run(0, (file,)) for file in fresh),
        *(Run(level, level_run(files, level, order)) for level in levels),
    )


def level_run(files: Sequence[DataFileMeta], level: int, order: KeyOrder) -> tuple[DataFileMeta, ...]:
    """Return the files of ``level`` in key order."""
    return tuple(sorted((file for file in files if file.level == level), key=order.smallest))


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (-file.max_sequence_number, -file.min_sequence_number, file.creation_time or 0, file.file_name)


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
    ``final``: True for those alone that are the last of their key here and leave a row, False for all others.
    """

    place: BucketPath
    files: tuple[DataFileMeta, ...]
    snapshot: int = 0
    time_millis: int = 0
    final: bool | None = None
