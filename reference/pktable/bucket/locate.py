"""Where keys live, the one primitive behind deletion vectors, and which records are older than the rows found.

Files are skipped by their key range, row groups by the statistics of their first key column; of what remains only
the key columns are read, and those batches searched between whose first and last key a wanted one lies. Both sides
ascend, and the keys of a compaction come in ascending windows, so that a file is read once and forward.

A record is late if an older file holds a newer record of its key, by ``sequence.field``. Without the option what lies
deeper is older. With it, a compaction compares the newest record that it has of a key with every row of the key that
the lookup finds. Deleted rows count: a row that remembers a deletion is deleted by the vector of its file (DV-21). A
row that was replaced does no harm, since its replacement is newer.

Clauses: DV-6, DV-9, DV-20, DV-23, LSM-1, MRG-19.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.reader import BATCH_ROWS, DataReader
from pktable.bucket.wanted_rows import greatest_of_row_groups
from pktable.bucket.windows import WINDOW_BYTES, expect_ascending, rows_to_hold
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import DataType, values_of
from pktable.format.vectors.deletion_vector import Positions
from pktable.lsm.bucket import BucketPath, Key, total_order
from pktable.merge.grouping import Flags, Indices, Window, taken
from pktable.merge.key_encoding import encode_keys

SMALL_BYTES: Final = 1 << 20
"""Of a file whose columns are read at once: to read one takes a millisecond, however small it is."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where a file holds some of the keys that were looked for: ``positions``, ascending, of ``keys`` (row numbers)."""

    file: DataFileMeta
    positions: Positions
    keys: Indices


class Locator:
    """Finds keys in some files of a bucket. The files are those of one snapshot, above one level."""

    def __init__(self, context: TableContext, place: BucketPath, candidates: Sequence[DataFileMeta]) -> None:
        self._context, self._place = context, place
        self._candidates = sorted(candidates, key=lambda file: file.level)
        self._cursors: dict[str, _Cursor] = {}

    def locate(self, keys: pa.Table, ends: Callable[[Located], Flags] | None = None) -> Iterator[Located]:
        """Yield where ``keys`` are, for each file that holds any of them, from the least deep level on.

        ``keys``: the key columns, rows ascending and unique, not below those of an earlier call.
        ``ends``: per row that was found, whether its key is not to be looked up at deeper levels. By default none is.
        A record is found whether or not a vector deletes it.
        Raises CorruptFileError, also where the rows of a file are not in key order.
        """
        numbers = np.arange(keys.num_rows)
        for _, level in groupby(self._candidates, key=lambda file: file.level):
            ended = np.zeros(len(numbers), dtype=bool)
            for file, positions, rows in self._located(list(level), keys):
                found = Located(file, positions, numbers[rows])
                if ends is not None:
                    ended[rows] = ends(found)
                yield found
            if ended.any():
                numbers = numbers[~ended]
                keys = taken(keys, np.flatnonzero(~ended))

    def _located(
        self, files: Sequence[DataFileMeta], keys: pa.Table
    ) -> Iterator[tuple[DataFileMeta, Positions, Indices]]:
        """Yield which of ``files`` hold some of ``keys``, at which positions, and the row numbers of these keys."""
        if not keys.num_rows:
            return
        names, types = self._context.key_columns, self._context.key_types
        low, high = key_at(keys, names, types, 0), key_at(keys, names, types, keys.num_rows - 1)
        order = self._context.order
        for file in files:
            if order.smallest(file) <= high and low <= order.greatest(file):
                if file.file_name not in self._cursors:
                    self._cursors[file.file_name] = _Cursor(self._context, self._place, file)
                positions, rows = self._cursors[file.file_name].find(keys)
                if len(positions):
                    yield file, positions, rows


def key_at(table: pa.Table, names: Sequence[str], types: Sequence[DataType], row: int) -> Key:
    """Return the key of one row, comparable as those of `KeyOrder` are."""
    one = table.slice(row, 1)
    values = []
    for name, kind in zip(names, types, strict=True):
        value: Any = values_of(one.column(name), kind)[0]
        values.append(total_order(value) if kind.root in ("FLOAT", "DOUBLE") else value)
    return tuple(values)


class _Cursor:
    """One file's keys, read forward in batches as the searches advance."""

    def __init__(self, context: TableContext, place: BucketPath, file: DataFileMeta) -> None:
        self._names, self._types = context.key_columns, context.key_types
        self._reader = DataReader(context, place, file)
        self._greatest = greatest_of_row_groups(self._reader, context.schema, context.key_columns[0])
        self._low: Any = None
        self._batches = self._unread()
        self._held: tuple[int, pa.Table] | None = None

    def find(self, keys: pa.Table) -> tuple[Positions, Indices]:
        """Return the ascending positions of ``keys`` in the file, and the row numbers of the keys found there."""
        self._low = self._key(keys, 0)[0]
        found: list[Positions] = []
        rows: list[Indices] = []
        before = 0
        while keys.num_rows and (batch := self._held or next(self._batches, None)):
            positions, hits, passed = self._search(*batch, keys)
            found.append(positions)
            rows.append(hits + before)
            before += passed
            keys = keys.slice(passed)
            self._held = batch if not keys.num_rows else None
        none = np.empty(0, np.int64)
        return (np.concatenate(found), np.concatenate(rows)) if found else (none, none)

    def _unread(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield what is to be read yet, without the row groups that end below the keys wanted by then."""
        if self._greatest is None:
            yield from self._reader.read(self._names, batch_rows=BATCH_ROWS)
            return
        for rows, greatest in self._greatest:
            if greatest is None or greatest >= self._low:
                yield from self._reader.read(self._names, ranges=rows, batch_rows=BATCH_ROWS)

    def _search(self, start: int, batch: pa.Table, keys: pa.Table) -> tuple[Positions, Indices, int]:
        """Return the positions of ``keys`` in ``batch``, the row numbers of those found, and how many of ``keys`` are
        not above its last key.
        """
        none = np.empty(0, np.int64)
        if not batch.num_rows:
            return none, none, 0
        last = self._key(batch, batch.num_rows - 1)
        passed = bisect_right(range(keys.num_rows), last, key=lambda row: self._key(keys, row))
        if not passed:
            return none, none, 0
        stored, wanted = encode_keys(
            [[t.column(name) for name in self._names] for t in (batch, keys.slice(0, passed))], self._types
        )
        expect_ascending(stored, batch.select(self._names), at=self._reader.path)
        at = np.searchsorted(stored, wanted)
        equal = stored[at] == wanted  # none of them is above the last
        return at[equal].astype(np.int64) + start, np.flatnonzero(equal), passed

    def _key(self, table: pa.Table, row: int) -> Key:
        return key_at(table, self._names, self._types, row)


def fetch_rows(
    context: TableContext, place: BucketPath, file: DataFileMeta, positions: Positions, columns: Sequence[str]
) -> pa.Table:
    """Return ``columns`` of the rows at ``positions`` (ascending, at least one), in that order.

    Of a Parquet file, only pages or row groups that hold one are read. Raises CorruptFileError.
    """
    reader = DataReader(context, place, file)
    # Arrow decodes a row group at once for four fifths of the time that it takes batch by batch.
    most = max(BATCH_ROWS, rows_to_hold([[file]], WINDOW_BYTES))
    if not reader.stored.by_column or file.file_size <= SMALL_BYTES:
        return reader.rows_at(positions, columns, batch_rows=most)
    # One after the other, so that the memory of a whole column is soon used again. It is seldom more than half of all.
    found = {name: reader.rows_at(positions, [name], batch_rows=2 * most).column(0) for name in columns}
    return pa.table(found)


def ordering_rows(context: TableContext, place: BucketPath, found: Sequence[Located]) -> list[pa.Table]:
    """Return of each of ``found`` the rows, in the columns that order records."""
    columns = ordering_columns(context)
    return [fetch_rows(context, place, one.file, one.positions, columns) for one in found]


def ordering_columns(context: TableContext) -> list[str]:
    order = context.user_order
    assert order is not None, "the caller has asked"
    return list(dict.fromkeys([*order.columns, SEQUENCE_NUMBER, VALUE_KIND]))


def late_keys(
    context: TableContext, newest: pa.Table, found: Sequence[Located], rows: Sequence[pa.Table]
) -> Flags:
    """Return per row of ``newest``, n records of different keys, whether one of ``found`` is newer.

    ``found``: where older files hold these keys, by row number of ``newest``. ``rows``: their `ordering_rows`.
    """
    count = newest.num_rows
    records = pa.concat_tables([*rows, newest.select(ordering_columns(context))])
    keys = np.concatenate([*(one.keys for one in found), np.arange(count)])
    # Among equal keys the record of the merge comes last: it is the newest.
    by_key = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[by_key], np.arange(count))
    window = Window(records, starts, by_key, np.zeros(len(keys), dtype=np.int32)).in_order(context.user_order)
    late: Flags = window.newest < records.num_rows - count
    return late
