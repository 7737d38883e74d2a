"""Queries without Spark: DuckDB computes them over Arrow tables, of the columns that the query names.

1. The tables are found as places in the text, with their versions (`references`), and get names of ours.
2. sqlglot parses the rest as Spark's SQL, and `query` translates the tree with all types to DuckDB's.
3. Each table is read once, and DuckDB computes.

What is not understood is refused, and so are statements other than queries.

Clauses: WH-16, WH-28.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError
from sqlglot import errors, exp

from pktable.bucket.changelog import COMMITS, ROW_KIND
from pktable.catalog.as_of import millis_of
from pktable.format.arrow_values import declared
from pktable.format.types import TIMESTAMPS, DataType, from_arrow
from pktable.format.types import to_arrow as arrow_type
from pktable.predicate.dialect import SPARK
from pktable.predicate.duckdb_sql import LETTER_CASE
from pktable.predicate.literals import general
from pktable.predicate.scope import UnknownColumnError
from pktable.scan import Scan
from pktable.sql.names import Found, Names
from pktable.sql.query import Translation
from pktable.sql.references import (
    CHANGE_TYPE,
    CHANGE_TYPES,
    NotUnderstoodError,
    Reference,
    Travel,
    changes_of,
    references,
    selecting,
    with_tables,
)
from pktable.sql.relations import Relation
from pktable.sql.words import QUERIES, Words
from pktable.store.directories import DEFAULT

if TYPE_CHECKING:
    from pktable.warehouse import Warehouse

CATALOG: Final = "paimon"
OLDEST: Final = 2
"""The first version of DuckDB whose joins know NaN."""
NO_ONE_VALUE: Final = "a column outside of aggregates is not in GROUP BY, so it has no one value in a group"
TABLE: Final = "__pktable_"
"""How the names begin under which the translation finds the tables of a query."""


BEFORE_SIGNS: Final = frozenset((
    "L_PAREN", "COMMA", "SELECT", "DISTINCT", "WHERE", "HAVING", "ON", "AND", "OR", "NOT", "CASE", "WHEN", "THEN",
    "ELSE", "BETWEEN", "IN", "VALUES", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "PLUS", "DASH", "STAR", "SLASH", "DIV",
    "MOD", "DPIPE", "NULLSAFE_EQ",
))  # fmt: skip
"""The kinds of words after which a plus has no value before it."""


class NeedsSparkError(InvalidRequestError):
    """A statement that is not understood without Spark. ``problem``: why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; with Spark there is pktable.session(spark, warehouse=…).sql(…)")


@dataclass
class Source:
    """A table at a version. ``name``: how DuckDB calls it. ``named``: the numbers of the columns that a query reads."""

    name: str
    rows: pa.Table | Scan
    named: set[int] = field(default_factory=set)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that there are. Times are in microseconds at least, in which DuckDB computes."""
        given: pa.Schema = self.rows.schema
        return pa.schema([field.with_type(_in_micros(field.type)) for field in given], given.metadata)

    @property
    def relation(self) -> Relation:
        """The table as a query names it."""
        columns = [(one.name, general(from_arrow(one.type))) for one in self.schema]
        return Relation("", self.name, columns, self.named.add)

    def read(self) -> pa.Table:
        """Return the rows with the columns that are read, called by their numbers."""
        numbers = sorted(self.named) or [0]  # rows of no column cannot be counted
        names = [self.schema.names[i] for i in numbers]
        if isinstance(self.rows, Scan):
            rows = replace(self.rows, columns=tuple(names)).to_arrow()
        else:
            rows = self.rows.select(names)
        try:
            rows = rows.cast(pa.schema([self.schema.field(i) for i in numbers]))
        except pa.ArrowInvalid as error:
            raise InvalidRequestError(f"sql: a time that microseconds cannot hold: {error}") from error
        return rows.rename_columns([f"c{i}" for i in numbers])


def _in_micros(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with times at all depths in microseconds, if they were in greater units."""
    known = from_arrow(kind)
    wanted = _at_least_micros(known)
    return kind if wanted == known else arrow_type(wanted)


def _at_least_micros(kind: DataType) -> DataType:
    if kind.root in TIMESTAMPS:
        return replace(kind, precision=max(kind.precision or 0, 6))
    children = [replace(one, type=_at_least_micros(one.type)) for one in kind.children]
    return replace(kind, children=tuple(children))


def query(warehouse: Warehouse, text: str, *, database: str = DEFAULT) -> pa.Table:
    """Return the rows of a query on the tables of a warehouse. ``database``: of names without one.

    Raises InvalidRequestError, also if DuckDB is not installed, SnapshotNotFoundError and CorruptFileError.
    Clauses: WH-16, WH-28.
    """
    names = Names(warehouse, CATALOG, lambda _: False, lambda _: False)
    if database != DEFAULT:
        warehouse.tables(database)  # says what there is
    names.database = database
    words = Words.of(selecting(text))
    if words.first.upper() not in QUERIES:
        raise NeedsSparkError(f"sql: {words.first.upper()} needs Spark, only queries do without")
    _expect_known_signs(words)
    try:
        found = references(words.text)
    except NotUnderstoodError as problem:
        raise InvalidRequestError(f"sql: the query is not understood: {problem}") from None
    sources: dict[object, Source] = {}
    tables: dict[str, Relation] = {}
    for number, one in enumerate(found):
        place = names.find(one.parts) or names.expect(one.parts)
        version = one.travel or one.changes
        key = place, version and words.text[version.start : version.end + 1]
        if key not in sources:
            sources[key] = _source(names, place, one, f"{TABLE}{number}")
        tables[f"{TABLE}{number}"] = sources[key].relation
    tree = _tree(with_tables(words.text, [(one, f"{TABLE}{number}") for number, one in enumerate(found)]))
    written = {f"{TABLE}{number}": one.parts[-1] for number, one in enumerate(found)}
    try:
        translated = Translation(tables).query(tree)
    except RecursionError:
        raise NeedsSparkError("sql: the query is nested too deeply") from None
    except UnknownColumnError as problem:
        raise UnknownColumnError(_as_written(str(problem), written)) from None
    except InvalidRequestError as problem:
        raise NeedsSparkError(_as_written(str(problem), written)) from None
    rows = _computed(translated.text, sources.values())
    return _declared(rows, [(_as_written(name, written), kind) for name, kind in translated.columns])


def _expect_known_signs(words: Words) -> None:
    """Raise NeedsSparkError for what sqlglot reads, and Spark reads as something else or not at all. Clauses: WH-28."""
    for before, word in zip((None, *words.words), words.words, strict=False):
        if word.kind == "PIPE_GT":
            raise NeedsSparkError("sql: |> is not supported here")
        first = "" if before is None else before.upper
        if word.kind == "PLUS" and (
            before is None or before.kind in BEFORE_SIGNS or first in ("SELECT", "BY")
        ):
            raise NeedsSparkError("sql: + before a value is not supported here")
        if word.kind == "HEX_STRING" and words.text[word.start] == "0":
            raise NeedsSparkError(f"sql: {words.text[word.start : word.end + 1]} is no number of Spark's")
        if (
            (first == "AS" and word.is_text)
            or (first == "USING" and word.text != "(")
            or (first == "BY" and word.upper == "DISTINCT")
        ):
            raise NeedsSparkError(
                f"sql: {first} {words.text[word.start : word.end + 1]} is not supported here"
            )


def _as_written(text: str, written: Mapping[str, str]) -> str:
    """Return the text of an error or a column in which tables have the names that the query gives them."""
    return re.sub(
        rf"{TABLE}\d+(?: AS `[^`]*`)?", lambda found: written.get(found[0].split()[0], found[0]), text
    )


def _source(names: Names, found: Found, reference: Reference, name: str) -> Source:
    """Return a table at the version that a reference says."""
    table, travel = names.open(found), reference.travel
    if reference.changes is not None and found.metadata is None:
        changes = changes_of(table, reference.changes).to_arrow()
        kinds = [CHANGE_TYPES[kind] for kind in changes.column(ROW_KIND).to_pylist()]
        after = changes.num_columns - 1 - len(COMMITS)
        rows = changes.drop_columns([ROW_KIND])
        return Source(name, rows.add_column(after, CHANGE_TYPE, pa.array(kinds, pa.string())))
    as_of: Mapping[str, Any] = {} if travel is None else _as_of(table.catalog.snapshots.tags(), travel)
    if found.metadata is not None:
        return Source(name, table.metadata(found.metadata, **as_of))
    return Source(name, table.scan(**as_of))


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
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True  # it says what it raises
    try:
        trees = SPARK.parse(text)
    except (errors.SqlglotError, RecursionError) as error:
        raise InvalidRequestError(f"sql: {str(error).partition(chr(10))[0]}") from None
    finally:
        logger.disabled = before
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise NeedsSparkError("sql: only queries do without Spark")
    return trees[0]


def _computed(text: str, sources: Iterable[Source]) -> pa.Table:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise NeedsSparkError(
            "sql: queries without Spark are computed by DuckDB, which is not installed; "
            "install it with: pip install 'pktable[sql]'"
        ) from None
    if int(duckdb.__version__.partition(".")[0]) < OLDEST:
        raise NeedsSparkError(
            f"sql: expected DuckDB {OLDEST} or later, found {duckdb.__version__}, which gives other rows where there "
            "is NaN; upgrade it with: pip install -U 'pktable[sql]'"
        )
    with duckdb.connect() as connection:
        # Otherwise a name that is unknown could be that of a variable here.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET order_by_non_integer_literal = true")
        for function in LETTER_CASE.values():
            connection.create_function(
                function, partial(_changed, function), ["VARCHAR"], "VARCHAR", type="arrow"
            )
        for one in sources:
            connection.register(one.name, one.read())
        try:
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            if "must appear in the GROUP BY clause" in str(error):
                raise InvalidRequestError(f"sql: {NO_ONE_VALUE}") from None
            problem = str(error).partition("\nLINE 1:")[0]  # what follows is our text
            raise InvalidRequestError(f"sql: {' '.join(problem.split())}") from None


def _changed(function: str, text: Any) -> Any:
    """Return a text in another case, by the function that conditions have. Clauses: TBL-21."""
    return pc.call_function(function, [text])


def _declared(rows: pa.Table, columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """Return rows with the names and the types of ``columns``. Clauses: TBL-70."""
    kinds = [
        found if kind.root == "NULL" else arrow_type(kind)
        for found, (_, kind) in zip(rows.schema.types, columns, strict=True)
    ]
    numbered = pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])
    return declared(rows.rename_columns(numbered.names), numbered).rename_columns(
        [name for name, _ in columns]
    )
