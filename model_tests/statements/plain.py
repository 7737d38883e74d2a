"""Statements on rows as dicts: what UPDATE and MERGE mean, in plain Python.

A condition or a value is a pair: its SQL text, and a function of a target row and a source row, of which one may be
None. A condition that is None (unknown) does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Rows = Sequence[Row]
Function = Callable[[Row, Row], Any]
NO_ROW: Row = {}


@dataclass(frozen=True)
class Sql:
    """A text and its meaning."""

    text: str
    of: Function

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Clause:
    """``when``: matched, not_matched or not_matched_by_source. ``values``: None for a delete."""

    when: str
    condition: Sql | None
    values: Mapping[str, Sql] | None


class SeveralMatchError(Exception):
    """Several source rows change one target row."""


def merged(
    target: Rows, source: Rows, on: Function, clauses: Sequence[Clause], *, by_key: bool = True
) -> list[Row]:
    """Return the rows of ``target`` after the MERGE, in any order. ``by_key``: ``id`` is their primary key.

    Raises SeveralMatchError.
    """
    result: list[Row] = []
    matched_source: set[int] = set()
    for row in target:
        pairs = [(i, other) for i, other in enumerate(source) if on(row, other)]
        matched_source |= {i for i, _ in pairs}
        if pairs:
            decided = [(c, other) for _, other in pairs if (c := _first(clauses, "matched", row, other))]
        else:
            alone = _first(clauses, "not_matched_by_source", row, NO_ROW)
            decided = [(alone, NO_ROW)] if alone else []
        if len(decided) > 1:
            raise SeveralMatchError
        if not decided:
            result.append(row)
            continue
        clause, other = decided[0]
        if clause.values is not None:
            result.append(row | {name: value.of(row, other) for name, value in clause.values.items()})
    inserted_rows: list[Row] = []
    for i, other in enumerate(source):
        inserted = _first(clauses, "not_matched", NO_ROW, other) if i not in matched_source else None
        if inserted is not None and inserted.values is not None:
            if by_key and any(row["id"] == other["id"] for row in inserted_rows):
                raise SeveralMatchError
            nothing = dict.fromkeys(("id", "g", "n", "s"))
            values = {name: value.of(NO_ROW, other) for name, value in inserted.values.items()}
            inserted_rows.append(nothing | values)
    if not by_key:
        return [*result, *inserted_rows]
    # An insert under a key that is there replaces its row, as every write does.
    keys = {row["id"] for row in inserted_rows}
    return [*(row for row in result if row["id"] not in keys), *inserted_rows]


def _first(clauses: Sequence[Clause], when: str, row: Row, other: Row) -> Clause | None:
    for clause in clauses:
        if clause.when == when and (clause.condition is None or clause.condition.of(row, other)):
            return clause
    return None
