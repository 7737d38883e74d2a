"""Read the rows that a lookup has found by their positions, and find out which records of a merge are late.

A record is late if an older file holds a newer record of its key, by ``sequence.field``. Without the option what lies
deeper is older. With it, a compaction compares the newest record that it has of a key with every row of the key that
the lookup finds. Deleted rows count: a row that remembers a deletion is deleted by the vector of its file (DV-21). A
row that was replaced does no harm, since its replacement is newer.

Clauses: DV-6, DV-20, DV-23, MRG-19.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.locate import Located
from pktable.bucket.reader import BATCH_ROWS, DataReader
from pktable.bucket.windows import WINDOW_BYTES, rows_to_hold
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import Positions
from pktable.lsm.bucket import BucketPath
from pktable.merge.grouping import Flags, Window


def fetch_rows(
    context: TableContext, place: BucketPath, file: DataFileMeta, positions: Positions, columns: Sequence[str]
) -> pa.Table:
    """Return ``columns`` of the rows at ``positions`` (ascending, at least one), in that order.

    Of a Parquet file, only pages or row groups that hold one are read. Raises CorruptFileError.
    """
    reader = DataReader(context, place, file)
    # Arrow decodes a row group at once for four fifths of the time that it takes batch by batch.
    most = max(BATCH_ROWS, rows_to_hold([[file]], WINDOW_BYTES))
    if not reader.stored.by_column:
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
    # Of equal ones the newest is the last, which is that of the merge.
    by_key = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[by_key], np.arange(count))
    window = Window(records, starts, by_key, np.zeros(len(keys), dtype=np.int32)).in_order(context.user_order)
    late: Flags = window.newest < records.num_rows - count
    return late
