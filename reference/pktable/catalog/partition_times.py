"""Which partitions are older than a time, by what their values say. As in Paimon, a pattern and a formatter read them.

Clauses: STM-17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.catalog.arguments import duration_of
from pktable.catalog.state import TableState
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import array_of

AGE, STRATEGY, PATTERN, FORMATTER, MOST = (
    "partition.expiration-time",
    "partition.expiration-strategy",
    "partition.timestamp-pattern",
    "partition.timestamp-formatter",
    "partition.expiration-max-num",
)
VALUES_TIME: Final = "values-time"
PLAIN: Final = re.compile(
    r"(?P<y>\d{1,4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
)
"""A text that is a time without a formatter."""
PARTS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.S)
"""A text in quotes, a letter as often as it is repeated, or another character, in a formatter of Java."""
LENGTHS: Final = {"y": (4,), "u": (4,), **dict.fromkeys("MdHms", (1, 2)), "S": tuple(range(1, 10))}


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """How the time of a partition is read from its values. ``pattern``: None for the first of ``names``."""

    names: tuple[str, ...]
    pattern: str | None
    formatter: re.Pattern[str]

    @classmethod
    def of(cls, schema: TableSchema, pattern: str | None, formatter: str | None) -> PartitionTimes:
        """Return how a table is read; arguments that are None are as its options say. Raises InvalidRequestError."""
        if not schema.partition_keys:
            raise InvalidRequestError("expire_partitions: the table has no partitions")
        pattern = schema.options.get(PATTERN) if pattern is None else pattern
        formatter = schema.options.get(FORMATTER) if formatter is None else formatter
        for name, text in ((PATTERN, pattern), (FORMATTER, formatter)):
            if text is not None and not isinstance(text, str):
                raise InvalidRequestError(f"{name}: expected a text, found {text!r}")
        unknown = re.search(r"\$\w+", _named(schema.partition_keys).sub(" ", pattern or ""))
        if unknown:
            columns = ", ".join(schema.partition_keys)
            raise InvalidRequestError(
                f"{PATTERN}={pattern!r}: {unknown[0]} is no partition column; those are {columns}"
            )
        return cls(schema.partition_keys, pattern, PLAIN if formatter is None else _read_formatter(formatter))

    def time(self, values: Mapping[str, Any]) -> datetime | None:
        """Return the time that ``values`` of a partition by name say, None if they say none."""
        first = values[self.names[0]]
        if self.pattern is None and isinstance(first, date):
            return first if isinstance(first, datetime) else datetime(first.year, first.month, first.day)
        text = first if self.pattern is None else self._filled_in(self.pattern, values)
        found = None if text is None else self.formatter.fullmatch(str(text))
        if found is None:
            return None
        part = {name: int(number) for name, number in found.groupdict().items() if number and name != "S"}
        micros = int((found.groupdict().get("S") or "").ljust(6, "0")[:6])
        try:
            clock = (part.get("H", 0), part.get("m", 0), part.get("s", 0), micros)
            return datetime(part["y"], part["M"], part["d"], *clock)
        except ValueError:  # there is no such day
            return None

    def _filled_in(self, pattern: str, values: Mapping[str, Any]) -> str | None:
        """Return ``pattern`` with values in place of ``$name``, None if one of them is null."""
        named = _named(self.names)
        if any(values[name] is None for name in named.findall(pattern)):
            return None
        return named.sub(lambda found: str(values[found[1]]), pattern)


def _named(names: Sequence[str]) -> re.Pattern[str]:
    """Return what finds ``$name`` in a pattern: of two names that fit, the longer one."""
    return re.compile(r"\$(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")")


def _read_formatter(text: str) -> re.Pattern[str]:
    """Return what a formatter of Java takes, as far as it has numbers. Raises InvalidRequestError."""
    pattern, named = "", set()
    for part in PARTS.finditer(text):
        quoted, letter, other = part.groups()
        if letter is None:
            if other is not None and other in "[]{}#'":
                raise InvalidRequestError(
                    f"{FORMATTER}={text!r}: {other!r} is not supported, except in quotes"
                )
            pattern += re.escape(other if quoted is None else quoted.replace("''", "'") or "'")
            continue
        name, length = letter.replace("u", "y"), len(part[0])
        if length not in LENGTHS.get(letter, ()) or name in named:
            raise InvalidRequestError(
                f"{FORMATTER}={text!r}: {part[0]!r} is not supported; expected yyyy, MM, dd, HH, mm, ss and SSS, "
                "each once, and other letters in single quotes"
            )
        named.add(name)
        pattern += (
            f"(?P<{name}>\\d{{{length}}})" if length > 1 or letter == "S" else f"(?P<{name}>\\d{{1,2}})"
        )
    if not named >= {"y", "M", "d"}:
        raise InvalidRequestError(f"{FORMATTER}={text!r}: expected a year, a month and a day")
    return re.compile(pattern)


def _value(column: pa.Array[Any]) -> Any:
    """Return the one value of a column; a time as a wall clock, in microseconds. Raises OverflowError, ValueError."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    value = column[0].as_py()
    is_point = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone().replace(tzinfo=None) if is_point else value


def _count(text: str) -> int:
    """Return the value of `MOST`. Raises InvalidRequestError."""
    if not text.isdecimal():
        raise InvalidRequestError(f"{MOST}={text!r}: expected an integer from 1")
    return int(text)


def old_partitions(
    context: TableContext,
    now: datetime,
    *,
    expiration_time: str | timedelta | None,
    strategy: str | None,
    pattern: str | None,
    formatter: str | None,
    most: int | None,
) -> Callable[[TableState], dict[bytes, dict[str, str]]]:
    """Return what finds the partitions of a state that are to go: for each, its values as text, by name.

    ``now``: a wall clock. Arguments that are None are as the options of the table say. Raises InvalidRequestError.
    """
    schema, options = context.schema, context.schema.options
    times = PartitionTimes.of(schema, pattern, formatter)
    age = options.get(AGE) if expiration_time is None else expiration_time
    if age is None:
        raise InvalidRequestError(
            f"expire_partitions: expected expiration_time, or the option {AGE}; found neither"
        )
    try:
        limit = now - duration_of("expiration_time", age)
    except OverflowError:  # no time is so long ago
        limit = datetime.min
    strategy = options.get(STRATEGY, VALUES_TIME) if strategy is None else strategy
    if strategy != VALUES_TIME:
        raise InvalidRequestError(
            f"{STRATEGY}={strategy!r}: expected {VALUES_TIME}; remove partitions without a time by truncate(where=…)"
        )
    most = _count(options.get(MOST, "100")) if most is None else most
    if type(most) is not int or most < 1:
        raise InvalidRequestError(f"max_expires: expected 1 or more, found {most!r}")
    kinds = [field.type for field in schema.partition_fields]

    def find(state: TableState) -> dict[bytes, dict[str, str]]:
        found = {}
        for partition in {partition for partition, _ in state.files}:
            stored = decode_row(partition, kinds, at=context.root)
            try:
                values = {
                    field.name: _value(array_of([value], field.type))
                    for field, value in zip(schema.partition_fields, stored, strict=True)
                }
            except (OverflowError, ValueError):  # Python has no such time
                continue
            time = times.time(values)
            if time is not None and time < limit:
                texts = {name: "null" if one is None else str(one) for name, one in values.items()}
                found[partition] = (time, texts)
        oldest = sorted(found.items(), key=lambda item: (item[1][0], [*item[1][1].values()]))
        return {partition: texts for partition, (_, texts) in oldest[:most]}

    return find
