"""Values of Arrow arrays: for nulls that a type does not have, and decimals rounded as SQL rounds them.

A null of a ROW covers what lies below it. Where a part of the ROW has no null, Arrow makes and takes nulls there all
the same (`pyarrow.nulls`, a take by a null). They mean nothing, but Arrow's casts and its Parquet writer refuse them.
So rows get empty values there before they are cast or written (`declared`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

WIDEST: Final = 76
"""Digits that a decimal of Arrow has at most."""


def half_up(values: Any, scale: int, wanted: int) -> Any:
    """Return decimals of ``scale``, an array or an expression, rounded half up to ``wanted``, in the widest type.

    Rounding can add a digit, for which the type of ``values`` may have no room: Arrow then gives 0.
    """
    return pc.round(values.cast(pa.decimal256(WIDEST, scale)), wanted, "half_towards_infinity")


def declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table`` cast to ``schema``, with empty values for nulls that lie under a null where its types have none.

    Raises pyarrow.ArrowInvalid and ValueError as `pyarrow.Table.cast`, for any other null too.
    """
    for i, field in enumerate(schema):
        if _has_required(field.type):
            column = table.column(i).cast(_without_required(field.type))
            table = table.set_column(i, field.name, _filled(column, field.type))
    return table.cast(schema)


def with_masked(table: pa.Table) -> pa.Table:
    """Return ``table`` with empty values for nulls that lie under a null where their type has none."""
    for i, field in enumerate(table.schema):
        if _has_required(field.type):
            table = table.set_column(i, field, _filled(table.column(i), field.type))
    return table


def _filled(column: pa.ChunkedArray, wanted: Any) -> pa.ChunkedArray:
    """Return ``column`` as ``wanted``, or as it is if that has no null where a null can be seen."""
    if column.type == wanted and not any(_lacks(chunk, wanted, exact=False) for chunk in column.chunks):
        return column
    if any(_lacks(chunk, wanted, exact=True) for chunk in column.chunks):
        return column
    return pa.chunked_array([declared_array(chunk, wanted, nullable=True) for chunk in column.chunks], wanted)


def declared_array(values: Any, wanted: Any, *, nullable: bool) -> pa.Array:
    """Return ``values`` as ``wanted``, with empty values for nulls where that, or without ``nullable`` all, has none.

    ``wanted``: as the type of ``values``, except for which parts may be null.
    """
    parts = [
        declared_array(part, field.type, nullable=field.nullable)
        for part, field in zip(_children(values), _parts(wanted), strict=True)
    ]
    values = _around(values, parts, wanted) if parts else values
    if nullable or not values.null_count:
        return values
    other = pa.concat_arrays([values, empty_values(wanted, 1)])
    return other.take(pc.if_else(values.is_null(), len(values), np.arange(len(values))))


def with_nulls_below(values: Any) -> pa.Array:
    """Return ``values`` with a null in each part of a ROW that is null, at any depth."""
    parts = values.flatten() if pt.is_struct(values.type) else _children(values)
    return _around(values, list(map(with_nulls_below, parts)), values.type) if parts else values


def _children(values: Any) -> list[Any]:
    """Return the fields, the keys and values, or the elements of ``values``, with those that no list or map has."""
    if pt.is_struct(values.type):
        return [values.field(i) for i in range(values.type.num_fields)]
    if pt.is_map(values.type):
        return [values.keys, values.items]
    return [values.values] if pt.is_list(values.type) else []


def _around(values: Any, parts: list[Any], wanted: Any) -> pa.Array:
    """Return the rows, lists or maps of ``values`` as ``wanted``, with other `_children`."""
    if pt.is_struct(wanted):
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=values.is_null())
    below = pa.StructArray.from_arrays(parts, fields=_parts(wanted)) if pt.is_map(wanted) else parts[0]
    head = values.buffers()[:2]  # validity and offsets
    return pa.Array.from_buffers(wanted, len(values), head, offset=values.offset, children=[below])


def empty_values(kind: Any, count: int) -> pa.Array:
    """Return ``count`` values of a type that are not null and mean nothing."""
    if pt.is_list(kind) or pt.is_map(kind):
        return pa.array([[]] * count, kind)
    if pt.is_struct(kind):
        children = [
            pa.nulls(count, part.type) if part.nullable else empty_values(part.type, count) for part in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    if pt.is_string(kind) or pt.is_binary(kind):
        return pa.array([""] * count).cast(kind)
    if pt.is_decimal(kind):
        return pa.array([Decimal(0)] * count, kind)
    whole = pa.array([0] * count, pa.int64() if pt.is_timestamp(kind) else pa.int32())
    return whole.cast(kind)


def inside(values: pa.Array, *, exact: bool = True) -> list[pa.Array]:
    """Return the elements, keys and values, or fields of ``values``; with ``exact`` without those masked by a null."""
    kind = values.type
    if not pt.is_nested(kind):
        return []
    if exact and values.null_count:
        values = values.drop_null()
    if pt.is_struct(kind):
        return [values.field(i) for i in range(kind.num_fields)]
    if pt.is_list(kind):
        return [values.flatten()]
    # An empty array may have no offsets.
    start, end = (values.offsets[i].as_py() for i in (0, -1)) if len(values) else (0, 0)
    return [part.slice(start, end - start) for part in (values.keys, values.items)]


def _parts(kind: Any) -> list[Any]:
    """Return the fields of what `inside` returns of arrays of a type."""
    if pt.is_struct(kind):
        return list(kind)
    if pt.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if pt.is_list(kind) else []


def _has_required(kind: Any) -> bool:
    """Return whether some part of ``kind`` is a ROW with a part that has no null."""
    required = pt.is_struct(kind) and any(not part.nullable for part in kind)
    return required or any(_has_required(part.type) for part in _parts(kind))


def _without_required(kind: Any) -> Any:
    """Return ``kind`` with parts that may all be null."""
    if pt.is_struct(kind):
        return pa.struct([pa.field(part.name, _without_required(part.type)) for part in kind])
    if pt.is_map(kind):
        return pa.map_(_without_required(kind.key_type), _without_required(kind.item_type))
    return pa.list_(_without_required(kind.value_type)) if pt.is_list(kind) else kind


def _lacks(values: Any, wanted: Any, *, exact: bool) -> bool:
    """Return whether ``values`` have a null where ``wanted`` has none; with ``exact`` only one that can be seen."""
    pairs = zip(_parts(wanted), inside(values, exact=exact), strict=True)
    return any(
        (not part.nullable and array.null_count > 0) or _lacks(array, part.type, exact=exact)
        for part, array in pairs
    )
