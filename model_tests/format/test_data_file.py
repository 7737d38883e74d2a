"""Data files: columns, field ids, directories."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS, file_schema
from pktable.format.metadata.schema import TableSchema
from pktable.format.paths import escaped, partition_path
from pktable.format.types import Field, parse_columns, parse_type
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

FIELDS = parse_columns(
    "dt DATE NOT NULL, id BIGINT NOT NULL, d DECIMAL(9, 2), w DECIMAL(30, 2), t TIMESTAMP(3), "
    "z TIMESTAMP_LTZ(6), y TINYINT, r ROW<a INT, b ARRAY<STRING>>, m MAP<STRING, INT>"
)
SCHEMA = TableSchema(0, FIELDS, 20, ("dt",), ("dt", "id"), {}, "", 0)


@covers("META-7", "META-8")
def test_a_data_file_holds_keys_then_sequence_then_kind_then_all_columns() -> None:
    schema = file_schema(SCHEMA)
    assert schema.names == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", *SCHEMA.value_names]
    assert [field.nullable for field in schema][:5] == [False] * 5
    assert [field.type for field in schema][:3] == [pa.int64(), pa.int64(), pa.int8()]
    assert schema.remove_metadata().field("r").type == SCHEMA.arrow_schema.field("r").type


@covers("META-8", "META-82")
def test_parquet_field_ids_are_those_of_the_schema() -> None:
    sink = io.BytesIO()
    schema = file_schema(SCHEMA)
    with pq.ParquetWriter(sink, schema, **PARQUET_WRITE_OPTIONS) as writer:
        writer.write_table(schema.empty_table())
    read = pq.ParquetFile(sink).schema_arrow
    ids = {field.name: int((field.metadata or {})[b"PARQUET:field_id"]) for field in read}
    assert (ids["_KEY_id"], ids["_SEQUENCE_NUMBER"], ids["_VALUE_KIND"]) == (
        1073741824,
        2147483646,
        2147483645,
    )
    assert [ids[field.name] for field in FIELDS] == [field.id for field in FIELDS]
    # The types come back without an Arrow schema to help.
    assert pq.ParquetFile(sink).metadata.metadata is None
    assert [field.type for field in read if field.name != "r"] == [f.type for f in schema if f.name != "r"]
    columns: Any = pq.ParquetFile(sink).schema
    physical = {column.name: column.physical_type for column in columns}
    assert (physical["d"], physical["w"], physical["t"]) == ("INT32", "FIXED_LEN_BYTE_ARRAY", "INT64")


@covers("META-31", "META-81")
@pytest.mark.parametrize(
    ("value", "text", "path", "path_without_legacy"),
    [
        ("2024-01-01", "STRING", "p=2024-01-01", None),
        ("eu", "CHAR(2)", "p=eu", None),
        (-3, "INT", "p=-3", None),
        (True, "BOOLEAN", "p=true", None),
        (Decimal("1E+3"), "DECIMAL(9, 2)", "p=1000", None),
        (Decimal("-0.50"), "DECIMAL(9, 2)", "p=-0.50", None),
        (19723, "DATE", "p=19723", "p=2024-01-01"),
        (3_723_400, "TIME(3)", "p=3723400", "p=01%3A02%3A03.4"),
        (3_723_405, "TIME(2)", "p=3723405", "p=01%3A02%3A03.40"),
        (0, "TIME(9)", "p=0", "p=00%3A00%3A00.0"),
        (86_399_999, "TIME", "p=86399999", "p=23%3A59%3A59"),
        (0, "TIMESTAMP(3)", "p=1970-01-01T00%3A00", "p=1970-01-01 00%3A00%3A00.000"),
        (61_500_000_000, "TIMESTAMP(6)", "p=1970-01-01T00%3A01%3A01.500", "p=1970-01-01 00%3A01%3A01.500000"),
        (1_000_000_000, "TIMESTAMP(0)", "p=1970-01-01T00%3A00%3A01", "p=1970-01-01 00%3A00%3A01"),
        (None, "STRING", "p=__DEFAULT_PARTITION__", None),
        ("", "STRING", "p=__DEFAULT_PARTITION__", None),
        (" \t", "STRING", "p=__DEFAULT_PARTITION__", None),
        ("\u00a0", "STRING", "p=\u00a0", None),
        ("a/b=c%d:é \n", "STRING", "p=a%2Fb%3Dc%25d%3Aé %0A", None),
    ],
)
def test_a_partition_value_spells_its_directory(
    value: Any, text: str, path: str, path_without_legacy: str | None
) -> None:
    fields = [Field(0, "p", parse_type(text))]
    assert partition_path([value], fields) == path
    assert partition_path([value], fields, legacy_names=False) == (path_without_legacy or path)


@covers("META-9")
def test_partition_values_nest_in_order() -> None:
    fields = parse_columns("dt STRING, `a/b` INT")
    assert partition_path(["x", 1], fields) == "dt=x/a%2Fb=1"
    assert partition_path([], ()) == ""
    with pytest.raises(InvalidRequestError, match="directory"):
        partition_path([1.5], parse_columns("f DOUBLE"))


@covers("META-31")
@given(st.text(max_size=8))
def test_an_escaped_value_is_one_part_of_a_path_and_tells_the_value(text: str) -> None:
    path = escaped(text)
    assert not set(path) & set("/=:\n\\")
    parts = path.split("%")
    assert parts[0] + "".join(chr(int(part[:2], 16)) + part[2:] for part in parts[1:]) == text
