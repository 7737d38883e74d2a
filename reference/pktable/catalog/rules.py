"""The commit rules: when a change may not become the next snapshot.

A rule is a clause and a function that returns what stands against the change, or None. The rules of a compaction
are asked in order, and the first that objects is the reason of the conflict.

Clauses: APP-15 to APP-17, CMT-7, CMT-8, CMT-9, CMT-10, CMT-11, CMT-18.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from pktable.catalog.state import TableState
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketChange, KeyOrder, level_run

if TYPE_CHECKING:  # it brings all that writes data files, which metadata alone does not need
    from pktable.bucket.write import BucketAppend


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a change of one bucket may not be committed: the clause that forbids it, and what was found."""

    clause: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} ({self.clause})"


def first_conflict(
    rules: Sequence[tuple[str, Callable[..., str | None]]], *subject: object
) -> Conflict | None:
    """Return the objection of the first rule that has one to ``subject``, None if all agree."""
    for clause, rule in rules:
        what = rule(*subject)
        if what is not None:
            return Conflict(clause, what)
    return None


@dataclass(frozen=True)
class Attempt:
    """A compaction of one bucket, and the state it is to be committed on."""

    change: BucketChange
    state: TableState
    order: KeyOrder

    @cached_property
    def live(self) -> dict[tuple[str, int], DataFileMeta]:
        """The bucket's live files by name and level, before the commit."""
        return {(file.file_name, file.level): file for file in self.state.files.get(self.change.place.id, ())}

    @cached_property
    def live_after(self) -> list[DataFileMeta]:
        """The bucket's live files after the commit."""
        removed = {(file.file_name, file.level) for file in self.change.removed}
        return [*(file for key, file in self.live.items() if key not in removed), *self.change.added]


def inputs_are_live(attempt: Attempt) -> str | None:
    """Every input is live at the level it was planned at. Clauses: CMT-7."""
    for file in attempt.change.removed:
        if (file.file_name, file.level) not in attempt.live:
            return f"{file.file_name} is no longer live at level {file.level}"
    return None


def vectors_are_unchanged(attempt: Attempt) -> str | None:
    """The bucket's DV index file is the one the compaction was planned on. Clauses: CMT-8."""
    place, base = attempt.change.place, attempt.change.base_index
    latest = [index.file_name for index in attempt.state.indexes.get(place.id, ())]
    if latest == ([base.file_name] if base else []):
        return None
    return f"the deletion vectors of bucket {place.bucket} have changed"


def vectors_name_live_files(attempt: Attempt) -> str | None:
    """Every file that the new DV index file names is live after the commit. Clauses: CMT-9."""
    names = {file.file_name for file in attempt.live_after}
    index = attempt.change.index
    for vector in (index.ranges or ()) if index else ():
        if vector.data_file not in names:
            return f"{vector.data_file}, which a deletion vector names, is no longer live"
    return None


def levels_are_disjoint(attempt: Attempt) -> str | None:
    """The files of each level >= 1 that the compaction adds to have disjoint key ranges. Clauses: CMT-11."""
    order = attempt.order
    for level in {file.level for file in attempt.change.added if file.level > 0}:
        for left, right in pairwise(level_run(attempt.live_after, level, order)):
            if order.greatest(left) >= order.smallest(right):
                return f"{left.file_name} and {right.file_name} overlap at level {level}"
    return None


Rule: TypeAlias = Callable[[Attempt], str | None]

COMPACTION_RULES: Final[tuple[tuple[str, Rule], ...]] = (
    ("CMT-7", inputs_are_live),
    ("CMT-8", vectors_are_unchanged),
    ("CMT-9", vectors_name_live_files),
    ("CMT-11", levels_are_disjoint),
)


@dataclass(frozen=True)
class FileAttempt:
    """A change of files of an append table, and the bucket as it is in the state to commit on.

    ``live``: the names of its live files. ``vectors``: its vectors by data file.
    """

    change: BucketChange
    live: frozenset[str]
    vectors: Mapping[str, DeletionVector]


def removed_files_are_live(attempt: FileAttempt) -> str | None:
    """Every file that the change removes is live. Clauses: APP-15."""
    for file in attempt.change.removed:
        if file.file_name not in attempt.live:
            return f"{file.file_name} is no longer live"
    return None


def vectors_of_removed_files_are_unchanged(attempt: FileAttempt) -> str | None:
    """Every file that the change removes has the vector under which it was read. Clauses: APP-16."""
    for file in attempt.change.removed:
        name = file.file_name
        if attempt.vectors.get(name) != attempt.change.read_under.get(name):
            return f"others deleted rows of {name}"
    return None


def changed_rows_are_live(attempt: FileAttempt) -> str | None:
    """Every row that the change deletes is still live. Clauses: APP-17."""
    for name, vector in attempt.change.deleted.items():
        if name not in attempt.live:
            return f"{name} is no longer live"
        before = attempt.vectors.get(name)
        if before is not None and len(vector.difference(before)) < vector.cardinality:
            return f"others deleted rows of {name} that the change deletes too"
    return None


FileRule: TypeAlias = Callable[[FileAttempt], str | None]

FILE_RULES: Final[tuple[tuple[str, FileRule], ...]] = (
    ("APP-15", removed_files_are_live),
    ("APP-16", vectors_of_removed_files_are_unchanged),
    ("APP-17", changed_rows_are_live),
)


def numbers_are_newest(append: BucketAppend, live: Sequence[DataFileMeta]) -> str | None:
    """The first sequence number that the write allocated is above those of all live files. Clauses: CMT-10, CMT-18.

    The first allocated number is compared, not the least number left in a file. A row that was replaced within its own
    write leaves a gap, and the numbers of a write in between may lie in the gap.
    """
    highest = max((file.max_sequence_number for file in live), default=-1)
    if append.first_sequence > highest:
        return None
    bucket = append.place.bucket
    return f"sequence number {append.first_sequence} is not above {highest}, which is live in bucket {bucket}"


AppendRule: TypeAlias = "Callable[[BucketAppend, Sequence[DataFileMeta]], str | None]"

APPEND_RULES: Final[tuple[tuple[str, AppendRule], ...]] = (("CMT-10", numbers_are_newest),)
