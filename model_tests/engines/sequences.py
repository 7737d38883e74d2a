"""Tables with ``sequence.field``: their options, and what they mean to plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from hypothesis import strategies as st
from pktable_spec.vocabulary import RowKind

from model_tests.engines import naive
from model_tests.engines.cases import ADDS, EVERY, VALUES, Case

# Few, so that records tie, and come late.
SEQUENCES: Mapping[str, Any] = {
    "INT": st.none() | st.integers(0, 2),
    "DOUBLE": st.none() | st.sampled_from([0.0, -0.0, 1.5, float("-inf"), float("inf")]),
    "STRING": st.none() | st.sampled_from(["", "a", "a\0", "ä"]),
    "DECIMAL(6, 2)": st.none() | st.sampled_from([Decimal(-1), Decimal(0), Decimal(1)]),
    "BOOLEAN": st.none() | st.booleans(),
}


@dataclass(frozen=True)
class Sequenced(Case):
    """A `Case` whose records are ordered by the columns ``by``. ``means`` gets them oldest first."""

    by: tuple[str, ...] = ("s",)
    descending: bool = False

    def newer_last(self, records: Sequence[naive.Record]) -> list[naive.Record]:
        """Return records, in the order in which they were written, oldest first."""
        return sorted(records, key=lambda record: [self._place(record[1][name]) for name in self.by])

    def _place(self, value: Any) -> tuple[int, Any]:
        """Return what compares as the values of a column do: null is least, and -0.0 is below 0.0."""
        if value is None:
            return 0, 0
        if isinstance(value, str):
            value = int.from_bytes(value.encode().ljust(8, b"\0") + bytes([len(value.encode())]), "big")
        sign = -1 if isinstance(value, float) and str(value).startswith("-") else 0
        return 1, ((-value, -sign) if self.descending else (value, sign))

    def records(self, *, keys: int, most: int) -> st.SearchStrategy[list[tuple[int, RowKind, naive.Row]]]:
        drawn = {
            name: SEQUENCES[kind] if name in self.by else VALUES[kind] for name, kind in self.columns.items()
        }
        row = st.fixed_dictionaries(drawn)
        one = st.tuples(st.integers(0, keys - 1), st.sampled_from(list(self.kinds)), row)
        return st.lists(one, min_size=1, max_size=most)


def newest(records: Sequence[naive.Record]) -> naive.Row | None:
    kind, row = records[-1]
    return dict(row) if kind.is_add else None


def _case(
    name: str,
    columns: Mapping[str, str],
    options: Mapping[str, str],
    means: naive.Meaning,
    kinds: Sequence[RowKind] = EVERY,
    *,
    by: tuple[str, ...] = ("s",),
    descending: bool = False,
) -> Sequenced:
    given = {"sequence.field": ",".join(by), **options}
    if descending:
        given["sequence.field.sort-order"] = "descending"

    def ordered(records: Sequence[naive.Record]) -> naive.Row | None:
        return means(made.newer_last(records)) if records else None

    made = Sequenced(name, columns, given, ordered, kinds, by=by, descending=descending)
    return made


FUNCTIONS = {
    "a": "sum",
    "x": "max",
    "n": "min",
    "p": "product",
    "l": "last_value",
    "t": "bool_or",
    "b": "bool_and",
    "r": "rbm32",
    "m": "rbm64",
    "s": "last_value",
}
"""All functions that values may reach in any order, but for that of sketches, and the newest value."""
TYPES = {
    "a": "INT",
    "x": "STRING",
    "n": "DECIMAL(6, 2)",
    "p": "BIGINT",
    "l": "DOUBLE",
    "t": "BOOLEAN",
    "b": "BOOLEAN",
    "r": "BYTES",
    "m": "VARBINARY(9999)",
    "s": "INT",
}
AGGREGATION = {
    "merge-engine": "aggregation",
    **{f"fields.{name}.aggregate-function": one for name, one in FUNCTIONS.items() if name != "s"},
}

CASES = (
    _case("one column", {"s": "INT", "v": "INT"}, {}, newest),
    _case("descending", {"s": "INT", "v": "STRING"}, {}, newest, descending=True),
    _case("two columns", {"v": "INT", "s": "STRING", "q": "INT"}, {}, newest, by=("s", "q")),
    _case("floats", {"s": "DOUBLE", "v": "INT"}, {}, newest),
    _case("floats descending", {"s": "DOUBLE"}, {}, newest, descending=True),
    _case(
        "two columns descending",
        {"q": "BOOLEAN", "v": "INT", "s": "DECIMAL(6, 2)"},
        {},
        newest,
        by=("q", "s"),
        descending=True,
    ),
    _case(
        "ignoring deletions",
        {"s": "INT", "v": "INT"},
        {"ignore-delete": "true"},
        naive.deduplicate_ignoring_deletes,
    ),
    _case("aggregation", TYPES, AGGREGATION, partial(naive.aggregation, FUNCTIONS), ADDS),
    _case(
        "aggregation ignoring deletions",
        TYPES,
        {**AGGREGATION, "ignore-delete": "true"},
        lambda records: naive.aggregation(FUNCTIONS, [one for one in records if one[0].is_add]),
        EVERY,
    ),
)
