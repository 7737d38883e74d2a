"""Group records by key: all records of a key side by side, oldest first.

1. Records come as tables of several runs, oldest run first, with their encoded keys.
2. A stable sort by key brings the records of a key together and keeps the order of the runs.
3. Sequence numbers decide which record is newer, not the age of its run (MRG-4). Our own tables always agree in
   both. Where they do not, in a damaged table or one of another writer, the records are sorted again by sequence
   number; of equal numbers a retraction comes first.
4. If the table has a `UserOrder`, that comes before the sequence numbers.

Clauses: MRG-1, MRG-2, MRG-4, MRG-5, MRG-6, MRG-19.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND, RowKind

if TYPE_CHECKING:
    from pktable.merge.key_encoding import Encoded  # imports Arrow's slow parts
    from pktable.merge.user_order import UserOrder

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Levels = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Window:
    """The records of a range of keys: n records of k keys.

    ``records``: n rows with key columns, sequence number, row kind and the columns that were asked for.
    ``order``: n row numbers, by key and then oldest first. ``starts``: the records of key i (of k, ascending) are
    ``order[starts[i]:starts[i + 1]]``. ``levels``: per row of ``records`` the level it comes from.
    """

    records: pa.Table
    starts: Indices
    order: Indices
    levels: Levels

    @property
    def newest(self) -> Indices:
        """The row number of the newest record of each key."""
        ends = np.append(self.starts[1:], len(self.order)) - 1 if len(self.starts) else self.starts
        found: Indices = self.order[ends]
        return found

    def any_of_key(self, flags: Flags) -> Flags:
        """Return per key whether ``flags`` (one per record) holds for any record of it."""
        if not len(self.starts):
            return np.zeros(0, dtype=bool)
        found: Flags = np.logical_or.reduceat(flags[self.order], self.starts)
        return found

    def adds(self) -> Flags:
        """Return per record whether it leaves a row (+I, +U)."""
        return is_add(self.records)

    def without(self, flags: Flags) -> Window:
        """Return the window without the records whose flag holds; keys that have no others are gone."""
        if not flags.any():
            return self
        kept = ~flags[self.order]
        counts = np.add.reduceat(kept.astype(np.int64), self.starts)
        counts = counts[counts > 0]
        return replace(self, order=self.order[kept], starts=np.cumsum(counts) - counts)

    def without_kinds(self, kinds: Collection[RowKind]) -> Window:
        """Return the window without the records of ``kinds``; keys that have no others are gone."""
        return self.without(is_of(kinds, self.records)) if kinds else self

    def without_deeper(self) -> Window:
        """Return the window without the records above level 0 that lie deeper than another such record of their key.

        Clauses: CHG-19.
        """
        above = self.levels[self.levels > 0]
        if not len(self.order) or not len(above) or above.min() == above.max():
            return self  # such records are of one level, which has a key once
        levels = self.levels[self.order]
        deepest = np.iinfo(levels.dtype).max
        least = np.minimum.reduceat(np.where(levels > 0, levels, deepest), self.starts)
        flags = np.zeros(len(self.levels), dtype=bool)
        flags[self.order] = levels > np.repeat(least, np.diff(np.append(self.starts, len(levels))))
        return self.without(flags)

    def with_oldest(self, records: pa.Table, keys: Indices, levels: Levels) -> Window:
        """Return the window with one more record of each of ``keys`` (numbers, ascending), older than its others."""
        if not len(keys):
            return self
        places = self.starts[keys] + np.arange(len(keys))
        order = np.empty(len(self.order) + len(keys), dtype=np.int64)
        others = np.ones(len(order), dtype=bool)
        others[places] = False
        order[places] = np.arange(len(keys)) + self.records.num_rows
        order[np.flatnonzero(others)] = self.order
        shift = np.zeros(len(self.starts), dtype=np.int64)
        shift[keys] = 1
        return Window(
            pa.concat_tables([self.records, records.select(self.records.column_names)]).combine_chunks(),
            self.starts + np.cumsum(shift) - shift,
            order,
            np.concatenate([self.levels, levels]),
        )

    def of_keys(self, keys: Indices) -> Window:
        """Return the window of some of its keys (numbers, ascending)."""
        if len(keys) == len(self.starts):
            return self
        rows, starts = parts_of(self.starts, np.diff(np.append(self.starts, len(self.order))), keys)
        return replace(self, order=self.order[rows], starts=starts)

    def in_order(self, user_order: UserOrder | None) -> Window:
        """Return the window with the records of each key oldest first; of equal ones the order stays.

        Clauses: MRG-1, MRG-2, MRG-6, MRG-19.
        """
        count = len(self.order)
        if len(self.starts) == count:  # one record per key
            return self
        keys = np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, count)))
        numbers = self.records.column(SEQUENCE_NUMBER).to_numpy()[self.order]
        ranks = None if user_order is None else user_order.ranks(self.records)[self.order]
        ascends = numbers[1:] > numbers[:-1]
        if ranks is not None:
            ascends = (ranks[1:] > ranks[:-1]) | ((ranks[1:] == ranks[:-1]) & ascends)
        if bool(np.all((keys[1:] != keys[:-1]) | ascends)):
            return self
        adds = is_add(self.records)[self.order]
        by = (adds, numbers, keys) if ranks is None else (adds, numbers, ranks, keys)
        return replace(self, order=self.order[np.lexsort(by)])


def parts_of(starts: Indices, lengths: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """Return the numbers of the records of the ``chosen`` parts one after the other, and where each part begins there.

    ``starts``, ``lengths``: of all parts; a part has records ``starts[i]`` to ``starts[i] + lengths[i] - 1``.
    """
    counts = lengths[chosen]
    begins = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) + np.repeat(starts[chosen] - begins, counts), begins


def kinds_of(records: pa.Table) -> npt.NDArray[np.int8]:
    """Return the row kind of each record."""
    found: npt.NDArray[np.int8] = records.column(VALUE_KIND).to_numpy()
    return found


def is_add(records: pa.Table) -> Flags:
    """Return per record whether it leaves a row (+I, +U); otherwise it is a retraction. Clauses: TBL-4."""
    found: Flags = (kinds_of(records) & 1) == 0
    return found


def is_of(kinds: Collection[RowKind], records: pa.Table) -> Flags:
    """Return per record whether it is of one of ``kinds``."""
    return np.array([kind in kinds for kind in RowKind])[kinds_of(records)]


def grouped(
    records: pa.Table, keys: Encoded, levels: Levels, *, single: bool, user_order: UserOrder | None = None
) -> Window:
    """Return ``records`` (oldest run first) grouped by their encoded ``keys``.

    ``single``: all records are of one sorted run, so each key occurs once and in order. ``user_order``: of the table,
    whose columns the records have then.
    """
    count = len(keys)
    if single:
        all_rows: Indices = np.arange(count, dtype=np.int64)
        return Window(records, all_rows, all_rows, levels)
    order: Indices = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first_of_key = np.ones(count, dtype=bool)
    first_of_key[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first_of_key).astype(np.int64)
    return Window(records, starts, order, levels).in_order(user_order)


def taken(table: pa.Table, rows: Indices) -> pa.Table:
    """Return the rows of these numbers, each once. Rows that are in order already are not copied."""
    if len(rows) == table.num_rows and bool(np.all(rows[1:] > rows[:-1])):
        return table
    return table.take(pa.array(rows))
