"""An option of a table, and how its value is read: a `Parser` for each kind of value says in words what it takes.

Clauses: TBL-9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final, NamedTuple

from pktable_spec.errors import InvalidRequestError

SIZE: Final = re.compile(r"^\s*(\d{1,18})\s*([a-z]*)\s*$", re.I)
UNITS: Final = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb"), 1 << 10),
    **dict.fromkeys(("m", "mb"), 1 << 20),
    **dict.fromkeys(("g", "gb"), 1 << 30),
}
SPAN: Final = SIZE
SPANS: Final = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
NO_VALUE: Final = "no value"
JAVA_INT: Final = 1 << 31


class Parser(NamedTuple):
    """How a value is read. ``takes``: the values it allows, in words. ``parse`` raises InvalidRequestError."""

    takes: str
    parse: Callable[[str, str], object]


class StatsMode(NamedTuple):
    """``metadata.stats-mode``: none, full or truncate, and for truncate the length that is kept."""

    name: str
    truncate: int | None


class Effect(Enum):
    """The effect of an option. The value is its name for readers."""

    IMPLEMENTED = "implemented"
    HARMLESS = "ignored"
    WRITING = "writers refuse other values"
    READING = "readers refuse other values"
    MERGING = "merges refuse other values"
    EVERYTHING = "readers and writers refuse other values"


class Condition(NamedTuple):
    """Whether the other options leave an option without effect. ``words``: the same for people."""

    words: str
    holds: Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``name``: Paimon's; ``*`` in it stands for any text.

    ``default``: the value that counts if the option is absent, as text; None if there is none. ``description``: one
    sentence. ``field``: of `TableOptions`, which ``parser`` fills.
    ``values``: the only ones that are honoured, in upper or lower case; None if ``parser`` accepts or refuses.
    ``newer``: the name that replaced this one; if that is set, this one does not count.
    ``unless``: when any value is honoured, because it then has no effect.
    ``is_one_of_many``: whether the description is that of a subject of `HARMLESS_NAMES`.
    """

    name: str
    effect: Effect
    default: str | None
    description: str
    field: str | None = None
    parser: Parser | None = None
    values: Collection[str] | None = None
    newer: str | None = None
    unless: Condition | None = None
    is_one_of_many: bool = False

    def honours(self, value: str, options: Mapping[str, str]) -> bool:
        """Return whether ``value`` has the meaning that is implemented; parsing may still refuse it.

        ``options``: all those of the table.
        """
        if self.values is None or value.lower() in {one.lower() for one in self.values}:
            return True
        return self.unless is not None and self.unless.holds(options)

    @property
    def expected(self) -> str:
        """The values that are honoured, as an error names them."""
        found = " or ".join(sorted(filter(None, self.values or ()))) or "the option to be absent"
        return found if self.unless is None else f"{found}, unless {self.unless.words}"

    @property
    def takes(self) -> str:
        """The values that are honoured, as a page lists them."""
        if self.values is None:
            return self.parser.takes if self.parser else "any text"
        found = ", ".join(sorted(filter(None, self.values))) or NO_VALUE
        return found if self.unless is None else f"{found}; any if {self.unless.words}"

    def parse(self, value: str | None) -> object:
        """Return the value of the field, None where there is neither a value nor a default."""
        assert self.parser is not None, "only an option with a field is parsed"
        return None if value is None else self.parser.parse(self.name, value)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidRequestError(f"option {name}={value!r}: expected true or false")
    return value.lower() == "true"


def _integer(name: str, value: str) -> int:
    """Return an integer that Paimon, too, can hold."""
    try:
        number = int(value)
    except ValueError:
        raise InvalidRequestError(f"option {name}={value!r}: expected an integer") from None
    if not -JAVA_INT <= number < JAVA_INT:
        raise InvalidRequestError(
            f"option {name}={value!r}: expected an integer from {-JAVA_INT} to {JAVA_INT - 1}"
        )
    return number


def _positive(name: str, value: str) -> int:
    number = _integer(name, value)
    if number < 1:
        raise InvalidRequestError(f"option {name}={value!r}: expected a positive integer")
    return number


def _count(name: str, value: str) -> int:
    """Return a positive integer of 64 bits."""
    if not re.fullmatch(r"\s*\+?\d{1,19}\s*", value) or not 1 <= int(value) < 1 << 63:
        raise InvalidRequestError(f"option {name}={value!r}: expected a positive integer")
    return int(value)


def _limit(name: str, value: str) -> int | None:
    """Return a positive integer, None for -1."""
    return None if value.strip() == "-1" else _positive(name, value)


def _ratio(name: str, value: str) -> Fraction:
    """Return the exact value of a decimal number."""
    try:
        number = Fraction(repr(float(value)))
    except ValueError:  # also of nan and inf
        number = Fraction(-1)
    if not 0 <= number <= 1:
        raise InvalidRequestError(f"option {name}={value!r}: expected a number from 0 to 1")
    return number


def _size(name: str, value: str) -> int:
    """Return bytes."""
    found = SIZE.match(value)
    if not found or found[2].lower() not in UNITS:
        raise InvalidRequestError(f"option {name}={value!r}: expected a size such as 8 mb")
    return int(found[1]) * UNITS[found[2].lower()]


def _duration(name: str, value: str) -> int:
    """Return milliseconds."""
    found = SPAN.match(value)
    if not found or found[2].lower() not in SPANS:
        raise InvalidRequestError(f"option {name}={value!r}: expected a time such as 7 d")
    return int(found[1]) * SPANS[found[2].lower()]


def _stats_mode(name: str, value: str) -> StatsMode:
    if value in ("none", "full"):
        return StatsMode(value, None)
    found = re.match(r"^truncate\((\d{1,9})\)$", value)
    if not found:
        raise InvalidRequestError(f"option {name}={value!r}: expected none, full or truncate(N)")
    return StatsMode("truncate", int(found[1]))


def _level_words(name: str, value: str) -> tuple[tuple[int, str], ...]:
    """Return the levels that ``value`` gives words, with these; what is no such pair is left out."""
    pairs = [pair.partition(":")[::2] for pair in value.split(",")]
    return tuple((int(level), word.strip().lower()) for level, word in pairs if level.strip().isdecimal())


def _directory(name: str, value: str) -> str:
    """Return a path below the table, without a slash at either end."""
    path = value.strip("/")
    if not {"..", "."}.isdisjoint(path.split("/")) or "\0" in path or "\\" in path:
        raise InvalidRequestError(
            f"option {name}={value!r}: expected a path below the table, without . and .."
        )
    return path


BOOLEAN: Final = Parser("true, false", _boolean)
INTEGER: Final = Parser("an integer", _integer)
POSITIVE: Final = Parser("an integer from 1", _positive)
COUNT: Final = Parser("an integer from 1", _count)
LIMIT: Final = Parser("an integer from 1, -1 for none", _limit)
DURATION: Final = Parser("a time such as 7 d", _duration)
TRUTH: Final = Parser("true, false", lambda name, value: value.lower() == "true")
RATIO: Final = Parser("a number from 0 to 1", _ratio)
SIZE_BYTES: Final = Parser("a size, such as 8 mb", _size)
NAMES: Final = Parser(
    "column names, comma-separated",
    lambda name, value: tuple(part.strip() for part in value.split(",") if part.strip()),
)
TEXT: Final = Parser("any text", lambda name, value: value)
WORD: Final = Parser("a word", lambda name, value: value.lower())
LEVEL_WORDS: Final = Parser("a word for each level, as in `0:avro,5:parquet`", _level_words)
DIRECTORY: Final = Parser("a relative path", _directory)
STATS_MODE: Final = Parser("none, full, truncate(N)", _stats_mode)
