"""Values as columns of another type: Paimon's conversions, one by one, and what they leave of bounds.

The expected values are those of Paimon's reader; a JVM gave the same for tables of all of these changes.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.datafile.evolution import conformed, converted, keeps_order, same_values
from pktable.format.types import array_of, parse_type, to_arrow, values_of
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

SECOND = 10**9
INF, NAN = math.inf, math.nan

CONVERSIONS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("TINYINT", "BIGINT", [-128, 127, None], [-128, 127, None]),
    ("INT", "INT", [1], [1]),
    ("BIGINT", "INT", [2**31, -(2**31) - 1, 7], [-(2**31), 2**31 - 1, 7]),
    ("BIGINT", "SMALLINT", [2**16 + 5, 40000], [5, -25536]),
    ("INT", "TINYINT", [300, -129], [44, 127]),
    ("INT", "FLOAT", [2**24 + 1, -3], [2.0**24, -3.0]),
    ("BIGINT", "DOUBLE", [2**53 + 1], [2.0**53]),
    ("FLOAT", "DOUBLE", [0.5, -0.0, INF], [0.5, -0.0, INF]),
    ("DOUBLE", "FLOAT", [1e300, 0.1, -1e-300], [INF, 0.10000000149011612, -0.0]),
    ("DOUBLE", "INT", [1.9, -1.9, 1e20, -1e20, NAN, None], [1, -1, 2**31 - 1, -(2**31), 0, None]),
    ("DOUBLE", "BIGINT", [1e30, -1e30, 2.5], [2**63 - 1, -(2**63), 2]),
    ("FLOAT", "TINYINT", [300.7, 1e20, -1e20], [44, -1, 0]),
    ("INT", "DECIMAL(5, 2)", [999, 1000, -999, None], [Decimal("999.00"), None, Decimal("-999.00"), None]),
    ("BIGINT", "DECIMAL(38, 10)", [2**63 - 1], [Decimal("9223372036854775807.0000000000")]),
    ("INT", "DECIMAL(38, 38)", [0, 1], [Decimal("0E-38"), None]),
    ("DECIMAL(6, 3)", "DECIMAL(5, 1)", ["1.250", "-1.250", "1.249"], ["1.3", "-1.3", "1.2"]),
    ("DECIMAL(6, 3)", "DECIMAL(3, 1)", ["99.940", "99.950", "-100.000"], ["99.9", None, None]),
    ("DECIMAL(6, 3)", "DECIMAL(38, 20)", ["1.250"], ["1.25000000000000000000"]),
    ("DECIMAL(38, 0)", "DECIMAL(38, 38)", ["0", "1"], ["0E-38", None]),
    ("DECIMAL(12, 2)", "INT", ["-1.99", "3000000000.00"], [-1, 3000000000 - 2**32]),
    ("DECIMAL(38, 0)", "BIGINT", [str(2**64 + 3)], [3]),
    ("DECIMAL(12, 2)", "DOUBLE", ["0.10", "-12.34"], [0.1, -12.34]),
    ("DECIMAL(38, 10)", "FLOAT", ["0.1000000000"], [0.10000000149011612]),
    ("DOUBLE", "DECIMAL(4, 1)", [1.25, -1.25, 1e9, 0.05], ["1.3", "-1.3", None, "0.1"]),
    ("FLOAT", "DECIMAL(20, 10)", [0.1], ["0.1000000015"]),
    ("BOOLEAN", "INT", [True, False, None], [1, 0, None]),
    ("BOOLEAN", "DECIMAL(3, 1)", [True], ["1.0"]),
    ("BOOLEAN", "DOUBLE", [True], [1.0]),
    ("INT", "BOOLEAN", [0, -7, None], [False, True, None]),
    ("STRING", "VARCHAR(2)", ["a", "äöü", None], ["a", "äö", None]),
    ("VARCHAR(2)", "CHAR(4)", ["ab", "äöüßx"], ["ab  ", "äöüß"]),
    ("CHAR(3)", "STRING", ["ab "], ["ab "]),
    ("BYTES", "VARBINARY(2)", [b"abc", b"a"], [b"ab", b"a"]),
    ("VARBINARY(3)", "BINARY(2)", [b"abc", b"a", None], [b"ab", b"a\0", None]),
    ("INT", "STRING", [-5, None], ["-5", None]),
    ("BIGINT", "VARCHAR(3)", [12345], ["123"]),
    ("DECIMAL(20, 10)", "STRING", ["0E-10", "-1.5000000000"], ["0.0000000000", "-1.5000000000"]),
    ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
    ("DATE", "STRING", [0, -1], ["1970-01-01", "1969-12-31"]),
    ("DATE", "TIMESTAMP(3)", [1, -1], [86400 * SECOND, -86400 * SECOND]),
    ("TIMESTAMP(6)", "DATE", [-1000, 86400 * SECOND], [-1, 1]),
    ("TIMESTAMP(6)", "TIME(3)", [86400 * SECOND + 1_999_000, None], [1, None]),
    ("TIME(3)", "TIMESTAMP(6)", [3_723_400, None], [3_723_400_000_000, None]),
    ("TIME(3)", "STRING", [3_723_400, 0, 86_399_999, None], ["01:02:03.4", "00:00:00.0", "23:59:59.999", None]),
    ("TIME(2)", "STRING", [3_723_405, 3_723_050], ["01:02:03.40", "01:02:03.05"]),
    ("TIME", "STRING", [3_723_400], ["01:02:03"]),
    ("ARRAY<INT>", "STRING", [[1, None], [], None], ["[1, null]", "[]", None]),
    ("MAP<STRING, BOOLEAN>", "STRING", [[("a", True), ("b", None)], []], ["{a -> true, b -> null}", "{}"]),
    ("ROW<a TINYINT, b ARRAY<DATE>>", "VARCHAR(3)", [{"a": 1, "b": [0]}, {"a": None, "b": None}, None],
     ["{1, [1970-01-01]}", "{null, null}", None]),
    ("TIMESTAMP(3)", "TIMESTAMP(9)", [-1_000_000], [-1_000_000]),
    ("TIMESTAMP(9)", "TIMESTAMP(6)", [1999, -1], [1000, -1000]),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", [1_999_000, -1000], [1_000_000, -1_000_000]),
    ("TIMESTAMP(6)", "TIMESTAMP(0)", [1_999_000_000, -999_000_000, -1_000_000_000], [SECOND, 0, -SECOND]),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE", [1_500_000], [1_000_000]),
]  # fmt: skip

ATOMIC = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(12, 2)",
    "DECIMAL(38, 10)", "CHAR(3)", "VARCHAR(2)", "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]  # fmt: skip
REFUSED = [
    ("STRING", "INT"), ("STRING", "DATE"), ("STRING", "BYTES"), ("FLOAT", "STRING"), ("DOUBLE", "VARCHAR(9)"),
    ("TIMESTAMP(3)", "STRING"), ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"), ("DATE", "INT"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "DATE"), ("TIMESTAMP(3)", "BIGINT"), ("DOUBLE", "BOOLEAN"),
    ("ROW<a DOUBLE>", "STRING"), ("VARIANT", "STRING"), ("ARRAY<INT>", "INT"), ("INT", "ARRAY<INT>"),
    ("ARRAY<INT>", "ROW<a INT>"),
    ("MAP<INT, INT>", "MAP<BIGINT, INT>"), ("ARRAY<STRING>", "ARRAY<INT>"), ("DATE", "VARCHAR(4)"),
    ("TIME", "VARCHAR(8)"), ("TIME", "INT"), ("DATE", "TIME"), ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIME(3)"),
]  # fmt: skip


def column(values: list[Any], kind: str) -> pa.ChunkedArray:
    t = parse_type(kind)
    if t.root == "DECIMAL":
        values = [None if value is None else Decimal(value) for value in values]
    return pa.chunked_array([array_of(values, t)])


@covers("META-39", "META-79")
@pytest.mark.parametrize(("before", "after", "given", "expected"), CONVERSIONS)
def test_a_value_converts_as_it_does_in_paimon(
    before: str, after: str, given: list[Any], expected: list[Any]
) -> None:
    found = conformed(column(given, before), parse_type(before), parse_type(after), "column v")
    wanted = column(expected, after)
    assert found.type == to_arrow(parse_type(after)) == wanted.type
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())


@covers("META-40", "META-43")
@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_what_does_not_convert_is_refused_by_name(before: str, after: str) -> None:
    old, new = parse_type(before), parse_type(after)
    with pytest.raises(InvalidRequestError) as caught:
        conformed(pa.chunked_array([pa.nulls(1, to_arrow(old))]), old, new, "data-1: column v")
    assert str(caught.value) == f"data-1: column v: {old} in a data file cannot be converted to {new}"


@covers("META-40")
@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_a_float_that_is_no_number_is_no_decimal(value: float) -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot be converted to DECIMAL.*: it is not finite"):
        converted(pa.array([value]), parse_type("DOUBLE"), parse_type("DECIMAL(4, 1)"))


@covers("META-40")
def test_a_time_before_1970_is_no_time_of_the_day() -> None:
    with pytest.raises(
        InvalidRequestError, match="a time before 1970 in a data file cannot be converted to TIME"
    ):
        conformed(
            column([0, -1_000_000], "TIMESTAMP(3)"), parse_type("TIMESTAMP(3)"), parse_type("TIME(3)"), "v"
        )


@covers("META-39")
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP(6)"])
@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_that_nanoseconds_cannot_count_is_refused(kind: str, year: int) -> None:
    given = pa.chunked_array([pa.array([dt.date(year, 1, 1)]).cast(to_arrow(parse_type(kind)))])
    with pytest.raises(InvalidRequestError, match="a time lies outside 1677 to 2262"):
        conformed(given, parse_type(kind), parse_type("TIMESTAMP(9)"), "v")


VALUES = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(allow_nan=False, width=32),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL": st.integers(-99999, 99999).map(lambda n: Decimal(n) / 100),
    "DATE": st.integers(-50000, 50000),
    "TIME": st.integers(0, 86_400_000 - 1),
    "BYTES": st.binary(max_size=3),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@covers("RD-8", "META-39")
@given(st.data())
def test_converted_bound_the_converted_values(data: st.DataObject) -> None:
    before, after = (parse_type(data.draw(st.sampled_from(ATOMIC))) for _ in range(2))
    if same_values(before, after) or not keeps_order(before, after):
        return
    times = st.integers(-(10**9), 10**9).map(lambda n: n * 10 ** (9 - (before.precision or 0)))
    values = VALUES.get(before.root, times if "TIMESTAMP" in before.root else TEXT)
    drawn = data.draw(st.lists(values, min_size=1, max_size=4))
    found = values_of(conformed(pa.chunked_array([array_of(drawn, before)]), before, after, "v"), after)
    low, high = converted([min(drawn), max(drawn)], before, after)
    assert None not in found
    assert all(low <= value <= high for value in found)


def test_most_widenings_keep_bounds_and_what_loses_order_does_not() -> None:
    def kept(before: str, after: str) -> bool:
        return keeps_order(parse_type(before), parse_type(after))

    assert kept("INT", "BIGINT")
    assert kept("INT", "DECIMAL(12, 2)")
    assert kept("DECIMAL(5, 2)", "DECIMAL(12, 4)")
    assert kept("FLOAT", "DOUBLE")
    assert kept("DATE", "TIMESTAMP(3)")
    assert not kept("INT", "DECIMAL(11, 2)"), "10 digits do not fit"
    assert not kept("DECIMAL(5, 2)", "DECIMAL(5, 1)"), "it rounds"
    assert not kept("INT", "STRING"), "9 is less than 10"
    assert not kept("BIGINT", "INT"), "it wraps"
    assert not kept("STRING", "CHAR(3)"), "blanks sort after control characters"


@covers("META-16", "META-42")
def test_fields_of_rows_are_found_by_id_wherever_they_are() -> None:
    before = parse_type(
        {
            "type": "ARRAY",
            "element": {
                "type": "ROW",
                "fields": [
                    {"id": 3, "name": "a", "type": "INT"},
                    {"id": 4, "name": "b", "type": "STRING"},
                    {
                        "id": 5,
                        "name": "c",
                        "type": {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]},
                    },
                ],
            },
        }
    )
    after = parse_type(
        {
            "type": "ARRAY",
            "element": {
                "type": "ROW",
                "fields": [
                    {"id": 6, "name": "a", "type": "DATE"},
                    {
                        "id": 5,
                        "name": "c",
                        "type": {"type": "ROW", "fields": [{"id": 8, "name": "x", "type": "INT"}]},
                    },
                    {"id": 4, "name": "bb", "type": "STRING"},
                    {"id": 3, "name": "b", "type": "BIGINT"},
                ],
            },
        }
    )
    rows = [[{"a": 1, "b": "x", "c": {"x": 7}}, None], None, [], [{"a": None, "b": None, "c": None}]]
    array = pa.chunked_array([pa.array([[], *rows], to_arrow(before)).slice(1)])
    found = conformed(array, before, after, "v").to_pylist()
    # Of c the file has no field: it is null, as in Paimon, and no row of nulls.
    assert found == [
        [{"a": None, "c": None, "bb": "x", "b": 1}, None],
        None,
        [],
        [{"a": None, "c": None, "bb": None, "b": None}],
    ]


@covers("META-39")
def test_values_of_a_map_change_and_slices_of_it_too() -> None:
    before, after = parse_type("MAP<STRING, ARRAY<INT>>"), parse_type("MAP<STRING, ARRAY<BIGINT>>")
    values = [[("a", [1, None])], None, [], [("b", None), ("c", [2])]]
    for start in range(4):
        array = pa.chunked_array([pa.array(values, to_arrow(before)).slice(start)])
        found = conformed(array, before, after, "v")
        assert found.to_pylist() == values[start:]
        assert found.type == to_arrow(after)


@covers("META-16")
def test_where_ids_inside_a_row_are_not_unique_names_decide() -> None:
    def kind(*fields: tuple[str, str]) -> Any:
        return parse_type({"type": "ROW", "fields": [{"id": 0, "name": n, "type": t} for n, t in fields]})

    before, after = kind(("a", "INT"), ("b", "STRING")), kind(("b", "STRING"), ("a", "BIGINT"))
    array = pa.chunked_array([pa.array([{"a": 1, "b": "x"}], to_arrow(before))])
    assert conformed(array, before, after, "v").to_pylist() == [{"b": "x", "a": 1}]
