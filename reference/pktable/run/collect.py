"""Collect the rows of a write by bucket, and write each bucket's as one run, in bounded memory.

1. Rows come in tables of the caller's order. Their parts are held by bucket.
2. Once the parts take a share of the write buffer, those of each bucket become a sorted run on local disk.
3. At the end the runs of a bucket are merged into one run of level 0. A bucket whose rows are all held is written from
   memory.

A merge engine that cannot fold retractions leaves the runs apart in step 3, because a key may need several records.

Clauses: APP-5, BKT-3, BKT-22, LSM-5, SAFE-9, TBL-5, TBL-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.write import BucketAppend, split_by_bucket, updates_of
from pktable.context import TableContext
from pktable.datafile.encoded import concatenated
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.ingest.changes import KIND_COLUMN, ChangeKind, as_changes
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId, BucketPath
from pktable.store.new_files import NewFiles
from pktable.store.scratch import Aside, Scratch

SHARE: Final = 4
"""The rows that are held take this part of the write buffer at most: to sort them takes about three times as much."""


@dataclass(slots=True)
class _Bucket:
    """The rows of one bucket so far. ``first``, ``following``: sequence numbers, of its first and its next row held."""

    place: BucketPath
    first: int
    following: int
    held: list[pa.Table] = field(default_factory=list)
    runs: list[Aside] = field(default_factory=list)
    changelog: tuple[DataFileMeta, ...] = ()
    updates: int = 0


class Collector:
    """The rows of one write, or of one task of it. Files that it makes are recorded in ``new``."""

    def __init__(
        self,
        context: TableContext,
        assigner: BucketAssigner,
        next_sequence: Mapping[BucketId, int],
        new: NewFiles,
        now_millis: int,
    ) -> None:
        self._context, self._assigner, self._next = context, assigner, next_sequence
        self._new, self._now = new, now_millis
        self._kind = kind_of(context.schema, context.root)
        self._most = context.options.write_buffer_bytes // SHARE
        self._buckets: dict[BucketId, _Bucket] = {}
        self._held_bytes = 0
        self._scratch = Scratch()

    def written(self, tables: Iterable[pa.Table]) -> Iterator[BucketAppend]:
        """Take rows (the table's columns, and their kinds as `KIND_COLUMN`), and yield what was written of each bucket.

        At last buckets are yielded that get a hash index file, without other files. Clauses: BKT-3.
        """
        try:
            for table in tables:
                if self._held_bytes >= self._most:
                    self._make_room()
                if table.num_rows:
                    self._add(table)
            yield from map(self._whole, self._buckets.values())
            for index in self._assigner.hash_files(self._new):
                one = self._buckets[index.partition, index.bucket]
                yield BucketAppend(one.place, (), one.following, hashes=index)
        finally:
            self._scratch.close()

    def _add(self, table: pa.Table) -> None:
        self._held_bytes += table.nbytes
        for partition, bucket, part in split_by_bucket(self._context, table, self._assigner):
            one = self._buckets.get((partition, bucket))
            if one is None:
                first = self._next.get((partition, bucket), 0)
                one = _Bucket(self._context.place(partition, bucket), first, first)
                self._buckets[partition, bucket] = one
            one.held.append(part)

    def _make_room(self) -> None:
        for one in self._buckets.values():
            self._put_aside(one)
        self._held_bytes = 0

    def _put_aside(self, one: _Bucket) -> None:
        one.runs += [self._scratch.put([run]) for run in self._sorted(one)]

    def _sorted(self, one: _Bucket) -> list[pa.Table]:
        """Return the rows that are held as runs, and hold them no more."""
        if not one.held:
            return []
        table = concatenated(one.held)
        one.held.clear()
        kinds = table.column(KIND_COLUMN).to_numpy()
        runs, changelog = self._kind.runs_of_rows(
            self._context,
            one.place,
            table.drop_columns([KIND_COLUMN]),
            kinds,
            one.following,
            self._new,
            now_millis=self._now,
        )
        one.changelog += changelog
        one.updates += updates_of(kinds)
        one.following += table.num_rows
        return runs

    def _whole(self, one: _Bucket) -> BucketAppend:
        if one.runs:  # a merge holds little of each run only if it is read in small tables
            self._put_aside(one)
        runs: Sequence[Iterable[pa.Table]] = one.runs or [[run] for run in self._sorted(one)]
        append = self._kind.write_runs(
            self._context, one.place, runs, one.first, self._new, now_millis=self._now
        )
        return replace(append, changelog=one.changelog, updates=one.updates)


def with_kinds(rows: pa.Table, schema: TableSchema, change: ChangeKind) -> pa.Table:
    """Return ``rows`` brought to the columns of the table, with their kinds. Raises InvalidRequestError."""
    conformed, kinds = as_changes(rows, schema, change)
    return conformed.append_column(KIND_COLUMN, pa.array(kinds))
