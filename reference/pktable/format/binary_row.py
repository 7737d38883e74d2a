"""Encode and decode BinaryRow, the form of stored keys, partitions and statistics, and the input of the bucket hash.

A row consists of its arity (4 bytes, big-endian, not hashed), a byte of row kind, null bits, a slot of 8 bytes for
each field, and a variable part. A slot holds the value, or the length and the offset (from the row's start) of bytes
in the variable part. Strings and binaries of up to 7 bytes are in the slot itself.

The subtle case is null: a null DECIMAL of more than 18 digits, or a null timestamp of more than 3, still has its room
in the variable part, and its slot holds the offset of that room.

One field of many rows is decoded at once, without a look at the other fields. Numbers come by numpy, the places of
strings and binaries too, and other values one by one.

Clauses: META-4, META-5, META-24, META-80.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError

from pktable.format.types import BINARIES, NANOS_PER, STRINGS, DataType, Value

INLINE_BYTES: Final = 7  # the longest string or binary that is in its slot
COMPACT_DIGITS: Final = 18  # a decimal of at most so many digits is an unscaled long
COMPACT_PRECISION: Final = 3  # a timestamp of at most this precision is its milliseconds
DECIMAL_BYTES: Final = 16  # room for any other decimal
NANOS_PER_MILLI: Final = NANOS_PER["ms"]
INLINE_MARK: Final = 0x80
GREATEST_ROW_KIND: Final = 3

_NUMBER: Final = {
    "TINYINT": struct.Struct("<b"),
    "SMALLINT": struct.Struct("<h"),
    "INT": struct.Struct("<i"),
    "DATE": struct.Struct("<i"),
    "TIME": struct.Struct("<i"),
    "BIGINT": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f"),
    "DOUBLE": struct.Struct("<d"),
    "BOOLEAN": struct.Struct("<?"),
}
_LONG: Final = _NUMBER["BIGINT"]
_LENGTH_OFFSET: Final = struct.Struct("<ii")
_ARITY: Final = struct.Struct(">i")

NUMBER, TEXT, BYTES, SMALL_DECIMAL, WIDE_DECIMAL, MILLIS, MILLIS_NANOS = range(7)


def null_bytes(arity: int) -> int:
    """Return the bytes of row kind and null bits together."""
    return (arity + 63 + 8) // 64 * 8


def form_of(t: DataType) -> int:
    """Return how values of ``t`` are stored: NUMBER, TEXT or another of the constants above."""
    if t.root in _NUMBER:
        return NUMBER
    if t.root in STRINGS:
        return TEXT
    if t.root in BINARIES:
        return BYTES
    if t.root == "DECIMAL":
        assert t.precision is not None
        return SMALL_DECIMAL if t.precision <= COMPACT_DIGITS else WIDE_DECIMAL
    assert t.precision is not None, f"{t} has no BinaryRow form here"
    return MILLIS if t.precision <= COMPACT_PRECISION else MILLIS_NANOS


def reserved_bytes(form: int) -> int:
    """Return the bytes that every value takes in the variable part, null included."""
    return {WIDE_DECIMAL: DECIMAL_BYTES, MILLIS_NANOS: 8}.get(form, 0)


@lru_cache(maxsize=1024)
def _forms(types: tuple[DataType, ...]) -> tuple[tuple[int, struct.Struct, int], ...]:
    """Return (form, struct of a number, scale) for each type. Nested types have only nulls, which fit any form."""
    return tuple(
        (form_of(t) if not t.children else NUMBER, _NUMBER.get(t.root, _LONG), t.scale or 0) for t in types
    )


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """Return ``values`` as a stored BinaryRow, arity first. Values of nested types must be null.

    Clauses: META-4, META-5.
    """
    arity = len(types)
    assert len(values) == arity
    fixed = null_bytes(arity)
    row = bytearray(fixed + 8 * arity)
    slot = fixed
    for i, (value, (form, number, scale)) in enumerate(zip(values, _forms(tuple(types)), strict=True)):
        if value is None:
            row[(i + 8) >> 3] |= 1 << (i & 7)
            if form in (WIDE_DECIMAL, MILLIS_NANOS):
                _LENGTH_OFFSET.pack_into(row, slot, 0, len(row))
                row += bytes(reserved_bytes(form))
        elif form == NUMBER:
            number.pack_into(row, slot, value)
        else:
            _put(row, slot, form, scale, value)
        slot += 8
    return _ARITY.pack(arity) + row


def _put(row: bytearray, slot: int, form: int, scale: int, value: Any) -> None:
    """Store a value of any form but NUMBER."""
    if form in (TEXT, BYTES):
        data: bytes = value.encode() if form == TEXT else value
        if len(data) <= INLINE_BYTES:
            row[slot : slot + 8] = data.ljust(INLINE_BYTES, b"\0") + bytes([INLINE_MARK | len(data)])
            return
        _LENGTH_OFFSET.pack_into(row, slot, len(data), len(row))
        row += data.ljust((len(data) + 7) // 8 * 8, b"\0")
    elif form == SMALL_DECIMAL:
        _LONG.pack_into(row, slot, unscaled(value, scale))
    elif form == WIDE_DECIMAL:
        data = minimal_bytes(unscaled(value, scale))
        _LENGTH_OFFSET.pack_into(row, slot, len(data), len(row))
        row += data.ljust(DECIMAL_BYTES, b"\0")
    elif form == MILLIS:
        _LONG.pack_into(row, slot, value // NANOS_PER_MILLI)
    else:
        millis, nanos = divmod(value, NANOS_PER_MILLI)
        _LENGTH_OFFSET.pack_into(row, slot, nanos, len(row))
        row += _LONG.pack(millis)


def unscaled(value: Decimal, scale: int) -> int:
    """Return ``value`` times ten to the ``scale``, which is an integer."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + scale
    magnitude = int("".join(map(str, digits)) or "0")
    if shift < 0:
        magnitude, rest = divmod(magnitude, 10**-shift)
        assert not rest, f"{value} has more than {scale} decimal places"
    else:
        magnitude *= 10**shift
    return int(-magnitude if sign else magnitude)


def minimal_bytes(number: int) -> bytes:
    """Return the shortest big-endian two's complement of ``number``, at least one byte."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


EMPTY_ROW: Final = encode_row((), ())


def arity_of(data: bytes) -> int:
    """Return the number of values that a stored BinaryRow declares. Clauses: META-4."""
    return int.from_bytes(data[: _ARITY.size], "big")


def number_dtype(t: DataType) -> np.dtype[Any] | None:
    """Return the numpy type of a value that is a number in its slot, None for values stored in another way."""
    number = None if t.children else _NUMBER.get(t.root)
    return None if number is None else np.dtype(number.format)


def decode_row(
    data: bytes, types: Sequence[DataType], *, at: str, only: Collection[int] | None = None
) -> tuple[Any, ...]:
    """Return the values of a stored BinaryRow, None for null. Raises CorruptFileError.

    ``only``: the numbers of the fields to decode, None for all; the others are returned as None.

    The layout of the variable part is not checked, because writers differ in whether a null has room there; every
    reference into it must stay inside. Values of nested types must be null. Clauses: META-4.
    """
    arity = len(types)
    fixed = 4 + null_bytes(arity)
    least = fixed + 8 * arity
    if len(data) < least or len(data) % 8 != 4:
        expected = f"{least} bytes or more: 4, then a multiple of 8"
        raise CorruptFileError("row length", at=at, expected=expected, found=len(data))
    if _ARITY.unpack_from(data)[0] != arity:
        raise CorruptFileError("row arity", at=at, expected=arity, found=_ARITY.unpack_from(data)[0])
    header = int.from_bytes(data[4:fixed], "little")
    if header & 0xFF > GREATEST_ROW_KIND or header >> (8 + arity):
        raise CorruptFileError(
            "row header", at=at, expected="a row kind and a null bit per field", found=data[4:fixed].hex()
        )
    values: list[Any] = [None] * arity
    chosen = range(arity) if only is None else only
    kinds = [types[i] for i in chosen]
    for i, t, (form, number, scale) in zip(chosen, kinds, _forms(tuple(kinds)), strict=True):
        if header >> (8 + i) & 1:
            continue
        slot = data[fixed + 8 * i : fixed + 8 * i + 8]
        try:
            if t.children:
                raise ValueError("null")
            values[i] = _number(slot, number) if form == NUMBER else _get(data, least, slot, form, scale, t)
        except ValueError as error:
            expected = f"a {t}: {error}"
            raise CorruptFileError(f"row field {i}", at=at, expected=expected, found=slot.hex()) from None
    return tuple(values)


def _number(slot: bytes, number: struct.Struct) -> Any:
    """Return the number in a slot. Raises ValueError if the rest of the slot is not zero."""
    if any(slot[number.size :]):
        raise ValueError("zero bytes after the number")
    (value,) = number.unpack_from(slot)
    if value is True and slot[0] != 1:
        raise ValueError("0 or 1")
    return value


def _get(data: bytes, least: int, slot: bytes, form: int, scale: int, t: DataType) -> Any:
    """Return a value of any form but NUMBER. Raises ValueError, whose text is what was expected."""
    if form == MILLIS:
        return _LONG.unpack(slot)[0] * NANOS_PER_MILLI
    if form == SMALL_DECIMAL:
        return _decimal(_LONG.unpack(slot)[0], scale, t)
    if form in (TEXT, BYTES) and slot[7] & INLINE_MARK:
        length = slot[7] & ~INLINE_MARK
        if length > INLINE_BYTES or any(slot[length:INLINE_BYTES]):
            raise ValueError(f"at most {INLINE_BYTES} bytes, then zeros")
        found = slot[:length]
        return found.decode() if form == TEXT else found
    low, offset = _LENGTH_OFFSET.unpack(slot)
    length = 8 if form == MILLIS_NANOS else low
    start = 4 + offset
    if not (length >= 0 and least <= start and start + length <= len(data)):
        raise ValueError("bytes inside the variable part")
    found = data[start : start + length]
    if form == MILLIS_NANOS:
        if not 0 <= low < NANOS_PER_MILLI:
            raise ValueError("nanoseconds within a millisecond")
        return _LONG.unpack(found)[0] * NANOS_PER_MILLI + low
    if form == WIDE_DECIMAL:
        if not 1 <= length <= DECIMAL_BYTES:
            raise ValueError(f"1 to {DECIMAL_BYTES} bytes")
        return _decimal(int.from_bytes(found, "big", signed=True), scale, t)
    if length <= INLINE_BYTES:
        raise ValueError(f"bytes in the slot, as there are at most {INLINE_BYTES}")
    return found.decode() if form == TEXT else found


def _decimal(number: int, scale: int, t: DataType) -> Decimal:
    assert t.precision is not None
    if abs(number) >= 10**t.precision:
        raise ValueError(f"at most {t.precision} digits")
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


FEW_ROWS: Final = 6
"""Up to which Python takes less time than numpy: 4 us a row, against 20 us for numbers and 50 for strings."""

Integers = npt.NDArray[np.int64]
Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]
"""n values of a field, and which of them are known; the others may be anything."""


def decode_column(
    rows: Sequence[bytes], types: Sequence[DataType], field: int, *, at: Sequence[str]
) -> Column:
    """Return the values of ``field`` in n rows of ``types``. ``at``: where each row is, for errors.

    Numbers are in an array of their own type, others in one of objects. Raises CorruptFileError as `decode_row` does.
    """
    if len(rows) <= FEW_ROWS:
        values = [decode_row(row, types, at=at[i], only=(field,))[field] for i, row in enumerate(rows)]
        return column_of(values, types[field])
    fixed = 4 + null_bytes(len(types))
    least = fixed + 8 * len(types)
    head = b"".join([row[:least] for row in rows])
    if len(head) != least * len(rows):
        _refuse(rows, types, field, at)
    table = np.frombuffer(head, np.uint8).reshape(len(rows), least)
    header = table[:, 4:fixed]
    known = (header[:, (8 + field) >> 3] >> (field & 7) & 1) == 0
    dtype = number_dtype(types[field])
    slots = np.ascontiguousarray(table[:, fixed + 8 * field : fixed + 8 * field + 8])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    bits = ((1 << (8 + len(types))) - 1).to_bytes(fixed - 4, "little")
    right = ~(header & ~np.frombuffer(bits, np.uint8)).any(axis=1)
    right &= (lengths % 8 == 4) & (header[:, 0] <= GREATEST_ROW_KIND)
    right &= (table[:, :4] == np.frombuffer(len(types).to_bytes(4, "big"), np.uint8)).all(axis=1)
    if dtype is not None:
        right &= ~known | ~slots[:, dtype.itemsize :].any(axis=1)
        if dtype == np.bool_:
            right &= ~known | (slots[:, 0] <= 1)
    if not bool(right.all()):
        _refuse(rows, types, field, at)
    if dtype is not None:
        return np.ascontiguousarray(slots[:, : dtype.itemsize]).view(dtype)[:, 0], known
    found = np.empty(len(rows), object)
    if not types[field].children and form_of(types[field]) in (TEXT, BYTES):
        is_text = form_of(types[field]) == TEXT
        try:
            for i, value in _strings(rows, np.flatnonzero(known), lengths, slots, fixed + 8 * field, least):
                found[i] = value.decode() if is_text else value
        except ValueError:
            _refuse(rows, types, field, at)
        return found, known
    for i in np.flatnonzero(known).tolist():
        found[i] = decode_row(rows[i], types, at=at[i], only=(field,))[field]
    return found, known


def column_of(values: Sequence[Value], kind: DataType) -> Column:
    """Return ``values`` of a type, None where they are not known, as `decode_column` does."""
    known = np.array([value is not None for value in values], bool)
    found = np.zeros(len(values), number_dtype(kind) or object)
    for i, value in enumerate(values):
        if value is not None:
            found[i] = value
    return found, known


def _strings(
    rows: Sequence[bytes],
    known: Integers,
    lengths: Integers,
    slots: npt.NDArray[np.uint8],
    slot: int,
    least: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a field, and the number of the row, for the rows ``known``. Raises ValueError for damage.

    ``slots``: of all rows; in each the slot begins at ``slot``, and the variable part at ``least``.
    """
    slots = slots[known]
    counts, places = slots.view("<i4").astype(np.int64).T
    inline = slots[:, INLINE_BYTES] >= INLINE_MARK
    counts = np.where(inline, slots[:, INLINE_BYTES] & ~np.uint8(INLINE_MARK), counts)
    starts = np.where(inline, slot, 4 + places)
    behind = (slots[:, :INLINE_BYTES] != 0) & (np.arange(INLINE_BYTES) >= counts[:, None])
    short = inline & (counts <= INLINE_BYTES) & ~behind.any(axis=1)
    long = ~inline & (counts > INLINE_BYTES) & (starts >= least) & (starts + counts <= lengths[known])
    if not bool((short | long).all()):
        raise ValueError("a string outside of its row")
    for i, start, end in zip(known.tolist(), starts.tolist(), (starts + counts).tolist(), strict=True):
        yield i, rows[i][start:end]


def _refuse(rows: Sequence[bytes], types: Sequence[DataType], field: int, at: Sequence[str]) -> None:
    """Raise what `decode_row` raises for the first row that is damaged."""
    for row, place in zip(rows, at, strict=True):
        decode_row(row, types, at=place, only=(field,))
    raise CorruptFileError("rows", at=at[0], expected="rows that can be decoded", found="others")
