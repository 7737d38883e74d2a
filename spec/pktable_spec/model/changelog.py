"""What a table must record of its changes: the difference of two sets of rows, for the keys that may have changed.

Nothing here knows of files. `Meaning.recorded` gives the rows by the log of writes, and `Mechanism.changelog` by the
records of some levels; the tests compare both with what a table says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pktable_spec.interface import Change, Key, Row
from pktable_spec.vocabulary import RowKind


def difference(before: Mapping[Key, Row], after: Mapping[Key, Row], keys: Iterable[Key]) -> list[Change]:
    """Return the changes that make ``after`` of ``before``, for ``keys`` alone, also where a row stays equal.

    Clauses: CHG-5, CHG-7.
    """
    changes = []
    for key in sorted(set(keys), key=repr):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            changes.append(Change(RowKind.INSERT, new))
        elif old is not None and new is None:
            changes.append(Change(RowKind.DELETE, old))
        elif old is not None and new is not None:
            changes += [Change(RowKind.UPDATE_BEFORE, old), Change(RowKind.UPDATE_AFTER, new)]
    return changes
