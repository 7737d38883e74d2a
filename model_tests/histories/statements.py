"""The changes that a statement of a history makes, computed from the rows that are there by the dumbest means.

The changes of an operation say what its statement is:

1. ``update``: the first change gives the new values of ``v`` and ``w``, of all rows whose last key column is not less
   than its own.
2. ``delete where``: these rows go.
3. ``merge``: the last row of each key is a row of the source. One without ``v`` deletes the row that it matches, if
   there is one. Any other replaces the row that it matches, or is inserted.

Clauses: STM-1, STM-2, STM-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pktable_spec.interface import Change, Comparison, ExecutesStatements, Row, Shape
from pktable_spec.vocabulary import RowKind

STATEMENTS = ("update", "delete where", "merge")


def execute(table: ExecutesStatements, shape: Shape, do: str, changes: Sequence[Change]) -> None:
    """Let a table execute the statement."""
    if do == "merge":
        table.merge(_source(shape, changes))
    elif do == "update":
        _, row = changes[0]
        table.update(_condition(shape, row), {"v": row[-2], "w": row[-1]})
    else:
        table.delete_where(_condition(shape, changes[0].row))


def effect(shape: Shape, do: str, changes: Sequence[Change], rows: Iterable[Row]) -> list[Change]:
    """Return the changes that the statement makes to ``rows``."""
    there = {shape.pick(row, shape.primary_key): row for row in rows}
    if do == "merge":
        source = {shape.pick(row, shape.primary_key): row for row in _source(shape, changes)}
        found = []
        for key, row in source.items():
            if row[-2] is not None:
                found.append(Change(RowKind.UPDATE_AFTER if key in there else RowKind.INSERT, row))
            elif key in there:
                found.append(Change(RowKind.DELETE, there[key]))
        return found
    condition = _condition(shape, changes[0].row)
    at = shape.names.index(condition.column)
    chosen = [row for row in there.values() if condition.holds(row[at])]
    if do == "delete where":
        return [Change(RowKind.DELETE, row) for row in chosen]
    return [Change(RowKind.UPDATE_AFTER, (*row[:-2], *changes[0].row[-2:])) for row in chosen]


def _condition(shape: Shape, row: Row) -> Comparison:
    column = shape.primary_key[-1]
    literal = row[shape.names.index(column)]
    assert isinstance(literal, (int, str)), "a key"
    return Comparison(column, ">=", literal)


def _source(shape: Shape, changes: Sequence[Change]) -> list[Row]:
    return list({shape.pick(row, shape.primary_key): row for _, row in changes}.values())
