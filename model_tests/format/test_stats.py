"""Statistics: every present value lies between them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.format.metadata import stats as stats_module
from pktable.format.metadata.stats import SimpleStats, collect_stats, cut, decode_stats, merge_stats
from pktable.format.types import DataType, Field, parse_columns, parse_type
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.format.strategies import array_of, atomic_types, same, values_of_type

BINARY = ("BINARY", "VARBINARY", "BYTES")


def table_of(values: list[Any], t: DataType) -> tuple[pa.Table, list[Field]]:
    return pa.table({"c": array_of(values, t)}), [Field(0, "c", t)]


def bounds(stats: SimpleStats, t: DataType) -> tuple[Any, Any, int | None]:
    return decode_stats(stats, [t], at="stats")[0]


def order(value: Any) -> Any:
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def columns() -> st.SearchStrategy[tuple[DataType, list[Any]]]:
    return atomic_types().flatmap(
        lambda t: st.tuples(st.just(t), st.lists(st.none() | values_of_type(t), max_size=8))
    )


@covers("META-6")
@given(columns())
@settings(max_examples=200)
def test_every_present_value_lies_between_minimum_and_maximum(column: tuple[DataType, list[Any]]) -> None:
    t, values = column
    table, fields = table_of(values, t)
    low, high, nulls = bounds(collect_stats(table, fields), t)
    present = [value for value in values if value is not None]
    assert nulls == len(values) - len(present)
    assert (low is None) == (high is None)
    if low is not None:
        assert all(order(low) <= order(value) <= order(high) for value in present)
    elif present and t.root not in BINARY:
        assert any(value != value or str(value)[:16] == "\U0010ffff" * 16 for value in present)


@covers("META-6")
@given(columns())
def test_large_tables_have_the_statistics_of_small_ones(column: tuple[DataType, list[Any]]) -> None:
    t, values = column
    table, fields = table_of(values, t)
    small = collect_stats(table, fields)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stats_module, "SMALL_ROWS", -1)
        assert collect_stats(table, fields) == small


@covers("META-6")
@given(st.sampled_from(["STRING", "BYTES"]), st.lists(st.none() | st.text(max_size=20), max_size=8))
def test_encoded_columns_have_the_statistics_of_plain_ones(name: str, texts: list[str | None]) -> None:
    t = parse_type(name)
    values = [text.encode() if text is not None and name == "BYTES" else text for text in texts]
    table, fields = table_of(values, t)
    encoded = pa.table({"c": table.column("c").combine_chunks().dictionary_encode()})
    assert collect_stats(encoded, fields) == collect_stats(table, fields)


@covers("META-6")
@given(columns(), st.integers(0, 8))
def test_statistics_of_parts_merge_to_those_of_the_whole(
    column: tuple[DataType, list[Any]], split: int
) -> None:
    t, values = column
    table, fields = table_of(values, t)
    whole = collect_stats(table, fields)
    parts = table[:split], table[split:]
    counts = [part.num_rows for part in parts]
    merged = merge_stats([collect_stats(part, fields) for part in parts], counts, fields)
    low, _, nulls = bounds(merged, t)
    if low is not None:
        assert merged == whole
    assert nulls == bounds(whole, t)[2]
    if t.root not in (*BINARY, "STRING", "CHAR", "VARCHAR", "FLOAT", "DOUBLE"):
        assert merged == whole


@covers("META-26")
@pytest.mark.parametrize(
    ("text", "unbounded", "bounded"), [("DOUBLE", math.nan, 1.0), ("STRING", "\U0010ffff" * 17, "a")]
)
def test_a_part_without_bounds_leaves_the_whole_without(text: str, unbounded: Any, bounded: Any) -> None:
    t = parse_type(text)
    parts = [collect_stats(*table_of([value], t)) for value in (unbounded, bounded)]
    for order_of_parts in (parts, parts[::-1]):
        assert bounds(merge_stats(order_of_parts, [1, 1], [Field(0, "c", t)]), t) == (None, None, 0)


@covers("META-6")
@pytest.mark.parametrize(("text", "value"), [("DOUBLE", 1.0), ("STRING", "a"), ("INT", 1)])
def test_a_part_of_nulls_alone_takes_no_bounds_away(text: str, value: Any) -> None:
    t = parse_type(text)
    parts = [collect_stats(*table_of(values, t)) for values in ([None, None], [value], [None])]
    assert bounds(merge_stats(parts, [2, 1, 1], [Field(0, "c", t)]), t) == (value, value, 3)
    assert bounds(merge_stats(parts[::2], [2, 1], [Field(0, "c", t)]), t) == (None, None, 3)


def test_null_counts_that_a_part_does_not_have_are_unknown_in_the_whole() -> None:
    table, fields = table_of([1], parse_type("INT"))
    known = collect_stats(table, fields)
    for unknown in (None, (None,)):
        merged = merge_stats(
            [known, SimpleStats(known.min_values, known.max_values, unknown)], [1, 1], fields
        )
        assert bounds(merged, fields[0].type) == (1, 1, None)


@covers("META-25")
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("Two roads diverged", "Two roads diverged", ("Two roads diverg", "Two roads diverh")),
        ("a" * 16, "a" * 16, ("a" * 16, "a" * 16)),
        ("a", "a" * 15 + "\U0010ffff" + "x", ("a", "a" * 14 + "b")),
        ("a", "\U0010ffff" * 17, (None, None)),
        ("a", "b" * 15 + "\ud7ffx", ("a", "b" * 15 + "\ue000")),
        ("😀" * 17, "😀" * 17, ("😀" * 16, "😀" * 15 + "😁")),
    ],
)
def test_strings_are_cut_and_the_maximum_rounded_up(low: str, high: str, expected: tuple[Any, Any]) -> None:
    assert cut(low, high, 16) == expected


@covers("META-6", "META-25")
@given(st.text(max_size=6), st.text(max_size=6), st.integers(1, 4))
def test_cut_bounds_still_enclose(one: str, other: str, length: int) -> None:
    low, high = sorted((one, other))
    cut_low, cut_high = cut(low, high, length)
    assert cut_low is None or (
        cut_low <= low and cut_high is not None and high <= cut_high and len(cut_high) <= length
    )


@covers("META-6", "META-26")
@pytest.mark.parametrize("root", ["FLOAT", "DOUBLE"])
def test_floats_have_no_bounds_where_a_nan_is_and_zero_has_both_signs(root: str) -> None:
    t = parse_type(root)
    assert bounds(collect_stats(*table_of([1.0, math.nan], t)), t) == (None, None, 0)
    low, high, _ = bounds(collect_stats(*table_of([0.0], t)), t)
    assert same(low, -0.0)
    assert same(high, 0.0)


@covers("META-6", "META-26")
def test_binary_and_nested_columns_have_a_null_count_only() -> None:
    fields = parse_columns("b BYTES, l ARRAY<INT>, i INT")
    table = pa.table({"b": [b"x", None], "l": [[1], None], "i": pa.array([None, None], pa.int32())})
    found = decode_stats(collect_stats(table, fields), [field.type for field in fields], at="stats")
    assert found == ((None, None, 1), (None, None, 1), (None, None, 2))


@covers("META-27")
def test_statistics_are_of_exactly_the_fields_asked_for_in_their_order() -> None:
    fields = parse_columns("a INT, b STRING, c INT")
    table = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": pa.array([3], pa.int32())})
    asked = [fields[2], fields[0]]
    found = decode_stats(collect_stats(table, asked), [field.type for field in asked], at="stats")
    assert found == ((3, 3, 0), (1, 1, 0))


@covers("META-6")
def test_damaged_statistics_are_found() -> None:
    table, fields = table_of([1], parse_type("INT"))
    stats = collect_stats(table, fields)
    types = [field.type for field in fields]
    for damaged in (
        SimpleStats(stats.min_values[:-1], stats.max_values, (0,)),
        SimpleStats(stats.min_values, b"", (0,)),
        SimpleStats(stats.min_values, stats.max_values, (0, 0)),
    ):
        with pytest.raises(CorruptFileError, match="stats"):
            decode_stats(damaged, types, at="stats")
    for absent in (None, ()):
        assert decode_stats(SimpleStats(stats.min_values, stats.max_values, absent), types, at="s") == (
            (1, 1, None),
        )
