"""Build the directory name of a partition: partition values as text, special characters percent-encoded.

Clauses: META-9, META-31, META-81.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import NANOS_PER, TIMESTAMPS, DataType, Field, Value, java_time

DEFAULT_PARTITION: Final = "__DEFAULT_PARTITION__"
ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
"""Characters of a partition value that are percent-encoded in a path."""

SPACES_THAT_COUNT: Final = "\x85\u00a0\u2007\u202f"
"""Characters that are white space in Python and not in Java: a partition value of these is not blank."""


def partition_path(
    values: Sequence[Value],
    fields: Sequence[Field],
    *,
    legacy_names: bool = True,
    default_name: str = DEFAULT_PARTITION,
) -> str:
    """Return the directory of a partition, such as ``dt=2024-01-01/region=eu``; an empty text without partition keys.

    ``legacy_names``: the option ``partition.legacy-name``, by default true, under which a DATE is written
    as its number of days and a TIME as its milliseconds. ``default_name``: the name of null and blank values.
    Raises InvalidRequestError for a type or a time that cannot name a directory. Clauses: META-9, META-31, META-81.
    """
    return "/".join(
        f"{escaped(field.name)}={escaped(_spelled(value, field.type, legacy_names) or default_name)}"
        for value, field in zip(values, fields, strict=True)
    )


def escaped(text: str) -> str:
    """Return ``text`` as a part of a path, special characters percent-encoded. Clauses: META-31."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in text)


def _spelled(value: Value, t: DataType, legacy_names: bool) -> str:
    """Return a partition value as text, an empty one if it is null or blank."""
    if value is None:
        return ""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = value
    elif isinstance(value, Decimal):
        text = f"{value:f}"
    elif t.root == "DATE" and not legacy_names:
        assert isinstance(value, int)
        text = _after_epoch(days=value).date().isoformat()
    elif t.root == "TIME" and not legacy_names:
        assert isinstance(value, int)
        text = java_time(value, t.precision or 0)
    elif t.root in TIMESTAMPS:
        assert isinstance(value, int)
        text = _timestamp(value, t, legacy_names)
    elif isinstance(value, int):
        text = str(value)
    else:
        raise InvalidRequestError(
            f"a column of type {t} cannot be a partition key: its values cannot name a directory"
        )
    return "" if _is_blank(text) else text


def _is_blank(text: str) -> bool:
    return not text or (text.isspace() and not any(char in SPACES_THAT_COUNT for char in text))


def _timestamp(nanos: int, t: DataType, legacy_names: bool) -> str:
    """Return a timestamp as Java writes it: ISO with T, or with a space and at least ``precision`` digits."""
    seconds, nanos = divmod(nanos, NANOS_PER["s"])
    moment = _after_epoch(seconds=seconds)
    digits = f"{nanos:09d}"
    if not legacy_names:
        assert t.precision is not None
        fraction = digits[: t.precision] + digits[t.precision :].rstrip("0")
        return moment.isoformat(sep=" ") + ("." + fraction if fraction else "")
    # LocalDateTime.toString: seconds only if there are any, fractions in groups of three.
    if nanos:
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{moment.isoformat()}.{digits}"
    return moment.isoformat(timespec="seconds" if moment.second else "minutes")


def _after_epoch(*, days: int = 0, seconds: int = 0) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(days=days, seconds=seconds)
    except OverflowError:
        value = f"{days} days" if days else f"{seconds} seconds"
        raise InvalidRequestError(f"partition value {value} after 1970: the year is not 1 to 9999") from None
