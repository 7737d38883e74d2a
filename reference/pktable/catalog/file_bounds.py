"""The table of bounds of data files, from metadata: of their partitions, their keys, and the values of their columns.

`key_bounds` decodes keys, `value_bounds` statistics: each column that a condition reads, of all files together.

`rows_to_decode` guesses how many rows a read must decode: of a file that is sorted by key, only the pages that a
condition leaves. Keys are taken to be spread evenly between the smallest and the greatest of a file. Nothing follows
from the guess but who reads.

Clauses: RD-8, RD-16, META-15.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pktable.bucket.read import BucketRead
from pktable.context import TableContext
from pktable.datafile.evolution import converted, keeps_order, same_values
from pktable.datafile.readers import PAGE_ROWS
from pktable.format.binary_row import arity_of, column_of, decode_column
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.stats import null_counts_of
from pktable.format.types import DataType, Field
from pktable.predicate import Bounds, Predicate, key_equalities, may_match

Flags = npt.NDArray[np.bool_]
End = tuple[npt.NDArray[Any], Flags]


def partition_bounds(
    context: TableContext, partitions: Sequence[bytes], columns: Collection[str]
) -> dict[str, Bounds]:
    """Return the values of those of ``columns`` that ``partitions`` have."""
    fields = context.schema.partition_fields
    types, at = [field.type for field in fields], [str(context.root)] * len(partitions)
    found = {}
    for i, field in enumerate(fields):
        if field.name in columns:
            value = decode_column(partitions, types, i, at=at)
            found[field.name] = _bounds(value, value, nullable=~value[1], present=value[1])
    return found


def key_bounds(
    context: TableContext, files: Sequence[DataFileMeta], columns: Collection[str]
) -> dict[str, Bounds]:
    """Return the bounds of those of ``columns`` that are key columns; an append table has none.

    Only the first key column is ordered over a whole file, another while those before it are equal. Clauses: RD-16.
    """
    asked = [i for i, field in enumerate(context.schema.key_fields) if field.name in columns]
    found: dict[str, Bounds] = {}
    if not asked or not files:
        return found
    at = [file.file_name for file in files]
    every = np.ones(len(files), bool)
    equal = every
    for i, field in enumerate(context.schema.key_fields[: asked[-1] + 1]):
        low, high = (
            decode_column(rows, context.key_types, i, at=at)
            for rows in ([file.min_key for file in files], [file.max_key for file in files])
        )
        if i in asked:
            found[field.name] = _bounds(
                (low[0], low[1] & equal), (high[0], high[1] & equal), nullable=~every, present=every
            )
        if i < asked[-1]:
            equal = equal & (low[0] == high[0])
            if low[0].dtype.kind == "f":  # the two zeros are two keys
                equal &= np.signbit(low[0]) == np.signbit(high[0])
    return found


def value_bounds(
    context: TableContext, files: Sequence[DataFileMeta], columns: Collection[str]
) -> dict[str, Bounds]:
    """Return the value statistics of ``columns`` as they are today.

    Nothing is known of a file that has none. A column that was not there is null in every row; one of another type has
    bounds if its conversion keeps the order. Clauses: RD-8, META-15.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, file in enumerate(files):
        alike = (file.schema_id, file.value_stats_cols, arity_of(file.value_stats.min_values))
        groups.setdefault(alike, []).append(i)
    found: dict[str, Bounds] = {}
    parted = [[files[i] for i in group] for group in groups.values()]
    described = [one[0].value_stats_fields(context.schema_of(one[0].schema_id)) for one in parted]
    for field in context.schema.fields:
        if field.name in columns and files:
            parts = [_of_column(context, *part, field) for part in zip(parted, described, strict=True)]
            found[field.name] = parts[0] if len(parts) == 1 else _together(parts, list(groups.values()))
    return found


def _of_column(
    context: TableContext, files: Sequence[DataFileMeta], fields: Sequence[Field] | None, field: Field
) -> Bounds:
    """Return the statistics of a column in ``files``, which have statistics of the same ``fields`` of one schema."""
    before = context.schema_of(files[0].schema_id)
    every = np.ones(len(files), bool)
    unknown: End = np.zeros(len(files), bool), ~every
    old = before.by_id.get(field.id)
    if old is None:
        return Bounds(unknown, unknown, nullable=every, present=~every)
    places = [i for i, one in enumerate(fields or ()) if one.id == field.id]
    converts = not same_values(old.type, field.type)
    if not fields or not places or (converts and not keeps_order(old.type, field.type)):
        return Bounds(unknown, unknown, nullable=every, present=every)
    (place,) = places
    types = [one.type for one in fields]
    ends = []
    for what, rows in (
        ("minima", [file.value_stats.min_values for file in files]),
        ("maxima", [file.value_stats.max_values for file in files]),
    ):
        end = decode_column(rows, types, place, at=[f"{file.file_name}: {what}" for file in files])
        ends.append(_converted(end, old.type, field.type) if converts else end)
    nulls = [null_counts_of(file.value_stats, len(types), at=file.file_name)[place] for file in files]
    nullable = np.array([count != 0 for count in nulls])
    present = np.array(
        [count is None or count < file.row_count for count, file in zip(nulls, files, strict=True)]
    )
    return _bounds(*ends, nullable=nullable, present=present)


def _converted(end: End, before: DataType, after: DataType) -> End:
    given = [value if known else None for value, known in zip(*(one.tolist() for one in end), strict=True)]
    return column_of(converted(given, before, after), after)


def _bounds(low: End, high: End, *, nullable: Flags, present: Flags) -> Bounds:
    """Return bounds of which a NaN bounds nothing."""
    if low[0].dtype.kind == "f":
        bounded = ~(np.isnan(low[0]) & low[1]) & ~(np.isnan(high[0]) & high[1])
        low, high = (low[0], low[1] & bounded), (high[0], high[1] & bounded)
    return Bounds(low, high, nullable, present)


def _together(parts: Sequence[Bounds], places: Sequence[Sequence[int]]) -> Bounds:
    """Return the bounds of parts of the files as those of all; ``places``: where the files of each part are."""
    order = np.argsort(np.concatenate(places))

    def joined(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if len({column.dtype for column in columns}) > 1:  # one of them holds nothing
            columns = [column.astype(object) for column in columns]
        together: npt.NDArray[Any] = np.concatenate(columns)[order]
        return together

    low, high = (
        (joined([end[0] for end in ends]), joined([end[1] for end in ends]))
        for ends in ([part.low for part in parts], [part.high for part in parts])
    )
    return Bounds(
        low, high, joined([part.nullable for part in parts]), joined([part.present for part in parts])
    )


PIECES: Final = 64  # of the keys of a file, of which a condition may leave some


def rows_to_decode(context: TableContext, parts: Sequence[BucketRead], predicate: Predicate | None) -> int:
    """Return about how many rows of ``parts`` are decoded to find those of ``predicate``."""
    every = sum(file.row_count for part in parts for file in part.state.files)
    keys = context.schema.key_fields
    if predicate is None or not keys or keys[0].name not in predicate.columns():
        return every
    files = [
        file
        for part in parts
        if not part.merges
        for file in part.state.files
        if file.file_name.endswith(".parquet") and file.schema_id == context.schema.id
    ]
    if not files:
        return every
    counts = np.array([file.row_count for file in files], np.int64)
    values = key_equalities(predicate, [keys[0].name])
    if values is not None:
        needed = np.full(len(files), len(values) * PAGE_ROWS)
    else:
        needed = np.ceil(_shares(context, files, predicate) * counts).astype(np.int64) + PAGE_ROWS
    return every - int(counts.sum()) + int(np.minimum(needed, counts).sum())


def _shares(
    context: TableContext, files: Sequence[DataFileMeta], predicate: Predicate
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of the keys of each file that may satisfy ``predicate``; 1 where they are not integers."""
    name = context.schema.key_fields[0].name
    found = key_bounds(context, files, [name])[name]
    (first, _), (last, _) = found.low, found.high
    if first.dtype.kind != "i":
        return np.ones(len(files))
    edges = np.linspace(first.astype(float), last.astype(float) + 1, PIECES + 1)
    low = np.floor(edges[:-1]).ravel()
    high = np.maximum(np.ceil(edges[1:]).ravel() - 1, low)
    every = np.ones(len(low), bool)
    pieces = Bounds((low, every), (high, every), nullable=~every, present=every)
    may = may_match(predicate, {name: pieces}, len(low))
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = may.reshape(PIECES, len(files)).mean(axis=0)
    return shares
