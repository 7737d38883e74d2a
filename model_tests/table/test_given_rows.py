"""Rows as callers have them: what converts without loss is taken, all else is refused by the column's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.format.types import parse_type, to_arrow
from pktable_spec.covers import covers

WORDS = pa.dictionary(pa.int8(), pa.string())
AMOUNTS = pa.map_(pa.string(), pa.int64())
VIEWED = pa.struct([("x", pa.float64()), ("b", pa.binary_view())])
AMOUNTS_IN_FLOATS = pa.map_(pa.string(), pa.float64())


def given(column: pa.Array[Any]) -> pa.Table:
    return pa.table({"k": pa.array(range(len(column)), pa.int64()), "v": column})


def stored(table: Table) -> list[Any]:
    return [row["v"] for row in sorted(table.to_arrow(fresh=True).to_pylist(), key=lambda row: row["k"])]


def refused(path: Path, kind: str, column: pa.Array[Any], found: str) -> None:
    table = Table.create(path, f"k BIGINT, v {kind}", primary_key=["k"])
    before = set(path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=f"column v: expected .*, found .*{found}"):
        table.upsert(given(column))
    assert set(path.rglob("*")) == before


@covers("TBL-8")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.large_list(pa.int32()), [[1, 2], None, [3]]),
        (pa.list_(pa.float32(), 2), [[1, 2], None, [3, None]]),
        (pa.list_(pa.large_list(pa.list_(pa.int8(), 1))), [[[[1], [2]], None], None, [[[3]]]]),
        (pa.binary_view(), [b"a", None, b"long enough to lie elsewhere"]),
        (pa.list_(pa.binary_view()), [[b"a", None], None]),
        (WORDS, ["a", None, "a"]),
        (pa.list_(WORDS), [["a", "b"], None, ["b", None]]),
        (pa.large_list(WORDS), [["a", "b"], None, ["b", None]]),
        (pa.struct([("x", WORDS), ("y", pa.int8())]), [{"x": "a", "y": 1}, None, {"x": None, "y": 2}]),
        (pa.map_(WORDS, WORDS), [[("a", "b")], None, [("b", None), ("c", "c")]]),
        (pa.map_(pa.string_view(), pa.float16()), [[("a", 0.5)], None, []]),
        (pa.list_(pa.timestamp("s")), [None, []]),
        (pa.list_(pa.binary(2)), [[b"ab"], None]),
        (pa.uint64(), [1, None]),
        (pa.decimal256(20, 2), [None]),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_a_table_made_from_an_arrow_schema_takes_rows_of_that_schema(
    tmp_path: Path, kind: Any, values: list[Any], start: int
) -> None:
    rows = given(pa.array(values, kind)).slice(start)
    table = Table.create(tmp_path, rows.schema, primary_key=["k"])
    table.upsert(rows)
    assert stored(table) == values[start:]


@covers("TBL-8")
@pytest.mark.parametrize("view", [pa.list_view, pa.large_list_view])
def test_views_of_lists_are_refused_and_not_lost(tmp_path: Path, view: Any) -> None:
    column = pa.array([[1, 2], None, [3, 4]], view(pa.int32()))
    with pytest.raises(InvalidRequestError, match="list_view"):
        Table.create(tmp_path / "t", given(column).schema, primary_key=["k"])
    refused(tmp_path / "u", "ARRAY<INT>", column, "list_view")


@covers("TBL-4")
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), WORDS])
def test_row_kinds_are_strings_of_any_kind(tmp_path: Path, kind: Any) -> None:
    table = Table.create(tmp_path, "k BIGINT", primary_key=["k"])
    table.write_changes(pa.table({"k": [1, 2, 1], "op": pa.array(["+I", "+U", "-D"], kind)}), row_kind="op")
    assert table.to_arrow(fresh=True).to_pylist() == [{"k": 2}]


@covers("TBL-4")
@pytest.mark.parametrize(
    "rows", [[], pa.table({"k": pa.nulls(0), "op": pa.nulls(0)}), pd.DataFrame({"k": [1], "op": ["+I"]})[:0]]
)
def test_no_changes_are_written_whatever_type_their_kinds_have(tmp_path: Path, rows: Any) -> None:
    table = Table.create(tmp_path, "k BIGINT", primary_key=["k"])
    assert table.write_changes(rows, row_kind="op") is None
    with pytest.raises(InvalidRequestError, match=r"row kind of row 0: .*, found None"):
        table.write_changes(pa.table({"k": [1], "op": pa.nulls(1)}), row_kind="op")


@covers("TBL-8")
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize(("digits", "scale", "fits"), [(5, 2, 99), (3, 0, 100), (38, 36, 99), (38, 0, 127)])
def test_integers_that_fit_into_a_decimal_are_taken(
    tmp_path: Path, kind: Any, digits: int, scale: int, fits: int
) -> None:
    text = f"DECIMAL({digits}, {scale})"
    values = [1, None, fits]
    for path, whole, column in (
        ("plain", text, pa.array(values, kind)),
        ("in-list", f"ARRAY<{text}>", pa.array([values], pa.list_(kind))),
    ):
        table = Table.create(tmp_path / path, f"k BIGINT, v {whole}", primary_key=["k"])
        table.upsert(given(column))
        assert stored(table) == column.to_pylist()


@covers("TBL-8")
@pytest.mark.parametrize(("text", "value"), [("DECIMAL(5, 2)", 1000), ("DECIMAL(38, 36)", 2**63 - 1)])
def test_integers_that_do_not_fit_into_a_decimal_are_refused(tmp_path: Path, text: str, value: int) -> None:
    refused(tmp_path / "plain", text, pa.array([1, value]), "precision")
    refused(tmp_path / "in-map", f"MAP<STRING, {text}>", pa.array([[("a", value)]], AMOUNTS), "precision")


NAN = float("nan")
NANS_INSIDE = [
    ("ARRAY<FLOAT>", pa.list_(pa.float64()), [[NAN, 0.5], None, [], [None]]),
    ("ARRAY<DOUBLE>", pa.list_(pa.float32()), [[NAN, 0.5], None, [], [None]]),
    ("ARRAY<DOUBLE>", pa.list_(pa.float16()), [[NAN, 0.5], None, [], [None]]),
    ("ARRAY<FLOAT>", pa.list_(pa.float64(), 2), [[NAN, 0.5], None, [None, NAN]]),
    ("ROW<x FLOAT>", pa.struct([("x", pa.float64())]), [{"x": NAN}, None, {"x": None}, {"x": 0.5}]),
    ("MAP<STRING, FLOAT>", AMOUNTS_IN_FLOATS, [[("a", NAN)], None, [], [("b", 0.5), ("c", None)]]),
    ("ROW<x FLOAT, b BYTES>", VIEWED, [{"x": NAN, "b": b"a"}, None, {"x": NAN, "b": None}]),
]


@covers("TBL-8")
@pytest.mark.parametrize(("text", "kind", "values"), NANS_INSIDE)
@pytest.mark.parametrize("start", [0, 1])
def test_nan_inside_of_a_value_is_no_loss_of_precision(
    tmp_path: Path, text: str, kind: Any, values: list[Any], start: int
) -> None:
    table = Table.create(tmp_path, f"k BIGINT, v {text}", primary_key=["k"])
    table.upsert(given(pa.array(values, kind)).slice(start))
    assert str(stored(table)) == str(values[start:])


@covers("TBL-8")
@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("ARRAY<FLOAT>", pa.list_(pa.float64()), [[NAN, 0.1]]),
        ("ROW<x FLOAT, y FLOAT>", pa.struct(dict.fromkeys("xy", pa.float64())), [{"x": NAN, "y": 0.1}]),
        ("MAP<STRING, FLOAT>", AMOUNTS_IN_FLOATS, [[], None, [("a", NAN), ("b", 0.1)]]),
        ("ARRAY<ARRAY<FLOAT>>", pa.list_(pa.list_(pa.float64())), [[[NAN], None, [0.1]]]),
    ],
)
def test_a_nan_hides_no_loss_of_precision(tmp_path: Path, text: str, kind: Any, values: list[Any]) -> None:
    refused(tmp_path, text, pa.array(values, kind), "more precision")


def hiding(kind: Any, values: list[Any], null: int) -> pa.Array[Any]:
    """Return ``values`` with a null at ``null`` under which the value is still there."""
    full = pa.array(values, kind)
    mask = pa.array([i == null for i in range(len(values))])
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [full.field(i) for i in range(kind.num_fields)], fields=list(kind), mask=mask
        )
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(full.offsets, full.keys, full.items, kind, mask=mask)
    return pa.ListArray.from_arrays(full.offsets, full.values, kind, mask=mask)


NOT_NULL_INSIDE = [
    ("ARRAY<INT NOT NULL>", pa.list_(pa.int32()), [[1, 2], [1, None], [3]]),
    ("ARRAY<BIGINT NOT NULL>", pa.large_list(pa.int32()), [[1, 2], [1, None], [3]]),
    ("ARRAY<INT NOT NULL>", pa.list_(pa.null()), [[], [None], []]),
    ("MAP<STRING, INT NOT NULL>", pa.map_(pa.string(), pa.int32()), [[("a", 1)], [("b", None)], []]),
    ("ROW<x INT NOT NULL, y INT>", pa.struct(dict.fromkeys("xy", pa.int32())), [{"x": 1}, {"y": 1}, {"x": 2}]),
    ("ARRAY<ROW<x INT NOT NULL>>", pa.list_(pa.struct([("x", pa.int32())])), [[None], [{}], [{"x": 1}]]),
    ("ROW<x ARRAY<INT NOT NULL>>", pa.struct([("x", pa.list_(pa.int32()))]), [{}, {"x": [None]}, {"x": [2]}]),
]  # fmt: skip


@covers("TBL-8")
@pytest.mark.parametrize(("text", "kind", "values"), NOT_NULL_INSIDE)
@pytest.mark.parametrize("as_declared", [False, True])
def test_a_null_inside_of_a_value_is_refused_where_its_type_has_none(
    tmp_path: Path, text: str, kind: Any, values: list[Any], as_declared: bool
) -> None:
    kind = to_arrow(parse_type(text)) if as_declared else kind
    column = pa.array(values, kind)
    refused(tmp_path / "whole", text, column, "null")
    refused(tmp_path / "slice", text, column.slice(1, 1), "null")


@covers("TBL-8")
@pytest.mark.parametrize(("text", "kind", "values"), NOT_NULL_INSIDE)
@pytest.mark.parametrize("as_declared", [False, True])
def test_a_null_that_is_not_in_the_rows_is_no_null_of_theirs(
    tmp_path: Path, text: str, kind: Any, values: list[Any], as_declared: bool
) -> None:
    table = Table.create(tmp_path, f"k BIGINT, v {text}", primary_key=["k"])
    kind = to_arrow(parse_type(text)) if as_declared else kind
    rows = given(pa.array(values, kind))
    for column in (rows.slice(2), rows.slice(1, 0)):
        table.upsert(column)
    if not pa.types.is_large_list(kind):
        table.upsert(given(hiding(kind, values, null=1)))
        assert stored(table)[1] is None
    assert stored(table)[-1:] == pa.array(values[2:], to_arrow(parse_type(text))).to_pylist()


NOT_TEXT = pa.array([b"ok", b"a\xffb", b"fine"]).cast(pa.binary())
THREE = pa.array([0, 1, 2, 3], pa.int32())


def as_strings(kind: Any) -> pa.Array[Any]:
    """Return strings of ``kind``, the second no UTF-8: Arrow does not look."""
    binary: Any = NOT_TEXT.cast({pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}[kind])
    return pa.Array.from_buffers(kind, len(binary), binary.buffers())


BYTES = as_strings(pa.string())
NOT_UTF8 = [
    ("STRING", BYTES),
    ("VARCHAR(9)", as_strings(pa.large_string())),
    ("STRING", pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), BYTES)),
    ("ARRAY<STRING>", pa.ListArray.from_arrays(THREE, BYTES)),
    ("ROW<x STRING>", pa.StructArray.from_arrays([BYTES], ["x"])),
    ("MAP<STRING, INT>", pa.MapArray.from_arrays(THREE, BYTES, pa.array([1, 2, 3], pa.int32()))),
    ("MAP<INT, STRING>", pa.MapArray.from_arrays(THREE, pa.array([1, 2, 3], pa.int32()), BYTES)),
]


@covers("TBL-8")
@pytest.mark.parametrize(("text", "column"), NOT_UTF8)
def test_strings_that_are_no_utf8_are_refused(tmp_path: Path, text: str, column: pa.Array[Any]) -> None:
    refused(tmp_path / "whole", text, column, "UTF8")
    refused(tmp_path / "slice", text, column.slice(1, 1), "UTF8")


@covers("TBL-8")
@pytest.mark.parametrize(("text", "column"), NOT_UTF8)
def test_strings_that_are_not_in_the_rows_may_be_anything(
    tmp_path: Path, text: str, column: pa.Array[Any]
) -> None:
    table = Table.create(tmp_path, f"k BIGINT, v {text}", primary_key=["k"])
    table.upsert(given(column).slice(2))
    assert stored(table) == column.slice(2).to_pylist()


@covers("TBL-4", "TBL-8")
def test_keys_partitions_and_row_kinds_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k STRING, p STRING", primary_key=["k", "p"], partition_by=["p"])
    before = set(tmp_path.rglob("*"))
    text = pa.array(["a"] * 3)
    for column in ("k", "p"):
        rows = pa.table({"k": text, "p": text, column: BYTES})
        for change in (table.upsert, table.delete):
            with pytest.raises(InvalidRequestError, match=f"column {column}: expected .* UTF8"):
                change(rows)
    with pytest.raises(InvalidRequestError, match=r"row kinds in 'op': .* UTF8"):
        table.write_changes(pa.table({"k": text, "p": text, "op": BYTES}), row_kind="op")
    assert set(tmp_path.rglob("*")) == before


@covers("TBL-8", "META-9")
@pytest.mark.parametrize("character", ["a", "é", "/", "😀"])
def test_a_partition_whose_directory_has_too_long_a_name_is_refused(tmp_path: Path, character: str) -> None:
    table = Table.create(tmp_path, "k INT, p STRING, v INT", primary_key=["k", "p"], partition_by=["p"])
    bytes_each = 3 if character == "/" else len(character.encode())
    longest = character * ((255 - len("p=")) // bytes_each)
    table.upsert(pa.table({"k": [1], "p": [longest], "v": [1]}))
    table.delete(pa.table({"k": [1], "p": [longest]}))
    before = set(tmp_path.rglob("*"))
    rows = pa.table({"k": [1, 2], "p": ["short", longest + character], "v": [1, 2]})
    for change, given_rows in ((table.upsert, rows), (table.delete, rows.drop_columns(["v"]))):
        with pytest.raises(
            InvalidRequestError, match=r"partition column p: .* at most 255 bytes, found 25\d"
        ):
            change(given_rows)
    assert set(tmp_path.rglob("*")) == before


@covers("TBL-8", "META-9")
def test_a_partition_column_may_itself_make_the_name_too_long(tmp_path: Path) -> None:
    name = "n" * 250
    table = Table.create(tmp_path, f"k INT, {name} INT", primary_key=["k", name], partition_by=[name])
    table.upsert(pa.table({"k": [1], name: [1234]}))
    with pytest.raises(InvalidRequestError, match=f"partition column {name}: .* found 256 bytes"):
        table.upsert(pa.table({"k": [1], name: [12345]}))
    assert table.to_arrow(fresh=True).num_rows == 1


@covers("TBL-8")
def test_a_dictionary_without_the_word_that_is_asked_of_it_is_refused(tmp_path: Path) -> None:
    numbers = pa.array([0, 7], pa.int8())
    refused(
        tmp_path, "STRING", pa.DictionaryArray.from_arrays(numbers, pa.array(["a"]), safe=False), "bounds"
    )


@covers("TBL-8")
def test_categories_of_polars_are_texts(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = Table.create(tmp_path, "s STRING, c STRING, l ARRAY<STRING>", primary_key="s")
    rows = polars.DataFrame({"s": ["b", "a"], "c": ["x", None], "l": [["p"], []]})
    table.upsert(
        rows.with_columns(
            s=polars.col("s").cast(polars.Categorical),
            c=polars.col("c").cast(polars.Enum(["x", "y"])),
        )
    )
    assert table.to_arrow().sort_by("s").to_pylist() == rows.sort("s").to_dicts()
