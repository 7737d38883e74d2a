"""Columns that stay encoded by a dictionary, as Parquet stores values that repeat.

Numbers into a dictionary are decoded, taken and written in a fraction of the time and of the memory of strings. Work
that only moves rows from file to file asks for encoded columns, and a read does until it knows which rows it returns.

Clauses: CMP-32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow.types import is_dictionary

from pktable.format.arrow_values import declared

BYTES_A_VALUE: Final = 4
"""The most that a chunk of a Parquet file has for each value if an encoded column is to be small in memory as well."""


def worth_encoded(metadata: Any, chunk_of: Callable[[int, int], Any]) -> set[str]:
    """Return the columns of strings or bytes whose values repeat in every row group of a Parquet file.

    ``metadata``: its `pyarrow.parquet.FileMetaData`; ``chunk_of``: gives a column of a row group as Arrow has it.
    """
    found: set[str] | None = None
    for number in range(metadata.num_row_groups):
        chunks = [chunk_of(number, i) for i in range(metadata.num_columns)]
        names = {
            chunk.path_in_schema
            for chunk in chunks
            if chunk.physical_type == "BYTE_ARRAY"
            and "." not in chunk.path_in_schema  # it could be a part of a nested column
            and chunk.has_dictionary_page
            and chunk.total_uncompressed_size <= BYTES_A_VALUE * chunk.num_values
        }
        found = names if found is None else found & names
    return found or set()


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of ``tables`` (at least one), which differ at most in which columns are encoded.

    Where they differ, the result has a column as most rows have it.
    """
    types = [table.schema.types for table in tables]
    if all(other == types[0] for other in types):
        return pa.concat_tables(tables)
    row_count = sum(table.num_rows for table in tables)
    fields = []
    for i, name in enumerate(tables[0].column_names):
        encoded = sum(t.num_rows for t, kinds in zip(tables, types, strict=True) if is_dictionary(kinds[i]))
        mostly = 2 * encoded > row_count
        kind = next((kinds[i] for kinds in types if is_dictionary(kinds[i]) == mostly), types[0][i])
        fields.append(pa.field(name, kind))
    schema = pa.schema(fields)
    return pa.concat_tables(declared(table, schema) for table in tables)


def decoded(table: pa.Table) -> pa.Table:
    """Return ``table`` with the values of its encoded columns."""
    if not any(map(is_dictionary, table.schema.types)):
        return table
    kinds: list[Any] = table.schema.types
    fields = [
        field.with_type(kind.value_type) if is_dictionary(kind) else field
        for field, kind in zip(table.schema, kinds, strict=True)
    ]
    return narrowed(table, pa.schema(fields))


def narrowed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows as ``schema`` has them: plain strings have offsets of 32 bits, in chunks if need be.

    Raises pyarrow.ArrowInvalid for a string of 2 GiB.
    """
    try:
        return declared(table, schema)
    except pa.ArrowInvalid:
        if table.num_rows < 2:
            raise
    middle = table.num_rows // 2
    halves = (range(middle), range(middle, table.num_rows))  # taken, so that their offsets begin at 0
    return pa.concat_tables([narrowed(table.take(pa.array(half)), schema) for half in halves])


def encoded_as(schema: pa.Schema, kinds: Iterable[pa.DataType]) -> pa.Schema:
    """Return ``schema`` with the columns encoded that are so in ``kinds``, the types of a table of such rows."""
    return pa.schema(
        field.with_type(kind) if is_dictionary(kind) else field
        for field, kind in zip(schema, kinds, strict=True)
    )


def without_unused(table: pa.Table) -> pa.Table:
    """Return ``table`` with one dictionary for each encoded column, which has the values of its rows and no others.

    Clauses: CMP-32.
    """
    for i, field in enumerate(table.schema):
        if is_dictionary(field.type):
            column: Any = table.column(i).combine_chunks()
            table = table.set_column(i, field, _without_unused(column))
    return table


def _without_unused(column: Any) -> Any:
    numbers = column.indices.drop_null().to_numpy()
    used = np.bincount(numbers, minlength=len(column.dictionary)) > 0
    if used.all():
        return column
    places = pa.array(np.cumsum(used, dtype=np.int32) - 1, pa.int32())
    return pa.DictionaryArray.from_arrays(
        places.take(column.indices), column.dictionary.filter(pa.array(used))
    )
