"""Which changes of a column's type lose nothing: every value of the old type is one of the new type.

Clauses: TBL-41.
"""

from __future__ import annotations

from typing import Final

from pktable.format.types import BINARIES, INTEGER_BITS, INTEGER_DIGITS, TIMESTAMPS, DataType

EXACT_BITS: Final = {"FLOAT": 24, "DOUBLE": 53}
"""Bits of an integer that the type holds exactly."""
MICROSECONDS: Final = 6
"""Digits of a second from which on Arrow counts nanoseconds, which end in the years 1677 and 2262."""


def loses_nothing(before: DataType, after: DataType) -> bool:
    """Return whether a column of type ``before`` may become one of ``after``, which is another type.

    Parts of nested types cannot change so. Neither can CHAR, whose values are filled up to its length, BINARY, nor a
    type to which readers do not convert. Nullability is ignored.
    """
    old, new = before.root, after.root
    if old in INTEGER_BITS and new in INTEGER_BITS:
        return INTEGER_BITS[old] < INTEGER_BITS[new]
    if old in INTEGER_BITS and new in EXACT_BITS:
        return INTEGER_BITS[old] <= EXACT_BITS[new]
    if new == "DECIMAL" and (old in INTEGER_BITS or old == "DECIMAL"):
        return _fits_decimal(before, after)
    if (old, new) == ("FLOAT", "DOUBLE"):
        return True
    if new in TIMESTAMPS and old in (new, "DATE"):
        return _fits_times(before, after)
    if new in ("VARCHAR", "STRING") and old in ("CHAR", "VARCHAR"):
        return after.length is None or (before.length or 0) + (old == "VARCHAR") <= after.length
    if new in ("VARBINARY", "BYTES") and old in BINARIES - {"BYTES"}:
        return after.length is None or (before.length or 0) < after.length
    return False


def _fits_times(before: DataType, after: DataType) -> bool:
    """Return whether a timestamp has more digits than a time or date, whose years Arrow's nanoseconds have, too."""
    if before.root == "DATE":
        return after.root == "TIMESTAMP" and (after.precision or 0) <= MICROSECONDS
    return (before.precision or 0) < (after.precision or 0) and (
        (after.precision or 0) <= MICROSECONDS or (before.precision or 0) > MICROSECONDS
    )


def _fits_decimal(before: DataType, after: DataType) -> bool:
    scale = before.scale or 0
    whole = INTEGER_DIGITS[before.root] if before.root != "DECIMAL" else (before.precision or 0) - scale
    room, places = (after.precision or 0) - (after.scale or 0), after.scale or 0
    return whole <= room and scale <= places and (before.root, whole, scale) != ("DECIMAL", room, places)
