"""The files that a read opens: all that hold rows of it, but for those that metadata rules out.

Of a bucket it is its number and the partition that rule files out, of a file its keys, and the least and greatest value
of each column where nothing has to be merged. The records of each file are known, so all of this is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pktable_conform.judge.layout import FileKey, Layout
from pktable_spec.interface import BucketId, Comparison, FileInfo, Row, Scalar, Shape, StoredRecord
from pktable_spec.model.options import ModelOptions


def files_to_open(
    layout: Layout,
    conditions: Sequence[Comparison],
    shape: Shape,
    options: ModelOptions,
    records: Mapping[FileKey, Sequence[StoredRecord]],
    bucket_of: Callable[[Row], BucketId],
    *,
    fresh: bool,
    has_statistics: bool,
) -> set[str]:
    """Return the names of the files that a read of ``layout`` with some conditions opens. Clauses: RD-8, RD-16."""
    found = set()
    # Where buckets are dynamic, a read does not ask which one a key has.
    number = None if options.has_dynamic_buckets else _bucket_of_one_key(conditions, shape, bucket_of)
    for bucket, files in layout.buckets().items():
        partition = dict(zip(shape.partition_keys, bucket[0], strict=True))
        if (number is not None and bucket[1] not in number) or not all(
            one.holds(partition[one.column]) for one in conditions if one.column in partition
        ):
            continue
        wanted = [file for file in files if fresh or file.level > 0 or not options.one_record_per_key]
        names = None if merges(wanted, options) or not has_statistics else shape.names
        for file in wanted:
            ranges = _ranges(file, records[bucket, file.name], shape, names or ())
            if all(_may_hold(one, ranges[one.column]) for one in conditions if one.column in ranges):
                found.add(file.name)
    return found


def merges(files: Sequence[FileInfo], options: ModelOptions) -> bool:
    """Return whether a read of some files of a bucket merges them. Clauses: RD-1, RD-4, RD-5."""
    if any(file.retraction_count and (file.level == 0 or not options.hides_retractions) for file in files):
        return True
    levels = {file.level for file in files}
    if options.one_record_per_key:
        return 0 in levels
    return len(levels) > 1 or (0 in levels and len(files) > 1)


def _bucket_of_one_key(
    conditions: Sequence[Comparison], shape: Shape, bucket_of: Callable[[Row], BucketId]
) -> set[int] | None:
    """Return the bucket of the one key that equalities allow, none if they contradict each other; None if any is."""
    allowed: dict[str, set[Scalar]] = {}
    for one in conditions:
        if one.operator == "=":
            allowed[one.column] = allowed.get(one.column, {one.literal}) & {one.literal}
    if not allowed.keys() >= set(shape.trimmed_key):
        return None
    if not all(allowed[name] for name in shape.trimmed_key):
        return set()
    values = {name: next(iter(allowed[name])) for name in shape.trimmed_key}
    return {bucket_of(tuple(values.get(name) for name in shape.names))[1]}


def _ranges(
    file: FileInfo, records: Sequence[StoredRecord], shape: Shape, columns: Sequence[str]
) -> dict[str, tuple[Any, Any] | None]:
    """Return the least and greatest value of ``columns`` and of the keys, None where all are null.

    Of the keys only the first is in order over the whole file; each other one is while those before are equal.
    """
    ranges: dict[str, tuple[Any, Any] | None] = {}
    for at, name in enumerate(shape.names):
        values = [one.row[at] for one in records if one.row[at] is not None]
        if name in columns:
            ranges[name] = (min(values), max(values)) if values else None  # type: ignore[type-var]
    for name, low, high in zip(shape.trimmed_key, file.min_key, file.max_key, strict=True):
        ranges[name] = low, high
        if low != high:
            break
    return ranges


def _may_hold(condition: Comparison, bounds: tuple[Any, Any] | None) -> bool:
    """Return whether a value within some bounds may fulfil a condition; None: there are only nulls."""
    if bounds is None:
        return False
    low, high = bounds
    if condition.operator == "=":
        return bool(low <= condition.literal <= high)
    if condition.operator == "<>":
        return not low == high == condition.literal
    return condition.holds(low if condition.operator in ("<", "<=") else high)
