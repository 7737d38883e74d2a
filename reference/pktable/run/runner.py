"""Who does the work on buckets, and the pieces of work it is given.

A `Piece` is work on a bucket or on some files of one. It pickles, runs in any process, says how many bytes it reads,
and leaves no file if it fails.

A `Runner` does the data work of writes, compactions, reads and checks: this process (`LocalRunner`), a Spark cluster
(`SparkRunner`), or this process for small work and a cluster for the rest (`RunnerBySize`). Nothing a runner does is
visible before a commit.

Clauses: CMT-12, RD-9, RD-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeVar

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.read import BucketRead, by_file, positions_by_file
from pktable.bucket.write import BucketAppend
from pktable.check.bucket import BucketReport, BucketTask
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import BINARIES, STRINGS, DataType
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.ingest.changes import ChangeKind
from pktable.ingest.sources import is_spark_frame
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketChange, BucketId, BucketState, ChangeRead
from pktable.lsm.universal import Pick
from pktable.predicate import Predicate
from pktable.run.together import AT_ONCE, CORES
from pktable.statements.plan import SparkWords, Statement
from pktable.store.new_files import NewFiles
from pktable.watching import Progress


class Work(Protocol):
    """Work on a bucket or on some files of one. ``input_bytes``: of the files that it reads.

    ``what``: what it does to a table, as names of jobs say it.
    """

    what: ClassVar[str]

    @property
    def input_bytes(self) -> int: ...

    def run(self, context: TableContext) -> Any:
        """Do the work, here or on an executor; on failure remove the files that it made. Clauses: CMT-12."""
        ...


class Made(Protocol):
    """The result of a piece. ``created``: the paths of the files that it made."""

    @property
    def created(self) -> tuple[str, ...]: ...


Result = TypeVar("Result", bound=Made, covariant=True)


class Piece(Work, Protocol[Result]):
    """Work that tells which files it made.

    ``at_once``: how many of its kind threads do at the same time. ``least_bytes``: on average, of those where that is
    faster than one after the other.
    """

    at_once: ClassVar[int]
    least_bytes: ClassVar[int]

    def run(self, context: TableContext) -> Result: ...


SMALL_FILE_BYTES: Final = 64 << 10
"""On average, of files that take Python longer than Arrow: threads wait for each other."""


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Files of a bucket to compact, see `TableKind.compact`: its state, the files, and the token of its new files.

    ``cached_rows``: the rows of some of its files by name; those files are not read. ``dropped``: of a statement on an
    append table, positions to leave out besides, by data file.
    """

    state: BucketState
    chosen: Pick
    token: str
    now_millis: int
    cached_rows: Mapping[str, pa.Table] = field(default_factory=dict)
    dropped: Mapping[str, DeletionVector] = field(default_factory=dict)
    what: ClassVar[str] = "compact"
    at_once: ClassVar[int] = AT_ONCE
    least_bytes: ClassVar[int] = 0

    @property
    def input_bytes(self) -> int:
        return sum(file.file_size for file in self.chosen.files)

    def run(self, context: TableContext) -> BucketChange:
        """Compact the files; on failure remove the files that were made. Clauses: CMT-12."""
        new = NewFiles(token=self.token)
        try:
            return kind_of(context.schema, context.root).compact(
                context,
                self.state,
                self.chosen,
                new,
                now_millis=self.now_millis,
                cached_rows=self.cached_rows,
                dropped=self.dropped,
            )
        except BaseException:
            new.remove(context.store)
            raise


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a bucket of an append table: ``positions`` by data file, each as a deletion vector."""

    bucket_id: BucketId
    positions: Mapping[str, DeletionVector]
    created: ClassVar[tuple[str, ...]] = ()


def gathered(parts: Iterable[FoundRows]) -> list[FoundRows]:
    """Return one item for each bucket of ``parts`` in which something was found. No file is in two parts."""
    found: dict[BucketId, dict[str, DeletionVector]] = {}
    for part in parts:
        if part.positions:
            found.setdefault(part.bucket_id, {}).update(part.positions)
    return [FoundRows(bucket_id, positions) for bucket_id, positions in found.items()]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """Files of an append table in which the rows that satisfy a condition are looked for. Clauses: APP-2."""

    part: BucketRead
    predicate: Predicate | None
    what: ClassVar[str] = "find rows of"
    at_once: ClassVar[int] = CORES
    least_bytes: ClassVar[int] = SMALL_FILE_BYTES

    @property
    def input_bytes(self) -> int:
        return sum(file.file_size for file in self.part.state.files)

    def run(self, context: TableContext) -> FoundRows:
        found = positions_by_file(context, self.part, self.predicate)
        return FoundRows(self.part.state.place.id, found)


@dataclass(frozen=True, slots=True)
class RowChange:
    """The effect of a statement on an append table, with rows as `Runner.write` takes them.

    It deletes the rows ``found`` and adds ``rows``. ``updated``: rows to add that have ids, with these in `ROW_ID`.
    ``updates``: how many of the rows to add take the place of one of ``found``, None if nobody has counted.
    """

    found: Sequence[FoundRows] = ()
    rows: Any = None
    updated: Any = None
    updates: int | None = None

    @property
    def gone(self) -> int:
        """How many rows it deletes."""
        return sum(vector.cardinality for one in self.found for vector in one.positions.values())


@dataclass(frozen=True, slots=True)
class Query:
    """A planned read: parts of the table, and ``columns`` of the rows that ``predicate`` and ``limit`` leave.

    ``runner``: "local" or "spark" if the caller wants that one, where there are two. ``decoded_rows``: a guess of how
    many rows must be decoded, None for all. ``is_written``: a statement writes the rows, once.
    """

    parts: Sequence[BucketRead]
    columns: Sequence[str]
    predicate: Predicate | None = None
    limit: int | None = None
    runner: str | None = None
    decoded_rows: int | None = None
    is_written: bool = False

    @property
    def row_count(self) -> int:
        """The rows of the files, deleted ones included."""
        return sum(file.row_count for part in self.parts for file in part.state.files)

    def needed_bytes(self, schema: TableSchema) -> int:
        """Return about how many bytes of the files the needed columns are: their share of the width of a row."""
        needed = {*self.columns, *(self.predicate.columns() if self.predicate else ())}
        widths = {field.name: width_of(field.type) for field in schema.fields}
        # Key columns are stored twice, with a sequence number and a row kind.
        stored = row_width(schema) + sum(widths[name] for name in schema.key_names) + SYSTEM_WIDTH
        return self.input_bytes * sum(widths[name] for name in needed) // stored

    @property
    def input_bytes(self) -> int:
        return sum(file.file_size for part in self.parts for file in part.state.files)


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A planned read of changes: parts in order, and ``columns`` of the changes whose row satisfies ``predicate``.

    ``commits``: whether the id and the time of the snapshot of each change come, too.
    """

    parts: Sequence[ChangeRead]
    columns: Sequence[str]
    predicate: Predicate | None = None
    commits: bool = False


SYSTEM_WIDTH: Final = 9
TASK_BYTES: Final = 64 << 20
"""Of input, that make a task of Spark: small buckets share one up to as much."""
RUNNERS: Final = ("local", "spark")


def width_of(kind: DataType) -> int:
    """Return about how many bytes a value takes."""
    if kind.children:
        return sum(width_of(child.type) for child in kind.children) * (1 if kind.root == "ROW" else 4)
    if kind.root in STRINGS | BINARIES:
        return 24
    return {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4}.get(
        kind.root, 8
    )


def row_width(schema: TableSchema) -> int:
    """Return about how many bytes a row takes."""
    return sum(width_of(field.type) for field in schema.fields)


def expect_runner(wanted: str | None, *, has_spark: bool) -> None:
    """Raise InvalidRequestError unless ``wanted`` is None or the name of a runner that is there."""
    if wanted is not None and not (isinstance(wanted, str) and wanted in RUNNERS):
        raise InvalidRequestError(f"runner: expected {' or '.join(RUNNERS)}, found {wanted!r}")
    if wanted == "spark" and not has_spark:
        raise InvalidRequestError(
            "runner: the table was opened without Spark; give spark=session to Table.open"
        )


def sparks_words(runner: Runner) -> SparkWords | None:
    """Return how `Runner.changes` reads `SparkText`, None if it takes none. Clauses: WH-8."""
    found: SparkWords | None = getattr(runner, "sparks_words", None)
    return found


class Runner(Protocol):
    """Does the data work of one table."""

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
        """Write ``rows``, in order, as level-0 files; ``new`` gets the path of every file made.

        ``assigner``: of this write alone; says in which buckets rows are. ``next_sequence``: per bucket the first free
        sequence number, 0 where it is absent.
        Raises InvalidRequestError before anything is written. Clauses: TBL-6, TBL-8, TBL-11.
        """
        ...

    def results(self, context: TableContext, pieces: Sequence[Piece[Result]]) -> list[Result]:
        """Return the results of ``pieces``, all of one kind, in any order; nothing becomes visible.

        If one fails, the files made by all are removed. Clauses: CMP-16, CMT-12.
        """
        ...

    def read(self, context: TableContext, query: Query) -> Any:
        """Return the rows of ``query``: a lazy DataFrame on Spark, a pyarrow.Table otherwise. Clauses: RD-9.

        Where ``query.is_written``, either, as `write` takes them.
        """
        ...

    def read_changes(self, context: TableContext, query: ChangeQuery) -> Any:
        """Return changes, of `change_schema`: a lazy DataFrame on Spark, in any order, a pyarrow.Table otherwise.

        Clauses: CHG-11.
        """
        ...

    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        """Return the rows of ``query`` as a pyarrow.Table."""
        ...

    def count(self, context: TableContext, query: Query) -> int:
        """Return the number of rows of ``query``."""
        ...

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> Any:
        """Return the changes that ``statement`` makes to the rows of ``query``, as `write` takes them.

        ``query``: reads the columns `Statement.needed` of the target. ``source``: None, a pyarrow.Table, or what the
        runner reads. The changes have the table's columns and the column of row kinds `plan.KIND`, those of an append
        table also `Statement.place`.
        Raises InvalidRequestError, here or when the changes are written. Clauses: STM-1 to STM-5.
        """
        ...

    def divided(self, context: TableContext, query: Query, statement: Statement, changes: Any) -> RowChange:
        """Return the rows that ``changes`` of an append table delete or replace, and the rows that they add.

        ``query``, ``statement``: of which `changes` made them. Clauses: APP-12, APP-32.
        """
        ...

    def release(self, changes: Any) -> None:
        """Give up what `divided` may have kept of ``changes``."""
        ...

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        """Check buckets; yield each report when it is ready."""
        ...


def found_rows(runner: Runner, context: TableContext, query: Query) -> list[FoundRows]:
    """Return where the rows of ``query`` lie, by bucket, without buckets that have none.

    ``query``: of an append table; its columns and its limit are ignored. Clauses: APP-2.
    """
    pieces = [SearchTask(piece, query.predicate) for part in query.parts for piece in by_file(part)]
    return gathered(runner.results(context, pieces)) if pieces else []


@contextmanager
def raised_for(rows: Any) -> Iterator[None]:
    """Turn a failure of Spark's inside the block into our error, where ``rows`` are a DataFrame that is run there."""
    if not is_spark_frame(rows):
        yield
        return
    from pktable.run.spark.errors import raised_here  # late: it brings Spark

    with raised_here():
        yield
