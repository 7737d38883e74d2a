"""Turn rows into level-0 runs.

1. The rows of one bucket get ascending sequence numbers, in their order.
2. They are sorted by key, and the merge engine folds the rows of each key to one record.
3. The records are written as one sorted run. Retractions are kept: a compaction needs them.
4. Where the engine cannot fold retractions, each is kept apart from the other records of its key, in a run of its own.
5. With ``changelog-producer=input`` all rows, before step 2 folds them, also become a changelog file.

Clauses: CHG-4, TBL-6, LSM-1, LSM-5, MRG-1, MRG-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from pktable.bucket.assign import BucketAssigner
from pktable.bucket.changelog import write_input
from pktable.bucket.moving import MovingKeys
from pktable.bucket.partitions import grouped_rows, partitions_of
from pktable.bucket.reader import DataReader
from pktable.bucket.run_writer import FROM_WRITE, RunWriter
from pktable.bucket.windows import FEWEST_ROWS, RunBuffer, windows_of
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.lsm.bucket import BucketId, BucketPath
from pktable.merge.grouping import Window, grouped, taken
from pktable.merge.key_encoding import encode_keys
from pktable.store.new_files import NewFiles

GREATEST_SEQUENCE = (1 << 63) - 1

CACHED_ROWS_BYTES = 1 << 20
MERGED_ROWS = 1 << 20
"""In the buffers of all runs that become one run of level 0."""


@dataclass(frozen=True, slots=True)
class BucketAppend:
    """New level-0 files of one bucket, oldest first.

    ``first_sequence``: the number of the first row, which is in none of them if a later row replaced it. In an append
    table without buckets it is 0.
    ``changelog``: its changelog files. ``hashes``: the hash index file that its bucket gets with them, None if that
    stays as it is.
    ``rows``: what the one file holds, where that is little: its compaction need not read it back.
    ``updates``: how many of the rows written are +U.
    """

    place: BucketPath
    files: tuple[DataFileMeta, ...]
    first_sequence: int
    changelog: tuple[DataFileMeta, ...] = ()
    hashes: IndexManifestEntry | None = None
    rows: pa.Table | None = field(default=None, compare=False, repr=False)
    updates: int = field(default=0, compare=False)


def split_by_bucket(
    context: TableContext, rows: pa.Table, assigner: BucketAssigner
) -> Iterator[tuple[bytes, int, pa.Table]]:
    """Yield (partition, bucket, rows) for every bucket that ``rows`` reach, row order kept.

    Where keys move between partitions, rows come with `KIND_COLUMN`, and what they become is yielded.
    Clauses: BKT-22, TBL-3, TBL-5, TBL-10, TBL-14.
    """
    if isinstance(assigner, MovingKeys):
        rows, partitions, buckets = assigner.placed(rows)
        if not rows.num_rows:
            return
    else:
        partitions = partitions_of(context, rows)
        buckets = assigner.of_rows(rows, partitions)
    least = int(buckets.min())
    width = int(buckets.max()) - least + 1
    for number, part in grouped_rows(partitions.numbers.astype(np.int64) * width + buckets - least):
        partition, bucket = divmod(number, width)
        yield (
            partitions.encoded[partition],
            bucket + least,
            rows if part is None else rows.take(pa.array(part)),
        )


def merged_by_bucket(appends: Iterable[BucketAppend]) -> list[BucketAppend]:
    """Return one append per bucket, its files oldest first."""
    grouped: dict[BucketId, list[BucketAppend]] = {}
    for append in appends:
        grouped.setdefault(append.place.id, []).append(append)
    result = []
    for same in grouped.values():
        ordered = sorted(same, key=lambda append: append.first_sequence)
        files = tuple(file for append in ordered for file in append.files)
        changelog = tuple(file for append in ordered for file in append.changelog)
        hashes = next((append.hashes for append in ordered if append.hashes is not None), None)
        rows = next((append.rows for append in ordered if append.files == files), None)
        updates = sum(append.updates for append in ordered)
        result.append(
            BucketAppend(same[0].place, files, ordered[0].first_sequence, changelog, hashes, rows, updates)
        )
    return result


def updates_of(kinds: npt.NDArray[np.int8]) -> int:
    """Return how many of some row kinds are +U."""
    return int(np.count_nonzero(kinds == int(RowKind.UPDATE_AFTER)))


def runs_of_rows(
    context: TableContext,
    place: BucketPath,
    rows: pa.Table,
    kinds: npt.NDArray[np.int8],
    first_sequence: int,
    new: NewFiles,
    *,
    now_millis: int,
) -> tuple[list[pa.Table], tuple[DataFileMeta, ...]]:
    """Return the records of ``rows`` as sorted runs, oldest first, and the changelog files written of them.

    ``rows``: n rows of the table's columns, ``kinds`` their row kinds. Row i has sequence number
    ``first_sequence + i``. They are one run, or more (`apart`).
    Raises CorruptFileError if a live file has claimed the greatest sequence number,
    InvalidRequestError for a retraction that the merge engine cannot merge. Clauses: TBL-6, LSM-5, MRG-8.
    """
    if first_sequence + rows.num_rows > GREATEST_SEQUENCE:
        raise CorruptFileError(
            "sequence numbers", at=place.directory, expected="room for more", found=first_sequence - 1
        )
    keys = [rows.column(name[len(KEY_PREFIX) :]) for name in context.key_columns]
    (encoded,) = encode_keys([keys], context.key_types)
    sequences = np.arange(first_sequence, first_sequence + rows.num_rows, dtype=np.int64)
    records = pa.table(
        {
            **dict(zip(context.key_columns, keys, strict=True)),
            SEQUENCE_NUMBER: sequences,
            VALUE_KIND: kinds,
            **{name: rows.column(name) for name in rows.column_names},
        }
    )
    engine = context.merge_engine
    levels = np.zeros(records.num_rows, dtype=np.int32)
    window = grouped(records, encoded, levels, single=False, user_order=context.user_order)
    counting = window.without_kinds(engine.ignores)
    if not len(counting.starts):  # all rows are ignored: they are kept, and merged as if they were not there
        return [taken(records, window.newest)], ()
    runs = [counting] if engine.folds_retractions else apart(counting)
    tables = [engine.fold(run).rows() for run in runs]
    # Rows that wait for a bucket are no rows of the table yet, so the changelog has them when they get one.
    changelog = () if place.bucket < 0 else write_input(context, place, counting, new, now_millis=now_millis)
    return tables, changelog


def write_runs(
    context: TableContext,
    place: BucketPath,
    runs: Sequence[Iterable[pa.Table]],
    first_sequence: int,
    new: NewFiles,
    *,
    now_millis: int,
) -> BucketAppend:
    """Write sorted runs, oldest first, that `runs_of_rows` has made of rows that follow each other, at level 0.

    They become one run if the merge engine folds retractions, in memory that does not depend on their size.
    ``runs``: each in tables, in a list if they are in memory. Clauses: LSM-1, LSM-5, MRG-5, MRG-8.
    """
    folds = len(runs) > 1 and context.merge_engine.folds_retractions
    files: list[DataFileMeta] = []
    for tables in [_merged(context, place, runs)] if folds else runs:
        writer = RunWriter(context, place, new, level=0, source=FROM_WRITE, now_millis=now_millis)
        try:
            for table in tables:
                writer.write(table)
            files += writer.close()
        except BaseException:
            writer.abort()
            raise
    held = runs[0] if len(runs) == len(files) == 1 and isinstance(runs[0], list) else []
    rows = next((table for table in held if table.nbytes <= CACHED_ROWS_BYTES), None)
    return BucketAppend(place, tuple(files), first_sequence, rows=rows)


def _merged(
    context: TableContext, place: BucketPath, runs: Sequence[Iterable[pa.Table]]
) -> Iterator[pa.Table]:
    """Yield the records of sorted runs, oldest first, as one run, some at a time."""
    engine, share = context.merge_engine, max(FEWEST_ROWS, MERGED_ROWS // len(runs))

    def windows() -> Iterator[Window]:
        tables = [((place.directory, table) for table in run) for run in runs]
        return windows_of(context, [RunBuffer(one, share, level=0) for one in tables])

    counts = False
    for window in windows():
        rows = engine.fold(window.without_kinds(engine.ignores)).rows()
        counts = counts or rows.num_rows > 0
        yield rows
    if not counts:  # all are ignored, see `runs_of_rows`
        yield from (taken(window.records, window.newest) for window in windows())


def apart(window: Window) -> list[Window]:
    """Return ``window`` as windows, oldest first, in which a retraction is the only record of its key.

    Records get other sequence numbers of those of the window, so that they ascend from window to window. The order of
    the records of a key stays. Clauses: MRG-8, LSM-4.
    """
    retracts = ~window.adds()[window.order]
    if not retracts.any():
        return [window]
    begins = retracts | np.append(False, retracts[:-1])
    begins[window.starts] = False
    lengths = np.diff(np.append(window.starts, len(begins)))
    so_far = np.cumsum(begins)
    ranks = np.zeros(window.records.num_rows, dtype=np.int64)
    ranks[window.order] = so_far - np.repeat(so_far[window.starts], lengths)
    at = window.records.column_names.index(SEQUENCE_NUMBER)
    numbers = np.empty(len(ranks), dtype=np.int64)
    numbers[np.argsort(ranks, kind="stable")] = window.records.column(at).to_numpy()
    renumbered = window.records.set_column(at, SEQUENCE_NUMBER, pa.array(numbers))
    whole = replace(window, records=renumbered)
    return [whole.without(ranks != rank) for rank in range(int(ranks.max()) + 1)]


def renumber(
    context: TableContext, append: BucketAppend, first_sequence: int, new: NewFiles, *, now_millis: int
) -> BucketAppend:
    """Write the appended files again with sequence numbers from ``first_sequence`` on, their order kept.

    For a write that lost the race for its sequence numbers. Clauses: CMT-24.
    """
    shift = first_sequence - min(file.min_sequence_number for file in (*append.files, *append.changelog))
    columns = [*context.key_columns, SEQUENCE_NUMBER, VALUE_KIND, *(f.name for f in context.schema.fields)]

    def again(files: Sequence[DataFileMeta], *, changelog: bool) -> tuple[DataFileMeta, ...]:
        done: list[DataFileMeta] = []
        for file in files:
            writer = RunWriter(
                context,
                append.place,
                new,
                level=0,
                source=FROM_WRITE,
                now_millis=now_millis,
                changelog=changelog,
            )
            try:
                for _, table in DataReader(context, append.place, file).read(columns):
                    at = table.column_names.index(SEQUENCE_NUMBER)
                    shifted = pa.array(table.column(SEQUENCE_NUMBER).to_numpy() + shift)
                    writer.write(table.set_column(at, SEQUENCE_NUMBER, shifted))
                done += writer.close()
            except BaseException:
                writer.abort()
                raise
        return tuple(done)

    files, logged = again(append.files, changelog=False), again(append.changelog, changelog=True)
    return replace(append, files=files, first_sequence=first_sequence, changelog=logged, rows=None)
