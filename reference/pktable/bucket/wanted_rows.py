"""Which rows of a data file a predicate can match, from the file's own statistics.

A Parquet file has statistics of its row groups, and in its page index those of its pages. Rows that neither excludes
are wanted.

Clauses: META-38, RD-7, RD-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.vocabulary import KEY_PREFIX

from pktable.bucket.reader import DataReader
from pktable.datafile.page_index import PageBounds, RowRanges, together, where_true
from pktable.datafile.readers import ParquetRows
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import INTEGER_BITS, STRINGS, DataType
from pktable.predicate import Bounds, Predicate, may_match

EXACT = INTEGER_BITS.keys()
"""Types whose Parquet statistics are internal values. So are those of `STRINGS`, but writers may cut them: a
statistic of a string is a bound, and need not be a value of the column.
"""
STORED: Final = {kind: np.dtype("<i8" if bits == 64 else "<i4") for kind, bits in INTEGER_BITS.items()}


def greatest_of_row_groups(
    reader: DataReader, schema: TableSchema, key_column: str
) -> list[tuple[RowRanges, Any]] | None:
    """Return the rows of each row group, and a value that none of a ``_KEY_`` column exceeds, None if not known.

    None for all of the file if that is not known of any.
    """
    stored = reader.stored
    kind = schema.field(key_column[len(KEY_PREFIX) :]).type.root
    if (
        not isinstance(stored, ParquetRows)
        or reader.meta.schema_id != schema.id
        or kind not in EXACT | STRINGS
    ):
        return None
    metadata = stored.metadata
    place = _places(metadata).get(key_column)
    if place is None:
        return None
    found, first = [], 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        stats = _statistics(reader, stored, group, place)
        greatest = stats.max if stats is not None and stats.has_min_max else None
        found.append((np.array([[first, first + rows.num_rows]], np.int64), greatest))
        first += rows.num_rows
    return found


def _places(metadata: Any) -> dict[str, int]:
    """Return where the columns are that are not nested, by name."""
    # A part of a nested column may spell its path as a plain column with a dot in its name does.
    plain = (i for i in range(metadata.num_columns) if metadata.schema.column(i).max_definition_level <= 1)
    return {metadata.schema.column(i).path: i for i in plain}


def rows_that_may_match(reader: DataReader, schema: TableSchema, predicate: Predicate) -> RowRanges | None:
    """Return the rows of a Parquet file worth reading, or None for all of the file."""
    stored = reader.stored
    if not isinstance(stored, ParquetRows) or reader.meta.schema_id != schema.id:
        return None
    metadata, asked = stored.metadata, predicate.columns()
    places = _places(metadata)
    usable = {f.name: f.type for f in schema.fields if f.name in asked and f.name in places}
    exact = {name: places[name] for name, kind in usable.items() if kind.root in EXACT}
    bounded = {name: kind for name, kind in usable.items() if kind.root in EXACT | STRINGS}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    few = len(groups) < 2
    bounds = {} if few else _bounds_of_groups(reader, stored, exact)
    may = [True] if few else may_match(predicate, bounds, len(groups)).tolist()
    first, found = 0, []
    for i, rows in enumerate(groups):
        if may[i]:
            found.append(_rows_of_pages(reader, i, rows.num_rows, bounded, predicate) + first)
        first += rows.num_rows
    ranges = together(found)
    return None if ranges.tolist() == [[0, first]] else ranges


def _statistics(reader: DataReader, stored: ParquetRows, group: int, place: int) -> Any:
    return reader.guarded(lambda: stored.statistics(group, place))


def _bounds_of_groups(
    reader: DataReader, stored: ParquetRows, places: Mapping[str, int]
) -> dict[str, Bounds]:
    bounds, groups = {}, range(stored.metadata.num_row_groups)
    for name, place in places.items():
        found = [_statistics(reader, stored, group, place) for group in groups]
        known = np.array([stats is not None and stats.has_min_max for stats in found])
        low, high = (
            np.array(
                [getattr(stats, end) if has else 0 for stats, has in zip(found, known, strict=True)], np.int64
            )
            for end in ("min", "max")
        )
        nullable = np.array(
            [not has or stats.null_count != 0 for stats, has in zip(found, known, strict=True)]
        )
        bounds[name] = Bounds((low, known), (high, known), nullable, present=np.ones(len(groups), bool))
    return bounds


def _rows_of_pages(
    reader: DataReader, group: int, rows: int, types: Mapping[str, DataType], predicate: Predicate
) -> RowRanges:
    """Return the rows of a row group whose pages may match; pages of different columns end at different rows."""
    stored = reader.stored
    assert isinstance(stored, ParquetRows), "only Parquet has pages"
    bounds = reader.guarded(lambda: stored.page_bounds(group, list(types))) if types else {}
    if not bounds:
        return np.array([[0, rows]], np.int64)
    starts = np.unique(np.concatenate([found.first_rows for found in bounds.values()]))
    table = {
        name: bounds_of_pages(found, types[name], np.searchsorted(found.first_rows, starts, side="right") - 1)
        for name, found in bounds.items()
    }
    return where_true(may_match(predicate, table, len(starts)), np.append(starts, rows))


def bounds_of_pages(found: PageBounds, kind: DataType, pages: npt.NDArray[np.int64]) -> Bounds:
    """Return the bounds of a column in ``pages``, which may name a page several times."""
    present = ~found.all_null
    decode = _texts if kind.root in STRINGS else _integers
    low, high = (
        (ends, known & present) for ends, known in (decode(one, kind) for one in (found.low, found.high))
    )
    nullable = np.ones(len(present), bool) if found.null_counts is None else found.null_counts != 0
    return Bounds(low, high, nullable, present).take(pages)


def _integers(values: list[bytes], kind: DataType) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    dtype = STORED[kind.root]
    known = np.array([len(value) == dtype.itemsize for value in values], bool)
    data = b"".join(
        value if right else bytes(dtype.itemsize) for value, right in zip(values, known, strict=True)
    )
    return np.frombuffer(data, dtype), known


def _texts(values: list[bytes], kind: DataType) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    found, known = np.empty(len(values), object), np.zeros(len(values), bool)
    for i, value in enumerate(values):
        try:
            found[i], known[i] = value.decode(), True
        except UnicodeDecodeError:  # cut within a character
            continue
    return found, known
