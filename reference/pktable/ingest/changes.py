"""The caller's rows, checked and brought to the table's columns before anything is written.

Clauses: TBL-2, TBL-4, TBL-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

from pktable.format.metadata.schema import TableSchema
from pktable.format.partition_path import escaped, partition_path
from pktable.format.types import STRINGS, Field, values_of
from pktable.ingest.columns import conform_column, conform_key_column, empty_column, not_utf8

DIRECTORY_BYTES = 255  # of a name, encoded, in any file system we know
SPELLED_BYTES = 64  # more than any value takes that is no string
SHOWN = 64  # code points of a name that is too long


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """What rows mean: all of one ``kind``, or as ``column`` says; ``keys_only``: they hold just the primary key."""

    kind: RowKind = RowKind.INSERT
    column: str | None = None
    keys_only: bool = False


def as_changes(
    rows: pa.Table, schema: TableSchema, change: ChangeKind
) -> tuple[pa.Table, npt.NDArray[np.int8]]:
    """Return ``rows`` in the table's columns and types, and their row kinds (0..3), row for row.

    Raises InvalidRequestError. Clauses: TBL-2, TBL-4, TBL-8.
    """
    if not isinstance(rows, pa.Table):
        raise InvalidRequestError(
            f"rows: expected a pyarrow.Table or a Spark DataFrame, found {type(rows).__name__}"
        )
    if change.column is not None:
        rows, kinds = split_kinds(rows, change.column)
    else:
        kinds = np.full(rows.num_rows, int(change.kind), dtype=np.int8)
    return (conform_keys if change.keys_only else conform)(rows, schema), kinds


def conform(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return ``rows`` with exactly the table's columns and types, in the table's order.

    Raises InvalidRequestError naming the column and what was expected and found. Clauses: TBL-2, TBL-8.
    """
    names = [field.name for field in schema.fields]
    _expect_names(rows.column_names, names)
    columns = []
    for field in schema.fields:
        conformed = conform_key_column if field.name in schema.primary_keys else conform_column
        columns.append(conformed(rows.column(field.name), field))
    return _with_directories(pa.table(columns, names=names), schema)


def conform_keys(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return retractions for ``rows`` of primary-key columns: all columns, the others empty.

    Raises InvalidRequestError. Clauses: TBL-2, TBL-4.
    """
    _expect_names(rows.column_names, list(schema.primary_keys))
    columns = []
    for field in schema.fields:
        if field.name in schema.primary_keys:
            columns.append(conform_key_column(rows.column(field.name), field))
        else:
            columns.append(pa.chunked_array([empty_column(field, rows.num_rows)]))
    table = pa.table(columns, names=[field.name for field in schema.fields])
    return _with_directories(table, schema)


def _with_directories(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return ``rows``. Raises InvalidRequestError if a file system can have no directory for one. Clauses: META-9."""
    for field in schema.partition_fields:
        for value in _long_values(rows.column(field.name), field):
            options = parse_options(schema.options)
            name = partition_path(
                [value],
                [field],
                legacy_names=options.partition_legacy_names,
                default_name=options.partition_default_name,
            )
            found = len(name.encode())
            if found > DIRECTORY_BYTES:
                raise InvalidRequestError(
                    f"partition column {field.name}: expected values that make directory names of at most "
                    f"{DIRECTORY_BYTES} bytes, found {found} bytes for {name[:SHOWN]}..."
                )
    return rows


def _long_values(values: pa.ChunkedArray, field: Field) -> list[Any]:
    """Return those partition values, each once, whose directory may have too long a name; mostly none."""
    room = DIRECTORY_BYTES - len(f"{escaped(field.name)}=".encode())
    if field.type.root in STRINGS:  # of which encoding makes three bytes of one at most
        values = values.filter(pc.greater(pc.binary_length(values), room // 3))
    elif room >= SPELLED_BYTES:
        return []
    return values_of(pc.unique(values), field.type)


def split_kinds(rows: pa.Table, column: str) -> tuple[pa.Table, npt.NDArray[np.int8]]:
    """Return ``rows`` without ``column``, and that column as row kinds (n values 0..3).

    Raises InvalidRequestError for an unknown kind. Clauses: TBL-4.
    """
    if column not in rows.column_names:
        raise InvalidRequestError(
            f"row kinds: expected a column {column!r}, found {', '.join(rows.column_names)}"
        )
    values = rows.column(column)
    if pt.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
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
    known = pa.array(ROW_KIND_SYMBOLS) if symbols else pa.array([int(kind) for kind in RowKind])
    # An integer that does not fit is no row kind either.
    found = pc.index_in(values, value_set=known.cast(values.type))
    if found.null_count:
        row = pc.index(pc.is_null(found), True).as_py()
        raise InvalidRequestError(
            f"row kind of row {row}: expected one of {', '.join(ROW_KIND_SYMBOLS)} or 0..3, "
            f"found {values[row].as_py()!r}"
        )
    return rows.drop_columns([column]), found.to_numpy().astype(np.int8)


def _expect_names(found: list[str], expected: list[str]) -> None:
    if sorted(found) != sorted(expected):
        raise InvalidRequestError(f"columns: expected {', '.join(expected)}, found {', '.join(found)}")
