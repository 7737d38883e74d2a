"""The table's types as Spark's, and Arrow data in the shape Spark accepts.

Spark knows times to the microsecond, in one unit, and no length of strings. What it cannot hold without
loss is refused by name instead of being rounded.

Clauses: TBL-8, RD-6.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pyspark.sql import types as st

from pktable.format.types import DataType, Field

PLAIN: dict[str, st.DataType] = {
    "BOOLEAN": st.BooleanType(),
    "TINYINT": st.ByteType(),
    "SMALLINT": st.ShortType(),
    "INT": st.IntegerType(),
    "BIGINT": st.LongType(),
    "FLOAT": st.FloatType(),
    "DOUBLE": st.DoubleType(),
    "DATE": st.DateType(),
    "CHAR": st.StringType(),
    "VARCHAR": st.StringType(),
    "STRING": st.StringType(),
    "BINARY": st.BinaryType(),
    "VARBINARY": st.BinaryType(),
    "BYTES": st.BinaryType(),
    "TIMESTAMP": st.TimestampNTZType(),
    "TIMESTAMP_LTZ": st.TimestampType(),
}


def spark_schema(fields: Sequence[Field]) -> st.StructType:
    """Return ``fields`` as a Spark schema. Raises InvalidRequestError for TIMESTAMP(7..9)."""
    folded = [f.name.casefold() for f in fields]
    twice = sorted({f.name for f in fields if folded.count(f.name.casefold()) > 1})
    if twice:
        raise InvalidRequestError(f"columns: Spark tells no upper case from lower, found {', '.join(twice)}")
    return st.StructType(
        [st.StructField(f.name, spark_type(f.type, f.name), f.type.nullable) for f in fields]
    )


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(kind: DataType, column: str) -> st.DataType:
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (kind.precision or 0) > 6:
        raise InvalidRequestError(
            f"column {column}: Spark holds microseconds, {kind} has more; leave the column out or read without Spark"
        )
    if kind.root == "DECIMAL":
        assert kind.precision is not None
        assert kind.scale is not None
        return st.DecimalType(kind.precision, kind.scale)
    if kind.root == "ARRAY":
        element = kind.children[0].type
        return st.ArrayType(spark_type(element, column), element.nullable)
    if kind.root == "MAP":
        key, value = kind.children
        return st.MapType(spark_type(key.type, column), spark_type(value.type, column), value.type.nullable)
    if kind.root == "ROW":
        return spark_schema(kind.children)
    return PLAIN[kind.root]


def in_spark_units(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with times in microseconds, as Spark takes them from Arrow."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_spark_units(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            in_spark_units(kind.key_type), kind.item_field.with_type(in_spark_units(kind.item_type))
        )
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_spark_units(field.type)) for field in kind])
    return kind


def for_spark(table: pa.Table) -> pa.Table:
    """Return ``table`` in the units of Spark."""
    schema = pa.schema([field.with_type(in_spark_units(field.type)) for field in table.schema])
    return table if schema == table.schema else table.cast(schema)
