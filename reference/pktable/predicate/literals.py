"""Parse the text of literals, convert literals between types, and write times as text.

A conversion is exact, or the literal has no value in the other type. A timestamp without a zone is in UTC where an
instant is expected.

Clauses: RD-6.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Final

import numpy as np

from pktable.format.types import (
    BINARIES,
    FLOATS,
    INTEGER_BITS,
    NANOS_PER,
    STRINGS,
    TIMESTAMPS,
    DataType,
    Value,
)
from pktable.predicate.tree import BIGINT, BYTES, DOUBLE, INT, NULL, STRING, TIME, Literal

MOST_DIGITS: Final = 38
MOST_TEXT: Final = 400  # characters of a number; no double needs more
EXACT: Final = Context(prec=100, traps=[InvalidOperation])
UNTRAPPED: Final = Context(traps=[])
EPOCH: Final = date(1970, 1, 1)
SECOND: Final = NANOS_PER["s"]  # nanoseconds, as the two below
DAY: Final = 86_400 * SECOND
MICRO: Final = NANOS_PER["us"]
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I | re.ASCII)
EXACT_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
DATE_TEXT: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
TIMESTAMP_TEXT: Final = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?",
    re.I | re.ASCII,
)
TIME_TEXT: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,3})0*)?)?", re.ASCII)
FLOAT_WORD: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.I)
BOOLEAN_TEXTS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def general(t: DataType) -> DataType:
    """Return ``t`` without nullability and lengths; times get the precision of their unit (3, 6 or 9)."""
    if t.root in STRINGS:
        return STRING
    if t.root in BINARIES:
        return BYTES
    if t.root == "TIME":
        return TIME
    if t.root in TIMESTAMPS:
        return DataType(t.root, precision=-(-max(t.precision or 0, 1) // 3) * 3)
    return replace(t, nullable=True, length=None)


def decimal_type(precision: int, scale: int) -> DataType:
    return DataType("DECIMAL", precision=precision, scale=scale)


def number_literal(text: str) -> Literal | None:
    """Return an unsigned number as SQL reads it, None if it is none, has too many digits or is too large a double."""
    if len(text) > MOST_TEXT or not NUMBER.fullmatch(text):
        return None
    if "e" in text.lower():
        return None if math.isinf(float(text)) else Literal(float(text), DOUBLE)
    return decimal_literal(Decimal(text)) if "." in text else integer_literal(int(text))


def integer_literal(value: int) -> Literal | None:
    """Return an integer with the type that SQL gives it, None if it has too many digits."""
    for t in (INT, BIGINT):
        if fits(value, t):
            return Literal(value, t)
    return decimal_literal(Decimal(value))


def decimal_literal(value: Decimal) -> Literal | None:
    """Return an exact number with all the digits it is written with, None if they are more than 38."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > MOST_DIGITS:
        return None
    return Literal(_scaled(value, scale), decimal_type(precision, scale))


def fits(value: int, t: DataType) -> bool:
    bound = 1 << (INTEGER_BITS[t.root] - 1)
    return -bound <= value < bound


def _scaled(value: Decimal, scale: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), context=EXACT)


# Conversion to another type


def literal_as(literal: Literal, t: DataType) -> Literal | None:
    """Return the same value in type ``t``, None if that type does not have it; text is parsed."""
    value, found = literal.value, literal.type
    if value is None:
        return Literal(None, t)
    if found == t:
        return literal
    if isinstance(value, str):
        return parsed(value, t)
    converted = _same_value(value, found, t)
    return None if converted is None else Literal(converted, t)


def _same_value(value: Value, found: DataType, t: DataType) -> Value:
    if isinstance(value, (bool, bytes)):
        return None
    if found.root == "DATE" or found.root in TIMESTAMPS:
        assert isinstance(value, int)
        return _same_time(value * DAY if found.root == "DATE" else value, found, t)
    if found.root == "TIME":
        assert isinstance(value, int)
        return value if t.root == "TIME" and value % 10 ** max(3 - (t.precision or 0), 0) == 0 else None
    assert isinstance(value, (int, float, Decimal))
    if t.root == "DOUBLE":
        return float(value)
    if t.root == "FLOAT":
        return _as_float(float(value))
    if isinstance(value, float):
        return None
    if t.root in INTEGER_BITS:
        return int(value) if value == int(value) and fits(int(value), t) else None
    return _as_decimal(Decimal(value), t) if t.root == "DECIMAL" else None


def _same_time(nanos: int, found: DataType, t: DataType) -> int | None:
    if t.root == "DATE":
        return nanos // DAY if found.root == "TIMESTAMP" and nanos % DAY == 0 else None
    if t.root not in TIMESTAMPS or (t.root == "TIMESTAMP" and found.root == "TIMESTAMP_LTZ"):
        return None
    assert t.precision is not None
    return nanos if nanos % 10 ** (9 - t.precision) == 0 else None


def _as_float(value: float) -> float | None:
    narrow = nearest_float(value)
    return narrow if narrow == value or math.isnan(value) else None


def nearest_float(value: float) -> float:
    """Return the nearest value of type FLOAT."""
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return narrow


def _as_decimal(value: Decimal, t: DataType) -> Decimal | None:
    assert t.precision is not None
    assert t.scale is not None
    scaled = _scaled(value, t.scale)
    return scaled if scaled == value and len(scaled.as_tuple().digits) <= t.precision else None


# Parsing


def parsed(text: str, t: DataType) -> Literal | None:
    """Return ``text`` parsed as a value of type ``t``, None if it is not one."""
    text = text.strip()
    if t.root in TIMESTAMPS:
        found = timestamp(text)
        return literal_as(found, t) if found else None
    value: Value = None
    if t.root == "BOOLEAN":
        value = BOOLEAN_TEXTS.get(text.lower())
    elif t.root == "DATE":
        value = _days(text)
    elif t.root == "TIME":
        millis = _millis(text)
        return None if millis is None else literal_as(Literal(millis, TIME), t)
    elif t.root in FLOATS and FLOAT_WORD.fullmatch(text):
        value = float(text)
    elif t.root in FLOATS and NUMBER.fullmatch(text):
        near = float(text) if t == DOUBLE else nearest_float(float(text))
        is_zero = not re.search("[1-9]", re.split("[eE]", text)[0])
        value = near if math.isfinite(near) and (near == 0) == is_zero else None
    elif (
        (t.root in INTEGER_BITS or t.root == "DECIMAL") and NUMBER.fullmatch(text) and len(text) <= MOST_TEXT
    ):
        number = Decimal(text, UNTRAPPED)
        if number.is_finite() and -MOST_DIGITS <= number.adjusted() <= MOST_DIGITS:
            value = _same_value(number, NULL, t)
    return None if value is None else Literal(value, t)


def _days(text: str) -> int | None:
    """Return the days since the epoch of a date; month and day may be left out."""
    found = DATE_TEXT.fullmatch(text)
    if not found:
        return None
    try:
        return (date(int(found[1]), int(found[2] or 1), int(found[3] or 1)) - EPOCH).days
    except ValueError:
        return None


def _millis(text: str) -> int | None:
    """Return the milliseconds of a time of the day; the seconds may be left out."""
    found = TIME_TEXT.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in found.group(1, 2, 3)) if found else (24, 0, 0)
    if not found or hours > 23 or minutes > 59 or seconds > 59:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 1000 + int((found[4] or "").ljust(3, "0"))


def timestamp(text: str) -> Literal | None:
    """Return ``text`` parsed as a timestamp, None if it is not one.

    The timestamp is an instant if the text names a zone, else wall-clock time.
    """
    found = TIMESTAMP_TEXT.fullmatch(text.strip())
    days = _days(found[1]) if found else None
    if not found or days is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.group(2, 3, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    fraction = int((found[5] or "").ljust(9, "0"))
    nanos = days * DAY + (hours * 3600 + minutes * 60 + seconds) * SECOND + fraction
    if found[6] is None:
        return Literal(nanos, DataType("TIMESTAMP", precision=_precision(nanos)))
    return Literal(nanos - _zone_nanos(found[6]), DataType("TIMESTAMP_LTZ", precision=_precision(nanos)))


def _precision(nanos: int) -> int:
    """Return 6, or 9 for a time that is finer than microseconds."""
    return 9 if nanos % MICRO else 6


def as_spelled(literal: Literal, t: DataType) -> Literal:
    """Return text that is compared with type ``t``, a number or timestamp, as its value, which may be finer than ``t``.

    Any other literal is returned as it is.
    """
    if isinstance(literal.value, str):
        if t.root in TIMESTAMPS:
            found = timestamp(literal.value)
            if found and found.type.root == "TIMESTAMP":  # text that names no zone is in UTC
                return replace(found, type=replace(found.type, root=t.root))
            return found or literal
        if (t.root in INTEGER_BITS or t.root == "DECIMAL") and EXACT_NUMBER.fullmatch(literal.value.strip()):
            return decimal_literal(Decimal(literal.value.strip())) or literal
    return literal


def _zone_nanos(zone: str) -> int:
    """Return how far ahead of UTC a zone such as Z, +2 or -03:30 is."""
    found = re.fullmatch(r"([+-])(\d{1,2}):?(\d{2})?", zone)
    if not found:
        return 0
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return (-minutes if found[1] == "-" else minutes) * 60 * SECOND


def time_text(nanos: int) -> str:
    """Return wall-clock time as ISO text, with as many decimals as it has."""
    seconds, fraction = divmod(nanos, SECOND)
    text = str(np.datetime64(seconds, "s"))
    return text if not fraction else f"{text}.{fraction:09d}".rstrip("0")


def clock_text(millis: int) -> str:
    """Return a time of the day as ISO text, with as many decimals as it has."""
    return time_text(millis * NANOS_PER["ms"]).partition("T")[2]


def date_text(days: int) -> str:
    """Return a date as ISO text."""
    return str(np.datetime64(days, "D"))
