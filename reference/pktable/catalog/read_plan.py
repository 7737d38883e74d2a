"""Plan a read: which buckets and files it must look at, after everything that metadata rules out.

A file is asked in the order of what asking costs: its bucket, its partition, its keys, and the value statistics of the
columns of the condition. The ranges of these are in `file_ranges`.

Clauses: RD-1 to RD-5, RD-8, RD-13, RD-16, RD-20, RD-21, DV-15.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pktable.bucket.assign import assigner_of
from pktable.bucket.read import BucketRead
from pktable.catalog.file_ranges import Ranges, column_ranges, key_ranges, value_ranges
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId
from pktable.predicate import ColumnRange, Predicate, key_equalities, many_may_match, may_match

MANY_FILES: Final = 32  # that are asked at once faster than one by one


def plan_read(
    context: TableContext,
    states: StateLoader,
    state: TableState,
    *,
    fresh: bool,
    predicate: Predicate | None,
    ruled_out: Counter[str] | None = None,
) -> list[BucketRead]:
    """Return the parts of a read of ``state``; together they hold every row it must return, and may hold more.

    ``ruled_out``: gets the number of live files that need not be read, by what rules them out.

    Raises UnsupportedOptionError if a part needs a merge that is not implemented, or an option asks for other
    rows, InvalidRequestError if key types have changed, CorruptFileError.
    Clauses: RD-1, RD-3, RD-4, RD-5, RD-8, RD-20, RD-21, TBL-30, TBL-31.
    """
    context.require_readable()
    context.expect_keys(file for live in state.files.values() for file in live)
    parts = []
    kind = kind_of(context.schema, context.root)
    buckets = _buckets(context, state, predicate)
    partitions = _partitions(context, state, predicate)
    asked: list[_Asked] = []
    counts = Counter[str]() if ruled_out is None else ruled_out
    for identity, live in state.files.items():
        # Rows in bucket -2 wait for a bucket of their own; they are not rows of the table yet.
        if identity[1] < 0 or (buckets is not None and identity[1] not in buckets):
            counts["bucket"] += len(live)
            continue
        partition = partitions[identity[0]]
        if partition is None:
            counts["partition"] += len(live)
            continue
        wanted, merges = kind.files_to_read(context, live, fresh=fresh)
        counts["level 0"] += len(live) - len(wanted)
        if merges:
            context.options.require_mergeable()
        asked.append(_Asked(identity, partition, wanted, merges))
    kept = [one.files for one in asked] if predicate is None else _kept(context, predicate, asked)
    for one, wanted in zip(asked, kept, strict=True):
        counts["keys and statistics"] += len(one.files) - len(wanted)
        if wanted:
            bucket = states.bucket(state, one.identity)
            parts.append(BucketRead(replace(bucket, files=tuple(wanted)), one.merges))
    return parts


@dataclass(frozen=True, slots=True)
class _Asked:
    """A bucket that may have rows of a read: the ranges of its partition, its files, and whether they are merged."""

    identity: BucketId
    partition: Ranges
    files: Sequence[DataFileMeta]
    merges: bool


def _kept(context: TableContext, predicate: Predicate, asked: Sequence[_Asked]) -> list[list[DataFileMeta]]:
    """Return of each bucket the files that may have a row of ``predicate``. Clauses: RD-8, RD-16.

    The keys of all files are asked at once, then the value statistics of those that are left, where nothing is
    merged. Files that this does not settle are asked one by one.
    """
    columns = predicate.columns()
    files = [(file, one) for one in asked for file in one.files]
    may, exact = np.ones(len(files), bool), np.zeros(len(files), bool)
    if len(files) >= MANY_FILES:
        for facts in (key_ranges, value_ranges):
            left = np.flatnonzero(may & ~exact)
            if facts is value_ranges:
                left = left[[_asks_values(context, files[i][1]) for i in left]]
            ranges = facts(context, [files[i][0] for i in left.tolist()], columns)
            answer = many_may_match(predicate, ranges, len(left))
            may[left], exact[left] = answer.may, answer.exact
    kept: list[list[DataFileMeta]] = [[] for _ in asked]
    places = {one.identity: place for place, one in enumerate(asked)}
    for i in np.flatnonzero(may).tolist():
        file, one = files[i]
        if exact[i] or may_match(
            predicate,
            one.partition | column_ranges(context, file, values=_asks_values(context, one), columns=columns),
        ):
            kept[places[one.identity]].append(file)
    return kept


def _asks_values(context: TableContext, asked: _Asked) -> bool:
    """Whether value statistics of a file say what its rows hold when they are read.

    They do not where files are merged, nor with data evolution, where a newer file may have other values of a column.
    """
    return not asked.merges and not context.options.data_evolution


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
    assigner = assigner_of(context, state.hashes)
    tuples = key_equalities(predicate, assigner.columns)
    return None if tuples is None else assigner.of_values(assigner.columns, tuples)


def _partitions(
    context: TableContext, state: TableState, predicate: Predicate | None
) -> dict[bytes, Ranges | None]:
    """Return the ranges of each partition, None where it cannot have rows of ``predicate``."""
    found: dict[bytes, Ranges | None] = {}
    for identity in state.files:
        if identity[0] not in found:
            ranges = _partition_ranges(context, identity)
            found[identity[0]] = ranges if predicate is None or may_match(predicate, ranges) else None
    return found


def _partition_ranges(context: TableContext, identity: BucketId) -> Ranges:
    fields = context.schema.partition_fields
    values = decode_row(identity[0], [field.type for field in fields], at=context.root)
    return {
        field.name: ColumnRange(value, value, 0 if value is not None else 1, 1)
        for field, value in zip(fields, values, strict=True)
    }
