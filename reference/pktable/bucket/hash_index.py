"""The hash index of dynamic buckets: which bucket of a partition has which keys, by their hashes.

1. `opened` reads the hash index files of a partition into two arrays: the hashes, ascending, and the bucket of each.
2. `PartitionIndex.find` looks hashes up, and `with_more` adds those of new keys.
3. `write_hashes` writes the file of a bucket, `hashes_of_files` makes the hashes of a bucket that has none.

The indexes opened last are remembered, for the whole process: a table that is written again opens no file twice.

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

from pktable.bucket.reader import DataReader
from pktable.context import TableContext
from pktable.format.bucket_hash import hash_rows
from pktable.format.hash_index import Hashes, decode_hashes, encode_hashes
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.lsm.bucket import BucketPath, BucketState
from pktable.store.cache import Cache
from pktable.store.new_files import NewFiles

Numbers = npt.NDArray[np.uint16]

NO_BUCKET: Final = -1
MOST_BUCKETS: Final = (1 << 15) - 1
"""Paimon holds the number of a dynamic bucket in 16 bits with a sign."""
REMEMBERED_HASHES: Final = 24_000_000  # some 150 MB
OPENED: Final = Cache(REMEMBERED_HASHES)
"""The indexes opened last, by the paths of their files."""


@dataclass(frozen=True, slots=True)
class PartitionIndex:
    """The hash index of a partition: ``hashes`` ascending, and ``buckets`` with the bucket of each."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int32))
    buckets: Numbers = field(default_factory=lambda: np.empty(0, np.uint16))

    def find(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        """Return the bucket of each of ``hashes``, which ascend, and `NO_BUCKET` where it has none."""
        places = np.searchsorted(self.hashes, hashes)
        inside = np.minimum(places, max(0, len(self.hashes) - 1))
        if not len(self.hashes):
            return np.full(len(hashes), NO_BUCKET)
        return np.where(self.hashes[inside] == hashes, self.buckets[inside].astype(np.int64), NO_BUCKET)

    def with_more(self, hashes: Hashes, buckets: npt.NDArray[np.int64]) -> PartitionIndex:
        """Return the index with ``hashes`` too, ascending and in no bucket yet, each in one of ``buckets``."""
        places = np.searchsorted(self.hashes, hashes)
        return PartitionIndex(
            np.insert(self.hashes, places, hashes),
            np.insert(self.buckets, places, buckets.astype(np.uint16)),
        )

    def of_buckets(self, wanted: Collection[int]) -> Iterator[tuple[int, Hashes]]:
        """Yield each of the buckets ``wanted`` with its hashes, ascending."""
        chosen = np.isin(self.buckets, list(wanted))
        buckets = self.buckets[chosen]
        order = np.argsort(buckets, kind="stable")
        distinct, starts = np.unique(buckets[order], return_index=True)
        parts = np.split(self.hashes[chosen][order], starts[1:])
        yield from zip(distinct.tolist(), parts, strict=True)

    def counts(self) -> dict[int, int]:
        """Return how many hashes each bucket has, in the order of the buckets."""
        return {bucket: count for bucket, count in enumerate(np.bincount(self.buckets).tolist()) if count}


def opened(context: TableContext, entries: Iterable[IndexManifestEntry]) -> PartitionIndex:
    """Return the hash index of a partition; ``entries``: one for each of its buckets.

    Raises CorruptFileError, also for a hash in two buckets. Clauses: BKT-2, BKT-3.
    """
    known = sorted(entries, key=lambda entry: entry.bucket)
    index: PartitionIndex = OPENED.get(
        tuple(map(context.index_path, known)), partial(_open, context, known), lambda found: len(found.hashes)
    )
    return index


def remember(context: TableContext, entries: Iterable[IndexManifestEntry], index: PartitionIndex) -> None:
    """Remember what `opened` would make of ``entries``."""
    known = sorted(entries, key=lambda entry: entry.bucket)
    OPENED.put(tuple(map(context.index_path, known)), index, len(index.hashes))


def _open(context: TableContext, entries: Sequence[IndexManifestEntry]) -> PartitionIndex:
    parts = [(read_hashes(context, entry), entry.bucket) for entry in entries]
    if not parts:
        return PartitionIndex()
    ascend = all(bool((hashes[1:] > hashes[:-1]).all()) for hashes, _ in parts)
    packed = np.concatenate([hashes.astype(np.int64) << 16 | bucket for hashes, bucket in parts])
    packed.sort(kind="stable" if ascend else None)  # the stable sort is faster with runs, and slower without
    index = PartitionIndex((packed >> 16).astype(np.int32), packed.astype(np.uint16))
    twice = np.flatnonzero(index.hashes[1:] == index.hashes[:-1])
    if len(twice):
        first, second = (index.buckets[twice[0] + i] for i in (0, 1))
        at = next(context.index_path(entry) for entry in entries if entry.bucket == second)
        raise CorruptFileError(
            "hash of a key",
            at=at,
            expected="one bucket of a partition; overwrite the partition by its rows",
            found=f"{index.hashes[twice[0]]} in bucket {first} and {second}",
        )
    return index


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
    data, path = encode_hashes(hashes), new.index_path(context.index_directory(place))
    context.store.write(path, data)
    return IndexManifestEntry(
        kind=0,
        partition=place.partition,
        bucket=place.bucket,
        index_type=HASH,
        file_name=path.rpartition("/")[2],
        file_size=len(data),
        row_count=len(hashes),
        ranges=None,
    )


def hashes_of_rows(context: TableContext, rows: pa.Table, names: Sequence[str]) -> Hashes:
    """Return the hash of the key of each row. ``names``: of the key columns. Clauses: BKT-2."""
    return hash_rows([rows.column(name) for name in names], context.key_types)


def hashes_of_files(context: TableContext, place: BucketPath, files: Iterable[DataFileMeta]) -> Hashes:
    """Return the hashes of all keys in ``files`` of a bucket, ascending, each once. Clauses: BKT-9."""
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
