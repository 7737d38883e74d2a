"""Merge the runs of a bucket by key, window by window.

Every run fills a buffer. The smallest last key of the buffers that have more to come is a bound: whatever
is not above it is complete, all records of those keys are in the buffers. That window is sorted, handed
out, and the buffers are filled again. So memory depends on the buffers, not on the bucket.

The subtle case: sequence numbers decide, not the age of runs (MRG-4). Runs are concatenated oldest first
and sorted by key, stably; only where the sequence numbers of a key are then not ascending, which no table
of ours shows but a damaged or foreign one may, are they sorted too.

Clauses: MRG-1 to MRG-5, LSM-1, CMP-12, CMP-16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.reader import DataReader
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketPath
from pktable.lsm.runs import Run
from pktable.merge.key_encoding import Encoded, encode_keys

WINDOW_BYTES = 64 << 20  # of Arrow memory over all buffers of one merge
FEWEST_ROWS = 1 << 10  # in a buffer, however many runs there are

Tables = Iterable[tuple[str, pa.Table]]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Window:
    """The records of a range of keys, grouped.

    ``records``: n rows of all runs. ``winners``: per key, ascending, the index of its winning record.
    ``starts`` and ``order``: the records of key i are ``order[starts[i]:starts[i + 1]]``, oldest first.
    ``levels``: per record, in the order of ``records``, the level it comes from.
    """

    records: pa.Table
    winners: Indices
    starts: Indices
    order: Indices
    levels: npt.NDArray[np.int32]

    def any_of_key(self, flags: Flags) -> Flags:
        """Return per key whether ``flags`` (one per record) holds for any record of it."""
        if not len(self.starts):
            return np.zeros(0, dtype=bool)
        found: Flags = np.logical_or.reduceat(flags[self.order], self.starts)
        return found

    def adds(self) -> Flags:
        """Return per record whether it leaves a row (+I, +U)."""
        found: Flags = (self.records.column(VALUE_KIND).to_numpy() & 1) == 0
        return found

    def winning_rows(self, chosen: Flags | None = None) -> pa.Table:
        """Return the winning records, or those of the keys that ``chosen`` names."""
        indices = self.winners if chosen is None else self.winners[chosen]
        return taken(self.records, indices)


def taken(table: pa.Table, rows: Indices) -> pa.Table:
    """Return the rows of these numbers, each once; what is in order already is not moved."""
    if len(rows) == table.num_rows and bool(np.all(rows[1:] > rows[:-1])):
        return table
    return table.take(pa.array(rows))


def merge(
    context: TableContext,
    place: BucketPath,
    runs: Sequence[Run],
    vectors: Mapping[str, DeletionVector],
    columns: Sequence[str],
    keep: Callable[[DataFileMeta], bool] = lambda file: True,
    cached_rows: Mapping[str, pa.Table] = MappingProxyType({}),
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[Window]:
    """Yield the windows of ``runs`` (newest first), in key order.

    ``columns`` are read besides keys, sequence numbers and row kinds. Inputs are read through ``vectors``.
    ``keep``: files to read at all; leave one out only if none of its keys is wanted.
    ``cached_rows``: all rows of some files without a vector, by name; those are not read.
    Raises CorruptFileError, also where the rows of a file are not in key order.
    """
    names = (*context.key_columns, SEQUENCE_NUMBER, VALUE_KIND)
    wanted = (*names, *(column for column in columns if column not in names))
    oldest_first = [run for run in reversed(runs) if any(keep(file) for file in run.files)]
    share = rows_to_hold(oldest_first, window_bytes)

    def live(run: Run) -> Tables:
        for file in run.files:
            if file.file_name in cached_rows:
                yield context.data_path(place, file), cached_rows[file.file_name].select(wanted)
            elif keep(file):
                reader = DataReader(context, place, file)
                vector = vectors.get(file.file_name)
                for table in reader.live(wanted, vector, batch_rows=min(share, 1 << 17)):
                    yield reader.path, table

    for parts in aligned(context, [RunBuffer(live(run), share, run.level) for run in oldest_first]):
        cuts = [len(keys) for _, _, keys in parts]
        levels = np.repeat(np.array([buffer.level for buffer, _, _ in parts], dtype=np.int32), cuts)
        records = pa.concat_tables([rows for _, rows, _ in parts])
        together = np.concatenate([keys for _, _, keys in parts])
        yield _grouped(records, together, levels, single=sum(cut > 0 for cut in cuts) == 1)


def rows_to_hold(runs: Sequence[Run], window_bytes: int) -> int:
    """Return how many rows of each of ``runs`` fit into ``window_bytes`` of Arrow memory, roughly."""
    rows = sum(file.row_count for run in runs for file in run.files)
    size = max(1, sum(file.file_size for run in runs for file in run.files))
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
            buffer.expect_ascending(encoded)
        bounds = [encoded[-1] for buffer, encoded in zip(live, keys, strict=True) if buffer.more]
        bound = min(bounds) if bounds else None
        yield [
            (buffer, buffer.take(cut), encoded[:cut])
            for buffer, encoded in zip(live, keys, strict=True)
            for cut in [len(encoded) if bound is None else int(np.searchsorted(encoded, bound, side="right"))]
        ]


def _grouped(records: pa.Table, keys: Encoded, levels: npt.NDArray[np.int32], *, single: bool) -> Window:
    count = len(keys)
    if single:  # one run: each key once, in order
        all_rows: Indices = np.arange(count, dtype=np.int64)
        return Window(records, all_rows, all_rows, all_rows, levels)
    order: Indices = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.ones(count, dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    sequences = records.column(SEQUENCE_NUMBER).to_numpy()
    in_order = sequences[order]
    if not bool(np.all(fresh[1:] | (in_order[1:] > in_order[:-1]))):
        adds = (records.column(VALUE_KIND).to_numpy() & 1) == 0
        by_sequence = np.lexsort((np.arange(count), adds, sequences))
        order = by_sequence[np.argsort(keys[by_sequence], kind="stable")]
    starts: Indices = np.flatnonzero(fresh).astype(np.int64)
    ends = np.append(starts[1:], count) - 1
    return Window(records, order[ends], starts, order, levels)


class RunBuffer:
    """The next records of one run. ``tables``: with the path each comes from; ``share``: rows to hold at once."""

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
            self._pending = [pa.concat_tables(self._pending)]
        return self._pending[0]

    def fill(self) -> None:
        """Read on until the buffer has its share of rows, or the run is at its end."""
        while self.more and self.rows < self._share:
            following = next(self._tables, None)
            if following is None:
                self.more = False
            elif following[1].num_rows:
                self._path, table = following
                self._pending.append(table)
                self.rows += table.num_rows

    def take(self, count: int) -> pa.Table:
        """Remove and return the first ``count`` rows."""
        table = self.table
        self._pending = [table.slice(count)]
        self.rows -= count
        return table.slice(0, count)

    def expect_ascending(self, keys: Encoded) -> None:
        """Raise CorruptFileError unless the buffer's keys ascend strictly. Clauses: LSM-1."""
        wrong = np.flatnonzero(~(keys[1:] > keys[:-1]))
        if len(wrong):
            raise CorruptFileError(
                "key order",
                at=self._path,
                expected="strictly ascending keys",
                found=f"{keys[wrong[0]]!r} before {keys[wrong[0] + 1]!r}",
            )
