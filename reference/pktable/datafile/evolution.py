"""Convert the columns of a data file from the schema it was written under to the table's current schema.

The type of a column may have changed since the file was written. Then every value is converted, and the fields of a
ROW, also inside ARRAY and MAP, are matched by id, whatever their names are now. A field that the file does not have
is null. The conversions are those of Paimon's reader, including Java's arithmetic: integers wrap if they do not fit,
decimals round half up and become null if they do not fit, strings are cut.

Conversions of three kinds are refused with the names of both types:
* those that Paimon refuses (another key type of a MAP, atomic to nested, nested to what is no string),
* those that depend on the time zone of a JVM (TIMESTAMP to or from TIMESTAMP WITH LOCAL TIME ZONE), and
* strings parsed as, or made of, floats, times and nested values, where we would have to format them as Java does.

The subtle case is statistics: converted bounds are bounds of the converted values only if the conversion keeps the
order and never makes a null (`keeps_order`).

Clauses: META-15, META-16, META-39, META-40, META-42, META-43, META-79, RD-8.
"""

from __future__ import annotations

import decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.datafile.arrow_times import uncountable
from pktable.format.arrow_values import WIDEST, half_up
from pktable.format.types import (
    BINARIES,
    DAY_MILLIS,
    FLOATS,
    INTEGER_BITS,
    INTEGER_DIGITS,
    NANOS_PER,
    NESTED,
    NUMBERS,
    STRINGS,
    TIMESTAMPS,
    DataType,
    Field,
    Value,
    array_of,
    arrow_field,
    java_time,
    to_arrow,
    values_of,
)

ARROW_NESTED: Final = {
    "ROW": pa.types.is_struct,
    "ARRAY": pa.types.is_list,
    "MAP": pa.types.is_map,
}
"""Whether an Arrow type is the one that a nested type is read as."""

TEXT: Final = DataType("STRING")
EXACT: Final = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)


def conformed(
    array: pa.ChunkedArray, before: DataType, after: DataType, what: str, *, exact: bool = False
) -> pa.ChunkedArray:
    """Return a column that was written as type ``before``, converted to type ``after``.

    ``array``: of any Arrow type that holds ``before``. ``what``: names the column in errors. ``exact``: whether a value
    that ``after`` does not have is refused.
    Raises InvalidRequestError if the conversion is not supported, ArrowInvalid or ValueError if ``array`` does not hold
    ``before``.
    Clauses: META-16, META-39, META-40, META-42, META-43.
    """
    wanted = to_arrow(after)
    if array.type == wanted and same_values(before, after):
        return array
    require_conversion(before, after, what)
    if not _has_any(before, after):
        return pa.chunked_array([absent(len(array), after, what)])
    return pa.chunked_array([_converted(chunk, before, after, exact) for chunk in array.chunks], wanted)


def absent(rows: int, kind: DataType, what: str) -> pa.Array:
    """Return a column that a file does not have, which is null. ``what``: names it in errors. Clauses: META-42.

    Raises InvalidRequestError if it may not be null.
    """
    if rows and not kind.nullable:
        raise InvalidRequestError(
            f"{what}: {kind} is null in rows of a data file that does not have it; expected a type without NOT NULL"
        )
    return pa.nulls(rows, to_arrow(kind))


def require_conversion(before: DataType, after: DataType, what: str) -> None:
    """Raise InvalidRequestError unless values of ``before`` can be read as ``after``. Clauses: META-40."""
    if not _convertible(before, after):
        raise InvalidRequestError(f"{what}: {before} in a data file cannot be converted to {after}")


def same_values(before: DataType, after: DataType) -> bool:
    """Return whether both types have the same values, and their parts the same ids and names.

    Nullability is ignored.
    """
    if before == after:
        return True
    parameters = [
        (t.root, t.length, t.precision, t.scale, t.variant, len(t.children)) for t in (before, after)
    ]
    return parameters[0] == parameters[1] and all(
        same_values(old.type, new.type) and (before.root != "ROW" or (old.id, old.name) == (new.id, new.name))
        for old, new in zip(before.children, after.children, strict=True)
    )


def keeps_order(before: DataType, after: DataType) -> bool:
    """Return whether the conversion of atomic types keeps the order of values and maps none to null.

    Clauses: RD-8.
    """
    old, new = before.root, after.root
    if old in INTEGER_DIGITS and new in INTEGER_DIGITS:
        return INTEGER_DIGITS[old] <= INTEGER_DIGITS[new]
    if new == "DECIMAL" and (old in INTEGER_DIGITS or old == "DECIMAL"):
        digits = INTEGER_DIGITS.get(old) or (before.precision or 0) - (before.scale or 0)
        return digits <= (after.precision or 0) - (after.scale or 0) and (before.scale or 0) <= (
            after.scale or 0
        )
    if new in FLOATS:
        return old in NUMBERS
    if new in STRINGS:
        return old in STRINGS and new != "CHAR"
    return new in (*TIMESTAMPS, "DATE") and _convertible(before, after)


def converted(values: list[Value], before: DataType, after: DataType) -> list[Value]:
    """Return values of type ``before`` as those of type ``after``; `require_conversion` must hold for the types."""
    return values_of(_converted(array_of(values, before), before, after), after)


def _convertible(before: DataType, after: DataType) -> bool:
    old, new = before.root, after.root
    if old in NESTED and new in STRINGS:
        return not before.variant and all(_convertible(child.type, TEXT) for child in before.children)
    if old in NESTED or new in NESTED:
        return (old, before.variant) == (new, after.variant) and _parts_convertible(before, after)
    if old == new:
        return True
    return (
        (old in NUMBERS and new in NUMBERS)
        or (old == "BOOLEAN" and new in NUMBERS)
        or (old in INTEGER_DIGITS and new == "BOOLEAN")
        or (old in STRINGS and new in STRINGS)
        or (old in BINARIES and new in BINARIES)
        or (new in STRINGS and old in (*INTEGER_DIGITS, "DECIMAL", "BOOLEAN"))
        or (old in ("DATE", "TIME") and new == "STRING")
        or {old, new} in ({"DATE", "TIMESTAMP"}, {"TIME", "TIMESTAMP"})
    )


def _parts_convertible(before: DataType, after: DataType) -> bool:
    if before.root == "ROW":
        pairs = [(old, new) for new, old in _matched(before, after) if old is not None]
    else:
        pairs = list(zip(before.children, after.children, strict=True))
    if before.root == "MAP" and not same_values(before.children[0].type, after.children[0].type):
        return False
    return all(_convertible(old.type, new.type) for old, new in pairs)


def _matched(before: DataType, after: DataType) -> list[tuple[Field, Field | None]]:
    """Return each field of the ROW ``after`` with the field of ``before`` that it was, None if it is new."""
    by_id = {child.id: child for child in before.children}
    # Some writers restart the ids inside every ROW; then only names can match.
    if len(by_id) < len(before.children):
        by_name = {child.name: child for child in before.children}
        return [(child, by_name.get(child.name)) for child in after.children]
    found = [(child, by_id.get(child.id)) for child in after.children]
    return [
        (child, old if old is not None and _has_any(old.type, child.type) else None) for child, old in found
    ]


def _has_any(before: DataType, after: DataType) -> bool:
    """Return whether ``before`` has any part of ``after``, which is false for a ROW all of whose fields are new."""
    if before.root != after.root:
        return True
    if before.root == "ROW":
        return any(old is not None for _, old in _matched(before, after))
    return all(_has_any(old.type, new.type) for old, new in zip(before.children, after.children, strict=True))


def _converted(array: Any, before: DataType, after: DataType, exact: bool = False) -> pa.Array:
    wanted = to_arrow(after)
    if array.type == wanted and same_values(before, after):
        return array
    if before.root in NESTED:
        if not ARROW_NESTED[before.root](array.type):
            raise ValueError(f"{array.type} instead of {before}")
        if after.root in STRINGS:
            return pa.array(_nested_texts(array, before), wanted)
        return {"ROW": _row, "ARRAY": _list, "MAP": _map}[before.root](array, before, after, exact)
    stored = array.cast(to_arrow(before))
    if same_values(before, after):
        return stored
    found = _leaf(stored, before, after, wanted)
    if exact and not _equal(stored, _leaf(found, after, before, stored.type), before):
        raise InvalidRequestError(
            f"a {before} of a data file is no {after}, which was the type of the column when the table was opened; "
            "open it again"
        )
    return found


def _equal(left: pa.Array, right: pa.Array, kind: DataType) -> bool:
    """Return whether two arrays of a type are equal, but for what CHAR and BINARY are filled up with."""
    if kind.root in STRINGS:
        left, right = (pc.utf8_rtrim(one, " ") for one in (left, right))
    elif kind.root in BINARIES:
        left, right = (
            pa.array([one and one.rstrip(b"\0") for one in array.to_pylist()]) for array in (left, right)
        )
    elif kind.root in FLOATS:
        left, right = (pc.if_else(pc.is_nan(one), None, one) for one in (left, right))
    return bool(left.equals(right))


def _row(array: Any, before: DataType, after: DataType, exact: bool) -> pa.Array:
    if before.variant and array.type.num_fields > len(before.children):
        found = ", ".join(field.name for field in array.type)
        raise InvalidRequestError(
            f"a VARIANT that is stored in parts ({found}) is not supported; write it with variant.shreddingSchema unset"
        )
    children = []
    for field, old in _matched(before, after):
        if old is None:
            there = len(array) - array.null_count
            absent(there, field.type, f"field {field.name} of a ROW")
            children.append(pa.nulls(len(array), to_arrow(field.type)))
        else:
            children.append(_converted(array.field(old.name), old.type, field.type, exact))
    fields = [arrow_field(field) for field in after.children]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _list(array: Any, before: DataType, after: DataType, exact: bool) -> pa.Array:
    offsets, first, count = _offsets(array)
    values = array.values.slice(first, count)
    element = _converted(values, before.children[0].type, after.children[0].type, exact)
    return pa.ListArray.from_arrays(offsets, element, type=to_arrow(after), mask=array.is_null())


def _map(array: Any, before: DataType, after: DataType, exact: bool) -> pa.Array:
    offsets, first, count = _offsets(array)
    keys, values = (
        _converted(part.slice(first, count), old.type, new.type, exact)
        for part, old, new in zip((array.keys, array.items), before.children, after.children, strict=True)
    )
    return pa.MapArray.from_arrays(offsets, keys, values, type=to_arrow(after), mask=array.is_null())


def _nested_texts(array: Any, kind: DataType) -> list[str | None]:
    """Return nested values as Paimon writes them: ``[1, null]``, ``{a -> 1}`` for a MAP, ``{1, x}`` for a ROW.

    A length of the text is not enforced.
    """
    if kind.root == "ROW":
        fields = [_texts(array.field(child.name), child.type) for child in kind.children]
        texts = [f"{{{', '.join(row)}}}" for row in zip(*fields, strict=True)]
    else:
        offsets, first, count = _offsets(array)
        inner = (array.values,) if kind.root == "ARRAY" else (array.keys, array.items)
        parts = [
            _texts(part.slice(first, count), child.type)
            for part, child in zip(inner, kind.children, strict=True)
        ]
        entries = [" -> ".join(entry) for entry in zip(*parts, strict=True)]
        left, right = "[]" if kind.root == "ARRAY" else "{}"
        ends = offsets.to_pylist()
        texts = [left + ", ".join(entries[start:end]) + right for start, end in pairwise(ends)]
    there = array.is_valid().to_pylist()
    return [text if one else None for text, one in zip(texts, there, strict=True)]


def _texts(array: Any, kind: DataType) -> list[str]:
    """Return parts of nested values as text, ``null`` for null."""
    return ["null" if one is None else one for one in _converted(array, kind, TEXT).to_pylist()]


def _offsets(array: Any) -> tuple[pa.Array, int, int]:
    """Return the offsets of a list or map shifted to begin at 0, then (start, count) of the values they cover."""
    offsets = array.offsets.to_numpy()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return pa.array((offsets - first).astype(np.int32)), first, last - first


def _leaf(array: Any, before: DataType, after: DataType, wanted: Any) -> pa.Array:
    old, new = before.root, after.root
    if new in STRINGS:
        return _text(array, before, after)
    if new in BINARIES:
        return pa.array([_sized(value, after) for value in array.to_pylist()], wanted)
    if new == "BOOLEAN":
        return pc.not_equal(array, 0)
    if old == "BOOLEAN":
        return _leaf(array.cast(pa.int8()), DataType("TINYINT"), after, wanted)
    if new == "DECIMAL":
        return _decimal(array, before, after, wanted)
    if old == "DECIMAL":
        return _from_decimal(array, before, after, wanted)
    if old in FLOATS and new in INTEGER_BITS:
        return _truncated(array, INTEGER_BITS[new], wanted)
    if new in TIMESTAMPS and old in TIMESTAMPS:
        return _less_precise(array, before, after, wanted)
    if new == "TIME" and old == "TIMESTAMP":
        return _time_of_day(array, wanted)
    if old == "TIME" and new == "TIMESTAMP":
        return array.cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms")).cast(wanted)
    if old == "DATE" and new == "TIMESTAMP":
        return _in_unit(array.cast(pa.timestamp("s")), wanted)
    if new == "DATE":
        return pc.floor_temporal(array, unit="day").cast(wanted)
    return array.cast(wanted, safe=False)  # integers wrap, floats round to the nearest


def _text(array: Any, before: DataType, after: DataType) -> pa.Array:
    if before.root == "TIME":
        precision = before.precision or 0
        times = array.view(pa.int32()).to_pylist()
        text = pa.array([None if one is None else java_time(one, precision) for one in times], pa.string())
    elif before.root == "DECIMAL":
        text = pa.array([None if value is None else f"{value:f}" for value in array.to_pylist()], pa.string())
    else:
        text = array.cast(pa.string())
    if after.length is not None:
        text = pc.utf8_slice_codeunits(text, 0, after.length)
    return pc.utf8_rpad(text, after.length, " ") if after.root == "CHAR" else text


def _time_of_day(array: Any, wanted: Any) -> pa.Array:
    """Return the milliseconds of the day. Java's remainder of a time before 1970 is negative, and then no TIME."""
    millis = pc.floor_temporal(array, unit="millisecond").cast(pa.timestamp("ms")).cast(pa.int64())
    if (pc.min(millis).as_py() or 0) < 0:
        raise InvalidRequestError(
            "a time before 1970 in a data file cannot be converted to TIME; Paimon makes a negative one of it"
        )
    days = pc.multiply(pc.divide(millis, DAY_MILLIS), DAY_MILLIS)
    return pc.subtract(millis, days).cast(pa.int32()).cast(wanted)


def _sized(value: bytes | None, after: DataType) -> bytes | None:
    if value is None or after.length is None:
        return value
    return value[: after.length].ljust(after.length if after.root == "BINARY" else 0, b"\0")


def _decimal(array: Any, before: DataType, after: DataType, wanted: Any) -> pa.Array:
    """Return numbers rounded half up to the scale of ``after``, null if they then have too many digits."""
    assert after.precision is not None
    assert after.scale is not None
    if before.root in FLOATS:
        return pa.array([_decimal_of(value, after) for value in array.to_pylist()], wanted)
    scale = before.scale or 0
    found = half_up(array, scale, after.scale)
    bound = pa.scalar(decimal.Decimal(10) ** (after.precision - after.scale)).cast(found.type)
    fits = pc.and_(pc.less(found, bound), pc.greater(found, pc.negate(bound)))
    return pc.if_else(fits, found, None).cast(pa.decimal256(WIDEST, after.scale)).cast(wanted)


def _decimal_of(value: float | None, after: DataType) -> decimal.Decimal | None:
    if value is None:
        return None
    exact = decimal.Decimal(repr(value))
    if not exact.is_finite():
        raise InvalidRequestError(f"{value} in a data file cannot be converted to {after}: it is not finite")
    rounded = EXACT.quantize(exact, decimal.Decimal(1).scaleb(-(after.scale or 0)))
    digits = (after.precision or 0) - (after.scale or 0)
    return rounded if abs(rounded) < decimal.Decimal(10) ** digits else None


def _from_decimal(array: Any, before: DataType, after: DataType, wanted: Any) -> pa.Array:
    values = array.to_pylist()
    if after.root in INTEGER_BITS:
        return pa.array(
            [None if v is None else _wrapped(int(v), INTEGER_BITS[after.root]) for v in values], wanted
        )
    # Java divides if the unscaled value is a long, and rounds the exact value if it is not.
    power = 10.0 ** (before.scale or 0)
    if (before.precision or 0) <= 18:
        unscaled = (None if v is None else int(EXACT.scaleb(v, before.scale or 0)) for v in values)
        doubles = [None if number is None else float(number) / power for number in unscaled]
    else:
        doubles = [None if v is None else float(v) for v in values]
    return pa.array(doubles, pa.float64()).cast(wanted, safe=False)


def _wrapped(number: int, bits: int) -> int:
    """Return the low ``bits`` of a number as a signed integer."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _truncated(array: Any, bits: int, wanted: Any) -> pa.Array:
    """Return floats as integers: towards zero, NaN as 0, out of range as the nearest int or long, then narrowed."""
    values = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    wide = np.int64 if bits == 64 else np.int32
    least, greatest = np.iinfo(wide).min, np.iinfo(wide).max
    above, below = values >= -float(least), values <= float(least)
    inside = np.where(np.isnan(values) | above | below, 0, values).astype(wide)
    whole = np.where(above, greatest, np.where(below, least, inside)).astype(f"int{bits}")
    return pa.array(whole, wanted, mask=array.is_null().to_numpy(zero_copy_only=False))


def _less_precise(array: Any, before: DataType, after: DataType, wanted: Any) -> pa.Array:
    """Return timestamps without the digits that ``after`` does not have; up to milliseconds they round to zero."""
    assert after.precision is not None
    assert before.precision is not None
    counts = array.cast(pa.int64())
    if after.precision < before.precision:
        unit = NANOS_PER["ms"] if after.precision <= 3 else 1
        nanos = [
            None if n is None else n * NANOS_PER[array.type.unit] // unit * unit for n in counts.to_pylist()
        ]
        step = 10 ** (9 - after.precision)
        cut = [
            None if n is None else (n // step if n >= 0 or unit == 1 else -(-n // step)) * step for n in nanos
        ]
        return array_of(cut, after)
    return _in_unit(array, wanted)


def _in_unit(times: Any, wanted: Any) -> pa.Array:
    """Return timestamps in a finer unit. Raises InvalidRequestError if it cannot count one."""
    try:
        return times.cast(wanted)
    except pa.ArrowInvalid as error:
        raise uncountable(f"a time in a data file as {wanted}: {error}") from None
