"""Bring the source of a MERGE to Arrow, and say what columns it has.

A source may have any columns. Python values, whose type Arrow would guess, take that of the table's column of the same
name, if there is one.

Clauses: STM-4, STM-10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import Field, from_arrow, to_arrow
from pktable.ingest.changes import conform
from pktable.ingest.sources import as_arrow, is_spark_frame, plain_frame, untyped_rows
from pktable.predicate import Predicate
from pktable.predicate.spark_sql import spark_text

ROW: Final = "__pktable_row"


def accept_source(rows: Any, schema: TableSchema) -> Any:
    """Return ``rows`` as a pyarrow.Table whose columns have types that a table has, or as the Spark DataFrame it is.

    Reads ``rows`` to the end, into memory; a Spark DataFrame stays lazy. Raises InvalidRequestError for a form that is
    not accepted, for two columns of one name, and for a type that no column of a table has.
    """
    if is_spark_frame(rows):
        frame = plain_frame(rows)
        if frame.isStreaming:
            raise InvalidRequestError(
                "source: a streaming DataFrame cannot be merged at once; use foreachBatch"
            )
        return frame
    try:
        table = untyped_rows(rows, schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"source: {str(error).removeprefix('rows: ')}") from None
    expect_distinct(table.column_names)
    if not table.num_columns:  # an empty list, say: no rows of any columns
        return schema.arrow_schema.empty_table()
    return pa.table({name: _plain(name, table.column(name)) for name in table.column_names})


def expect_all(rows: Any, where: str, predicate: Predicate, schema: TableSchema) -> None:
    """Raise InvalidRequestError unless ``predicate``, written ``where``, holds for every row. Runs a DataFrame.

    Clauses: STM-10.
    """
    if is_spark_frame(rows):
        other = as_arrow(rows.where(f"NOT coalesce({spark_text(predicate.root)}, false)").limit(1))
    else:
        numbered = conform(rows, schema).append_column(ROW, pa.array(np.arange(rows.num_rows)))
        kept = predicate.filter(numbered).column(ROW).to_numpy()
        other = numbered.take(np.setdiff1d(np.arange(rows.num_rows), kept)[:1]).drop_columns([ROW])
    if other.num_rows:
        (row,) = other.select(schema.value_names).to_pylist()
        raise InvalidRequestError(f"overwrite: the row {row} does not satisfy {where!r}; leave it out")


def expect_distinct(names: Sequence[str]) -> None:
    """Raise InvalidRequestError if two columns of a source have one name."""
    if len(set(names)) != len(names):
        raise InvalidRequestError(f"source: two columns have one name; columns are {', '.join(names)}")


def source_fields(types: Mapping[str, pa.DataType]) -> list[Field]:
    """Return the columns of a source with the types that expressions see. Raises InvalidRequestError."""
    fields = []
    for i, (name, kind) in enumerate(types.items()):
        try:
            # A column of nulls alone has no type; as a boolean it can be compared with nothing but NULL.
            fields.append(Field(i, name, from_arrow(pa.bool_() if pt.is_null(kind) else kind)))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"source: column {name}: {error}") from None
    return fields


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in the Arrow type that a table's column with its values has."""
    if pt.is_nested(column.type) or pt.is_null(column.type):
        return column
    (field,) = source_fields({name: column.type})
    return column.cast(to_arrow(field.type))


def source_types(source: Any) -> dict[str, pa.DataType]:
    """Return the columns of a source that `accept_source` has accepted; of a DataFrame, without running it.

    Raises InvalidRequestError for a column of a DataFrame that Arrow has no type for, or whose name occurs twice.
    """
    if isinstance(source, pa.Table):
        return dict(zip(source.column_names, source.schema.types, strict=True))
    expect_distinct(source.columns)
    try:
        found = source.limit(0).toArrow().schema
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"source: Arrow has no type for a column of this DataFrame: {error}"
        ) from None
    return dict(zip(found.names, found.types, strict=True))
