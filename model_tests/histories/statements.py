"""The changes that a statement of a history makes, computed from the rows that are there by the dumbest means.

The changes of an operation say what its statement is:

1. ``update``: the first change gives the new values of ``v`` and ``w``, of all rows whose last key column is not less
   than its own.
2. ``delete where``: these rows go.
3. ``merge``: the last row of each key is a row of the source. One without ``v`` deletes the row that it matches, if
   there is one. Any other replaces the row that it matches, or is inserted.
4. ``overwrite where``: the last row of each key that satisfies the condition of the first two replaces the rows that
   do.

`REPLACEMENTS` remove files: ``truncate`` all, ``overwrite`` all or, of a table with partitions, those of the partition
of the first change. The last row of each key there comes instead.

Clauses: STM-1, STM-2, STM-5, STM-7, STM-10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pktable_spec.interface import Change, Comparison, ExecutesStatements, Row, Shape
from pktable_spec.vocabulary import RowKind

STATEMENTS = ("update", "delete where", "merge", "overwrite where")
REPLACEMENTS = ("overwrite", "truncate")


def execute(table: ExecutesStatements, shape: Shape, do: str, changes: Sequence[Change]) -> None:
    """Let a table execute the statement."""
    if do == "merge":
        table.merge(_source(shape, changes))
    elif do == "overwrite where":
        table.overwrite(_chosen(shape, changes), _condition(shape, changes[0].row))
    elif do == "update":
        _, row = changes[0]
        table.update(_condition(shape, row), {"v": row[-2], "w": row[-1]})
    else:
        table.delete_where(_condition(shape, changes[0].row))


def effect(shape: Shape, do: str, changes: Sequence[Change], rows: Iterable[Row]) -> list[Change]:
    """Return the changes that the statement makes to ``rows``."""

    def key_of(row: Row) -> Row:
        return shape.pick(row, shape.primary_key)

    there = {key_of(row): row for row in rows}
    if do == "overwrite where":
        new = {key_of(row): row for row in _chosen(shape, changes)}
        gone = [
            one
            for one in effect(shape, "delete where", changes, there.values())
            if key_of(one.row) not in new
        ]
        kinds = {key: RowKind.UPDATE_AFTER if key in there else RowKind.INSERT for key in new}
        return [*gone, *(Change(kinds[key], row) for key, row in new.items())]
    if do == "merge":
        source = {key_of(row): row for row in _source(shape, changes)}
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


def replacement(shape: Shape, do: str, changes: Sequence[Change]) -> tuple[list[Row], Comparison | None]:
    """Return the rows of an overwrite or truncation, and the partition that they replace, None for all."""
    if do == "truncate":
        return [], None
    rows = _source(shape, changes)
    if not shape.partition_keys:
        return rows, None
    at = shape.names.index(shape.partition_keys[0])
    partition = changes[0].row[at]
    assert isinstance(partition, (int, str)), "a key"
    where = Comparison(shape.partition_keys[0], "=", partition)
    return [row for row in rows if where.holds(row[at])], where


def _chosen(shape: Shape, changes: Sequence[Change]) -> list[Row]:
    condition = _condition(shape, changes[0].row)
    at = shape.names.index(condition.column)
    return [row for row in _source(shape, changes) if condition.holds(row[at])]


def _condition(shape: Shape, row: Row) -> Comparison:
    column = shape.primary_key[-1]
    literal = row[shape.names.index(column)]
    assert isinstance(literal, (int, str)), "a key"
    return Comparison(column, ">=", literal)


def _source(shape: Shape, changes: Sequence[Change]) -> list[Row]:
    return list({shape.pick(row, shape.primary_key): row for _, row in changes}.values())
