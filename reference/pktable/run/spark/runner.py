"""The Spark runner: bucket work on executors, reads by Spark's own scan where that is possible.

The work itself is the kernel's, the same as the local runner's. Pickled metadata and Arrow batches cross the wire. An
error of ours comes back as a value and is raised in the driver as the error it was. Only the public DataFrame API is
used, so that Spark Connect serves as well. Executors, its server's too, import pktable and see the table's files under
the same paths as the driver.

The size of a DataFrame is what Spark's optimizer estimates. A scan counts as the bytes of its files, local rows as what
they take, a join as the product of its sides. Nothing is known of an RDD, and of a table without statistics: Spark then
says the greatest size there is.

Clauses: TBL-6, TBL-11, TBL-22, CMP-16, CMT-12, RD-1, RD-3, RD-9, RD-12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeVar

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, PkTableError
from pktable_spec.vocabulary import ROW_ID
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, LongType, StringType, StructField, StructType, TimestampType

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.changelog import COMMITS, ROW_KIND, read_changes
from pktable.bucket.read import FILE, POSITION, BucketRead, located_rows, read_bucket
from pktable.bucket.write import BucketAppend, merged_by_bucket
from pktable.check.bucket import BucketReport, BucketTask
from pktable.context import TableContext
from pktable.format.type_text import quoted
from pktable.ingest.changes import ChangeKind, as_changes
from pktable.ingest.parts import Spooled
from pktable.ingest.sources import as_arrow
from pktable.lsm.bucket import BucketId
from pktable.predicate import Predicate
from pktable.predicate.arrow_eval import may_fail
from pktable.run.runner import TASK_BYTES, ChangeQuery, Piece, Query, Result, RowChange, Work
from pktable.run.spark.errors import raised_here
from pktable.run.spark.native_scan import PLACE_FIELDS, ROW_ID_FIELD, native_scan, native_test
from pktable.run.spark.relations import renewed
from pktable.run.spark.session import described, in_ansi_mode, names_jobs, words_of
from pktable.run.spark.shares import needed_columns, shares
from pktable.run.spark.statements import changed_rows, divided_rows, source_frame
from pktable.run.spark.types import (
    fine_columns,
    flag_fields,
    for_spark,
    read_schema,
    spark_schema,
    whole_times,
    with_flags,
    with_times_of,
)
from pktable.run.spark.wire import (
    BLOBS,
    Batches,
    blob_table,
    collected,
    frame_of_pieces,
    result_batch,
    unpickled,
    whole_frame,
)
from pktable.run.spark.workers import map_batches
from pktable.run.spark.write import KIND_GIVEN, write_frame
from pktable.statements.plan import SparkWords, Statement
from pktable.store.new_files import NewFiles, remove_quietly
from pktable.watching import Progress, report

FEWEST_TASKS = 16  # that many small buckets make, so that all cores have some
CHECK_JOBS, CHECK_JOBS_AT_ONCE = 32, 4
MOST_ROWS = (1 << 31) - 1  # that a limit of Spark's can say
VERY_FEW_ROWS, ONE_TASK_ROWS = 1_000, 10_000  # of a DataFrame that was read in the driver
ORDER = "__pktable_order"


@dataclass(slots=True)
class SparkRunner:
    """Runs on ``session``, whatever the size of the work; `RunnerBySize` keeps small work in the driver."""

    session: SparkSession

    @property
    def sparks_words(self) -> SparkWords:
        return words_of(self.session)

    @names_jobs("write to")
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
        """Write ``rows``, a DataFrame or a pyarrow.Table, as level-0 runs. Clauses: TBL-6, TBL-11."""
        if isinstance(rows, DataFrame):
            _expect_batch(rows)
            frame = with_times_of(rows, context.schema.fields)
            # A problem that the schema alone shows is reported before the job starts.
            as_changes(_arrow(frame.limit(0)), context.schema, change)
        else:
            rows = rows.whole() if isinstance(rows, Spooled) else rows
            # Bring it to the table's types first: Spark takes fewer of Arrow's types than a table does.
            rows, kinds = as_changes(rows, context.schema, change)
            rows = for_spark(rows).append_column(KIND_GIVEN, pa.array(kinds))
            schema = spark_schema(context.schema.fields)
            schema = schema.add(ROW_ID, LongType()) if change.row_ids else schema
            frame = whole_frame(self.session, rows, schema.add(KIND_GIVEN, ByteType()))
            change = ChangeKind(column=KIND_GIVEN, row_ids=change.row_ids)
        results = write_frame(frame, context, change, assigner, next_sequence, now_millis)
        appends: list[BucketAppend] = []
        failed: PkTableError | None = None
        for result in results:
            if isinstance(result, PkTableError):
                failed = result
            else:
                append, paths = result
                new.paths += paths
                appends.append(append)
        if failed is not None:
            raise failed
        return merged_by_bucket(appends)

    def results(self, context: TableContext, pieces: Sequence[Piece[Result]]) -> list[Result]:
        """Run ``pieces`` on executors, small ones several to a task. Clauses: CMP-16, CMT-12."""
        outcomes = self._outcomes(context, _bins(pieces))
        failed = [outcome for outcome in outcomes if isinstance(outcome, PkTableError)]
        done = [outcome for outcome in outcomes if not isinstance(outcome, PkTableError)]
        if failed:
            remove_quietly(context.store, [path for result in done for path in result.created])
            raise failed[0]
        if pieces:
            report(pieces[0].what, len(done), len(pieces))
        return done

    def _outcomes(self, context: TableContext, bins: Sequence[Sequence[Work]]) -> list[Any]:
        """Return what comes of each piece of ``bins``: its result, or the error of ours that it raised."""

        def run(batches: Batches) -> Batches:
            for pieces in unpickled(batches):
                for piece in pieces:
                    try:
                        yield result_batch(piece.run(context))
                    except PkTableError as error:
                        yield result_batch(error)

        if not bins:
            return []
        with described(self.session, bins[0][0].what, context):
            return collected(map_batches(whole_frame(self.session, blob_table(list(bins))), run, BLOBS))

    def read_located(self, context: TableContext, query: Query, *, row_ids: bool = False) -> DataFrame:
        """Return a lazy DataFrame of rows with where they lie, by Spark's scan where it can. Clauses: APP-2, RD-12."""
        needed = needed_columns(query)
        native, others = shares(context, query)
        frames = []
        if native or not others:
            with raised_here(), in_ansi_mode(self.session, can_fail=_can_fail(query.predicate)):
                rows = native_scan(
                    self.session, context, native, needed, query.predicate, located=True, row_ids=row_ids
                )
            place = [FILE, POSITION, ROW_ID] if row_ids else [FILE, POSITION]
            frames.append(_chosen(rows, [*query.columns, *place], native))
        if others:
            fields = [context.schema.field(name) for name in query.columns]
            located = StructType([*spark_schema(fields), *PLACE_FIELDS, *([ROW_ID_FIELD] if row_ids else [])])
            columns, predicate = query.columns, query.predicate
            frames.append(
                frame_of_pieces(
                    self.session,
                    others,
                    lambda part: located_rows(context, part, columns, predicate, row_ids=row_ids),
                    located,
                    fine=fine_columns(fields),
                )
            )
        frame = reduce(DataFrame.unionAll, frames)
        return frame if query.limit is None else frame.limit(min(query.limit, MOST_ROWS))

    def read(self, context: TableContext, query: Query) -> DataFrame:
        """Return a lazy DataFrame of the rows of ``query``. Starts no job. Clauses: RD-1, RD-3, RD-6, RD-9."""
        columns, predicate, needed = query.columns, query.predicate, needed_columns(query)
        native, others = shares(context, query)
        frames = []
        if native:
            # A classic session looks for the files now, Spark Connect when it reads.
            with raised_here(), in_ansi_mode(self.session, can_fail=_can_fail(predicate)):
                frames.append(native_scan(self.session, context, native, needed, predicate))
        if others or not frames:
            fields = [context.schema.field(name) for name in needed]
            frames.append(
                frame_of_pieces(
                    self.session,
                    others,
                    lambda part: read_bucket(context, part, needed, predicate),
                    read_schema(fields),
                    fine=fine_columns(fields),
                )
            )
        frame = reduce(DataFrame.unionAll, frames)
        frame = _chosen(frame, columns, native)
        return frame if query.limit is None else frame.limit(min(query.limit, MOST_ROWS))

    def read_changes(self, context: TableContext, query: ChangeQuery) -> DataFrame:
        """Return a lazy DataFrame of changes, read by the kernel on executors. Clauses: CHG-11."""
        fields = [context.schema.field(name) for name in query.columns]
        last = [StructField(*one) for one in zip(COMMITS.names, (LongType(), TimestampType()), strict=True)]
        given = [*read_schema(fields).fields, *(last if query.commits else ())]
        schema = StructType([StructField(ROW_KIND, StringType()), *given])
        return frame_of_pieces(
            self.session,
            query.parts,
            lambda part: read_changes(context, part, query.columns, query.predicate, commits=query.commits),
            schema,
            fine=fine_columns(fields),
        )

    @names_jobs("read")
    def to_arrow(self, context: TableContext, query: Query) -> pa.Table:
        """Return the rows of ``query`` as a pyarrow.Table."""
        frame = self.read(context, query)
        with raised_here(query.predicate.shown if query.predicate else None):
            return as_arrow(frame)

    @names_jobs("count")
    def count(self, context: TableContext, query: Query) -> int:
        frame = self.read(context, query)
        with raised_here(query.predicate.shown if query.predicate else None):
            return int(frame.count())

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> DataFrame:
        """Return the changes of ``statement`` as a lazy DataFrame. Clauses: STM-1 to STM-4."""
        if source is not None:
            source = source_frame(self.session, source) if isinstance(source, pa.Table) else source
        if statement.by_key:
            target = self.read(context, query)
        else:
            target = self.read_located(context, query, row_ids=statement.tracked)
        if shares(context, query)[1]:
            # Spark takes the rows that Python makes to be no more than the names of files it makes them from, and would
            # send them all to every task.
            target = target.hint("merge")
        can_fail = statement.in_sparks_words or any(map(may_fail, statement.expressions()))
        with in_ansi_mode(self.session, can_fail=can_fail):
            return changed_rows(statement, target, source, context.schema.fields)

    @names_jobs("find changed rows of")
    def divided(
        self, context: TableContext, query: Query, statement: Statement, changes: DataFrame
    ) -> RowChange:
        """Return the rows that go and those that come; ``changes`` are computed once, and kept until `release`.

        Clauses: APP-12, APP-32.
        """
        changes.persist()
        return divided_rows(context, query, statement, changes)

    def release(self, changes: DataFrame) -> None:
        """Give up the changes that `divided` has kept."""
        changes.unpersist()

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        """Check buckets on executors, small ones several to a task; yield each report as it comes.

        The work is several jobs, a few of them at once, so that progress can be reported. Clauses: CMP-16.
        """
        bins = _bins(tasks)
        total, done = sum(task.file_count for task in tasks), 0

        def job(part: list[list[BucketTask]]) -> list[BucketReport]:
            return self._outcomes(context, part)

        # Every so many bins to one job: each job has large ones and small ones.
        parts = [part for start in range(CHECK_JOBS) if (part := bins[start::CHECK_JOBS])]
        with ThreadPoolExecutor(CHECK_JOBS_AT_ONCE) as pool:
            for future in as_completed([pool.submit(job, part) for part in parts]):
                for report in future.result():
                    done += report.files
                    progress("data files", done, total)
                    yield report

    def size_of(self, rows: DataFrame) -> int | None:
        """Return about how many bytes ``rows`` take, as the optimizer estimates it; None if it does not know."""
        _expect_batch(rows)
        with raised_here():
            return estimated_bytes(rows)

    def fetched(self, context: TableContext, rows: DataFrame, *, at_most_rows: int | None) -> pa.Table | None:
        """Return ``rows``, in order, as a pyarrow.Table; None if they are more than that."""
        _expect_batch(rows)
        names, rows = rows.columns, with_times_of(rows, context.schema.fields)
        numbered = rows.selectExpr("*", f"monotonically_increasing_id() AS {ORDER}")
        # A limit loses the order.
        limited = numbered if at_most_rows is None else numbered.limit(min(at_most_rows + 1, MOST_ROWS))
        found = _arrow(limited)
        if at_most_rows is not None and found.num_rows > at_most_rows:
            return None
        # Names of columns may be the same.
        numbers = [*map(str, range(len(names))), ORDER]
        return found.rename_columns(numbers).sort_by(ORDER).drop_columns([ORDER]).rename_columns(names)

    def scans(self, context: TableContext, query: Query) -> bool:
        """Return whether Spark's own scan reads any part of ``query``."""
        return any(map(native_test(context, query.columns), query.parts))

    def frame_of(self, context: TableContext, rows: pa.Table) -> DataFrame:
        """Return rows that were read in the driver as a DataFrame.

        Very few are mostly looked at, which takes no job as long as they are a local relation. Others become one
        partition, as they would be if they were read from a file of their size: then an aggregate takes no shuffle.
        """
        fields = [context.schema.field(name) for name in rows.column_names]
        fine = fine_columns(fields)
        schema = StructType([*read_schema(fields), *flag_fields(fine)])
        frame = whole_frame(self.session, with_flags(rows, fine), schema)
        # Spark computes what is asked of a local relation before it leaves out columns, so it would raise for a flag.
        if fine or VERY_FEW_ROWS < rows.num_rows <= ONE_TASK_ROWS:
            frame = frame.coalesce(1)
        return whole_times(frame, fine)


def _can_fail(predicate: Predicate | None) -> bool:
    return predicate is not None and not predicate.never_fails


def _chosen(rows: DataFrame, columns: Sequence[str], native: Sequence[BucketRead]) -> DataFrame:
    """Return ``columns`` of ``rows``, which hold those of Spark's scan of ``native``."""
    # As SQL only names that `native_test` has seen: Spark takes some for variables.
    return rows.selectExpr(*renewed(columns)) if native else rows.select(*map(quoted, columns))


Task = TypeVar("Task", bound=Work)


def _bins(tasks: Sequence[Task]) -> list[list[Task]]:
    """Group tasks so that small ones share a bin, largest first so that stragglers are small."""
    bins: list[list[Task]] = []
    full = min(TASK_BYTES, sum(task.input_bytes for task in tasks) // FEWEST_TASKS)
    room = 0
    for task in sorted(tasks, key=lambda task: task.input_bytes, reverse=True):
        if not bins or room < task.input_bytes:
            bins.append([])
            room = full
        bins[-1].append(task)
        room -= task.input_bytes
    return bins


def _expect_batch(rows: DataFrame) -> None:
    if rows.isStreaming:
        raise InvalidRequestError("rows: a streaming DataFrame cannot be written at once; use foreachBatch")


def _arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of ``frame``. Raises InvalidRequestError for a column type that Arrow does not have."""
    try:
        with raised_here():
            return as_arrow(frame)
    except (PySparkTypeError, ValueError) as error:
        raise InvalidRequestError(
            f"rows: Arrow has no type for a column of this DataFrame: {error}"
        ) from None


UNKNOWN: Final = 1 << 60  # Spark's own default size, and whatever is joined with it, is at least this
STATISTICS: Final = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E\+\d+)?) (B|[KMGTPE]iB)")
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def estimated_bytes(frame: DataFrame) -> int | None:
    """Return about how many bytes the rows of ``frame`` take, None if Spark does not know. Starts no job."""
    plan = getattr(frame, "_jdf", None)
    if plan is not None:
        # EXPLAIN COST prints the same number, but plans the query another time.
        size = int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
    else:  # Spark Connect
        explained = frame.sparkSession.sql("EXPLAIN COST SELECT * FROM {rows}", rows=frame).collect()
        found = STATISTICS.search(explained[0][0])
        if found is None:
            return None
        size = int(float(found[1]) * 1024 ** UNITS.index(found[2]))
    return size if size < UNKNOWN else None
