"""CHANGES FROM VERSION: the changes of a table with the columns that Spark gives them.

Clauses: WH-21.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pktable.sql.references import ChangesClause
from pktable.sql.words import Word

if TYPE_CHECKING:
    from pktable.change_scan import ChangeScan
    from pktable.table import Table

CHANGE_TYPE: Final = "_change_type"
CHANGE_TYPES: Final = MappingProxyType(
    {"+I": "insert", "-D": "delete", "-U": "update_preimage", "+U": "update_postimage"}
)
"""Each kind of change as Spark calls it."""


def changes_of(table: Table, clause: ChangesClause) -> ChangeScan:
    """Return the changes that a clause asks for, with the id and the time of their snapshot.

    Raises InvalidRequestError, SnapshotNotFoundError. Clauses: WH-21.
    """
    start = _snapshot(table, clause.first)
    end = None if clause.last is None else _snapshot(table, clause.last)
    return table.changes(
        start if clause.after else start - 1,
        end if end is None or not clause.before else end - 1,
        commits=True,
    )


def _snapshot(table: Table, word: Word) -> int:
    """Return the id of a snapshot that a word names: a tag of that name, or a number. Clauses: WH-11."""
    if word.text.isdecimal() and word.text not in table.catalog.snapshots.tags():
        return int(word.text)
    return table.catalog.snapshots.by_tag(word.text).id
