"""The tables and subqueries of a FROM, and the columns that an expression of the query may name.

Each relation has an alias of ours, and each column a number, because DuckDB takes names that differ in case for one.

Clauses: WH-28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import DataType
from pktable.predicate.scope import Scope

Typed: TypeAlias = tuple[str, DataType]


def ignored(_: int) -> None:
    """Note nothing of a column that is named."""


@dataclass(frozen=True)
class Relation:
    """A table or subquery. ``alias``: as the query names it, "" if it does not. ``text``: how SQL of DuckDB names it.

    ``columns``: the names and types, in order. ``named`` is called with the number of a column that is read.
    """

    alias: str
    text: str
    columns: Sequence[Typed]
    named: Callable[[int], None] = ignored

    def column(self, number: int) -> Typed:
        """Return a column as SQL of DuckDB, with its type."""
        self.named(number)
        return f"{self.text}.c{number}", self.columns[number][1]

    def numbers(self, name: str) -> list[int]:
        """Return the columns of a name: those spelled alike, or without them any of the same letters."""
        names = [one for one, _ in self.columns]
        exact = [i for i, one in enumerate(names) if one == name]
        return exact or [i for i, one in enumerate(names) if one.lower() == name.lower()]


@dataclass(frozen=True)
class Relations(Scope):
    """The columns that an expression may name: of relations, of a query around, and ``merged``, those of USING."""

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, tuple[str, Typed]] = field(default_factory=dict)
    outer: Scope | None = None

    @classmethod
    def around(cls, outer: Scope | None) -> Relations:
        """Return the scope of a query that is inside of another."""
        return cls({} if outer is None else dict(outer.tables), outer=outer)

    def add(self, relation: Relation) -> None:
        """Add a relation. Raises InvalidRequestError if another has its alias."""
        if relation.alias and any(one.alias.lower() == relation.alias.lower() for one in self.relations):
            raise InvalidRequestError(
                f"sql: {relation.alias} is the name of two tables; give one another alias"
            )
        self.relations.append(relation)
        self.tables[relation.alias] = {}  # type: ignore[index]  # the resolver asks which there are

    def of_rows(self) -> Relations:
        """Return the scope of what is computed of each row, as an aggregate is: without the names of SELECT."""
        return self

    def find(self, table: str, name: str) -> list[tuple[str, Typed]]:
        """Return what a name may mean, in this query, and only without that in the one around."""
        if not table and name.lower() in self.merged:
            return [self.merged[name.lower()]]
        found = [
            (
                f"{one.alias}.{one.columns[number][0]}" if one.alias else one.columns[number][0],
                one.column(number),
            )
            for one in self.relations
            if table.lower() in ("", one.alias.lower())
            for number in one.numbers(name)
        ]
        return found if found or self.outer is None else self.outer.find(table, name)

    @property
    def names(self) -> list[str]:
        """All columns, as a text may write them."""
        own = [
            f"{one.alias}.{name}" if one.alias else name for one in self.relations for name, _ in one.columns
        ]
        return own + (self.outer.names if self.outer is not None else [])

    def star(self, table: str = "") -> Iterator[tuple[str, Typed]]:
        """Yield the columns that ``*`` means, or ``table.*``, each with its name."""
        seen = set() if table else set(self.merged)
        if not table:
            yield from self.merged.values()
        for one in self.relations:
            if table.lower() in ("", one.alias.lower()):
                for number, (name, _) in enumerate(one.columns):
                    if name.lower() not in seen:
                        yield name, one.column(number)
