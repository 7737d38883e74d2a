"""The table's types as Spark's, and Arrow data in the shape Spark accepts.

Spark knows times to the microsecond, in one unit, and no length of strings. Whatever uses a time that it cannot hold
without loss fails by name of the column; the time is not rounded. A time of the day is a type of Spark since 4.1, in
nanoseconds; before, a column of it is refused by name, and others of the table are read.

Clauses: TBL-8, TBL-11, RD-6, RD-30.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from pktable.format.type_text import quoted
from pktable.format.types import TIMESTAMPS, DataType, Field

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
TIME_OF_DAY = getattr(st, "TimeType", None)  # since Spark 4.1
TIMES = {st.TimestampNTZType(), st.TimestampType()}
FLAG = "__pktable_finer_"
FINER = "a time is finer than microseconds, as Spark holds them; leave the column out or read without Spark"


def expect_distinct(names: Iterable[str]) -> None:
    """Raise InvalidRequestError for names that differ in case alone."""
    different = set(names)
    folded = [name.casefold() for name in different]
    twice = sorted(name for name in different if folded.count(name.casefold()) > 1)
    if twice:
        raise InvalidRequestError(
            f"columns {', '.join(twice)} differ only in case, which Spark does not distinguish"
        )


def spark_schema(fields: Sequence[Field]) -> st.StructType:
    """Return ``fields`` as a Spark schema. Raises InvalidRequestError for names that differ in case alone."""
    expect_distinct(field.name for field in fields)
    return st.StructType([st.StructField(f.name, _type_of(f), f.type.nullable) for f in fields])


def _type_of(field: Field) -> st.DataType:
    """Return the type of a column. Raises InvalidRequestError for one that this Spark does not have. Clauses: RD-30."""
    if TIME_OF_DAY is None and has_time(field.type):
        raise InvalidRequestError(
            f"column {field.name}: pyspark {pyspark.__version__} has no type for {field.type}; use 4.1 or later, leave "
            "the column out, or read without Spark"
        )
    return spark_type(field.type)


def has_time(kind: DataType) -> bool:
    """Whether ``kind`` or a part of it is a time of the day."""
    return kind.root == "TIME" or any(has_time(child.type) for child in kind.children)


def read_schema(fields: Sequence[Field]) -> st.StructType:
    """Return ``fields`` as the schema of a read: every part may be null, as Spark has it of files. Raises as above.

    So the schema of a DataFrame does not tell who read the rows.
    """
    schema = as_nullable(spark_schema(fields))
    assert isinstance(schema, st.StructType)
    return schema


def as_nullable(kind: st.DataType) -> st.DataType:
    """Return ``kind`` with every part of it nullable."""
    if isinstance(kind, st.StructType):
        return st.StructType([st.StructField(f.name, as_nullable(f.dataType), True) for f in kind])
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(as_nullable(kind.elementType), True)
    if isinstance(kind, st.MapType):
        return st.MapType(as_nullable(kind.keyType), as_nullable(kind.valueType), True)
    return kind


def spark_type(kind: DataType) -> st.DataType:
    """Return the type in Spark, which must have it (`has_time`). TIME has the precision of Spark's literals."""
    if kind.root == "TIME":
        assert TIME_OF_DAY is not None
        found: st.DataType = TIME_OF_DAY()
        return found
    if kind.root == "DECIMAL":
        assert kind.precision is not None
        assert kind.scale is not None
        return st.DecimalType(kind.precision, kind.scale)
    if kind.root == "ARRAY":
        element = kind.children[0].type
        return st.ArrayType(spark_type(element), element.nullable)
    if kind.root == "MAP":
        key, value = kind.children
        return st.MapType(spark_type(key.type), spark_type(value.type), value.type.nullable)
    if kind.variant:
        return st.VariantType()
    if kind.root == "ROW":
        return spark_schema(kind.children)
    return PLAIN[kind.root]


def with_times_of(frame: DataFrame, fields: Sequence[Field]) -> DataFrame:
    """Return ``frame`` with wall times where ``fields`` want them and points in time where they want those.

    They are cast as Spark casts them, in the zone of the session. Clauses: TBL-11.
    """
    names = frame.columns
    wanted = {field.name: spark_type(field.type) for field in fields if field.name in names}
    casts = {
        given.name: F.col(quoted(given.name)).cast(kind)
        for given in frame.schema
        if names.count(given.name) == 1  # which is refused elsewhere
        and (kind := _timed(given.dataType, wanted.get(given.name, given.dataType))) != given.dataType
    }
    return frame.withColumns(casts) if casts else frame


def _timed(given: st.DataType, wanted: st.DataType) -> st.DataType:
    """Return ``given`` with the kinds of time of ``wanted``, wherever both have a time."""
    if {given, wanted} == TIMES:
        return wanted
    if isinstance(given, st.ArrayType) and isinstance(wanted, st.ArrayType):
        return st.ArrayType(_timed(given.elementType, wanted.elementType), given.containsNull)
    if isinstance(given, st.MapType) and isinstance(wanted, st.MapType):
        key, value = _timed(given.keyType, wanted.keyType), _timed(given.valueType, wanted.valueType)
        return st.MapType(key, value, given.valueContainsNull)
    if isinstance(given, st.StructType) and isinstance(wanted, st.StructType):
        kinds = {field.name: field.dataType for field in wanted}
        return st.StructType(
            [
                st.StructField(f.name, _timed(f.dataType, kinds.get(f.name, f.dataType)), f.nullable)
                for f in given
            ]
        )
    return given


def is_scanned(kind: DataType) -> bool:
    """Whether Spark's scan of Parquet reads values of ``kind`` as they are, not times of nanoseconds or of the day."""
    if kind.root in (*TIMESTAMPS, "TIME"):
        return kind.root != "TIME" and (kind.precision or 0) <= 6
    return all(is_scanned(child.type) for child in kind.children)


def in_spark_units(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with times in microseconds, of the day in nanoseconds, as Spark takes them from Arrow."""
    if pa.types.is_time(kind):
        return pa.time64("ns")
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


def fine_columns(fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the names of the columns that may hold times finer than microseconds."""
    return tuple(field.name for field in fields if _is_fine(field.type))


def _is_fine(kind: DataType) -> bool:
    if kind.root in TIMESTAMPS:
        return (kind.precision or 0) > 6
    return any(_is_fine(child.type) for child in kind.children)


def with_flags(table: pa.Table, fine: Sequence[str]) -> pa.Table:
    """Return ``table`` in the units of Spark, and for each column of ``fine`` a flag that says which times are finer.

    A column of arrays, maps or structs has one flag for all rows. `whole_times` takes the flags away.
    """
    flags = {}
    for name in fine:
        at, column = table.column_names.index(name), table[name]
        wanted = in_spark_units(column.type)
        if pa.types.is_timestamp(wanted):
            cut = column.cast(wanted, safe=False)
            finer = pc.fill_null(pc.not_equal(cut.cast(column.type), column), False)
        else:
            cut, is_cut = column, False
            try:
                column.cast(wanted)
            except pa.ArrowInvalid:
                cut, is_cut = pa.chunked_array([pa.nulls(len(column), wanted)]), True
            finer = pa.repeat(pa.scalar(is_cut), len(column))
        table, flags[FLAG + name] = table.set_column(at, name, cut), finer
    table = for_spark(table)
    for name, finer in flags.items():
        table = table.append_column(name, finer)
    return table


def flag_fields(fine: Sequence[str]) -> list[st.StructField]:
    """Return the fields of the columns that `with_flags` appends."""
    return [st.StructField(FLAG + name, st.BooleanType()) for name in fine]


def whole_times(frame: DataFrame, fine: Sequence[str]) -> DataFrame:
    """Return ``frame`` without its flags. A query fails if it uses a time with a flag."""
    if not fine:
        return frame
    columns = [F.col(quoted(name)) for name in frame.columns[: -len(fine)]]
    for name in fine:
        problem = F.raise_error(F.lit(f"pktable: column {name}: {FINER}"))
        whole = F.when(F.col(quoted(FLAG + name)), problem).otherwise(F.col(quoted(name)))
        columns[frame.columns.index(name)] = whole.alias(name)
    return frame.select(columns)


def for_spark(table: pa.Table) -> pa.Table:
    """Return ``table`` in the units of Spark. Raises InvalidRequestError where a time has nanoseconds."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        wanted = in_spark_units(field.type)
        try:
            columns.append(column if wanted == field.type else column.cast(wanted))
        except pa.ArrowInvalid as error:
            raise InvalidRequestError(f"column {field.name}: {FINER}") from error
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))
