"""Changes of a table: each says what stands against it in a state, and what it does to that state.

`Append` adds the level-0 files of a write. `Compaction` replaces files and deletion vectors in some buckets. The commit
loop treats all changes alike.

Clauses: CMT-2, CMT-6, CMT-7, CMT-8, CMT-9, CMT-10, CMT-11, CMT-14, CMT-18.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.vocabulary import APPEND, COMPACT, OVERWRITE, ROW_ID

from pktable.catalog import rules
from pktable.catalog.isolation import Isolation
from pktable.catalog.rules import AppendRule, Attempt, Conflict, Rule, first_conflict
from pktable.catalog.state import Delta, TableState
from pktable.format.metadata.manifest import ADD, DELETE, DataFileMeta, IndexManifestEntry, ManifestEntry
from pktable.lsm.bucket import BucketChange, BucketId, KeyOrder

if TYPE_CHECKING:
    from pktable.bucket.write import BucketAppend

BATCH: Final = (1 << 63) - 1
"""The commit identifier of a commit that is no streaming checkpoint."""

Conflicts: TypeAlias = Mapping[Any, Conflict]
"""The conflicts of a change, by its parts: the buckets of a write, the numbers of other changes."""
Replaces = Callable[[bytes], bool]


class TouchedPartitions:
    """Of an overwrite that replaces the partitions in which it puts rows: those, when its files are written."""

    def __init__(self) -> None:
        self.partitions: frozenset[bytes] = frozenset()

    def __call__(self, partition: bytes) -> bool:
        return partition in self.partitions

    def __bool__(self) -> bool:
        """Whether there are any: without rows an overwrite of this kind changes nothing."""
        return bool(self.partitions)


"""Whether an overwrite replaces the rows of a partition, given as the bytes of its row."""


@dataclass(frozen=True, slots=True)
class CommitId:
    """Who commits, and which of its commits this is. A streaming writer numbers its checkpoints.

    Without a number of its own a write that is repeated is committed again. Clauses: META-2, CMT-53.
    """

    user: str
    identifier: int = BATCH

    @classmethod
    def new(cls) -> CommitId:
        """Return the id of a commit that nobody else makes."""
        return cls(str(uuid.uuid4()))

    @classmethod
    def given(cls, commit_id: CommitId | None) -> CommitId:
        """Return the id that a caller gave, a new one for None. Raises InvalidRequestError unless it can be stored."""
        if commit_id is None:
            return cls.new()
        if not isinstance(commit_id, CommitId):
            raise InvalidRequestError(f"commit_id: expected CommitId(user, number), found {commit_id!r}")
        user, number = commit_id.user, commit_id.identifier
        names_one = isinstance(user, str) and user != "" and _is_whole(user)
        if not names_one or type(number) is not int or not -BATCH <= number <= BATCH:
            raise InvalidRequestError(
                "commit_id: expected a text that is not empty, of whole characters, and an integer of 64 bits, "
                f"found {user!r} and {number!r}"
            )
        return commit_id


class CatalogChange(Protocol):
    """A change that wants to become the next snapshot."""

    def conflicts(self, state: TableState) -> Conflicts:
        """Return, for each part of the change that does not fit ``state``, why."""
        ...

    def delta(self, state: TableState, refused: Collection[Any]) -> Delta | None:
        """Return what the change does to ``state`` without the ``refused`` parts.

        None if nothing is to be committed, because nothing is left or because the change is all or nothing.
        """
        ...


@dataclass(frozen=True)
class Append:
    """The level-0 files of one write. It is committed whole or not at all. ``total_buckets``: of the table.

    ``isolation``: of a statement, what it read; its conflicts come before all others, because the write then is void.
    ``replaces``: of an overwrite, whether the rows of a partition go; its rows come of these if there is ``isolation``.
    ``assignment``: of a table with dynamic buckets, the hash index files that the rows were assigned by, and new ones.
    """

    appends: Sequence[BucketAppend]
    total_buckets: int
    rules: Sequence[tuple[str, AppendRule]] = field(default_factory=lambda: rules.APPEND_RULES)
    isolation: Isolation | None = None
    replaces: Replaces | None = None
    assignment: Assignment = field(default_factory=lambda: Assignment())

    def conflicts(self, state: TableState) -> Conflicts:
        found = _objections(
            (append.place.id, first_conflict(self.rules, append, state.files.get(append.place.id, ())))
            for append in self.appends
        )
        found |= self.assignment.conflicts(self.appends, state)
        if self.replaces is None:
            found |= self._of_other_totals(state)
        if self.isolation is None:
            return found
        if self.replaces is None:
            return found | self.isolation.conflicts(self.appends, state)
        return found | self.isolation.conflicts_of_replaced(self.replaces, state)

    def _of_other_totals(self, state: TableState) -> dict[BucketId, Conflict]:
        """Return the buckets whose partition has another number of buckets by now. Clauses: BKT-19."""
        ids = [append.place.id for append in self.appends if append.place.bucket >= 0 < self.total_buckets]
        return {
            one: Conflict("BKT-19", f"the partition of bucket {one[1]} has another number of buckets")
            for one in ids
            if state.totals.get(one[0], frozenset()) - {self.total_buckets}
        }

    def delta(self, state: TableState, refused: Collection[Any]) -> Delta | None:
        """Return the added files; the DV index files stay as they are. Clauses: BKT-3, CMT-2, CMT-6.

        An overwrite removes the live files of what it replaces, and their index files. Clauses: BKT-11, STM-7.
        """
        if refused:
            return None
        gone = replaced(state, self.replaces)
        entries = [
            entry(DELETE, bucket_id, state.total(bucket_id, self.total_buckets), file)
            for bucket_id in gone
            for file in state.files[bucket_id]
        ]
        entries += [
            entry(ADD, append.place.id, self.total_buckets, file)
            for append in self.appends
            for file in append.files
        ]
        if not entries:
            return None
        indexes = {bucket_id: index for bucket_id, index in state.indexes.items() if bucket_id not in gone}
        hashes = {
            bucket_id: index
            for bucket_id, index in state.hashes.items()
            if self.replaces is None or not self.replaces(bucket_id[0])
        }
        kind = APPEND if self.replaces is None else OVERWRITE
        changelog = _changelog(self.appends, self.total_buckets)
        return Delta(kind, tuple(entries), indexes, {**hashes, **self.assignment.new}, changelog)


@dataclass(frozen=True)
class Assignment:
    """How a write got dynamic buckets. The hash index files ``base`` said which keys had some; ``new`` go with it.

    ``base``: None for an overwrite, which goes by nothing that was there. ``places``: in a table whose keys move, the
    state in which they were looked up.
    """

    base: Mapping[BucketId, IndexManifestEntry] | None = None
    new: Mapping[BucketId, IndexManifestEntry] = field(default_factory=dict)
    places: Isolation | None = None

    def conflicts(self, appends: Sequence[BucketAppend], state: TableState) -> dict[BucketId, Conflict]:
        """Return the buckets whose partition has other hash index files in ``state``, or others moved keys.

        Clauses: BKT-8, BKT-26.
        """
        if self.places is not None:
            return self.places.conflicts(appends, state)
        if self.base is None or not (self.base or self.new) or self.base == state.hashes:
            return {}
        ids = {append.place.id for append in appends} | self.new.keys()
        partitions = {partition for partition, _ in ids}
        before, after = (_named_by_partition(one, partitions) for one in (self.base, state.hashes))
        what = "others gave buckets to keys of the partition of bucket"
        return {
            one: Conflict("BKT-8", f"{what} {one[1]}")
            for one in ids
            if before.get(one[0]) != after.get(one[0])
        }


def _named_by_partition(
    hashes: Mapping[BucketId, IndexManifestEntry], partitions: Collection[bytes]
) -> dict[bytes, set[tuple[int, str]]]:
    found: dict[bytes, set[tuple[int, str]]] = {}
    for (partition, bucket), index in hashes.items():
        if partition in partitions:
            found.setdefault(partition, set()).add((bucket, index.file_name))
    return found


def replaced(state: TableState, replaces: Replaces | None) -> list[BucketId]:
    """Return the buckets of ``state`` whose rows an overwrite removes."""
    return [] if replaces is None else [bucket_id for bucket_id in state.files if replaces(bucket_id[0])]


@dataclass(frozen=True)
class Compaction:
    """The compactions of some buckets. ``partly``: whether those that fit may be committed without the others.

    ``total_buckets``: of a partition that has no files in buckets with a number. ``totals``: where it is another one.
    """

    changes: Sequence[BucketChange]
    total_buckets: int
    order: KeyOrder
    partly: bool = True
    rules: Sequence[tuple[str, Rule]] = field(default_factory=lambda: rules.COMPACTION_RULES)
    totals: Mapping[bytes, int] = field(default_factory=dict)

    def conflicts(self, state: TableState) -> Conflicts:
        return _objections(
            (number, first_conflict(self.rules, Attempt(change, state, self.order)))
            for number, change in enumerate(self.changes)
        )

    def delta(self, state: TableState, refused: Collection[Any]) -> Delta | None:
        """Return files and DV index files after the compactions; None if they change nothing. Clauses: CMT-2, CMT-6."""
        if refused and not self.partly:
            return None
        fitting = [change for number, change in enumerate(self.changes) if number not in refused]

        def total(bucket_id: BucketId) -> int:
            return state.total(bucket_id, self.totals.get(bucket_id[0], self.total_buckets))

        entries, indexes = _after(state, fitting, total)
        if not entries and indexes == state.indexes:
            return None
        changelog = tuple(
            entry(ADD, one.place.id, total(one.place.id), file) for one in fitting for file in one.changelog
        )
        return Delta(COMPACT, tuple(entries), indexes, state.hashes, changelog)


def _is_whole(text: str) -> bool:
    """Return whether no character of ``text`` is half a surrogate pair, which no file can hold."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


def _objections(found: Iterable[tuple[Any, Conflict | None]]) -> dict[Any, Conflict]:
    """Return the conflicts among ``found``."""
    return {part: conflict for part, conflict in found if conflict}


def _after(
    state: TableState, changes: Iterable[BucketChange], total: Callable[[BucketId], int]
) -> tuple[list[ManifestEntry], dict[BucketId, tuple[IndexManifestEntry, ...]]]:
    """Return the manifest entries of ``changes``, and the DV index files of all buckets after them."""
    entries: list[ManifestEntry] = []
    indexes = dict(state.indexes)
    for change in changes:
        bucket_id = change.place.id
        entries += [entry(DELETE, bucket_id, total(bucket_id), file) for file in change.removed]
        entries += [entry(ADD, bucket_id, total(bucket_id), file) for file in change.added]
        indexes.pop(bucket_id, None)
        if change.indexes:
            indexes[bucket_id] = change.indexes
    return entries, indexes


def _changelog(
    changes: Iterable[BucketAppend | BucketChange], total_buckets: int
) -> tuple[ManifestEntry, ...]:
    """Return the manifest entries of the changelog files of ``changes``. Clauses: CHG-1."""
    return tuple(
        entry(ADD, change.place.id, total_buckets, file) for change in changes for file in change.changelog
    )


def entry(kind: int, bucket_id: BucketId, total_buckets: int, file: DataFileMeta) -> ManifestEntry:
    """Return the manifest entry that adds or removes a file of a bucket."""
    return ManifestEntry(kind, *bucket_id, total_buckets, file)


FROM_COMPACTION: Final = 1  # _FILE_SOURCE


def with_row_ids(
    entries: Iterable[ManifestEntry], before: TableState, *, at: str
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return the entries of a commit with ids and sequence numbers, and the first id that is free after it.

    ``before``: the state that it follows; ``at``: the path of its snapshot. The sequence number of new rows is the id
    of the commit's snapshot. Raises CorruptFileError if rows have ids, and the snapshot before does not say the next
    one. Clauses: APP-24.
    """
    found = before.snapshot.next_row_id if before.snapshot else None
    live = (file for files in before.files.values() for file in files)
    if found is None and any(file.first_row_id is not None for file in live):
        raise CorruptFileError("nextRowId", at=at, expected="an id, as rows have some", found="null")
    done, snapshot, next_row_id = [], before.id + 1, found or 0
    for one in entries:
        file = one.file
        if one.kind == ADD and file.min_sequence_number == 0:
            file = replace(file, min_sequence_number=snapshot, max_sequence_number=snapshot)
        has_ids = file.first_row_id is not None or ROW_ID in (file.write_cols or ())
        if one.kind == ADD and not has_ids and file.file_source != FROM_COMPACTION:
            file, next_row_id = replace(file, first_row_id=next_row_id), next_row_id + file.row_count
        done.append(replace(one, file=file))
    return tuple(done), next_row_id
