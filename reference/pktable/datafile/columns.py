"""Define the columns of a data file (names, types, Parquet field ids) and the options Parquet is written with.

Clauses: APP-5, APP-25, META-7, META-8, META-10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pktable_spec.vocabulary import KEY_PREFIX, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import DataType, Field, arrow_field

FIRST_KEY_ID: Final = 1073741823
SEQUENCE_NUMBER_ID: Final = 2147483646
VALUE_KIND_ID: Final = 2147483645
SYSTEM: Final = {
    SEQUENCE_NUMBER: (DataType("BIGINT", nullable=False), SEQUENCE_NUMBER_ID),
    VALUE_KIND: (DataType("TINYINT", nullable=False), VALUE_KIND_ID),
}
ROW_ID_ID: Final = 2147483642

PARQUET_WRITE_OPTIONS: Final[dict[str, Any]] = {
    "write_page_checksum": True,
    # Readers such as Spark skip pages by it: a lookup reads a page instead of a row group.
    "write_page_index": True,
    # Paimon's reader expects decimals of up to 18 digits as integers.
    "store_decimal_as_integer": True,
    # Paimon's files say so of times of the day.
    "write_time_adjusted_to_utc": True,
    # Parquet has its own column types; an additional Arrow schema could contradict them.
    "store_schema": False,
}
"""Arguments of `pyarrow.parquet.ParquetWriter`, except the compression. Clauses: META-10, META-82."""


def file_schema(schema: TableSchema) -> pa.Schema:
    """Return the columns of a data file as an Arrow schema with Parquet field ids.

    A file of an append table has the table's columns only. Clauses: META-7, META-8, APP-5.
    """
    values = [_with_id(f.name, f.type, f.id) for f in schema.fields]
    keys = [
        _with_id(KEY_PREFIX + field.name, field.type.not_null(), FIRST_KEY_ID + field.id)
        for field in schema.key_fields
    ]
    system = [_with_id(name, *SYSTEM[name]) for name in schema.system_columns]
    return pa.schema(keys + system + values)


def tracked_file_schema(schema: TableSchema, *, updated: bool) -> pa.Schema:
    """Return the columns of a file that stores the ids and sequence numbers of its rows.

    ``updated``: whether rows may have a null for a sequence number, which is that of the file. Clauses: APP-25, APP-32.
    """
    row_id, sequence = DataType("BIGINT", nullable=False), DataType("BIGINT", nullable=updated)
    system = [_with_id(ROW_ID, row_id, ROW_ID_ID), _with_id(SEQUENCE_NUMBER, sequence, SEQUENCE_NUMBER_ID)]
    return pa.schema([*file_schema(schema), *system])


def column_types(schema: TableSchema, names: Sequence[str]) -> dict[str, DataType]:
    """Return the types of columns of a data file by name. Of those of rows that are tracked, all may be null."""
    own = {field.name: field.type for field in schema.fields}
    keys = {KEY_PREFIX + field.name: field.type.not_null() for field in schema.key_fields}
    system = {name: kind for name, (kind, _) in SYSTEM.items()} if schema.primary_keys else {}
    tracked = dict.fromkeys((ROW_ID, SEQUENCE_NUMBER), DataType("BIGINT"))
    every = {**tracked, **own, **keys, **system}
    return {name: every[name] for name in names}


def _with_id(name: str, t: DataType, identifier: int) -> Any:
    return arrow_field(Field(identifier, name, t)).with_metadata({"PARQUET:field_id": str(identifier)})
