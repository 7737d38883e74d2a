"""Conditions in SQL: Spark, given the text itself and given what we write for it, agrees with Arrow."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.predicate import parse
from pktable.predicate.resolve import resolve_value
from pktable.predicate.scope import Scope
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.text_as_java import REFUSED, changed
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.predicate import conditions
from model_tests.predicate.conditions import FIELDS, LAST_MICROSECOND, SCHEMA, Row, Text, ids, table_of


def row(*values: Any) -> Row:
    return dict(zip(SCHEMA.names, values, strict=True))


def both(*parts: int) -> tuple[datetime, datetime]:
    """Return a time on the wall, and as an instant."""
    wall = datetime(*parts)  # type: ignore[arg-type]
    return wall, wall.replace(tzinfo=timezone.utc)


# id, k, n, t, s, d, m, f, e, b, w, z, y
ROWS = [
    row(0, 1, 5, 1, "a", date(2024, 2, 29), Decimal("1.50"), 1.5, 0.1, True,
        *both(2024, 2, 29, 12), b"\x01"),
    row(1, -2, 2**62, -128, "straße", date(1969, 12, 31), Decimal("-0.25"), math.nan, math.nan, False,
        LAST_MICROSECOND, both(1969, 12, 31)[1], b""),
    row(2, 0, -5, 0, "a%b\\\n", date(2024, 3, 1), Decimal("999.99"), -0.0, 0.0, None,
        *both(2024, 3, 1), b"\xff"),
    row(3, *[None] * 12),
    row(4, 5, 7, 5, "😀", date(2024, 1, 1), Decimal("2.00"), math.inf, 1.5, True,
        *both(2024, 1, 1), b"\x01\x02"),
]  # fmt: skip

# Not here: NULL compared with a number beyond BIGINT, as in n < 9223372036854775808, which Spark calls true.
CONDITIONS = r"""
k = 1
CASE WHEN k > 0 THEN n WHEN k < 0 THEN -k ELSE 100 END > 4
CASE WHEN k > 0 THEN 'a' END IS NULL
CASE WHEN k <> 0 THEN n / k ELSE n END < 3
CASE WHEN k = 0 THEN NULL WHEN n % k = 0 THEN 1 ELSE 0 END = 1
CASE k WHEN 1 THEN s WHEN 5 THEN 'b' ELSE upper(s) END > 'a'
CASE WHEN b THEN k > 1 ELSE m > 0 END
if(k > 0, m, k) > 0.5
nullif(k, 1) IS NULL
nullif(k, n) > 0
year(d) = 2024
quarter(d) = 1
month(d) = 12 OR day(d) = 29
weekofyear(d) = 9
dayofweek(d) = 5
dayofyear(d) > 59
dayofmonth(w) = 29
hour(w) = 12
minute(w) + second(w) = 118
year(w) = 1969
datediff(d, DATE '2024-02-29') BETWEEN 0 AND 1
date_add(d, 1) = '2024-03-01'
date_sub(d, k) < DATE '2024-01-01'
n DIV 3 = -1
CASE WHEN k <> 0 THEN -7 DIV k ELSE 0 END < 0
floor(m) = -1
ceil(m) = 2
floor(n) < 0
ceiling(m) > 999
round(m) = 2
round(m, 1) = -0.3
round(m, 5) = 1.5
round(k, 2) = 5
trim(concat('  ', s, ' ')) = s
ltrim(s || ' ') = 'a '
rtrim('a  ') = s
replace(s, 'a', 'bb') = 'bb'
replace(s, 'ß') = 'strae'
replace(s, '', 'x') = s
startswith(s, 'a')
NOT endswith(s, 'e')
contains(s, '%b')
s RLIKE '^[as]'
s RLIKE '(a|e)$'
s RLIKE '^..?$'
s RLIKE 'b.'
s RLIKE '\\\\[^\\w]+'
NOT s RLIKE '\\W'
greatest(k, n, 1) = 7
least(k, n) = k
greatest(s, 'b') = 'b'
least(d, DATE '2024-02-29') = d
k <> 1
NOT k = 1
k = 5.0
k = 5.5
k <> 5.5
k < 0.5
t = 300
t > -129
t = 5Y
k IN (1, NULL)
k NOT IN (1, NULL)
NOT (k IN (1, 5))
k IN (1, 5.0)
k NOT BETWEEN 0 AND 3
k = NULL
k <=> NULL
k IS DISTINCT FROM 1
k <=> 1 OR b
b
NOT b
b IS NOT TRUE
b <=> NULL
b AND NULL
b OR NULL
(b OR k < 0) IS NULL
b = true
b < true
k + 1 > 1
k - n < 0
n / 2 > 2
n % 3 = -2
-k = 2
abs(k) = 2
m = 1.5
m > 1.499
CAST(m AS DECIMAL(4, 0)) = 1000
CAST(m AS DECIMAL(5, 1)) < 0
m * 2 = 3
m + k > 2
m - 0.005 < 1.5
m IN (1.5, 2)
m = k
m = 1.50BD
n = 5L
n > 4e0
f = f
f > 100
f >= CAST('NaN' AS DOUBLE)
f = 0
f < 0.0
f <> f
e = 0.1
e = 1.5
e = f
e > 0.5F
CAST(m AS DOUBLE) = 999.99D
m < f
s = 'a'
s > 'a'
s < '😀'
s >= '�'
s LIKE 'a%'
s LIKE '_'
s LIKE '%\\%%'
s NOT LIKE 'a%'
s LIKE 'a\%b_\n'
s LIKE 'a/%%' ESCAPE '/'
upper(s) = 'STRASSE'
length(s) = 1
lower('ÀB') || s = 'àba'
substring(s, 2, 3) = 'tra'
substring(s, -2) = 'ße'
substring(s, 0, 1) = 'a'
substr(s, -9, 4) = 's'
s || NULL = 'a'
s = 'a%b\\\n'
'it''s' = "it's"
coalesce(s, 'x') = 'x'
coalesce(k, n, 9) = 9
d = '2024-02-29'
d > DATE '2024-01-31'
d < w
d = DATE '2024-2-29'
d BETWEEN '2024-01-01' AND '2024-02-29'
d IN (DATE '1969-12-31', NULL)
w = TIMESTAMP_NTZ '2024-03-01'
w > '2024-02-29 11:59:59.999999'
w < TIMESTAMP '1970-01-01 00:00:00'
CAST(w AS DATE) = '1969-12-31'
z = '2024-02-29 12:00:00'
z >= TIMESTAMP '2024-02-29 14:00:00+02:00'
w = d
CAST(d AS STRING) = '2024-02-29'
CAST(k AS STRING) = '-2'
CAST(m AS INT) = 0
id = 0 AND CAST(f AS INT) = 1
m < 9 AND CAST(m AS DECIMAL(4, 1)) = -0.3
CAST(b AS INT) = 1
CAST(k AS BOOLEAN)
y = X'01'
y > X'01'
length(y) = 2
n = 4611686018427387904
n = 99999999999999999999
n > -9223372036854775808
K = 1 AND `k` = 1
1 = 1
k = 1 AND n = 5 OR s = 'a%b\\\n' AND NOT b IS NULL
k <> 0 AND 10 / k > 3
""".strip().split("\n")


READ_OTHERWISE_BEFORE_4_1 = "'it''s' = \"it's\""
"""Spark 4.0 reads two literals and joins them. On every version a condition means what newer ones read."""


@pytest.mark.versions
@covers("RD-6", "WH-25")
@pytest.mark.spark
def test_spark_filters_the_same_rows() -> None:
    table = table_of(ROWS)
    predicates = [parse(where, FIELDS) for where in CONDITIONS]
    frame = spark_session().createDataFrame(table)
    is_old = spark_session().version.startswith("4.0.")
    given = frame.selectExpr(*(f"({where})" for where in CONDITIONS)).collect()
    written = frame.selectExpr(*(predicate.text for predicate in predicates)).collect()
    wrong = {}
    for at, predicate in enumerate(predicates):
        ours = ids(predicate.filter(table))
        answers = [[n for n, answer in enumerate(rows) if answer[at]] for rows in (given, written)]
        if is_old and predicate.source == READ_OTHERWISE_BEFORE_4_1:
            answers[0] = ours
        if answers != [ours, ours]:
            wrong[predicate.source] = (ours, *answers, predicate.text)
    assert wrong == {}


@covers("RD-6", "TBL-21")
@pytest.mark.spark
@settings(
    max_examples=12, phases=[Phase.generate], derandomize=True, deadline=None
)  # to shrink takes minutes
@given(st.lists(conditions.CONDITIONS, min_size=60, max_size=60), conditions.ROWS)
def test_spark_agrees_on_drawn_conditions(drawn: list[Text], rows: list[Row]) -> None:
    table = table_of(rows)
    frame = spark_session().createDataFrame(table)
    predicates = [parse(condition.sql, FIELDS) for condition in drawn]
    given = frame.selectExpr(*(f"({predicate.source})" for predicate in predicates)).collect()
    written = frame.selectExpr(*(predicate.text for predicate in predicates)).collect()
    wrong = {}
    for at, predicate in enumerate(predicates):
        ours = ids(predicate.filter(table))
        answers = [[n for n, answer in enumerate(rows) if answer[at]] for rows in (given, written)]
        if answers != [ours, ours]:
            wrong[predicate.source] = (ours, *answers, predicate.text)
    assert wrong == {}


@pytest.mark.versions
@covers("TBL-21")
@pytest.mark.spark
def test_letter_case_is_refused_where_versions_of_unicode_differ_and_the_same_elsewhere() -> None:
    """Every character alone and next to a capital sigma, which ends a word or does not."""
    texts: dict[str, list[str]] = {"upper": [], "lower": []}
    for at in range(0, 0x110000, 0x400):
        block = [chr(one) for one in range(at, at + 0x400) if one and not 0xD800 <= one < 0xE000]
        alone = " ".join(one for one in block if one != "Σ" and not re.search(REFUSED["lower"], one))
        near = [one for one in block if not re.search(REFUSED["lower"], f"Σ{one}")]
        texts["upper"].append(alone)
        texts["lower"] += [alone, " ".join(f"a{one}Σ aΣ{one} aΣ{one}b {one}Σ" for one in near)]
    assert sum(map(len, texts["upper"])) > 2 * 1_110_000
    for function, whole in texts.items():
        frame = spark_session().createDataFrame([(text,) for text in whole], "s STRING")
        written = spark_text(resolve_value(f"{function}(s)", Scope.of(FIELDS), what="set"))
        found = [one for (one,) in frame.selectExpr(written).collect()]
        assert found == [changed(text, function) for text in whole]


@covers("TBL-21")
@pytest.mark.parametrize("runner", [pytest.param("spark", marks=pytest.mark.spark), "local"])
def test_text_whose_case_depends_on_the_version_of_unicode_is_refused(tmp_path: Path, runner: str) -> None:
    session = spark_session() if runner == "spark" else None
    table = Table.create(tmp_path / "t", "id INT, s STRING", primary_key="id", spark=session, runner=runner)
    table.upsert([{"id": 1, "s": "\u019b"}, {"id": 2, "s": "aΣ\u1ac1"}, {"id": 3, "s": "ßAΣ\u0301"}])
    assert table.to_arrow(where="id > 1 AND upper(s) = 'SSAΣ\u0301'").num_rows == 1
    assert table.to_arrow(where="id > 2 AND lower(s) = 'ßaς\u0301'").num_rows == 1
    for where in ("upper(s) = 'a'", "lower(s) = 'a' OR id = 1", "id > 1 AND lower(s) = 'a'"):
        with pytest.raises(
            InvalidRequestError, match=r"where .*: (upper|lower): expected text whose case is"
        ):
            table.to_arrow(where=where)
    with pytest.raises(InvalidRequestError, match="lower: expected text whose case is"):
        table.update({"s": "lower(s)"}, where="id = 2")


def merged(table: Table) -> object:
    source = spark_session().createDataFrame([(1, 0)], "id INT, n INT")
    return table.merge(source, on="id").when_matched_update({"n": "target.n % source.n"}).execute()


# Spark before 4.1 words some of them otherwise.
BY_ZERO = "(Division|Remainder) by zero"
UNCOMPUTED: dict[str, tuple[Callable[[Table], object], str]] = {
    "division": (lambda table: table.to_arrow(where="n / 0 = 1"), f"where 'n / 0 = 1': {BY_ZERO}"),
    "negation": (lambda table: table.count(where="-(n - 2147483647 - 6) < 0"), "where '.*': .*overflow"),
    "cast": (
        lambda table: table.count(where="CAST(n + 1000 AS TINYINT) = 1"),
        'where \'.*\': The value 1005 of the type "INT" cannot be cast to "TINYINT" due to an overflow',
    ),
    # Of an append table pktable looks for these rows on the executors.
    "delete": (
        lambda table: table.delete(where="n % 0 = 1"),
        f"Spark: {BY_ZERO} in `n` % 0|where 'n % 0 = 1': divide by zero",
    ),
    "update": (
        lambda table: table.update({"n": "n + 2147483647"}),
        r"Spark: .*overflow in `target.n` \+ 2147483647",
    ),
    "merge": (merged, f"Spark: {BY_ZERO} in `target.n` % `source.n`"),
    "rows": (
        lambda table: table.overwrite(spark_session().sql("SELECT 2 AS id, id % 0 AS n FROM range(1)")),
        f"Spark: {BY_ZERO} in id % 0",
    ),
    "checked rows": (
        lambda table: table.overwrite(spark_session().sql("SELECT 2 AS id, 1 AS n"), where="n % 0 = 1"),
        f"Spark: {BY_ZERO} in `n` % 0|where 'n % 0 = 1': divide by zero",  # in the new rows or the old ones
    ),
}


@pytest.mark.versions
@covers("RD-26")
@pytest.mark.spark
@pytest.mark.parametrize("what", UNCOMPUTED)
@pytest.mark.parametrize("key", ["id", None])
def test_what_spark_cannot_compute_is_refused_in_one_line(tmp_path: Path, key: str | None, what: str) -> None:
    ask, expected = UNCOMPUTED[what]
    options = None if key else {"deletion-vectors.enabled": "true"}
    table = Table.create(
        tmp_path / "t",
        "id INT, n INT",
        primary_key=key,
        options=options,
        spark=spark_session(),
        runner="spark",
    )
    rows = [{"id": 1, "n": 5}]
    (table.upsert if key else table.append)(rows)
    with pytest.raises(InvalidRequestError, match=f"^({expected})$") as refused:
        ask(table)
    assert "\n" not in str(refused.value)
    assert table.to_arrow().to_pylist() == rows
