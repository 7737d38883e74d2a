"""The ids of rows of a table with row tracking: those that a file stores, or consecutive ones from its first.

A row keeps its id and its sequence number, which is the snapshot that wrote it, when it is written again: the new file
stores both as columns. Where a stored sequence number is null, it is that of the file.

Clauses: APP-24, APP-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER

from pktable.bucket.reader import DataReader


def tracked_rows(reader: DataReader, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (position of the first row, rows) with ``columns``, `ROW_ID` and `SEQUENCE_NUMBER`, in file order.

    Raises CorruptFileError if the file neither stores ids nor has a first one. Clauses: APP-24, APP-25.
    """
    file = reader.meta
    stored = [name for name in (ROW_ID, SEQUENCE_NUMBER) if name in reader.stored.names]
    if ROW_ID not in stored and file.first_row_id is None:
        raise CorruptFileError(
            "row ids", at=reader.path, expected="a first id or a column of ids", found="none"
        )
    for position, table in reader.read([*columns, *stored]):
        if ROW_ID not in stored:
            first = (file.first_row_id or 0) + position
            table = table.append_column(
                ROW_ID, pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
            )
        if SEQUENCE_NUMBER not in stored:
            table = table.append_column(SEQUENCE_NUMBER, pa.nulls(table.num_rows, pa.int64()))
        sequences = pc.fill_null(table.column(SEQUENCE_NUMBER), file.max_sequence_number)
        table = table.drop_columns([SEQUENCE_NUMBER]).append_column(SEQUENCE_NUMBER, sequences)
        yield position, table.select([*columns, ROW_ID, SEQUENCE_NUMBER])
