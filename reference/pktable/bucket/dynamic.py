"""Dynamic buckets: a key stays in the bucket that the hash index gives it, and a new one goes where there is room.

The buckets of a partition are divided among a number of assigners, each of which has every so many of them and gives
them to the new keys whose hashes are its own. So several tasks assign at once and none needs to know of the others. A
key that is known goes to the task that has its bucket, whoever assigned it.

Clauses: BKT-4, BKT-5, BKT-6, BKT-7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.bucket.hash_index import (
    MOST_BUCKETS,
    NO_BUCKET,
    Hashes,
    PartitionIndex,
    hashes_of_rows,
    opened,
    remember,
    write_hashes,
)
from pktable.bucket.partitions import Partitions, grouped_rows, partitions_of
from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.format.types import Value
from pktable.lsm.bucket import BucketId
from pktable.store.new_files import NewFiles

Buckets = npt.NDArray[np.int64]


class DynamicBuckets:
    """The `BucketAssigner` of a table with dynamic buckets."""

    columns: Sequence[str] = ()

    def __init__(
        self, context: TableContext, known: Mapping[BucketId, IndexManifestEntry], tasks: int = 1
    ) -> None:
        """``known``: the hash index files. ``tasks``: how many assign at once, if options do not say it."""
        self._context, self._known, self._tasks = context, known, tasks
        self.groups = assigners(context, tasks)
        self._files: dict[bytes, dict[int, IndexManifestEntry]] = {}
        for (partition, bucket), entry in known.items():
            self._files.setdefault(partition, {})[bucket] = entry
        self._indexes: dict[bytes, PartitionIndex] = {}
        self._room = Room(context, self.groups, self._stored)
        self._grown: dict[bytes, set[int]] = {}

    def __getstate__(self) -> tuple[object, ...]:
        return self._context, dict(self._known), self._tasks

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> Buckets:
        """Return the buckets of rows, and remember those of new keys. Clauses: BKT-4 to BKT-7."""
        buckets = np.empty(rows.num_rows, np.int64)
        for partition, chosen, hashes in self._by_partition(rows, partitions):
            index = self._index(partition)
            distinct, firsts, places = _distinct(hashes)
            found = index.find(distinct)
            (new,) = np.nonzero(found == NO_BUCKET)
            if len(new):
                in_order = new[np.argsort(firsts[new])]
                found[in_order] = self._assigned(partition, distinct[in_order])
                self._indexes[partition] = index.with_more(distinct[new], found[new])
            buckets[chosen] = found[places]
        return buckets

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None

    def among(self, tasks: int) -> DynamicBuckets:
        return DynamicBuckets(self._context, self._known, tasks)

    def groups_of(self, rows: pa.Table) -> Buckets:
        """Return of each row who has its bucket, or will assign it: a number below ``groups``. Clauses: BKT-7."""
        groups = np.zeros(rows.num_rows, np.int64)
        if self.groups == 1 or not rows.num_rows:
            return groups
        for partition, chosen, hashes in self._by_partition(rows, partitions_of(self._context, rows)):
            distinct, _, places = _distinct(hashes)
            found = self._index(partition).find(distinct)
            own = np.where(found == NO_BUCKET, assigner_of(distinct, self.groups), found % self.groups)
            groups[chosen] = own[places]
        return groups

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        """Write the hash index file of each bucket that got new keys. Clauses: BKT-2, BKT-3."""
        written = []
        for partition, grown in self._grown.items():
            index = self._indexes[partition]
            after = dict(self._files.get(partition, {}))
            for bucket, hashes in index.of_buckets(grown):
                after[bucket] = write_hashes(
                    self._context, self._context.place(partition, bucket), hashes, new
                )
                written.append(after[bucket])
            remember(self._context, after.values(), index)
        return written

    def _by_partition(self, rows: pa.Table, partitions: Partitions) -> Iterator[tuple[bytes, Any, Hashes]]:
        """Yield each partition with its rows, as an index, and their hashes."""
        hashes = hashes_of_rows(self._context, rows, self._context.schema.key_names)
        for number, part in grouped_rows(partitions.numbers):
            chosen = slice(None) if part is None else part
            yield partitions.encoded[number], chosen, hashes[chosen]

    def _index(self, partition: bytes) -> PartitionIndex:
        if partition not in self._indexes:
            self._indexes[partition] = opened(self._context, self._files.get(partition, {}).values())
        return self._indexes[partition]

    def _stored(self, partition: bytes) -> dict[int, int]:
        """Return how many hashes each bucket of a partition has in its file."""
        return {bucket: entry.row_count for bucket, entry in self._files.get(partition, {}).items()}

    def _assigned(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the buckets of new keys, in their order. Clauses: BKT-5, BKT-6, BKT-7."""
        found = self._room.give(partition, hashes, assigner_of(hashes, self.groups))
        self._grown.setdefault(partition, set()).update(found.tolist())
        return found


class Room:
    """The room that buckets have for new keys, which it gives away. Clauses: BKT-5, BKT-6, BKT-7.

    ``stored``: how many keys each bucket of a partition has before the write.
    """

    def __init__(self, context: TableContext, groups: int, stored: Callable[[bytes], dict[int, int]]) -> None:
        self._options, self._groups, self._stored = context.options, groups, stored
        self._counts: dict[bytes, dict[int, int]] = {}

    def give(self, partition: bytes, hashes: Hashes, assigners: Buckets) -> Buckets:
        """Return the buckets of new keys, in their order, and count them there. ``assigners``: of each key."""
        counts = self._counts.setdefault(partition, self._stored(partition))
        found = np.empty(len(hashes), np.int64)
        for assigner in np.unique(assigners).tolist():
            mine = assigners == assigner
            found[mine] = self._filled(counts, hashes[mine], assigner)
        grown, more = np.unique(found, return_counts=True)
        for bucket, count in zip(grown.tolist(), more.tolist(), strict=True):
            counts[bucket] = counts.get(bucket, 0) + count
        return found

    def _filled(self, counts: Mapping[int, int], hashes: Hashes, assigner: int) -> Buckets:
        """Return the buckets of the new keys of one assigner: they fill the first of its buckets that have room."""
        options = self._options
        target = options.keys_per_bucket
        own = {bucket: counts[bucket] for bucket in sorted(counts) if bucket % self._groups == assigner}
        rooms = [(bucket, target - count) for bucket, count in own.items() if count < target]
        missing = len(hashes) - sum(room for _, room in rooms)
        most = MOST_BUCKETS if options.most_buckets is None else options.most_buckets
        for bucket in range(assigner, most, self._groups):
            if missing <= 0:
                break
            if bucket not in own:
                rooms.append((bucket, target))
                missing -= target
        if missing > 0 and options.most_buckets is None:
            raise InvalidRequestError(
                f"option dynamic-bucket.target-row-num={target}: expected that {MOST_BUCKETS} buckets of a partition "
                f"are enough, found {missing} keys more; give it a greater value"
            )
        numbers = np.array([bucket for bucket, _ in rooms], np.int64)
        filled = np.repeat(numbers, [min(room, len(hashes)) for _, room in rooms])[: len(hashes)]
        if missing <= 0:
            return filled
        # Paimon takes any of them; the hash tells them apart just as well, and says the same each time.
        full = np.array(sorted({*own, *numbers.tolist()}), np.int64)
        rest = np.abs(hashes[len(filled) :].astype(np.int64)) // self._groups % len(full)
        return np.concatenate([filled, full[rest]])


def _distinct(hashes: Hashes) -> tuple[Hashes, Buckets, Buckets]:
    """Return what numpy's ``unique`` does, much faster: the hashes ascending, where each is first, and its number."""
    packed = hashes.astype(np.int64) << 32 | np.arange(len(hashes))
    packed.sort()
    begins = np.append(True, packed[1:] >> 32 != packed[:-1] >> 32)
    rows = packed & 0xFFFFFFFF
    places = np.empty(len(hashes), np.int64)
    places[rows] = np.cumsum(begins) - 1
    return (packed[begins] >> 32).astype(np.int32), rows[begins], places


def assigners(context: TableContext, tasks: int) -> int:
    """Return how many assigners share the buckets of a partition. Clauses: BKT-7."""
    options = context.options
    given = options.assigner_parallelism or tasks
    wanted = options.initial_buckets or given
    if options.assigner_parallelism:
        wanted = min(wanted, options.assigner_parallelism)
    return max(1, min(wanted, options.most_buckets or wanted))


def assigner_of(hashes: Hashes, number: int) -> Buckets:
    """Return of each hash which of a ``number`` of assigners has it. Clauses: BKT-7."""
    found: Buckets = np.abs(hashes.astype(np.int64)) % number
    return found
