"""Conditions in SQL: Arrow agrees with a plain evaluator, pruning never loses a row, the rest is refused."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable.format.types import parse_columns, values_of
from pktable.predicate import Bounds, Predicate, key_equalities, may_match, parse
from pktable.predicate import to_arrow as expression
from pktable.predicate.duckdb_sql import duckdb_text
from pktable.predicate.spark_sql import spark_text
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.predicate.conditions import (
    CONDITIONS,
    FIELDS,
    OPERATORS,
    ROWS,
    SCHEMA,
    Row,
    Text,
    column,
    compared,
    constant,
    ids,
    table_of,
)


@covers("RD-6")
@settings(max_examples=400, deadline=None)
@given(condition=CONDITIONS, rows=ROWS)
def test_arrow_agrees_with_a_plain_evaluator(condition: Text, rows: list[Row]) -> None:
    predicate = parse(condition.sql, FIELDS)
    assert ids(predicate.filter(table_of(rows))) == [row["id"] for row in rows if condition.of(row) is True]


@covers("RD-6", "MRG-7")
@pytest.mark.parametrize("sign", [*OPERATORS, "<=>"])
def test_floats_and_nulls_compare_in_one_order(sign: str) -> None:
    values = (None, math.nan, -math.inf, -0.0, 0.0, 1.5, math.inf)
    pairs = enumerate(product(values, values))
    rows = [dict.fromkeys(SCHEMA.names) | {"id": at, "f": f, "e": e} for at, (f, e) in pairs]
    texts = [constant(f"CAST('{value}' AS DOUBLE)", value) for value in values[1:]]
    for left, right in product([column("f"), column("e"), *texts], repeat=2):
        condition = compared(sign, left, right)
        found = ids(parse(condition.sql, FIELDS).filter(table_of(rows)))
        assert found == [row["id"] for row in rows if condition.of(row) is True], condition


@covers("RD-6")
@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("t > '1500-01-01'", [0, 2]),
        ("t <> '1500-01-01'", [0, 2]),
        ("'9999-01-01' >= t", [0, 2]),
        ("t = '1500-01-01' OR t IS NULL", [1]),
        ("t BETWEEN '1500-01-01' AND '1970-01-01'", [0]),
        ("t IN ('9999-01-01', '1970-01-01')", [0]),
        ("NOT t <=> '9999-01-01'", [0, 1, 2]),
        ("z > '1969-12-31T23:59:59.9985'", [0, 2]),
        ("z = '1970-01-01 00:00:00.0000001'", []),
    ],
)
def test_times_compare_with_those_that_a_column_cannot_hold(where: str, wanted: list[int]) -> None:
    times = pa.array([0, None, 10**18], pa.timestamp("ns"))
    instants = pa.array([0, None, 5], pa.timestamp("ms", "UTC"))
    table = pa.table({"id": [0, 1, 2], "t": times, "z": instants})
    predicate = parse(where, parse_columns("id INT, t TIMESTAMP(9), z TIMESTAMP_LTZ(3)"))
    assert ids(predicate.filter(table)) == wanted


@covers("RD-6")
@pytest.mark.parametrize("value", ["TIMESTAMP '9999-01-01'", "DATE '0001-01-01'"])
def test_a_time_that_nanoseconds_cannot_count_is_no_value_of_an_expression(value: str) -> None:
    table = pa.table({"id": [0], "t": pa.array([0], pa.timestamp("ns"))})
    predicate = parse(
        f"CASE WHEN id = 1 THEN t ELSE {value} END = t", parse_columns("id INT, t TIMESTAMP(9)")
    )
    with pytest.raises(InvalidRequestError, match="lies outside 1677 to 2262"):
        predicate.filter(table)


@covers("RD-6")
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("= TIMESTAMP '2020-01-02 00:00:00'", [2]),
        ("= TIMESTAMP '2020-01-02 00:00:00.000000001'", []),
        ("<> TIMESTAMP '2020-01-02 00:00:00.000000001'", [1, 2, 3]),
        ("< TIMESTAMP '2020-01-02 00:00:00'", [1]),
        ("< TIMESTAMP '2020-01-02 00:00:00.000000001'", [1, 2]),
        (">= TIMESTAMP '2020-01-01 23:59:59.999999999'", [2, 3]),
        ("> TIMESTAMP '2020-01-02 00:00:00.000000001'", [3]),
        ("IN (TIMESTAMP '2020-01-02 00:00:00', TIMESTAMP '2020-01-03 00:00:00.000000001')", [2]),
        ("BETWEEN TIMESTAMP '2020-01-01 00:00:00.000000001' AND TIMESTAMP '2020-01-02 23:59:59'", [2]),
    ],
)
def test_a_date_is_midnight_to_the_nanosecond(tmp_path: Path, condition: str, wanted: list[int]) -> None:
    table = Table.create(tmp_path / "t", "id INT, d DATE", primary_key="id")
    table.upsert([{"id": day, "d": date(2020, 1, day)} for day in (1, 2, 3)])
    assert sorted(table.to_arrow(where=f"d {condition}").column("id").to_pylist()) == wanted


@covers("RD-6")
@pytest.mark.parametrize("text", ["-9999999999999999999999999999.0000000001", "12345678901234567890"])
def test_a_number_keeps_all_its_digits(text: str) -> None:
    value = Decimal(text)
    rows = pa.table({"v": pa.array([value], pa.decimal128(38, 10))})
    fields = parse_columns("v DECIMAL(38, 10)")
    assert parse(f"v = {value}", fields).filter(rows).num_rows == 1
    assert parse(f"v < {value}", fields).filter(rows).num_rows == 0


NUMBERS = {
    "TINYINT": "i1",
    "INT": "i4",
    "DATE": "i4",
    "BIGINT": "i8",
    "FLOAT": "f4",
    "DOUBLE": "f8",
    "BOOLEAN": "?",
}
"""Types whose bounds are arrays of numbers, and the type of these numbers."""


def bounds(values: list[tuple[Any, Any, int, int]], kind: Any = object) -> Bounds:
    """Return what (minimum, maximum, null count, row count) of each of n files say."""

    def end(ends: list[Any]) -> tuple[Any, Any]:
        known = np.array([one is not None for one in ends])
        found = np.zeros(len(ends), kind)
        found[known] = [one for one in ends if one is not None]
        return found, known

    low, high, nulls, rows = (list(column) for column in zip(*values, strict=True))
    return Bounds(end(low), end(high), np.array(nulls) != 0, np.array(nulls) < np.array(rows))


def bounds_of(files: list[list[Row]], known: set[str], *, as_objects: bool) -> dict[str, Bounds]:
    """Return the bounds of the columns ``known`` in each of ``files``."""
    table = {}
    for field in FIELDS:
        found = []
        for rows in files:
            values = [v for v in values_of(table_of(rows).column(field.name), field.type) if v is not None]
            ends = [v for v in values if v == v] or [None]  # statistics skip NaN
            low, high = (ends[0], ends[0]) if len(ends) == 1 else (min(ends), max(ends))
            found.append((low, high, len(rows) - len(values), len(rows)))
        if field.name in known:
            kind = object if as_objects else NUMBERS.get(field.type.root, object)
            table[field.name] = bounds(found, kind)
    return table


def may(predicate: Predicate, **columns: tuple[Any, Any, int, int]) -> bool:
    """Return whether one file of these bounds may match."""
    return bool(may_match(predicate, {name: bounds([values]) for name, values in columns.items()}, 1)[0])


@covers("RD-8")
@settings(max_examples=400, deadline=None)
@given(
    condition=CONDITIONS,
    files=st.lists(ROWS.filter(bool), min_size=1, max_size=3),
    known=st.sets(st.sampled_from([f.name for f in FIELDS])),
    as_objects=st.booleans(),
)
def test_pruning_loses_no_row(
    condition: Text, files: list[list[Row]], known: set[str], as_objects: bool
) -> None:
    predicate = parse(condition.sql, FIELDS)
    found = may_match(predicate, bounds_of(files, known, as_objects=as_objects), len(files))
    for rows, kept in zip(files, found.tolist(), strict=True):
        assert kept or not any(condition.of(row) is True for row in rows)
    alone = [may_match(predicate, bounds_of([rows], known, as_objects=True), 1).item() for rows in files]
    assert found.tolist() == alone


@covers("RD-8")
@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("n > 5 AND n < 20", [False, True, True]),
        ("n = 3 OR n >= 30", [True, False, True]),
        ("n IN (1, 40)", [True, False, True]),
        ("n IS NULL", [True, False, False]),
        ("n IS NOT NULL AND 4 >= n", [True, False, False]),
        ("f < 2.0", [True, False, True]),
        ("s LIKE 'b%'", [False, True, True]),
        ("s LIKE 'bx'", [False, False, True]),
        ("s LIKE '%x'", [True, True, True]),
        ("f > 100.0", [True, True, True]),  # a NaN is in no bounds
    ],
)
def test_bounds_rule_out_exactly_the_files_that_they_can(where: str, wanted: list[bool]) -> None:
    n = [(0, 5, 1, 9), (10, 20, 0, 9), (12, 50, 0, 9)]
    table = {
        "n": bounds(n, np.int32),
        "f": bounds([(low, 3.0, 0, 9) for low in (0.5, 2.0, 1.0)], np.float32),
        "s": bounds([(low, high, 0, 9) for low, high in (("c", "d"), ("aa", "bb"), ("bb", "bz"))]),
    }
    assert may_match(parse(where, FIELDS), table, 3).tolist() == wanted


@covers("RD-16")
@settings(max_examples=200, deadline=None)
@given(condition=CONDITIONS, rows=ROWS)
def test_pinned_keys_are_all_there_are(condition: Text, rows: list[Row]) -> None:
    predicate = parse(condition.sql, FIELDS)
    for names in (["k"], ["s", "k"], ["d"]):
        tuples = key_equalities(predicate, names)
        if tuples is not None:
            fields = [next(field for field in FIELDS if field.name == name) for name in names]
            found = predicate.filter(table_of(rows))
            columns = [values_of(found.column(field.name), field.type) for field in fields]
            assert set(zip(*columns, strict=True)) <= set(tuples)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("k = 5 AND s IN ('a', 'b')", [(5, "a"), (5, "b")]),
        ("(k = 5 OR k = 6) AND s = 'a'", [(5, "a"), (6, "a")]),
        ("k IN (1, 2, NULL) AND k <> 7 AND s = 'a' AND k IN (2, 3)", [(2, "a")]),
        ("k = 5.0 AND s <=> 'a'", [(5, "a")]),
        ("k = NULL AND s = 'a'", []),
        ("k = 5", None),
        ("k = 5 OR s = 'a'", None),
        ("k > 5 AND s = 'a'", None),
        ("NOT k = 5 AND s = 'a'", None),
        ("k IS NULL AND s = 'a'", None),
        ("k <=> NULL AND s = 'a'", None),
        ("k + 1 = 5 AND s = 'a'", None),
    ],
)
def test_keys_are_pinned_by_equalities_only(where: str, expected: list[Any] | None) -> None:
    assert key_equalities(parse(where, FIELDS), ["k", "s"]) == expected


@covers("RD-6")
@pytest.mark.parametrize("text", ["true", "T", "yes", "y", "1", "false", "F", "no", "n", "0"])
def test_a_text_beside_a_boolean_is_what_spark_casts_it_to(text: str) -> None:
    rows: list[Row] = [{"b": True}, {"b": False}]
    found = parse(f"b = '{text}'", FIELDS).filter(table_of(rows))
    assert found.column("b").to_pylist() == [text.lower() in ("true", "t", "yes", "y", "1")]


def test_floats_are_never_pinned() -> None:
    assert key_equalities(parse("f = CAST('0' AS DOUBLE)", FIELDS), ["f"]) is None


DAY = (date(2024, 2, 1) - date(1970, 1, 1)).days


@covers("RD-8", "RD-16")
@pytest.mark.parametrize(
    "where",
    [
        "k = 5",
        "k > 3 AND true",
        "k >= 4 OR k < 1",
        "k IN (0, 4)",
        "k BETWEEN 4 AND 9",
        "k = 2.5 AND k > 3",
        "k IS NULL",
        "k <=> NULL",
        "NOT k < 4",
        "n = 3000000000 AND k = 9",
        "s LIKE 'c%'",
        "s = 'bb'",
        "s < 'a'",
        "d > '2024-02-01'",
        "d = DATE '2023-12-31'",
        "w >= '2024-02-02'",
        "f < 0.5",
        "n = 1",
        "n IS NOT NULL",
        "NULL",
        "k = NULL",
        "false",
    ],
)
def test_a_file_that_cannot_match_is_skipped(where: str) -> None:
    day = 86_400 * 10**9
    assert not may(
        parse(where, FIELDS),
        k=(1, 3, 0, 4),
        n=(None, None, 4, 4),
        s=("a", "b", 2, 4),
        d=(DAY - 31, DAY, 0, 4),
        w=((DAY - 31) * day, DAY * day, 0, 4),
        f=(1.0, 2.0, 0, 4),
    )


def test_nan_hides_in_no_range() -> None:
    assert may(parse("f > 100", FIELDS), f=(1.0, 2.0, 0, 4))


# What is refused


UNKNOWN_PATTERNS = (
    "(?i)a", "a++", "a**", "*a", r"a\\b", r"(a)\\1", "[a&&b]", "[[:alpha:]]", "[]a]", "[z-a]", r"[\\D]", "a{3,1}", "a{",
    "(a", "a)", "$a", "a^", "(a$)b", r"\\Qa", r"\\x41",
)  # fmt: skip
"""Parts that Java and RE2 read differently, or that one of them does not have."""


PATTERNS = [
    ("^[RL]o", {"Rome"}),
    ("a$", {"Lima", "Lima\n", "Lima\r\n", "Lima\u2028"}),
    ("^....$", {"Rome", "Lima", "Lima\n", "Lima\r\n", "Lima\u2028"}),
    ("a.x", {"a x", "a\x0bx"}),
    ("a.$", set()),
    ("o|é", {"Rome", "né"}),
    ("^(R|n)[^a-z]*[oé]", {"Rome", "né"}),
    (r"\\s", {"Lima\n", "Lima\r\n", "a x", "a\x0bx"}),
    (r"x\\W*$", {"a x", "a\x0bx"}),
    ("", {"Rome", "Lima", "Lima\n", "Lima\r\n", "Lima\u2028", "a x", "a\x0bx", "né", ""}),
]


@covers("STM-14")
@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_a_regular_expression_finds_what_java_finds(pattern: str, expected: set[str]) -> None:
    texts = ["Rome", "Lima", "Lima\n", "Lima\r\n", "Lima\u2028", "a x", "a\x0bx", "né", "", None]
    found = (
        parse(f"s RLIKE '{pattern}'", parse_columns("s STRING"))
        .filter(pa.table({"s": texts}))
        .column("s")
        .to_pylist()
    )
    assert set(found) == expected


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("", "none"),
        ("k = 1; k = 2", "2"),
        ("k = 1 garbage", "garbage"),
        ("k = = 1", "line 1"),
        ("s = 'open", "a quote is not closed"),
        ("k = 1e", "expected a number"),
        ("k = 1.5e", "expected a number"),
        ("X'zz' = y", "expected hexadecimal digits"),
        ("X'1_1' = y", "expected hexadecimal digits"),
        ("(k = 1", "line 1"),
        ("nosuch = 1", "columns are id, k, n"),
        ("x.k = 1", "x is not known here"),
        ("k.x = 1", "fields inside of a column are not read here"),
        ("k", "condition"),
        ("s", "condition"),
        ("k = (SELECT 1)", "SELECT"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("k IN (SELECT 1)", "query"),
        ("now() > w", "NOW"),
        ("rand() > 0.5", "RAND"),
        ("s ILIKE 'a'", "ILIKE"),
        ("s LIKE k", "pattern"),
        ("s LIKE 'a\\\\b'", "after"),
        ("s LIKE 'a/' ESCAPE '/'", "after"),
        ("s LIKE 'a' ESCAPE 'ab'", "ESCAPE must follow LIKE and be one character"),
        ("CASE WHEN k THEN 1 END = 1", "condition"),
        ("CASE WHEN b THEN 1 ELSE 'a' END = 1", "cannot be compared"),
        ("year(z) = 2024", "time zone of the session"),
        ("hour(d) = 0", "expected a TIMESTAMP"),
        ("year(s) = 2024", "expected a DATE or TIMESTAMP"),
        ("round(f, 1) = 1.5", "of a floating-point number"),
        ("floor(f) = 1", "of a floating-point number"),
        ("m / 2 = 1", "CAST one to DOUBLE"),
        ("date_add(w, 1) > d", "expected a DATE and an INT"),
        ("date_sub(d, 1, MONTH) > d", "Expected at most 2 arguments"),
        ("datediff(DAY, d, d, d) = 1", "Expected at most 3 arguments"),
        ("datediff(MONTH, d, d) = 1", "unit is not supported there"),
        ("datediff(d) = 1", "a function lacks an argument"),
        ("mod(k, 2, 3) = 1", "Expected at most 2 arguments"),
        ("k IN ()", "expected a value in the parentheses"),
        ("k IS TRUE", "expected IS [NOT] NULL, TRUE or FALSE"),
        ("abs(s) = 1", "expected a number, found STRING"),
        ("s = '\ud800'", "expected whole characters, found half a surrogate pair"),
        ("m DIV 2 = 1", "expected integers"),
        ("round(m, -1) = 0", "places from 0 on"),
        ("trim(BOTH 'x' FROM s) = ''", "expression is not supported there"),
        ("replace(s, s, 'x') = ''", "a text as a literal"),
        ("greatest(f, 1) > 0", "two values or more"),
        ("current_date() = d", "of dates and times there are year, quarter"),
        ("s RLIKE s", "a pattern as a literal"),
        *((f"s RLIKE '{one}'", "a part of this pattern is not supported") for one in UNKNOWN_PATTERNS),
        ("date_trunc('month', w) = w", "of dates and times there are year, quarter"),
        ("yaer(d) = 1", "did you mean year?"),
        ("lpad(s, 2) = 'a'", "of text there are upper"),
        ("any_function(s) = 'a'", "there are CASE, CAST"),
        ("k = 'one'", "STRING"),
        ("s = 1", "STRING"),
        ("b = 1", "BOOLEAN"),
        ("d = '2024-02-30'", "expected a DATE, found '2024-02-30'"),
        ("w > '2024-01-01 24:00:00'", "expected a TIMESTAMP"),
        ("d = DATE 'soon'", "soon"),
        ("w = z", "TIMESTAMP"),
        ("w = TIMESTAMP '2024-01-01 00:00:00Z'", "TIMESTAMP"),
        ("TRY_CAST(s AS INT) = 1", "hides values"),
        ("CAST(s AS INT) = 1", "CAST from STRING to INT is not supported"),
        ("lower(upper(s)) = 'ss'", "of a value that upper or lower makes is not supported"),
        (
            "upper(coalesce(NULL, lower(s) || 'a')) = 'ss'",
            "of a value that upper or lower makes is not supported",
        ),
        ("CAST(f AS DECIMAL(5, 2)) = 1", "DECIMAL"),
        ("CAST(k AS ARRAY<INT>) = 1", "ARRAY"),
        ("m / 2 = 1", "DECIMAL"),
        ("m % 2 = 1", "DECIMAL"),
        ("s + 1 = 1", "STRING"),
        ("k BETWEEN SYMMETRIC 1 AND 2", "symmetric"),
        ("(k, n) = (1, 2)", "(k, n)"),
        ("k = ?", "?"),
        ("k[0] = 1", "k[0]"),
        ("substring(s, k) = 'a'", "literals"),
        (" AND ".join(["("] * 3000), "where"),
        ("(" * 3000 + "k = 1" + ")" * 3000, "nested too deeply"),
        ("k = 1" + "0" * 40, "digits"),
        ("k = 1" + "0" * 5000, "digits"),
        ("k = '1e99999999999999999999'", "STRING"),
        ("CAST('1e99999999999999999999' AS INT) = 1", "not a valid INT"),
        ("f < '1e400'", "STRING"),
        ("f = '1e-400'", "STRING"),
        ("e < CAST('1e39' AS FLOAT)", "not a valid FLOAT"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(where: str, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(named)) as caught:
        parse(where, FIELDS)
    assert "\n" not in str(caught.value)


def test_what_is_no_text_is_no_condition() -> None:
    where: Any = b"k = 1"
    with pytest.raises(InvalidRequestError, match="where: expected SQL text, found bytes"):
        parse(where, FIELDS)


def test_a_time_finer_than_microseconds_has_no_text_for_spark() -> None:
    found = parse("t = '2024-01-01 00:00:00.000000001'", parse_columns("t TIMESTAMP(9)"))
    with pytest.raises(
        InvalidRequestError, match=r"where: 2024-01-01T00:00:00\.000000001 is finer than a microsecond"
    ):
        spark_text(found.root)


def test_a_text_with_the_character_nul_has_no_text_for_duckdb() -> None:
    with pytest.raises(InvalidRequestError, match="a text with the character NUL is not supported"):
        duckdb_text(parse("s = 'a\0b'", FIELDS).root)


def test_columns_that_differ_in_case_are_told_apart() -> None:
    fields = parse_columns("k INT, K INT, v INT")
    assert parse("K = 1 AND V = 2", fields).columns() == ("K", "v")
    with pytest.raises(InvalidRequestError, match="ambiguous"):
        parse("ab = 1", parse_columns("aB INT, Ab INT"))


@pytest.mark.parametrize("where", ["1 / k > 0", "k % 0 = 1", "CAST(n AS TINYINT) = 1", "n * n > 0", "-n > 0"])
def test_arithmetic_that_fails_raises(where: str) -> None:
    row = dict.fromkeys(SCHEMA.names) | {"k": 0, "n": -(2**63)}
    with pytest.raises(InvalidRequestError, match="where"):
        parse(where, FIELDS).filter(table_of([row]))


def test_a_condition_guards_those_after_it() -> None:
    rows = [dict.fromkeys(SCHEMA.names) | {"id": k, "k": k} for k in (0, 1, 2)]
    found = parse("k <> 0 AND 6 / k > 3 AND CAST(k AS TINYINT) < 5", FIELDS).filter(table_of(rows))
    assert ids(found) == [1]


def test_an_expression_gives_null_where_sql_does() -> None:
    rows = table_of([dict.fromkeys(SCHEMA.names) | {"id": at, "k": k} for at, k in enumerate((1, None, 2))])
    truth = expression(parse("k = 1", FIELDS), rows.schema)
    assert ds.dataset(rows).to_table(columns={"it": truth}).column("it").to_pylist() == [True, None, False]
