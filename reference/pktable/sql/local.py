"""Queries without Spark: DuckDB computes them over Arrow tables, of the columns that the query names.

The text is Spark's SQL. Its tables become names that DuckDB knows, and sqlglot translates the rest to DuckDB's dialect.
What cannot be translated is refused. Statements other than queries need Spark.

Clauses: WH-16.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlglot
from pktable_spec.errors import InvalidRequestError
from sqlglot import errors, exp

from pktable.bucket.changes import ROW_KIND
from pktable.catalog.as_of import millis_of
from pktable.metadata_tables import expect_name
from pktable.sql.changes import CHANGE_TYPE, CHANGE_TYPES, changes_of
from pktable.sql.names import Found, Names
from pktable.sql.references import NotUnderstoodError, Reference, Travel, references, selecting
from pktable.sql.words import Words, quoted
from pktable.store.directories import DEFAULT

if TYPE_CHECKING:
    from pktable.warehouse import Warehouse

QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "(")
CATALOG: Final = "paimon"
TABLE: Final = "__pktable_"
"""How the names begin under which DuckDB finds the tables of a query."""
OF_SPARK: Final = frozenset({"range", "explode", "explode_outer", "posexplode", "stack", "inline"})
"""Functions in place of a table that Spark has, too."""
COUNTED_OTHERWISE: Final = frozenset({"dayofweek", "weekday", "dow", "dayofweek_iso", "isodow"})
"""Days of the week, which DuckDB counts from another one."""


def query(warehouse: Warehouse, text: str, *, database: str = DEFAULT) -> pa.Table:
    """Return the rows of a query on the tables of a warehouse. ``database``: of names without one.

    Raises InvalidRequestError, also if DuckDB is not installed, SnapshotNotFoundError and CorruptFileError.
    Clauses: WH-16.
    """
    names = Names(warehouse, CATALOG, lambda _: False, lambda _: False)
    if database != DEFAULT:
        warehouse.tables(database)  # says what there is
    names.database = database
    words = Words.of(selecting(text))
    if words.first.upper() not in QUERIES:
        raise InvalidRequestError(
            f"sql: {words.first.upper()} needs Spark, only queries do without; add --spark"
        )
    try:
        found = references(words.text)
    except NotUnderstoodError as problem:
        raise InvalidRequestError(f"sql: the query is not understood: {problem}") from None
    out, at = [], 0
    for number, one in enumerate(found):
        sample = "" if one.alias_at is None else words.text[one.end + 1 : one.alias_at]
        alias = "" if one.alias_at is None else f" AS {quoted(one.parts[-1])}"
        out += [words.text[at : one.start], f"{TABLE}{number}", sample, alias]
        at = one.end + 1 + len(sample)
    tree = _tree("".join(out) + words.text[at:])
    translated, needed = _in_duckdbs_words(tree), _names_in(tree)
    tables = {
        f"{TABLE}{number}": _rows(names, names.find(one.parts) or names.expect(one.parts), one, needed)
        for number, one in enumerate(found)
    }
    return _computed(translated, tables)


def _rows(names: Names, found: Found, reference: Reference, needed: set[str] | None) -> pa.Table:
    """Return the rows of a table, with the columns ``needed`` (in small letters); None for all."""
    if found.metadata is not None:
        expect_name(found.metadata)
    table, travel = names.open(found), reference.travel
    if reference.changes is not None and found.metadata is None:
        changes = changes_of(table, reference.changes).to_arrow()
        kinds = [CHANGE_TYPES[kind] for kind in changes.column(ROW_KIND).to_pylist()]
        return changes.set_column(0, CHANGE_TYPE, pa.array(kinds, pa.string()))
    as_of: Mapping[str, Any] = {} if travel is None else _as_of(table.catalog.snapshots.tags(), travel)
    if found.metadata is not None:
        rows: pa.Table = table.metadata(found.metadata, **as_of)
        return rows
    if needed is None or as_of:  # a version may have had other columns
        return table.to_arrow(**as_of)
    columns = [name for name in table.columns if name.lower() in needed]
    return table.to_arrow(columns=columns or list(table.columns)[:1])  # rows of no column cannot be counted


def _as_of(tags: list[str], travel: Travel) -> dict[str, Any]:
    if travel.word is None or not (travel.word.is_text or travel.word.text.isdecimal()):
        raise InvalidRequestError(f"sql: AS OF {travel.value}: without Spark only a literal is understood")
    text = travel.word.text
    if not travel.is_version:
        return {
            "timestamp": int(text) * 1000 if not travel.word.is_text else millis_of(text.replace(" ", "T"))
        }
    return {"tag": text} if text in tags or not text.isdecimal() else {"snapshot": int(text)}


def _tree(text: str) -> exp.Expression:
    with _refusals():
        tree = sqlglot.parse_one(text, read="spark")
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidRequestError("sql: only queries do without Spark; add --spark")
    _expect_alike(tree)
    return tree


def _expect_alike(tree: exp.Expression) -> None:
    """Raise InvalidRequestError for what DuckDB computes otherwise than Spark, or reads from files. Clauses: WH-16."""
    for one in tree.find_all(exp.Table):
        name = "read_csv" if isinstance(one.this, exp.ReadCSV) else ""
        name = one.this.name.lower() if isinstance(one.this, exp.Anonymous) else name
        if name and name not in OF_SPARK:
            raise InvalidRequestError(f"sql: {name}(…): no function of Spark in place of a table")
    for found in tree.find_all(exp.DayOfWeek, exp.Anonymous, exp.Extract):
        name = "dayofweek" if isinstance(found, exp.DayOfWeek) else found.name.lower()
        if name in COUNTED_OTHERWISE:
            raise InvalidRequestError(f"sql: {name}: DuckDB counts the days of a week otherwise; add --spark")


def _in_duckdbs_words(tree: exp.Expression) -> str:
    with _refusals():
        return str(tree.sql("duckdb", unsupported_level=errors.ErrorLevel.RAISE))


def _names_in(tree: exp.Expression) -> set[str] | None:
    """Return all names in a query in small letters, None if it may mean columns that it does not name."""
    stars = [one for one in tree.find_all(exp.Star) if not isinstance(one.parent, exp.Count)]
    natural = any(str(one.args.get("method") or "").upper() == "NATURAL" for one in tree.find_all(exp.Join))
    tables = {one.alias_or_name.lower() for one in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    whole = any(one.name.lower() in tables for one in tree.find_all(exp.Column))  # a row as one value
    if stars or natural or whole:
        return None
    return {one.name.lower() for one in tree.find_all(exp.Identifier)}


def _computed(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InvalidRequestError(
            "sql: queries without Spark are computed by DuckDB, which is not installed; "
            "install it with: pip install 'pktable[sql]', or add --spark"
        ) from None
    with duckdb.connect() as connection:
        # Otherwise a name that is unknown could be that of a variable here.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        try:
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise InvalidRequestError(f"sql: {' '.join(str(error).split())}") from None


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn an error of sqlglot's into ours, and keep it from logging it as well."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    except (errors.SqlglotError, RecursionError) as error:
        problem = str(error).partition("\n")[0]
        raise InvalidRequestError(f"sql: {problem}; DuckDB cannot compute it, add --spark") from None
    finally:
        logger.disabled = before
