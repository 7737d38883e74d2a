"""Python values as one Arrow column of the table's type, exactly, or refused by column and row.

Arrow converts Python values by itself, but some of them not to the same value: 1.5 becomes the integer 1, 0.1 the
nearest FLOAT, a datetime a DATE, bytes a string, and names that a ROW does not have are dropped. So values are
converted in two steps:

1. Where every value is of a Python type that Arrow converts exactly or refuses, Arrow gets the values as they are.
2. Otherwise, and to find the row that Arrow refused, each value is first brought to such a type by `_exact`.

Rows are counted from 0 in messages, as Python counts them.

Clauses: TBL-8, TBL-11.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType, NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import (
    BINARIES,
    FLOATS,
    INTEGER_BITS,
    NESTED,
    STRINGS,
    TIMESTAMPS,
    DataType,
    Field,
    timestamp_unit,
    to_arrow,
)

LONGEST_SHOWN: Final = 200  # characters of a value in a message

EXACT: Final[Mapping[str, frozenset[type]]] = MappingProxyType(
    {
        "BOOLEAN": frozenset({bool}),
        **dict.fromkeys(INTEGER_BITS, frozenset({int})),
        "FLOAT": frozenset({int}),  # of Python's floats Arrow takes the nearest
        "DOUBLE": frozenset({int, float}),
        "DECIMAL": frozenset({int, Decimal}),
        "DATE": frozenset({datetime.date}),
        **dict.fromkeys(STRINGS, frozenset({str})),
        **dict.fromkeys(BINARIES, frozenset({bytes})),
    }
)
"""Root of a type that has no unit: what `_exact_types` returns for it."""

UNCONVERTIBLE: Final = (pa.ArrowException, ArithmeticError, ValueError, TypeError)
"""Errors by which Arrow refuses Python values."""


class UnfitError(ValueError):
    """A value that is not of the type, or would change by conversion. Its message says both."""

    def __init__(self, value: Any, t: DataType, remedy: str = "") -> None:
        super().__init__(f"expected {t}, found {shown(value)}" + (f"; {remedy}" if remedy else ""))


def column_of_values(values: Sequence[Any], field: Field, start: int = 0) -> pa.Array | pa.ChunkedArray:
    """Return ``values``, of rows from ``start`` on, in the Arrow type of ``field``, row for row; None is null.

    Raises InvalidRequestError naming the column, the row and the value. Clauses: TBL-8, TBL-11.
    """
    wanted = to_arrow(field.type)
    exact = values
    if not set(map(type, values)) <= {*_exact_types(field.type), NoneType}:
        exact = [_exact_at(row, value, field) for row, value in enumerate(values, start)]
    try:
        return pa.array(exact, wanted)
    except UNCONVERTIBLE as error:
        for row, value in enumerate(exact):
            if not _is_convertible(value, wanted):
                raise _unfit(start + row, values[row], field) from None
        raise InvalidRequestError(f"column {field.name}: expected {field.type}: {error}") from None


def column_with_new_fields(values: Sequence[Any], field: Field | None, start: int = 0) -> pa.Array:
    """Return ``values`` as `column_of_values` does, but a ROW at any depth may lack fields, and have others.

    ``field``: None for one whose type Arrow guesses. Its name is a path inside of a column. In an ARRAY and in a MAP,
    messages count elements instead of rows.
    Raises InvalidRequestError, and what Arrow raises for values of no type. Clauses: TBL-45.
    """
    if field is None:
        return pa.array(values)
    kind, nulls = field.type, pa.array([value is None for value in values], pa.bool_())
    inside = {part.name: replace(part, name=f"{field.name}.{part.name}") for part in kind.children}
    there = [value for value in values if value is not None]
    if kind.root == "ROW" and not kind.variant and _are(there, Mapping):
        names = list(dict.fromkeys(name for value in there for name in value)) or list(inside)
        parts = [
            column_with_new_fields(
                [None if value is None else value.get(name) for value in values], inside.get(name), start
            )
            for name in names
        ]
        return pa.StructArray.from_arrays(parts, [str(name) for name in names], mask=nulls)
    if kind.root == "ARRAY" and _are(there, (list, tuple, np.ndarray)):
        elements = column_with_new_fields([one for value in there for one in value], inside["element"])
        return pa.ListArray.from_arrays(_offsets(values), elements, mask=nulls)
    if kind.root == "MAP" and _are(there, Mapping):
        keys = column_of_values([one for value in there for one in value], inside["key"])
        items = column_with_new_fields([one for value in there for one in value.values()], inside["value"])
        return pa.MapArray.from_arrays(_offsets(values), keys, items, mask=nulls)
    return column_of_values(values, field, start)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each list or map begins among the elements of all, and where the last one ends."""
    return pa.array(np.cumsum([0, *(0 if value is None else len(value) for value in values)]), pa.int32())


def _are(values: Sequence[Any], kind: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _exact_types(t: DataType) -> frozenset[type]:
    """Return the Python types whose values Arrow converts to ``t`` exactly or refuses. Subclasses are others."""
    if t.root in TIMESTAMPS and timestamp_unit(t) != "ms":
        return frozenset({datetime.datetime})
    return EXACT.get(t.root, frozenset())


def _exact_at(row: int, value: Any, field: Field) -> Any:
    try:
        return _exact(value, field.type)
    except UNCONVERTIBLE as error:
        raise _unfit(row, value, field, error) from None


def _is_convertible(value: Any, wanted: pa.DataType) -> bool:
    try:
        pa.array([value], wanted)
    except UNCONVERTIBLE:
        return False
    return True


def _unfit(row: int, value: Any, field: Field, error: Exception | None = None) -> InvalidRequestError:
    why = error if isinstance(error, UnfitError) else UnfitError(value, field.type)
    return InvalidRequestError(f"column {field.name}, row {row}: {why}")


def shown(value: Any) -> str:
    """Return ``value`` as Python writes it, in one line, cut where it is long."""
    text = " ".join(repr(value).splitlines())
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _exact(value: Any, t: DataType) -> Any:
    """Return ``value`` as one that Arrow converts to ``t`` exactly or refuses. Raises `UnfitError`."""
    if value is None:
        return None
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # times of nanoseconds become integers
        value = value.item()
    if t.root in NESTED:
        return _exact_nested(value, t)
    if t.root in TIMESTAMPS:
        return _exact_time(value, t)
    if t.root == "TIME":
        return _exact_clock(value, t)
    if t.root == "DATE":
        if isinstance(value, datetime.datetime):
            raise UnfitError(value, t, "take its date()")
        return value if isinstance(value, datetime.date) else _refuse(value, t)
    if t.root in STRINGS:
        return value if isinstance(value, str) else _refuse(value, t)
    if t.root in BINARIES:
        return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else _refuse(value, t)
    if isinstance(value, bool) or t.root == "BOOLEAN":
        return value if isinstance(value, bool) and t.root == "BOOLEAN" else _refuse(value, t)
    return _exact_number(value, t)


def _exact_number(value: Any, t: DataType) -> Any:
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal) and t.root == "DECIMAL":
        return value
    if isinstance(value, Decimal) and t.root in INTEGER_BITS and value == value.to_integral_value():
        return int(value)
    if not isinstance(value, float) or t.root not in FLOATS:
        raise UnfitError(value, t)
    if t.root == "FLOAT" and value == value and struct.unpack("f", struct.pack("f", value)) != (value,):
        raise UnfitError(value, t, "that rounds it; round it yourself with numpy.float32")
    return value


def _exact_time(value: Any, t: DataType) -> Any:
    """Return a datetime that has no digits beyond those of the Arrow unit of ``t``, which Arrow would cut off."""
    if not isinstance(value, datetime.datetime):
        raise UnfitError(value, t)
    finest = timestamp_unit(t)
    nanos = getattr(value, "nanosecond", 0)  # of a pandas.Timestamp
    if (nanos and finest != "ns") or (finest == "ms" and value.microsecond % 1000):
        raise UnfitError(value, t, "that cuts digits off its second")
    return value


def _exact_clock(value: Any, t: DataType) -> Any:
    """Return a time of the day without a zone, which Arrow would drop, and without microseconds."""
    if not isinstance(value, datetime.time) or value.tzinfo is not None:
        raise UnfitError(value, t)
    if value.microsecond % 1000:
        raise UnfitError(value, t, "that cuts digits off its second")
    return value


def _exact_nested(value: Any, t: DataType) -> Any:
    kinds = [child.type for child in t.children]
    if isinstance(value, np.ndarray):
        value = list(value)
    if t.root == "ROW":
        names = {child.name for child in t.children}
        if not isinstance(value, Mapping) or value.keys() != names:
            raise UnfitError(value, t)
        return {child.name: _exact(value[child.name], child.type) for child in t.children}
    if t.root == "MAP":
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, (list, tuple)) or not all(map(_is_pair, pairs)):
            raise UnfitError(value, t)
        return [(_exact(key, kinds[0]), _exact(item, kinds[1])) for key, item in pairs]
    if not isinstance(value, (list, tuple)):
        raise UnfitError(value, t)
    return [_exact(element, kinds[0]) for element in value]


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2


def _refuse(value: Any, t: DataType) -> Any:
    raise UnfitError(value, t)
