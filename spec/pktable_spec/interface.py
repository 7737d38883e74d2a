"""The one interface that the oracle, the local runner and the Spark runner all satisfy.

A `TableUnderTest` does what users do (write, compact, read, reopen), shows what it made of it
(snapshots, files, vectors, records), and lets a test hold a write or a compaction between the moment
its files exist and the moment its snapshot does. Everything is plain values, so that an answer of one
implementation can be compared with that of another by ``==``.

The subtle case is the staged work: `begin_write` and `begin_compaction` do all the work and make nothing
visible; `commit` makes it visible or refuses, `abandon` is the crash in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from pktable_spec.vocabulary import RowKind

Scalar: TypeAlias = int | str | None
Row: TypeAlias = tuple[Scalar, ...]
Key: TypeAlias = tuple[Scalar, ...]
BucketId: TypeAlias = tuple[tuple[Scalar, ...], int]
"""The partition's values and the bucket's number."""


class Change(NamedTuple):
    """One row of a write and what it does to its key. Clauses: TBL-4."""

    kind: RowKind
    row: Row


@dataclass(frozen=True)
class Shape:
    """The columns of a table: `(name, SQL type)` in order, its primary key and its partition keys.

    Clauses: TBL-1, TBL-12, TBL-16.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    partition_keys: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @cached_property
    def trimmed_key(self) -> tuple[str, ...]:
        """The primary key without the partition keys: what a bucket sorts by and hashes."""
        return tuple(name for name in self.primary_key if name not in self.partition_keys)

    def pick(self, row: Row, names: Iterable[str]) -> Row:
        """Return the values of the columns ``names`` of ``row``, in that order."""
        return tuple(row[self.names.index(name)] for name in names)


@dataclass(frozen=True)
class Comparison:
    """One condition on a column, as SQL has it: a comparison with null is not true."""

    column: str
    operator: str  # one of = <> < <= > >=
    literal: int | str

    def holds(self, value: Scalar) -> bool:
        if value is None:
            return False
        return bool(_OPERATORS[self.operator](value, self.literal))

    @property
    def sql(self) -> str:
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
    """What a read asks for: conditions that must all hold, columns (None: all), a limit (None: none)."""

    where: tuple[Comparison, ...] = ()
    columns: tuple[str, ...] | None = None
    limit: int | None = None

    def over(self, shape: Shape, rows: Iterable[Row]) -> list[Row]:
        """Return the answer for a table that holds ``rows``, limit not applied. Clauses: RD-6."""
        at = {name: position for position, name in enumerate(shape.names)}
        chosen = [r for r in rows if all(one.holds(r[at[one.column]]) for one in self.where)]
        if self.columns is None:
            return chosen
        return [tuple(row[at[name]] for name in self.columns) for row in chosen]


EVERYTHING = Query()


class Wanted(NamedTuple):
    """The arguments of one read."""

    snapshot: int | None = None
    fresh: bool = False
    query: Query = EVERYTHING


class SnapshotInfo(NamedTuple):
    """A retained snapshot: its id, from 1, and what made it, APPEND or COMPACT."""

    id: int
    kind: str


class FileInfo(NamedTuple):
    """A live data file, as the metadata of a snapshot gives it. Keys are trimmed keys. Clauses: LSM-7."""

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
    created: int  # when, in any unit: it orders runs of equal sequence numbers (LSM-4)


class VectorInfo(NamedTuple):
    """One deletion vector: the index file that holds it, the bucket and data file it names."""

    index_file: str
    bucket: BucketId
    data_file: str
    positions: frozenset[int]


class StoredRecord(NamedTuple):
    """A record as a data file holds it: its trimmed key, sequence number, row kind and row."""

    key: Key
    sequence: int
    kind: RowKind
    row: Row


class TableUnderTest(Protocol):
    """A primary-key table that can be written, compacted, read at every snapshot, and looked into."""

    @property
    def directory(self) -> Path | None:
        """Where the table is stored; None for one that is held in memory."""
        ...

    @property
    def can_stage_writes(self) -> bool:
        """Whether `begin_write` works; `begin_compaction` always does."""
        ...

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        """Commit ``changes`` in order; unless ``write_only``, compact the buckets they touch."""
        ...

    def compact(self, *, full: bool = False) -> None:
        """Do what the strategy picks in every bucket, or all of it with ``full``."""
        ...

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        """Return the rows of a snapshot (None: the latest) in any order.

        Without deletion vectors both kinds of read merge every run.
        """
        ...

    def read_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """Return the answers of several reads, in order; they may be done side by side."""
        ...

    def snapshots(self) -> Sequence[SnapshotInfo]:
        """Return the retained snapshots, ascending."""
        ...

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        """Return the live data files of every bucket, level 0 included."""
        ...

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        """Return what the index of deletion vectors holds, dangling entries included."""
        ...

    def records(self, snapshot: int, file: FileInfo) -> Sequence[StoredRecord]:
        """Return every record of a data file by position, deletion vectors not applied."""
        ...

    def reopen(self) -> None:
        """Forget everything held in memory and read the table from what is stored."""
        ...

    def write_beside(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        """Commit two write-only writes begun on one snapshot, as writers that know nothing of each other.

        They may number their records alike (LSM-8); they have no key in common.
        """
        ...

    def enable_vectors(self) -> None:
        """Switch deletion vectors on by a new schema and nothing else, and open the table again.

        This and the next two act on files; a table held in memory does nothing.
        """
        ...

    def damage_vectors(self, number: int) -> bool:
        """Flip one bit of the latest snapshot's index files, read, put it back; return whether the read refused.

        ``number``: which bit, counted from the end, modulo all bits there are.
        """
        ...

    def reorder_vectors(self) -> None:
        """Write the latest snapshot's index manifest as another writer may: the same ranges in reverse order."""
        ...

    def begin_write(self, changes: Sequence[Change], *, write_only: bool = False) -> int:
        """Do a write and, unless ``write_only``, its compaction, and commit nothing; return a ticket."""
        ...

    def begin_compaction(self, *, full: bool = False) -> int | None:
        """Plan and do a compaction, and commit nothing; return a ticket, None if there is nothing to do."""
        ...

    def commit(self, ticket: int) -> bool:
        """Make staged work visible; False if another commit came between and the work was dropped.

        A write is never dropped: where another came between, its compaction is planned anew.
        """
        ...

    def abandon(self, ticket: int) -> None:
        """Drop staged work as a crash would."""
        ...

    def close(self) -> None:
        """Release what the table holds; its files may go."""
        ...


OpenTable: TypeAlias = Callable[[Shape, Mapping[str, str]], TableUnderTest]
"""Create a table of this shape with these options (Paimon's names) in a place of its own."""
