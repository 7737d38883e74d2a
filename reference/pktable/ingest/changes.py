"""Check the caller's rows and bring them to the table's columns, before anything is written.

1. Split off the column of row kinds, if there is one (`split_kinds`).
2. Bring each column to the type of the table's (`pktable.ingest.columns`). Deletes give the key columns only.
3. Refuse a MAP that has a key twice, and a partition whose directory would have a name longer
   than file systems allow.

The local runner does this to parts of the rows, Spark to each batch on its executor.

Clauses: TBL-4, TBL-8, TBL-13, TBL-23.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import ROW_ID, ROW_KIND_SYMBOLS, RowKind

from pktable.format.metadata.schema import TableSchema
from pktable.format.paths import escaped, partition_path
from pktable.format.types import STRINGS, Field, values_of
from pktable.ingest.columns import (
    Optional,
    conform_column,
    conform_key_column,
    empty_column,
    expect_columns,
    expect_distinct_keys,
    not_utf8,
    optional_columns,
)

KIND_COLUMN: Final = "__pktable_kind"
"""The column of row kinds, 0 to 3, of rows on their way to their buckets."""
DIRECTORY_BYTES = 255  # the longest name, encoded, that file systems allow
SPELLED_BYTES = 64  # more than any value but a string takes in a name
SHOWN = 64  # characters shown of a name that is too long


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """The row kind of all rows, or the ``column`` that holds it. ``keys_only``: rows have the key columns only.

    ``whole``: rows have all columns, also those that are optional otherwise.
    ``row_ids``: rows of an append table come with their ids, in the column `ROW_ID`.
    """

    kind: RowKind = RowKind.INSERT
    column: str | None = None
    keys_only: bool = False
    whole: bool = False
    row_ids: bool = False


def as_changes(
    rows: pa.Table, schema: TableSchema, change: ChangeKind
) -> tuple[pa.Table, npt.NDArray[np.int8]]:
    """Return ``rows`` in the table's columns and types, their ids last, and their row kinds (0..3), row for row.

    Raises InvalidRequestError, also for a Spark DataFrame, which only the Spark runner can read.
    Clauses: TBL-4, TBL-8, TBL-13, TBL-23, APP-32.
    """
    expect_arrow(rows)
    if change.row_ids:
        changes, kinds = as_changes(rows.drop_columns([ROW_ID]), schema, replace(change, row_ids=False))
        return changes.append_column(ROW_ID, rows.column(ROW_ID)), kinds
    if change.column is not None:
        rows, kinds = split_kinds(rows, change.column)
    else:
        kinds = np.full(rows.num_rows, int(change.kind), dtype=np.int8)
    if change.keys_only:
        return conform_keys(rows, schema), kinds
    conformed = conform(rows, schema, () if change.whole else optional_columns(schema))
    adds = None if not kinds.any() else kinds & 1 == 0  # what is taken back may be what others have written
    expect_distinct_keys(conformed, schema.fields, adds)
    return conformed, kinds


def expect_arrow(rows: Any) -> None:
    """Raise InvalidRequestError if ``rows`` are a Spark DataFrame, which only the Spark runner can read."""
    if rows is not None and not isinstance(rows, pa.Table):
        raise InvalidRequestError(
            "rows: a Spark DataFrame can only be written by a table that was opened with spark=session"
        )


def conform(rows: pa.Table, schema: TableSchema, optional: Optional = ()) -> pa.Table:
    """Return ``rows`` with exactly the table's columns and types, in the table's order.

    ``optional``: what ``rows`` may leave out, which is null then.
    Raises InvalidRequestError naming the column and what was expected and found. Clauses: TBL-8, TBL-13, TBL-24.
    """
    names = list(schema.value_names)
    expect_columns(rows.column_names, names, schema, optional=optional)
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    absent = pa.chunked_array([pa.nulls(rows.num_rows)])
    columns = [_conformed(given.get(field.name, absent), field, schema) for field in schema.fields]
    return _with_directories(pa.table(columns, names=names), schema)


def _conformed(column: pa.ChunkedArray, field: Field, schema: TableSchema) -> pa.ChunkedArray:
    return (conform_key_column if field.name in schema.primary_keys else conform_column)(column, field)


def conform_keys(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return ``rows`` of primary-key columns with all columns of the table, in its order; the others are empty.

    Raises InvalidRequestError. Clauses: TBL-4, TBL-13.
    """
    expect_columns(rows.column_names, schema.primary_keys, schema)
    columns = []
    for field in schema.fields:
        if field.name in schema.primary_keys:
            columns.append(conform_key_column(rows.column(field.name), field))
        else:
            columns.append(pa.chunked_array([empty_column(field, rows.num_rows)]))
    return _with_directories(pa.table(columns, names=list(schema.value_names)), schema)


def _with_directories(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return ``rows``. Raises InvalidRequestError if the directory of a partition would have too long a name.

    Clauses: META-9.
    """
    for field in schema.partition_fields:
        for value in _long_values(rows.column(field.name), field):
            options = parse_options(schema.options)
            name = partition_path(
                [value],
                [field],
                legacy_names=options.partition_legacy_names,
                default_name=options.partition_default_name,
            )
            length = len(name.encode())
            if length > DIRECTORY_BYTES:
                raise InvalidRequestError(
                    f"partition column {field.name}: expected values that make directory names of at most "
                    f"{DIRECTORY_BYTES} bytes, found {length} bytes for {name[:SHOWN]}..."
                )
    return rows


def _long_values(values: pa.ChunkedArray, field: Field) -> list[Any]:
    """Return the distinct partition values whose directory may have too long a name; usually there are none."""
    room = DIRECTORY_BYTES - len(f"{escaped(field.name)}=".encode())
    if field.type.root in STRINGS:  # encoding makes at most three bytes of one
        values = values.filter(pc.greater(pc.binary_length(values), room // 3))
    elif room >= SPELLED_BYTES:
        return []
    return values_of(pc.unique(values), field.type)


def split_kinds(rows: pa.Table, column: str) -> tuple[pa.Table, npt.NDArray[np.int8]]:
    """Return ``rows`` without ``column``, and that column as row kinds (one of 0..3 per row).

    Raises InvalidRequestError for an unknown kind. Clauses: TBL-4.
    """
    if rows.column_names.count(column) != 1:
        raise InvalidRequestError(
            f"row kinds: expected one column {column!r}, found {', '.join(rows.column_names)}"
        )
    values = rows.column(column)
    if pt.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    elif pt.is_null(values.type):  # as of no rows
        values = values.cast(pa.string())
    symbols = any(of_type(values.type) for of_type in (pt.is_string, pt.is_large_string, pt.is_string_view))
    if symbols:
        values = values.cast(pa.string())
        wrong = next(filter(None, map(not_utf8, values.chunks)), "")
        if wrong:
            raise InvalidRequestError(f"row kinds in {column!r}: expected strings, found {wrong}")
    elif not pt.is_integer(values.type):
        raise InvalidRequestError(
            f"row kinds in {column!r}: expected strings or integers, found {values.type}"
        )
    allowed = pa.array(ROW_KIND_SYMBOLS) if symbols else pa.array([int(kind) for kind in RowKind])
    kinds = pc.index_in(values, value_set=allowed.cast(values.type))  # null for any other value
    if kinds.null_count:
        row = pc.index(pc.is_null(kinds), True).as_py()
        raise InvalidRequestError(
            f"row kind of row {row}: expected one of {', '.join(ROW_KIND_SYMBOLS)} or 0..3, "
            f"found {values[row].as_py()!r}"
        )
    return rows.drop_columns([column]), kinds.to_numpy().astype(np.int8)
