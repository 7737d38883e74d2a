"""Histories of tables with columns of all types, in each format of data files, and the drawing of types and values.

There are two histories for each of `FORMATS`: one of writes, and one that compacts as well. They have a column of each
type of `VALUES`, and drawn ones in which ARRAY, MAP and ROW lie inside of each other, with nulls at any level. They are
drawn by a fixed seed, so that a name is always the same case. `part_for` leaves out what a runner does not write. NaN,
which some writers get into their statistics, has a history of its own, and so has a key of each type of `KEYS`, whose
hash is of more than the 8 bytes of a field.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from pktable_spec.interface import Scalar, Shape

from pktable_conform.judge.history import Changes, History, Operation
from pktable_conform.remote import NUMBERS
from pktable_conform.runner import FORMATS, PLAIN_TYPES, Unsupported

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "BOOLEAN": ("false", "true"),
    "TINYINT": ("-128", "0", "127"),
    "SMALLINT": ("-32768", "0", "32767"),
    "INT": ("-2147483648", "-1", "0", "2147483647"),
    "BIGINT": ("-9223372036854775808", "0", "9223372036854775807"),
    "FLOAT": ("ff800000", "bfc00000", "00000000", "3e800000", "7f7fffff"),
    "DOUBLE": ("fff0000000000000", "0000000000000000", "3fb999999999999a", "7fefffffffffffff"),
    "DECIMAL(9, 2)": ("-9999999.99", "0.00", "12.34"),
    "DECIMAL(38, 10)": ("-9999999999999999999999999999.0000000001", "0.0000000000", "1.0000000001"),
    "CHAR(3)": ("abc", "xyz"),
    "VARCHAR(20)": ("", "a", "twenty characters ok"),
    "STRING": ("", "a", "longer than seven bytes: é", "\uffee", "\U0001f600"),
    "BINARY(2)": ("0000", "ff00"),
    "VARBINARY(20)": ("", "00", "ff00ff00ff00ff00"),
    "BYTES": ("", "00", "61", "ff" * 40),
    "DATE": ("-25567", "0", "19782"),
    "TIME(3)": ("0", "1", "86399999"),
    "TIMESTAMP(3)": ("-1000000000", "0", "1704164645006000000"),
    "TIMESTAMP(6)": ("-1000000000", "0", "1704164645000006000"),
    "TIMESTAMP_LTZ(6)": ("-1000000000", "0", "1704164645000006000"),
}
"""Some values of each type that holds no other one, as text. Times before 1970 are whole seconds (META-76)."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "DECIMAL(30, 5)": (
        "-1234567890123456789.00001",
        "-1.00000",
        "0.00000",
        "0.00128",
        "99999999999999999999.50000",
    ),
    "TIMESTAMP(9)": ("-1000000000", "0", "1", "1704164645000006007", "1704164645001000000"),
}
"""Some keys of types whose values lie behind the fields of a BinaryRow."""

NAME: Final = "types-"
DEPTHS: Final = (1, *(2,) * 8, *(3,) * 4, 4)
"""How deep types lie in the drawn columns, at most."""
ROWS: Final = 8  # of a write
NULLS: Final = (0, 0.4)
"""How many of the values of a column or field are null: a library may go another way where none is."""
SEED: Final = 1


@dataclass(frozen=True)
class Kind:
    """A type as SQL text, and the types in it: of the element, of key and value, or of the fields."""

    sql: str
    parts: tuple[Kind, ...] = ()

    @property
    def root(self) -> str:
        return types_of(self.sql)[0]


def types_of(sql: str) -> list[str]:
    """Return the names of the types in a type, the outermost first. Its fields have names in lower case."""
    return re.findall("[A-Z_]+", sql)


def drawn_kind(drawn: random.Random, depth: int) -> Kind:
    """Draw a type, mostly a ROW. ``depth``: how many others it may lie in each other below it."""
    shape = "atom" if not depth else drawn.choices(("atom", "ROW", "ARRAY", "MAP"), (3, 5, 1, 1))[0]
    if shape == "atom":
        return Kind(drawn.choice(list(VALUES)))
    if shape == "ROW":
        parts = tuple(drawn_kind(drawn, depth - 1) for _ in range(drawn.randint(1, 3)))
        fields = ", ".join(f"{name} {part.sql}" for name, part in zip("abc", parts, strict=False))
        return Kind(f"ROW<{fields}>", parts)
    part = drawn_kind(drawn, depth - 1)
    if shape == "ARRAY":
        return Kind(f"ARRAY<{part.sql}>", (part,))
    return Kind(f"MAP<STRING, {part.sql}>", (Kind("STRING"), part))


def drawn_value(drawn: random.Random, kind: Kind, nulls: float) -> str | None:
    """Draw a value as the protocol spells it, null with the probability ``nulls``."""
    parts = _drawn_parts(drawn, kind, nulls)
    return as_json(parts) if isinstance(parts, list) else parts


def _drawn_parts(drawn: random.Random, kind: Kind, nulls: float) -> Any:
    """Draw a value, one of a nested type as a list of those in it."""
    if drawn.random() < nulls:
        return None
    if kind.root == "ROW":
        return [_drawn_parts(drawn, part, drawn.choice(NULLS)) for part in kind.parts]
    if kind.root == "ARRAY":
        return [_drawn_parts(drawn, kind.parts[0], nulls) for _ in range(drawn.randint(0, 3))]
    if kind.root == "MAP":
        return [[key, _drawn_parts(drawn, kind.parts[1], nulls)] for key in "pq"[: drawn.randint(0, 2)]]
    return drawn.choice(VALUES[kind.sql])


def as_json(parts: Any) -> str:
    """Return what is in a nested value as its text."""
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def histories() -> Iterator[tuple[str, History]]:
    """Yield the histories by name."""
    drawn = random.Random(SEED)
    kinds = [*map(Kind, VALUES), *(_nested(drawn, depth) for depth in DEPTHS)]
    columns = (("k", "INT"), *((f"c{at}", kind.sql) for at, kind in enumerate(kinds)), ("w", "INT"))
    shape = Shape("types", columns, ("k",))
    writes = [
        Operation("write", changes=_changes(drawn, kinds, first), write_only=True) for first in (0, ROWS // 2)
    ]
    for name in FORMATS:
        options = {"file.format": name}
        yield f"{NAME}{name}", History(shape, options, [*writes, Operation("reopen")])
        yield f"{NAME}{name}-compacted", History(shape, options, [*writes, Operation("compact", full=True)])
    numbers = Shape("types", (("k", "INT"), ("f", "FLOAT"), ("d", "DOUBLE"), ("w", "INT")), ("k",))
    rows = (0, "3e800000", "0000000000000000"), (1, "nan", "nan")
    operations = [Operation("write", changes=tuple(("+I", row) for row in rows), write_only=True)]
    yield f"{NAME}nan", History(numbers, {"file.format": FORMATS[0]}, operations)
    for kind, keys in KEYS.items():
        shape = Shape("types", (("k", kind), ("v", "STRING"), ("w", "INT")), ("k",))
        write = Operation("write", changes=tuple(("+I", (key, "a")) for key in keys), write_only=True)
        yield f"{NAME}key-{types_of(kind)[0].lower()}", History(shape, {"bucket": "7"}, [write])


def _nested(drawn: random.Random, depth: int) -> Kind:
    return next(kind for kind in iter(lambda: drawn_kind(drawn, depth), None) if kind.parts)


def _changes(drawn: random.Random, kinds: Sequence[Kind], first: int) -> Changes:
    """Draw the rows of a write, whose keys begin with ``first``."""
    columns = [range(first, first + ROWS), *(_drawn_column(drawn, kind) for kind in kinds)]
    return tuple(("+I", row) for row in zip(*columns, strict=True))


def _drawn_column(drawn: random.Random, kind: Kind) -> list[Scalar]:
    nulls = drawn.choice(NULLS)
    texts = [drawn_value(drawn, kind, nulls) for _ in range(ROWS)]
    return [text if text is None or kind.sql not in NUMBERS else int(text) for text in texts]


def part_for(history: History, writes: Mapping[str, Set[str]]) -> tuple[History, list[str]]:
    """Return what is left of a history for a runner, and the types that it lacks. ``writes``: as of `Supports`.

    Raises Unsupported for another format, and if it lacks so many types that no other than INT and STRING is left.
    """
    format = history.options.get("file.format", FORMATS[0])
    if format not in writes:
        raise Unsupported(f"writes of {format}")
    missing = {name: set(types_of(sql)) - writes[format] for name, sql in history.shape.columns}
    lacked = sorted(set().union(*missing.values()))
    for name in (name for name, lacks in missing.items() if lacks):
        history = without_column(history, name)
    if lacked and {type for _, sql in history.shape.columns for type in types_of(sql)} <= PLAIN_TYPES:
        raise Unsupported(f"writes of {', '.join(lacked)} in {format}")
    return history, lacked


def without_column(history: History, name: str) -> History:
    """Return a history without a column that is not ``w``, which rows do not give."""
    at = history.shape.names.index(name)
    columns = tuple(column for column in history.shape.columns if column[0] != name)
    operations = [
        replace(one, changes=tuple((kind, (*row[:at], *row[at + 1 :])) for kind, row in one.changes))
        for one in history.operations
    ]
    return replace(history, shape=replace(history.shape, columns=columns), operations=operations)
