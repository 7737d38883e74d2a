"""SHOW, DESCRIBE and USE, with the columns that Spark gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame

from pktable.format.paths import partition_path
from pktable.format.types import DataType, Field
from pktable.predicate.tree import Literal
from pktable.run.spark.types import spark_schema, spark_type
from pktable.run.spark.wire import frame_of_rows
from pktable.spark_sql.queries import Queries
from pktable.spark_sql.rows import read_partition
from pktable.sql.names import Found
from pktable.sql.words import Words, quoted, text_literal
from pktable.statements.names import Names
from pktable.statements.plan import TARGET
from pktable.store.directories import DEFAULT
from pktable.table import Table

DATABASES = ("DATABASES", "SCHEMAS", "NAMESPACES")
LIMITED = ("CHAR", "VARCHAR")
"""Types with a longest length, which those of a DataFrame have not."""


def show(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a SHOW; None if it is about none of ours. Clauses: WH-14."""
    words.expect("SHOW")
    names = queries.names
    if words.any_of(*DATABASES):
        if words.any_of("IN", "FROM") and not names.is_catalog(str(words.name())):
            return None
        there = sorted({DEFAULT, *names.warehouse.databases()})  # it is made when it is needed
        return frame_of_rows(queries.spark, "namespace STRING", [(one,) for one in _like(words, there)])
    if words.take("TABLES"):
        database = names.database
        if words.any_of("IN", "FROM"):
            given = words.name().parts
            if len(given) > 2 or (len(given) == 2 and not names.is_catalog(given[0])):
                return None
            if given[-1] not in names.warehouse.databases() and names.is_sparks_database(".".join(given)):
                return None
            database = given[-1]
        there = names.warehouse.tables(database) if database in names.warehouse.databases() else []
        if not there and database != DEFAULT:
            there = names.warehouse.tables(database)  # says what there is
        listed = [(database, one, False) for one in _like(words, there)]
        return frame_of_rows(queries.spark, "namespace STRING, tableName STRING, isTemporary BOOLEAN", listed)
    if words.take("VIEWS"):
        views = [("", one, True) for one in _like(words, sorted(names.views))]
        return frame_of_rows(queries.spark, "namespace STRING, viewName STRING, isTemporary BOOLEAN", views)
    if words.take("CREATE", "TABLE"):
        table = _named(queries, words)
        return table and frame_of_rows(queries.spark, "createtab_stmt STRING", [(definition(*table),)])
    if words.take("PARTITIONS"):
        table = _named(queries, words, ends=False)
        if table is None:
            return None
        if not table[1].schema.partition_keys:
            raise InvalidRequestError(f"SHOW PARTITIONS: {table[0].name} has no partitions")
        found = table[1].metadata("partitions").column("partition").to_pylist()
        if words.take("PARTITION"):
            values = read_partition(queries, words, table[1].schema)
            shown = {_directory(table[1], name, text) for name, text in values.items()}
            found = [one for one in found if shown <= set(one.split("/"))]
        words.expect_end()
        return frame_of_rows(queries.spark, "partition STRING", [(one,) for one in found])
    if words.take("COLUMNS"):
        words.any_of("IN", "FROM")
        table = _named(queries, words)
        return table and frame_of_rows(queries.spark, "column STRING", [(one,) for one in table[1].columns])
    if words.take("TBLPROPERTIES"):
        table = _named(queries, words, ends=False)
        if table is None:
            return None
        options = sorted(table[1].options.items())
        if words.sees("("):
            wanted = [part.written.strip("'\"") for part in words.group()]
            options = [(name, value) for name, value in options if name in wanted]
        words.expect_end()
        return frame_of_rows(queries.spark, "key STRING, value STRING", options)
    if words.take("TAGS"):
        table = _named(queries, words)
        return table and frame_of_rows(
            queries.spark, "tag STRING", [(one,) for one in sorted(table[1].tags())]
        )
    return None


def describe(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a DESCRIBE of a table; None if it is none of ours. Clauses: WH-14."""
    words.at += 1
    if words.any_of("QUERY", "FUNCTION", "DATABASE", "SCHEMA", "CATALOG", "HISTORY", "DETAIL"):
        words.at = 0
        return None
    words.take("TABLE")
    extended = words.any_of("EXTENDED", "FORMATTED") is not None
    found = queries.names.find(words.name().parts)
    if found is None:
        return None
    words.expect_end()
    rows: list[tuple[str, str, str | None]]
    if found.metadata is not None:
        rows = [(one.name, one.dataType.simpleString(), None) for one in queries.rows_of(found, {}).schema]
        return frame_of_rows(queries.spark, "col_name STRING, data_type STRING, comment STRING", rows)
    table = queries.names.open(found)
    schema = table.schema
    kinds = _kinds(table)
    comments = {one.name: one.description for one in schema.fields}
    rows = [(name, kind, comments[name]) for name, kind in kinds.items()]
    if schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [(name, kinds[name], comments[name]) for name in schema.partition_keys]
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        properties = ",".join(f"{name}={value}" for name, value in sorted(table.options.items()))
        details = {
            "Name": found.name,
            "Comment": schema.comment,
            "Provider": "paimon",
            "Location": table.path,
            "Primary Key": ",".join(schema.primary_keys),
            "Table Properties": f"[{properties}]",
        }
        rows += [(name, text, "") for name, text in details.items()]
    return frame_of_rows(queries.spark, "col_name STRING, data_type STRING, comment STRING", rows)


def use(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a USE; None if it names nothing of ours. Clauses: WH-10."""
    words.expect("USE")
    kind = words.any_of("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG")
    parts = words.name().parts
    words.expect_end()
    names = queries.names
    if kind == "CATALOG" and (len(parts) > 1 or not names.is_catalog(parts[0])):
        return None
    if names.is_catalog(parts[0]) and (len(parts) > 1 or kind in (None, "CATALOG")):
        parts = parts[1:] or (DEFAULT,)
        if len(parts) > 1:
            raise InvalidRequestError(f"USE {'.'.join(parts)}: expected the name of a database")
    elif len(parts) > 1 or (
        parts[0] not in (*names.warehouse.databases(), DEFAULT) and names.is_sparks_database(parts[0])
    ):
        return None
    if parts[0] != DEFAULT:
        names.warehouse.tables(parts[0])  # says what there is, if it is not there
    names.database = parts[0]
    return queries.spark.createDataFrame([], "result STRING").drop("result")


def definition(found: Found, table: Table) -> str:
    """Return the CREATE TABLE of a table. What is in an ARRAY or a MAP may be null: Spark has no words for more."""
    schema = table.schema
    spark_schema(schema.fields)  # says what this release of Spark lacks
    columns = [f"  {quoted(field.name)} {_defined(field)}" for field in schema.fields]
    options = dict(sorted(table.options.items()))
    if schema.primary_keys:
        options["primary-key"] = ",".join(schema.primary_keys)
    parts = [f"CREATE TABLE {found.name} (\n" + ",\n".join(columns) + ")", "USING paimon"]
    if schema.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, schema.partition_keys))})")
    if schema.comment:
        parts.append(f"COMMENT {text_literal(schema.comment)}")
    if options:
        pairs = (f"  {text_literal(name)} = {text_literal(value)}" for name, value in options.items())
        parts.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + ")")
    return "\n".join(parts) + "\n"


def _defined(field: Field) -> str:
    """Return what the definition of a column, or of a field of a ROW, has after its name."""
    comment = f" COMMENT {text_literal(field.description)}" if field.description else ""
    return _ddl(field.type) + ("" if field.type.nullable else " NOT NULL") + comment


def _ddl(kind: DataType) -> str:
    """Return a type as Spark's DDL has it, also what is NOT NULL in a ROW."""
    if kind.root == "ROW" and not kind.variant:
        return f"struct<{', '.join(f'{quoted(one.name)}: {_defined(one)}' for one in kind.children)}>"
    if kind.root in ("ARRAY", "MAP"):
        return f"{kind.root.lower()}<{', '.join(_ddl(one.type) for one in kind.children)}>"
    return _described(kind)


def _described(kind: DataType) -> str:
    """Return a type as Spark describes it."""
    if kind.root in LIMITED:
        return str(replace(kind, nullable=True)).lower()
    return str(spark_type(kind).simpleString())


def _kinds(table: Table) -> dict[str, str]:
    """Return the types of the columns as Spark describes them."""
    return {field.name: _described(field.type) for field in table.schema.fields}


def _named(queries: Queries, words: Words, *, ends: bool = True) -> tuple[Found, Table] | None:
    """Read the name of a table, and return it opened; None if it is none of ours."""
    parts = words.name().parts
    if queries.names.find(parts) is None:
        return None
    found = queries.names.expect(parts)
    if ends:
        words.expect_end()
    return found, queries.names.open(found)


def _directory(table: Table, name: str, text: str) -> str:
    """Return the name of the directories of a partition value, which is given as a constant of SQL."""
    context, field = table.catalog.context, table.schema.field(name)
    value = Names(table.schema.fields).value(text, field, what="PARTITION", sides=(TARGET,))
    assert isinstance(value, Literal), "it is a constant of the column's type"
    return partition_path(
        [value.value],
        [field],
        legacy_names=context.options.partition_legacy_names,
        default_name=context.options.partition_default_name,
    )


def _like(words: Words, names: Iterable[str]) -> list[str]:
    """Read LIKE and a pattern, ``*`` for any text and ``|`` for or, and return the names that are like it."""
    if not words.take("LIKE") and words.peek() is None:
        return list(names)
    patterns = words.string().split("|")
    words.expect_end()
    shapes = [
        re.compile(re.escape(one.strip()).replace(r"\*", ".*").replace("%", ".*"), re.I) for one in patterns
    ]
    return [name for name in names if any(shape.fullmatch(name) for shape in shapes)]
