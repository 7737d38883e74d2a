"""Conditions on rows, as SQL has them: parsed once, then evaluated in Arrow, by Spark, and over metadata.

`parse` turns text of Spark's dialect into a small typed tree in which every coercion is written out, so
that the three evaluations cannot differ in what they take the text to mean. A condition that is NULL drops
the row. Understood are comparisons, AND OR NOT, IN, BETWEEN, IS [NOT] NULL | TRUE | FALSE, IS [NOT] DISTINCT
FROM, LIKE, <=>, arithmetic, ||, casts, upper, lower, length, substring, abs and coalesce; dates and
timestamps may be given as plain text, which is UTC where it names no zone.

The subtle case is what Arrow and Spark do differently: it is either brought in line (NaN, the zeros, LIKE,
doubles of decimals) or refused (quotients of decimals, casts of text, instants against wall-clock time).

Clauses: RD-6, RD-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.types import Field, Value
from pktable.predicate.arrow_eval import expression_of, filtered, may_fail
from pktable.predicate.pruning import ColumnRange, may_hold, pinned
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.tree import Column, Expression, walk

__all__ = ["ColumnRange", "Predicate", "key_equalities", "may_match", "parse", "to_arrow"]


@dataclass(frozen=True)
class Predicate:
    """A condition on rows. ``source``: the text it was given as."""

    source: str
    root: Expression

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns it looks at, each once."""
        return tuple(dict.fromkeys(part.name for part in walk(self.root) if isinstance(part, Column)))

    @property
    def never_fails(self) -> bool:
        """Whether it has an answer for every row there may be, so that deleted rows may be asked too."""
        return not may_fail(self.root)

    @cached_property
    def text(self) -> str:
        """The condition as Spark SQL that leaves nothing to interpret. Raises InvalidRequestError."""
        return spark_text(self.root)

    def filter(self, table: pa.Table, live: npt.NDArray[np.bool_] | None = None) -> pa.Table:
        """Return the rows of ``table`` that satisfy the condition, in order; only ``live`` ones are asked.

        Raises InvalidRequestError where a row that the conditions before it leave divides by zero, overflows
        or does not convert, as Spark does. Clauses: RD-6.
        """
        return filtered(self.root, table, self.source, live)


def parse(where: str, fields: Sequence[Field]) -> Predicate:
    """Return the condition that ``where`` spells over columns ``fields``.

    Raises InvalidRequestError naming what it does not understand, or the column that there is not.
    """
    from pktable.predicate.resolve import resolve  # sqlglot takes longer to import than a small read does

    return Predicate(where, resolve(where, fields))


def to_arrow(predicate: Predicate, arrow_schema: pa.Schema) -> pc.Expression:
    """Return the condition over a table of ``arrow_schema``: true, false or null. Clauses: RD-6."""
    return expression_of(predicate.root, arrow_schema)


def may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> bool:
    """Return False only if no row within ``ranges`` satisfies the condition.

    A column without a range, or without a bound, may hold anything. Clauses: RD-8.
    """
    return may_hold(predicate.root, ranges)


def key_equalities(predicate: Predicate, names: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Return the values that columns ``names`` can have in a row that satisfies the condition, None if any.

    Internal values, one tuple per combination; there may be more combinations than the condition allows.
    """
    return pinned(predicate.root, names)
