"""A runner of two: small work is done in this process, all other work by a cluster.

Sending work to a cluster costs a fraction of a second, however little work it is. Metadata tells how much a read is:
the rows of the files that are left, and the bytes of the columns that it needs.

* Writes, compactions, checks and merges of up to `TINY_BYTES`, or `TINY_ROWS` rows of a DataFrame, are done here.
* Arrow tables and counts are made here from up to `SMALL_BYTES` and `SMALL_ROWS`. The caller wanted the rows in this
  process anyway, and it holds no more than these files hold of these columns.
* A DataFrame is lazy, and its further filters should reach the files. So only a read with a condition or a limit, or
  one of a tiny table, is done here, if it needs up to `TINY_BYTES`; and if it finds more than `TINY_ROWS` rows or
  `TINY_BYTES`, the cluster gets it after all.

`Query.runner` says which of the two it must be, whatever the size.

Clauses: RD-9, RD-12, CMT-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from pktable.bucket.write import BucketAppend
from pktable.check.bucket import BucketReport, BucketTask
from pktable.check.findings import Progress
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketChange, BucketId, FileChange
from pktable.run.runner import ChangeQuery, CompactionTask, FoundRows, Query, RewriteTask, RowChange, Runner
from pktable.statements.plan import Statement
from pktable.store.new_files import NewFiles

TINY_BYTES: Final = 4 << 20
TINY_ROWS: Final = 10_000
SMALL_BYTES = 32 << 20
SMALL_ROWS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Choice:
    """Who answers a read: this process if it stays ``here``, otherwise the cluster; and ``why``."""

    here: bool
    why: str


class Cluster(Runner, Protocol):
    """A runner that sends work elsewhere, and can bring rows here and back."""

    def fetched(
        self, context: TableContext, rows: Any, *, at_most_rows: int, at_most_bytes: int
    ) -> pa.Table | None:
        """Return ``rows``, in order, as a pyarrow.Table; None if they are more than that."""
        ...

    def scans(self, context: TableContext, query: Query) -> bool:
        """Return whether the cluster's own scan reads any part of ``query``."""
        ...

    def frame_of(self, context: TableContext, rows: pa.Table) -> Any:
        """Return rows that were read here as what `read` returns."""
        ...


@dataclass(frozen=True, slots=True)
class TinyFirst:
    """The `Runner` that asks ``here`` for tiny work and ``cluster`` for the rest."""

    here: Runner
    cluster: Cluster
    tiny_bytes: int = TINY_BYTES
    tiny_rows: int = TINY_ROWS

    def write(
        self,
        context: TableContext,
        rows: Any,
        change: ChangeKind,
        next_sequence: Mapping[BucketId, int],
        new: NewFiles,
        now_millis: int,
    ) -> list[BucketAppend]:
        few = self.cluster.fetched(context, rows, at_most_rows=self.tiny_rows, at_most_bytes=self.tiny_bytes)
        if few is not None:
            return self.here.write(context, few, change, next_sequence, new, now_millis)
        return self.cluster.write(context, rows, change, next_sequence, new, now_millis)

    def compact(self, context: TableContext, tasks: Sequence[CompactionTask]) -> list[BucketChange]:
        return self._runner_for(sum(task.input_bytes for task in tasks)).compact(context, tasks)

    def rewrite(self, context: TableContext, tasks: Sequence[RewriteTask]) -> list[FileChange]:
        return self._runner_for(sum(task.input_bytes for task in tasks)).rewrite(context, tasks)

    def find(self, context: TableContext, query: Query) -> list[FoundRows]:
        return self._runner_for(query.input_bytes).find(context, query)

    def read_located(self, context: TableContext, query: Query, *, row_ids: bool = False) -> Any:
        return self.cluster.read_located(context, query, row_ids=row_ids)

    def read(self, context: TableContext, query: Query) -> Any:
        if self.choice(context, query, lazy=True).here:
            rows = self.here.to_arrow(context, query)
            few = rows.num_rows <= self.tiny_rows and rows.nbytes <= self.tiny_bytes
            if few or query.runner == "local" or not self.cluster.scans(context, query):
                return self.cluster.frame_of(context, rows)
        return self.cluster.read(context, query)

    def read_changes(self, context: TableContext, query: ChangeQuery) -> Any:
        return self.cluster.read_changes(context, query)

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        runner = self.here if self.choice(context, query).here else self.cluster
        return runner.to_arrow(context, query)

    def count(self, context: TableContext, query: Query) -> int:
        runner = self.here if self.choice(context, query).here else self.cluster
        return runner.count(context, query)

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> Any:
        if query.input_bytes <= self.tiny_bytes:
            # Only then: counting the rows of a DataFrame runs a part of it.
            few = (
                source
                if source is None
                else self.cluster.fetched(
                    context, source, at_most_rows=self.tiny_rows, at_most_bytes=self.tiny_bytes
                )
            )
            if source is None or few is not None:
                return self.here.changes(context, query, statement, few)
        return self.cluster.changes(context, query, statement, source)

    def divided(self, context: TableContext, query: Query, statement: Statement, changes: Any) -> RowChange:
        return self._maker_of(changes).divided(context, query, statement, changes)

    def release(self, changes: Any) -> None:
        self._maker_of(changes).release(changes)

    def _maker_of(self, changes: Any) -> Runner:
        return self.here if isinstance(changes, pa.Table) else self.cluster

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        return self._runner_for(sum(task.input_bytes for task in tasks)).check(context, tasks, progress)

    def _runner_for(self, input_bytes: int) -> Runner:
        return self.here if input_bytes <= self.tiny_bytes else self.cluster

    def choice(self, context: TableContext, query: Query, *, lazy: bool = False) -> Choice:
        """Return who answers ``query``. ``lazy``: a DataFrame is wanted, not an Arrow table or a count."""
        if query.runner is not None:
            return Choice(query.runner == "local", "asked for")
        if not self.cluster.scans(context, query):
            size = query.input_bytes
            return _within(size <= self.tiny_bytes, f"{size:,} bytes of files to merge", self.tiny_bytes)
        rows, size = query.row_count, query.needed_bytes(context.schema)
        what = f"{rows:,} rows and {size:,} bytes of the columns"
        if not lazy:
            return _within(size <= SMALL_BYTES and rows <= SMALL_ROWS, what, SMALL_BYTES)
        most_rows = rows if query.limit is None else min(rows, query.limit)
        few = query.predicate is not None or most_rows <= self.tiny_rows
        return _within(
            few and size <= min(self.tiny_bytes, SMALL_BYTES), f"DataFrame of {what}", self.tiny_bytes
        )


def _within(fits: bool, what: str, limit: int) -> Choice:
    return Choice(fits, f"{what}, {'within' if fits else 'beyond'} the limits of {limit:,} bytes")
