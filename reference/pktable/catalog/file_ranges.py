"""Tell what metadata says of the columns of data files: their keys, and the statistics of their values.

`column_ranges` tells it of one file, for `may_match`. `key_ranges` and `value_ranges` tell it of many files at once,
for `many_may_match`: they decode one column of all files together, and leave out what is not as simple. Statistics of
columns that nobody asks about are not decoded.

Clauses: RD-8, RD-16, META-15.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pktable.context import TableContext
from pktable.datafile.evolution import converted_bounds, keeps_order, same_values
from pktable.format.binary_columns import Column, decode_column
from pktable.format.binary_row import arity_of, decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.stats import decode_stats, null_counts_of
from pktable.format.types import Field
from pktable.predicate import ColumnRange, ManyRanges

Ranges = dict[str, ColumnRange]
Flags = npt.NDArray[np.bool_]


def column_ranges(
    context: TableContext, file: DataFileMeta, *, values: bool, columns: Collection[str]
) -> Ranges:
    """Return what metadata says of ``columns`` of ``file``, and of its key; of value columns only if ``values``.

    Clauses: RD-8, RD-16.
    """
    ranges = _value_ranges(context, file, columns) if values else {}
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


def _value_ranges(context: TableContext, file: DataFileMeta, columns: Collection[str]) -> Ranges:
    """Return the value statistics of ``file`` for ``columns`` as they are today, where they are known.

    A column that was not there is null in every row; one of another type has bounds if its conversion keeps
    the order. Clauses: RD-8, META-15.
    """
    before = context.schema_of(file.schema_id)
    asked = [field for field in context.schema.fields if field.name in columns]
    known = {}
    fields = file.value_stats_fields(before)
    if fields is not None:
        ids = {field.id for field in asked}
        only = [i for i, field in enumerate(fields) if field.id in ids]
        stats = decode_stats(file.value_stats, [field.type for field in fields], only=only, at=file.file_name)
        known = {fields[i].id: found for i, found in zip(only, stats, strict=True)}
    ranges: Ranges = {}
    for field in asked:
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


def key_ranges(
    context: TableContext, files: Sequence[DataFileMeta], columns: Collection[str]
) -> dict[str, ManyRanges]:
    """Return the range of the first key column in each of ``files``, if it is one of ``columns``.

    Of later key columns nothing is said: they are ordered only while those before are equal. Clauses: RD-16.
    """
    keys = context.schema.key_fields
    if not files or not keys or keys[0].name not in columns:  # an append table has no keys
        return {}
    first = keys[0]
    at = [file.file_name for file in files]
    low = decode_column([file.min_key for file in files], context.key_types, 0, at=at)
    high = decode_column([file.max_key for file in files], context.key_types, 0, at=at)
    every = np.ones(len(files), bool)
    return {first.name: _many(low, high, nullable=~every, present=every, known=every)}


def value_ranges(
    context: TableContext, files: Sequence[DataFileMeta], columns: Collection[str]
) -> dict[str, ManyRanges]:
    """Return the value statistics of ``columns`` in each of ``files``, and those of `key_ranges`.

    Nothing is known of a file that has none, or whose values of the column are converted. Clauses: RD-8, META-15.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, file in enumerate(files):
        alike = (file.schema_id, file.value_stats_cols, arity_of(file.value_stats.min_values))
        groups.setdefault(alike, []).append(i)
    found: dict[str, ManyRanges] = {}
    for field in context.schema.fields:
        if field.name in columns and files:
            parts = [_value_range(context, [files[i] for i in group], field) for group in groups.values()]
            found[field.name] = parts[0] if len(parts) == 1 else _together(parts, list(groups.values()))
    return found | key_ranges(context, files, columns)


def _value_range(context: TableContext, files: Sequence[DataFileMeta], field: Field) -> ManyRanges:
    """Return the statistics of a column in ``files``, which have statistics of the same fields of one schema."""
    before = context.schema_of(files[0].schema_id)
    fields = files[0].value_stats_fields(before)
    every = np.ones(len(files), bool)
    unknown: Column = np.zeros(len(files), bool), ~every
    old = before.by_id.get(field.id)
    if old is None:  # null in every row
        return _many(unknown, unknown, nullable=every, present=~every, known=every)
    places = [i for i, one in enumerate(fields or ()) if one.id == field.id]
    if not fields or not places or not same_values(old.type, field.type):
        return _many(unknown, unknown, nullable=every, present=every, known=~every)
    (place,) = places
    types = [one.type for one in fields]
    at = [file.file_name for file in files]
    low = decode_column(
        [file.value_stats.min_values for file in files], types, place, at=[f"{one}: minima" for one in at]
    )
    high = decode_column(
        [file.value_stats.max_values for file in files], types, place, at=[f"{one}: maxima" for one in at]
    )
    nulls = [null_counts_of(file.value_stats, len(types), at=file.file_name)[place] for file in files]
    nullable = np.array([count != 0 for count in nulls])
    present = np.array(
        [count is None or count < file.row_count for count, file in zip(nulls, files, strict=True)]
    )
    return _many(low, high, nullable=nullable, present=present, known=every)


def _many(low: Column, high: Column, *, nullable: Flags, present: Flags, known: Flags) -> ManyRanges:
    """Return bounds as ranges; a NaN among them bounds nothing."""
    bounded = np.ones(len(known), bool)
    for values, found in (low, high):
        if values.dtype.kind == "f":
            bounded &= ~(found & np.isnan(values))
    return ManyRanges(low[0], high[0], low[1] & bounded, high[1] & bounded, nullable, present, known)


def _together(parts: Sequence[ManyRanges], places: Sequence[Sequence[int]]) -> ManyRanges:
    """Return the ranges of parts of the files as those of all; ``places``: where the files of each part are."""
    order = np.argsort(np.concatenate(places))

    def joined(name: str) -> npt.NDArray[Any]:
        columns = [getattr(part, name) for part in parts]
        if len({column.dtype for column in columns}) > 1:  # one of them holds nothing
            columns = [column.astype(object) for column in columns]
        together: npt.NDArray[Any] = np.concatenate(columns)[order]
        return together

    return ManyRanges(*(joined(one.name) for one in dataclasses.fields(ManyRanges)))
