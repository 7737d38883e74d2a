"""The parts of a snapshot as Arrow tables: data files, buckets, deletion vectors, records.

For people, checkers and tests. Partitions are spelled as directories, keys as text.

Clauses: LSM-7, DV-1, DVF-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER

from pktable.catalog.as_of import AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.state import TableState
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketState

GREATEST_TOTAL: Final = (1 << 63) - 1

FILES = pa.schema(
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
BUCKETS = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("directory", pa.string()),
        ("file_count", pa.int64()),
        ("level_zero_count", pa.int64()),
        ("file_size", pa.int64()),
        ("row_count", pa.int64()),
        ("index_file", pa.string()),
    ]
)
VECTORS = pa.schema(
    [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("index_file", pa.string()),
        ("file_name", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("deleted_row_count", pa.int64()),
        ("positions", pa.list_(pa.int64())),
    ]
)


class Inspection:
    """Looks into one table. Every method takes a snapshot id, by default the latest.

    All raise SnapshotNotFoundError, CorruptFileError, and InvalidRequestError if key types have changed.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def files(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per live data file, by partition, bucket, level and smallest key.

        ``file_size`` in bytes. ``retraction_count``: records that are deletes (-U, -D), null where it is not stored.
        ``deleted_row_count``: how many positions the file's deletion vector holds.
        """

        def work(state: TableState, context: TableContext) -> pa.Table:
            context.expect_keys(file for live in state.files.values() for file in live)
            rows = []
            for bucket in self._buckets(state):
                deleted = context.deleted_counts(bucket)
                order = context.order
                for file in sorted(bucket.files, key=lambda file: (file.level, order.smallest(file))):
                    rows.append(_file_row(context, bucket, file, deleted.get(file.file_name, 0)))
            return pa.Table.from_pylist(rows, schema=FILES)

        return self._catalog.read_as_of(AsOf.given(snapshot), work)

    def buckets(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per bucket. ``index_file``: its DV index files, comma-separated, null if it has none."""

        def work(state: TableState, context: TableContext) -> pa.Table:
            rows = [
                {
                    **_place(context, bucket),
                    "directory": bucket.place.directory.removeprefix(context.root + "/"),
                    "file_count": len(bucket.files),
                    "level_zero_count": sum(file.level == 0 for file in bucket.files),
                    "file_size": _total(context, [file.file_size for file in bucket.files]),
                    "row_count": _total(context, [file.row_count for file in bucket.files]),
                    "index_file": ", ".join(index.file_name for index in bucket.indexes) or None,
                }
                for bucket in self._buckets(state)
            ]
            return pa.Table.from_pylist(rows, schema=BUCKETS)

        return self._catalog.read_as_of(AsOf.given(snapshot), work)

    def vectors(self, snapshot: int | None = None) -> pa.Table:
        """Return one row per deletion vector: its DV index file, data file, place in bytes, and deleted positions."""

        def work(state: TableState, context: TableContext) -> pa.Table:
            rows = []
            for bucket in self._buckets(state):
                vectors = context.vectors(bucket)
                for index, place in ((one, place) for one in bucket.indexes for place in one.ranges or ()):
                    vector = vectors[place.data_file]
                    rows.append(
                        {
                            **_place(context, bucket),
                            "index_file": index.file_name,
                            "file_name": place.data_file,
                            "offset": place.offset_bytes,
                            "length": place.length_bytes,
                            "deleted_row_count": vector.cardinality,
                            "positions": vector.positions(),
                        }
                    )
            return pa.Table.from_pylist(rows, schema=VECTORS)

        return self._catalog.read_as_of(AsOf.given(snapshot), work)

    def records(self, file_name: str, snapshot: int | None = None) -> pa.Table:
        """Return every record of a live data file by position, those deleted by its vector included.

        Columns: ``position``, ``deleted``, with a primary key the sequence number and the row kind, with row tracking
        the id of the row and its sequence number, and the table's columns.
        Raises InvalidRequestError if the file is not live at that snapshot.
        """

        def work(state: TableState, context: TableContext) -> pa.Table:
            for bucket in self._buckets(state):
                for file in bucket.files:
                    if file.file_name == file_name:
                        return _records(context, bucket, file)
            raise InvalidRequestError(f"{file_name} is not a live data file of snapshot {state.id}")

        return self._catalog.read_as_of(AsOf.given(snapshot), work)

    def _buckets(self, state: TableState) -> list[BucketState]:
        return [
            self._catalog.states.bucket(state, bucket_id)
            for bucket_id in sorted({*state.files, *state.indexes})
        ]


def _total(context: TableContext, numbers: Sequence[int]) -> int:
    """Return the sum. Raises CorruptFileError if no table can be that large."""
    total = sum(numbers)
    if not 0 <= total <= GREATEST_TOTAL:
        raise CorruptFileError("files of a bucket", at=context.root, expected="sizes and counts", found=total)
    return total


def _place(context: TableContext, bucket: BucketState) -> dict[str, object]:
    return {"partition": context.partition_path(bucket.place.partition), "bucket": bucket.place.bucket}


def _file_row(
    context: TableContext, bucket: BucketState, file: DataFileMeta, deleted: int
) -> dict[str, object]:
    return {
        **_place(context, bucket),
        "level": file.level,
        "file_name": file.file_name,
        "file_size": file.file_size,
        "row_count": file.row_count,
        "retraction_count": file.delete_row_count,
        "deleted_row_count": deleted,
        "min_key": _text(file.min_key, context),
        "max_key": _text(file.max_key, context),
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "schema_id": file.schema_id,
    }


def _records(context: TableContext, bucket: BucketState, file: DataFileMeta) -> pa.Table:
    from pktable.bucket.append_write import tracked_rows
    from pktable.bucket.reader import DataReader  # late, as everything else here is metadata

    reader = DataReader(context, bucket.place, file)
    if context.options.row_tracking:
        names = [ROW_ID, SEQUENCE_NUMBER, *context.schema.value_names]
        parts = [table.select(names) for _, table in tracked_rows(reader, context.schema.value_names)]
    else:
        names = [*context.schema.system_columns, *context.schema.value_names]
        parts = [table for _, table in reader.read(names)]
    found = pa.concat_tables(parts) if parts else pa.table({name: [] for name in names})
    vector = context.vectors(bucket).get(file.file_name)
    positions = set(vector.positions().tolist()) if vector else set()
    return found.add_column(0, "position", pa.array(range(found.num_rows), pa.int64())).add_column(
        1, "deleted", pa.array([position in positions for position in range(found.num_rows)])
    )


def _text(row: bytes, context: TableContext) -> str:
    return ", ".join(str(value) for value in decode_row(row, context.key_types, at=context.root))
