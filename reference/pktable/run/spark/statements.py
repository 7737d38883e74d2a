"""Evaluate a statement on DataFrames: one join and one projection, which Spark runs with the write in one pass.

The plan: the target and the source get a flag column each and are joined (inner, left, right or full, as the clauses
need). A CASE over the conditions gives each row the number of its clause, and a CASE over that number each new value.
So an expression that can fail meets only the rows of its clause. A window over the key finds a row that two source rows
change, and lets an insert take the place of a row that the statement deletes or updates.

On an append table the changes are the places of rows that go, and the rows that come. One job computes and keeps them.
Each task answers with the places as vectors, and with its new rows if they are few. If those of all tasks are few, they
are written in the driver, into one file. Otherwise a second job writes them from what was kept.

Clauses: APP-12, APP-31, APP-32, STM-1, STM-2, STM-3, STM-10, STM-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.vocabulary import ROW_ID, RowKind
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pktable.bucket.index import merged
from pktable.bucket.read import FILE, POSITION
from pktable.context import TableContext
from pktable.format.type_text import quoted
from pktable.format.types import FLOATS, Field
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.tree import Expression
from pktable.run.local import (
    FIRST_ID,
    first_row_ids,
    found_in,
    is_add,
    row_change,
    vectors_of_places,
)
from pktable.run.runner import TASK_BYTES, FoundRows, Query, RowChange
from pktable.run.spark.assignment import assigned
from pktable.run.spark.types import for_spark, spark_schema, with_times_of
from pktable.run.spark.wire import BLOBS, Batches, collected, result_batch, whole_frame
from pktable.run.spark.workers import map_batches
from pktable.statements.arguments import source_fields
from pktable.statements.plan import KIND, PLACE, SOURCE, TARGET, Clause, SparkText, Statement, When, qualified

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


IS_TARGET, IS_SOURCE, CLAUSE = (f"__pktable_{name}" for name in ("target", "source", "clause"))
CHANGED, INSERTED, SHOWN = (f"__pktable_{name}" for name in ("changed", "inserted", "shown"))
TWICE = "pktable: several source rows change the row with "
"""Begins the message of a failed job in which a target row was changed twice."""


def source_frame(session: SparkSession, source: pa.Table) -> DataFrame:
    """Return an Arrow source as a DataFrame."""
    fields = source_fields(dict(zip(source.column_names, source.schema.types, strict=True)))
    return whole_frame(session, for_spark(source), spark_schema(fields))


def changed_rows(
    statement: Statement, target: DataFrame, source: DataFrame | None, fields: Sequence[Field]
) -> DataFrame:
    """Return the changes that ``statement`` makes: the table's columns ``fields`` and `KIND`. Lazy."""
    rows = _named(statement, target, TARGET, IS_TARGET)
    if source is None:
        rows = rows.withColumn(IS_SOURCE, F.lit(None).cast("boolean"))
        if statement.in_sparks_words:  # so that Spark can push it to the files
            for holds in {clause.condition for clause in statement.clauses if clause.condition is not None}:
                rows = rows.where(_expr(holds))
    else:
        if not statement.in_sparks_words:
            source = source.select(*map(quoted, statement.needed(SOURCE)))
        other = _named(statement, source, SOURCE, IS_SOURCE)
        rows = rows.join(other, _on(statement), _kind_of_join(statement))
    rows = rows.withColumn(CLAUSE, _clause_number(statement)).where(F.col(CLAUSE).isNotNull())
    kinds = _by_clause([F.lit(int(clause.kind)) for clause in statement.clauses])
    given = [
        [_value(statement, clause, i, name) for clause in statement.clauses]
        for i, name in enumerate(statement.columns)
    ]
    if statement.in_sparks_words:
        given = _as_stored(rows, given, fields)
    values = [_by_clause(one).alias(name) for one, name in zip(given, statement.columns, strict=True)]
    places = [_target(name).alias(name) for name in statement.place]
    if places:
        names = statement.shown_key
        places.append(_shown(names, [_target(name) for name in names]).alias(SHOWN))
    changes = rows.select(*values, kinds.cast("tinyint").alias(KIND), *places, F.col(IS_TARGET))
    if source is not None and (statement.of(When.MATCHED) or statement.of(When.NOT_MATCHED)):
        changes = _one_for_each(statement, changes)
    return changes.drop(IS_TARGET, SHOWN)


def _named(statement: Statement, frame: DataFrame, side: str, flag: str) -> DataFrame:
    """Return ``frame`` with qualified names and the column ``flag``; for Spark's words with its own names too."""
    names = frame.columns
    if not statement.in_sparks_words:
        return frame.toDF(*(qualified(side, name) for name in names)).withColumn(flag, F.lit(True))
    both = [F.col(quoted(name)).alias(qualified(side, name)) for name in names]
    alias = statement.aliases[side == SOURCE]
    return frame.select("*", *both, F.lit(True).alias(flag)).alias(alias)


def _as_stored(
    rows: DataFrame, values: Sequence[Sequence[Column]], fields: Sequence[Field]
) -> list[list[Column]]:
    """Return the ``values`` of each field in its type, as far as Spark stores them there. Clauses: WH-8."""
    types = iter(rows.select(*(one for some in values for one in some)).schema)
    return [
        [assigned(one, next(types).dataType, wanted.dataType, by_name=True)[0] for one in some]
        for some, wanted in zip(values, spark_schema(fields), strict=True)
    ]


def _expr(part: Expression | SparkText) -> Column:
    # Without parentheses Spark takes words after an expression for its name; a comment may end the text.
    return F.expr(f"({part.text}\n)" if isinstance(part, SparkText) else spark_text(part))


def _on(statement: Statement) -> Column:
    on = F.lit(True)
    for left, right in statement.keys:
        is_float = statement.same_keys and left.type.root in FLOATS
        on = on & (_as_key(_expr(left), is_float) == _as_key(_expr(right), is_float))
    return on if statement.residual is None else on & _expr(statement.residual)


def _as_key(value: Column, is_float: bool) -> Column:
    """Return a value that Spark finds equal where keys are: of floats only text tells the zeros apart.

    Clauses: MRG-7.
    """
    return value.cast("string") if is_float else value


def _kind_of_join(statement: Statement) -> str:
    keeps_target = bool(statement.of(When.NOT_MATCHED_BY_SOURCE))
    keeps_source = bool(statement.of(When.NOT_MATCHED))
    if keeps_target and keeps_source:
        return "full"
    return "left" if keeps_target else "right" if keeps_source else "inner"


def _clause_number(statement: Statement) -> Column:
    """Return the number of the first clause whose condition holds for a row, null if none does."""
    both = F.col(IS_TARGET).isNotNull() & F.col(IS_SOURCE).isNotNull()
    tests = {
        When.MATCHED: both,
        When.NOT_MATCHED: F.col(IS_TARGET).isNull(),
        When.NOT_MATCHED_BY_SOURCE: F.col(IS_SOURCE).isNull(),
    }
    found = F.lit(None).cast("int")
    for when, test in tests.items():
        number = F.lit(None).cast("int")
        for i, clause in reversed(statement.of(when)):
            holds = F.lit(True) if clause.condition is None else _expr(clause.condition)
            number = F.when(holds, F.lit(i)).otherwise(number)
        found = F.when(test, number).otherwise(found)
    return found


def _target(name: str) -> Column:
    return F.col(quoted(qualified(TARGET, name)))


def _shown(names: Sequence[str], values: Sequence[Column]) -> Column:
    """Return the text that names a row in a message."""
    parts = [F.concat(F.lit(f"{n} = "), value.cast("string")) for n, value in zip(names, values, strict=True)]
    return F.concat_ws(", ", *parts)


def _one_for_each(statement: Statement, changes: DataFrame) -> DataFrame:
    """Return one change for each key, an insert if there is one. Two of a kind fail the job. Clauses: STM-3.

    In an append table it is one for each old row, named by its place. Inserted rows have none, and each is by itself.
    """
    is_new = F.col(IS_TARGET).isNull()
    if statement.by_key:
        keys = [F.col(quoted(name)) for name in statement.key]
        floats = [
            isinstance(changes.schema[name].dataType, (FloatType, DoubleType)) for name in statement.key
        ]
        alike = Window.partitionBy(*map(_as_key, keys, floats))
        shown = _shown(statement.key, keys)
    else:
        apart = F.when(is_new, F.monotonically_increasing_id())
        alike, shown = Window.partitionBy(*PLACE, apart), F.col(SHOWN)
    changed = F.count(F.col(IS_TARGET)).over(alike)
    inserted = F.count(F.lit(1)).over(alike) - changed
    counted = changes.withColumn(CHANGED, changed).withColumn(INSERTED, inserted)
    problem = F.raise_error(F.concat(F.lit(TWICE), shown)).cast("boolean")
    twice = (F.col(CHANGED) > 1) | (F.col(INSERTED) > 1)
    kept = F.when(twice, problem).otherwise(is_new | (F.col(INSERTED) == 0))
    return counted.where(kept).drop(CHANGED, INSERTED)


def _value(statement: Statement, clause: Clause, i: int, name: str) -> Column:
    if clause.values is None:
        return _target(name) if statement.by_key else F.lit(None)
    return _expr(clause.values[i])


def _by_clause(values: Sequence[Column]) -> Column:
    """Return the value of a row's clause; the last clause needs no test."""
    *others, found = values
    for i, value in reversed(list(enumerate(others))):
        found = F.when(F.col(CLAUSE) == i, value).otherwise(found)
    return found


__all__ = ["TWICE", "changed_rows", "source_frame"]
