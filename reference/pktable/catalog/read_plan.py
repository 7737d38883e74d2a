"""Plan a read: which buckets and files it must look at, after everything that metadata rules out.

Clauses: RD-1 to RD-5, RD-8, RD-13, RD-16, RD-20, RD-21, DV-15.
"""

from __future__ import annotations

from dataclasses import replace

from pktable.bucket.assign import assigner_of
from pktable.bucket.read import BucketRead
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.datafile.evolution import converted_bounds, keeps_order, same_values
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.stats import decode_stats
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId
from pktable.predicate import ColumnRange, Predicate, key_equalities, may_match

Ranges = dict[str, ColumnRange]


def plan_read(
    context: TableContext, states: StateLoader, state: TableState, *, fresh: bool, predicate: Predicate | None
) -> list[BucketRead]:
    """Return the parts of a read of ``state``; together they hold every row it must return, and may hold more.

    Raises UnsupportedOptionError if a part needs a merge that is not implemented, or an option asks for other
    rows, InvalidRequestError if key types have changed, CorruptFileError.
    Clauses: RD-1, RD-3, RD-4, RD-5, RD-8, RD-20, RD-21.
    """
    context.options.require_readable()
    context.expect_keys(file for live in state.files.values() for file in live)
    parts = []
    kind = kind_of(context.schema, context.root)
    buckets = _buckets(context, state, predicate)
    for identity in state.files:
        # Rows in bucket -2 wait for a bucket of their own; they are not rows of the table yet.
        if identity[1] < 0 or (buckets is not None and identity[1] not in buckets):
            continue
        partition = _partition_ranges(context, identity)
        if predicate is not None and not may_match(predicate, partition):
            continue
        wanted, merges = kind.files_to_read(context, state.files[identity], fresh=fresh)
        if merges:
            context.options.require_mergeable()
        if predicate is not None:
            # An older file may have other values of a column than the newest one with its rows.
            by_values = not merges and not context.options.data_evolution
            wanted = [
                f
                for f in wanted
                if may_match(predicate, partition | column_ranges(context, f, values=by_values))
            ]
        if wanted:
            bucket = states.bucket(state, identity)
            parts.append(BucketRead(replace(bucket, files=tuple(wanted)), merges))
    return parts


def uncompacted_row_count(context: TableContext, state: TableState) -> int:
    """Return how many rows, retractions included, a fresh read of ``state`` looks at and a default read does not.

    Clauses: RD-1, RD-3.
    """
    if context.options.read_merges_level_zero:
        return 0
    kind = kind_of(context.schema, context.root)
    count = 0
    for (_, bucket), live in state.files.items():
        if bucket >= 0:
            fresh, default = (kind.files_to_read(context, live, fresh=fresh)[0] for fresh in (True, False))
            count += sum(file.row_count for file in fresh) - sum(file.row_count for file in default)
    return count


def _buckets(context: TableContext, state: TableState, predicate: Predicate | None) -> set[int] | None:
    """Return the buckets that can hold rows of ``predicate``, or None for all. Clauses: TBL-5."""
    # Files of a rescaled table are in the buckets of their own time.
    if (
        predicate is None
        or not context.options.hashes_buckets
        or not context.schema.bucket_key_fields
        or state.bucket_counts != {context.options.bucket}
    ):
        return None
    assigner = assigner_of(context)
    tuples = key_equalities(predicate, assigner.columns)
    return None if tuples is None else assigner.of_values(assigner.columns, tuples)


def _partition_ranges(context: TableContext, identity: BucketId) -> Ranges:
    fields = context.schema.partition_fields
    values = decode_row(identity[0], [field.type for field in fields], at=context.root)
    return {
        field.name: ColumnRange(value, value, 0 if value is not None else 1, 1)
        for field, value in zip(fields, values, strict=True)
    }


def column_ranges(context: TableContext, file: DataFileMeta, *, values: bool) -> Ranges:
    """Return what metadata says of the columns of ``file``; of its value columns only if ``values``.

    Clauses: RD-8, RD-16.
    """
    ranges = _value_ranges(context, file) if values else {}
    first, last = context.order.smallest(file), context.order.greatest(file)
    smallest = decode_row(file.min_key, context.key_types, at=file.file_name)
    greatest = decode_row(file.max_key, context.key_types, at=file.file_name)
    # Only the first key column is ordered over the whole file; the others are while those before are equal. Equal
    # as keys are: the two zeros are not.
    for i, field in enumerate(context.schema.key_fields):
        ranges[field.name] = ColumnRange(smallest[i], greatest[i], 0, file.row_count)
        if first[i] != last[i]:
            break
    return ranges


def _value_ranges(context: TableContext, file: DataFileMeta) -> Ranges:
    """Return the value statistics of ``file`` for the columns as they are today, where they are known.

    A column that was not there is null in every row; one of another type has bounds if its conversion keeps
    the order. Clauses: RD-8, META-15.
    """
    before = context.schema_of(file.schema_id)
    known = {}
    fields = file.value_stats_fields(before)
    if fields is not None:
        stats = decode_stats(file.value_stats, [field.type for field in fields], at=file.file_name)
        known = dict(zip((field.id for field in fields), stats, strict=True))
    ranges: Ranges = {}
    for field in context.schema.fields:
        old = before.by_id.get(field.id)
        if old is None:
            ranges[field.name] = ColumnRange(None, None, file.row_count, file.row_count)
        elif field.id in known:
            low, high, nulls = known[field.id]
            if same_values(old.type, field.type):
                ranges[field.name] = ColumnRange(low, high, nulls, file.row_count)
            elif keeps_order(old.type, field.type):
                low, high = converted_bounds(low, high, old.type, field.type)
                ranges[field.name] = ColumnRange(low, high, nulls, file.row_count)
    return ranges
