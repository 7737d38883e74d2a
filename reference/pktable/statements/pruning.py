"""The part of a MERGE's join that rules out target rows before they are read.

Without a clause about target rows that no source row matches, such rows stay as they are and need not be read. Then
the conditions of the join on the target alone hold for every row of interest, and its join values are among those of
the source. With such a clause every row is read.

Clauses: STM-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.types import FLOATS, NESTED, values_of
from pktable.predicate.evaluation import evaluated
from pktable.predicate.tree import And, Column, Compare, Expression, In, Literal, conjuncts, rewritten, walk
from pktable.statements.plan import SOURCE, TARGET, SparkText, Statement, When, qualified

MOST_VALUES: Final = 1000
"""Each of which is looked for in the bounds of files. Of more, the range is."""


def target_condition(statement: Statement, source: pa.Table | None) -> Expression | None:
    """Return a condition on the table's columns that every target row in a pair satisfies; None if none is known.

    ``source``: an Arrow source, whose join values are looked at; None if it is not here.
    """
    if statement.of(When.NOT_MATCHED_BY_SOURCE):
        return None
    found = [*_alone(statement), *(_of_values(statement, source) if source is not None else ())]
    if not found:
        return None
    return of_table(And(tuple(found)) if len(found) > 1 else found[0])


def of_table(condition: Expression) -> Expression:
    """Return a condition on target columns as one on the table's columns."""
    return rewritten(condition, lambda column: Column(column.name.removeprefix(TARGET + "."), column.type))


def _alone(statement: Statement) -> Iterator[Expression]:
    """Yield the conditions of the join that read the target alone."""
    residual = statement.residual
    for part in () if residual is None or isinstance(residual, SparkText) else conjuncts(residual):
        columns = [one.name for one in walk(part) if isinstance(one, Column)]
        if columns and all(name.startswith(TARGET + ".") for name in columns):
            yield part


def _of_values(statement: Statement, source: pa.Table) -> Iterator[Expression]:
    """Yield for each column of the target that is joined its values in the source, or their range."""
    renamed = source.rename_columns([qualified(SOURCE, name) for name in source.column_names])
    for left, right in statement.keys:
        t = left.type
        if not isinstance(left, Column) or t.root in (*FLOATS, *NESTED, "BOOLEAN"):
            continue
        values = pc.unique(
            evaluated({"value": right}, renamed, lambda _: statement.shown_on).column("value").drop_null()
        )
        yield from among(left, values)


def among(column: Column, values: Any) -> Iterator[Expression]:
    """Yield conditions that hold where ``column`` has one of ``values``, an Arrow array: these, or their range."""
    kind = column.type
    if len(values) <= MOST_VALUES:
        yield In(column, tuple(values_of(values, kind)), has_null=False)
        return
    ends = pc.min_max(values)
    low, high = values_of(pa.array([ends["min"].as_py(), ends["max"].as_py()], values.type), kind)
    yield Compare(">=", column, Literal(low, kind))
    yield Compare("<=", column, Literal(high, kind))
