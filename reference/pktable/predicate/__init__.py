"""Conditions on rows in SQL: parsed once, then evaluated in Arrow, by Spark, and over metadata.

1. `parse` turns text in Spark's dialect into a small typed tree (`tree`), in which every coercion is written out.
2. Four translators evaluate the tree, so that they cannot differ in what the text means: `evaluation` filters tables,
   `spark_sql` and `duckdb_sql` make text for Spark and DuckDB, `pruning` skips files and buckets by their statistics.

The dialect has comparisons, AND OR NOT, IN, BETWEEN, IS [NOT] NULL | TRUE | FALSE, IS [NOT] DISTINCT FROM, LIKE, <=>,
arithmetic, ||, casts, CASE, and the functions of `functions.NAMES`. Dates and timestamps may be given as plain
text, which is in UTC if it names no zone. A condition that is NULL drops the row.

Where Arrow and Spark differ, the translators either give the same result (NaN, the two zeros, LIKE, doubles made of
decimals) or `parse` refuses the expression (quotients of decimals, casts of text, instants against wall-clock time,
functions of letter case of each other). Text whose case depends on the version of Unicode fails (`text_as_java`).

Clauses: RD-6, RD-8, RD-16, TBL-21, WH-24.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import Field, Value
from pktable.predicate.pruning import Bounds, may_be, pinned
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.tree import Column, Expression, walk

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.compute as pc


def expect_condition(where: Any, what: str = "where") -> str | None:
    """Return whose expression a condition is: of pyarrow or polars, None of text. Raises InvalidRequestError."""
    if where is None or isinstance(where, str):
        return None
    kind = type(where)
    library = kind.__module__.partition(".")[0]
    if (library, kind.__name__) in (("pyarrow", "Expression"), ("polars", "Expr")):
        return library
    if library == "polars":
        raise InvalidRequestError(f"{what}: expected a condition, found a {kind.__name__} of polars")
    raise InvalidRequestError(
        f"{what}: expected text, found {kind.__name__}; an expression of pyarrow or polars is taken, too"
    )


def condition_text(where: Any, fields: Sequence[Field], what: str = "where") -> str | None:
    """Return a condition on rows with the columns ``fields`` as SQL.

    An expression of pyarrow or polars means what the same condition means in SQL. Raises InvalidRequestError for
    anything else, and for an expression that has no text here. Clauses: WH-24, WH-32.
    """
    library = expect_condition(where, what)
    if library == "pyarrow":
        from pktable.predicate.from_arrow import as_text  # late: it brings Arrow's kernels

        return as_text(where, fields, what)
    if library == "polars":
        from pktable.predicate.from_polars import as_text as polars_text

        return polars_text(where, fields, what)
    text: str | None = where
    return text


__all__ = [
    "Bounds",
    "Predicate",
    "key_equalities",
    "may_match",
    "parse",
    "to_arrow",
]


@dataclass(frozen=True)
class Predicate:
    """A condition on rows. ``source``: the text that it was parsed from. ``keyword``: what it was given as."""

    source: str
    root: Expression
    keyword: str = "where"

    @property
    def shown(self) -> str:
        """The name of the condition in messages."""
        return f"{self.keyword} {self.source!r}"

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that the condition reads, each once."""
        return tuple(dict.fromkeys(part.name for part in walk(self.root) if isinstance(part, Column)))

    @property
    def never_fails(self) -> bool:
        """Whether no row can make it raise, so that it may be evaluated on deleted rows too."""
        from pktable.predicate.arrow_eval import may_fail  # late, here and below: it brings Arrow's kernels

        return not may_fail(self.root)

    @cached_property
    def text(self) -> str:
        """The condition as SQL for Spark, with all types written out. Raises InvalidRequestError."""
        return spark_text(self.root)

    def filter(
        self,
        table: pa.Table,
        live: npt.NDArray[np.bool_] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the rows of ``table`` that satisfy the condition, in order.

        ``live``: one bool per row; the condition is evaluated only on rows where it is True. None: on all rows.
        ``columns``: those to return, all if None; at least one, because a table without columns has no rows to take.
        Raises InvalidRequestError, as Spark does, if a part of the condition divides by zero, overflows or cannot
        convert a value, in a row that the parts before it keep. Clauses: RD-6.
        """
        from pktable.predicate.evaluation import filtered

        return filtered(self.root, table, self.shown, live, columns)


def parse(where: str, fields: Sequence[Field]) -> Predicate:
    """Return the condition that the text ``where`` states over the columns ``fields``.

    Raises InvalidRequestError that names the unsupported part or the unknown column.
    """
    from pktable.predicate.resolve import resolve  # importing sqlglot takes longer than a small read

    return Predicate(where, resolve(where, fields))


def to_arrow(predicate: Predicate, arrow_schema: pa.Schema) -> pc.Expression:
    """Return the condition as an Arrow expression over ``arrow_schema``: true, false or null. Clauses: RD-6."""
    from pktable.predicate.arrow_eval import expression_of

    return expression_of(predicate.root, arrow_schema)


def may_match(predicate: Predicate, table: Mapping[str, Bounds], places: int) -> npt.NDArray[np.bool_]:
    """Return for each of ``places`` False only if no row within its bounds satisfies the condition.

    ``table``: bounds by column. A column that it does not have, or an end that is not known, may be anything.
    Clauses: RD-8, RD-16.
    """
    found = may_be(predicate.root, table, True)
    return found if len(found) == places else np.repeat(found, places)


def key_equalities(predicate: Predicate, names: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Return the values that the columns ``names`` can have in a row that satisfies the condition.

    One tuple of internal values for each combination, in the order of ``names``; some of the combinations may not
    satisfy the condition. None if the condition does not restrict the columns to few combinations.
    """
    return pinned(predicate.root, names)
