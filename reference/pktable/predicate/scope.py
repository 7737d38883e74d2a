"""The columns that a text may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import DataType, Field
from pktable.predicate.literals import general


class UnknownColumnError(InvalidRequestError):
    """A name that is no column, or several."""


@dataclass(frozen=True)
class Scope:
    """The columns that a text may name: per table alias the columns, each with its name in the tree and its type.

    Without aliases (one table under the name "") names cannot be qualified.
    """

    tables: Mapping[str, Mapping[str, tuple[str, DataType]]]

    @classmethod
    def of(cls, fields: Sequence[Field]) -> Scope:
        """Return the scope of one table whose name is not written."""
        return cls({"": {field.name: (field.name, general(field.type)) for field in fields}})

    def find(self, table: str, name: str) -> list[tuple[str, tuple[str, DataType]]]:
        """Return what a name may mean, as a text would write it; ``table`` is empty in a bare name."""
        tables = [
            (alias, self.tables[alias]) for alias in self.tables if table.lower() in ("", alias.lower())
        ]
        found = []
        for alias, columns in tables:
            same = [name] if name in columns else [c for c in columns if c.lower() == name.lower()]
            found += [(f"{alias}.{c}" if alias else c, columns[c]) for c in same]
        return found

    @property
    def names(self) -> list[str]:
        """All columns, as a text may write them."""
        return [f"{alias}.{name}" if alias else name for alias in self.tables for name in self.tables[alias]]
