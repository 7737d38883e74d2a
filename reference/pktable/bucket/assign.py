"""Which bucket a row belongs to.

Clauses: APP-3, BKT-1, BKT-4 to BKT-7, BKT-13, BKT-15, TBL-3, TBL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.options import POSTPONE_BUCKET

from pktable.bucket.dynamic import DynamicBuckets
from pktable.bucket.partitions import Partitions, partitions_of
from pktable.context import TableContext
from pktable.format.bucket_hash import bucket_of, hash_rows
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.format.types import Field, Value, array_of
from pktable.lsm.bucket import BucketId
from pktable.store.new_files import NewFiles

HashFiles: TypeAlias = Mapping[BucketId, IndexManifestEntry]
"""The hash index files of a state, by bucket."""


class BucketAssigner(Protocol):
    """Assigns the rows of one write to buckets. It pickles: executors assign the rows they hold.

    Where it remembers the rows it has seen, those of a group of buckets are assigned by one object, in their order.
    """

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> npt.NDArray[Any]:
        """Return the bucket number of each of n rows; ``rows`` has the table's columns, and is in ``partitions``."""
        ...

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        """Return the buckets that rows can be in whose columns ``names`` hold one of ``tuples``; None: any bucket."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """The columns that decide; a read whose condition fixes all of them looks into few buckets."""
        ...

    def among(self, tasks: int) -> BucketAssigner:
        """Return the assigner for rows that up to ``tasks`` tasks assign at once."""
        ...

    @property
    def groups(self) -> int:
        """The number of groups that the buckets of a partition are in."""
        ...

    def groups_of(self, rows: pa.Table) -> npt.NDArray[Any]:
        """Return of each of n rows the group of its bucket, from 0 on."""
        ...

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        """Write the hash index files that buckets get with the rows seen so far, and return their entries."""
        ...


class HashedBuckets:
    """A fixed number of buckets; the hash of the bucket key decides. Clauses: TBL-5."""

    def __init__(self, fields: Sequence[Field], count: int) -> None:
        self._fields, self._count = tuple(fields), count

    @property
    def columns(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> npt.NDArray[Any]:
        return self.groups_of(rows)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        assert list(names) == list(self.columns), "the caller asks about the deciding columns"
        if not tuples:
            return set()
        types = [field.type for field in self._fields]
        columns = [array_of([row[i] for row in tuples], kind) for i, kind in enumerate(types)]
        return {int(bucket) for bucket in bucket_of(columns, types, self._count)}

    def among(self, tasks: int) -> HashedBuckets:
        return self

    @property
    def groups(self) -> int:
        return self._count

    def groups_of(self, rows: pa.Table) -> npt.NDArray[Any]:
        """Return the buckets: each is a group of its own."""
        types = [field.type for field in self._fields]
        return bucket_of([rows.column(field.name) for field in self._fields], types, self._count)

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()


class NoBuckets:
    """All rows of a partition are in bucket 0. Clauses: APP-3."""

    columns: Sequence[str] = ()
    groups = 1

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> npt.NDArray[Any]:
        return self.groups_of(rows)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None

    def among(self, tasks: int) -> NoBuckets:
        return self

    def groups_of(self, rows: pa.Table) -> npt.NDArray[Any]:
        return np.zeros(rows.num_rows, np.int32)

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()


class WaitingRows:
    """All rows of a write wait in one bucket of their partition. Clauses: BKT-13."""

    columns: Sequence[str] = ()

    def __init__(self, context: TableContext, known: HashFiles, tasks: int = 1) -> None:
        self._context, self.groups = context, tasks

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> npt.NDArray[Any]:
        return np.full(rows.num_rows, POSTPONE_BUCKET, np.int64)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None

    def among(self, tasks: int) -> WaitingRows:
        return WaitingRows(self._context, {}, tasks)

    def groups_of(self, rows: pa.Table) -> npt.NDArray[Any]:
        """Return a group by the hash of the key, so that one task has all changes of a key, in their order."""
        hashes = hash_rows(
            [rows.column(name) for name in self._context.schema.key_names], self._context.key_types
        )
        groups: npt.NDArray[Any] = np.abs(hashes.astype(np.int64)) % self.groups
        return groups

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()


class BucketsOfPartitions:
    """A fixed number of buckets in each partition; the hash of the bucket key decides. Clauses: BKT-15, TBL-5.

    ``counts``: the number of buckets by partition, ``count`` of all others.
    """

    columns: Sequence[str] = ()

    def __init__(self, context: TableContext, counts: Mapping[bytes, int], count: int) -> None:
        self._context, self._counts, self._count = context, dict(counts), count

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> npt.NDArray[Any]:
        fields = self._context.schema.bucket_key_fields
        columns = [rows.column(field.name) for field in fields]
        hashes = np.abs(hash_rows(columns, [field.type for field in fields]).astype(np.int64))
        counts = np.array([self._counts.get(one, self._count) for one in partitions.encoded], np.int64)
        buckets: npt.NDArray[Any] = hashes % counts[partitions.numbers]
        return buckets

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None

    def among(self, tasks: int) -> BucketsOfPartitions:
        return self

    @property
    def groups(self) -> int:
        return max([self._count, *self._counts.values()])

    def groups_of(self, rows: pa.Table) -> npt.NDArray[Any]:
        """Return the buckets: each is a group of its own."""
        if not rows.num_rows:
            return np.zeros(0, np.int64)
        return self.of_rows(rows, partitions_of(self._context, rows))

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()


def hashed(context: TableContext, known: HashFiles) -> BucketAssigner:
    """Return the assigner of a table with a fixed number of buckets."""
    return HashedBuckets(context.schema.bucket_key_fields, context.options.bucket)


ASSIGNERS: list[
    tuple[Callable[[TableContext], bool], Callable[[TableContext, HashFiles], BucketAssigner]]
] = [
    (lambda context: context.options.bucket > 0, hashed),
    (lambda context: context.has_unaware_buckets, lambda context, known: NoBuckets()),
    (lambda context: context.has_dynamic_buckets, DynamicBuckets),
    (lambda context: context.postpones_buckets, WaitingRows),
]
"""Pairs of a test and a maker; the first test that a table passes decides."""


def assigner_of(context: TableContext, known: HashFiles) -> BucketAssigner:
    """Return how the table assigns the rows of a write to buckets. Writers have refused other tables by their options.

    ``known``: the hash index files that the write goes by.
    """
    for applies, make in ASSIGNERS:
        if applies(context):
            return make(context, known)
    raise AssertionError(f"bucket={context.options.bucket} is refused before rows are assigned")
