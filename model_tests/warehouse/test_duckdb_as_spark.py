"""Queries without Spark have the columns, types and rows that Spark gives, or are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Warehouse
from pktable.sql.local import NeedsSparkError
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

pytest.importorskip("duckdb", reason="duckdb is not installed")

COLUMNS = (
    "id INT, k BIGINT, w SMALLINT, y TINYINT, x DOUBLE, f FLOAT, m DECIMAL(10, 2), q DECIMAL(18, 6), s STRING, "
    "d DATE, z TIMESTAMP(6), l TIMESTAMP_LTZ(6), b BOOLEAN, v BYTES, i TIMESTAMP(3)"
)
UTC = timezone.utc
ROWS = [
    (1, 1, 1, 1, 1.5, 1.5, Decimal("1.50"), Decimal("0.333333"), "abc", date(2024, 1, 2),
     datetime(2024, 1, 2, 3, 4, 5, 600000), datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), True, b"ab",
     datetime(1, 1, 1, 5)),
    (2, -7, -7, -7, -2.5, -2.5, Decimal("-2.50"), Decimal("-0.5"), "", date(1969, 12, 31),
     datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, tzinfo=UTC), False, b"",
     datetime(9999, 1, 1, 5)),
    (3, 2**40, 300, 100, 1e10, 1e10, Decimal("99999999.99"), Decimal("999999999999.999999"), "a%c_",
     date(1, 1, 1), datetime(1, 1, 1), datetime(2100, 1, 1, tzinfo=UTC), None, None, None),
    (4, None, None, None, math.nan, math.nan, None, None, None, None, None, None, True, b"\xff\x00",
     datetime(2024, 1, 1, 23, 59)),
    (5, 0, 0, 0, -0.0, 0.0, Decimal("0.00"), Decimal("0"), "  Straße É ", date(2023, 3, 1),
     datetime(2023, 3, 1, 12), datetime(2023, 3, 1, tzinfo=UTC), False, b"ab", None),
    (6, 5, 5, 5, 2.675, 2.625, Decimal("2.67"), Decimal("2.675"), "ABC", date(2021, 1, 3),
     datetime(2021, 1, 3, 0, 0, 0, 1), datetime(2021, 1, 3, tzinfo=UTC), True, b"b", datetime(1969, 12, 31, 1)),
    (7, 2**31, 32767, 127, math.inf, math.inf, Decimal("-99999999.99"), Decimal("-1.000001"), "é\nx'\\",
     date(2000, 2, 29), datetime(2000, 2, 29, 23), datetime(2000, 2, 29, tzinfo=UTC), None, b"", None),
]  # fmt: skip
OTHERS = [(1, "abc", 10), (2, None, 20), (9, "ABC", None)]

# Each is asked of every row. The first ones are those that DuckDB computes otherwise if it is left to it.
VALUES = r"""
CAST(x + 0.5 AS BIGINT) FROM t WHERE id IN (1, 2, 6)
CAST(CASE WHEN id = 2 THEN x ELSE 0.5D END AS INT)
CAST(m AS INT)
CAST(f AS BIGINT) FROM t WHERE id < 3
CAST(q AS BIGINT)
CAST(m AS DECIMAL(11, 1))
CAST(q AS DOUBLE)
CAST(x * 1e30D AS FLOAT)
CAST(-x * 3.4028235677973365e28D AS FLOAT)
CAST(b AS INT)
CAST(k AS STRING)
CAST(d AS STRING)
CAST(z AS DATE)
CAST(d AS TIMESTAMP_NTZ)
substring(s, 0, 2)
substring(s, 0)
substring(s, -2)
substring(s, -5, 3)
substring(s, -2, 1)
substring(s, 2, -1)
s LIKE 'a!%%' ESCAPE '!'
s LIKE 'a\\%%'
s LIKE '_\n%'
s LIKE '%c_'
s RLIKE '^[Aaé]'
s RLIKE '.x|c$'
s RLIKE '\\W\\s?'
d > '2023-3-1'
'2024-1-2' = d
z > DATE '2021-01-03'
l > '2000-01-01'
datediff(d, DATE '2024-01-01')
date_add(d, 10)
date_sub(DATE '2024-01-03', id)
k DIV 2
-7 DIV id
dayofweek(d)
weekofyear(d)
dayofyear(d)
hour(z) * 60 + minute(z) + second(z)
concat(s, NULL)
concat(s, '!', s)
replace(s, '', 'X')
replace(s, 'c')
trim(s) || '.'
upper(s)
lower(s)
length(s)
length(v)
greatest(k, w)
greatest(s, 'b')
least(m, q, NULL)
coalesce(k, w, 0)
coalesce(m, 0)
coalesce(CAST(7 AS DECIMAL(20, 4)), m)
coalesce(CAST('NaN' AS DOUBLE), f)
CASE WHEN b THEN m ELSE 1.5 END
if(b, d, '2024-01-02')
if(b, NULL, 'x')
floor(floor(q))
-(CAST(127 AS SMALLINT))
nullif(k, 0)
CASE WHEN k <> 0 THEN 100 / k ELSE -1 END
k <> 0 AND 1 / k > 0
k = 0 OR 1 / k > 0
b OR k > 0
b AND NULL
-7 % 3
k % -1
k % 5
k / 2
x / 4
m * m
m * q
m - q
m + 1
m + k
m * f
f + f
f * x
w + id
b AND 1 / k > 0
y * 2
1Y + y FROM t WHERE id < 7
k <=> NULL
x = x
x > 1
x <=> f
x IN (0.0, 1.5)
x = m
f = 1.5
m = 1.5
k = '1'
k IN (1, NULL)
k NOT IN (0, NULL)
k BETWEEN 0 AND 5
b IS NOT TRUE
v > X'61'
floor(m)
ceil(q)
round(m, 1)
round(q, 3)
abs(m)
-k
1 / 3
1.5
-9223372036854775808
12345678901234567890
X'AB'
'it''s'
'tab\tx'
r'\n'
TIMESTAMP '2024-01-01 00:00:00'
TIMESTAMP_NTZ '2024-01-01 00:00:00.5'
""".strip().splitlines()

FAILURES = r"""
k / 0
0 / k
x / 0
k % 0
k DIV 0
CAST(x AS INT)
CAST(k AS SMALLINT)
-(CAST(-128 AS TINYINT)) + y
127Y + 1Y
k * 9223372036854775807
id + 2147483647
w * w
CAST(q AS DECIMAL(10, 0))
b OR 1 / k > 0
sum(10 DIV k) FILTER (WHERE k > 0) OVER (ORDER BY id)
""".strip().splitlines()

QUERIES = r"""
SELECT T.ID, upper(S) AS `U V` FROM t ORDER BY Id LIMIT 2
SELECT * FROM r ORDER BY id
SELECT *, n + 1 AS j FROM r ORDER BY n DESC, id LIMIT 2 OFFSET 1
SELECT id, a.s, r.s FROM (SELECT id, s FROM t) a LEFT JOIN r USING (id) ORDER BY id
SELECT * FROM (SELECT id, n AS p FROM r) a FULL JOIN (SELECT id, s FROM t) c USING (ID) ORDER BY id
SELECT id, n FROM (SELECT id FROM t) a RIGHT JOIN r USING (id) ORDER BY id
SELECT * FROM (SELECT id, s FROM t) a NATURAL JOIN r
SELECT id FROM t LEFT ANTI JOIN r ON t.id = r.id ORDER BY id
SELECT id FROM t SEMI JOIN r USING (id) ORDER BY id
SELECT t.id FROM t JOIN t AS u ON t.x = u.x ORDER BY 1
SELECT count(*), count(k), count(DISTINCT v), sum(id), avg(id), min(s), max(s), min(x), max(x), max(b), min(l) FROM t
SELECT sum(m), avg(m), min(m), sum(q), avg(q), avg(f), sum(y), avg(w), avg(DISTINCT m), count_if(k > 0) FROM t
SELECT avg(CAST('0.005' AS DECIMAL(5, 3))), avg(CAST('-1.25' AS DECIMAL(3, 2))), sum(1.5) FROM r
SELECT avg(m), sum(id), count(*), max(id) FROM t WHERE id > 100
SELECT b AS bb, count(*) c FROM t GROUP BY bb HAVING c > 1 ORDER BY c DESC, bb
SELECT x, count(*) FROM t GROUP BY 1 ORDER BY 1
SELECT DISTINCT x FROM t ORDER BY x DESC
SELECT id + 1 AS k FROM t ORDER BY k + 1
SELECT id AS k, k AS id FROM t ORDER BY k
SELECT id FROM t ORDER BY s DESC NULLS FIRST, id
SELECT id FROM t WHERE k IN (SELECT id FROM r) OR m IN (SELECT id FROM r) ORDER BY id
SELECT id FROM t WHERE id NOT IN (SELECT n FROM r) ORDER BY id
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.id = t.id AND r.n > 10) ORDER BY id
SELECT id, (SELECT max(n) FROM r WHERE r.id = t.id) z FROM t ORDER BY id
WITH a (p, q) AS (SELECT id, k FROM t), b AS (SELECT p FROM a WHERE q > 0) SELECT * FROM b ORDER BY p
SELECT id, m FROM t UNION SELECT id, n FROM r ORDER BY 1, 2
SELECT NULL AS a UNION ALL SELECT 1 ORDER BY a
SELECT id FROM t UNION SELECT id FROM r INTERSECT SELECT 1 ORDER BY id
SELECT b FROM t EXCEPT ALL SELECT true ORDER BY b
SELECT * FROM VALUES (1, 'a'), (2.5, NULL) AS v (p, q) ORDER BY p
VALUES (1, 'a')
VALUES (2), (1), (3) ORDER BY col1 DESC LIMIT 2 OFFSET 1
SELECT id, k FROM t ORDER BY (1) DESC
SELECT id FROM t UNION ALL SELECT id FROM t ORDER BY (1) DESC
SELECT id, rank() OVER (PARTITION BY b ORDER BY v) r, row_number() OVER (ORDER BY x, id) FROM t ORDER BY id
SELECT id, sum(id) OVER (ORDER BY b), lag(s) OVER (ORDER BY id), lead(m, 2, 0) OVER (ORDER BY id) FROM t ORDER BY 1
SELECT id, avg(m) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY id
SELECT b, sum(sum(id)) OVER (ORDER BY b) FROM t GROUP BY b ORDER BY b
SELECT max(id) FILTER (WHERE b) a, CASE WHEN count(*) = 0 THEN 0 ELSE sum(id) / count(*) END FROM t
SELECT id FROM t WHERE z > TIMESTAMP '2020-01-01 00:00:00' AND l >= '2021-01-01' ORDER BY id
SELECT CASE WHEN b THEN TIMESTAMP '2020-01-01' END a, max(TIMESTAMP '2021-01-01') OVER (ORDER BY id) FROM t
SELECT coalesce(z, TIMESTAMP '2020-01-01') a, coalesce(d, TIMESTAMP '2020-01-01') c FROM t ORDER BY id
SELECT greatest(l, TIMESTAMP '2020-01-01') a, lag(TIMESTAMP '2020-01-01') OVER (ORDER BY id) FROM t ORDER BY id
SELECT hour(i) h, CAST(i AS DATE) e, i, max(i) OVER (ORDER BY id) FROM t ORDER BY id
SELECT id FROM t WHERE coalesce(z, TIMESTAMP '2020-01-01') <= z AND d < greatest(l, TIMESTAMP '2030-01-01') ORDER BY id
SELECT year(coalesce(z, TIMESTAMP '2020-01-01')) a, hour(l), CAST(l AS DATE), CAST(d AS TIMESTAMP) FROM t ORDER BY id
SELECT CAST(TIMESTAMP '2020-01-01' AS TIMESTAMP_NTZ) a, lag(TIMESTAMP '2020-01-01', 1, z) OVER (ORDER BY id) FROM t
SELECT id FROM t WHERE greatest(z, TIMESTAMP_NTZ '2024-01-01 00:00:00') = z ORDER BY id
SELECT max(DISTINCT TIMESTAMP '2020-01-01') a, max(z) > max(TIMESTAMP '2020-01-01') FROM t
SELECT nullif(b, NOT b) a, CASE b WHEN NOT b THEN 1 END, rank() OVER (ORDER BY s = 'error(') FROM t ORDER BY id
SELECT rank() OVER (ORDER BY q) FROM (SELECT x / id AS q FROM t WHERE id < 3)
SELECT id FROM t WHERE k < id = b AND id = k = b IS NOT NULL AND b = (k < 5) ORDER BY id
SELECT x, -x AS m, rank() OVER (ORDER BY x) FROM t GROUP BY x ORDER BY x
SELECT DISTINCT x, f FROM t ORDER BY x
SELECT x FROM t UNION SELECT f FROM t ORDER BY x
SELECT x FROM t INTERSECT SELECT x FROM t ORDER BY x
SELECT x FROM t EXCEPT ALL SELECT x FROM t WHERE id = 1 ORDER BY x
SELECT count(*) FILTER (WHERE k > 0), sum(10 DIV k) FILTER (WHERE k <> 0) FROM t
SELECT b, max(10 % k) FILTER (WHERE k > 0), avg(m) FILTER (WHERE k > 0) FROM t GROUP BY b ORDER BY b
SELECT id FROM t ORDER BY 'a', NULL, id DESC
SELECT CAST(id + 8 AS STRING) AS n, CAST(id AS BIGINT) FROM t ORDER BY n, id
SELECT CAST(k AS STRING) FROM t ORDER BY k
SELECT CAST(k AS STRING), k FROM t ORDER BY k
SELECT b, sum(id) id FROM t GROUP BY b HAVING id > 7 ORDER BY b
SELECT b, sum(id) id FROM t GROUP BY b HAVING max(id) > 6 ORDER BY b
SELECT id % 2 AS id, count(*) c FROM t GROUP BY id HAVING id > 3 ORDER BY 1
SELECT NOT b AS b, count(*) c FROM t GROUP BY b HAVING b
SELECT t.id, r.n FROM t LEFT JOIN r ON t.id = r.id AND upper(t.s) = upper(r.s) ORDER BY t.id
SELECT t.id FROM t, r WHERE t.id = r.id AND length(r.s) > 2 AND 10 DIV t.id > 1
SELECT id, k IN (SELECT n FROM r) a, k NOT IN (SELECT id FROM r) c FROM t ORDER BY id
SELECT id, NOT (k IN (SELECT id FROM r) OR b) c, NOT NOT k IN (SELECT n FROM r) e FROM t ORDER BY id
SELECT id FROM t WHERE (k IN (SELECT n FROM r)) IS NULL OR NOT (k NOT IN (SELECT id FROM r) AND id > 2) ORDER BY id
""".strip().splitlines()

REFUSED = [
    "SELECT stddev(id) FILTER (WHERE id > 0) FROM t",
    "SELECT DISTINCT b FROM t ORDER BY id",
    "SELECT id FROM t WHERE u > DATE '2024-01-01'",
    "SELECT s > DATE '2024-01-01' FROM t",
    "SELECT datediff('2024-01-02', d) FROM t",
    "SELECT round(x, 2) FROM t",
    "SELECT CAST(s AS INT) FROM t",
    "SELECT CAST(x AS STRING) FROM t",
    "SELECT m / 2 FROM t",
    "SELECT s RLIKE '(?i)a' FROM t",
    "SELECT greatest('2021-01-03', d) FROM t",
    "SELECT s FROM t UNION SELECT id FROM r",
    "SELECT id + 1 AS id FROM t GROUP BY id + 1 HAVING id > 2",
    "SELECT k, sum(id) FROM t GROUP BY b",
    "SELECT id FROM t WHERE (k IN (SELECT n FROM r)) = false",
    "SELECT id FROM t JOIN r ON t.id = r.id",
    "SELECT id FROM t TABLESAMPLE (50 PERCENT)",
    "SELECT id FROM t LATERAL VIEW explode(array(1, 2)) e AS x",
    "SELECT b, count(*) FROM t GROUP BY ROLLUP (b)",
    "SELECT id FROM t QUALIFY row_number() OVER (ORDER BY id) = 1",
    "SELECT id FROM t SORT BY id",
    "SELECT id FROM t WHERE NULL",
    "SELECT id FROM t WHERE (NULL)",
    "SELECT CASE WHEN (NULL) THEN 1 END FROM t",
    "SELECT b BETWEEN NOT b AND true FROM t",
    "SELECT id FROM t WHERE b <> b BETWEEN false AND true",
    "SELECT id FROM t WHERE b BETWEEN false AND b = b",
    "SELECT id FROM t WHERE b = id < 5",
    "SELECT id FROM t WHERE b = id NOT IN (1)",
    "SELECT id FROM t WHERE s LIKE 'a' = b",
    "SELECT id, FROM t",
    "SELECT CASE WHEN b 1 END FROM t",
    "SELECT a.nosuch FROM t a",
]


REFUSALS = {
    "WITH RECURSIVE a AS (SELECT 1 AS n) SELECT * FROM a": "RECURSIVE is not supported here",
    "SELECT id FROM t LIMIT 1 + 1": "expected a number of rows as a literal",
    "SELECT id FROM t LIMIT 1 OFFSET id": "expected a number of rows as a literal",
    "SELECT * FROM VALUES (1), (2, 3)": "expected rows of as many values",
    "SELECT DISTINCT ON (id) id FROM t": "DISTINCT ON is not supported here",
    "SELECT * EXCEPT (id) FROM t": "EXCEPT or another word is not supported here",
    "SELECT *": "there are no columns of that",
    "SELECT n.* FROM t": "there are no columns of that",
    "SELECT FROM t": "expected columns after SELECT",
    "SELECT 1 JOIN t": "expected FROM",
    "SELECT n FROM (SELECT id FROM t) a NATURAL LEFT JOIN (SELECT n FROM r) b": "expected ON or USING",
    "SELECT t.id FROM t ASOF JOIN r": "this kind of join is not supported here",
    "SELECT t.id FROM t JOIN r USING (nosuch)": "expected one column of that name on each side",
    "SELECT 1 FROM t, t": "t is the name of two tables",
    "SELECT id FROM range(3)": "no function in place of a table",
    "SELECT id FROM t ORDER BY 9": "expected one of the 1 columns of SELECT",
    "SELECT * FROM (SELECT id, k FROM t) AS a (p)": "expected 2 names of columns, found 1",
    "SELECT (SELECT id, n FROM r) FROM t": "expected a query of one column",
    "SELECT id FROM t WHERE id IN (SELECT id, n FROM r)": "expected a query of one column",
    "SELECT rank() OVER () FROM t": "expected ORDER BY",
    "SELECT row_number() OVER (PARTITION BY b) FROM t": "expected ORDER BY",
    "SELECT lag(id) OVER () FROM t": "expected ORDER BY",
    "SELECT rank() OVER (ORDER BY x / id) FROM t": "compute it in a subquery",
    "FROM t |> LIMIT 3 |> AGGREGATE count(*) AS c": "|> is not supported here",
    "FROM t |> UNION ALL SELECT 9": "is not",
    "SELECT + s FROM t": "+ before a value is not supported here",
    "SELECT id FROM t ORDER BY +1": "+ before a value is not supported here",
    "SELECT id FROM t ORDER BY -1": "expected a position of 1 or more",
    "SELECT id FROM t GROUP BY (-1)": "expected a position of 1 or more",
    "SELECT id FROM t LIMIT 50 PERCENT": "is not supported here",
    "SELECT id FROM t LIMIT '1'": "expected a number of rows as a literal",
    "SELECT t.id FROM t OUTER JOIN r ON t.id = r.n": "there is no such join",
    "SELECT t.id FROM t RIGHT SEMI JOIN r ON t.id = r.n": "there is no such join",
    "SELECT t.id FROM t JOIN r USING id": "USING id is not supported here",
    "SELECT id FROM t GROUP BY DISTINCT id": "BY DISTINCT is not supported here",
    "SELECT id AS 'q' FROM t": "AS 'q' is not supported here",
    "SELECT 0x1F FROM t": "0x1F is no number of Spark's",
    "SELECT count(DISTINCT k) OVER (ORDER BY id) FROM t": "DISTINCT is not supported in a window",
    "SELECT sum(DISTINCT id) FILTER (WHERE k = 1) OVER () FROM t": "DISTINCT is not supported in a window",
    "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING) FROM t": "end is not before its start",
    "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING) FROM t": "end is not before",
    "SELECT nosuch.t.* FROM t": "expected the name or the alias of one table",
    "SELECT lag(id, k) OVER (ORDER BY id) FROM t": "expected a number of rows as a literal",
    "SELECT lag(id, 1, 'x') OVER (ORDER BY id) FROM t": "expected a default of INT",
    "SELECT sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t": "expected a frame of ROWS",
    "SELECT sum(id) OVER (ORDER BY id ROWS 1 + 1 PRECEDING) FROM t": "expected a frame of ROWS",
    "SELECT count(DISTINCT id, k) FROM t": "DISTINCT of several values is not supported here",
    "SELECT sum(s) FROM t": "expected a number, found STRING",
    "SELECT avg(CAST(m AS DECIMAL(30, 2))) FROM t": "CAST to DOUBLE",
    "SELECT id, k FROM t UNION SELECT id FROM r": "expected queries of as many columns, found 2 and 1",
    "SELECT d FROM t UNION SELECT id FROM r": "DATE and INT cannot be in one column here",
    "SELECT row_number(id) OVER (ORDER BY id) FROM t": "THIS is not supported here",
    "SELECT sum(id) OVER w FROM t WINDOW w AS (ORDER BY id)": "WINDOW is not supported here",
    "SELECT id FROM t FOR UPDATE": "LOCKS is not supported here",
    "WITH a AS (SELECT 1 AS n), A AS (SELECT 2 AS n) SELECT n FROM a": "is the name of two queries of WITH",
    "WITH a AS (DELETE FROM t) SELECT 1": "this kind of query is not supported here",
    "SELECT a FROM nested ORDER BY 1": "rows cannot be put in order by it here",
    "SELECT id, a FROM nested ORDER BY a": "rows cannot be compared by ARRAY<INT> here",
    "SELECT min(a) FROM nested": "rows cannot be compared by ARRAY<INT> here",
    "SELECT max(a) FROM nested": "rows cannot be compared by ARRAY<INT> here",
    "SELECT a, count(*) FROM nested GROUP BY a": "rows cannot be compared by ARRAY<INT> here",
}
"""Queries that are no SQL, or not supported, and what is said of them."""


def table_of(columns: str, rows: list[tuple[Any, ...]], lake: Warehouse, name: str) -> None:
    made = lake.create_table(name, columns, primary_key="id")
    names = made.columns
    made.upsert([dict(zip(names, one, strict=True)) for one in rows])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    found = Warehouse(tmp_path_factory.mktemp("lake"))
    table_of(COLUMNS, ROWS, found, "t")
    table_of("id INT, s STRING, n BIGINT", OTHERS, found, "r")
    found.create_table("nested", "id INT, a ARRAY<INT>", primary_key="id")
    return found


@pytest.fixture(scope="module")
def on_spark(lake: Warehouse) -> Iterator[Callable[[str], pa.Table]]:
    """Asks Spark, which has the same rows in views of its own."""
    spark = spark_session()
    for name in ("t", "r"):
        frame = spark.createDataFrame(lake.table(name).to_arrow())
        frame = frame.selectExpr(
            *(f"CAST({one} AS TIMESTAMP_NTZ) {one}" if one in ("z", "i") else one for one in frame.columns)
        )
        frame.createOrReplaceTempView(name)

    def asked(query: str) -> pa.Table:
        return spark.sql(query).toArrow()

    yield asked
    for name in ("t", "r"):  # the session is that of other tests, too
        spark.catalog.dropTempView(name)


def shown(column: pa.ChunkedArray) -> tuple[str, list[str]]:
    """Return the type and the values of a column, by which the zeros differ, and NaN is NaN."""
    return str(column.type), list(map(repr, column.to_pylist()))


def whole(value: str) -> str:
    return f"SELECT {value}" if " FROM t " in value else f"SELECT {value} FROM t"


@pytest.mark.spark
@covers("WH-28", "STM-14")
def test_values_are_those_of_spark(lake: Warehouse, on_spark: Callable[[str], pa.Table]) -> None:
    every = [one for one in VALUES if " FROM t " not in one]
    theirs = on_spark(
        f"SELECT {', '.join(f'{one} AS c{i}' for i, one in enumerate(every))} FROM t ORDER BY id"
    )
    ours = {one: lake.query(f"{whole(one)} ORDER BY id").column(0) for one in VALUES}
    differ = [
        one for one, column in zip(every, theirs.columns, strict=True) if shown(ours[one]) != shown(column)
    ]
    others = [one for one in VALUES if " FROM t " in one]
    differ += [
        one for one in others if shown(ours[one]) != shown(on_spark(f"{whole(one)} ORDER BY id").column(0))
    ]
    assert not differ


@pytest.mark.spark
@covers("WH-28")
@pytest.mark.parametrize("value", FAILURES)
def test_what_fails_in_spark_fails_without_it(
    lake: Warehouse, on_spark: Callable[[str], pa.Table], value: str
) -> None:
    with pytest.raises(InvalidRequestError, match=r"^sql: ") as failed:
        lake.query(whole(value))
    assert not isinstance(failed.value, NeedsSparkError)
    with pytest.raises(Exception, match="SQLSTATE"):
        on_spark(whole(value))


@pytest.mark.spark
@covers("WH-28")
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_spark(lake: Warehouse, on_spark: Callable[[str], pa.Table], query: str) -> None:
    ours, theirs = lake.query(query), on_spark(query)
    assert list(map(shown, ours.columns)) == list(map(shown, theirs.columns))
    written = [name for name in theirs.column_names if name.isidentifier()]
    assert [name for name in ours.column_names if name in written] == written


@covers("WH-28")
@pytest.mark.parametrize("query", REFUSED)
def test_what_may_differ_is_refused(lake: Warehouse, query: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^sql: ") as refused:
        lake.query(query)
    assert "__pktable" not in str(refused.value)


@covers("WH-28")
@pytest.mark.parametrize(("query", "message"), REFUSALS.items())
def test_a_refusal_says_what_is_not_understood(lake: Warehouse, query: str, message: str) -> None:
    with pytest.raises(NeedsSparkError, match=f"^sql: .*{re.escape(message)}"):
        lake.query(query)
