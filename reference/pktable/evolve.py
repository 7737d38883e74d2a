"""Rows with other columns than the table: which columns a write adds to it, and nulls for those that the rows lack.

Clauses: TBL-45.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.catalog.definitions import parse_definition
from pktable.format.metadata.schema import TableSchema
from pktable.format.type_text import quoted
from pktable.format.types import Field, arrow_field
from pktable.ingest.sources import is_spark_frame, untyped_rows


def with_new_columns(rows: Any, schema: TableSchema) -> tuple[Any, tuple[Field, ...]]:
    """Return ``rows``, and the columns that they have and the table has not, which may hold null.

    ``rows``: as of `accept_rows`; all but a Spark DataFrame become a pyarrow.Table.
    Raises InvalidRequestError, also for a name that differs from that of a column in its case only.
    """
    if is_spark_frame(rows):
        struct = rows.schema
        unknown: Any = [one for one in struct.fields if one.name not in schema.value_names]
        names, columns = [one.name for one in unknown], type(struct)(unknown)
    else:
        rows = untyped_rows(rows, schema)
        unknown = [one for one in rows.schema if one.name not in schema.value_names]
        names, columns = [one.name for one in unknown], pa.schema(unknown)
    folded = {name.casefold(): name for name in schema.value_names}
    for name in names:
        if name.casefold() in folded:
            raise InvalidRequestError(f"columns: {name} must be written {folded[name.casefold()]}")
    added = parse_definition(columns) if names else ()
    return rows, tuple(replace(one, type=replace(one.type, nullable=True)) for one in added)


def with_nulls(rows: Any, schema: TableSchema) -> Any:
    """Return ``rows`` with a column of nulls for each column of the table that may hold null and that they lack."""
    there = rows.columns if is_spark_frame(rows) else rows.column_names
    absent = [one for one in schema.fields if one.name not in there and one.type.nullable]
    if is_spark_frame(rows):
        nulls = [f"CAST(NULL AS {one.type}) AS {quoted(one.name)}" for one in absent]
        return rows.selectExpr("*", *nulls) if nulls else rows
    for one in absent:
        wanted = arrow_field(one)
        rows = rows.append_column(wanted, pa.nulls(rows.num_rows, wanted.type))
    return rows
