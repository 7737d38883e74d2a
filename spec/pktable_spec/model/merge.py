"""Merge engines: how the changes of one key become one change.

A table names its engine by the option ``merge-engine``. An engine has two functions:

1. `MergeEngine.apply` is the meaning: the row of a key after one more change. `meaning` uses nothing else.
2. `MergeEngine.fold` is the mechanism: several changes as one. Writes, compactions and reads fold the records of a key
   in parts, and without knowing the row that older records leave.

These laws make the two agree, whatever the parts are. ``changes`` are of one key, oldest first, and at least one:

* **sound**: applying the fold to a row, or to no row, gives what applying the changes one after another gives;
* **associative over adjacent runs**: folding the folds of two adjacent parts equals folding all their changes;
* **idempotent**: the fold of a single change is that change;
* **oldest first**: an engine sees the changes of a key in the order of their sequence numbers.

With ``sequence.field`` the columns of a row come before its sequence number (`UserOrder`). Records that are merged
then need not be neighbours, so the second law must hold for any parts of the changes; it does for deduplicate.

A retraction of no row leaves no row, by soundness; so a compaction may drop one that has nothing older below it.
Module Engines of ``spec/tla`` has the same laws.

Clauses: MRG-1, MRG-3, MRG-4, MRG-19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final, Literal, Protocol

from pktable_spec.errors import UnsupportedOptionError
from pktable_spec.interface import Change, Row, StoredRecord

OPTION: Final = "merge-engine"


class MergeEngine(Protocol):
    """How the changes of one key become one. The module says which laws must hold."""

    @property
    def name(self) -> str:
        """The value of the option ``merge-engine``."""
        ...

    @property
    def lookup(self) -> Literal["position", "values"]:
        """The part of an older row that a compaction with deletion vectors needs: its position, or its values too."""
        ...

    def apply(self, row: Row | None, change: Change) -> Row | None:
        """Return the row of a key after ``change``; None is no row."""
        ...

    def fold(self, changes: Sequence[Change]) -> Change:
        """Return the one change that does what ``changes`` do, oldest first."""
        ...


class Deduplicate:
    """The `MergeEngine` that keeps the newest change. Clauses: MRG-1, MRG-3."""

    name: Final = "deduplicate"
    lookup: Final[Literal["position", "values"]] = "position"

    def apply(self, row: Row | None, change: Change) -> Row | None:
        return change.row if change.kind.is_add else None

    def fold(self, changes: Sequence[Change]) -> Change:
        return changes[-1]


DEDUPLICATE: Final = Deduplicate()

ENGINES: Final[dict[str, MergeEngine]] = {DEDUPLICATE.name: DEDUPLICATE}
"""The engines by name. A test may add one of its own."""


def engine_named(name: str) -> MergeEngine:
    """Return the engine of that name. Raises UnsupportedOptionError if there is none."""
    if name not in ENGINES:
        raise UnsupportedOptionError(OPTION, name, " or ".join(ENGINES))
    return ENGINES[name]


@dataclass(frozen=True)
class UserOrder:
    """The option ``sequence.field``: the places of its columns in a row, and whether small values are newer.

    Clauses: MRG-19.
    """

    columns: tuple[int, ...]
    descending: bool = False

    def is_newer(self, row: Row, other: Row) -> bool:
        """Return whether a row is newer than another by these columns alone."""
        return self.compared(row, other) > 0

    def compared(self, row: Row, other: Row) -> int:
        """Return a number above 0 if ``row`` is newer, below 0 if it is older, and 0 if that is not said."""
        for column in self.columns:
            one, two = row[column], other[column]
            if one == two:
                continue
            if one is None or two is None:
                return -1 if one is None else 1
            return 1 if self._greater(one, two) != self.descending else -1
        return 0

    def _greater(self, one: Any, two: Any) -> bool:
        # Strings compare by their bytes (MRG-7).
        return bool(one.encode() > two.encode() if isinstance(one, str) else one > two)

    def sorted_changes(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of a key, given in the order in which they were written, oldest first."""
        by_row = cmp_to_key(self.compared)
        return sorted(changes, key=lambda change: by_row(change.row))


def oldest_first(records: Sequence[StoredRecord], order: UserOrder | None) -> list[StoredRecord]:
    """Return the records of a key, given with those of older runs first, oldest first.

    Clauses: MRG-1, MRG-2, MRG-6, MRG-19.
    """
    found = sorted(records, key=lambda record: (record.sequence, record.kind.is_add))
    if order is None:
        return found
    by_row = cmp_to_key(order.compared)
    return sorted(found, key=lambda record: by_row(record.row))


def folded(records: Sequence[StoredRecord], engine: MergeEngine) -> StoredRecord:
    """Return the one record that records of one key become, oldest first; it has the newest sequence number."""
    kind, row = engine.fold([Change(record.kind, record.row) for record in records])
    return records[-1]._replace(kind=kind, row=row)
