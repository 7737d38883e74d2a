"""One column of the caller's rows, checked and brought to the type of the table's.

What Arrow casts is checked by type before, since it also parses, and by value after, since it also rounds.
Two things Arrow never checks: that strings are UTF-8, and that there is no null inside of a value whose type
has none. What lies outside of a slice, or under a null, is nobody's and is not looked at.

Clauses: TBL-2, TBL-8.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import FLOATS, STRINGS, DataType, Field, to_arrow

# A type converts to a type of the same family if every value does; nothing is parsed or rounded.
FAMILIES = (
    pt.is_boolean,
    lambda t: pt.is_integer(t) or pt.is_decimal(t),
    lambda t: pt.is_floating(t),
    lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t),
    lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t),
    pt.is_date,
    pt.is_timestamp,
    # No views of lists: Arrow's cast empties those after a null.
    lambda t: pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t),
    pt.is_map,
    pt.is_struct,
)

INTEGER_DIGITS = 20  # of the greatest unsigned integer


def conform_column(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Return ``values`` in the type of ``field``, row for row.

    Raises InvalidRequestError naming the column and what was expected and found. Clauses: TBL-2, TBL-8.
    """
    wanted = to_arrow(field.type)
    if values.type != wanted:
        values = _converted(values, field, wanted)
    if not field.type.nullable and values.null_count:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found {values.null_count} nulls"
        )
    if _checked(field.type):
        return pa.chunked_array([_sound(chunk, field) for chunk in values.chunks], wanted)
    return values


def _checked(t: DataType) -> bool:
    """Whether arrays of ``t`` can hold what it does not allow: nulls inside of values, bytes that are no text."""
    return t.root in STRINGS or any(not child.type.nullable or _checked(child.type) for child in t.children)


def _sound(values: pa.Array, field: Field) -> pa.Array:
    """Return ``values`` in the type of ``field``. Raises InvalidRequestError for what it does not allow."""
    # Leaving out what lies under a null costs a copy, and mostly makes no difference.
    suspect = bool(_defect(values, field, exact=False))
    found = _defect(values, field, exact=True) if suspect else ""
    if found:
        raise InvalidRequestError(f"column {field.name}: expected {field.type}, found {found}")
    return values if not suspect and values.type == to_arrow(field.type) else _declared(values, field.type)


def _defect(values: pa.Array, field: Field, *, exact: bool) -> str:
    """Return what in ``values`` the type of ``field`` does not allow, nothing if all is well."""
    if not field.type.nullable and values.null_count:
        return f"null in {field.name}"
    if field.type.root in STRINGS:
        wrong = not_utf8(values)
        return f"{wrong} in {field.name}" if wrong else ""
    parts = zip(_inside(values, exact=exact), field.type.children, strict=True)
    found = (_defect(part, child, exact=exact) for part, child in parts)
    return next((f"{defect} of {field.name}" for defect in found if defect), "")


def not_utf8(strings: pa.Array) -> str:
    """Return which of ``strings`` is no UTF-8, nothing if all are."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


def _declared(values: pa.Array, t: DataType) -> pa.Array:
    """Return ``values`` as `to_arrow` declares ``t``; what is null under a null where ``t`` has none becomes empty.

    Such nulls are nobody's, but neither Arrow's cast nor its Parquet writer overlooks them.
    """
    wanted, types = to_arrow(t), [child.type for child in t.children]
    if t.root == "ROW":
        parts = [_declared(values.field(i), kind) for i, kind in enumerate(types)]
        values = pa.StructArray.from_arrays(parts, fields=list(wanted), mask=values.is_null())
    elif types:
        if t.root == "MAP":
            parts = [
                _declared(part, kind) for part, kind in zip((values.keys, values.items), types, strict=True)
            ]
            inside = pa.StructArray.from_arrays(parts, fields=[wanted.key_field, wanted.item_field])
        else:
            inside = _declared(values.values, types[0])
        head = values.buffers()[:2]  # validity and offsets
        values = pa.Array.from_buffers(wanted, len(values), head, offset=values.offset, children=[inside])
    if t.nullable or not values.null_count:
        return values
    other = pa.concat_arrays([values, empty_column(Field(0, "", t), 1)])
    return other.take(pc.if_else(values.is_null(), len(values), np.arange(len(values))))


def conform_key_column(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Return a column of the primary key, every NaN as the one NaN: they are one key, in one bucket. Clauses: MRG-5."""
    column = conform_column(values, field)
    if field.type.root not in FLOATS:
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _converted(values: pa.ChunkedArray, field: Field, wanted: pa.DataType) -> pa.ChunkedArray:
    found, plain = values.type, _plain(values.type)
    if not related(plain, wanted):
        raise InvalidRequestError(f"column {field.name}: expected {field.type}, found {found}")
    try:
        values = values.cast(plain)
        # What must not be null is told by `_sound`: Arrow looks for nulls even under nulls.
        cast = values.cast(_between(plain, wanted)).cast(_plain(wanted))
        # Arrow rounds floats, also inside of lists and structs: what does not come back was not the same.
        same = not _rounds(plain) or _equal(values, cast.cast(plain))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowIndexError) as error:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found {found}: {error}"
        ) from None
    if not same:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found values of more precision"
        )
    return cast


def related(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of ``found`` may be taken as ``wanted``: of one family, in all their parts."""
    if pt.is_null(found):
        return True
    if not any(family(found) and family(wanted) for family in FAMILIES):
        return False
    if pt.is_struct(wanted) and [part.name for part in found] != [part.name for part in wanted]:
        return False
    return all(related(*parts) for parts in zip(_parts(found), _parts(wanted), strict=True))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with a plain list for every other one, without dictionaries and views, in all its parts.

    Arrow casts dictionaries to the type of their values and to no other, and takes no rows out of views.
    """
    if pt.is_dictionary(kind):
        return _plain(kind.value_type)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return pa.string() if pt.is_string_view(kind) else pa.binary()
    parts = _parts(kind)
    return _nested(kind, [_plain(part) for part in parts]) if parts else kind


def _between(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type to cast ``found``, a plain one, to before ``wanted``.

    Arrow casts an integer only to a decimal that holds all integers of its type, but any decimal to a narrower one.
    """
    if pt.is_integer(found) and pt.is_decimal(wanted):
        fits = INTEGER_DIGITS + wanted.scale <= 38  # decimals of more digits take some times longer
        return pa.decimal128(38, wanted.scale) if fits else pa.decimal256(76, wanted.scale)
    inside = zip(_parts(found), _parts(wanted), strict=False)  # null has no parts
    parts = [_between(*pair) for pair in inside]
    return _nested(wanted, parts) if parts else wanted


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """Return what values of ``kind`` are made of: an element, a key and a value, or fields; nothing if atomic."""
    if pt.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pt.is_struct(kind):
        return [part.type for part in kind]
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return [kind.value_type]
    return []


def _nested(kind: pa.DataType, parts: list[pa.DataType]) -> pa.DataType:
    """Return a map, struct or list, as ``kind`` is, of ``parts`` that may be null."""
    if pt.is_map(kind):
        return pa.map_(*parts)
    if pt.is_struct(kind):
        return pa.struct([pa.field(part.name, new) for part, new in zip(kind, parts, strict=True)])
    return pa.list_(parts[0])


def _rounds(kind: pa.DataType) -> bool:
    return pt.is_floating(kind) or any(map(_rounds, _parts(kind)))


def _equal(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    return before.equals(after) or all(
        map(_equal_but_for_nan, before.chunks, after.chunks)  # to Arrow no NaN equals another
    )


def _equal_but_for_nan(left: pa.Array, right: pa.Array) -> bool:
    """Whether floats in all parts of two arrays of one type and shape are equal, or both NaN."""
    if pt.is_floating(left.type):
        return bool(np.array_equal(_numpy(left), _numpy(right), equal_nan=True))
    return all(map(_equal_but_for_nan, _inside(left), _inside(right)))


def _numpy(floats: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = floats.to_numpy(zero_copy_only=False)
    return numbers


def _inside(values: pa.Array, *, exact: bool = True) -> list[pa.Array]:
    """Return the elements, keys and values, or fields of ``values``; if ``exact``, none that lies under a null."""
    kind = values.type
    if not _parts(kind):
        return []
    if exact and values.null_count:
        values = values.drop_null()
    if pt.is_struct(kind):
        return [values.field(i) for i in range(kind.num_fields)]
    if pt.is_list(kind):
        return [values.flatten()]
    # Without any maps there may be no offsets.
    start, end = (values.offsets[i].as_py() for i in (0, -1)) if len(values) else (0, 0)
    return [part.slice(start, end - start) for part in (values.keys, values.items)]


def empty_column(field: Field, count: int) -> pa.Array:
    """Return values for a column that a retraction does not name; they are never visible."""
    kind = to_arrow(field.type)
    if field.type.nullable:
        return pa.nulls(count, kind)
    if pt.is_list(kind) or pt.is_map(kind):
        return pa.array([[]] * count, kind)
    if pt.is_struct(kind):
        children = [empty_column(child, count) for child in field.type.children]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    if pt.is_string(kind) or pt.is_binary(kind):
        return pa.array([""] * count).cast(kind)
    if pt.is_decimal(kind):
        return pa.array([Decimal(0)] * count, kind)
    whole = pa.array([0] * count, pa.int64() if pt.is_timestamp(kind) else pa.int32())
    return whole.cast(kind)
