"""Merge engines: how the records of one key become one record.

A table names its engine by the option ``merge-engine``. The same engine folds the rows of one write, the inputs of
a compaction and the runs of a read, so its result must not depend on how the records were grouped on their way:

* **associative over adjacent runs**: folding the results of two adjacent parts equals folding all their records;
* **idempotent**: the fold of a single record is that record;
* **oldest first**: an engine sees the records of a key in the order of their sequence numbers.

Engines that compute columns cannot fold a retraction into one record that would do the same to whatever is older. Such
an engine says so (``folds_retractions``), and the first law is one of adds only. With retractions another one holds:

* **complete**: folding the result of the oldest records of a key with the later records equals folding all of them,
  where a result that is a retraction is left out.

Then a write keeps each retraction apart from the other records of its key, in a run of its own, and a compaction with
retractions takes in all that is older.

Deletion vectors ask for more. A compaction with deletion vectors looks up the keys that only level 0 has and deletes
the rows that older files hold of them. An engine whose result needs the value of such a row must say so (``lookup``).

Two engines keep one record of a key as it is:

* ``deduplicate``: the newest record wins.
* ``first-row``: the oldest record wins, and deletions are refused or ignored. Levels above 0 hold each key once: a
  compaction leaves out the level-0 records of keys that an older file has.

Clauses: DV-24, MRG-1, MRG-2, MRG-3, MRG-4, MRG-6, MRG-8, MRG-12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.vocabulary import RowKind

from pktable.format.metadata.schema import TableSchema
from pktable.merge.engine_options import ENGINE, IGNORE_DELETE, SEQUENCE_FIELD, VECTORS, EngineOptions
from pktable.merge.grouping import Flags, Indices, Window, taken


class Deduplicate:
    """The `MergeEngine` that keeps the newest record."""

    name: Final = "deduplicate"
    lookup: Final[Literal["position"]] = "position"
    folds_retractions: Final = True
    updates: Final = True

    def __init__(self, ignores: frozenset[RowKind] = frozenset()) -> None:
        self.ignores = ignores
        self.deletes = not ignores

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def expect_any_order(self) -> None:
        """Do nothing: the newest record wins."""

    def settled(self, window: Window) -> Sequence[str]:
        return ()

    def fold(self, window: Window) -> Selected:
        return Selected(window, window.newest)


@dataclass(frozen=True, slots=True)
class Selected:
    """A fold that selects one record of each key. ``winners``: k row numbers of the window's records."""

    window: Window
    winners: Indices

    def adds(self) -> Flags:
        return self.window.adds()[self.winners]

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        return taken(self.window.records, self.winners if chosen is None else self.winners[chosen])

    def places(self, chosen: Flags) -> tuple[pa.Table, Indices]:
        return self.window.records, self.winners[chosen]


NAME: Final = "first-row"


class FirstRow:
    """The `MergeEngine` that keeps the oldest record."""

    name: Final = NAME
    lookup: Final[Literal["presence"]] = "presence"
    folds_retractions: Final = True
    deletes: Final = False
    updates: Final = False

    def __init__(self, options: EngineOptions) -> None:
        if options.flag(VECTORS):
            raise UnsupportedOptionError(ENGINE, NAME, f"another engine, or {VECTORS}=false")
        self.ignores = options.ignores

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def expect_any_order(self) -> None:
        raise UnsupportedOptionError(ENGINE, NAME, f"an engine that {SEQUENCE_FIELD} works with")

    def settled(self, window: Window) -> Sequence[str]:
        return ()

    def fold(self, window: Window) -> Selected:
        if not window.adds()[window.order].all():
            raise InvalidRequestError(
                f"option {ENGINE}={NAME}: rows cannot be deleted (-U, -D); set {IGNORE_DELETE}=true to ignore it"
            )
        return Selected(window, window.order[window.starts])


class Folded(Protocol):
    """One record per key of a window, keys ascending: k records."""

    def adds(self) -> Flags:
        """Return per key whether its record leaves a row (+I, +U); otherwise it is a retraction."""
        ...

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        """Return the records, or those of the keys where ``chosen`` (k flags) holds, with the window's columns."""
        ...

    def places(self, chosen: Flags) -> tuple[pa.Table, Indices]:
        """Return what `rows` of ``chosen`` does as row numbers of a table, from which nothing is copied yet."""
        ...


class MergeEngine(Protocol):
    """How the records of one key become one record. The laws in the header of this module must hold."""

    @property
    def name(self) -> str:
        """The value of the option ``merge-engine``."""
        ...

    @property
    def lookup(self) -> Literal["position", "values", "presence"]:
        """The part of an older row, in a file that it does not rewrite, that a compaction needs.

        With deletion vectors: its position, or also its values, which it merges. "presence": whether there is one,
        without deletion vectors; then the newer records of the key are left out.
        """
        ...

    @property
    def ignores(self) -> frozenset[RowKind]:
        """The kinds of the records that are merged as if they were not there."""
        ...

    @property
    def folds_retractions(self) -> bool:
        """Whether the first law also holds for retractions."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether a -D that has nothing but its key removes the row."""
        ...

    @property
    def updates(self) -> bool:
        """Whether a +U replaces the row by its own."""
        ...

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        """Return the columns that a fold must see to give ``columns``, those included.

        Key columns, sequence numbers and row kinds are always there and are not named.
        """
        ...

    def expect_any_order(self) -> None:
        """Raise UnsupportedOptionError unless records may be folded in any grouping, not of neighbours only.

        The newest is known, by the option ``sequence.field``. Clauses: MRG-24.
        """
        ...

    def settled(self, window: Window) -> Sequence[str]:
        """Return columns that are those of the newest record of each key of ``window``, whatever older adds there are.

        An engine that asks for values of older rows is given others of these columns.
        """
        ...

    def fold(self, window: Window) -> Folded:
        """Return one record per key of ``window``, which has no ignored records. Reads no file.

        Raises InvalidRequestError for a retraction that the engine cannot merge, and, with the rows of the result, for
        a number that its type cannot hold.
        """
        ...


def _partial_update(options: EngineOptions) -> MergeEngine:
    from pktable.merge.partial_update import PartialUpdate  # it imports Arrow's slow parts

    return PartialUpdate(options)


def _aggregation(options: EngineOptions) -> MergeEngine:
    from pktable.merge.aggregation import Aggregation  # it imports Arrow's slow parts

    return Aggregation(options)


ENGINES: dict[str, Callable[[EngineOptions], MergeEngine]] = {
    Deduplicate.name: lambda options: Deduplicate(options.ignores),
    "partial-update": _partial_update,
    "aggregation": _aggregation,
    FirstRow.name: FirstRow,
}
"""The implemented engines by name: each is made of the options and columns of a table."""


def engine_of(schema: TableSchema) -> MergeEngine:
    """Return the merge engine of a table, made of its options and columns.

    Raises UnsupportedOptionError if something it asks for is not implemented, or not together with deletion vectors;
    InvalidRequestError if its options do not fit each other or the columns.
    """
    options = EngineOptions(schema)
    make = ENGINES.get(options.engine)
    if make is None:
        raise UnsupportedOptionError(ENGINE, options.engine, " or ".join(ENGINES))
    return make(options)


def expect_writable_engine(schema: TableSchema) -> None:
    """Raise as `engine_of` does, and for an option that the table's engine does not know.

    Raises UnsupportedOptionError if rows would depend on when they are compacted: with ``sequence.field`` an engine
    may meet an older record after it has merged newer ones. Clauses: MRG-11, MRG-24.
    """
    options = EngineOptions(schema)
    options.expect_known()
    engine = engine_of(schema)
    if SEQUENCE_FIELD in options.options:
        from pktable.merge.user_order import user_order_of  # it imports Arrow's slow parts

        if user_order_of(schema) is not None:
            engine.expect_any_order()
