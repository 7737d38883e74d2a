"""Where keys live: the one primitive behind deletion vectors.

Files are skipped by their key range, row groups by the statistics of their first key column; of what remains only
the key columns are read, and those batches searched between whose first and last key a wanted one lies. Both sides
ascend, and the keys of a compaction come in ascending windows, so that a file is read once and forward.

Clauses: DV-6, DV-9, LSM-1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pktable.bucket.reader import BATCH_ROWS, DataReader
from pktable.bucket.wanted_rows import greatest_of_row_groups
from pktable.bucket.windows import expect_ascending
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import DataType, values_of
from pktable.format.vectors.deletion_vector import Positions
from pktable.lsm.bucket import BucketPath
from pktable.lsm.runs import Key, total_order
from pktable.merge.grouping import Flags, Indices, taken
from pktable.merge.key_encoding import encode_keys


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
