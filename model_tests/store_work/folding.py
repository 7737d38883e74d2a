"""Scripts of merge engines: numbers at the limits of their types, orders far apart, and what an engine refuses.

What is drawn of the engines elsewhere has small values, so that they meet. Here each step writes a few large ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import pyarrow as pa

from model_tests.store_work.play import Play, changes

AGGREGATION: Final = {"merge-engine": "aggregation", "write-only": "true"}
PARTIAL: Final = {"merge-engine": "partial-update", "write-only": "true"}
LONG: Final = 1 << 63
Rows = Sequence[tuple[Any, ...]]


def _folded(play: Play, kind: str, function: str, *cases: Rows, **options: str) -> None:
    """Write the changes of each case to a key of its own, the first ones, then the second ones and so on.

    Read what a function of a column makes of them.
    """
    named = {f"fields.v.{name.replace('_', '-')}": value for name, value in options.items()}
    table = play.other(f"k INT, v {kind}", {**AGGREGATION, "fields.v.aggregate-function": function, **named})
    title = f"{function} of {kind}: {'; '.join(map(_spelled, cases))}"
    keyed = [[(op, key, value) for op, value in case] for key, case in enumerate(cases)]

    def write_and_read() -> pa.Table:
        for some in zip_longest(*keyed):
            table.write_changes(changes(table, [one for one in some if one]), row_kind="op")
        return table.to_arrow(fresh=True)

    play.tell(title, write_and_read)
    play.tell("compact", lambda: (table.compact(full=True), table.to_arrow())[1])


def _spelled(case: Rows) -> str:
    return ", ".join(f"{kind}{value!r}" for kind, value in case)


def _added(*values: Any) -> Rows:
    return [("+I", value) for value in values]


def sums_of_numbers(play: Play) -> None:
    """Sums near the limits of each type, whatever their parts, and those that no value of the type holds."""
    for kind, bits in (("TINYINT", 8), ("INT", 32), ("BIGINT", 64)):
        most = (1 << (bits - 1)) - 1
        _folded(play, kind, "sum", _added(most, None, -1), _added(-most, -1))
        _folded(play, kind, "sum", _added(most, 1))
        _folded(play, kind, "sum", _added(-most, -2))
    _folded(play, "BIGINT", "sum", _added(LONG - 1, LONG - 1, -LONG, 5))
    _folded(play, "BIGINT", "sum", [*_added(-LONG, 7), ("-U", -LONG), *_added(3)])
    _folded(play, "BIGINT", "sum", _added(*[LONG - 1] * 5))
    _folded(play, "DOUBLE", "sum", [*_added(0.5, None, 2.25), ("-D", 1.0)], _added(None, None))
    _folded(play, "FLOAT", "sum", _added(-0.0, None, 1.5, float("inf")))
    _folded(play, "DECIMAL(5, 2)", "sum", [*_added(Decimal("999.99")), ("-D", Decimal("0.99"))])
    _folded(play, "DECIMAL(5, 2)", "sum", _added(Decimal("999.99"), Decimal("0.01")))
    _folded(play, "DECIMAL(38, 0)", "sum", _added(Decimal("9" * 38), Decimal(1)))
    _folded(play, "DECIMAL(38, 0)", "sum", _added(Decimal("8" * 38), Decimal("8" * 38), Decimal("8" * 38)))


def products_of_numbers(play: Play) -> None:
    """Products near the limits."""
    _folded(play, "INT", "product", _added(1 << 16, None, -(1 << 15)))
    _folded(play, "INT", "product", _added(1 << 16, 1 << 15))
    _folded(play, "INT", "product", _added(1 << 16, -(1 << 15), -1))
    _folded(play, "BIGINT", "product", _added(1 << 31, 1 << 31, 2, 0), _added(1 << 32, -(1 << 31)))
    _folded(play, "BIGINT", "product", _added(1 << 32, 1 << 31))
    _folded(play, "DOUBLE", "product", _added(0.5, None, 3.0))
    _folded(play, "DOUBLE", "product", [*_added(2.0), ("-D", 2.0)])
    _folded(play, "FLOAT", "product", _added(None, None))


def choices(play: Play) -> None:
    """The greatest, the least, the first and the last of values far apart, and lists of texts."""
    _folded(play, "BIGINT", "max", _added(-LONG, None))
    _folded(play, "BIGINT", "min", _added(LONG - 1, None))
    _folded(play, "STRING", "max", _added("", "a", "aa", "é", None, "b"))
    _folded(play, "STRING", "min", _added("b", "a", None, "a", "aa"))
    _folded(play, "STRING", "first_value", _added(None, "a"))
    _folded(play, "STRING", "first_non_null_value", _added(None, "a", "b"))
    _folded(play, "STRING", "last_value", [*_added("a"), ("-D", "a")])
    _folded(play, "STRING", "last_non_null_value", [*_added("a", None), ("-D", "a")])
    listed = (_added(" ", "a", None, "\t", "b"), _added(" "), _added(" ", ""))
    _folded(play, "STRING", "listagg", *listed, list_agg_delimiter="|")
    _folded(play, "STRING", "max", [*_added("a"), ("-D", "a")])
    _folded(play, "STRING", "max", [*_added("a"), ("-D", "b")], ignore_retract="true")


def sequence_groups(play: Play) -> None:
    """The numbers that order a group may be far apart, equal, or null."""
    options = {**PARTIAL, "fields.g.sequence-group": "a", "fields.h,i.sequence-group": "b"}
    table = play.other("k INT, g BIGINT, a STRING, h DOUBLE, i STRING, b STRING, z INT", options)
    writes: Sequence[tuple[Any, ...]] = (
        ("+I", 1, LONG - 1, "great", 1.5, "x", "first", 1),
        ("+I", 1, -LONG, "least", 1.5, "y", "second", None),
        ("+I", 1, None, "none", None, "z", "third", 3),
        ("+I", 1, LONG - 1, "equal", 1.5, None, "fourth", None),
        ("-D", 1, None, None, 1.5, "y", None, None),
    )
    for one in writes:
        table.write_changes(changes(table, [one]), row_kind="op")
        play.tell(f"with {one[1:]}", lambda: table.to_arrow(fresh=True))
    play.tell("compact", lambda: (table.compact(full=True), table.to_arrow())[1])


def retractions_refused(play: Play) -> None:
    """An engine that cannot take a row back says so before anything is written."""
    engines: Sequence[Mapping[str, str]] = (
        {"merge-engine": "first-row"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "partial-update.ignore-delete": "true"},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "product"},
        {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "sequence.field": "s"},
        {
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_value",
            "sequence.field": "s",
            "ignore-delete": "true",
        },
        {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    )
    for options in engines:
        table = play.other("k INT, v INT, s INT", {**options, "write-only": "true"})
        table.upsert(changes(table, [("+I", 1, 1, 5), ("+I", 2, 2, 5)]).drop_columns(["op"]))
        for kind in ("-U", "-D"):
            write = partial(table.write_changes, changes(table, [(kind, 1, 1, 4)]), row_kind="op")
            play.tell(f"{kind} to {dict(options)}", write)
        play.tell("read", partial(table.to_arrow, fresh=True))


COLUMNS: Final = "k INT, v INT, r ARRAY<ROW<p INT, q ARRAY<INT>>>, m ARRAY<MAP<INT, INT>>, b VARBINARY(4)"
DEFINITIONS: Final[Sequence[Mapping[str, str]]] = (
    {"fields.r.aggregate-function": "collect", "fields.r.distinct": "true"},
    {"fields.m.aggregate-function": "collect", "fields.m.distinct": "true"},
    {"fields.m.aggregate-function": "collect", "fields.m.distinct": "maybe"},
    {"fields.r.aggregate-function": "nested_update", "fields.r.nested-key": "q"},
    {"fields.r.aggregate-function": "nested_update", "fields.r.nested-key": "x"},
    {"fields.r.aggregate-function": "nested_update", "fields.r.nested-key": " "},
    {"fields.r.aggregate-function": "nested_update", "fields.r.count-limit": "0"},
    {"fields.r.aggregate-function": "nested_update", "fields.r.count-limit": "many"},
    {"fields.r.aggregate-function": "nested_update", "fields.r.count-limit": "2", "fields.r.nested-key": "p"},
    {"fields.v.aggregate-function": "merge_map"},
    {"fields.v.aggregate-function": "bool_and"},
    {"fields.v.ignore-retract": "maybe"},
    {"fields.v.unknown": "1"},
    {"fields.v.aggregate-function": "sum", "sequence.field": "r"},
    {"fields.v.aggregate-function": "first_value", "sequence.field": "v"},
    {"fields.v.aggregate-function": "last_value", "sequence.field": "v"},
    {"aggregation.remove-record-on-delete": "perhaps"},
    {"fields.v.aggregate-function": "sum", "ignore-delete": "2"},
    {"bucket-key": "r"},
    {"bucket-key": "v"},
)


def definitions_refused(play: Play) -> None:
    """Options of an aggregation that fit no column, each refused before anything is written."""
    for options in DEFINITIONS:
        play.fresh()
        define = partial(play.define, COLUMNS, {"merge-engine": "aggregation", **options})
        play.step(f"{dict(options)}", define)


def definitions_of_others(play: Play) -> None:
    """Columns as Spark and Arrow define them; keys of append tables."""
    from pyspark.sql import types as st

    parts = st.StructType().add("p", st.IntegerType(), False).add("q", st.DecimalType(9, 2))
    struct = (
        st.StructType().add("k", st.LongType(), False).add("m", st.MapType(st.StringType(), parts, False))
    )
    struct = struct.add("a", st.ArrayType(st.TimestampType(), False)).add("t", st.TimestampNTZType())
    struct = struct.add("d", st.DateType(), metadata={"comment": "a day"})
    arrow = pa.schema([pa.field("k", pa.int16(), False), pa.field("v", pa.list_(pa.large_string()))])
    for columns in (struct, arrow, {"k": "INT", "v": pa.float32()}):
        play.fresh()
        play.create(columns, {})
    for options in ({"bucket": "2"}, {"bucket": "2", "bucket-key": "r"}, {"bucket-key": "v"}):
        play.fresh()
        play.step(f"{options}", partial(play.define, COLUMNS, options, primary_key=None))


def sets_that_do_not_fit(play: Play) -> None:
    """A united set must fit into its column."""
    from pyroaring import BitMap

    one, other = (BitMap(some).serialize() for some in ([1], [2, 3, 70_000]))
    _folded(play, f"VARBINARY({len(one)})", "rbm32", _added(one, one))
    table = play.other(
        f"k INT, v VARBINARY({len(one)})", {**AGGREGATION, "fields.v.aggregate-function": "rbm32"}
    )
    for found in (one, other[: len(one)]):
        table.write_changes(changes(table, [("+I", 1, found)]), row_kind="op")
    play.tell("a set that is cut", lambda: table.to_arrow(fresh=True))
    _folded(play, f"VARBINARY({len(other)})", "rbm32", _added(one, other))
    _folded(play, f"VARBINARY({len(other)})", "rbm32", _added(BitMap([900_000]).serialize(), other))
