"""How many rows a write has put and deleted, read from its snapshot.

Clauses: WH-12.
"""

from __future__ import annotations

from dataclasses import dataclass

from pktable_spec.errors import SnapshotNotFoundError
from pktable_spec.vocabulary import COMPACT

from pktable.catalog.catalog import Catalog
from pktable.catalog.state import TableState
from pktable.kinds import kind_of


@dataclass(frozen=True, slots=True)
class Effect:
    """The rows that a write has ``put`` (inserted, or in place of older ones), and those that it has ``deleted``.

    In an append table a row that takes the place of another one counts as both.
    """

    put: int
    deleted: int


def effect_of(catalog: Catalog, after: int) -> Effect | None:
    """Return the effect of the write that ended with the snapshot ``after``, None if its snapshots have expired.

    Raises CorruptFileError. Clauses: WH-12.
    """
    try:
        written = last = catalog.snapshots.read(after)
        if written.commit_kind == COMPACT:  # its own compaction follows a write
            written = catalog.snapshots.read(after - 1)
        if (written.commit_user, written.commit_identifier) != (last.commit_user, last.commit_identifier):
            return None
        state = catalog.states.at(written)
        before = catalog.states.at(catalog.snapshots.read(written.id - 1)) if written.id > 1 else TableState()
    except SnapshotNotFoundError:
        return None
    older = {file.file_name for files in before.files.values() for file in files}
    new = [file for files in state.files.values() for file in files if file.file_name not in older]
    if kind_of(catalog.context.schema, catalog.context.root).has_keys:
        deleted = sum(file.delete_row_count or 0 for file in new)
        return Effect(sum(file.row_count for file in new) - deleted, deleted)
    kept = {file.file_name for files in state.files.values() for file in files}
    gone = _live_rows(catalog, before, older) - _live_rows(catalog, state, older & kept)
    return Effect(sum(file.row_count for file in new), gone)


def _live_rows(catalog: Catalog, state: TableState, names: set[str]) -> int:
    """Return how many rows of the files ``names`` no vector deletes."""
    total = 0
    for identity, files in state.files.items():
        deleted = catalog.context.deleted_counts(catalog.states.bucket(state, identity))
        total += sum(
            file.row_count - deleted.get(file.file_name, 0) for file in files if file.file_name in names
        )
    return total
