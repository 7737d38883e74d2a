"""A second merge engine for the oracle, owned by the tests: the maximum of a column.

``+I`` raises the row of its key to its own if its value in the column is greater or equal, ``+U`` sets it, and a
retraction removes it. The row of a key that is only inserted is so the greatest one since its last retraction.

The subtle case: a retraction and a later ``+I`` are folded before anybody knows what is older. The result is ``+U``,
which says that what is older no longer counts. `ForgetsRetractions` gets that wrong. Module MaxEngine of
``spec/tla`` has both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Final
from unittest import mock

from pktable_spec.interface import Change, Row
from pktable_spec.model.merge import ENGINES, Lookup, MergeEngine
from pktable_spec.vocabulary import RowKind

NAME: Final = "max-of-column"


@dataclass(frozen=True)
class MaxOfColumn:
    """The `MergeEngine`; ``column`` is a position in the row, from the end if negative. Null is less than any value."""

    column: int
    name: str = NAME
    lookup: Lookup = "values"
    ignores_retractions: bool = False

    def apply(self, row: Row | None, change: Change) -> Row | None:
        if not change.kind.is_add:
            return None
        if row is None or change.kind == RowKind.UPDATE_AFTER:
            return change.row
        return self.greater(row, change.row)

    def fold(self, changes: Sequence[Change]) -> Change:
        return reduce(self._as_one, changes)

    def _as_one(self, older: Change, newer: Change) -> Change:
        if newer.kind != RowKind.INSERT:
            return newer
        if not older.kind.is_add:
            return self.inserted_after_retraction(newer)
        return Change(older.kind, self.greater(older.row, newer.row))

    def inserted_after_retraction(self, insert: Change) -> Change:
        """Return what ``insert`` and the retraction before it do together."""
        return insert._replace(kind=RowKind.UPDATE_AFTER)

    def greater(self, older: Row, newer: Row) -> Row:
        """Return the row with the greater value; of equal ones the newer."""
        return newer if self._rank(newer) >= self._rank(older) else older

    def _rank(self, row: Row) -> tuple[bool, object]:
        value = row[self.column]
        return value is not None, value if value is not None else 0


class ForgetsRetractions(MaxOfColumn):
    """A retraction and a later insert become the insert: the row before the retraction counts again."""

    def inserted_after_retraction(self, insert: Change) -> Change:
        return insert


@contextmanager
def registered(engine: MergeEngine) -> Iterator[MergeEngine]:
    """Let the oracle find ``engine`` by its name, in place of another of that name, until the block ends."""
    with mock.patch.dict(ENGINES, {engine.name: lambda options, columns: engine}):
        yield engine
