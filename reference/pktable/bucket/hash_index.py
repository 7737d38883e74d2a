"""The hash index of dynamic buckets: which bucket of a partition has which keys, by their hashes.

1. `opened` reads the hash index files of a partition into one array: the hashes, ascending, with their buckets.
2. `PartitionIndex.find` looks hashes up, and `with_more` adds those of new keys.
3. `write_hashes` writes the file of a bucket, `hashes_of_files` makes the hashes of a bucket that has none.

A file has the hashes of the keys that its bucket has ever had, four bytes each, the highest first. Paimon writes them
in no order. Ours ascend, which makes them faster to open. The indexes opened last are remembered, for the whole
process: a table that is written again opens no file twice.

Clauses: BKT-2, BKT-3, BKT-9, BKT-10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import HASH

from pktable.bucket.index import write_index_file
from pktable.context import TableContext
from pktable.format.bucket_hash import hash_rows
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.lsm.bucket import BucketPath, BucketState
from pktable.store.new_files import NewFiles
from pktable.store.requests import Cache

Hashes = npt.NDArray[np.int32]

HASH_BYTES: Final = 4
STORED: Final = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the file of some hashes. Clauses: BKT-2."""
    return hashes.astype(STORED).tobytes()


def decode_hashes(data: bytes, count: int, *, at: str) -> Hashes:
    """Return the hashes of a file, as they are stored. ``count``: of these, by the index manifest.

    Raises CorruptFileError. Clauses: BKT-2.
    """
    if len(data) != HASH_BYTES * count:
        expected = f"{HASH_BYTES * count} bytes, for {count} hashes"
        raise CorruptFileError("length of the hash index file", at=at, expected=expected, found=len(data))
    return np.frombuffer(data, STORED).astype(np.int32)


Packed = npt.NDArray[np.int64]

NO_BUCKET: Final = -1
MOST_BUCKETS: Final = (1 << 15) - 1
"""Paimon holds the number of a dynamic bucket in 16 bits with a sign."""
REMEMBERED_HASHES: Final = 16_000_000  # of eight bytes
OPENED: Final = Cache(REMEMBERED_HASHES)
"""The indexes opened last, by the paths of their files."""


@dataclass(frozen=True, slots=True)
class PartitionIndex:
    """The hash index of a partition. ``packed``: each hash with its bucket in 16 bits below, ascending."""

    packed: Packed = field(default_factory=lambda: np.empty(0, np.int64))

    def find(self, hashes: Hashes) -> Packed:
        """Return the bucket of each of ``hashes``, which ascend, and `NO_BUCKET` where it has none."""
        if not len(self.packed):
            return np.full(len(hashes), NO_BUCKET, np.int64)
        wanted = hashes.astype(np.int64)
        places = np.searchsorted(self.packed, wanted << 16)
        places[places == len(self.packed)] = 0
        at = self.packed[places]
        return np.where(at >> 16 == wanted, at & 0xFFFF, NO_BUCKET)

    def with_more(self, hashes: Hashes, buckets: Packed) -> PartitionIndex:
        """Return the index with ``hashes`` too, ascending and in no bucket yet, each in one of ``buckets``."""
        packed = np.concatenate([self.packed, packed_hashes(hashes, buckets)])
        packed.sort(kind="stable")
        return PartitionIndex(packed)

    def of_buckets(self, wanted: Collection[int]) -> Iterator[tuple[int, Hashes]]:
        """Yield each of the buckets ``wanted`` with its hashes, ascending."""
        is_wanted = np.zeros(1 << 16, bool)
        is_wanted[list(wanted)] = True
        chosen = self.packed[is_wanted[self.packed.astype(np.uint16)]]
        numbers = chosen.astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        parts = np.split((chosen[order] >> 16).astype(np.int32), starts[1:])
        yield from zip(distinct.tolist(), parts, strict=True)


def packed_hashes(hashes: Hashes, buckets: Packed | int) -> Packed:
    """Return hashes with their buckets, as a `PartitionIndex` holds them."""
    return hashes.astype(np.int64) << 16 | buckets


def opened(context: TableContext, entries: Iterable[IndexManifestEntry]) -> PartitionIndex:
    """Return the hash index of a partition; ``entries``: one for each of its buckets.

    Raises CorruptFileError, also for a hash in two buckets. Clauses: BKT-2, BKT-3.
    """
    known = sorted(entries, key=lambda entry: entry.bucket)
    index: PartitionIndex = OPENED.get(
        tuple(map(context.index_path, known)), partial(_open, context, known), lambda found: len(found.packed)
    )
    return index


def remember(context: TableContext, entries: Iterable[IndexManifestEntry], index: PartitionIndex) -> None:
    """Remember what `opened` would make of ``entries``."""
    known = sorted(entries, key=lambda entry: entry.bucket)
    OPENED.put(tuple(map(context.index_path, known)), index, len(index.packed))


def _open(context: TableContext, entries: Sequence[IndexManifestEntry]) -> PartitionIndex:
    if not entries:
        return PartitionIndex()
    parts = [packed_hashes(read_hashes(context, entry), entry.bucket) for entry in entries]
    ascend = all(bool((part[1:] > part[:-1]).all()) for part in parts)
    packed = np.concatenate(parts)
    packed.sort(kind="stable" if ascend else None)  # the stable sort is faster with runs, and slower without
    (twice,) = np.nonzero(packed[1:] >> 16 == packed[:-1] >> 16)
    if len(twice):
        first, second = (int(packed[twice[0] + i]) for i in (0, 1))
        raise CorruptFileError(
            "hash of a key",
            at=next(context.index_path(entry) for entry in entries if entry.bucket == second & 0xFFFF),
            expected="one bucket of a partition; overwrite the partition by its rows",
            found=f"{first >> 16} in bucket {first & 0xFFFF} and {second & 0xFFFF}",
        )
    return PartitionIndex(packed)


def read_hashes(context: TableContext, entry: IndexManifestEntry) -> Hashes:
    """Return the hashes of a bucket, as they are stored. Raises CorruptFileError. Clauses: BKT-2."""
    path = context.index_path(entry)
    if not 0 <= entry.bucket <= MOST_BUCKETS:
        raise CorruptFileError(
            "bucket of a hash index", at=path, expected=f"0 to {MOST_BUCKETS}", found=entry.bucket
        )
    return decode_hashes(context.index_data(entry), entry.row_count, at=path)


def write_hashes(
    context: TableContext, place: BucketPath, hashes: Hashes, new: NewFiles
) -> IndexManifestEntry:
    """Write the hash index file of a bucket and return its entry. Clauses: BKT-2."""
    return write_index_file(context, place, encode_hashes(hashes), HASH, len(hashes), new)


def hashes_of_rows(context: TableContext, rows: pa.Table, names: Sequence[str]) -> Hashes:
    """Return the hash of the key of each row. ``names``: of the key columns. Clauses: BKT-2."""
    return hash_rows([rows.column(name) for name in names], context.key_types)


def hashes_of_files(context: TableContext, place: BucketPath, files: Iterable[DataFileMeta]) -> Hashes:
    """Return the hashes of all keys in ``files`` of a bucket, ascending, each once. Clauses: BKT-9."""
    from pktable.bucket.reader import DataReader  # late: it brings Parquet, and a rollback only copies hashes

    found = np.empty(0, np.int32)
    for file in files:
        parts = [found]
        for _, rows in DataReader(context, place, file).read(context.key_columns):
            parts.append(hashes_of_rows(context, rows, context.key_columns))
        found = np.unique(np.concatenate(parts))
    return found


def rebuilt(context: TableContext, bucket: BucketState, new: NewFiles) -> IndexManifestEntry:
    """Write the hash index file of a bucket that has none, from its data files. Clauses: BKT-9."""
    return write_hashes(context, bucket.place, hashes_of_files(context, bucket.place, bucket.files), new)
