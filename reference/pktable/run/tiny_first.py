"""A runner of two: tiny work is done in this process, all other work by a cluster.

Sending work to a cluster costs a fraction of a second, however little work it is. So up to `TINY_BYTES` of input,
or `TINY_ROWS` rows of a DataFrame, are handled here. Reads that Spark's own Parquet scan can do always go there:
their result is a lazy DataFrame whose further filters should reach the files.

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
from pktable.run.runner import CompactionTask, FoundRows, Query, RewriteTask, Runner
from pktable.statements.plan import Statement
from pktable.store.new_files import NewFiles

TINY_BYTES: Final = 4 << 20
TINY_ROWS: Final = 10_000


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

    def read_located(self, context: TableContext, query: Query) -> Any:
        return self.cluster.read_located(context, query)

    def read(self, context: TableContext, query: Query) -> Any:
        if self._stays_here(context, query):
            return self.cluster.frame_of(context, self.here.to_arrow(context, query))
        return self.cluster.read(context, query)

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        runner = self.here if self._stays_here(context, query) else self.cluster
        return runner.to_arrow(context, query)

    def count(self, context: TableContext, query: Query) -> int:
        runner = self.here if self._stays_here(context, query) else self.cluster
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

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        return self._runner_for(sum(task.input_bytes for task in tasks)).check(context, tasks, progress)

    def _runner_for(self, input_bytes: int) -> Runner:
        return self.here if input_bytes <= self.tiny_bytes else self.cluster

    def _stays_here(self, context: TableContext, query: Query) -> bool:
        return query.input_bytes <= self.tiny_bytes and not self.cluster.scans(context, query)
