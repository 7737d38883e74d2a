"""Records, data files, sorted runs, and how records of one key are merged.

A data file is immutable: its records in key order, whose index is their position, and the level it was
born at. The level it is at now belongs to the state, because an upgrade changes that and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from pktable_spec.interface import Key, Row, StoredRecord
from pktable_spec.model.merge import DEDUPLICATE, MergeEngine, UserOrder, folded, oldest_first, retracts_apart
from pktable_spec.vocabulary import RowKind

Record: TypeAlias = StoredRecord

FileId: TypeAlias = int
"""Index into `State.files`; ids ascend with creation."""

LiveFile: TypeAlias = tuple[FileId, int]
"""A live file and the level it is at."""


class KeyedChange(NamedTuple):
    """A change of one bucket, its trimmed key taken out."""

    key: Key
    kind: RowKind
    row: Row


class DataFile(NamedTuple):
    """An immutable file: its records, ascending by key, and the level it was written to (0: a write)."""

    records: tuple[Record, ...]
    born: int

    @property
    def min_key(self) -> Key:
        return self.records[0].key

    @property
    def max_key(self) -> Key:
        return self.records[-1].key

    @property
    def min_sequence(self) -> int:
        return min(record.sequence for record in self.records)

    @property
    def max_sequence(self) -> int:
        return max(record.sequence for record in self.records)

    @property
    def retraction_count(self) -> int:
        return sum(not record.kind.is_add for record in self.records)


def merge(
    runs: Sequence[Iterable[Record]], engine: MergeEngine = DEDUPLICATE, order: UserOrder | None = None
) -> list[Record]:
    """Return the one record that the records of each key become, keys ascending; ``runs`` are given newest first.

    Clauses: MRG-1, MRG-2, MRG-4, MRG-5, MRG-6, MRG-19.
    """
    records: dict[Key, list[Record]] = {}
    for run in reversed(runs):
        for record in run:
            records.setdefault(record.key, []).append(record)
    # Sorts are stable: of records that are equal in all that counts, that of the newer run comes last.
    return [folded(oldest_first(records[key], order), engine) for key in sorted(records)]


def flush(
    changes: Sequence[KeyedChange],
    first_sequence: int,
    engine: MergeEngine = DEDUPLICATE,
    order: UserOrder | None = None,
) -> tuple[Record, ...]:
    """Number the changes of one write consecutively and merge those of each key, in key order.

    Clauses: LSM-1, LSM-5, TBL-6.
    """
    numbered = [
        Record(change.key, sequence, change.kind, change.row)
        for sequence, change in enumerate(changes, first_sequence)
    ]
    return tuple(merge([numbered], engine, order))


def runs_of_write(
    changes: Sequence[KeyedChange],
    first_sequence: int,
    engine: MergeEngine = DEDUPLICATE,
    order: UserOrder | None = None,
) -> list[tuple[Record, ...]]:
    """Return the sorted runs of one write, oldest first: one, or more where a retraction meets others of its key.

    The changes of a later run have the greater numbers. Clauses: LSM-5, MRG-8.
    """
    if not retracts_apart(engine):
        return [flush(changes, first_sequence, engine, order)]
    runs: list[list[KeyedChange]] = []
    newest: dict[Key, tuple[int, bool]] = {}
    for change in changes:
        run, was_add = newest.get(change.key, (0, change.kind.is_add))
        run += change.key in newest and not (was_add and change.kind.is_add)
        newest[change.key] = run, change.kind.is_add
        runs += [[]] * (run == len(runs))
        runs[run] = [*runs[run], change]
    found = []
    for part in runs:
        found.append(flush(part, first_sequence, engine, order))
        first_sequence += len(part)
    return found


def sorted_runs(files: Sequence[DataFile], live: Iterable[LiveFile]) -> list[tuple[LiveFile, ...]]:
    """Return the runs of a bucket, newest first, the files of each in key order.

    Clauses: LSM-2, LSM-4, LSM-8.
    """
    level_zero = [entry for entry in live if entry[1] == 0]
    if len(level_zero) > 1:
        # Ids ascend with creation time, and stand for time and name alike.
        level_zero.sort(
            key=lambda entry: (-files[entry[0]].max_sequence, -files[entry[0]].min_sequence, entry[0])
        )
    deeper: dict[int, list[LiveFile]] = {}
    for entry in live:
        if entry[1] > 0:
            deeper.setdefault(entry[1], []).append(entry)
    return [(entry,) for entry in level_zero] + [
        tuple(sorted(deeper[level], key=lambda entry: files[entry[0]].min_key)) for level in sorted(deeper)
    ]
