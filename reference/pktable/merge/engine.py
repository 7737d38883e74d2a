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

Clauses: MRG-1, MRG-2, MRG-3, MRG-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import pyarrow as pa
from pktable_spec.errors import UnsupportedOptionError

from pktable.format.metadata.schema import TableSchema
from pktable.merge.engine_options import ENGINE, SEQUENCE_FIELD, EngineOptions
from pktable.merge.grouping import Flags, Indices, Window
from pktable.merge.one_record import Deduplicate, FirstRow


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

    def ignored(self, records: pa.Table) -> Flags | None:
        """Return per record whether it is to be merged as if it were not there; None if that holds for no record."""
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
    Deduplicate.name: lambda options: Deduplicate(options.ignores_deletes),
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
