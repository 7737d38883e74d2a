"""Assign values to columns as Spark's own statements do: what they would have to parse is not cast.

Clauses: WH-8, WH-13.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pktable.run.spark.types import as_nullable

NESTED: Final = (ArrayType, MapType, StructType)
TIMES: Final = (DateType, TimestampType, TimestampNTZType)
WIDER: Final = (ByteType, ShortType, IntegerType, LongType)


def assigned(value: Column, given: DataType, wanted: DataType, *, by_name: bool) -> tuple[Column, bool]:
    """Return ``value``, of type ``given``, as a column of type ``wanted`` stores it, and whether that fails for some.

    A value that Spark does not store is returned as it is. ``by_name``: whether a field of a struct is stored under its
    name, as UPDATE and MERGE do, or at its place.
    """
    ordered = _in_order(given, wanted) if by_name else given
    pairs = [] if ordered is None else list(_plain_types(ordered, wanted))
    if ordered is None or not all(_is_stored(*pair) for pair in pairs):
        return value, False
    # A null where none may be is found when it is written.
    stored = _with_fields_of(value, given, ordered).cast(as_nullable(wanted))
    return stored, not all(_fits(*pair) for pair in pairs)


def _plain_types(given: DataType, wanted: DataType) -> Iterator[tuple[DataType, DataType]]:
    """Yield the types of the values inside, by place; types of different shapes as they are."""
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        yield from _plain_types(given.elementType, wanted.elementType)
    elif isinstance(given, MapType) and isinstance(wanted, MapType):
        yield from _plain_types(given.keyType, wanted.keyType)
        yield from _plain_types(given.valueType, wanted.valueType)
    elif isinstance(given, StructType) and isinstance(wanted, StructType) and len(given) == len(wanted):
        for one, other in zip(given, wanted, strict=True):
            yield from _plain_types(one.dataType, other.dataType)
    else:
        yield given, wanted


def _is_stored(given: DataType, wanted: DataType) -> bool:
    if isinstance(given, NullType) or isinstance(wanted, StringType):
        return not isinstance(given, NESTED)
    numbers = isinstance(given, NumericType) and isinstance(wanted, NumericType)
    return given == wanted or numbers or (isinstance(given, TIMES) and isinstance(wanted, TIMES))


def _fits(given: DataType, wanted: DataType) -> bool:
    if given == wanted or isinstance(given, NullType) or isinstance(wanted, StringType):
        return True
    return type(given) in WIDER and type(wanted) in WIDER[WIDER.index(type(given)) :]


def _in_order(given: DataType, wanted: DataType) -> DataType | None:
    """Return ``given`` with the fields of structs in the order of ``wanted``, None if their names differ."""
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        element = _in_order(given.elementType, wanted.elementType)
        return None if element is None else ArrayType(element, given.containsNull)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key, value = _in_order(given.keyType, wanted.keyType), _in_order(given.valueType, wanted.valueType)
        return None if key is None or value is None else MapType(key, value, given.valueContainsNull)
    if not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return given
    fields = {field.name.lower(): field for field in given}
    if len(fields) != len(given) or sorted(fields) != sorted(field.name.lower() for field in wanted):
        return None
    found = []
    for other in wanted:
        field = fields[other.name.lower()]
        kind = _in_order(field.dataType, other.dataType)
        if kind is None:
            return None
        found.append(StructField(field.name, kind, field.nullable))
    return StructType(found)


def _with_fields_of(value: Column, given: DataType, ordered: DataType) -> Column:
    """Return ``value``, of type ``given``, with the fields of structs in the order of ``ordered``."""
    if given == ordered:
        return value
    if isinstance(given, StructType) and isinstance(ordered, StructType):
        fields = [
            _with_fields_of(value.getField(one.name), given[one.name].dataType, one.dataType).alias(one.name)
            for one in ordered
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(given, MapType) and isinstance(ordered, MapType):
        kinds = given.keyType, ordered.keyType, given.valueType, ordered.valueType
        keyed = F.transform_keys(value, lambda key, _: _with_fields_of(key, *kinds[:2]))
        return F.transform_values(keyed, lambda _, one: _with_fields_of(one, *kinds[2:]))
    assert isinstance(given, ArrayType)
    assert isinstance(ordered, ArrayType)
    elements = given.elementType, ordered.elementType
    return F.transform(value, lambda one: _with_fields_of(one, *elements))


__all__ = ["assigned"]
