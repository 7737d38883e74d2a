"""Options of ``collect`` and ``nested_update``, and the bytes of ``rbm32`` and ``rbm64``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers
from pyroaring import BitMap

from model_tests.engines.cases import SKETCHES
from model_tests.engines.test_refusals import files_of
from model_tests.format.long_sets import from_bytes

# What RoaringBitmap32 of Paimon 1.4.2 serializes for some sets, and their union by its `or`.
FEW = "3a300000020000000000020001000000180000001e0000000100020003007011"  # 1, 2, 3, 70000
RUN = "3b300000010000c70001006400c700"  # 100 to 299
NEGATIVE = "3a3000000200000000000000ffff0000180000001a0000000500ffff"  # -1, 5
NONE = "3a30000000000000"
UNION = "3b300200010000cb0001000000ffff0000030001000200050000006400c7007011ffff"
# The same of RoaringBitmap64 of Paimon 1.4.2, of the first set with 2^40, too.
FEW_64 = (
    "0103000000000000000002000200000000010000020002000000000100040000000000000000000000000000000000040000000000000000"
    "01010000000000000004000000000001000000020000000000000001000000fe030000000102030000000100020003000102010000007011"
    "010201000000000003000000000000000000000002000000"
)
RUN_64 = (
    "01010000000000000004000000000000000000000000000000000001000000fe010000000100c800000001006400c7000100000000000000"
    "0000000000000000"
)
NEGATIVE_64 = (
    "010200000000000000000200000000ff0004000000000000000000010000000000000004000000ffffffffffff000000000000000001000000"
    "fe02000000010201000000ffff010201000000050002000000000000000000000001000000"
)
NONE_64 = "00"
AFTER_REMOVALS = (
    "01020000000000000000020000000040000400000400000000000000000000000000000000000004000000400000000000020000000000000001"
    "000000fe03000000010201000000050000010201000000000002000000000000000000000002000000"
)
UNION_64 = (
    "010400000000000000000200000000ff00000200010000000100000200020000000001000400000000000000000000000000000000000400"
    "00000000000000010100000000000000040000000000010000000200000000000000"
    "04000000ffffffffffff030000000000000001000000fe040000000100cc000000030001000200050000006400c700010201000000701101"
    "02010000000000010201000000ffff04000000000000000000000003000000"
)
SETS = {32: (FEW, RUN, NEGATIVE, NONE), 64: (FEW_64, RUN_64, NEGATIVE_64, NONE_64)}
UNIONS = {32: UNION, 64: UNION_64}
ROWS = "ARRAY<ROW<p INT, q ARRAY<INT>>>"


def table_of(path: Path, kind: str, function: str, **options: str) -> Table:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": function} | {
        f"fields.a.{name.replace('_', '-')}": value for name, value in options.items()
    }
    return Table.create(path / "t", f"k INT, a {kind}", primary_key="k", options=options)


def upsert(table: Table, *values: Any) -> None:
    kind = table.schema.arrow_schema.field("a").type
    table.upsert(pa.table({"k": pa.array([1] * len(values), pa.int32()), "a": pa.array(values, kind)}))


def value_of(table: Table) -> Any:
    return table.to_arrow().column("a").to_pylist()[0]


@covers("MRG-29", "MRG-30")
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("step", [1, -1])
def test_a_union_has_the_bytes_that_paimon_writes(tmp_path: Path, bits: int, step: int) -> None:
    table = table_of(tmp_path, "BYTES", f"rbm{bits}")
    for one in SETS[bits][::step]:
        upsert(table, bytes.fromhex(one), None)
    assert value_of(table).hex() == UNIONS[bits]


@covers("MRG-30")
def test_a_set_of_a_single_record_keeps_its_bytes(tmp_path: Path) -> None:
    table = table_of(tmp_path, "BYTES", "rbm64")
    upsert(table, bytes.fromhex(AFTER_REMOVALS))
    assert value_of(table).hex() == AFTER_REMOVALS
    upsert(table, bytes.fromhex(NONE_64))
    assert from_bytes(value_of(table)) == [5, 1 << 62]
    assert len(value_of(table)) < len(AFTER_REMOVALS) // 2


@covers("MRG-29")
def test_a_union_of_bitmaps_without_runs_is_written_with_runs(tmp_path: Path) -> None:
    table = table_of(tmp_path, "BYTES", "rbm32")
    upsert(table, *(BitMap(range(start, start + 200, 2), optimize=False).serialize() for start in (100, 101)))
    assert value_of(table).hex() == RUN


def retract(table: Table, value: Any) -> None:
    kind = table.schema.arrow_schema.field("a").type
    row = {"k": pa.array([1], pa.int32()), "a": pa.array([value], kind), "op": ["-U"]}
    table.write_changes(pa.table(row), row_kind="op")


@covers("MRG-27", "MRG-32")
@pytest.mark.parametrize(
    ("options", "kept", "left"),
    [
        ({}, [{"p": 1, "q": 1}, {"p": 1, "q": 2}, {"p": 1, "q": 1}, {"p": 2, "q": 1}], [(1, 2), (2, 1)]),
        ({"nested_key": "p"}, [{"p": 1, "q": 1}, {"p": 2, "q": 1}], [(2, 1)]),
    ],
)
def test_a_retraction_takes_all_equal_rows_out(
    tmp_path: Path, options: dict[str, str], kept: list[dict[str, int]], left: list[tuple[int, int]]
) -> None:
    table = table_of(tmp_path, "ARRAY<ROW<p INT, q INT>>", "nested_update", **options)
    upsert(table, [{"p": 1, "q": 1}, {"p": 1, "q": 2}], [{"p": 1, "q": 1}, {"p": 2, "q": 1}])
    assert value_of(table) == kept
    retract(table, [{"p": 1, "q": 1}])
    assert [(row["p"], row["q"]) for row in value_of(table)] == left


@covers("MRG-33")
def test_a_retraction_takes_the_oldest_equal_element_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, "ARRAY<INT>", "collect")
    upsert(table, [1, 2], [3, 1])
    retract(table, [1])
    assert value_of(table) == [2, 3, 1]


@covers("MRG-34")
def test_a_limit_adds_no_rows_to_a_longer_array_and_cuts_none(tmp_path: Path) -> None:
    table = table_of(tmp_path, "ARRAY<ROW<p INT>>", "nested_update", count_limit="2")
    three = [{"p": 1}, {"p": 2}, {"p": 3}]
    upsert(table, three, [{"p": 4}])
    assert value_of(table) == three


@covers("MRG-29", "MRG-30")
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("wrong", ["empty", "text", "short", "long"])
@pytest.mark.parametrize("first", [False, True])
def test_bytes_that_are_no_bitmap_are_refused_and_nothing_written(
    tmp_path: Path, bits: int, wrong: str, first: bool
) -> None:
    few, run, *_ = (bytes.fromhex(one) for one in SETS[bits])
    table = table_of(tmp_path, "BYTES", f"rbm{bits}")
    upsert(table, run)
    before = files_of(tmp_path)
    values = [few, {"empty": b"", "text": b"no bitmap", "short": few[:-1], "long": few + b"\0"}[wrong]]
    with pytest.raises(
        InvalidRequestError, match=f"^column a: expected a serialized {bits}-bit Roaring bitmap, found other"
    ) as caught:
        upsert(table, *(values[::-1] if first else values))
    assert "\n" not in str(caught.value)
    assert files_of(tmp_path) == before


@covers("MRG-29")
def test_a_union_that_its_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, "VARBINARY(32)", "rbm32")
    with pytest.raises(
        InvalidRequestError, match=r"a 32-bit Roaring bitmap that VARBINARY\(32\) can hold, found "
    ):
        upsert(table, bytes.fromhex(FEW), bytes.fromhex(NEGATIVE))


@covers("MRG-11", "MRG-35")
@pytest.mark.parametrize(
    ("kind", "function", "options", "message"),
    [
        (
            ROWS,
            "nested_update",
            {"nested_key": "z"},
            "expected some of the atomic fields p of the rows, found z",
        ),
        (
            ROWS,
            "nested_update",
            {"nested_key": "p,q"},
            "expected some of the atomic fields p of the rows, found",
        ),
        (ROWS, "nested_update", {"nested_key": ""}, "fields.a.nested-key=: expected some of .* found none"),
        (
            ROWS,
            "nested_update",
            {"count_limit": "0"},
            "fields.a.count-limit='0': expected a positive integer",
        ),
        (
            ROWS,
            "nested_update",
            {"count_limit": "x"},
            "fields.a.count-limit='x': expected a positive integer",
        ),
        (
            ROWS,
            "nested_update",
            {"count_limit": "2", "nested_key": "p"},
            "expected it without fields.a.nested-k",
        ),
        (
            ROWS,
            "collect",
            {"distinct": "true"},
            "fields.a.distinct='true' is not supported: expected false for",
        ),
        ("ARRAY<INT>", "nested_update", {}, "expected ARRAY<ROW<...>>"),
        ("BINARY(9)", "rbm32", {}, "expected BYTES or VARBINARY"),
        ("DECIMAL(9, 2)", "product", {}, "expected an integer or floating-point type, because .* rounded"),
    ],
)
def test_options_of_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, kind: str, function: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        table_of(tmp_path, kind, function, **options)
    assert "\n" not in str(caught.value)
    assert not files_of(tmp_path)


@covers("MRG-10")
def test_the_refusal_to_take_a_factor_back_says_why(tmp_path: Path) -> None:
    table = table_of(tmp_path, "INT", "product")
    upsert(table, 6)
    rows = table.to_arrow().append_column("op", [["-D"]])
    with pytest.raises(
        InvalidRequestError, match="because a division has no result for 0 and drops the rest of"
    ):
        table.write_changes(rows, row_kind="op")
    assert value_of(table) == 6


@covers("MRG-10")
@pytest.mark.parametrize(
    ("kind", "function", "options"),
    [
        (ROWS, "nested_update", {}),
        ("ARRAY<ROW<p INT>>", "nested_update", {"count_limit": "2"}),
        (ROWS, "collect", {}),
        ("INT", "product", {}),
        ("DOUBLE", "product", {}),
        ("BYTES", "rbm32", {}),
        ("BYTES", "rbm64", {}),
        pytest.param(
            "BYTES", "theta_sketch", {}, marks=pytest.mark.skipif(not SKETCHES, reason="no datasketches")
        ),
    ],
)
def test_a_column_that_cannot_take_values_back_refuses_retractions(
    tmp_path: Path, kind: str, function: str, options: dict[str, str]
) -> None:
    table = table_of(tmp_path, kind, function, **options)
    upsert(table, None)
    before = files_of(tmp_path)
    rows = table.to_arrow().append_column("op", [["-U"]])
    with pytest.raises(InvalidRequestError, match=f"={function}: column a cannot take back a retraction"):
        table.write_changes(rows, row_kind="op")
    assert files_of(tmp_path) == before
