"""Plan a read: which buckets and files it must look at, after everything that metadata rules out.

Files are asked in the order of what asking costs: their buckets, their partitions, their keys, and the value statistics
of the columns of the condition. `file_bounds` makes a table of what these say.

Clauses: RD-1 to RD-5, RD-8, RD-13, RD-16, RD-20, RD-21, DV-15.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pktable.bucket.assign import assigner_of
from pktable.bucket.read import BucketRead
from pktable.catalog.file_bounds import key_bounds, partition_bounds, value_bounds
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId
from pktable.predicate import Bounds, Predicate, key_equalities, may_match


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
    partitions = _Partitions.of(context, state, predicate)
    asked: list[_Asked] = []
    counts = Counter[str]() if ruled_out is None else ruled_out
    for identity, live in state.files.items():
        # Rows in bucket -2 wait for a bucket of their own; they are not rows of the table yet.
        if identity[1] < 0 or (buckets is not None and identity[1] not in buckets):
            counts["bucket"] += len(live)
            continue
        partition = partitions.numbers[identity[0]]
        if not partitions.possible[partition]:
            counts["partition"] += len(live)
            continue
        wanted, merges = kind.files_to_read(context, live, fresh=fresh)
        counts["level 0"] += len(live) - len(wanted)
        if merges:
            context.options.require_mergeable()
        asked.append(_Asked(identity, partition, wanted, merges))
    kept = [one.files for one in asked] if predicate is None else _kept(context, predicate, partitions, asked)
    for one, wanted in zip(asked, kept, strict=True):
        counts["keys and statistics"] += len(one.files) - len(wanted)
        if wanted:
            bucket = states.bucket(state, one.identity)
            parts.append(BucketRead(replace(bucket, files=tuple(wanted)), one.merges))
    return parts


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Partitions by number: ``bounds`` of those columns that a condition reads, and which are ``possible``."""

    numbers: Mapping[bytes, int]
    bounds: Mapping[str, Bounds]
    possible: Sequence[bool]

    @classmethod
    def of(cls, context: TableContext, state: TableState, predicate: Predicate | None) -> _Partitions:
        names = list(dict.fromkeys(partition for partition, _ in state.files))
        bounds = partition_bounds(context, names, predicate.columns() if predicate else ())
        possible = [True] * len(names)
        if predicate is not None and bounds:
            possible = may_match(predicate, bounds, len(names)).tolist()
        return cls({name: i for i, name in enumerate(names)}, bounds, possible)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A bucket that may have rows of a read: the number of its partition, its files, and whether they are merged."""

    identity: BucketId
    partition: int
    files: Sequence[DataFileMeta]
    merges: bool


def _kept(
    context: TableContext, predicate: Predicate, partitions: _Partitions, asked: Sequence[_Asked]
) -> list[list[DataFileMeta]]:
    """Return of each bucket the files that may have a row of ``predicate``. Clauses: RD-8, RD-16.

    The keys of all files are asked, then the value statistics of those that are left, where nothing is merged.
    """
    columns = predicate.columns()
    files = [file for one in asked for file in one.files]
    bucket = np.repeat(np.arange(len(asked)), [len(one.files) for one in asked])
    partition = np.array([one.partition for one in asked], np.int64)[bucket]
    bounds = {name: found.take(partition) for name, found in partitions.bounds.items()}
    keys = key_bounds(context, files, columns)
    bounds |= keys
    may = np.array(may_match(predicate, bounds, len(files))) if bounds else np.ones(len(files), bool)
    settled = {*partitions.bounds, *(field.name for field in context.schema.key_fields[:1])}
    if not settled.issuperset(columns):
        asks = np.array([asks_values(context, one) for one in asked], bool)
        left = np.flatnonzero(may & asks[bucket])
        values = value_bounds(context, [files[i] for i in left.tolist()], {*columns} - settled)
        known = {name: found.take(left) for name, found in bounds.items()}
        for name, found in values.items():
            known[name] = known[name].or_else(found) if name in keys else found
        may[left] = may_match(predicate, known, len(left))
    kept: list[list[DataFileMeta]] = [[] for _ in asked]
    for i in np.flatnonzero(may).tolist():
        kept[bucket[i]].append(files[i])
    return kept


def asks_values(context: TableContext, asked: _Asked) -> bool:
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
