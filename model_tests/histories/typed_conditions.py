"""Conditions on columns of any atomic type: their text, and what plain Python makes of them for a row.

A comparison with NULL is NULL, and so is what is made of it, unless another part decides. A comparison that is
alone is named apart, as metadata can rule out files by it.
"""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from model_tests.predicate.conditions import (
    OPERATORS,
    Text,
    column,
    compared,
    conjunction,
    constant,
    disjunction,
    like,
    member,
    negated,
    order_key,
)

STRINGS: Final = ("CHAR", "VARCHAR", "STRING")
PATTERNS: Final = ("%", "a%", "%b", "_", "a_", "", "_%_", "zz")
SHORT: Final = 16
"""Characters or bytes up to which the bounds in statistics are exact."""


class Comparison(NamedTuple):
    """A column compared with a value of its type."""

    column: str
    sign: str
    value: Any

    def is_ruled_out(self, values: Sequence[Any]) -> bool:
        """Return whether the least and the greatest of a file's values say that none of them fulfils it."""
        known = [order_key(value) for value in values if value is not None]
        if not known:
            return True
        low, high, value = min(known), max(known), order_key(self.value)
        beyond: Mapping[str, Callable[[], bool]] = {
            "=": lambda: bool(value < low or high < value),
            "<>": lambda: bool(low == value == high),
            "<": lambda: bool(low >= value),
            "<=": lambda: bool(low > value),
            ">": lambda: bool(high <= value),
            ">=": lambda: bool(high < value),
        }
        return beyond[self.sign]()


class Drawn(NamedTuple):
    """A condition. ``alone``: the comparison that it is, None if it is anything else."""

    text: Text
    alone: Comparison | None = None


def condition(kinds: Mapping[str, str], values: Mapping[str, Sequence[Any]], drawn: random.Random) -> Drawn:
    """Draw a condition on columns of the types ``kinds``. ``values``: those of each column."""
    first = _simple(kinds, values, drawn)
    if drawn.random() < 0.7:
        return first
    others = [first.text, _simple(kinds, values, drawn).text]
    return Drawn((disjunction if drawn.random() < 0.5 else conjunction)(others))


def _simple(kinds: Mapping[str, str], values: Mapping[str, Sequence[Any]], drawn: random.Random) -> Drawn:
    name = drawn.choice(sorted(kinds))
    kind, left = kinds[name], column(name)
    chosen = [drawn.choice(values[name]) for _ in range(2)]
    one, other = (_literal(kind, value) for value in chosen)
    form = drawn.randrange(12)
    if form < 5:
        sign = drawn.choice(sorted(OPERATORS))
        return Drawn(compared(sign, left, one), Comparison(name, sign, chosen[0]))
    if form == 5:
        return Drawn(compared("<=>", left, one))
    if form == 6:
        return Drawn(member(left, [one, other, constant("NULL", None)][: drawn.randint(2, 3)]))
    if form == 7:
        missing = drawn.random() < 0.5
        is_null = Text(
            f"{name} IS {'' if missing else 'NOT '}NULL", lambda row: (row[name] is None) == missing
        )
        return Drawn(is_null)
    if form == 8:
        inner = compared(drawn.choice(sorted(OPERATORS)), left, one)
        return Drawn(Text(f"NOT ({inner.sql})", lambda row: negated(inner.of(row))))
    if form == 9 and kind.startswith(STRINGS):
        return Drawn(like(left, drawn.choice(PATTERNS)))
    between = conjunction([compared(">=", left, one), compared("<=", left, other)])
    return Drawn(Text(f"{name} BETWEEN {one.sql} AND {other.sql}", between.of))


def exact_bounds(kind: str, values: Sequence[Any]) -> bool:
    """Return whether statistics hold the least and the greatest of ``values`` exactly.

    They leave out binaries. Of floats they bound nothing from above: NaN is greater than any bound.
    """
    if kind.startswith(("BINARY", "BYTES", "FLOAT", "DOUBLE")):
        return False
    return all(len(value) <= SHORT for value in values if isinstance(value, (str, bytes)))


def _literal(kind: str, value: Any) -> Text:
    """Return a value of a type as SQL."""
    if isinstance(value, bool):
        return constant(str(value).lower(), value)
    if kind.startswith("DECIMAL"):
        return constant(format(Decimal(value), "f"), value)
    if isinstance(value, float):
        return constant(f"CAST('{value!r}' AS {kind})", value)
    if isinstance(value, str):
        return constant(f"'{value}'", value)
    if isinstance(value, bytes):
        return constant(f"X'{value.hex()}'", value)
    if isinstance(value, dt.datetime):
        text = value.isoformat(sep=" ").replace("+00:00", "Z")
        return constant(f"TIMESTAMP{'' if value.tzinfo else '_NTZ'} '{text}'", value)
    if isinstance(value, dt.time):
        return constant(f"TIME '{value}'", value)
    if isinstance(value, dt.date):
        return constant(f"DATE '{value}'", value)
    return constant(str(operator.index(value)), value)
