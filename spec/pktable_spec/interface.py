"""The interface by which the tests drive a table: the oracle, the local runner and the Spark runner implement it.

A `TableUnderTest` does what users do (write, compact, read, reopen) and shows the result (snapshots, files, vectors).

The other protocols are capabilities, which an implementation may have in addition. The tests do only the operations
that the table under test is capable of: staged work, concurrent writers, faults of what is stored.

All arguments and results are plain values, so that the results of two implementations can be compared by ``==``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from pktable_spec.vocabulary import RowKind

Scalar: TypeAlias = int | str | None
Row: TypeAlias = tuple[Scalar, ...]
Key: TypeAlias = tuple[Scalar, ...]
BucketId: TypeAlias = tuple[tuple[Scalar, ...], int]
"""The values of the partition, and the number of the bucket."""


class Change(NamedTuple):
    """A row of a write, and what the change does to the row's key. Clauses: TBL-4."""

    kind: RowKind
    row: Row


@dataclass(frozen=True)
class Shape:
    """The definition of a table: its columns as `(name, SQL type)` in order, its primary key and partition keys.

    Clauses: TBL-1, TBL-12, TBL-16.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    partition_keys: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(name for name, _ in self.columns)

    @cached_property
    def trimmed_key(self) -> tuple[str, ...]:
        """The primary key without the partition keys; buckets hash it and are sorted by it."""
        return tuple(name for name in self.primary_key if name not in self.partition_keys)

    @cached_property
    def moves_keys(self) -> bool:
        """Whether the primary key lacks a partition key, so that keys move between partitions. Clauses: BKT-21."""
        return bool(self.primary_key) and not set(self.primary_key).issuperset(self.partition_keys)

    @cached_property
    def stored_key(self) -> tuple[str, ...]:
        """The columns that tell stored rows apart: the primary key, with the partition keys that it lacks."""
        return (*self.primary_key, *(name for name in self.partition_keys if name not in self.primary_key))

    def pick(self, row: Row, names: Iterable[str]) -> Row:
        """Return the values of the columns ``names`` of ``row``, in that order."""
        return tuple(row[self.names.index(name)] for name in names)


@dataclass(frozen=True)
class Comparison:
    """A condition on one column with the meaning of SQL: a comparison with null is not true."""

    column: str
    operator: str  # one of = <> < <= > >=
    literal: int | str

    def holds(self, value: Scalar) -> bool:
        """Return whether the condition is true for a value of the column."""
        if value is None:
            return False
        return bool(_OPERATORS[self.operator](value, self.literal))

    @property
    def sql(self) -> str:
        """The condition as SQL."""
        literal = str(self.literal) if isinstance(self.literal, int) else "'" + self.literal + "'"
        return f"{self.column} {self.operator} {literal}"


_OPERATORS: Mapping[str, Callable[..., bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Query:
    """The query of a read.

    ``where``: conditions that must all hold. ``columns``: None for all. ``limit``: the greatest number of rows, None
    for no limit.
    """

    where: tuple[Comparison, ...] = ()
    columns: tuple[str, ...] | None = None
    limit: int | None = None

    def over(self, shape: Shape, rows: Iterable[Row]) -> list[Row]:
        """Return the result for a table that holds ``rows``, without applying the limit. Clauses: RD-6."""
        at = {name: position for position, name in enumerate(shape.names)}
        chosen = [r for r in rows if all(one.holds(r[at[one.column]]) for one in self.where)]
        if self.columns is None:
            return chosen
        return [tuple(row[at[name]] for name in self.columns) for row in chosen]


EVERYTHING = Query()


class Wanted(NamedTuple):
    """The arguments of one read; see `TableUnderTest.read`."""

    snapshot: int | None = None
    fresh: bool = False
    query: Query = EVERYTHING


class SnapshotInfo(NamedTuple):
    """A retained snapshot: its id, from 1, and its commit kind, APPEND or COMPACT."""

    id: int
    kind: str


class FileInfo(NamedTuple):
    """A live data file, by the metadata of a snapshot. Keys are trimmed keys. Clauses: LSM-7."""

    name: str
    bucket: BucketId
    level: int
    row_count: int
    min_key: Key
    max_key: Key
    min_sequence: int
    max_sequence: int
    retraction_count: int
    size: int  # bytes
    created: int  # creation time in any unit; it orders runs whose sequence numbers are equal (LSM-4)


class VectorInfo(NamedTuple):
    """A deletion vector: its DV index file, its bucket, its data file, and the deleted positions."""

    index_file: str
    bucket: BucketId
    data_file: str
    positions: frozenset[int]


class StoredRecord(NamedTuple):
    """A record as stored in a data file: its trimmed key, sequence number, row kind and row."""

    key: Key
    sequence: int
    kind: RowKind
    row: Row


class Summary(NamedTuple):
    """A snapshot in numbers: live files, their rows, deleted ones included, those with a vector, and deleted rows."""

    id: int
    kind: str
    rows: int
    files: int
    vectors: int
    deleted_rows: int


class CompactionPlan(NamedTuple):
    """The files that the compaction of a bucket would take, their rows and bytes, and the level these would go to."""

    files: int
    rows: int
    size: int
    output_level: int


class TableUnderTest(Protocol):
    """A primary-key table that can be written, compacted, read at every snapshot, and inspected.

    An implementation needs these eight methods and a way to create a table, `OpenTable`.
    """

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        """Commit ``changes``, later ones win; unless ``write_only``, then compact the buckets they touch."""
        ...

    def compact(self, *, full: bool = False) -> None:
        """Compact in every bucket the runs that the strategy picks, or all runs with ``full``."""
        ...

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        """Return the rows of a snapshot, the latest one for None, in any order.

        A default read of a table with deletion vectors skips level 0; a ``fresh`` read merges it. Without deletion
        vectors both merge all runs. `Query.over` answers a query from all rows.
        """
        ...

    def snapshots(self) -> Sequence[SnapshotInfo]:
        """Return the retained snapshots, ascending."""
        ...

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        """Return the live data files of every bucket, level 0 included."""
        ...

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        """Return the deletion vectors of all DV index files, those of files that are not live included."""
        ...

    def reopen(self) -> None:
        """Drop everything that is held in memory, and open the table again from its files."""
        ...

    def close(self) -> None:
        """Release all resources of the table. Its files may be deleted."""
        ...


# Capabilities: what an implementation can do in addition. The tests ask for them with isinstance.


@runtime_checkable
class ReadsTogether(Protocol):
    """A table that answers several reads at the same time, faster than one after the other."""

    def read_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """Return the results of several reads, in order. The reads may run concurrently."""
        ...


@runtime_checkable
class ShowsRecords(Protocol):
    """A table whose data files can be read record by record."""

    def records(self, snapshot: int, file: FileInfo) -> Sequence[StoredRecord]:
        """Return all records of a data file by position, without applying deletion vectors."""
        ...


@runtime_checkable
class StagesWork(ShowsRecords, Protocol):
    """A table whose writes and compactions can be held between the moment their files exist and their commit.

    `begin_write` and `begin_compaction` write all files and make nothing visible, `commit` makes the staged work
    visible or refuses it, and `abandon` drops it as a crash would. Whether a refusal is right depends on records.
    """

    def begin_write(self, changes: Sequence[Change], *, write_only: bool = False) -> int:
        """Stage a write and, unless ``write_only``, its compaction; return a ticket for `commit` or `abandon`."""
        ...

    def begin_compaction(self, *, full: bool = False) -> int | None:
        """Stage a compaction; return a ticket for `commit` or `abandon`, None if there is nothing to compact."""
        ...

    def commit(self, ticket: int) -> str | None:
        """Make staged work visible, and return None; or drop it, and return a clause that forbids its commit.

        A compaction of several buckets is committed whole or dropped. A write is never dropped: if another commit
        came first, its compaction is planned again. Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-24, CMT-33.
        """
        ...

    def abandon(self, ticket: int) -> None:
        """Drop staged work as a crash would."""
        ...


@runtime_checkable
class ExecutesStatements(Protocol):
    """A table that changes rows by statements over the rows that are there. None of them is a change of its own.

    Clauses: STM-1, STM-2, STM-7, STM-10.
    """

    def update(self, where: Comparison, values: Mapping[str, Scalar]) -> None:
        """Give the columns ``values`` new values in the rows for which ``where`` holds."""
        ...

    def delete_where(self, where: Comparison) -> None:
        """Delete the rows for which ``where`` holds."""
        ...

    def merge(self, source: Sequence[Row]) -> None:
        """Join with ``source`` by the primary key, which no two of its rows share.

        A row that a source row without ``v`` matches is deleted, one that any other matches is replaced by it. Source
        rows with ``v`` that match none are inserted.
        """
        ...

    def overwrite(self, rows: Sequence[Row], where: Comparison | None) -> None:
        """Replace the rows for which ``where`` holds (None: all rows) by ``rows``, for which it holds too."""
        ...

    def truncate(self) -> None:
        """Remove all rows."""
        ...


@runtime_checkable
class RacesStatements(ExecutesStatements, Protocol):
    """A table of which two statements can be executed at the same time. Clauses: STM-6."""

    def race(self, statement: Callable[[], None], other: Callable[[], None]) -> None:
        """Execute ``statement``, and ``other`` through another handle after it has read and before it commits."""
        ...


@runtime_checkable
class HasConcurrentWriters(Protocol):
    """A table to which independent writers can commit at the same time."""

    def write_concurrently(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        """Commit two write-only writes that began on the same snapshot, as two independent writers do.

        They may assign the same sequence numbers (LSM-8). They have no key in common.
        """
        ...


@runtime_checkable
class StoredOnDisk(Protocol):
    """A table in Paimon's format in a directory of its own, which can be read without the implementation."""

    @property
    def directory(self) -> Path:
        """The table directory."""
        ...


@runtime_checkable
class SuffersFaults(Protocol):
    """A stored table whose files other programs, or a failing disk, may change."""

    def enable_vectors(self) -> None:
        """Enable deletion vectors by a new schema alone, and open the table again."""
        ...

    def damage_vectors(self, number: int) -> bool:
        """Flip one bit of the latest snapshot's DV index files, read, and restore it; return whether the read failed.

        ``number``: the bit, counted from the end of the last file, modulo the number of bits.
        """
        ...

    def reorder_vectors(self) -> None:
        """Rewrite the latest snapshot's index manifest with its ranges in reverse order, as other writers may do."""
        ...

    def damage_file(self, file: FileInfo, number: int) -> str | None:
        """Damage a live file of the latest snapshot, or its metadata, in a copy; return what is wrong with the error.

        ``number``: of the damage. Clauses: RD-11, RD-19.
        """
        ...

    def work_on_a_full_disk(self, changes: Sequence[Change], at: int) -> tuple[bool, Sequence[str]]:
        """Write ``changes``, or compact fully if there are none, on a disk that is full from some operation on.

        ``at``: the number of that operation, from 1, of those that change the disk. Returns whether the work ended
        with an error, and the files that it left and nothing needs. Clauses: CMT-2, CMT-12, CMT-25.
        """
        ...


@runtime_checkable
class TellsItsPlans(Protocol):
    """A table that tells what it would do, and what its metadata says, without reading a row."""

    def files_of_read(self, wanted: Wanted) -> frozenset[str]:
        """Return the names of the files that a read opens; the limit of its query is not looked at."""
        ...

    def plan_compaction(self, *, full: bool) -> Mapping[tuple[str, int], CompactionPlan]:
        """Return what a compaction would take of each bucket, by the directory of its partition and its number."""
        ...

    def summaries(self) -> Sequence[Summary]:
        """Return the retained snapshots in numbers."""
        ...

    def uncompacted_rows(self) -> int:
        """Return how many rows of the latest snapshot a default read does not look at, and a fresh one does."""
        ...


@runtime_checkable
class RefusesRequests(Protocol):
    """A table that can be asked for what no table does."""

    def ask_wrongly(self) -> Sequence[str]:
        """Make many requests that must be refused, and return what is wrong with the answers."""
        ...


@runtime_checkable
class RollsBack(Protocol):
    """A table that can go back to an earlier snapshot, and be checked."""

    def roll_back(self, *, snapshot: int | None = None, tag: str | None = None) -> bool:
        """Go back to a snapshot or to what a tag keeps; return False if that is refused because of later tags."""
        ...

    def findings(self) -> Sequence[str]:
        """Return what a check of the whole table finds wrong. A text about a leftover file begins with note."""
        ...


@runtime_checkable
class KeepsSnapshots(Protocol):
    """A table whose old snapshots can expire, and be kept by tags."""

    def expire(self, retain_last: int) -> None:
        """Expire all but the newest ``retain_last`` snapshots."""
        ...

    def create_tag(self, tag: str, snapshot: int) -> None:
        """Keep a retained snapshot readable by name, also after it has expired."""
        ...

    def delete_tag(self, tag: str) -> None:
        """Delete a tag."""
        ...

    def read_tag(self, tag: str, *, fresh: bool = False) -> list[Row]:
        """Return the rows of the snapshot that a tag keeps, as `TableUnderTest.read` does."""
        ...


@runtime_checkable
class CountsRows(Protocol):
    """A table that counts its rows, perhaps without reading them."""

    def count(self, *, snapshot: int | None = None, fresh: bool = False) -> int:
        """Return the number of rows that `TableUnderTest.read` returns."""
        ...


@runtime_checkable
class ShowsChanges(Protocol):
    """A table whose changes can be read."""

    def changes(self, start: int, end: int) -> Sequence[Change]:
        """Return the changes of the snapshots after ``start`` up to ``end``: by snapshot, those of a key in order.

        They are those that the option `changelog-producer` says, or the records of level-0 files without one.
        Clauses: CHG-11.
        """
        ...


@runtime_checkable
class HasHandles(Protocol):
    """A table that can be used through several handles at once, as by several processes, each with its own caches."""

    def use(self, handle: int) -> None:
        """Do all that follows through a handle, opened when it is first used. ``handle``: from 0."""
        ...


OpenTable: TypeAlias = Callable[[Shape, Mapping[str, str]], TableUnderTest]
"""Create a table with this shape and these options (Paimon's names) in a new place."""
