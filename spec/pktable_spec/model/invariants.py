"""What holds in every reachable state of the mechanism, and on every step between two.

Each check returns whether it holds; `broken` and `broken_by_step` name those that do not. A state is a
snapshot too, so checking every state checks every snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from pktable_spec.interface import Change, Key, Row
from pktable_spec.model.deletion_vectors import visible
from pktable_spec.model.levels import KeyedChange, Record, sorted_runs
from pktable_spec.model.mechanism import Mechanism, State, overlapping


def records_ascend(mechanism: Mechanism, state: State) -> bool:
    """In a file, keys ascend and are unique. Clauses: LSM-1."""
    return all(left.key < right.key for data in state.files for left, right in pairwise(data.records))


def levels_are_runs(mechanism: Mechanism, state: State) -> bool:
    """Levels are in range, and those above 0 are one run each. Clauses: LSM-2, LSM-3, CMT-11."""
    in_range = all(0 <= level <= mechanism.options.max_level for _, level in state.live)
    one_level_each = len({file for file, _ in state.live}) == len(state.live)
    return in_range and one_level_each and not overlapping(state)


def vectors_are_in_range(mechanism: Mechanism, state: State) -> bool:
    """A vector holds positions of its file. Clauses: DV-2."""
    return all(0 <= position < len(state.files[file].records) for file, position in state.vectors)


def level_zero_is_unmarked(mechanism: Mechanism, state: State) -> bool:
    """No vector names a file of level 0. Clauses: DV-3."""
    return all((file, 0) not in state.live for file, _ in state.vectors)


def vectors_name_live_files(mechanism: Mechanism, state: State) -> bool:
    """No vector names a file that is gone. Clauses: DV-4."""
    return {file for file, _ in state.vectors} <= {file for file, _ in state.live}


def keys_are_live_once(mechanism: Mechanism, state: State) -> bool:
    """Above level 0 a key has at most one unmarked record. Clauses: DV-12."""
    if not mechanism.options.deletion_vectors:
        return not state.vectors
    keys = [
        record.key
        for file, level in state.live
        if level > 0
        for record in visible(state.files, file, state.vectors)
    ]
    return len(keys) == len(set(keys))


def newer_runs_hold_newer_records(mechanism: Mechanism, state: State) -> bool:
    """Over the runs, newest first, the sequence numbers of a key descend. Clauses: CHG-20, LSM-4, LSM-6."""
    held: dict[Key, int] = {}
    for run in sorted_runs(state.files, state.live):
        for record in mechanism.input_run(state, run):
            newer = held.get(record.key, record.sequence + 1)
            copied = mechanism.options.deeper_rows_are_merged and newer == record.sequence
            if newer <= record.sequence and not copied:
                return False
            held[record.key] = record.sequence
    return True


def fresh_read_is_the_fold(mechanism: Mechanism, state: State) -> bool:
    """A fresh read equals the fold of all writes. Clauses: RD-3, RD-4, TBL-7."""
    return _by_key(mechanism.fresh_read(state)) == fold_of_writes(mechanism, state, len(state.files))


def plain_read_is_the_absorbed_fold(mechanism: Mechanism, state: State) -> bool:
    """A plain read equals the fold of the writes older than every live level-0 file. Clauses: RD-1, RD-2, RD-15."""
    if not mechanism.options.deletion_vectors:
        return True
    level_zero = [file for file, level in state.live if level == 0]
    return _by_key(mechanism.plain_read(state)) == fold_of_writes(
        mechanism, state, min(level_zero, default=len(state.files))
    )


def vectors_only_grow(mechanism: Mechanism, before: State, after: State) -> bool:
    """A file that stays live loses no mark. Clauses: DV-11."""
    live = {file for file, _ in after.live}
    return {mark for mark in before.vectors if mark[0] in live} <= after.vectors


def compaction_changes_no_read(mechanism: Mechanism, before: State, after: State) -> bool:
    """Unless a write committed, a fresh read stays as it was. Clauses: CMP-14."""
    if _write_count(before) != _write_count(after):
        return True
    return _seen(mechanism.fresh_read(before)) == _seen(mechanism.fresh_read(after))


def files_never_change(mechanism: Mechanism, before: State, after: State) -> bool:
    """Files are added, never altered. Clauses: CMT-15, CMP-10."""
    return after.files[: len(before.files)] == before.files


def visible_changes_are_commits(mechanism: Mechanism, before: State, after: State) -> bool:
    """What a reader sees changes with the snapshot, by one, or not at all. Clauses: CMT-20, CMT-25, DV-14."""
    if after.snapshot == before.snapshot:
        return after[:4] == before[:4]
    return after.snapshot == before.snapshot + 1


def absorbed_writes_stay_absorbed(mechanism: Mechanism, before: State, after: State) -> bool:
    """No file returns to level 0. Clauses: RD-2."""
    return all(
        level > 0 or (file, level) in before.live or file >= len(before.files) for file, level in after.live
    )


STATE_INVARIANTS: Final[tuple[Callable[[Mechanism, State], bool], ...]] = (
    records_ascend,
    levels_are_runs,
    vectors_are_in_range,
    level_zero_is_unmarked,
    vectors_name_live_files,
    keys_are_live_once,
    newer_runs_hold_newer_records,
    fresh_read_is_the_fold,
    plain_read_is_the_absorbed_fold,
)

STEP_INVARIANTS: Final[tuple[Callable[[Mechanism, State, State], bool], ...]] = (
    vectors_only_grow,
    compaction_changes_no_read,
    files_never_change,
    visible_changes_are_commits,
    absorbed_writes_stay_absorbed,
)


def broken(mechanism: Mechanism, state: State) -> list[str]:
    """Return the names of the invariants that do not hold in ``state``."""
    return [holds.__name__ for holds in STATE_INVARIANTS if not holds(mechanism, state)]


def broken_by_step(mechanism: Mechanism, before: State, after: State) -> list[str]:
    """Return the names of the step invariants that the step from ``before`` to ``after`` breaks."""
    return [holds.__name__ for holds in STEP_INVARIANTS if not holds(mechanism, before, after)]


def writes(state: State) -> list[tuple[KeyedChange, ...]]:
    """Return what the writes of a bucket left of themselves, in commit order.

    A file born at level 0 is a write, and it has one record for all changes of a key.
    """
    return [
        tuple(KeyedChange(record.key, record.kind, record.row) for record in data.records)
        for data in state.files
        if data.born == 0
    ]


def fold_of_writes(mechanism: Mechanism, state: State, file_count: int) -> dict[Key, Row]:
    """Return the fold of the writes among the first ``file_count`` files. Clauses: TBL-7."""
    changes: dict[Key, list[Change]] = {}
    for write in writes(state._replace(files=state.files[:file_count])):
        for key, kind, row in write:
            changes.setdefault(key, []).append(Change(kind, row))
    found = {}
    for key, of_key in changes.items():
        row_of_key: Row | None = None
        order = mechanism.options.order
        for change in of_key if order is None else order.sorted_changes(of_key):
            row_of_key = mechanism.options.merge_engine.apply(row_of_key, change)
        if row_of_key is not None:
            found[key] = row_of_key
    return found


def _write_count(state: State) -> int:
    return sum(data.born == 0 for data in state.files)


def _seen(records: list[Record]) -> list[tuple[Key, int, Row]]:
    """Return what a reader sees of records, by key: not which of the two kinds of an add they are."""
    return sorted((record.key, record.sequence, record.row) for record in records)


def _by_key(records: list[Record]) -> dict[Key, Row] | None:
    """Return the rows by key, None where a key comes twice."""
    rows = {record.key: record.row for record in records}
    return rows if len(rows) == len(records) else None
