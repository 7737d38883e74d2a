"""Queries: tables of ours in the text of a query become DataFrames, and the rest goes to Spark as it was written.

Spark takes a DataFrame in a statement as ``{name}``, in Spark Connect too. So the plan is that of `Table.read`, and a
statement sees one version of each table that it names.

Clauses: WH-10, WH-11.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from typing import Any, Final, cast

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pktable.bucket.changelog import COMMITS, ROW_KIND
from pktable.context import TableContext
from pktable.format.types import Field
from pktable.run.runner import Query, Runner
from pktable.run.spark.errors import raised_here
from pktable.run.spark.session import in_ansi_mode, words_of
from pktable.run.spark.statements import source_frame
from pktable.run.spark.types import spark_schema
from pktable.sql.names import Found, Names
from pktable.sql.references import (
    CHANGE_TYPE,
    CHANGE_TYPES,
    ChangesClause,
    NotUnderstoodError,
    Reference,
    Travel,
    changes_of,
    has_parameters,
    references,
    selecting,
    with_tables,
)
from pktable.sql.words import Words, bound, literal, quoted
from pktable.statements.names import Names as Columns
from pktable.statements.plan import TARGET, SparkText, Statement
from pktable.table import Table

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LIKE_QUERIES: Final = ("SELECT", "FROM")
"""Words without which an expression has no query in it."""


class Queries:
    """The queries of one session. ``names``: what names mean."""

    def __init__(self, spark: SparkSession, names: Names) -> None:
        self.spark, self.names = spark, names
        self._changed: ContextVar[Found | None] = ContextVar("changed", default=None)  # of each thread

    def bound(self, statement: Words, args: Any) -> Words:
        """Return a statement with values in place of its parameters, as `words.bound` does.

        Raises InvalidRequestError for a text that has no literal in the session, too. Clauses: WH-8.
        """
        values = args.values() if isinstance(args, Mapping) else args or ()
        special = any(isinstance(one, str) and re.search(r"['\\]|\$\{", one) for one in values)
        if special and words_of(self.spark).keeps_backslashes:
            raise InvalidRequestError(
                "args: a text with a quote, a backslash or a dollar and a brace cannot be given while "
                "spark.sql.parser.escapedStringLiterals is true"
            )
        return bound(statement, args)

    def frame(self, text: str, args: Any = None, *, before: str = "") -> DataFrame:
        """Return what a query gives; ``args``: values of its parameters, as Spark takes them. ``before``: as EXPLAIN.

        Raises InvalidRequestError for a text that names a table of ours and is not understood here, and what Spark
        raises. Clauses: WH-10, WH-11.
        """
        text = selecting(text)
        if args and has_parameters(text):
            text, args = self.bound(Words.of(text), args).text, None
        frames: dict[str, DataFrame] = {}

        def placed(reference: Reference, frame: DataFrame) -> str:
            name = f"pk{len(frames)}"
            frames[name] = frame
            return "{" + name + "}"

        replaced = self._replaced(text, placed, escape=True)
        if not frames:
            return self.spark.sql(before + text, args)
        return self.spark.sql(before + replaced, args, **frames)

    @contextlib.contextmanager
    def reading_all(self, changed: Found | None) -> Iterator[None]:
        """Read rows of ``changed`` inside the block as the statement that changes it does: those that wait, too.

        Clauses: STM-1, WH-12.
        """
        token = self._changed.set(changed)
        try:
            yield
        finally:
            self._changed.reset(token)

    @contextlib.contextmanager
    def aside(
        self, changed: Found, table: Table, source: Callable[[], DataFrame] | None = None
    ) -> Iterator[Any]:
        """Give a function that names tables of ours in an expression by temporary views, gone afterwards.

        ``changed``: the table of the statement, see `reading_all`; it is open as ``table``. Each time that the
        statement is computed, its views and its ``source`` are read again. Clauses: STM-1, STM-6.
        """
        made: dict[str, Reference] = {}

        def placed(reference: Reference, frame: DataFrame) -> str:
            name = f"pktable_{uuid.uuid4().hex}"
            made[name] = reference  # the view is made when the statement is computed
            return name

        def read_again() -> DataFrame | None:
            with self.reading_all(changed):
                for name, reference in made.items():
                    frame = self._frame_of(reference)
                    assert frame is not None, "it was there before"
                    frame.createOrReplaceTempView(name)
                return None if source is None else source()

        def replaced(text: str) -> str:
            words = Words.of(text).words if text else ()
            if not any(word.upper in LIKE_QUERIES for word in words):
                return text
            with self.reading_all(changed):
                return self._replaced(f"SELECT {text}", placed, escape=False).removeprefix("SELECT ")

        table.runner = cast("Runner", _ReadingAgain(table.runner, read_again))
        try:
            yield replaced
        finally:
            for name in made:
                self.spark.catalog.dropTempView(name)

    def _replaced(self, text: str, placed: Any, *, escape: bool) -> str:
        """Return ``text`` with what ``placed`` gives for each table of ours. ``escape``: double all other braces.

        Clauses: WH-10.
        """
        try:
            found = references(text)
        except NotUnderstoodError as problem:
            self.expect_none_of_ours(Words.of(text), f"it is not understood ({problem})")
            return text
        frames = [(one, self._frame_of(one)) for one in found]
        ours = [(one, placed(one, frame)) for one, frame in frames if frame is not None]
        return with_tables(text, ours, _escaped) if escape and ours else with_tables(text, ours)

    def _frame_of(self, reference: Reference) -> DataFrame | None:
        """Return the rows of a table of ours or a view of this session, None if the name is another."""
        if len(reference.parts) == 1 and (view := self.names.views.get(reference.parts[0].lower())):
            if reference.travel is not None or reference.changes is not None:
                raise InvalidRequestError(f"{reference.parts[0]}: a view has no versions")
            database, self.names.database = self.names.database, view.database
            try:
                return self.frame(view.query)
            finally:
                self.names.database = database
        found = self.names.find(reference.parts)
        if found is None:
            return None
        if reference.changes is not None:
            return self._changes(found, reference.changes)
        return self.rows_of(found, self._as_of(found, reference.travel))

    def _changes(self, found: Found, clause: ChangesClause) -> DataFrame:
        """Return the changes of a table with the columns that Spark gives them. Clauses: WH-21."""
        if found.metadata is not None:
            raise InvalidRequestError(f"{found.name}${found.metadata}: a metadata table has no changes")
        rows: DataFrame = changes_of(self.names.open(found), clause).read()
        kinds = F.create_map(*(F.lit(text) for pair in CHANGE_TYPES.items() for text in pair))
        columns = [name for name in rows.columns if name not in (ROW_KIND, *COMMITS.names)]
        return rows.select(
            *map(F.col, map(quoted, columns)),
            kinds[F.col(ROW_KIND)].alias(CHANGE_TYPE),
            *COMMITS.names,
        )

    def rows_of(self, found: Found, as_of: Mapping[str, Any]) -> DataFrame:
        """Return the rows of a table of ours, or of one of its metadata tables. Clauses: WH-9, WH-11."""
        table = self.names.open(found)
        if found.metadata is None:
            rows: DataFrame = table.read(**as_of, fresh=found == self._changed.get() and not as_of)
            return rows
        rows = table.metadata(found.metadata, **as_of)
        return source_frame(self.spark, rows) if isinstance(rows, pa.Table) else rows

    def _as_of(self, found: Found, travel: Travel | None) -> dict[str, Any]:
        """Return the version that a query asks for, as `Table.scan` takes it. Clauses: WH-11."""
        if travel is None:
            return {}
        if not travel.is_version:
            return {"timestamp": self.millis(travel.value)}
        if travel.word is None or not (travel.word.is_text or travel.word.text.isdecimal()):
            raise InvalidRequestError(
                f"VERSION AS OF {travel.value}: expected the id of a snapshot, or a tag in quotes"
            )
        return version(self.names.open(found), travel.word.text)

    def millis(self, value: str) -> int:
        """Return the milliseconds since 1970 of a time in SQL, in the time zone of the session.

        Raises InvalidRequestError. Clauses: WH-11.
        """
        with raised_here(f"TIMESTAMP AS OF {value}"):
            (row,) = self.spark.sql(f"SELECT unix_millis(CAST(({value}) AS TIMESTAMP)) AS t").collect()
        if row[0] is None:
            raise InvalidRequestError(f"TIMESTAMP AS OF {value}: expected a time, found NULL")
        return int(row[0])

    def constant(self, text: str, column: Field) -> str:
        """Return a constant of a statement as SQL that means the same here and in the session.

        Spark computes one that is not understood here. Raises what Spark raises. Clauses: WH-13.
        """
        columns = Columns([column], by_spark=words_of(self.spark))
        if not isinstance(columns.value(text, column, what="PARTITION", sides=(TARGET,)), SparkText):
            return text
        kind = column.type
        (field,) = spark_schema([column])
        cast = f"CAST(({text}\n) AS {field.dataType.simpleString()})"
        value = f"unix_micros({cast})" if kind.root == "TIMESTAMP_LTZ" else cast
        with in_ansi_mode(self.spark, can_fail=True):
            (row,) = self.spark.sql(f"SELECT {value}").collect()
        if kind.root == "TIMESTAMP_LTZ" and row[0] is not None:
            return literal(EPOCH + timedelta(microseconds=row[0]))
        return literal(row[0])

    def expect_none_of_ours(self, words: Words, why: str) -> None:
        """Raise InvalidRequestError if a statement may name a table of ours; ``why``: what is wrong then.

        Clauses: WH-10.
        """
        cursor = Words(words.text, words.words)
        while (word := cursor.peek()) is not None:
            if not word.is_name:
                cursor.at += 1
                continue
            name = cursor.name()
            for parts in (name.parts[:i] for i in range(1, min(len(name.parts), 3) + 1)):
                place = self.names.place(parts)
                known = place is not None and (
                    not place.database or self.names.warehouse.has_table(place.name)
                )
                if known or (len(parts) == 1 and parts[0].lower() in self.names.views):
                    raise InvalidRequestError(f"sql: the statement names {'.'.join(parts)}, and {why}")


class _ReadingAgain:
    """A runner that calls ``read_again`` whenever it computes a statement, so that all is read after its target.

    ``read_again``: returns the source of the statement, None if that stays as it is.
    """

    def __init__(self, runner: Runner, read_again: Callable[[], DataFrame | None]) -> None:
        self._runner, self._read_again = runner, read_again

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def changes(self, context: TableContext, query: Query, statement: Statement, source: Any) -> Any:
        """As `Runner.changes`."""
        new = self._read_again()
        return self._runner.changes(context, query, statement, source if new is None else new)


def version(table: Table, text: str) -> dict[str, Any]:
    """Return the version that ``text`` names, as `Table.scan` takes it: a tag of that name, or a snapshot.

    Clauses: WH-11.
    """
    if not text.isdecimal() or text in table.catalog.snapshots.tags():
        return {"tag": text}
    return {"snapshot": int(text)}


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
