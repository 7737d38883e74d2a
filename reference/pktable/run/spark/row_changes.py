"""Divide the changes of a statement on an append table: the places of rows that go, and the rows that come.

One job computes the changes and keeps them. Each task answers with the places as vectors, and with its new rows if they
are few. If those of all tasks are few, they are written in the driver, into one file, and no second job is needed.
Otherwise a second job writes them from what was kept.

Clauses: APP-12, APP-31, APP-32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.vocabulary import ROW_ID, RowKind
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pktable.bucket.append_vectors import merged
from pktable.bucket.read import FILE, POSITION
from pktable.context import TableContext
from pktable.format.type_text import quoted
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.run.local import (
    FIRST_ID,
    first_row_ids,
    found_in,
    is_add,
    row_change,
    vectors_of_places,
)
from pktable.run.runner import TASK_BYTES, FoundRows, Query, RowChange
from pktable.run.spark.types import with_times_of
from pktable.run.spark.wire import BLOBS, Batches, collected, result_batch, whole_frame
from pktable.run.spark.workers import map_batches
from pktable.statements.plan import KIND, Statement

FEW_BYTES: Final = 4 << 20
"""Arrow memory of new rows that the driver writes by itself."""
LEAST_BYTES: Final = 64 << 10
FIRST_IDS: Final = StructType([StructField(FILE, StringType()), StructField(FIRST_ID, LongType())])


@dataclass(frozen=True, slots=True)
class _Part:
    """The answer of a task: positions by data file, and its new rows, None if they are many; how many are old ones."""

    vectors: dict[str, DeletionVector]
    added: list[pa.Table] | None
    updates: int


def divided_rows(context: TableContext, query: Query, statement: Statement, changes: DataFrame) -> RowChange:
    """Return the effect of ``changes``, which are persisted. Runs a job."""
    rows = with_times_of(changes, context.schema.fields)
    names = rows.columns
    # Of each task, so that the answers of all tasks fit into the driver.
    bound = max(LEAST_BYTES, FEW_BYTES // (1 + query.input_bytes // TASK_BYTES))

    def divide(batches: Batches) -> Batches:
        tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        yield result_batch(_part(context, statement, tables, bound))

    # Workers fail where a name has a dot.
    numbered = rows.toDF(*(f"c{i}" for i in range(len(names))))
    parts: list[_Part] = collected(map_batches(numbered, divide, BLOBS))
    vectors: dict[str, DeletionVector] = {}
    for part in parts:
        for name, vector in part.vectors.items():
            vectors[name] = merged(vectors.get(name), vector, context.vector_bits)
    found = found_in(query, vectors)
    few = [table for part in parts for table in part.added or ()]
    if all(part.added is not None for part in parts) and sum(one.nbytes for one in few) <= FEW_BYTES:
        return row_change(context, query, statement, found, pa.concat_tables(few)) if few else RowChange()
    change = _lazy_change(context, query, statement, found, rows)
    return replace(change, updates=sum(part.updates for part in parts))


def _part(context: TableContext, statement: Statement, changes: Iterable[pa.Table], bound: int) -> _Part:
    needed = [*context.schema.value_names, *(statement.place if statement.tracked else (FILE,))]
    places: list[pa.Table] = []
    added: list[pa.Table] | None = []
    size = updates = 0
    for table in changes:
        places.append(table.filter(pc.is_valid(table.column(FILE))).select([FILE, POSITION]))
        old = pc.and_(pc.is_valid(table.column(FILE)), is_add(table.column(KIND)))
        updates += int(pc.sum(old).as_py() or 0)
        if added is not None:
            added.append(table.filter(is_add(table.column(KIND))).select(needed))
            size += added[-1].nbytes
            added = added if size <= bound else None
    vectors = vectors_of_places(context, pa.concat_tables(places)) if places else {}
    return _Part(vectors, added, updates)


def _lazy_change(
    context: TableContext,
    query: Query,
    statement: Statement,
    found: Sequence[FoundRows],
    changes: DataFrame,
) -> RowChange:
    """Return the change with its new rows as DataFrames. Clauses: APP-32."""
    added = changes.where(F.col(KIND).bitwiseAND(1) == 0)
    names = [F.col(quoted(name)) for name in context.schema.value_names]
    if not statement.tracked:
        return RowChange(found, added.select(*names))
    rows = updated = None
    if statement.has(RowKind.INSERT):
        rows = added.where(F.col(FILE).isNull()).select(*names)
    if statement.has(RowKind.UPDATE_AFTER):
        first = F.broadcast(whole_frame(changes.sparkSession, first_row_ids(query), FIRST_IDS))
        ids = F.coalesce(F.col(ROW_ID), F.col(FIRST_ID) + F.col(POSITION)).alias(ROW_ID)
        updated = added.where(F.col(FILE).isNotNull()).join(first, FILE, "left").select(*names, ids)
    return RowChange(found, rows, updated)
