"""The live files of a snapshot as a table for people and checkers.

Clauses: LSM-7, DV-1.
"""

from __future__ import annotations

import pyarrow as pa

from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.binary_row import decode_row

LISTING = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("level", pa.int32()),
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("row_count", pa.int64()),
        ("retraction_count", pa.int64()),
        ("deleted_row_count", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("min_sequence_number", pa.int64()),
        ("max_sequence_number", pa.int64()),
        ("schema_id", pa.int64()),
    ]
)


def list_files(context: TableContext, states: StateLoader, state: TableState) -> pa.Table:
    """Return one row per live file, by partition, bucket, level and smallest key.

    ``deleted_row_count``: positions that its deletion vector marks. Raises CorruptFileError, InvalidRequestError
    if key types have changed.
    """
    rows = []
    context.expect_keys(file for live in state.files.values() for file in live)
    for identity in sorted(state.files):
        bucket = states.bucket(state, identity)
        vectors = context.vectors(bucket)
        order = context.order
        for file in sorted(bucket.files, key=lambda f: (f.level, order.smallest(f))):
            vector = vectors.get(file.file_name)
            rows.append(
                {
                    "partition": context.partition_path(identity[0]),
                    "bucket": identity[1],
                    "level": file.level,
                    "file_name": file.file_name,
                    "file_size": file.file_size,
                    "row_count": file.row_count,
                    "retraction_count": file.delete_row_count,
                    "deleted_row_count": vector.cardinality if vector else 0,
                    "min_key": _text(file.min_key, context),
                    "max_key": _text(file.max_key, context),
                    "min_sequence_number": file.min_sequence_number,
                    "max_sequence_number": file.max_sequence_number,
                    "schema_id": file.schema_id,
                }
            )
    return pa.Table.from_pylist(rows, schema=LISTING)


def _text(row: bytes, context: TableContext) -> str:
    return ", ".join(str(value) for value in decode_row(row, context.key_types, at=context.root))
