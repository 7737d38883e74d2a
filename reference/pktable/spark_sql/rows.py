"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE: their parts are found by words, and the methods of `Table` do the work.

Clauses: WH-8, WH-12, WH-13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pktable.catalog.effects import Result
from pktable.format.metadata.schema import TableSchema
from pktable.predicate import parse
from pktable.run.spark.assignment import assigned
from pktable.run.spark.session import in_ansi_mode, words_of
from pktable.run.spark.types import spark_schema
from pktable.run.spark.wire import frame_of_rows
from pktable.spark_sql.queries import Queries
from pktable.sql.names import Found
from pktable.sql.references import read_travel
from pktable.sql.words import QUERIES, Name, Words, has_parameters, quoted
from pktable.table import Table

COUNTS: Final = ("num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows")
BEGINS: Final = ("SELECT", "VALUES", "FROM")
OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


def outcome(queries: Queries, result: Result | None, **known: int | None) -> DataFrame:
    """Return the result of a statement: one row with `COUNTS`, null if unknown, and the snapshot.

    ``known``: counts that are known otherwise. Clauses: WH-12.
    """
    counts: dict[str, int | None] = dict.fromkeys(COUNTS, 0 if result is None else None)
    if result is not None and (effect := result.effect) is not None:
        kinds = (effect.inserted, effect.updated, effect.deleted)
        given = (kinds[0], kinds[1]) if None not in kinds[:2] else (effect.put, 0)
        total = None if kinds[2] is None else sum(one or 0 for one in (*given, kinds[2]))
        counts = dict(zip(COUNTS, (total, *kinds), strict=True))
    counts |= known
    columns = ", ".join(f"{name} BIGINT" for name in (*COUNTS, "snapshot_id"))
    snapshot = None if result is None else int(result)
    return frame_of_rows(queries.spark, columns, [(*(counts[name] for name in COUNTS), snapshot)])


def names_parameters(words: Words) -> bool:
    """Return whether the rows that an INSERT replaces, or their partition, depend on a parameter of the statement."""
    cursor = Words(words.text, words.words)
    cursor.until("INSERT")
    cursor.until("PARTITION", "REPLACE", *BEGINS)
    begin = cursor.at
    cursor.until(*BEGINS)
    return has_parameters(words.words[begin : cursor.at])


def insert(queries: Queries, words: Words, args: Any, ctes: str = "") -> DataFrame | None:
    """Carry out an INSERT; None if its table is none of ours. ``ctes``: the WITH before it. Clauses: WH-13."""
    words.expect("INSERT")
    into = words.any_of("INTO", "OVERWRITE")
    replaces = into == "OVERWRITE"
    words.take("TABLE")
    found = _found(queries, words.name().parts)
    if found is None:
        return None
    if into is None:
        raise InvalidRequestError(
            f"INSERT {found.name}: expected INTO or OVERWRITE before the name of the table"
        )
    table = _target(queries, found)
    given = _partition(queries, words, table.schema) if words.take("PARTITION") else {}
    fixed = {name: text for name, text in given.items() if text is not None}
    if words.sees("IF"):
        raise InvalidRequestError(
            "INSERT: IF NOT EXISTS is not supported; delete or keep the partition first"
        )
    where = None
    if words.take("REPLACE"):
        words.expect("WHERE")
        if replaces or given:
            raise InvalidRequestError("INSERT: REPLACE WHERE goes with INTO, and without PARTITION")
        where = words.until(*QUERIES[:-1])
        expect_same_words(queries, table.schema, where, "REPLACE WHERE")
    by_name = words.take("BY", "NAME")
    columns = None
    following = words.peek(1)
    if words.sees("(") and (following is None or following.upper not in QUERIES):
        if by_name:
            raise words.problem("a query after BY NAME")
        columns = [column_named(table.schema, part.whole_name()) for part in words.group()]
    overwrites = replaces or where is not None
    with queries.reading_all(found if overwrites else None):
        rows = queries.frame(ctes + words.query(), args)
    rows = aligned(rows, table.schema, columns, fixed, by_name=by_name)
    dynamic = replaces and len(fixed) < len(table.schema.partition_keys) and _is_dynamic(queries)
    if replaces and fixed and not dynamic:
        where = where_partition(fixed)
    result = table.overwrite(rows, where=where, dynamic=dynamic) if overwrites else table.put(rows)
    effect = None if result is None else result.effect
    known = {} if effect is None else {"num_affected_rows": effect.put}
    return outcome(queries, result, **known)


def _is_dynamic(queries: Queries) -> bool:
    return str(queries.spark.conf.get(OVERWRITE_MODE, "static")).lower() == "dynamic"


def expect_same_words(queries: Queries, schema: TableSchema, where: str, what: str) -> None:
    """Raise InvalidRequestError if the session may read a condition otherwise than is done here. Clauses: WH-8."""
    predicate = parse(where, schema.fields)
    if words_of(queries.spark).differ(where, predicate.root):
        raise InvalidRequestError(
            f"{what} {where}: it is read in UTC and with Spark's default settings for text, and this session has "
            "others; reset those first"
        )


def _partition(queries: Queries, words: Words, schema: TableSchema) -> dict[str, str | None]:
    """Read ``(name = value, name, …)``; return each value as SQL, by column. Raises InvalidRequestError."""
    given: dict[str, str | None] = {}
    for part in words.group():
        name = column_named(schema, part.name())
        if name not in schema.partition_keys:
            raise InvalidRequestError(
                f"PARTITION: {name} is no partition column; those are {', '.join(schema.partition_keys) or 'none'}"
            )
        if name in given:
            raise InvalidRequestError(f"PARTITION: column {name} is given twice")
        given[name] = queries.constant(part.constant(), schema.field(name)) if part.take("=") else None
        part.expect_end()
    if not given:
        raise InvalidRequestError("PARTITION: expected columns, found none")
    return given


def read_partition(queries: Queries, words: Words, schema: TableSchema) -> dict[str, str]:
    """Read ``(name = value, …)``; return each value as SQL, by column. Raises InvalidRequestError."""
    given = _partition(queries, words, schema)
    open_ = [name for name, text in given.items() if text is None]
    if open_ or not given:
        raise InvalidRequestError(
            f"PARTITION: expected a value for {', '.join(open_) or 'each column'}, found none"
        )
    return {name: text for name, text in given.items() if text is not None}


def where_partition(fixed: Mapping[str, str]) -> str:
    """Return the condition that holds for the rows of a partition. Clauses: WH-20."""
    return " AND ".join(f"{quoted(name)} <=> {text}" for name, text in fixed.items())


def aligned(
    rows: DataFrame,
    schema: TableSchema,
    columns: Sequence[str] | None,
    fixed: Mapping[str, str],
    *,
    by_name: bool,
) -> DataFrame:
    """Return ``rows`` with the columns of the table, in the types that Spark's assignment gives; null if not given.

    ``columns``: the table's columns that those of ``rows`` stand for, None for all in order. ``fixed``: the text of a
    value for others. Raises InvalidRequestError. Clauses: WH-13.
    """
    names = list(schema.value_names)
    if by_name:
        given = [column_of(schema, name) for name in rows.columns]
    else:
        given = list(columns) if columns is not None else [name for name in names if name not in fixed]
        if len(rows.columns) != len(given):
            raise InvalidRequestError(
                f"INSERT: expected {len(given)} columns ({', '.join(given)}), found {len(rows.columns)}"
            )
    if len(set(given)) != len(given) or set(given) & set(fixed):
        raise InvalidRequestError(f"INSERT: expected each column once, found {', '.join([*given, *fixed])}")
    rows = rows.toDF(*given)
    for name, text in fixed.items():
        rows = rows.withColumn(name, F.expr(text))
    values, can_fail = [], False
    for found in spark_schema(schema.fields):
        if found.name not in rows.columns:
            values.append(F.lit(None).cast(found.dataType).alias(found.name))
            continue
        value, given_type = F.col(quoted(found.name)), rows.schema[found.name].dataType
        stored, fails = assigned(value, given_type, found.dataType, by_name=by_name)
        can_fail |= fails
        values.append(stored.alias(found.name))
    with in_ansi_mode(rows.sparkSession, can_fail=can_fail):  # Spark's assignment fails in either mode
        return rows.select(*values)


def update(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out an UPDATE; None if its table is none of ours. Clauses: WH-8, WH-12."""
    words.expect("UPDATE")
    named = _named(queries, words, but="SET")
    if named is None:
        return None
    found, table, alias = named
    words.expect("SET")
    given = _assignments(words, table.schema, (alias,), "WHERE")
    where = words.rest() if words.take("WHERE") else None
    words.expect_end()
    with queries.aside(found, table) as replaced:
        values = {column: replaced(text) for column, text in given.items()}
        result = table.update(
            values, where=None if where is None else replaced(where), alias=alias, by_spark=True
        )
    return outcome(queries, result)


def delete(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a DELETE; None if its table is none of ours. Clauses: WH-8, WH-12."""
    words.expect("DELETE", "FROM")
    named = _named(queries, words, but="WHERE")
    if named is None:
        return None
    found, table, alias = named
    if not words.take("WHERE"):
        words.expect_end()
        return _truncated(queries, table)
    where = words.rest()
    with queries.aside(found, table) as replaced:
        result = table.delete(where=replaced(where), alias=alias, by_spark=True)
    return outcome(queries, result)


def truncate(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a TRUNCATE TABLE; None if its table is none of ours."""
    words.expect("TRUNCATE", "TABLE")
    found = _found(queries, words.name().parts)
    if found is None:
        return None
    table = _target(queries, found)
    if words.take("PARTITION"):
        where = where_partition(read_partition(queries, words, table.schema))
        words.expect_end()
        return outcome(queries, table.truncate(where=where))
    words.expect_end()
    return _truncated(queries, table)


def _truncated(queries: Queries, table: Table) -> DataFrame:
    snapshot = table.truncate()
    count: int | None = None
    with contextlib.suppress(SnapshotNotFoundError):  # it expired since
        # All that a fresh read of the snapshot before shows; counting it costs metadata, or a merge.
        count = table.count(snapshot=snapshot - 1, fresh=True) if snapshot is not None else 0
    return outcome(queries, snapshot, num_affected_rows=count, num_deleted_rows=count)


def merge(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a MERGE; None if its table is none of ours. Clauses: WH-8, WH-12."""
    words.expect("MERGE")
    if words.take("WITH"):
        words.expect("SCHEMA", "EVOLUTION")
        raise InvalidRequestError("MERGE WITH SCHEMA EVOLUTION: not supported; ALTER the table before")
    words.expect("INTO")
    named = _named(queries, words, but="USING")
    if named is None:
        return None
    found, table, alias = named
    words.expect("USING")
    source_name: Name | None = None
    begin = words.at
    if words.sees("("):
        words.group()
    else:
        source_name = words.name()
        read_travel(words)
    source_text = Words(words.text, words.words[begin : words.at]).written
    aliased = words.alias(but=("ON",))
    other = aliased or (source_name.parts[-1] if source_name else "source")
    if aliased and words.sees("("):
        columns = ", ".join(part.written for part in words.group())
        source_text = f"{source_text} AS {quoted(aliased)}({columns})"
    words.expect("ON")
    on = words.until("WHEN")

    def source() -> DataFrame:
        with queries.reading_all(found):
            return queries.frame(f"SELECT * FROM {source_text}")

    with queries.aside(found, table, source) as replaced:
        builder = table.merge(source(), replaced(on), source_alias=other, target_alias=alias, by_spark=True)
        while words.take("WHEN"):
            builder = _with_clause(builder, words, table.schema, (alias, other), replaced)
        words.expect_end()
        result = builder.execute()
    return outcome(queries, result)


def _with_clause(
    builder: Any,
    words: Words,
    schema: TableSchema,
    aliases: tuple[str, str],
    replaced: Callable[[str], str],
) -> Any:
    """Read a clause after WHEN, and return ``builder`` with it."""
    negated = words.take("NOT")
    words.expect("MATCHED")
    by_source = negated and words.take("BY", "SOURCE")
    if negated and not by_source:
        words.take("BY", "TARGET")
    condition = replaced(words.until("THEN")) if words.take("AND") else None
    words.expect("THEN")
    action = words.any_of("UPDATE", "DELETE", "INSERT")
    if action is None or (action == "INSERT") != (negated and not by_source):
        raise words.problem("INSERT" if negated and not by_source else "UPDATE or DELETE")
    which = "not_matched_by_source" if by_source else "not_matched" if negated else "matched"
    if action == "DELETE":
        return getattr(builder, f"when_{which}_delete")(condition)
    if action == "UPDATE":
        words.expect("SET")
        if words.take("*"):
            if by_source:
                raise InvalidRequestError("MERGE: UPDATE SET * has no source row in NOT MATCHED BY SOURCE")
            return builder.when_matched_update_all(condition)
        given = _assignments(words, schema, aliases[:1], "WHEN")
    else:
        if words.take("*"):
            return builder.when_not_matched_insert_all(condition)
        columns = [column_named(schema, part.whole_name(), aliases[0]) for part in words.group()]
        if len(set(columns)) != len(columns):
            raise InvalidRequestError(f"MERGE: expected each column once, found {', '.join(columns)}")
        words.expect("VALUES")
        values = [part.written for part in words.group()]
        if len(values) != len(columns):
            raise InvalidRequestError(f"MERGE: expected {len(columns)} values, found {len(values)}")
        given = dict(zip(columns, values, strict=True))
    texts = {name: replaced(text) for name, text in given.items()}
    return getattr(builder, f"when_{which}_{action.lower()}")(texts, condition)


def _assignments(words: Words, schema: TableSchema, aliases: Sequence[str], end: str) -> dict[str, str]:
    """Read ``name = value, …`` up to the keyword ``end``. Raises InvalidRequestError."""
    given: dict[str, str] = {}
    for part in words.parts(end):
        column = column_named(schema, part.name(), *aliases)
        part.expect("=")
        if column in given:
            raise InvalidRequestError(f"SET: column {column} is given twice")
        given[column] = part.rest()
        if not given[column]:
            raise part.problem("a value")
    return given


def column_named(schema: TableSchema, name: Name, *aliases: str) -> str:
    """Return the column that a name means, with one of ``aliases`` before it or none. Raises InvalidRequestError."""
    *before, last = name.parts
    if before and (len(before) > 1 or before[0].lower() not in {alias.lower() for alias in aliases}):
        raise InvalidRequestError(
            f"column {name} is not in the table, and a field inside of a column cannot be given alone; columns are "
            f"{', '.join(schema.value_names)}"
        )
    return column_of(schema, last)


def column_of(schema: TableSchema, plain: str) -> str:
    """Return the column of a name in SQL, where letter case does not count. Raises InvalidRequestError."""
    if plain in schema.value_names:
        return plain
    same = [one for one in schema.value_names if one.lower() == plain.lower()]
    if len(same) != 1:
        why = "it may be several" if same else f"columns are {', '.join(schema.value_names)}"
        raise InvalidRequestError(f"column {plain} is not in the table; {why}")
    return same[0]


def _named(queries: Queries, words: Words, *, but: str) -> tuple[Found, Table, str] | None:
    """Return the table that is named, opened, with its alias or name; None for another table than ours.

    ``but``: the word after it.
    """
    name = words.name()
    found = _found(queries, name.parts)
    if found is None:
        return None
    alias = words.alias(but=(but,)) or name.parts[-1]
    return found, _target(queries, found), alias


def _found(queries: Queries, parts: Sequence[str]) -> Found | None:
    """Return the table of a name, None if it is none of ours. Raises InvalidRequestError for a view of this session."""
    if len(parts) == 1 and parts[0].lower() in queries.names.views:
        raise InvalidRequestError(
            f"{parts[0]}: a temporary view cannot be changed; name the table in its query"
        )
    return queries.names.find(parts)


def _target(queries: Queries, found: Found) -> Table:
    if found.metadata is not None:
        raise InvalidRequestError(f"{found.name}${found.metadata}: a metadata table cannot be changed")
    return queries.names.open(found)
