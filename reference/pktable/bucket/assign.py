"""Which bucket a row belongs to.

Clauses: APP-3, TBL-3, TBL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pktable.context import TableContext
from pktable.format.bucket_hash import bucket_of
from pktable.format.types import Field, Value, array_of

Buckets = npt.NDArray[np.int32]


class BucketAssigner(Protocol):
    """Assigns rows to buckets. It pickles: executors assign the rows they hold."""

    def of_rows(self, rows: pa.Table) -> npt.NDArray[Any]:
        """Return the bucket number of each of n rows; ``rows`` has the table's columns."""
        ...

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        """Return the buckets that rows can be in whose columns ``names`` hold one of ``tuples``; None: any bucket."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """The columns that decide; a read whose condition fixes all of them looks into few buckets."""
        ...


class HashedBuckets:
    """A fixed number of buckets; the hash of the bucket key decides. Clauses: TBL-5."""

    def __init__(self, fields: Sequence[Field], count: int) -> None:
        self._fields, self._count = tuple(fields), count

    @property
    def columns(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    def of_rows(self, rows: pa.Table) -> npt.NDArray[Any]:
        types = [field.type for field in self._fields]
        return bucket_of([rows.column(field.name) for field in self._fields], types, self._count)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        assert list(names) == list(self.columns), "the caller asks about the deciding columns"
        if not tuples:
            return set()
        types = [field.type for field in self._fields]
        columns = [array_of([row[i] for row in tuples], kind) for i, kind in enumerate(types)]
        return {int(bucket) for bucket in bucket_of(columns, types, self._count)}


class NoBuckets:
    """All rows of a partition are in bucket 0. Clauses: APP-3."""

    columns: Sequence[str] = ()

    def of_rows(self, rows: pa.Table) -> npt.NDArray[Any]:
        return np.zeros(rows.num_rows, np.int32)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None


def hashed(context: TableContext) -> BucketAssigner:
    """Return the assigner of a table with a fixed number of buckets."""
    return HashedBuckets(context.schema.bucket_key_fields, context.options.bucket)


ASSIGNERS: list[tuple[Callable[[TableContext], bool], Callable[[TableContext], BucketAssigner]]] = [
    (lambda context: context.options.bucket > 0, hashed),
    (lambda context: context.has_unaware_buckets, lambda context: NoBuckets()),
]
"""Pairs of a test and a maker; the first test that a table passes decides."""


def assigner_of(context: TableContext) -> BucketAssigner:
    """Return how the table assigns rows to buckets. Writers have refused other tables by their options."""
    for applies, make in ASSIGNERS:
        if applies(context):
            return make(context)
    raise AssertionError(f"bucket={context.options.bucket} is refused before rows are assigned")
