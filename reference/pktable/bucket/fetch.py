"""Read some rows of a data file by position.

Clauses: DV-6, DV-20.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pktable.bucket.reader import BATCH_ROWS, DataReader
from pktable.bucket.windows import WINDOW_BYTES, rows_to_hold
from pktable.context import TableContext
from pktable.datafile.row_ranges import around
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import Positions
from pktable.lsm.bucket import BucketPath


def fetch_rows(
    context: TableContext, place: BucketPath, file: DataFileMeta, positions: Positions, columns: Sequence[str]
) -> pa.Table:
    """Return ``columns`` of the rows at ``positions`` (ascending, at least one), in that order.

    Of a Parquet file, only pages or row groups that hold one are read. Raises CorruptFileError.
    """
    reader, ranges = DataReader(context, place, file), around(positions)
    # Arrow decodes a row group at once for four fifths of the time that it takes batch by batch.
    most = max(BATCH_ROWS, rows_to_hold([[file]], WINDOW_BYTES))

    def fetched(names: Sequence[str]) -> pa.Table:
        found = []
        for start, table in reader.read(names, ranges=ranges, batch_rows=most):
            first, end = np.searchsorted(positions, [start, start + table.num_rows])
            if first < end:
                found.append(table.take(pa.array(positions[first:end] - start)))
        return pa.concat_tables(found)

    if not reader.stored.by_column:
        return fetched(columns)
    # One after the other, so that the memory of a whole column is soon used again.
    return pa.table({name: fetched([name]).column(0) for name in columns})
