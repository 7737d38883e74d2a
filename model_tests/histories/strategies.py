"""Strategies for histories: universes so small that steps meet.

Four keys, three values, batches of one to three changes; a bucket or two; triggers and levels at which
every kind of pick happens within a dozen steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pktable_conform.judge.history import BULK, SHAPES, Changes, History
from pktable_spec.interface import Comparison, Query, Shape

# Prefixes of each other, of different length in the BinaryRow, and in an order that UTF-16 has otherwise.
STRING_KEYS = ("a", "ab", "ab\uffee", "ab\U0001f600")

KEYS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "int": ((-1,), (0,), (1,), (2,)),
    "string": tuple((key,) for key in STRING_KEYS),
    "composite": ((1, "a"), (1, "ab"), (2, "a"), (2, "a long one")),
    "partitioned": (("x", 1), ("x", 2), ("y", 1), ("y", 2)),
    "moving": ((1, "x"), (1, "y"), (2, "x"), (2, "y")),
}
VALUES = ("a", "b", None, BULK)

SEQUENCE_FIELD = "sequence.field"

OPTIONS: dict[str, tuple[str, ...]] = {
    "bucket": ("1", "2", "1", "2", "-1", "2", "-1", "60000"),  # the last: numbers that need more than 15 bits
    "dynamic-bucket.target-row-num": ("2", "1", "3"),
    "dynamic-bucket.initial-buckets": ("1", "1", "2"),
    "num-sorted-run.compaction-trigger": ("2", "3", "4", "5"),
    "num-levels": ("4", "5", "3", "2"),
    "target-file-size": ("128 mb", "4 kb", "2 kb"),
    "parquet.block.row.count.limit": ("2", "3", "4"),
    "parquet.page.row.count.limit": ("", "1", "2"),
    "deletion-vectors.bitmap64": ("false", "true"),
    "compaction.size-ratio": ("1", "100"),
    "compaction.max-size-amplification-percent": ("200", "40"),
    "compaction.delete-ratio-threshold": ("1", "0.5", "0.3", "0"),
    "file.block-size": ("128 mb", "1 kb"),
    "metadata.stats-mode": ("truncate(16)", "full", "none"),
    "manifest.merge-min-count": ("30", "2", "3"),
    "manifest.target-file-size": ("8 mb", "4 kb"),
    "manifest.full-compaction-threshold-size": ("16 mb", "8 kb"),
    "changelog-producer": ("none", "lookup", "lookup", "input", "full-compaction"),
    "full-compaction.delta-commits": ("", "", "", "", "3"),
    "changelog.num-retained.max": ("", "4", "8"),
    SEQUENCE_FIELD: ("", "", "v"),
    f"{SEQUENCE_FIELD}.sort-order": ("ascending", "descending"),
}

IGNORED = {"ignore-delete": "true"}
ENGINES: tuple[Mapping[str, str], ...] = (
    {},
    IGNORED,
    {"merge-engine": "partial-update", **IGNORED},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "max", **IGNORED},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value", **IGNORED},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "first_non_null_value", **IGNORED},
    {
        "merge-engine": "aggregation",
        "fields.default-aggregate-function": "max",
        "fields.w.aggregate-function": "sum",
        **IGNORED,
    },
    {"merge-engine": "first-row", "deletion-vectors.enabled": "false", **IGNORED},
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_value",
        "fields.w.aggregate-function": "sum",
    },
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_non_null_value",
        "fields.w.aggregate-function": "sum",
    },
    {"merge-engine": "partial-update", "fields.v.sequence-group": "w"},
    {"merge-engine": "partial-update", "fields.w.sequence-group": "v"},
    {
        "merge-engine": "partial-update",
        "fields.v.sequence-group": "w",
        "fields.w.aggregate-function": "sum",
    },
    {"merge-engine": "partial-update", "fields.v.sequence-group": "w", **IGNORED},
)
"""The merge engines that are drawn, as table options."""


def retractions_have_values(options: Mapping[str, str]) -> bool:
    """Return whether the values of a retraction matter: they say how new it is, or are taken back."""
    computes = options.get("merge-engine") in ("partial-update", "aggregation")
    return SEQUENCE_FIELD in options or (computes and not options.keys() >= IGNORED.keys())


def tables() -> SearchStrategy[History]:
    """Draw a table: shape and options, no operations yet."""
    drawn = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()})
    options = drawn.map(lambda found: found if found[SEQUENCE_FIELD] else without_order(found))
    options = options.map(lambda found: {name: value for name, value in found.items() if value})
    return st.builds(History, st.sampled_from(list(SHAPES.values())), options)


def without_order(options: Mapping[str, str]) -> dict[str, str]:
    """Return options without ``sequence.field`` and what belongs to it."""
    return {name: value for name, value in options.items() if not name.startswith(SEQUENCE_FIELD)}


def fitted(table: History) -> History:
    """Return a drawn table that can be made: keys that move need dynamic buckets, and some options do without them.

    All keys of a partition have room in the buckets of their assigners. So one that comes back has the same bucket.
    """
    if not table.shape.moves_keys:
        return table
    options = {**without_order(table.options), "bucket": "-1"}
    options.pop("dynamic-bucket.target-row-num", None)
    if options.get("merge-engine", "deduplicate") == "deduplicate":
        options.pop("ignore-delete", None)
    return replace(table, options=options)


def plain(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that any implementation knows: of a fixed number of buckets, and of writes that count none."""
    others = ("full-compaction.delta-commits", "dynamic-bucket.")
    known = {name: value for name, value in options.items() if not name.startswith(others)}
    return {**known, "bucket": "1"} if options.get("bucket") == "-1" else known


KINDS = ("+I", "-D", "+U", "-U")
Drawn: TypeAlias = list[int]
"""A batch before its table is known: each number stands for the kind, key and value of a change.

One number draws faster than three, and Hypothesis shrinks it to an insert of the first key.
"""

BATCHES: SearchStrategy[Drawn] = st.lists(
    st.integers(0, len(KINDS) * 4 * len(VALUES) - 1), min_size=1, max_size=3
)
UPSERTS: SearchStrategy[Drawn] = st.lists(st.integers(0, 4 * len(VALUES) - 1), min_size=1, max_size=3)
DELETES: SearchStrategy[Drawn] = st.lists(
    st.integers(4 * len(VALUES), 4 * len(VALUES) + 3), min_size=1, max_size=2, unique=True
)
PAIRS: SearchStrategy[Drawn] = st.lists(
    st.integers(0, len(KINDS) * 4 * len(VALUES) - 1), min_size=2, max_size=3
)
RACING: SearchStrategy[Drawn] = st.lists(st.integers(0, 4 * len(VALUES) - 1), min_size=2, max_size=3)
KEY_NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True)
# From the end: the checksum as often as all the rest.
BITS = st.integers(0, 31) | st.integers(32, 9_999)
DAMAGES = st.integers(0, 999)
FULL_FROM = st.integers(1, 20)
SELDOM = st.sampled_from((False,) * 3 + (True,))
HANDLES = 3
QUERY_NUMBERS = st.integers(0, HANDLES * 1_000_000 - 1)
TAGS = ("spring", "autumn")
RETAINED = st.integers(1, 3)


def changes(shape: Shape, drawn: Drawn, *, valued: bool = False) -> Changes:
    """Return a drawn batch as changes of a table of this shape. ``valued``: whether retractions have a value."""
    return tuple(_change(KEYS[shape.name], number, valued) for number in drawn)


def _change(keys: tuple[tuple[Any, ...], ...], number: int, valued: bool) -> tuple[str, tuple[Any, ...]]:
    number, key = divmod(number, 4)
    kind, value = divmod(number, len(VALUES))
    valued = valued or KINDS[kind].startswith("+")
    return KINDS[kind], (*keys[key], VALUES[value] if valued else None)


def handle(number: int) -> int:
    """Return the number of the handle that an operation goes through, by the number of its query."""
    return number // 1_000_000


def query(shape: Shape, number: int) -> Query:
    """Return a query by number: a projection, a limit of 1, 2 or many, and up to two conditions.

    0 is the whole table. One number draws faster than its parts; `handle` is another part of the same number.
    """
    number %= 1_000_000
    projections = (None, (shape.primary_key[-1],), ("v",), ("w", "v"), tuple(reversed(shape.names)))
    number, projection = divmod(number, len(projections))
    number, limit = divmod(number, 4)
    possible = _comparisons(shape)
    number, first = divmod(number, len(possible) + 1)
    second = number % (2 * len(possible))
    chosen = [possible[at - 1] for at in (first,) if at] + [
        possible[at] for at in (second,) if at < len(possible)
    ]
    return Query(tuple(chosen) if first else (), projections[projection], (None, 1, 2, 9)[limit])


@cache
def _comparisons(shape: Shape) -> tuple[Comparison, ...]:
    literals: dict[str, list[int | str]] = {"v": ["a", "b"], "w": [3]}
    for at, name in enumerate(shape.primary_key):
        literals[name] = sorted({key[at] for key in KEYS[shape.name]})
    return tuple(
        Comparison(name, operator, literal)
        for name, found in literals.items()
        for literal in found
        for operator in ("=", "<>", "<", "<=", ">", ">=")
    )
