"""Read some rows of a data file by position.

Clauses: DV-6, DV-20.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pktable.bucket.reader import BATCH_ROWS, DataReader
from pktable.bucket.windows import WINDOW_BYTES, rows_to_hold
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import Positions
from pktable.lsm.bucket import BucketPath


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
