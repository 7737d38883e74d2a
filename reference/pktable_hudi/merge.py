"""Fold the log records of each key, and merge what remains into the rows of the base file.

Records are folded oldest first, as Hudi folds them, because the result depends on the order:

1. A delete **by commit time** beats all records before it. The next data record beats it, whatever its ordering value.
2. Otherwise the record with the greater ordering value wins, of equal ones the later record. Without an ordering field
   the later record wins.
3. The winner is then compared with the base row by the same rule. So a row that was deleted by commit time and written
   again with a smaller ordering value loses to the base row, which reappears.
4. A winner that is a partial update takes the columns that it lacks from the loser, unless one of both is a delete.

All keys are folded at once: round ``i`` takes the ``i``-th record of every key that has one. The state of a key is the
number of the record that its ordering value is of, and for each column the number of the row that has its value.

Clauses: LOG-28, LOG-29, LOG-30, LOG-31, LOG-32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable.format.types import one_array

from pktable_hudi.found_keys import found_keys
from pktable_hudi.log_rows import BlockRows

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ABSENT = -1


@dataclass(frozen=True)
class Folded:
    """The state of each key in the log of a file slice.

    ``keys``: each once. ``rows``: the rows of all data blocks. ``sources``: the row of each key, by column; ABSENT
    where no record has the column. ``whole``: True if all columns of a key come from one row; then there is one source
    per key. ``ordering``: the ordering value of each key, None without an ordering field. ``deleted``: which keys are
    deleted, ``by_commit_time`` which of these by commit time. ``positions``: the position of each key in the base file,
    ABSENT where no block says it.
    """

    keys: pa.Array
    rows: pa.Table
    sources: Numbers
    whole: bool
    ordering: pa.Array | None
    deleted: Mask
    by_commit_time: Mask
    positions: Numbers


def fold(blocks: Sequence[BlockRows], columns: pa.Schema, base_instant: str) -> Folded:
    """Return the state of each key after all its records. ``blocks``: oldest first. ``columns``: the wanted ones.

    ``base_instant``: that of the base file, for which positions are taken; empty without one.
    Clauses: LOG-28 to LOG-32.
    """
    entries = _Entries.of(blocks, columns)
    state = _State(entries)
    order = np.argsort(entries.codes, kind="stable")
    counts = np.bincount(entries.codes, minlength=len(entries.keys))
    starts = np.cumsum(counts) - counts
    state.begin(order[starts])
    active = np.flatnonzero(counts > 1)
    i = 1
    while len(active):
        state.fold(active, order[starts[active] + i])
        i += 1
        active = active[counts[active] > i]
    ordering = None if entries.ordering is None else entries.ordering.take(pa.array(state.entry))
    return Folded(
        entries.keys,
        entries.rows,
        state.sources,
        entries.whole,
        ordering,
        state.deleted,
        state.by_commit_time,
        _positions(blocks, entries, base_instant),
    )


@dataclass(frozen=True)
class _Entries:
    """All records of a log, oldest first. ``codes``: the number of each one's key. ``row``: of its row, or ABSENT."""

    keys: pa.Array
    codes: Numbers
    ranks: Numbers | None
    ordering: pa.Array | None
    deletes: Mask
    by_commit_time: Mask
    in_delete_block: Mask
    row: Numbers
    rows: pa.Table
    present: npt.NDArray[np.bool_]
    block: Numbers
    whole: bool

    @classmethod
    def of(cls, blocks: Sequence[BlockRows], columns: pa.Schema) -> _Entries:
        encoded = one_array(pa.chunked_array([one.keys for one in blocks], pa.string())).dictionary_encode()
        counts = [len(one.keys) for one in blocks]
        deletes = np.concatenate([one.deletes for one in blocks])
        in_delete_block = np.repeat([one.is_delete_block for one in blocks], counts)
        row = np.where(in_delete_block, ABSENT, np.cumsum(~in_delete_block) - 1)
        present = np.array([[name in one.present for name in columns.names] for one in blocks], np.bool_)
        whole = bool(present[[not one.is_delete_block for one in blocks]].all())
        ordering = None
        if blocks[0].ordering is not None:
            ordering = one_array(pa.chunked_array([one.ordering for one in blocks]))
        tables = [one.rows for one in blocks if one.rows is not None]
        return cls(
            encoded.dictionary,
            encoded.indices.to_numpy().astype(np.int64),
            None if ordering is None else ranks_of(ordering),
            ordering,
            deletes,
            np.concatenate([one.by_commit_time for one in blocks]),
            in_delete_block,
            row,
            pa.concat_tables(tables) if tables else columns.empty_table(),
            present,
            np.repeat(np.arange(len(blocks)), counts),
            whole,
        )


class _State:
    """The state of each key after some rounds. ``entry``: the record that its ordering value is of."""

    def __init__(self, entries: _Entries) -> None:
        self._entries = entries

    def begin(self, first: Numbers) -> None:
        """Take the first record of each key."""
        self.entry = first.copy()
        self.deleted = self._entries.deletes[first]
        self.by_commit_time = self._entries.by_commit_time[first]
        self.sources = self._sources(first)

    def fold(self, keys: Numbers, new: Numbers) -> None:
        """Fold the record ``new[i]`` into the state of key ``keys[i]``."""
        wins = self._wins(keys, new)
        self._fold_sources(keys, new, wins)
        winners, taken = keys[wins], new[wins]
        self.entry[winners] = taken
        self.deleted[winners] = self._entries.deletes[taken]
        self.by_commit_time[winners] = self._entries.by_commit_time[taken]

    def _wins(self, keys: Numbers, new: Numbers) -> Mask:
        entries = self._entries
        if entries.ranks is None:
            return np.ones(len(keys), np.bool_)
        not_older = entries.ranks[new] >= entries.ranks[self.entry[keys]]
        by_commit_time = self.by_commit_time[keys]
        wins: Mask = np.where(
            entries.in_delete_block[new],  # a delete does not take the place of a delete by commit time
            ~by_commit_time & (entries.by_commit_time[new] | not_older),
            by_commit_time | entries.by_commit_time[new] | not_older,
        )
        return wins

    def _fold_sources(self, keys: Numbers, new: Numbers, wins: Mask) -> None:
        known, added = self.sources[keys], self._sources(new)
        if self._entries.whole:
            self.sources[keys] = np.where(wins, added, known)
            return
        high, low = np.where(wins[:, None], added, known), np.where(wins[:, None], known, added)
        rows = ~(self.deleted[keys] | self._entries.deletes[new])  # only rows complete each other
        self.sources[keys] = np.where(rows[:, None] & (high == ABSENT), low, high)

    def _sources(self, entries: Numbers) -> Numbers:
        rows: Numbers = self._entries.row[entries]
        if self._entries.whole:
            return rows
        found: Numbers = np.where(self._entries.present[self._entries.block[entries]], rows[:, None], ABSENT)
        return found


def ranks_of(values: pa.Array) -> Numbers:
    """Return numbers that compare as ``values`` do. A null counts as 0 among integers, else as the least."""
    if pa.types.is_integer(values.type):
        values = pc.fill_null(values, 0)
    ranks: Numbers = pc.rank(values, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0  # others are 1 or more
    return ranks


def _positions(blocks: Sequence[BlockRows], entries: _Entries, base_instant: str) -> Numbers:
    """Return the position of each key in the base file that the blocks say, ABSENT without. Clauses: LOG-32."""
    found = np.full(len(entries.keys), ABSENT, np.int64)
    start = 0
    for block in blocks:
        end = start + len(block.keys)
        if block.positions is not None and base_instant and block.base_instant == base_instant:
            found[entries.codes[start:end]] = block.positions
        start = end
    return found


class Merger:
    """Merges what a log says into the rows of the base file, batch by batch; `rest` are the keys that it lacks."""

    def __init__(self, folded: Folded, key: str, ordering: str | None) -> None:
        self._folded, self._key, self._ordering = folded, key, ordering
        self._seen = np.zeros(len(folded.keys), np.bool_)

    def merged(
        self, batch: pa.Table, columns: Sequence[str], *, verified: Mask | None, position: int
    ) -> pa.Table:
        """Return the rows of ``batch`` after the log, with ``columns``.

        ``verified``: the keys whose position in the base file is known to be right, None if positions are not used.
        ``position``: that of the first row.
        """
        rows, keys = self._matches(batch, verified, position)
        self._seen[keys] = True
        wins = self._wins(batch, rows, keys)
        rows, keys = rows[wins], keys[wins]
        if not len(rows):
            return batch.select(list(columns))
        dead = self._folded.deleted[keys]
        kept = np.ones(batch.num_rows, np.bool_)
        kept[rows[dead]] = False
        return self._updated(batch.select(list(columns)), rows[~dead], keys[~dead], np.flatnonzero(kept))

    def rest(self) -> pa.Table:
        """Return the rows of the keys that no base row had."""
        keys = np.flatnonzero(~self._seen & ~self._folded.deleted)
        folded = self._folded
        if folded.whole:
            return folded.rows.take(pa.array(folded.sources[keys]))
        columns = [
            column.take(_nullable(folded.sources[keys, i])) for i, column in enumerate(folded.rows.columns)
        ]
        return pa.table(columns, schema=folded.rows.schema)

    def _matches(self, batch: pa.Table, verified: Mask | None, position: int) -> tuple[Numbers, Numbers]:
        """Return the rows of ``batch`` that the log says something about, and their keys."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]  # a log may have no record at all
        folded, unplaced = self._folded, np.arange(len(self._folded.keys))
        if verified is not None:
            places = folded.positions - position
            placed = np.flatnonzero(verified & (places >= 0) & (places < batch.num_rows))
            found.append((places[placed], placed))
            unplaced = np.flatnonzero(~verified)
        if len(unplaced):
            values = folded.keys.take(pa.array(unplaced))
            rows, numbers = found_keys(one_array(batch.column(self._key)), values)
            keys = unplaced[numbers]
            first = _first_of_each(keys, len(folded.keys))  # of rows with one key, Hudi merges the first
            first = first[~self._seen[keys[first]]]
            found.append((rows[first], keys[first]))
        return (
            np.concatenate([rows for rows, _ in found]),
            np.concatenate([keys for _, keys in found]),
        )

    def _wins(self, batch: pa.Table, rows: Numbers, keys: Numbers) -> Mask:
        """Return which of the keys beat their base rows."""
        folded = self._folded
        if self._ordering is None or folded.ordering is None:
            return np.ones(len(keys), np.bool_)
        old = one_array(batch.column(self._ordering)).take(pa.array(rows))
        new = folded.ordering.take(pa.array(keys))
        ranks = ranks_of(one_array(pa.chunked_array([new, old])))
        wins: Mask = folded.by_commit_time[keys] | (ranks[: len(keys)] >= ranks[len(keys) :])
        return wins

    def _updated(self, batch: pa.Table, rows: Numbers, keys: Numbers, kept: Numbers) -> pa.Table:
        folded, count = self._folded, batch.num_rows
        if folded.whole:
            sources = np.arange(count)
            sources[rows] = folded.sources[keys] + count
            return pa.concat_tables([batch, folded.rows]).take(pa.array(sources[kept]))
        columns: list[Any] = []
        for i, (base, log) in enumerate(zip(batch.columns, folded.rows.columns, strict=True)):
            sources = np.arange(count)
            source = folded.sources[keys, i]
            sources[rows] = np.where(source == ABSENT, rows, source + count)
            both = pa.chunked_array([*base.chunks, *log.chunks], base.type)
            columns.append(both.take(pa.array(sources[kept])))
        return pa.table(columns, schema=batch.schema)


def _first_of_each(keys: Numbers, count: int) -> Numbers:
    """Return where each of the numbers ``keys``, which are less than ``count``, is for the first time."""
    every, first = np.arange(len(keys)), np.empty(count, np.int64)
    first[keys[::-1]] = every[::-1]  # of equal places numpy keeps what is assigned last
    return np.flatnonzero(first[keys] == every)


def _nullable(numbers: Numbers) -> pa.Array:
    return pa.array(numbers, mask=numbers == ABSENT)


def verified_positions(folded: Folded, keys_at: Iterator[tuple[int, pa.Array]]) -> Mask | None:
    """Return for each key whether its position is right; None if one of them is not.

    ``keys_at``: the keys of the base file in parts, each with the position of its first. Clauses: LOG-32.
    """
    placed = np.flatnonzero(folded.positions != ABSENT)
    confirmed = np.zeros(len(folded.keys), np.bool_)
    for position, keys in keys_at:
        places = folded.positions[placed] - position
        inside = (places >= 0) & (places < len(keys))
        here = placed[inside]
        same = pc.equal(keys.take(pa.array(places[inside])), folded.keys.take(pa.array(here)))
        confirmed[here] = same.to_numpy(zero_copy_only=False)
    return confirmed if bool(confirmed[placed].all()) else None
