"""Queries without Spark, and what a statement is made of: both need no session."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Warehouse
from pktable.cli import run
from pktable.predicate.dialect import SPARK
from pktable.sql.query import Translation
from pktable.sql.references import NotUnderstoodError, references, with_tables
from pktable.sql.words import Words, bound, literal
from pktable_spec.covers import covers
from sqlglot import exp

pytest.importorskip("duckdb", reason="duckdb is not installed")


@pytest.fixture
def lake(tmp_path: Path) -> Warehouse:
    found = Warehouse(tmp_path / "lake")
    options = {"deletion-vectors.enabled": "true"}
    table = found.create_table("t", "id BIGINT, city STRING", primary_key="id", options=options)
    table.upsert([{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}])
    table.create_tag("first")
    table.create_branch("b", tag="first")
    table.upsert([{"id": 3, "city": "Lima"}])
    table.alter(add="n INT")
    return found


def answered(lake: Warehouse, query: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[object, ...]]:
    assert run(["sql", query, "--warehouse", lake.path, "--format", "jsonl"]) == 0
    return [tuple(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()]


@covers("WH-16")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "readcsv"),
        ("SELECT * FROM t, read_text('/etc/hostname')", "read_text"),
        ("SELECT weekday(DATE '2024-01-02')", '"WEEKDAY'),
        ("SELECT extract(DOW FROM DATE '2024-01-02')", '"EXTRACT'),
    ],
)
def test_what_duckdb_would_answer_otherwise_than_spark_is_refused(
    lake: Warehouse, query: str, found: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"^sql: {found}"):
        lake.query(query)


@covers("WH-16")
def test_no_name_of_a_query_hides_a_table(lake: Warehouse) -> None:
    query = "WITH pk0 AS (SELECT 100 id) SELECT t.id FROM t ORDER BY id LIMIT 1"
    assert lake.query(query).to_pylist() == [{"id": 1}]


@covers("WH-16")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM t", [(3,)]),
        ("SELECT CITY FROM default.t WHERE city RLIKE '^[RL]' ORDER BY 1", [("Lima",), ("Rome",)]),
        ("SELECT `id`, n FROM paimon.default.t WHERE id = 3", [(3, None)]),
        ("SELECT * FROM t VERSION AS OF 'first' WHERE id = 1", [(1, "Rome")]),
        ("SELECT * FROM t VERSION AS OF 2 ORDER BY id DESC LIMIT 1", [(2, "Oslo")]),
        ("SELECT count(*) FROM t FOR SYSTEM_TIME AS OF '2100-01-01 00:00:00' AS x", [(3,)]),
        ("WITH x AS (SELECT * FROM t) SELECT count(*) FROM x a JOIN x b ON a.id <= b.id", [(6,)]),
        ("WITH t AS (SELECT 7 AS id) SELECT t.id FROM t", [(7,)]),
        ("SELECT c FROM (SELECT city, id FROM t) AS x (c, d) WHERE d = 1", [("Rome",)]),
        ("TABLE t ORDER BY id LIMIT 1", [(1, "Rome", None)]),
        ("SELECT a.id FROM t a NATURAL JOIN t VERSION AS OF 'first' b ORDER BY 1", [(1,), (2,)]),
        (
            "SELECT commit_kind, count(*) FROM `t$snapshots` GROUP BY 1 ORDER BY 1",
            [("APPEND", 2), ("COMPACT", 2)],
        ),
        ("SELECT sum(record_count) > 0 FROM `t$files` VERSION AS OF 2", [(True,)]),
        # Spark's filter of a table drops a row where one part is NULL, before it computes the next.
        ("SELECT id FROM t WHERE n > 1 AND 10 DIV (id - 3) > 1", []),
        ("SELECT id FROM t WHERE id < 3 AND (n > 1 OR 10 DIV (id - 3) < 0) ORDER BY 1", [(1,), (2,)]),
        ("SELECT id, city FROM `t$branch_b` ORDER BY id LIMIT 1", [(1, "Rome")]),
        ("SELECT count(*) FROM `t$branch_b$options`", [(2,)]),
        (
            "SELECT id, _change_type, _commit_version FROM t CHANGES FROM VERSION 'first' EXCLUSIVE c WHERE c.id > 0",
            [(3, "insert", 3)],
        ),
        ("SELECT count(*) FROM t CHANGES FROM VERSION 1 TO VERSION 3 EXCLUSIVE", [(2,)]),
    ],
)
def test_a_query_has_its_rows_without_spark(
    lake: Warehouse, query: str, expected: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(lake, query, capsys) == expected


@covers("WH-2", "WH-9", "WH-16")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM tt", "did you mean t?"),
        ("SELECT * FROM defalt.t", "did you mean default?"),
        ("SELECT nosuch FROM t", "nosuch"),
        ("SELECT * FROM `t$nothing`", "snapshots, schemas, options"),
        ("SELECT * FROM t VERSION AS OF 'none'", "tag 'none' does not exist"),
        ("SELECT * FROM t TIMESTAMP AS OF current_date()", "only a literal"),
        ("SELECT forall(array(id), x -> x > 0) FROM t", "pktable: sql: "),
        ("DELETE FROM t", "DELETE needs Spark"),
        ("WITH x AS (SELECT * FROM t) INSERT INTO t SELECT * FROM x", "add --spark"),
        ("SELECT * FROM lake", "there are t"),  # the name of a variable, for DuckDB to find
        ("SELECT id FROM t CHANGES FROM VERSION 0", "expected a snapshot from 1 to "),
        ("SELECT id FROM t CHANGES FROM VERSION 99", "found 99"),
        ("SELECT id FROM t CHANGES FROM VERSION 2 TO VERSION 1", "the first is after the last"),
        ("SELECT 1 +", "line 1"),
        ("SELECT id FROM 't'", "'t' is a text and no name of a table"),
        ("", "expected a statement"),
    ],
)
def test_what_needs_spark_or_is_not_there_is_one_line(
    lake: Warehouse, statement: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(lake.table("t").snapshots())
    assert run(["sql", statement, "--warehouse", lake.path]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert len(lake.table("t").snapshots()) == before


@covers("WH-16")
def test_a_missing_duckdb_is_one_line_that_says_what_to_install(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run(["sql", "SELECT 1", "--warehouse", lake.path]) == 2
    assert "pip install 'pktable[sql]'; add --spark" in capsys.readouterr().err


@covers("WH-9", "WH-12")
def test_metadata_and_effects_without_spark(lake: Warehouse) -> None:
    table = lake.table("t")
    assert table.metadata("audit_log").column("rowkind").to_pylist() == ["+I"] * 3
    assert table.metadata("audit_log", tag="first").num_rows == 2
    with pytest.raises(SnapshotNotFoundError):
        table.metadata("files", snapshot=77)
    with pytest.raises(InvalidRequestError, match="snapshots, schemas"):
        table.metadata("nosuch")
    merging = lake.create_table("m", "id INT, s STRING", primary_key="id")
    merging.upsert([{"id": i, "s": "a"} for i in range(3)])
    deleted = merging.delete(where="id < 2")
    assert deleted is not None
    assert deleted.effect is not None
    assert deleted.effect.deleted == 2
    effect = merging.effect(deleted)
    assert effect is not None
    assert (effect.inserted, effect.updated, effect.deleted) == (0, 0, None)
    with pytest.raises(InvalidRequestError, match="shows the deletions"):
        merging.metadata("audit_log")
    plain = lake.create_table("a", "id INT", primary_key=None, options={"deletion-vectors.enabled": "true"})
    plain.append([{"id": i} for i in range(5)])
    updated = plain.update({"id": "id + 10"}, where="id > 2")
    assert updated is not None
    effect = plain.effect(updated)
    assert effect is not None
    assert (effect.put, effect.inserted, effect.updated, effect.deleted) == (2, None, None, None)
    plain.expire_snapshots(retain_last=1)
    assert plain.effect(updated) is None


@covers("WH-10")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a.b FROM a.b AS a, c WHERE x = 'FROM d'", ["a.b", "c"]),
        ("WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a) SELECT * FROM b, c", ["a", "c"]),
        ("WITH a AS (WITH q AS (SELECT * FROM z) SELECT * FROM q) SELECT * FROM a, q", ["z", "q"]),
        ("SELECT * FROM t VERSION AS OF 3 x JOIN u FOR TIMESTAMP AS OF now() - INTERVAL 1 DAY", ["t", "u"]),
        ("SELECT * FROM range(5), VALUES (1) AS v(a)", []),
        ("FROM t |> WHERE id IN (SELECT id FROM u)", ["t", "u"]),
        ("SELECT * FROM t -- , u\n /* , v */", ["t"]),
    ],
)
def test_the_tables_of_a_query_are_found(query: str, expected: list[str]) -> None:
    assert [".".join(one.parts) for one in references(query)] == expected


@covers("WH-10")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT db.t.a.b, `DB`.t.*, u.c FROM db.t JOIN db.u",
            "SELECT t.a.b, t.*, u.c FROM X AS `t` JOIN X AS `u`",
        ),
        ("SELECT p.db.t.a, db.t.a, t.a FROM p.db.t", "SELECT t.a, t.a, t.a FROM X AS `t`"),
        ("SELECT db.t.a, db.t FROM db.t AS t, db.u", "SELECT db.t.a, db.t FROM X AS t, X AS `u`"),
        ("SELECT a.t.x, b.t.x FROM a.t JOIN b.t", "SELECT a.t.x, b.t.x FROM X AS `t` JOIN X AS `t`"),
        ("SELECT a.t.x FROM a.t, (SELECT 1 AS x) AS t", "SELECT a.t.x FROM X AS `t`, (SELECT 1 AS x) AS t"),
        (
            "SELECT a.t.x, (SELECT a.t.x FROM a.t) FROM a.t",
            "SELECT t.x, (SELECT t.x FROM X AS `t`) FROM X AS `t`",
        ),
        (
            "SELECT 'db.t.a', other.t.a, t.db.t.a FROM db.t",
            "SELECT 'db.t.a', other.t.a, t.db.t.a FROM X AS `t`",
        ),
    ],
)
def test_a_column_is_named_without_the_database_of_its_table(query: str, expected: str) -> None:
    assert with_tables(query, [(one, "X") for one in references(query)]) == expected


def test_the_tables_of_a_query_that_is_nested_too_deeply_are_not_found() -> None:
    with pytest.raises(NotUnderstoodError, match="nested too deeply"):
        references(f"SELECT {'(' * 1000}1{')' * 1000} FROM t")


@covers("WH-10")
def test_parameters_become_literals() -> None:
    def filled(text: str, args: object) -> str:
        return bound(Words.of(text), args).text

    assert filled("DELETE FROM t WHERE a = :x AND b = ':x'", {"x": "it's \\"}) == (
        "DELETE FROM t WHERE a = 'it\\'s \\\\' AND b = ':x'"
    )
    assert filled("UPDATE t SET a = ?, b = ? -- ?", [None, True]) == "UPDATE t SET a = NULL, b = TRUE"
    at = datetime(2024, 1, 2, 3)
    instant = at.astimezone(timezone.utc).isoformat(sep=" ")
    assert filled("VALUES (:a, :s)", {"a": at, "s": "${x}"}) == (
        f"VALUES (TIMESTAMP '{instant}', '\\u0024{{x}}')"
    )
    texts = [literal(one) for one in (1.5, Decimal("1.10"), date(2024, 1, 2), datetime(2024, 1, 2, 3))]
    assert texts == [
        "CAST('1.5' AS DOUBLE)",
        "1.10BD",
        "DATE '2024-01-02'",
        "TIMESTAMP '2024-01-02 03:00:00'",
    ]
    for args, message in (({"y": 1}, "'x'"), ({"x": object()}, "found object")):
        with pytest.raises(InvalidRequestError, match=message):
            filled("DELETE FROM t WHERE a = :x", args)


@covers("WH-16")
def test_a_user_of_python_learns_of_sessions_and_one_of_the_command_line_of_its_option(
    lake: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    for statement in ("DELETE FROM t", "SELECT current_date() FROM t", "SELECT * FROM range(3)"):
        with pytest.raises(InvalidRequestError, match=r"pktable\.session\(spark, warehouse=…\)\.sql\(…\)$"):
            lake.query(statement)
        assert run(["sql", statement, "--warehouse", lake.path]) == 2
        message = capsys.readouterr().err
        assert message.endswith("; add --spark\n")
        assert len(message) < 300
    with pytest.raises(InvalidRequestError, match=r"columns are t\.id, t\.city, t\.n$"):
        lake.query("SELECT nosuch FROM t")


@covers("WH-28")
def test_times_of_the_day_and_nanoseconds_are_kept(lake: Warehouse) -> None:
    made = lake.create_table("times", "id INT, c TIME(3), n TIMESTAMP(9)", primary_key="id")
    rows = [(1, time(23, 59, 59, 999000), datetime(2024, 1, 2)), (2, time(1), None)]
    made.upsert([{"id": one, "c": clock, "n": point} for one, clock, point in rows])
    found = lake.query("SELECT c, hour(c) h, n FROM times WHERE c > TIME '12:00:00' ORDER BY n")
    assert found.column("c").to_pylist() == [rows[0][1]]
    assert (found.column("h").to_pylist(), str(found.schema.field("n").type)) == ([23], "timestamp[ns]")
    assert lake.query("SELECT max(c) m FROM times").to_pylist() == [{"m": rows[0][1]}]
    with pytest.raises(InvalidRequestError, match="nanoseconds is not supported"):
        lake.query("SELECT id FROM times WHERE n > '2024-01-01'")


@covers("WH-28")
def test_parts_of_nested_values_keep_their_types(lake: Warehouse) -> None:
    columns = "id INT, r ROW<c TIME(3), l TIMESTAMP_LTZ(3)>, a ARRAY<TIMESTAMP(3)>, m MAP<STRING, TIME(0)>"
    made = lake.create_table("nested", columns, primary_key="id")
    at = datetime(2024, 1, 2, 3, tzinfo=timezone.utc)
    value = {"id": 1, "r": {"c": time(1), "l": at}, "a": [None], "m": [("x", time(2))]}
    made.upsert([value, {"id": 2, "r": None, "a": None, "m": None}])
    found, read = lake.query("SELECT * FROM nested ORDER BY id"), made.to_arrow().sort_by("id")
    types = [str(one).replace("timestamp[ms", "timestamp[us") for one in read.schema.types]  # as Spark's
    assert list(map(str, found.schema.types)) == types
    assert found.to_pylist() == read.to_pylist()
    for query in ("DISTINCT r FROM nested", "count(*) FROM nested GROUP BY a", "id FROM nested ORDER BY m"):
        with pytest.raises(InvalidRequestError, match="rows cannot be compared by"):
            lake.query(f"SELECT {query}")


@covers("WH-28")
def test_values_of_nested_types_are_chosen_and_put_under_each_other(lake: Warehouse) -> None:
    columns = 'id INT, a ARRAY<TIME(3)>, r ROW<x INT NOT NULL, `y "z` MAP<STRING, DECIMAL(9, 2)>>, v VARIANT'
    table = lake.create_table("nested", columns, primary_key="id")
    rows: list[dict[str, Any]] = [
        {"id": 1, "a": [time(1, 2, 3), None], "r": {"x": 1, 'y "z': [("k", Decimal("1.50"))]}, "v": None},
        {"id": 2, "a": None, "r": None, "v": {"value": b"\x00", "metadata": b"\x01\x00\x00"}},
    ]
    table.upsert(rows)
    assert lake.query("SELECT * FROM nested ORDER BY id").to_pylist() == rows
    for name in ("a", "r", "v"):
        chosen = [rows[0][name], None]
        for query in (
            f"SELECT CASE WHEN id = 1 THEN {name} END AS c FROM nested ORDER BY id",
            f"SELECT coalesce(NULL, if(id = 2, NULL, {name})) AS c FROM nested ORDER BY id",
            f"SELECT {name} AS c FROM nested WHERE id = 1 UNION ALL SELECT NULL",
        ):
            found = lake.query(query)
            assert found.column(0).to_pylist() == chosen
            assert found.schema.types == [table.schema.arrow_schema.field(name).type]
        both = lake.query(f"SELECT {name} FROM nested WHERE id < 9 UNION ALL SELECT {name} FROM nested")
        assert sorted(map(str, both.column(0).to_pylist())) == sorted(2 * [str(row[name]) for row in rows])
        with pytest.raises(InvalidRequestError, match=f"^sql: rows cannot be compared by {name}, "):
            lake.query(f"SELECT {name} FROM nested INTERSECT SELECT {name} FROM nested")
    with pytest.raises(InvalidRequestError, match=r"a: ARRAY<TIME\(3\)> and ROW<.*> cannot be in one column"):
        lake.query("SELECT a FROM nested UNION ALL SELECT r FROM nested")


@covers("WH-28")
def test_a_result_has_the_names_of_the_query(lake: Warehouse) -> None:
    found = lake.query("SELECT (SELECT max(id) FROM t), CAST(id AS STRING), TIME '01:02:03' FROM t LIMIT 1")
    assert found.column_names == ["(SELECT max(id) FROM t)", "id", "CAST('01:02:03' AS TIME)"]
    with pytest.raises(InvalidRequestError, match=r"^sql: Out of Range Error: Overflow in [^:]*$"):
        lake.query("SELECT CAST(id AS INT) * 1000000000 * 3 FROM t")


@covers("WH-33")
def test_a_long_query_has_its_rows_and_a_deep_one_is_refused(lake: Warehouse) -> None:
    for condition in (
        " OR ".join(f"id = {i}" for i in range(2, 2000)),
        " OR ".join(f"id + 1 = {i}" for i in range(3, 1100)),
        f"id IN ({', '.join(map(str, range(2, 10_000)))})",
    ):
        assert lake.query(f"SELECT count(*) FROM t WHERE {condition}").to_pylist() == [{"count(1)": 2}]
        assert lake.table("t").count(where=condition) == 2
    for condition in ("(" * 500 + "id = 1" + ")" * 500, "NOT " * 900 + "id = 1", "id = 1" + " + 1" * 2000):
        with pytest.raises(InvalidRequestError, match="nested too deeply"):
            lake.query(f"SELECT id FROM t WHERE {condition}")
        with pytest.raises(InvalidRequestError, match="nested too deeply"):
            lake.table("t").to_arrow(where=condition)


@covers("WH-28")
def test_a_duckdb_that_gives_other_rows_is_refused(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    monkeypatch.setattr(duckdb, "__version__", "1.4.0")
    with pytest.raises(InvalidRequestError, match=r"expected DuckDB 2 or later, found 1\.4\.0"):
        lake.query("SELECT 1")


@covers("WH-28")
def test_an_intersect_that_was_read_in_the_wrong_order_is_refused() -> None:
    tree = SPARK.parse("SELECT 1 UNION SELECT 2")[0]
    misread = exp.Intersect(this=tree, expression=exp.select("3"), distinct=True)
    with pytest.raises(InvalidRequestError, match="needs parentheses"):
        Translation({}).query(misread)
