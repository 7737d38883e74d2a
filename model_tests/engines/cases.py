"""Merge engines with options and columns, each with what it means and the records that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pktable.catalog.definitions import parse_definition
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import arrow_field
from pktable.merge.engine import MergeEngine, engine_of
from pktable_spec.vocabulary import RowKind
from pyroaring import BitMap

from model_tests.engines import naive, theta
from model_tests.format.long_sets import to_bytes

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)
EVERY = tuple(RowKind)
SKETCHES = find_spec("datasketches") is not None
"""Whether the library for theta sketches is installed."""
ROWS = "ARRAY<ROW<p INT, q STRING>>"
VALUES: Mapping[str, Any] = {
    "INT": st.none() | st.integers(-3, 3),
    "BIGINT": st.none() | st.integers(-3, 3),
    "DOUBLE": st.none() | st.sampled_from([0.5, -1.0, 2.0, float("inf")]),
    "DECIMAL(6, 2)": st.none() | st.decimals(-9, 9, places=2, allow_nan=False),
    "STRING": st.none() | st.sampled_from(["", " ", "a", "b", "ä", "a" * 9]),
    "BOOLEAN": st.none() | st.booleans(),
    "ARRAY<INT>": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=2),
    ROWS: st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries({"p": st.none() | st.integers(0, 1), "q": st.none() | st.sampled_from("xy")}),
        max_size=3,
    ),
    "BYTES": st.none()
    | st.sets(st.sampled_from([0, 1, 7, 1 << 17])).map(lambda one: BitMap(one).serialize()),
    "VARBINARY(9999)": st.none()
    | st.sets(st.sampled_from([0, 1, 7, 1 << 17, (1 << 63) + 5, *(i << 40 for i in range(5))])).map(to_bytes),
    "VARBINARY(999)": st.none() | theta.sketches(),
    "MAP<STRING, INT>": st.none()
    | st.lists(
        st.tuples(st.sampled_from("pqr"), st.integers(0, 2)), max_size=2, unique_by=lambda one: one[0]
    ),
}


@dataclass(frozen=True)
class Case:
    """An engine with ``columns`` (SQL types by name, the key ``k`` aside) and ``options``.

    ``means``: what the records of a key come to. ``kinds``: those that it takes. ``vectors``: whether it works with
    deletion vectors.
    """

    name: str
    columns: Mapping[str, str]
    options: Mapping[str, str]
    means: naive.Meaning
    kinds: Sequence[RowKind] = ADDS
    vectors: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def removes(self) -> bool:
        """Whether a -D removes the row of its key, whatever the columns say. Clauses: MRG-17."""
        return any(name.endswith("remove-record-on-delete") for name in self.options)

    @property
    def ddl(self) -> str:
        return ", ".join(["k INT NOT NULL", *(f"{name} {kind}" for name, kind in self.columns.items())])

    @property
    def schema(self) -> TableSchema:
        fields = parse_definition(self.ddl)
        return TableSchema(0, tuple(fields), len(fields), (), ("k",), self.options, "", 0)

    @property
    def engine(self) -> MergeEngine:
        return engine_of(self.schema)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([arrow_field(field) for field in self.schema.fields])

    def records(self, *, keys: int, most: int) -> st.SearchStrategy[list[tuple[int, RowKind, naive.Row]]]:
        """Draw records of some keys, oldest first."""
        row = st.fixed_dictionaries({name: VALUES[kind] for name, kind in self.columns.items()})
        return st.lists(
            st.tuples(st.integers(0, keys - 1), st.sampled_from(list(self.kinds)), row),
            min_size=1,
            max_size=most,
        )


VARIANTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "distinct": ("collect", {"distinct": "true"}),
    "nested_update by p": ("nested_update", {"nested-key": "p"}),
    "nested_update by p and q": ("nested_update", {"nested-key": "p, q"}),
    "nested_update up to 2": ("nested_update", {"count-limit": "2"}),
}
"""The functions that plain Python knows by other names: the function, and the options of its column."""


def aggregation(
    name: str, functions: Mapping[str, tuple[str, str]], *, kinds: Sequence[RowKind] = ADDS, removes: bool = False,
    ignores: Sequence[str] = (),
) -> Case:  # fmt: skip
    """Return a case of ``functions``: (SQL type, function) by column."""
    options = {"merge-engine": "aggregation"}
    for column, (_, one) in functions.items():
        function, more = VARIANTS.get(one, (one, {}))
        options[f"fields.{column}.aggregate-function"] = function
        options |= {f"fields.{column}.{ending}": value for ending, value in more.items()}
    options |= {f"fields.{column}.ignore-retract": "true" for column in ignores}
    options |= {
        f"fields.{c}.list-agg-delimiter": "|" for c, (_, one) in functions.items() if one == "listagg"
    }
    if removes:
        options["aggregation.remove-record-on-delete"] = "true"
    means = partial(
        naive.aggregation, {c: one for c, (_, one) in functions.items()}, removes=removes, ignores=ignores
    )
    return Case(name, {c: kind for c, (kind, _) in functions.items()}, options, means, kinds)


PLAIN = {"a": "INT", "s": "STRING"}
GROUPED = {"a": "INT", "g": "INT", "b": "STRING", "h": "INT", "i": "INT", "n": "BIGINT", "z": "INT"}
GROUPS = {("g",): ("a",), ("h", "i"): ("b", "n")}
GROUP_OPTIONS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a",
    "fields.h,i.sequence-group": "b,n",
    "fields.n.aggregate-function": "sum",
}

CASES = (
    aggregation(
        "adds",
        {
            "f": ("INT", "first_value"),
            "fn": ("INT", "first_non_null_value"),
            "l": ("STRING", "last_value"),
            "ln": ("DOUBLE", "last_non_null_value"),
            "mx": ("STRING", "max"),
            "ms": ("STRING", "min"),
            "mn": ("DECIMAL(6, 2)", "min"),
            "p": ("BIGINT", "product"),
            "c": ("ARRAY<INT>", "collect"),
            "j": ("STRING", "listagg"),
            "t": ("BOOLEAN", "bool_and"),
            "o": ("BOOLEAN", "bool_or"),
        },
    ),
    aggregation(
        "retractions",
        {
            "a": ("INT", "sum"),
            "d": ("DECIMAL(6, 2)", "sum"),
            "l": ("INT", "last_value"),
            "n": ("STRING", "last_non_null_value"),
            "m": ("MAP<STRING, INT>", "merge_map"),
            "x": ("INT", "max"),
            "f": ("INT", "first_value"),
        },
        kinds=EVERY,
        ignores=("x", "f"),
    ),
    aggregation(
        "arrays",
        {
            "c": ("ARRAY<INT>", "collect"),
            "cr": (ROWS, "collect"),
            "d": ("ARRAY<INT>", "distinct"),
            "n": (ROWS, "nested_update"),
            "np": (ROWS, "nested_update by p"),
            "nq": (ROWS, "nested_update by p and q"),
        },
        kinds=EVERY,
    ),
    aggregation(
        "limits, bitmaps and sketches",
        {
            "n": (ROWS, "nested_update up to 2"),
            "r": ("BYTES", "rbm32"),
            "s": ("VARBINARY(9999)", "rbm64"),
            **({"t": ("VARBINARY(999)", "theta_sketch")} if SKETCHES else {}),
        },
    ),
    aggregation(
        "removals",
        {"a": ("INT", "sum"), "x": ("INT", "max")},
        kinds=(*ADDS, RowKind.DELETE),
        removes=True,
    ),
    Case(
        "partial-update",
        PLAIN,
        {"merge-engine": "partial-update"},
        naive.partial_update,
    ),
    Case(
        "partial-update with removals",
        PLAIN,
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        partial(naive.partial_update, removes=True),
        EVERY,
    ),
    Case(
        "partial-update ignoring deletions",
        PLAIN,
        {"merge-engine": "partial-update", "partial-update.ignore-delete": "true"},
        lambda records: naive.partial_update([one for one in records if one[0].is_add]),
        EVERY,
    ),
    Case(
        "sequence groups",
        GROUPED,
        GROUP_OPTIONS,
        partial(naive.partial_update, groups=GROUPS, functions={"n": "sum"}),
        EVERY,
    ),
    Case(
        "sequence groups with removals",
        GROUPED,
        {**GROUP_OPTIONS, "partial-update.remove-record-on-sequence-group": "g,i"},
        partial(naive.partial_update, groups=GROUPS, functions={"n": "sum"}, removing=("g", "i")),
        EVERY,
    ),
    Case(
        "first-row ignoring deletions",
        PLAIN,
        {"merge-engine": "first-row", "first-row.ignore-delete": "true"},
        lambda records: naive.first_row([one for one in records if one[0].is_add]),
        EVERY,
        vectors=False,
    ),
    Case("first-row", PLAIN, {"merge-engine": "first-row"}, naive.first_row, vectors=False),
    Case(
        "deduplicate ignoring deletions",
        PLAIN,
        {"merge-engine": "deduplicate", "ignore-delete": "true"},
        naive.deduplicate_ignoring_deletes,
        EVERY,
    ),
)
