"""CHANGES FROM VERSION: the changes of a table with the columns that Spark gives them.

Clauses: WH-21.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pktable_spec.errors import InvalidRequestError

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
    latest = table.catalog.snapshots.latest_id() or 0
    start = _snapshot(table, clause.first, latest)
    end = None if clause.last is None else _snapshot(table, clause.last, latest)
    if end is not None and start > end:
        raise InvalidRequestError(
            f"CHANGES FROM VERSION {start} TO VERSION {end}: the first is after the last"
        )
    return table.changes(
        start if clause.after else start - 1,
        end if end is None or not clause.before else end - 1,
        commits=True,
    )


def _snapshot(table: Table, word: Word, latest: int) -> int:
    """Return the id of a snapshot that a word names: a tag of that name, or a number. Clauses: WH-11."""
    if word.text.isdecimal() and word.text not in table.catalog.snapshots.tags():
        if not 1 <= int(word.text) <= latest:
            raise InvalidRequestError(
                f"CHANGES FROM VERSION: expected a snapshot from 1 to {latest} or a tag in quotes, found {word.text}"
            )
        return int(word.text)
    return table.catalog.snapshots.by_tag(word.text).id
