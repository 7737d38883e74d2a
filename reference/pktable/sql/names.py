"""What a name in a statement means: a table of the warehouse, one of its metadata tables, a table by its path, or
something of Spark's.

A name has up to three parts: catalog, database, table. The catalog is the warehouse, under the name that the session
gave it. Without a database a table is looked for in the current one. `` pktable.`/path` `` is a table by its path.

Clauses: WH-10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.paths import OF_BRANCH
from pktable.sql.words import quoted
from pktable.store.directories import DEFAULT

if TYPE_CHECKING:
    from pktable.table import Table
    from pktable.warehouse import Warehouse

BY_PATH: Final = "pktable"
"""The first part of a name whose second is a path."""


@dataclass(frozen=True, slots=True)
class Found:
    """A table of ours. ``database``: "" of a path in ``table``. ``metadata``: which metadata table of it, or None.

    ``branch``: which branch of it, None for the main one.
    """

    database: str
    table: str
    metadata: str | None = None
    branch: str | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}" if self.database else self.table


@dataclass(frozen=True)
class View:
    """The query of a temporary view, and the database in which it was made."""

    query: str
    database: str


@dataclass
class Names:
    """Looks names up. ``database``: the current one. ``views``: by their names in small letters.

    ``is_sparks``, ``is_sparks_database``: whether Spark has a table or view, or a database, of a name as SQL has it.
    """

    warehouse: Warehouse
    catalog: str
    is_sparks: Callable[[str], bool]
    is_sparks_database: Callable[[str], bool]
    database: str = DEFAULT
    views: dict[str, View] = field(default_factory=dict)

    def is_catalog(self, name: str) -> bool:
        """Whether the catalog has this name, in any letter case."""
        return name.lower() == self.catalog.lower()

    def find(self, parts: Sequence[str]) -> Found | None:
        """Return the table of ours that a name means, None if it is none.

        Raises InvalidRequestError if the name may mean a table of Spark's too, and if it is in a database of ours and
        neither has it. Clauses: WH-2, WH-10.
        """
        found = self.place(parts)
        if found is None or not found.database or len(parts) == 3:
            if found is not None and found.database and not self.warehouse.has_table(found.name):
                self.warehouse.table(found.name)  # says what is like it
            return found
        shown = ".".join(map(quoted, parts))
        if self.warehouse.has_table(found.name):
            if found.metadata is None and self.is_sparks(shown):
                raise InvalidRequestError(
                    f"{'.'.join(parts)}: it is a table of {self.warehouse.path}, and one or a view of Spark; "
                    f"write {self.catalog}.{found.name} for the first, or drop the other"
                )
            return found
        if len(parts) == 2 and found.database in self.warehouse.databases() and not self.is_sparks(shown):
            self.warehouse.table(found.name)
        return None

    def place(self, parts: Sequence[str]) -> Found | None:
        """Return the table of ours that a name would mean, whether it is there or not; None if it can be none.

        Clauses: WH-10.
        """
        if len(parts) == 2 and parts[0].lower() == BY_PATH and ("/" in parts[1] or ":" in parts[1]):
            return Found("", *_divided(parts[1]))
        if len(parts) > 3 or (len(parts) == 3 and not self.is_catalog(parts[0])):
            return None
        database = parts[-2] if len(parts) > 1 else self.database
        table, metadata, branch = _divided(parts[-1])
        if not table or any("/" in part or "." in part for part in (database, table)):
            return None
        return Found(database, table, metadata, branch)

    def expect(self, parts: Sequence[str]) -> Found:
        """Return the table of ours that a name means. Raises InvalidRequestError if there is none. Clauses: WH-2."""
        found = self.find(parts)
        if found is not None and found.metadata is None:
            return found
        if found is None and (wanted := self.place(parts)) is not None:
            self.warehouse.table(wanted.name)
        raise InvalidRequestError(f"{'.'.join(parts)}: expected a table of {self.warehouse.path}")

    def open(self, found: Found) -> Table:
        """Open a table, or a branch of it. Raises as `Table.open` does."""
        if not found.database:
            return self.warehouse.at(found.table, branch=found.branch)
        return self.warehouse.table(found.name, branch=found.branch)


def _divided(name: str) -> tuple[str, str | None, str | None]:
    """Return the table, the metadata table and the branch of a name such as ``t$branch_b$files``. Clauses: WH-18."""
    table, *more = name.split("$")
    prefix = OF_BRANCH.removeprefix("$")
    branch = more.pop(0).removeprefix(prefix) if more and more[0].startswith(prefix) else None
    return table, "$".join(more).lower() or None, branch
