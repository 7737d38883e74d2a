"""A runner of two: small work is done in this process, all other work by a cluster.

Sending work to a cluster costs a fraction of a second, however little work it is. How much it is shows before it is
done: metadata tells the rows of the files that are left and the bytes of the columns needed, and Spark's optimizer the
size of a DataFrame.

* A compaction is done here up to `COMPACTED_BYTES` of files: each local thread is given as many bytes as a Spark task.
  A bucket is merged window by window, so its memory does not depend on its size.
* An Arrow table is written here up to `HELD_BYTES`. A DataFrame is brought here and written if the optimizer says that
  it takes up to `BROUGHT_BYTES`. If it says more, or nothing, the cluster writes it. So its rows are computed once,
  unless there are more of them than `HELD_BYTES` have room for although that was said.
* Arrow tables, counts, the changes of statements and the rows that a DELETE finds are made here from up to
  `SMALL_BYTES` and `SMALL_ROWS`.
* A lazy DataFrame may get further filters, which should reach the files. So only a read with a condition or a limit, or
  one of a table of up to `TINY_ROWS`, is done here, if it needs up to `TINY_BYTES`; and if it finds more than
  `FOUND_ROWS` rows or `TINY_BYTES`, the cluster gets it after all. Checks are done here up to `TINY_BYTES`.
* What a read needs is guessed where files are sorted by key and a condition restricts the key: it needs some pages of
  them. A guess that is wrong costs time, and no more memory than `FOUND_ROWS` rows. Statements do not go by it.

`Query.runner` and `RunnerBySize.forced` say which of the two it must be, whatever the size. Each choice is logged, by
the logger ``pktable``, with its reason.

Clauses: RD-9, RD-12, CMT-12, TBL-21, TBL-22.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.write import BucketAppend
from pktable.check.bucket import BucketReport, BucketTask
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind
from pktable.ingest.parts import Spooled
from pktable.lsm.bucket import BucketId
from pktable.run.runner import (
    TASK_BYTES,
    ChangeQuery,
    Piece,
    Query,
    Result,
    RowChange,
    Runner,
    SearchTask,
    row_width,
    sparks_words,
)
from pktable.run.together import AT_ONCE
from pktable.statements.plan import SparkWords, Statement
from pktable.store.new_files import NewFiles
from pktable.watching import Progress

TINY_BYTES: Final = 4 << 20
TINY_ROWS: Final = 10_000
FOUND_ROWS: Final = 50_000
SMALL_BYTES = 32 << 20
SMALL_ROWS: Final = 4_000_000
COMPACTED_BYTES: Final = AT_ONCE * TASK_BYTES
BROUGHT_BYTES: Final = 16 << 20
HELD_BYTES: Final = 256 << 20

LOG: Final = logging.getLogger("pktable")


@dataclass(frozen=True, slots=True)
class Choice:
    """Who does some work: this process if it stays ``here``, otherwise the cluster; and ``why``."""

    here: bool
    why: str

    def __str__(self) -> str:
        return f"{'local' if self.here else 'spark'} ({self.why})"


class Cluster(Runner, Protocol):
    """A runner that sends work elsewhere, and can bring rows here and back."""

    def size_of(self, rows: Any) -> int | None:
        """Return about how many bytes ``rows`` take that are not in this process, None if that is unknown."""
        ...

    def fetched(self, context: TableContext, rows: Any, *, at_most_rows: int | None) -> pa.Table | None:
        """Return ``rows``, in order, as a pyarrow.Table; None if they are more than that."""
        ...

    def scans(self, context: TableContext, query: Query) -> bool:
        """Return whether the cluster's own scan reads any part of ``query``."""
        ...

    def frame_of(self, context: TableContext, rows: pa.Table) -> Any:
        """Return rows that were read here as what `read` returns."""
        ...


@dataclass(frozen=True, slots=True)
class RunnerBySize:
    """The `Runner` that asks ``here`` for small work and ``cluster`` for the rest.

    ``forced``: "local" or "spark" if one of them must do all work. A read may still say who does it.
    """

    here: Runner
    cluster: Cluster
    forced: str | None = None

    @property
    def sparks_words(self) -> SparkWords | None:
        return None if self.forced == "local" else sparks_words(self.cluster)

    def write(
        self,
        context: TableContext,
        rows: Any,
        change: ChangeKind,
        assigner: BucketAssigner,
        next_sequence: Mapping[BucketId, int],
        new: NewFiles,
        now_millis: int,
    ) -> list[BucketAppend]:
        held = self._held(context, rows, "write")
        if held is not None:
            return self.here.write(context, held, change, assigner, next_sequence, new, now_millis)
        return self.cluster.write(context, rows, change, assigner, next_sequence, new, now_millis)

    def results(self, context: TableContext, pieces: Sequence[Piece[Result]]) -> list[Result]:
        searches: list[Any] = [piece for piece in pieces if isinstance(piece, SearchTask)]
        if searches:
            query = Query([one.part for one in searches], (), searches[0].predicate)
            choice = self._statement_choice(context, query, max(TINY_BYTES, SMALL_BYTES))
            return self._runner("search", choice).results(context, pieces)
        size = sum(piece.input_bytes for piece in pieces)
        fits = _within(size <= COMPACTED_BYTES, f"{size:,} bytes of files", COMPACTED_BYTES)
        return self._runner("compaction", self._asked() or fits).results(context, pieces)

    def read(self, context: TableContext, query: Query) -> Any:
        if query.is_written:
            choice = self._statement_choice(context, query, SMALL_BYTES)
            return self._runner("statement", choice).read(context, query)
        if self._runner("read", self.choice(context, query, lazy=True)) is self.here:
            rows = self.here.to_arrow(context, self._bounded(context, query))
            few = rows.num_rows <= FOUND_ROWS and rows.nbytes <= TINY_BYTES
            if few or self._forced(query) == "local" or not self.cluster.scans(context, query):
                return self.cluster.frame_of(context, rows)
        return self.cluster.read(context, query)

    def _bounded(self, context: TableContext, query: Query) -> Query:
        """Return ``query`` so that it ends when it has found more rows than a frame of them is made here."""
        guessed = query.decoded_rows is not None and query.decoded_rows < query.row_count
        if not guessed or self._forced(query) == "local" or not self.cluster.scans(context, query):
            return query
        most = FOUND_ROWS + 1
        return replace(query, limit=most if query.limit is None else min(query.limit, most))

    def read_changes(self, context: TableContext, query: ChangeQuery) -> Any:
        return self.cluster.read_changes(context, query)

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        return self._runner("read", self.choice(context, query)).to_arrow(context, query)

    def count(self, context: TableContext, query: Query) -> int:
        return self._runner("read", self.choice(context, query)).count(context, query)

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> Any:
        if statement.in_sparks_words:
            return self.cluster.changes(context, query, statement, source)
        choice = self._statement_choice(context, query, max(TINY_BYTES, SMALL_BYTES))
        if self._runner("statement", choice) is self.here:
            held = None if source is None else self._held(context, source, "source of a statement")
            if source is None or held is not None:
                return self.here.changes(context, query, statement, held)
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
        size = sum(task.input_bytes for task in tasks)
        choice = self._asked() or _within(size <= TINY_BYTES, f"{size:,} bytes of files to check", TINY_BYTES)
        return self._runner("check", choice).check(context, tasks, progress)

    def choice(self, context: TableContext, query: Query, *, lazy: bool = False) -> Choice:
        """Return who answers ``query``. ``lazy``: a DataFrame is wanted, not an Arrow table or a count."""
        if asked := self._asked(query):
            return asked
        if not self.cluster.scans(context, query):
            size = query.input_bytes
            return _within(size <= TINY_BYTES, f"{size:,} bytes of files to merge", TINY_BYTES)
        if not lazy:
            return _eager_choice(*_decoded(context, query), SMALL_BYTES)
        rows, size = _decoded(context, query)
        most_rows = rows if query.limit is None else min(rows, query.limit)
        few = query.predicate is not None or most_rows <= TINY_ROWS
        what = f"DataFrame of {rows:,} rows and {size:,} bytes of the columns"
        return _within(few and size <= min(TINY_BYTES, SMALL_BYTES), what, TINY_BYTES)

    def _statement_choice(self, context: TableContext, query: Query, most_bytes: int) -> Choice:
        size = query.needed_bytes(context.schema)
        return self._asked(query) or _eager_choice(query.row_count, size, most_bytes)

    def _held(self, context: TableContext, rows: Any, what: str) -> pa.Table | Spooled | None:
        """Return ``rows`` if this process has room for them, in order; None if the cluster is to take them."""
        if isinstance(rows, Spooled):
            choice = self._asked() or Choice(True, "rows on the disk of this process")
            return rows if self._runner(what, choice) is self.here else None
        if isinstance(rows, pa.Table):
            size = rows.nbytes
            choice = self._asked() or _within(size <= HELD_BYTES, f"{size:,} bytes of Arrow", HELD_BYTES)
            return rows if self._runner(what, choice) is self.here else None
        asked = self._asked()
        choice = asked or _frame_choice(self.cluster.size_of(rows))
        if self._runner(what, choice) is not self.here:
            return None
        at_most = None if asked else HELD_BYTES // row_width(context.schema)
        return self.cluster.fetched(context, rows, at_most_rows=at_most)

    def _forced(self, query: Query | None = None) -> str | None:
        return (query.runner if query else None) or self.forced

    def _asked(self, query: Query | None = None) -> Choice | None:
        forced = self._forced(query)
        return None if forced is None else Choice(forced == "local", "asked for")

    def _runner(self, what: str, choice: Choice) -> Runner:
        LOG.debug("%s: %s", what, choice)
        return self.here if choice.here else self.cluster


def _decoded(context: TableContext, query: Query) -> tuple[int, int]:
    """Return about how many rows a read must decode, and how many bytes of the files these are."""
    rows, size = query.row_count, query.needed_bytes(context.schema)
    if query.decoded_rows is None or not rows:
        return rows, size
    return query.decoded_rows, size * query.decoded_rows // rows


def _eager_choice(rows: int, size: int, most_bytes: int) -> Choice:
    what = f"{rows:,} rows and {size:,} bytes of the columns"
    return _within(size <= most_bytes and rows <= SMALL_ROWS, what, most_bytes)


def _frame_choice(size: int | None) -> Choice:
    if size is None:
        return Choice(False, "a DataFrame whose size Spark does not know")
    return _within(size <= BROUGHT_BYTES, f"a DataFrame of about {size:,} bytes", BROUGHT_BYTES)


def _within(fits: bool, what: str, limit: int) -> Choice:
    return Choice(fits, f"{what}, {'within' if fits else 'beyond'} the limits of {limit:,} bytes")
