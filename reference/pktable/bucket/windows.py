"""Merge the runs of a bucket by key, window by window.

1. Every run fills a buffer.
2. The smallest last key of the buffers that have more to come is the bound. All records of the keys up to the
   bound are in the buffers.
3. That window of keys is grouped and yielded; the buffers are filled again.

So memory depends on the buffers, not on the size of the bucket.

Clauses: MRG-1 to MRG-6, LSM-1, CMP-12, CMP-16, DV-22.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.reader import DataReader
from pktable.context import TableContext
from pktable.datafile.decoded_size import BATCH_BYTES
from pktable.datafile.encoded import concatenated
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketPath, Run
from pktable.merge.grouping import Window, grouped
from pktable.merge.key_encoding import Encoded, encode_keys

WINDOW_BYTES = 64 << 20  # of Arrow memory over all buffers of one merge
FEWEST_ROWS = 1 << 10  # in a buffer, however many runs there are

Tables = Iterable[tuple[str, pa.Table]]


def merge(
    context: TableContext,
    place: BucketPath,
    runs: Sequence[Run],
    vectors: Mapping[str, DeletionVector],
    columns: Sequence[str],
    keep: Callable[[DataFileMeta], bool] = lambda file: True,
    cached_rows: Mapping[str, pa.Table] = MappingProxyType({}),
    window_bytes: int = WINDOW_BYTES,
    encoded: Collection[str] = (),
) -> Iterator[Window]:
    """Yield the windows of ``runs`` (newest first), in key order.

    ``columns`` are read besides keys, sequence numbers, row kinds and the columns of ``sequence.field``. Inputs are
    read through ``vectors``; a retraction that a vector only hides from readers takes part (DV-22).
    ``keep``: files to read at all; leave one out only if none of its keys is wanted.
    ``cached_rows``: all rows of some files without a vector, by name; those are not read.
    ``encoded``: columns that may be yielded as dictionary arrays, since nobody looks at their values.
    Raises CorruptFileError, also where the rows of a file are not in key order.
    """
    names = (*context.key_columns, SEQUENCE_NUMBER, VALUE_KIND)
    order = context.user_order
    others = dict.fromkeys((*columns, *(order.columns if order else ())))
    wanted = (*names, *(column for column in others if column not in names))
    oldest_first = [run for run in reversed(runs) if any(keep(file) for file in run.files)]
    share = rows_to_hold([run.files for run in oldest_first], window_bytes)

    def live(run: Run) -> Tables:
        for file in run.files:
            if file.file_name in cached_rows:
                yield context.data_path(place, file), cached_rows[file.file_name].select(wanted)
            elif keep(file):
                reader = DataReader(context, place, file)
                reader.keep_encoded(encoded)
                vector = vectors.get(file.file_name)
                rows = reader.remembered if context.hides_retractions else reader.live
                for table in rows(wanted, vector, batch_rows=min(share, 1 << 17)):
                    yield reader.path, table

    yield from windows_of(context, [RunBuffer(live(run), share, run.level) for run in oldest_first])


def windows_of(context: TableContext, buffers: Sequence[RunBuffer]) -> Iterator[Window]:
    """Yield the windows of runs, oldest first, in key order. Raises CorruptFileError as `aligned`."""
    for parts in aligned(context, buffers):
        cuts = [len(keys) for _, _, keys in parts]
        levels = np.repeat(np.array([buffer.level for buffer, _, _ in parts], dtype=np.int32), cuts)
        records = concatenated([rows for _, rows, _ in parts])
        together = np.concatenate([keys for _, _, keys in parts])
        single = sum(cut > 0 for cut in cuts) == 1
        if not single:  # rows are taken from it by number, which is slow from several chunks
            records = records.combine_chunks()
        yield grouped(records, together, levels, single=single, user_order=context.user_order)


def rows_to_hold(runs: Sequence[Sequence[DataFileMeta]], window_bytes: int) -> int:
    """Return how many rows of each of ``runs`` fit into ``window_bytes`` of Arrow memory, roughly."""
    rows = sum(file.row_count for run in runs for file in run)
    size = max(1, sum(file.file_size for run in runs for file in run))
    # A compressed file unpacks to a few times its size; what matters is only that the bound is of the right order.
    return max(FEWEST_ROWS, int(window_bytes / max(1, len(runs)) / max(8, 4 * size / max(1, rows))))


def aligned(
    context: TableContext, buffers: Sequence[RunBuffer]
) -> Iterator[list[tuple[RunBuffer, pa.Table, Encoded]]]:
    """Yield windows of keys: for each buffer that has rows left its part of the window, which may be none of it.

    A part is its rows and their encoded keys, which compare with those of the same window only. All rows of a
    key are in one window. Raises CorruptFileError where the rows of a run are not in key order.
    """
    while True:
        for buffer in buffers:
            buffer.fill()
        live = [buffer for buffer in buffers if buffer.rows]
        if not live:
            return
        keys = encode_keys(
            [[b.table.column(name) for name in context.key_columns] for b in live], context.key_types
        )
        for buffer, encoded in zip(live, keys, strict=True):
            buffer.expect_ascending(encoded, context.key_columns)
        bounds = [encoded[-1] for buffer, encoded in zip(live, keys, strict=True) if buffer.more]
        bound = min(bounds) if bounds else None
        yield [
            (buffer, buffer.take(cut), encoded[:cut])
            for buffer, encoded in zip(live, keys, strict=True)
            for cut in [len(encoded) if bound is None else int(np.searchsorted(encoded, bound, side="right"))]
        ]


class RunBuffer:
    """The next records of one run. ``tables``: with the path each comes from; ``share``: rows to hold at once.

    No further table is read to them once they take `BATCH_BYTES`. Clauses: SAFE-8.
    """

    def __init__(self, tables: Tables, share: int, level: int) -> None:
        self.level = level
        self.more = True
        self.rows = 0
        self._tables = iter(tables)
        self._share = share
        self._path = ""
        self._pending: list[pa.Table] = []

    @property
    def table(self) -> pa.Table:
        if len(self._pending) != 1:
            self._pending = [concatenated(self._pending)]
        return self._pending[0]

    def fill(self) -> None:
        """Read on until the buffer has its share of rows, or the run is at its end."""
        while self.more and self.rows < self._share and self._bytes() < BATCH_BYTES:
            following = next(self._tables, None)
            if following is None:
                self.more = False
            elif following[1].num_rows:
                self._path, table = following
                self._pending.append(table)
                self.rows += table.num_rows

    def _bytes(self) -> int:
        return sum(table.nbytes for table in self._pending)

    def take(self, count: int) -> pa.Table:
        """Remove and return the first ``count`` rows."""
        table = self.table
        self._pending = [table.slice(count)]
        self.rows -= count
        return table.slice(0, count)

    def expect_ascending(self, keys: Encoded, names: Sequence[str]) -> None:
        """Raise CorruptFileError unless the buffer's keys, in the columns ``names``, ascend strictly."""
        expect_ascending(keys, self.table.select(list(names)), at=self._path)


def expect_ascending(encoded: Encoded, keys: pa.Table, *, at: str) -> None:
    """Raise CorruptFileError unless the keys of a file ascend strictly. Clauses: LSM-1.

    ``keys``: the columns of the key of rows that follow each other; ``encoded``: the same.
    """
    wrong = np.flatnonzero(~(encoded[1:] > encoded[:-1]))
    if len(wrong):
        before, after = (tuple(row.values()) for row in keys.slice(int(wrong[0]), 2).to_pylist())
        raise CorruptFileError(
            "key order", at=at, expected="strictly ascending keys", found=f"{before} before {after}"
        )
