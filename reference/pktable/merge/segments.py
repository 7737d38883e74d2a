"""The records of a key that count, and the row that they make column by column.

A merge engine that computes columns reads the records of a key from the oldest on:

1. A record that removes the row ends it: nothing up to it counts.
2. A retraction of no row does nothing: what counts begins with an add.
3. The records from there on are a `Segments`, one segment per key that has a row. An engine makes each column of them.

A key of which nothing counts has no row; its newest record, which is a retraction, stands for it.

Clauses: MRG-1, MRG-3, MRG-8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.vocabulary import KEY_PREFIX, VALUE_KIND, RowKind

from pktable.format.arrow_buffers import stored_values
from pktable.format.types import DataType, one_array
from pktable.merge.grouping import Flags, Indices, Window, is_add, parts_of, taken


@dataclass(frozen=True)
class Segments:
    """The m records that count of s keys, by key and then oldest first. Each segment begins with an add.

    ``records``: the window's. ``order``: m row numbers of it. ``starts``: where the s segments begin in ``order``.
    ``adds``: m flags, whether the record is an add.
    """

    records: pa.Table
    order: Indices
    starts: Indices
    adds: Flags

    def values(self, name: str) -> pa.Array:
        """Return a column of the m records."""
        return at(one_array(self.records.column(name)), self.order)

    def known(self, name: str) -> Flags:
        """Return which of the m records have a value in a column."""
        values = one_array(self.records.column(name))
        return valid(values)[self.order] if values.null_count else np.ones(len(self.order), dtype=bool)

    def values_at(self, name: str, chosen: Indices) -> pa.Array:
        """Return a column of some of the m records, null where ``chosen`` is -1. Touches no other value."""
        nowhere = chosen < 0
        rows = pa.array(self.order[chosen], mask=nowhere if nowhere.any() else None)
        return one_array(self.records.column(name)).take(rows)

    @cached_property
    def lengths(self) -> Indices:
        """How many records each segment has."""
        found: Indices = np.diff(np.append(self.starts, len(self.order)))
        return found

    @cached_property
    def ends(self) -> Indices:
        """The last record of each segment."""
        found: Indices = self.starts + self.lengths - 1
        return found

    @property
    def segment_of(self) -> Indices:
        """The segment of each of the m records."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def key_of(self, segment: int) -> str:
        """Return the key of a segment as text for a message."""
        row = self.records.slice(int(self.order[self.starts[segment]]), 1)
        names = [name for name in row.column_names if name.startswith(KEY_PREFIX)]
        return ", ".join(f"{name[len(KEY_PREFIX) :]} = {row.column(name)[0].as_py()}" for name in names)

    def adds_only(self) -> Segments:
        """Return the segments without their retractions."""
        if self.adds.all():
            return self
        counts = self.sums(self.adds)
        starts = np.cumsum(counts) - counts
        return replace(self, order=self.order[self.adds], starts=starts, adds=self.adds[self.adds])

    def last(self, flags: Flags) -> Indices:
        """Return per segment the last of the m records whose flag holds, -1 if none does."""
        if flags.all():
            return self.ends
        holds = flags[self.ends]
        found: Indices = np.where(holds, self.ends, -1)
        rest = np.flatnonzero(
            ~holds & (self.lengths > 1)
        )  # often few: only their other records are looked at
        if len(rest):
            records, begins = parts_of(self.starts, self.lengths, rest)
            found[rest] = np.maximum.reduceat(np.where(flags[records], records, -1), begins)
        return found

    def last_or_end(self, flags: Flags) -> Indices:
        """Return per segment the last of the m records whose flag holds, the last of all if none does."""
        found = self.last(flags)
        return np.where(found < 0, self.ends, found)

    def first(self, flags: Flags) -> Indices:
        """Return per segment the first of the m records whose flag holds, -1 if none does."""
        none = len(flags)
        at = np.where(flags, np.arange(none), none)
        found: Indices = np.minimum.reduceat(at, self.starts) if len(self.starts) else at[:0]
        return np.where(found == none, -1, found)

    def any(self, flags: Flags) -> Flags:
        """Return per segment whether the flag of any of its records holds."""
        found: Flags = self.sums(flags) > 0
        return found

    def sums(self, numbers: npt.NDArray[Any]) -> Indices:
        """Return per segment the sum of m flags or 64-bit integers, without the bits that do not fit into 64."""
        sums = np.cumsum(numbers)  # takes a third of the time of `add.reduceat`
        found: Indices = sums[self.ends]
        found[1:] -= found[:-1].copy()
        return found


def flags_of(values: pa.Array) -> Flags:
    """Return the values of a boolean array, none of which is null, in a tenth of the time of ``np.asarray``."""
    if not len(values):
        return np.zeros(0, dtype=bool)
    bits = np.frombuffer(values.buffers()[1], np.uint8)
    end = values.offset + len(values)
    return np.unpackbits(bits, count=end, bitorder="little")[values.offset :].view(np.bool_)


def valid(values: pa.Array) -> Flags:
    """Return which values are not null."""
    return flags_of(values.is_valid()) if values.null_count else np.ones(len(values), dtype=bool)


def with_nulls(found: npt.NDArray[Any], known: Flags, kind: pa.DataType) -> pa.Array:
    """Return an array of what is stored of it (`stored_values`), null where not ``known``."""
    bits = np.packbits(known, bitorder="little")
    return pa.Array.from_buffers(kind, len(found), [pa.py_buffer(bits), pa.py_buffer(found)])


def at(values: pa.Array, rows: Indices) -> pa.Array:
    """Return the values at ``rows``. Where some are null, NumPy takes numbers in a third of the time of Arrow."""
    if not values.null_count or not pa.types.is_primitive(values.type) or values.type.bit_width < 8:
        return values.take(pa.array(rows))
    size = values.type.bit_width // 8
    return with_nulls(stored_values(values, f"u{size}")[rows], valid(values)[rows], values.type)


def at_or_null(values: pa.Array, chosen: Indices) -> pa.Array:
    """Return the values at ``chosen``, null where that is -1."""
    nowhere = chosen < 0
    return values.take(pa.array(chosen, mask=nowhere if nowhere.any() else None))


def segments_of(window: Window, removals: Flags | None = None) -> tuple[Segments, Flags]:
    """Return the segments of a window, and per key whether it has one.

    ``removals``: one flag per record of ``window.order``, whether it removes the row; none does by default.
    """
    order, starts, count = window.order, window.starts, len(window.order)
    adds = is_add(window.records)
    adds = np.ones(count, dtype=bool) if adds.all() else adds[order]
    if adds.all():
        return Segments(window.records, order, starts, adds), np.ones(len(starts), dtype=bool)
    numbers = np.arange(count)
    lengths = np.diff(np.append(starts, count))
    begins = adds
    if removals is not None:
        removed = np.maximum.reduceat(np.where(removals, numbers, -1), starts)
        begins = adds & (numbers > np.repeat(removed, lengths))
    first = np.minimum.reduceat(np.where(begins, numbers, count), starts)
    alive = first < count
    counts = numbers >= np.repeat(first, lengths)
    kept = (np.append(starts[1:], count) - first)[alive]
    found = Segments(window.records, order[counts], np.cumsum(kept) - kept, adds[counts])
    return found, alive


@dataclass(frozen=True)
class Computed:
    """The `Folded` of an engine that computes columns. ``column``: makes the named one of the segments' rows.

    Columns that are in ``copied`` are those of the newest record.
    """

    window: Window
    segments: Segments
    alive: Flags
    column: Callable[[str, Segments], pa.Array]
    copied: frozenset[str]

    def adds(self) -> Flags:
        return self.alive

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        return self._rows if chosen is None else taken(*self.places(chosen))

    def places(self, chosen: Flags) -> tuple[pa.Table, Indices]:
        return self._rows, np.flatnonzero(chosen)

    @cached_property
    def _rows(self) -> pa.Table:
        """The records of all keys. A compaction with a changelog asks twice for some of them."""
        records, every = self.window.records, bool(self.alive.all())
        # A computed column of the newest records is only needed where a key has no row.
        needed = [name for name in records.column_names if name in self.copied or not every]
        newest = taken(records.select(needed), self.window.newest)
        columns = []
        for name in records.column_names:
            if name == VALUE_KIND:
                columns.append(self._kinds(newest.column(name)))
            elif name in self.copied:
                columns.append(newest.column(name))
            else:
                computed = self.column(name, self.segments)
                columns.append(computed if every else _either(self.alive, computed, newest.column(name)))
        return pa.Table.from_arrays(columns, schema=records.schema)

    def _kinds(self, newest: Any) -> pa.Array:
        """Return the kind of each row: that of the newest record, but +I if a row remains of a retraction."""
        kinds = newest.to_numpy()
        remains = self.alive & (kinds & 1 != 0)
        return pa.array(np.where(remains, int(RowKind.INSERT), kinds), newest.type)


def _either(alive: Flags, computed: pa.Array, newest: Any) -> pa.Array:
    """Return the next computed value where a key has a row, else that of the newest record."""
    both = pa.concat_arrays([computed, one_array(newest)])
    return both.take(pa.array(np.where(alive, np.cumsum(alive) - 1, len(computed) + np.arange(len(alive)))))


@dataclass(frozen=True, slots=True)
class Column:
    """A column to aggregate.

    ``delimiter``: the text that joins the values of ``listagg``. ``distinct``: whether ``collect`` keeps one of equal
    elements. ``nested_key``: the fields of the rows of ``nested_update`` that identify them; of rows without a key
    all are kept. ``limit``: the number of rows up to which ``nested_update`` adds some, None for any number.
    """

    name: str
    type: DataType
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    limit: int | None = None
