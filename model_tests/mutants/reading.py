"""Faults of reads: filters, limits and positions. Each is put into the local reader and into Spark's plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from threading import local
from typing import TYPE_CHECKING, Any
from unittest import mock

from pktable.bucket import read
from pktable.bucket.reader import DataReader, without_deleted
from pktable.bucket.wanted_rows import rows_that_may_match
from pktable.catalog import read_plan
from pktable.kinds import primary_key
from pktable.run.local import LocalRunner
from pktable.run.runner import Query

from model_tests.mutants.registry import IN_THE_PLAN, NOT_PICKED, READ, Fault, Mutant, both, instead, patched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE, INDEX, POSITION = "mutant_file", "mutant_index", "mutant_position"

_asked = local()
"""The query that this thread plans on Spark."""


def _counted_after_filter(unmerged_rows: Any) -> Any:
    """Filter the rows of a file first, and count positions over those that are left."""

    def filtered(files: Any, state: Any, columns: Any, predicate: Any, kept: Any) -> Iterator[Any]:
        vectors = files.vectors(state)
        for file in state.files:
            reader, position = DataReader(files, state.place, file), 0
            wanted = rows_that_may_match(reader, files.schema, predicate) if predicate else None
            for _, table in reader.read(columns, ranges=wanted):
                rows = predicate.filter(table, columns=kept) if predicate else table
                yield without_deleted(rows, position, vectors.get(file.file_name))
                position += rows.num_rows

    return filtered


def _limit_before_vectors(runner_read: Any) -> Any:
    """Let a limit count the records of a file before its vector, or a filter, is applied."""

    def limited(self: Any, files: Any, query: Query) -> Any:
        live_rows = read.live_rows

        def cut(table: Any, *others: Any) -> Any:
            return live_rows(table.slice(0, query.limit), *others)

        with mock.patch.object(read, "live_rows", cut):
            return runner_read(self, files, query)

    return limited


def _base_not_added(live_rows: Any) -> Any:
    """Count positions from the start of the row group."""
    return lambda table, position, *others: live_rows(table, 0, *others)


def _in_spark(first: Callable[[DataFrame, Query], DataFrame]) -> Fault:
    """Do ``first`` with the rows of a scan before positions are compared with vectors."""

    @contextmanager
    def context() -> Iterator[None]:
        try:
            from pktable.run.spark import native_scan as native
            from pktable.run.spark import runner
        except ImportError:  # no pyspark, no Spark to put it in
            yield
            return

        def remembering(original: Any) -> Any:
            def planned(self: Any, files: Any, query: Query) -> Any:
                _asked.query = query
                return original(self, files, query)

            return planned

        def small_filter(original: Any) -> Any:
            return lambda rows, marked, then: _unmarked(first, rows, marked, then)

        def with_session(original: Any) -> Any:
            return lambda session, rows, marked, *more: _unmarked(first, rows, marked, more[-1])

        with patched(
            (runner.SparkRunner, "read", remembering),
            (native, "filtered_by_positions", small_filter),
            (native, "filtered_by_lookup", with_session),
            (native, "filtered_by_join", with_session),
        )():
            yield

    return Fault(("pktable.run.spark.runner", "pktable.run.spark.native_scan"), context)


def _unmarked(
    first: Callable[..., DataFrame], scan: DataFrame, marked: Mapping[str, Any], then: str | None
) -> DataFrame:
    """Return the rows of ``scan`` whose positions no vector deletes, as ``first`` leaves rows and positions."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    found = F.col("_metadata.file_name").alias(FILE), F.col("_metadata.row_index").alias(INDEX)
    rows = first(scan.select("*", *found), _asked.query)
    dead = [
        (F.col(FILE) == path.rpartition("/")[2]) & F.col(INDEX).isin(one.vector.positions().tolist())
        for path, one in marked.items()
    ]
    live = rows.where(~reduce(Column.__or__, dead))
    return (live.where(then) if then else live).drop(FILE, INDEX)


def _renumbered(rows: DataFrame, query: Query) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    kept = rows.where(query.predicate.text) if query.predicate is not None else rows
    counted = F.row_number().over(Window.partitionBy(FILE).orderBy(INDEX)) - 1
    return kept.withColumn(POSITION, counted).drop(INDEX).withColumnRenamed(POSITION, INDEX)


def _limited(rows: DataFrame, query: Query) -> DataFrame:
    return rows if query.limit is None else rows.limit(query.limit)


MUTANTS = (
    Mutant(
        "M01a",
        "positions are counted over the rows that a filter leaves",
        both(patched((read, "unmerged_rows", _counted_after_filter)), _in_spark(_renumbered)),
        "query_agrees: ",
        ("RD-6", "RD-7"),
        bugs=("paimon#8987", "trino#22972", "trino#28885", "icebird#41"),
        spark=IN_THE_PLAN,
    ),
    Mutant(
        "M01b",
        "positions are counted from the start of a row group",
        patched((read, "live_rows", _base_not_added)),
        READ,
        ("RD-7",),
        bugs=("paimon#3634", "paimon#4636"),
        spark="nowhere",
        local_only="Spark's own Parquet reader counts positions, with none of our code to change",
    ),
    Mutant(
        "M02",
        "a limit counts rows before vectors and filters have taken theirs",
        both(
            patched((LocalRunner, "read", _limit_before_vectors)),
            _in_spark(_limited),
        ),
        "query_agrees: ",
        ("RD-9",),
        bugs=("paimon#4296", "paimon#9141", "paimon#7665"),
        spark=IN_THE_PLAN,
    ),
    Mutant(
        "S4",
        "rows superseded before vectors were switched on are taken for live",
        patched((primary_key, "may_shadow_rows_without_vector", instead(lambda context, live: False))),
        rf"{READ}|{NOT_PICKED}",
        ("DV-15", "DV-12"),
        bugs=("paimon#5874", "paimon#6666"),
    ),
    Mutant(
        "M19",
        "statistics of values skip a file although a merge follows",
        patched((read_plan, "asks_values", instead(lambda context, asked: True))),
        "query_agrees: ",
        ("RD-8",),
        bugs=("paimon#3995", "paimon#4065"),
    ),
)
