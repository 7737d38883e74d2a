"""Which partition a row belongs to.

Clauses: TBL-3, APP-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pktable.context import TableContext
from pktable.format.binary_row import EMPTY_ROW, encode_row
from pktable.format.types import DataType, values_of
from pktable.merge.key_encoding import encode_keys


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of n rows: ``encoded``, each as a BinaryRow, and ``numbers``: of each row its place in it."""

    encoded: Sequence[bytes]
    numbers: npt.NDArray[Any]


def partitions_of(context: TableContext, rows: pa.Table) -> Partitions:
    """Return the partitions of ``rows``, at least one row. Clauses: TBL-3."""
    fields = context.schema.partition_fields
    if not fields:
        return Partitions([EMPTY_ROW], np.zeros(rows.num_rows, np.int64))
    columns, types = _without_nulls([(rows.column(f.name), f.type) for f in fields])
    (encoded,) = encode_keys([columns], types)
    _, firsts, numbers = np.unique(encoded, return_index=True, return_inverse=True)
    shown = rows.select([f.name for f in fields]).take(pa.array(firsts))
    values = zip(*(values_of(shown.column(f.name), f.type) for f in fields), strict=True)
    return Partitions([encode_row(one, [f.type for f in fields]) for one in values], numbers)


def _without_nulls(
    columns: Sequence[tuple[pa.ChunkedArray, DataType]],
) -> tuple[list[pa.ChunkedArray], list[DataType]]:
    """Return columns that distinguish the same rows as ``columns`` and hold no null.

    Only partition columns of append tables have any. Such a column becomes two: whether it is null, and its values.
    """
    found: list[tuple[pa.ChunkedArray, DataType]] = []
    for column, kind in columns:
        if column.null_count:
            found.append((column.is_null(), DataType("BOOLEAN")))
        if column.null_count < len(column):
            filled = column.fill_null(column.drop_null()[0]) if column.null_count else column
            found.append((filled, kind))
    return [column for column, _ in found], [kind for _, kind in found]


def grouped_rows(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any] | None]]:
    """Yield (number, indices of its rows in order), None where all rows have it."""
    if len(numbers) and bool(np.all(numbers == numbers[0])):
        yield int(numbers[0]), None
        return
    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)
    for number, part in zip(distinct, np.split(order, starts[1:]), strict=True):
        yield int(number), part
