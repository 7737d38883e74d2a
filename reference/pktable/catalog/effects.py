"""The effect of a change: how many rows it inserted, updated and deleted, and which files came and went.

Most of it is read from the snapshots before and after it, when somebody asks. Whether a row with a key was there before
is in no snapshot: a statement counts its updates while it writes.

Clauses: WH-12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pktable_spec.errors import CorruptFileError, SnapshotNotFoundError
from pktable_spec.vocabulary import COMPACT, OVERWRITE

from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId
from pktable.catalog.state import TableState
from pktable.format.metadata.snapshot import Snapshot
from pktable.kinds import kind_of


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change that ended with a ``snapshot``. A number of rows is None where nobody knows it.

    ``put``: rows that are new, inserted or in place of older ones. ``files_added``, ``files_removed``,
    ``bytes_added``: of the live data files after it and before it, its own compaction included.
    """

    snapshot: int
    inserted: int | None
    updated: int | None
    deleted: int | None
    put: int | None
    files_added: int
    files_removed: int
    bytes_added: int


class Result(int):
    """The id of the snapshot after a change. Its `effect` says what the change did; it is read when it is asked for.

    ``tally``: what the change has counted. Clauses: WH-12.
    """

    _catalog: Catalog
    _tally: Tally

    def __new__(cls, snapshot: int, catalog: Catalog, tally: Tally) -> Result:
        made = super().__new__(cls, snapshot)
        made._catalog, made._tally = catalog, tally
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)

    @cached_property
    def effect(self) -> Effect | None:
        """The effect of the change, None if its snapshots do not tell. Raises as `effect_of`."""
        return effect_of(self._catalog, int(self), self._tally)


@dataclass(slots=True)
class Tally:
    """The counts of a statement, made while it is computed, None where nobody has counted.

    ``updates``: the rows that it updates. ``gone``: of an append table, the rows that it deletes or updates.
    ``commit_id``: of a write, None for a compaction alone. ``may_replace``: whether a row that it inserts may replace
    one that it has not read.
    """

    commit_id: CommitId | None = None
    updates: int | None = None
    gone: int | None = None
    may_replace: bool = False

    def result(self, after: TableState | None, catalog: Catalog) -> Result | None:
        """Return the result of the statement that left ``after``, None if it changed nothing."""
        return None if after is None else Result(after.id, catalog, self)


NOTHING_COUNTED: Final = Tally()


def effect_of(catalog: Catalog, after: int, tally: Tally = NOTHING_COUNTED) -> Effect | None:
    """Return the effect of the change that ended with the snapshot ``after``.

    None if its snapshots have expired, or if others committed between a write and its compaction.
    ``tally``: as in `Result`. Raises CorruptFileError, and InvalidRequestError if the table was dropped or replaced.
    Clauses: TBL-60, WH-12.
    """
    catalog.expect_opened()
    found: list[Snapshot] = []
    try:
        return _effect(catalog, after, tally, found)
    except SnapshotNotFoundError:
        return None
    except CorruptFileError:
        if all(catalog.snapshots.expired_error(snapshot) is None for snapshot in found):
            raise
        return None


def _effect(catalog: Catalog, after: int, tally: Tally, found: list[Snapshot]) -> Effect | None:
    """Return the same, with the snapshots that it reads in ``found``. Raises SnapshotNotFoundError in addition."""

    def read(snapshot: int) -> Snapshot:
        found.append(catalog.snapshots.read(snapshot))
        return found[-1]

    written = last = read(after)
    if last.commit_kind == COMPACT and after > 1:  # its own compaction follows a write
        earlier = read(after - 1)
        same = (earlier.commit_user, earlier.commit_identifier)
        written = earlier if same == (last.commit_user, last.commit_identifier) else last
    made = CommitId(written.commit_user, written.commit_identifier)
    if tally.commit_id is not None and (written.commit_kind == COMPACT or made != tally.commit_id):
        return None  # the rows are in a snapshot before those of others
    state = catalog.states.at(written)
    end = state if written is last else catalog.states.at(last)
    before = catalog.states.at(read(written.id - 1)) if written.id > 1 else TableState()
    older, live = _sizes(before), _sizes(end)
    files = (
        len(live.keys() - older.keys()),
        len(older.keys() - live.keys()),
        sum(live[name] for name in live.keys() - older.keys()),
    )
    if written.commit_kind == COMPACT:
        return Effect(after, 0, 0, 0, 0, *files)
    new = [file for files in state.files.values() for file in files if file.file_name not in older]
    rows = sum(file.row_count for file in new)
    if kind_of(catalog.context.schema, catalog.context.root).has_keys:
        gone = sum(file.delete_row_count or 0 for file in new)
        put, moves = rows - gone, catalog.context.moves_keys
        return Effect(after, *_of_keys(written.commit_kind, put, gone, tally, moves=moves), put, *files)
    kept = older.keys() & _sizes(state).keys()
    gone = _live_rows(catalog, before, older.keys()) - _live_rows(catalog, state, kept)
    rewritten = (
        older.keys() != kept and tally.updates is None
    )  # a file that was written again has old rows, too
    if gone and rewritten:
        return Effect(after, None, None, None, None, *files)
    put = rows - gone + (gone if tally.gone is None else tally.gone)
    return Effect(after, *_of_places(put, put - rows + gone, tally.updates), put, *files)


def _of_keys(
    kind: str, put: int, retracted: int, tally: Tally, *, moves: bool
) -> tuple[int | None, int | None, int | None]:
    """Return the rows that a change of a table with a key has inserted, updated and deleted.

    ``retracted``: the records that delete. ``moves``: whether a row that is put may leave one in another partition.
    """
    if kind == OVERWRITE:
        return put, 0, None
    updates = tally.updates
    # Who deletes keys need not know whether they are there; a statement deletes rows that it has read.
    unknown = retracted > 0 and (updates is None or (moves and put > 0))
    deleted = None if unknown else retracted
    inserted = put - (updates or 0)
    if inserted and (updates is None or tally.may_replace):
        return None, None, deleted
    return inserted, updates or 0, deleted


def _of_places(put: int, gone: int, updates: int | None) -> tuple[int | None, int | None, int | None]:
    """Return the same of an append table. There an updated row is a row that goes and another one that comes."""
    if updates is None and put and gone:
        return None, None, None
    return put - (updates or 0), updates or 0, gone - (updates or 0)


def _sizes(state: TableState) -> dict[str, int]:
    return {file.file_name: file.file_size for files in state.files.values() for file in files}


def _live_rows(catalog: Catalog, state: TableState, names: Any) -> int:
    """Return how many rows of the files ``names`` no vector deletes."""
    total = 0
    for identity, files in state.files.items():
        deleted = catalog.context.deleted_counts(catalog.states.bucket(state, identity))
        total += sum(
            file.row_count - deleted.get(file.file_name, 0) for file in files if file.file_name in names
        )
    return total
