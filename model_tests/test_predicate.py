"""Conditions in SQL: Arrow agrees with a plain evaluator and with Spark, and pruning never loses a row.

A drawn condition is a pair: its text, and a Python function of a row that gives true, false or None.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.sparks import spark_session
from pktable.format.types import parse_columns, to_arrow, values_of
from pktable.predicate import ColumnRange, key_equalities, may_match, parse
from pktable.predicate import to_arrow as expression

Row = dict[str, Any]

FIELDS = parse_columns(
    "id INT, k INT, n BIGINT, t TINYINT, s STRING, d DATE, m DECIMAL(5, 2), f DOUBLE, e FLOAT, b BOOLEAN, "
    "w TIMESTAMP(6), z TIMESTAMP(6) WITH LOCAL TIME ZONE, y BYTES"
)
SCHEMA = pa.schema([(field.name, to_arrow(field.type)) for field in FIELDS])


# A plain evaluator


class Text(NamedTuple):
    """SQL and what it means for a row."""

    sql: str
    of: Callable[[Row], Any]


def lifted(function: Callable[..., Any], *parts: Text) -> Callable[[Row], Any]:
    """Return ``function`` of the parts, None where one of them is."""

    def of(row: Row) -> Any:
        values = [part.of(row) for part in parts]
        return None if None in values else function(*values)

    return of


def column(name: str) -> Text:
    return Text(name, lambda row: row[name])


def constant(sql: str, value: object) -> Text:
    return Text(sql, lambda row: value)


def order_key(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(sign: str, left: Text, right: Text) -> Text:
    sql = f"{left.sql} {sign} {right.sql}"
    if sign == "<=>":
        return Text(sql, lambda row: order_key(left.of(row)) == order_key(right.of(row)))
    return Text(sql, lifted(lambda a, b: OPERATORS[sign](order_key(a), order_key(b)), left, right))


def any_of(values: list[Any]) -> Any:
    return True if True in values else None if None in values else False


def negated(value: Any) -> Any:
    return None if value is None else not value


def member(value: Text, options: list[Text]) -> Text:
    equal = [compared("=", value, option) for option in options]
    sql = f"{value.sql} IN ({', '.join(option.sql for option in options)})"
    return Text(sql, lambda row: any_of([one.of(row) for one in equal]))


def matches(text: str, pattern: str) -> bool:
    regex = re.sub(r"\\(.)|(%)|(_)|(.)", like_part, pattern, flags=re.DOTALL)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def like_part(part: re.Match[str]) -> str:
    return ".*" if part[2] else "." if part[3] else re.escape(part[1] or part[4])


def remainder(dividend: Any, divisor: int) -> int:
    return int(math.fmod(dividend, divisor))


def substring(text: str, start: int, length: int) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


# What is drawn


def numbers() -> st.SearchStrategy[Text]:
    literals = [constant(text, Decimal(text)) for text in ("-1", "0", "1", "2", "1.5", "-0.25", "300")]
    exact = st.sampled_from([column("k"), column("n"), column("t"), column("m"), *literals])
    whole = st.sampled_from([column("k"), column("n"), column("t"), *literals[:4]])
    divisors = st.sampled_from([constant("2", 2), constant("-1", -1), constant("3", 3)])
    return st.one_of(
        exact,
        st.builds(lambda a, b: Text(f"({a.sql} + {b.sql})", lifted(operator.add, a, b)), exact, exact),
        st.builds(lambda a, b: Text(f"({a.sql} - {b.sql})", lifted(operator.sub, a, b)), exact, exact),
        st.builds(lambda a, b: Text(f"({a.sql} * {b.sql})", lifted(operator.mul, a, b)), exact, exact),
        st.builds(lambda a, b: Text(f"({a.sql} % {b.sql})", lifted(remainder, a, b)), whole, divisors),
        st.builds(lambda a: Text(f"-{a.sql}", lifted(operator.neg, a)), st.sampled_from([column("k"), column("m")])),
        st.builds(lambda a: Text(f"abs({a.sql})", lifted(abs, a)), exact),
        st.builds(lambda a: Text(f"length({a.sql})", lifted(len, a)), strings()),
        st.builds(
            lambda a, b: Text(
                f"coalesce({a.sql}, {b.sql})", lambda row: b.of(row) if a.of(row) is None else a.of(row)
            ),
            exact,
            exact,
        ),
    )


def strings() -> st.SearchStrategy[Text]:
    plain = st.sampled_from([column("s"), *(constant(f"'{text}'", text) for text in ("", "a", "b", "é", "aB"))])
    return st.one_of(
        plain,
        st.builds(lambda a, b: Text(f"({a.sql} || {b.sql})", lifted(operator.add, a, b)), plain, plain),
        st.builds(lambda a: Text(f"upper({a.sql})", lifted(str.upper, a)), plain),
        st.builds(lambda a: Text(f"lower({a.sql})", lifted(str.lower, a)), plain),
        st.builds(
            lambda a, start, length: Text(
                f"substring({a.sql}, {start}, {length})", lifted(lambda text: substring(text, start, length), a)
            ),
            plain,
            st.integers(-3, 3),
            st.integers(-1, 3),
        ),
    )


def floats() -> st.SearchStrategy[Text]:
    texts = ("NaN", "-0.0", "0", "1.5", "Infinity", "-1")
    return st.sampled_from(
        [column("f"), column("e"), *(constant(f"CAST('{text}' AS DOUBLE)", float(text)) for text in texts)]
    )


def days() -> st.SearchStrategy[Text]:
    literals = [constant(f"DATE '{day}'", day) for day in map(date.fromisoformat, ("1969-12-31", "2024-02-29"))]
    return st.sampled_from([column("d"), column("d"), *literals])


def times() -> st.SearchStrategy[Text]:
    texts = ("1969-12-31 23:59:59.999999", "2024-02-29 00:00:00")
    literals = [constant(f"TIMESTAMP_NTZ '{text}'", datetime.fromisoformat(text)) for text in texts]
    return st.sampled_from([column("w"), column("w"), *literals])


def booleans() -> st.SearchStrategy[Text]:
    return st.sampled_from([column("b"), constant("true", True), constant("false", False)])


VALUES = st.one_of(*(st.tuples(kind, kind) for kind in (numbers(), strings(), floats(), days(), times(), booleans())))
NULL = constant("NULL", None)
OPTIONS = st.one_of(
    st.tuples(kind, st.lists(kind | st.just(NULL), min_size=1, max_size=3))
    for kind in (numbers(), strings(), floats(), days())
)
PATTERNS = st.lists(st.sampled_from(["a", "B", "é", "%", "_", "\\%", "\\_"]), max_size=4).map("".join)
SIMPLE = st.one_of(
    st.builds(lambda sign, pair: compared(sign, *pair), st.sampled_from([*OPERATORS, "<=>"]), VALUES),
    st.builds(lambda pair: member(*pair), OPTIONS),
    st.builds(lambda pair: Text(f"{pair[0].sql} IS NULL", lambda row: pair[0].of(row) is None), VALUES),
    st.builds(lambda pair: Text(f"{pair[0].sql} IS NOT NULL", lambda row: pair[0].of(row) is not None), VALUES),
    st.builds(
        lambda a, pattern: Text(f"{a.sql} LIKE r'{pattern}'", lifted(lambda text: matches(text, pattern), a)),
        strings(),
        PATTERNS,
    ),
    booleans(),
)


def combined(inner: st.SearchStrategy[Text]) -> st.SearchStrategy[Text]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(lambda a: Text(f"(NOT ({a.sql}))", lambda row: negated(a.of(row))), inner),
        st.builds(
            lambda parts: Text(
                "(" + " OR ".join(part.sql for part in parts) + ")",
                lambda row: any_of([part.of(row) for part in parts]),
            ),
            several,
        ),
        st.builds(
            lambda parts: Text(
                "(" + " AND ".join(part.sql for part in parts) + ")",
                lambda row: negated(any_of([negated(part.of(row)) for part in parts])),
            ),
            several,
        ),
        st.builds(lambda a: Text(f"(({a.sql}) IS TRUE)", lambda row: a.of(row) is True), inner),
    )


CONDITIONS = st.recursive(SIMPLE, combined, max_leaves=4)


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.0, math.nan, math.inf])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": or_null(st.integers(-2, 3)),
            "n": or_null(st.integers(-2, 3)),
            "t": or_null(st.integers(-2, 3)),
            "s": or_null(st.text("aBé", max_size=3)),
            "d": or_null(st.sampled_from([date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)])),
            "m": or_null(st.sampled_from([Decimal(x) for x in ("-1.00", "0.00", "1.50", "2.00", "-0.25")])),
            "f": or_null(FLOATS),
            "e": or_null(FLOATS),
            "b": or_null(st.booleans()),
            "w": or_null(st.sampled_from([datetime(2024, 2, 29), datetime(1969, 12, 31, 23, 59, 59, 999999)])),
            "z": st.none(),
            "y": st.none(),
        }
    ),
    max_size=6,
).map(lambda rows: [{"id": at, **row} for at, row in enumerate(rows)])


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def ids(table: pa.Table) -> list[int]:
    found: list[int] = table.column("id").to_pylist()
    return found


# What must hold


@covers("RD-6")
@settings(max_examples=400, deadline=None)
@given(condition=CONDITIONS, rows=ROWS)
def test_arrow_agrees_with_a_plain_evaluator(condition: Text, rows: list[Row]) -> None:
    predicate = parse(condition.sql, FIELDS)
    assert ids(predicate.filter(table_of(rows))) == [row["id"] for row in rows if condition.of(row) is True]


@covers("RD-8")
@settings(max_examples=400, deadline=None)
@given(condition=CONDITIONS, rows=ROWS.filter(bool), known=st.sets(st.sampled_from([f.name for f in FIELDS])))
def test_pruning_loses_no_row(condition: Text, rows: list[Row], known: set[str]) -> None:
    table = table_of(rows)
    ranges = {}
    for field in FIELDS:
        values = [v for v in values_of(table.column(field.name), field.type) if v is not None]
        bounds = [v for v in values if v == v]  # statistics skip NaN
        low, high = (min(bounds), max(bounds)) if bounds else (None, None)
        if field.name in known:
            ranges[field.name] = ColumnRange(low, high, len(rows) - len(values), len(rows))
    if any(condition.of(row) is True for row in rows):
        assert may_match(parse(condition.sql, FIELDS), ranges)


@covers("RD-8")
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


def test_floats_are_never_pinned() -> None:
    assert key_equalities(parse("f = CAST('0' AS DOUBLE)", FIELDS), ["f"]) is None


DAY = (date(2024, 2, 1) - date(1970, 1, 1)).days


@covers("RD-8")
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
    ranges = {
        "k": ColumnRange(1, 3, 0, 4),
        "n": ColumnRange(None, None, 4, 4),
        "s": ColumnRange("a", "b", 2, 4),
        "d": ColumnRange(DAY - 31, DAY, 0, 4),
        "w": ColumnRange((DAY - 31) * 86_400 * 10**9, DAY * 86_400 * 10**9, 0, 4),
        "f": ColumnRange(1.0, 2.0, 0, 4),
    }
    assert not may_match(parse(where, FIELDS), ranges)


def test_nan_hides_in_no_range() -> None:
    assert may_match(parse("f > 100", FIELDS), {"f": ColumnRange(1.0, 2.0, 0, 4)})


# What is refused


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("", "none"),
        ("k = 1; k = 2", "2"),
        ("k = 1 garbage", "garbage"),
        ("k = = 1", "line 1"),
        ("s = 'open", "open quote"),
        ("(k = 1", "line 1"),
        ("nosuch = 1", "columns are id, k, n"),
        ("x.k = 1", "table"),
        ("k", "condition"),
        ("s", "condition"),
        ("k = (SELECT 1)", "SELECT"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("k IN (SELECT 1)", "query"),
        ("now() > w", "NOW"),
        ("rand() > 0.5", "RAND"),
        ("regexp_like(s, 'a')", "RLIKE"),
        ("s ILIKE 'a'", "ILIKE"),
        ("s LIKE k", "pattern"),
        ("s LIKE 'a\\\\b'", "after"),
        ("s LIKE 'a/' ESCAPE '/'", "after"),
        ("CASE WHEN b THEN 1 END = 1", "CASE"),
        ("k = 'one'", "STRING"),
        ("s = 1", "STRING"),
        ("b = 1", "BOOLEAN"),
        ("d = '2024-02-30'", "DATE"),
        ("d = DATE 'soon'", "soon"),
        ("w = z", "TIMESTAMP"),
        ("w = TIMESTAMP '2024-01-01 00:00:00Z'", "TIMESTAMP"),
        ("TRY_CAST(s AS INT) = 1", "TRY_CAST"),
        ("CAST(s AS INT) = 1", "STRING"),
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
        ("(" * 3000 + "k = 1" + ")" * 3000, "where"),
        ("k = 1" + "0" * 40, "digits"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(where: str, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(named)) as caught:
        parse(where, FIELDS)
    assert "\n" not in str(caught.value)


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
    import pyarrow.dataset as ds

    assert ds.dataset(rows).to_table(columns={"it": truth}).column("it").to_pylist() == [True, None, False]


# What Spark says

SPARK_ROWS: list[Row] = [
    {
        "id": 0, "k": 1, "n": 5, "t": 1, "s": "a", "d": date(2024, 2, 29), "m": Decimal("1.50"), "f": 1.5, "e": 0.1,
        "b": True, "w": datetime(2024, 2, 29, 12), "z": datetime(2024, 2, 29, 12, tzinfo=timezone.utc), "y": b"\x01",
    },
    {
        "id": 1, "k": -2, "n": 2**62, "t": -128, "s": "straße", "d": date(1969, 12, 31), "m": Decimal("-0.25"),
        "f": math.nan, "e": math.nan, "b": False, "w": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "z": datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc), "y": b"",
    },
    {
        "id": 2, "k": 0, "n": -5, "t": 0, "s": "a%b\\\n", "d": date(2024, 3, 1), "m": Decimal("999.99"), "f": -0.0,
        "e": 0.0, "b": None, "w": datetime(2024, 3, 1), "z": datetime(2024, 3, 1, tzinfo=timezone.utc), "y": b"\xff",
    },
    {"id": 3, **dict.fromkeys(SCHEMA.names[1:])},
    {
        "id": 4, "k": 5, "n": 7, "t": 5, "s": "\U0001f600", "d": date(2024, 1, 1), "m": Decimal("2.00"),
        "f": math.inf, "e": 1.5, "b": True, "w": datetime(2024, 1, 1), "z": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "y": b"\x01\x02",
    },
]  # fmt: skip

SPARK_TEXTS = (
    "k = 1", "k <> 1", "NOT k = 1", "k = 5.0", "k = 5.5", "k <> 5.5", "k < 0.5", "t = 300", "t > -129", "t = 5Y",
    "k IN (1, NULL)", "k NOT IN (1, NULL)", "NOT (k IN (1, 5))", "k IN (1, 5.0)", "k NOT BETWEEN 0 AND 3",
    "k = NULL", "k <=> NULL", "k IS DISTINCT FROM 1", "k <=> 1 OR b", "b", "NOT b", "b IS NOT TRUE", "b <=> NULL",
    "b AND NULL", "b OR NULL", "(b OR k < 0) IS NULL", "b = true", "b < true", "k + 1 > 1", "k - n < 0", "n / 2 > 2",
    "n % 3 = -2", "-k = 2", "abs(k) = 2", "m = 1.5", "m > 1.499", "m * 2 = 3", "m + k > 2", "m - 0.005 < 1.5",
    "m IN (1.5, 2)", "m = k", "m = 1.50BD", "n = 5L", "n > 4e0", "f = f", "f > 100", "f >= CAST('NaN' AS DOUBLE)",
    "f = 0", "f < 0.0", "f <> f", "e = 0.1", "e = 1.5", "e = f", "e > 0.5F", "CAST(m AS DOUBLE) = 999.99D", "m < f",
    "s = 'a'", "s > 'a'", "s < '\U0001f600'", "s >= '\uffff'", "s LIKE 'a%'", "s LIKE '_'", r"s LIKE '%\\%%'",
    "s NOT LIKE 'a%'", r"s LIKE 'a\%b_\n'", "s LIKE 'a/%%' ESCAPE '/'", "upper(s) = 'STRASSE'", "length(s) = 1",
    "lower('ÀB') || s = 'àba'", "substring(s, 2, 3) = 'tra'", "substring(s, -2) = 'ße'", "substring(s, 0, 1) = 'a'",
    "substr(s, -9, 4) = 's'", "s || NULL = 'a'", "s = 'a%b\\\\\\n'", "'it''s' = \"it's\"", "coalesce(s, 'x') = 'x'",
    "coalesce(k, n, 9) = 9", "d = '2024-02-29'", "d > DATE '2024-01-31'", "d < w", "d = DATE '2024-2-29'",
    "d BETWEEN '2024-01-01' AND '2024-02-29'", "d IN (DATE '1969-12-31', NULL)", "w = TIMESTAMP_NTZ '2024-03-01'",
    "w > '2024-02-29 11:59:59.999999'", "w < TIMESTAMP '1970-01-01 00:00:00'", "CAST(w AS DATE) = '1969-12-31'",
    "z = '2024-02-29 12:00:00'", "z >= TIMESTAMP '2024-02-29 14:00:00+02:00'", "w = d", "CAST(d AS STRING) = '2024-02-29'",
    "CAST(k AS STRING) = '-2'", "CAST(m AS INT) = 0", "id = 0 AND CAST(f AS INT) = 1", "m < 9 AND CAST(m AS DECIMAL(4, 1)) = -0.3",
    "CAST(b AS INT) = 1", "CAST(k AS BOOLEAN)", "y = X'01'", "y > X'01'", "length(y) = 2", "n = 4611686018427387904",
    "n = 99999999999999999999", "n < 9223372036854775808", "n > -9223372036854775808", "K = 1 AND `k` = 1", "1 = 1",
    "k = 1 AND n = 5 OR s = 'a%b\\\\\\n' AND NOT b IS NULL", "k <> 0 AND 10 / k > 3",
)  # fmt: skip


@covers("RD-6")
@pytest.mark.spark
def test_spark_filters_the_same_rows() -> None:
    table = table_of(SPARK_ROWS)
    predicates = [parse(where, FIELDS) for where in SPARK_TEXTS]
    frame = spark_session().createDataFrame(table)
    given = frame.selectExpr(*(f"({where})" for where in SPARK_TEXTS)).collect()
    written = frame.selectExpr(*(predicate.text for predicate in predicates)).collect()
    wrong = {}
    for at, predicate in enumerate(predicates):
        ours = ids(predicate.filter(table))
        spark = [[row["id"] for row, answer in zip(SPARK_ROWS, rows, strict=True) if answer[at]] for rows in (given, written)]
        if spark != [ours, ours]:
            wrong[predicate.source] = (ours, *spark, predicate.text)
    assert wrong == {}
