"""What a read must look at: buckets and files, after everything that metadata can rule out.

Clauses: RD-1 to RD-5, RD-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pktable_spec.options import parse_options

from pktable.bucket.read import BucketRead
from pktable.bucket.table_files import TableFiles
from pktable.catalog.state import Identity, States, TableState
from pktable.format.binary_row import decode_row
from pktable.format.bucket import bucket_of
from pktable.format.manifest import DataFileMeta
from pktable.format.stats import decode_stats
from pktable.format.types import NANOS_PER, DataType, to_arrow
from pktable.predicate import ColumnRange, Predicate, key_equalities, may_match

Ranges = dict[str, ColumnRange]


def plan_read(
    files: TableFiles, states: States, state: TableState, *, fresh: bool, predicate: Predicate | None
) -> list[BucketRead]:
    """Return the parts of a read of ``state``; together they hold every row it must return, and may hold more.

    Raises UnsupportedOptionError if a part needs a merge that is not implemented, CorruptFileError.
    Clauses: RD-1, RD-3, RD-4, RD-5, RD-8.
    """
    parts = []
    vectors = reads_by_vectors(files, state)
    buckets = _buckets(files, state, predicate)
    for identity in state.files:
        if buckets is not None and identity[1] not in buckets:
            continue
        partition = _partition_ranges(files, identity)
        if predicate is not None and not may_match(predicate, partition):
            continue
        live = state.files[identity]
        wanted = live if fresh or not vectors else [f for f in live if f.level > 0]
        merges = needs_merge(wanted, vectors=vectors)
        if merges:
            files.options.require_mergeable()
        if predicate is not None:
            wanted = [
                f for f in wanted if may_match(predicate, partition | _ranges(files, f, values=not merges))
            ]
        if wanted:
            bucket = states.bucket(state, identity)
            parts.append(BucketRead(replace(bucket, files=tuple(wanted)), merges))
    return parts


def reads_by_vectors(files: TableFiles, state: TableState) -> bool:
    """Whether the table had deletion vectors when ``state`` was committed: before, nothing was marked.

    Clauses: DV-15.
    """
    if state.snapshot is None or state.snapshot.schema_id == files.schema.id:
        return files.options.deletion_vectors_enabled
    return parse_options(files.schema_of(state.snapshot.schema_id).options).deletion_vectors_enabled


def needs_merge(wanted: Sequence[DataFileMeta], *, vectors: bool) -> bool:
    """Whether some record of ``wanted`` may have to give way to another, or be dropped.

    Not so above level 0 where no file holds retractions: with vectors there is one live record per key
    (DV-12). Without vectors that takes a single run. Clauses: RD-1, RD-4, RD-5.
    """
    if any(file.delete_row_count != 0 for file in wanted):
        return True
    levels = {file.level for file in wanted}
    if vectors:
        return 0 in levels
    return len(levels) > 1 or (0 in levels and len(wanted) > 1)


def _buckets(files: TableFiles, state: TableState, predicate: Predicate | None) -> set[int] | None:
    """Return the buckets that can hold rows of ``predicate``, or None for all. Clauses: TBL-5."""
    if predicate is None or state.bucket_counts != {files.options.bucket}:
        return None  # files of a rescaled table are in the buckets of their own time
    fields = files.schema.bucket_key_fields
    tuples = key_equalities(predicate, [field.name for field in fields])
    if tuples is None:
        return None
    if not tuples:
        return set()
    columns = [_array([row[i] for row in tuples], field.type) for i, field in enumerate(fields)]
    return {int(b) for b in bucket_of(columns, [field.type for field in fields], files.options.bucket)}


def _array(values: Sequence[Any], kind: DataType) -> pa.Array:
    """Return internal values as a column of their type."""
    wanted = to_arrow(kind)
    if kind.root == "DATE":
        return pa.array(values, pa.int32()).cast(wanted)
    if pa.types.is_timestamp(wanted):
        return pa.array([value // NANOS_PER[wanted.unit] for value in values], pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def _partition_ranges(files: TableFiles, identity: Identity) -> Ranges:
    fields = files.schema.partition_fields
    values = decode_row(identity[0], [field.type for field in fields], at=files.root)
    return {
        field.name: ColumnRange(value, value, 0 if value is not None else 1, 1)
        for field, value in zip(fields, values, strict=True)
    }


def _ranges(files: TableFiles, file: DataFileMeta, *, values: bool) -> Ranges:
    """Return what metadata says of the columns of ``file``; of its value columns only if ``values``. Clauses: RD-8."""
    ranges: Ranges = {}
    if values and file.schema_id == files.schema.id:
        names = file.value_stats_cols
        fields = files.schema.fields if names is None else [files.schema.field(name) for name in names]
        stats = decode_stats(file.value_stats, [field.type for field in fields], at=file.file_name)
        for field, (low, high, nulls) in zip(fields, stats, strict=True):
            ranges[field.name] = ColumnRange(low, high, nulls, file.row_count)
    first, last = files.order.smallest(file), files.order.greatest(file)
    smallest = decode_row(file.min_key, files.key_types, at=file.file_name)
    greatest = decode_row(file.max_key, files.key_types, at=file.file_name)
    # Only the first key column is ordered over the whole file; the others are while those before are equal. Equal
    # as keys are: the two zeros are not.
    for i, field in enumerate(files.schema.key_fields):
        ranges[field.name] = ColumnRange(smallest[i], greatest[i], 0, file.row_count)
        if first[i] != last[i]:
            break
    return ranges
