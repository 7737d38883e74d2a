"""CREATE and DROP of databases, tables and views, by the methods of `Warehouse` and `Table`.

Types are Spark's: TIMESTAMP is a point in time. Properties are options by Paimon's names; ``primary-key`` and
``comment`` among them are the key and the comment.

Clauses: WH-14, WH-51.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pktable_spec.errors import CommitUnknownError, InvalidRequestError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from pktable.run.spark.types import expect_distinct
from pktable.spark_sql.queries import Queries
from pktable.spark_sql.rows import aligned, outcome
from pktable.sql.names import BY_PATH, Found, View
from pktable.sql.references import NotUnderstoodError, references, selecting
from pktable.sql.words import Words
from pktable.table import Table
from pktable.warehouse import Warehouse

PROVIDERS: Final = ("paimon", BY_PATH)
NUMBER_OR_FLAG: Final = re.compile(r"[+-]?\s*[\d.]+\w*|true|false", re.I)
KEY, COMMENT, PARTITION = "primary-key", "comment", "partition"


def create(queries: Queries, words: Words, args: Any) -> DataFrame | None:
    """Carry out a CREATE of a database, a table or a view; None if it is about none of ours. Clauses: WH-14."""
    words.expect("CREATE")
    replaces = words.take("OR", "REPLACE")
    is_global = words.take("GLOBAL")  # which outlives a session, as nothing of it does
    temporary = words.any_of("TEMPORARY", "TEMP") is not None and not is_global
    kind = words.any_of("DATABASE", "SCHEMA", "NAMESPACE", "TABLE", "VIEW")
    if kind == "VIEW":
        return _create_view(queries, words, args, replaces=replaces, temporary=temporary)
    if kind is None or temporary or is_global or (replaces and kind != "TABLE"):
        return None
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    if kind == "TABLE":
        return _create_table(queries, words, args, replaces=replaces, if_not_exists=if_not_exists)
    name = _database(queries, words)
    words.expect_end()
    queries.names.warehouse.create_database(name, if_not_exists=if_not_exists)
    return nothing(queries)


def _create_view(
    queries: Queries, words: Words, args: Any, *, replaces: bool, temporary: bool
) -> DataFrame | None:
    """Keep a query under a name; None if it names no table of ours. It is read again at each use."""
    name = words.name()
    at = words.at  # what is between the name and AS is not kept
    if words.sees("("):
        words.group()
    words.until("AS")
    plain = words.at == at
    if not words.take("AS"):
        return None
    query = selecting(words.rest())
    views = queries.names.views
    try:
        names = [one.parts for one in references(query)]
    except NotUnderstoodError as problem:
        queries.expect_none_of_ours(Words.of(query), f"it is not understood ({problem})")
        names = []
    key = name.parts[-1].lower()
    ours = [
        parts
        for parts in names
        if (len(parts) == 1 and parts[0].lower() in views) or queries.names.find(parts) is not None
    ]
    if not ours and (key not in views or not temporary):
        return None
    if ours and (not temporary or len(name.parts) > 1 or not plain or args):
        raise InvalidRequestError(
            f"CREATE VIEW {name}: expected CREATE TEMPORARY VIEW name AS a query without parameters, because a view of "
            "our tables lives as long as this session"
        )
    if key in views and not replaces:
        raise InvalidRequestError(f"CREATE VIEW {name}: it is there already; write CREATE OR REPLACE")
    if not ours:
        result = queries.spark.sql(words.text, args)
        del views[key]
        return result
    if queries.names.find(name.parts) is not None:
        raise InvalidRequestError(f"CREATE VIEW {name}: a table has this name; give the view another one")
    if any(parts[-1].lower() == key and len(parts) == 1 for parts in ours):
        raise InvalidRequestError(
            f"CREATE VIEW {name}: its query names {name} itself; give the view another name"
        )
    former = views.pop(key, None)  # its query may name no view that names it
    try:
        queries.frame(query)  # says now what is wrong with it
    except BaseException:
        if former is not None:
            views[key] = former
        raise
    views[key] = View(query, queries.names.database)
    return nothing(queries)


def _create_table(
    queries: Queries, words: Words, args: Any, *, replaces: bool, if_not_exists: bool
) -> DataFrame | None:
    name = words.name()
    place = queries.names.place(name.parts)
    columns: list[Words] | None = words.group() if words.sees("(") else None
    options: dict[str, str] = {}
    partition: list[str] = []
    comment, query = "", None
    clauses: list[str] = []
    while (word := words.peek()) is not None:
        clause = "TBLPROPERTIES" if word.upper == "OPTIONS" else word.upper
        if clause in clauses:
            raise InvalidRequestError(f"CREATE TABLE {name}: {word.upper} is given twice")
        clauses.append(clause)
        if words.take("USING"):
            provider = str(words.name())
            if provider.lower() not in PROVIDERS:
                return None
        elif words.take("PARTITIONED", "BY"):
            partition = [_one_name(part, "PARTITIONED BY") for part in words.group()]
            if not partition:
                raise InvalidRequestError(f"CREATE TABLE {name}: expected columns after PARTITIONED BY")
        elif words.any_of("TBLPROPERTIES", "OPTIONS"):
            options |= properties(words)
        elif words.take("COMMENT"):
            comment = words.string()
        elif words.take("AS") or words.sees("SELECT") or words.sees("WITH"):
            query = words.query()
        else:
            raise words.problem("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES or AS")
    if place is None or not place.database or place.metadata is not None:
        raise InvalidRequestError(f"CREATE TABLE {name}: expected a name such as database.table")
    if replaces:
        raise InvalidRequestError("CREATE OR REPLACE TABLE: not supported; DROP the table, and CREATE it")
    warehouse = queries.names.warehouse
    if if_not_exists and warehouse.has_table(place.name):
        return nothing(queries)
    if (columns is None) == (query is None):
        raise InvalidRequestError("CREATE TABLE: expected either columns, or AS and a query")
    if doubled := [
        one for one, given in ((PARTITION, partition), (COMMENT, comment)) if given and one in options
    ]:
        raise InvalidRequestError(f"CREATE TABLE {name}: {doubled[0]} is given by a clause and by a property")
    rows = None if query is None else queries.frame(query, args)
    if rows is None:
        struct = struct_of(", ".join(part.written for part in columns or ()))
        # Only the first part is looked at: another one may be a part of a type that has commas.
        if not columns or columns[0].name().parts != (struct.names[0],) or columns[0].sees(":"):
            raise InvalidRequestError(
                f"CREATE TABLE {name}: expected columns, each with its name and its type"
            )
    else:
        struct = StructType([StructField(field.name, field.dataType) for field in rows.schema])
    table = define(warehouse, place.name, struct, options, partition, comment)
    if rows is None:
        return nothing(queries)
    try:
        values = aligned(rows, table.schema, None, {}, by_name=False)
        result = table.put(values)
    except CommitUnknownError:  # it may have its rows
        raise
    except BaseException:
        undo(warehouse, place.name, table)
        raise
    effect = None if result is None else result.effect
    put = 0 if result is None else None if effect is None else effect.put
    return outcome(queries, result, num_affected_rows=put, num_inserted_rows=put)


def define(
    warehouse: Warehouse,
    name: str,
    struct: StructType,
    given: Mapping[str, str],
    partition: Sequence[str] = (),
    comment: str = "",
) -> Table:
    """Make a table of columns and the properties ``given``. Raises as `Warehouse.create_table`. Clauses: WH-14."""
    options = dict(given)
    expect_distinct(struct.names)
    return warehouse.create_table(
        name,
        struct,
        primary_key=_names(options.pop(KEY, "")),
        partition_by=partition or _names(options.pop(PARTITION, "")),
        options=options,
        comment=options.pop(COMMENT, "") or comment,
    )


def undo(warehouse: Warehouse, name: str, table: Table) -> None:
    """Drop the ``table`` of a CREATE TABLE … AS SELECT that has failed.

    One that has rows by now stays, and so does another that has taken its place. Clauses: WH-51.
    """
    with contextlib.suppress(InvalidRequestError):
        if not table.snapshots():
            warehouse.drop_table(name)


def drop(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a DROP of a database, a table or a view; None if it is none of ours. Clauses: WH-14."""
    words.expect("DROP")
    warehouse = queries.names.warehouse
    kind = words.any_of("DATABASE", "SCHEMA", "NAMESPACE", "TABLE", "VIEW")
    if kind is None:
        return None
    if_exists = words.take("IF", "EXISTS")
    if kind == "VIEW":
        key = str(words.name()).lower()
        if key not in queries.names.views:
            return None
        words.expect_end()
        del queries.names.views[key]
        return nothing(queries)
    if kind == "TABLE":
        parts = words.name().parts
        place = queries.names.place(parts)
        words.take("PURGE")
        words.expect_end()
        found = queries.names.find(parts) if not if_exists or _is_there(queries, place) else None
        if found is None:
            if if_exists and place is not None and len(parts) == 3:
                return nothing(queries)
            return None
        if not found.database or found.metadata is not None or found.branch is not None:
            raise InvalidRequestError(f"DROP TABLE {'.'.join(parts)}: expected a name such as database.table")
        warehouse.drop_table(found.name)
        return nothing(queries)
    database = _database(queries, words)
    cascade = words.any_of("CASCADE", "RESTRICT") == "CASCADE"
    words.expect_end()
    if database not in warehouse.databases() and queries.names.is_sparks_database(database):
        return None
    warehouse.drop_database(database, cascade=cascade, if_exists=if_exists)
    return nothing(queries)


def _is_there(queries: Queries, place: Found | None) -> bool:
    return place is not None and bool(place.database) and queries.names.warehouse.has_table(place.name)


def properties(words: Words) -> dict[str, str]:
    """Read ``('name' = 'value', …)``. Raises InvalidRequestError."""
    found: dict[str, str] = {}
    for part in words.group():
        name = property_name(part)
        part.take("=")
        if name in found:
            raise InvalidRequestError(f"property {name}: given twice")
        word = part.peek()
        found[name] = part.string() if word and word.is_text else part.constant()
        part.expect_end()
        if word and not word.is_text and not NUMBER_OR_FLAG.fullmatch(found[name]):
            raise InvalidRequestError(f"property {name}: expected a text in quotes, found {found[name]}")
    return found


def property_name(words: Words) -> str:
    """Read the name of a property: a text, or such as deletion-vectors.enabled. Raises InvalidRequestError."""
    word = words.peek()
    if word is not None and word.is_text:
        return words.string()
    name = words.until("=")
    if not re.fullmatch(r"[\w.-]+", name):
        raise InvalidRequestError(f"property {name}: expected a name without blanks, or a text in quotes")
    return name


def struct_of(text: str) -> StructType:
    """Return columns as Spark reads them. Raises InvalidRequestError, also for a default or a computed column."""
    try:
        return StructType.fromDDL(text)
    except PySparkException as error:
        raise InvalidRequestError(f"columns {text!r}: {str(error).strip().partition(chr(10))[0]}") from None


def plain(struct: StructType) -> StructType:
    """Return columns that have types and comments only. Raises InvalidRequestError for others. Clauses: WH-14."""
    for field in struct:
        others = [name for name in field.metadata if name != "comment"]
        if others:
            raise InvalidRequestError(f"column {field.name}: {', '.join(others)} is not supported")
    return struct


def _database(queries: Queries, words: Words) -> str:
    """Read the name of a database, with the catalog before it or without. Raises InvalidRequestError."""
    name = words.name()
    if len(name.parts) == 2 and queries.names.is_catalog(name.parts[0]):
        return name.parts[1]
    if len(name.parts) > 1:
        raise InvalidRequestError(f"database {name}: expected a name, or {queries.names.catalog} and a name")
    return name.parts[0]


def _one_name(words: Words, what: str) -> str:
    name = one_part(words)
    if words.peek() is not None:
        raise InvalidRequestError(f"{what} {words.written}: expected the name of a column of the table")
    return name


def one_part(words: Words) -> str:
    name = words.name()
    if len(name.parts) > 1:
        raise InvalidRequestError(f"column {name}: columns inside of columns cannot be changed")
    return name.parts[0]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if text.strip() and not all(names):
        raise InvalidRequestError(f"{text!r}: expected names of columns with commas between them")
    return [name for name in names if name]


def nothing(queries: Queries) -> DataFrame:
    """Return the result of a statement that gives no rows, as Spark does: no rows, no columns."""
    return queries.spark.createDataFrame([], StructType([]))
