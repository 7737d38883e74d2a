"""A Spark session whose SQL knows the tables of a warehouse by name.

`Session.sql` looks at the kind of a statement. What it is about is found by words; a query's tables become DataFrames
(`queries`), everything else is done by methods of `Table` and `Warehouse`. A statement about nothing of ours is
Spark's. One that names a table of ours where it is not understood is refused.

Spark looks for workers and data sources with the first python3 on PATH. Where an environment is not activated, this is
another interpreter, without numpy and pktable. `make_at_home` names the one that runs.

Clauses: WH-10 to WH-15, WH-17.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pktable.ingest.sources import as_arrow
from pktable.run.spark.errors import raised_here
from pktable.run.spark.workers import run_this_interpreter
from pktable.spark_sql import altering, definitions, procedures, rows, shown
from pktable.spark_sql.queries import Queries
from pktable.sql.names import Names
from pktable.sql.references import without_databases
from pktable.sql.words import QUERIES, Words, quoted
from pktable.store.directories import DEFAULT
from pktable.warehouse import Warehouse

ALREADY_FOUND: Final = "DATA_SOURCE_ALREADY_EXISTS"


def make_at_home(spark: SparkSession) -> None:
    """Let ``spark`` run this interpreter, and know ``format("pktable")``; a session elsewhere stays as it is.

    Clauses: WH-17.
    """
    if run_this_interpreter(spark):
        from pktable.spark_source.data_source import PkTableSource  # late: it is for those who use it

        try:
            spark.dataSource.register(PkTableSource)
        except AnalysisException as error:
            if (
                error.getCondition() != ALREADY_FOUND
            ):  # pyspark 4.0 registers no source that it has found by itself
                raise


CATALOG: Final = "paimon"
HARMLESS: Final = ("SET", "RESET")
PAIMONS_SETTING: Final = re.compile(r"\bspark\.paimon\.")
STATEMENTS: Final[dict[str, Callable[[Queries, Words], DataFrame | None]]] = {
    "UPDATE": rows.update,
    "DELETE": rows.delete,
    "MERGE": rows.merge,
    "TRUNCATE": rows.truncate,
    "ALTER": altering.alter,
    "DROP": definitions.drop,
    "DESCRIBE": shown.describe,
    "DESC": shown.describe,
    "SHOW": shown.show,
    "USE": shown.use,
    "CALL": procedures.call,
}
OF_ROWS: Final = ("UPDATE", "DELETE", "MERGE")
NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"


class Session:
    """A Spark session, classic or Connect, with the tables of a ``warehouse`` in its SQL; see `session`.

    Everything but `sql` and `table` is that of the session. Clauses: WH-10.
    """

    def __init__(self, spark: SparkSession, warehouse: Warehouse, catalog: str) -> None:
        self.spark, self.warehouse = spark, warehouse
        names = Names(warehouse, catalog, self._is_sparks, spark.catalog.databaseExists)
        self._queries = Queries(spark, names)

    def __getattr__(self, name: str) -> Any:
        if name in ("spark", "warehouse", "_queries"):  # not set yet, as while this is copied
            raise AttributeError(name)
        return getattr(self.spark, name)

    def _is_sparks(self, name: str) -> bool:
        """Whether Spark has a table or view of this name that is none of ours."""
        catalog = self.spark.catalog
        return (
            bool(catalog.tableExists(name)) and catalog.getTable(name).catalog != self._queries.names.catalog
        )

    def __repr__(self) -> str:
        return f"<Session of {self.warehouse!r}>"

    def table(self, name: str) -> DataFrame:
        """Return the rows of a table, as ``SELECT * FROM name`` gives them."""
        return self.sql(f"SELECT * FROM {'.'.join(map(quoted, Words.of(name).name().parts))}")

    def sql(self, text: str, args: Any = None) -> DataFrame:
        """Carry out one statement, and return its rows.

        ``args``: values of parameters, as `SparkSession.sql` takes them. An INSERT, UPDATE, DELETE or MERGE gives one
        row: how many rows it has changed, null if unknown, and the snapshot after it, null if nothing has changed.
        Raises InvalidRequestError before anything is written, CommitConflictError, and what Spark raises.
        Clauses: WH-10 to WH-15.
        """
        words = Words.of(text)
        with raised_here(), self._missing_named():
            found = self._carried_out(words, args)
            return found if found is not None else self._sparks(Words.of(text), args)

    def _carried_out(self, words: Words, args: Any) -> DataFrame | None:
        """Carry out a statement about something of ours; None if it is Spark's."""
        first, queries = words.first.upper(), self._queries
        if args and rows.names_parameters(words):
            with contextlib.suppress(InvalidRequestError):  # Spark takes values that have no SQL
                words, args = queries.bound(words, args), None
        if first == "WITH":
            return self._after_with(words, args)
        if first in QUERIES:
            return queries.frame(words.text, args)
        if first == "INSERT":
            return rows.insert(queries, words, args)
        if first == "CREATE":
            return definitions.create(queries, words, args)
        if first == "EXPLAIN":
            return self._explained(words, args)
        if first in STATEMENTS:
            words = queries.bound(words, args)
            return STATEMENTS[first](queries, without_databases(words) if first in OF_ROWS else words)
        return None

    def _after_with(self, words: Words, args: Any) -> DataFrame | None:
        """Carry out a statement that begins with WITH: a query, or an INSERT of one; None for another."""
        words.until("SELECT", "INSERT", "FROM", "VALUES", "UPDATE", "DELETE", "MERGE")
        if words.any_of("UPDATE", "DELETE", "MERGE"):
            return None
        if not words.sees("INSERT"):
            return self._queries.frame(words.text, args)
        begin = words.words[words.at].start
        rest = Words(words.text, words.words[words.at :])
        return rows.insert(self._queries, rest, args, words.text[:begin])

    def _explained(self, words: Words, args: Any) -> DataFrame | None:
        """Explain a query."""
        words.at = 1
        words.any_of("EXTENDED", "CODEGEN", "COST", "FORMATTED")
        begin = words.words[words.at].start if words.peek() else len(words.text)
        if words.any_of(*QUERIES) is None:
            return None
        return self._queries.frame(words.text[begin:], args, before=words.text[:begin])

    def _sparks(self, words: Words, args: Any) -> DataFrame:
        """Give a statement to Spark. Its queries may read tables of ours; nothing else in it may name one.

        Clauses: WH-10.
        """
        if words.first.upper() in ("INSERT", "MERGE", "UPDATE", "DELETE", "CREATE"):
            return self._queries.frame(words.text, args)
        if words.first.upper() == "SET" and PAIMONS_SETTING.search(words.text):
            raise InvalidRequestError(
                "SET: a session of Paimon's reads this, and this one does not; give options to the table or to the read"
            )
        if words.first.upper() not in HARMLESS:
            self._queries.expect_none_of_ours(
                words, f"{words.first.upper()} is not understood about such tables"
            )
        return self.spark.sql(words.text, args)

    def _missing_named(self) -> Any:
        return _MissingNamed(self._queries.names)


class _MissingNamed:
    """A context in which Spark's error for a table that is not there says what the warehouse has. Clauses: WH-2."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, AnalysisException) or error.getCondition() != NOT_FOUND:
            return
        parameters = error.getMessageParameters() or {}
        shown = parameters.get("relationName", "")
        parts = Words.of(shown).name().parts if shown else ()
        place = self._names.place(parts) if parts else None
        if place is not None and place.database in (*self._names.warehouse.databases(), DEFAULT):
            there = self._names.warehouse.hint(place.name)
            raise InvalidRequestError(
                f"table {'.'.join(parts)}: neither in {self._names.warehouse.path} nor known to Spark; {there}"
            ) from None


def session(
    spark: SparkSession,
    warehouse: str | os.PathLike[str] | Warehouse,
    *,
    catalog: str | None = None,
    **settings: Any,
) -> Session:
    """Return ``spark`` with the tables of a warehouse in its SQL, and everything else as it was.

        lake = pktable.session(spark, warehouse="s3://bucket/lake")
        lake.sql("SELECT * FROM shop.orders VERSION AS OF 3").show()

    * ``warehouse``: a path or URI with the ``settings`` of `Warehouse`, or a `Warehouse`.
    * ``catalog``: what three-part names call it, ``paimon`` without. If it is given, plain ``spark.sql`` and
      ``spark.table`` know the tables by such names, too, in a classic session.

    A session on this machine also finds ``format("pktable")`` and runs this interpreter from now on.
    Raises InvalidRequestError. Clauses: WH-10, WH-17, WH-37, WH-41.
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidRequestError(f"spark: expected a SparkSession, found {spark!r}")
    if catalog is not None and not (isinstance(catalog, str) and catalog.isidentifier()):
        raise InvalidRequestError(f"catalog: expected a name, found {catalog!r}")
    if not isinstance(warehouse, Warehouse):
        warehouse = Warehouse(warehouse, spark=spark, **settings)
    elif settings or warehouse.spark is not spark:
        raise InvalidRequestError(
            "warehouse: expected a path, or a Warehouse with the same spark=…, and no other settings"
        )
    make_at_home(spark)
    found = Session(spark, warehouse, catalog or CATALOG)
    if catalog is not None:
        from pktable.spark_sql.catalog.catalog import register  # late: it is for those who ask for it

        register(found._queries)
    return found


__all__ = ["Session", "session"]


def carried_out(warehouse: Warehouse, statement: str, database: str) -> pa.Table:
    """Return the rows of a statement; ``database``: of names without one. Spark's errors are the caller's, in a line.

    Raises InvalidRequestError.
    """
    assert warehouse.spark is not None, "it is given one"
    lake = session(warehouse.spark, warehouse)
    try:
        if database != DEFAULT:
            lake.sql(f"USE {quoted(database)}")
        with raised_here():
            return as_arrow(lake.sql(statement))
    except PySparkException as error:
        first = str(error).strip().partition("\n")[0].rstrip(";")
        raise InvalidRequestError(f"Spark: {first}") from None
