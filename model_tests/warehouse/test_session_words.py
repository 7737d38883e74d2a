"""Statements mean what the session says: its words and settings, its order of reading, and its casts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from pktable import InvalidRequestError, Warehouse
from pktable.dml import Statements
from pktable.run.spark.runner import SparkRunner
from pktable_spec.covers import covers
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from model_tests.warehouse.lakes import DV, KINDS, made, rows

pytestmark = pytest.mark.spark


@covers("WH-8")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_to_spark_is_computed_again_if_others_were_faster(
    lake: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "raced", kind)
    changes = SparkRunner.changes
    raced: list[int] = []

    def overtaken(*arguments: Any) -> Any:
        found = changes(*arguments)
        if not raced:
            raced.append(1)
            lake.warehouse.table("db.raced").update({"n": 1000}, where="id = 1")
        return found

    monkeypatch.setattr(SparkRunner, "changes", overtaken)
    lake.sql("UPDATE raced SET n = try_add(n, 1) WHERE id IN (1)")
    assert rows(lake, "SELECT n FROM raced WHERE id = 1") == [(1001,)]
    assert raced


@contextmanager
def setting(lake: Any, **values: str) -> Iterator[None]:
    """Give the session settings, whose names have ``_`` in place of dots, inside the block."""
    names = {name: f"spark.sql.{name.replace('_', '.')}" for name in values}
    before = {name: lake.conf.get(names[name]) for name in values}
    try:
        for name, value in values.items():
            lake.conf.set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            lake.conf.set(names[name], value)


@covers("WH-8")
def test_statements_read_words_as_queries_of_the_session_do(lake: Any) -> None:
    lake.warehouse.create_table("db.words", "id INT, z TIMESTAMP_LTZ, s STRING", primary_key="id")

    def left(statement: str, query: str = "SELECT id FROM words") -> list[tuple[Any, ...]]:
        at = "TIMESTAMP '2024-01-01 0{}:00:00Z'"
        lake.sql(f"INSERT OVERWRITE words VALUES (0, {at.format(0)}, 'a'), (5, {at.format(5)}, '7')")
        lake.sql(statement)
        return rows(lake, query)

    midnight = "TIMESTAMP '2024-01-01 00:00:00'"
    with setting(lake, session_timeZone="America/New_York", ansi_doubleQuotedIdentifiers="true"):
        for condition in (f"z = {midnight}", "z = '2024-01-01'", "z IN (DATE '2024-01-01')", "\"s\" = '7'"):
            assert left(f"DELETE FROM words WHERE {condition}") == [(0,)], condition
        merge = "MERGE INTO words w USING (SELECT 5 id) s ON w.id = s.id WHEN MATCHED"
        assert left(f"{merge} AND w.z >= {midnight} THEN DELETE") == [(0,)]
        assert left(f"UPDATE words SET z = {midnight}", f"SELECT id FROM words WHERE z = {midnight}") == [
            (0,),
            (5,),
        ]
        for statement in (
            f"INSERT INTO words REPLACE WHERE z = {midnight} SELECT * FROM words",
            "CALL sys.compact(table => 'words', where => 'z = DATE \\'2024-01-01\\'')",
        ):
            with pytest.raises(InvalidRequestError, match=r"(REPLACE WHERE|where) z = .*: it is read in UTC"):
                lake.sql(statement)
    lake.sql("SET pk.seven=7")
    assert left("DELETE FROM words WHERE s = '${pk.seven}'") == [(0,)]
    assert left("UPDATE words SET s = '${pk.seven}' WHERE id = 0", "SELECT s FROM words") == [("7",), ("7",)]
    with setting(lake, parser_escapedStringLiterals="true"):
        assert left("UPDATE words SET s = 'a\\nb'", "SELECT DISTINCT length(s) FROM words") == [(4,)]


@covers("WH-8", "STM-13")
def test_comparisons_are_on_one_level(lake: Any) -> None:
    table = lake.warehouse.create_table("db.level", "id INT, x BOOLEAN, y BOOLEAN", primary_key="id")
    every = [
        (3 * i + j, x, y)
        for i, x in enumerate((True, False, None))
        for j, y in enumerate((True, False, None))
    ]
    for condition in ("x <> y BETWEEN false AND true", "y BETWEEN false AND x = y", "x = y < true"):
        table.put([dict(zip(("id", "x", "y"), row, strict=True)) for row in every])
        found = rows(lake, f"SELECT id FROM level WHERE {condition}")
        with pytest.raises(InvalidRequestError, match="parentheses around a condition inside of another"):
            table.delete(where=condition)
        lake.sql(f"DELETE FROM level WHERE {condition}")
        assert table.count() == len(every) - len(found), condition


@covers("STM-13")
def test_the_greatest_of_two_times_is_found_without_a_job(lake: Any) -> None:
    table = lake.warehouse.create_table("db.ends", "id INT, z TIMESTAMP, l TIMESTAMP_LTZ", primary_key="id")
    at = datetime(2024, 1, 1)
    table.put([{"id": 1, "z": at, "l": at.replace(tzinfo=timezone.utc)}])
    assert table.count(where="greatest(z, TIMESTAMP_NTZ '2023-01-01 00:00:00') = z AND least(l, l) = l") == 1


@covers("WH-8")
def test_values_of_parameters_are_those_that_a_query_of_the_session_has(lake: Any) -> None:
    table = lake.warehouse.create_table("db.given", "id INT, z TIMESTAMP_LTZ, s STRING", primary_key="id")
    at, text = datetime(2024, 1, 1), "it's \\ ${pk.seven} \n"
    lake.sql("SET pk.seven=7")
    with setting(lake, session_timeZone="America/New_York"):
        for statement in (
            "UPDATE given SET z = :z, s = :s",
            "MERGE INTO given g USING (SELECT 1 id) o ON g.id = o.id WHEN MATCHED THEN UPDATE SET z = :z, s = :s",
            "INSERT OVERWRITE given SELECT 1, :z, :s",
        ):
            table.put([{"id": 1, "z": None, "s": None}])
            lake.sql(statement, {"z": at, "s": text})
            assert rows(lake, "SELECT id FROM given WHERE z = :z AND s = :s", z=at, s=text) == [(1,)], (
                statement
            )
            (found,) = table.to_arrow().to_pylist()
            assert (found["z"], found["s"]) == (at.astimezone(timezone.utc), text)
        lake.sql("DELETE FROM given WHERE z = :z AND s = :s", {"z": at, "s": text})
        assert table.count() == 0
    refused = pytest.raises(InvalidRequestError, match="args: a text with a quote, a backslash or a dollar")
    with setting(lake, parser_escapedStringLiterals="true"), refused:
        lake.sql("UPDATE given SET s = :s", {"s": "it's"})


@covers("WH-8")
def test_what_is_sure_of_a_condition_left_to_spark_keeps_other_partitions_unread(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, key = "id INT, day STRING, z TIMESTAMP_LTZ", ["id", "day"]
    table = lake.warehouse.create_table("db.days", columns, primary_key=key, partition_by="day")
    at = datetime(2024, 1, 1, 3, tzinfo=timezone.utc)
    table.upsert([{"id": i, "day": day, "z": at} for i in range(2) for day in ("a", "b", "c")])
    read: list[int] = []
    changes = SparkRunner.changes

    def counted(runner: SparkRunner, context: Any, query: Any, *others: Any) -> Any:
        read.append(len(query.parts))
        return changes(runner, context, query, *others)

    monkeypatch.setattr(SparkRunner, "changes", counted)
    with setting(lake, session_timeZone="America/New_York"):
        for condition in ("z < TIMESTAMP '2024-01-01'", "z >= TIMESTAMP '2024-01-01'"):
            lake.sql(f"DELETE FROM days WHERE day = 'a' AND id < 1 AND {condition}")
    assert read == [1, 1]
    assert rows(lake, "SELECT id, day FROM days WHERE day < 'b'") == [(1, "a")]
    assert table.count() == 5


@covers("WH-13", "WH-20")
def test_a_constant_of_a_partition_is_the_value_that_spark_stores(lake: Any) -> None:
    columns = "id INT, z TIMESTAMP_LTZ, k INT, d DECIMAL(5, 2)"
    table = lake.warehouse.create_table(
        "db.constants", columns, primary_key=None, partition_by=["z", "k", "d"]
    )
    partition = "PARTITION (z = TIMESTAMP '2024-01-01 00:00:00', k = -1.9, d = 1.5)"
    with setting(lake, session_timeZone="America/New_York"):
        for statement in ("INSERT INTO constants {} SELECT 1", "INSERT OVERWRITE constants {} SELECT 2"):
            lake.sql(statement.format(partition))
        at = datetime(2024, 1, 1, 5, tzinfo=timezone.utc)
        assert table.to_arrow().to_pylist() == [{"id": 2, "z": at, "k": -1, "d": Decimal("1.50")}]
        for part in ("k = -1", "d = 1.5"):
            assert len(rows(lake, f"SHOW PARTITIONS constants PARTITION ({part})")) == 1
        with pytest.raises(InvalidRequestError, match="overflow"):
            lake.sql("INSERT INTO constants PARTITION (z = NULL, k = 3000000000, d = 1) SELECT 1")
        lake.sql(f"ALTER TABLE constants DROP {partition}")
    assert table.count() == 0


@covers("WH-13")
def test_the_rows_that_an_insert_replaces_may_be_named_by_parameters(lake: Any) -> None:
    made(lake, "bound", "parted")
    into = "PARTITION (region = :p) SELECT :id, 'Nice', 9"
    lake.sql(f"INSERT OVERWRITE bound {into}", {"p": "eu", "id": 9})
    lake.sql(f"WITH one AS (SELECT 1) INSERT INTO bound {into} FROM one", {"p": "as", "id": 5})
    lake.sql("INSERT INTO bound REPLACE WHERE region = ? VALUES (?, 'Quito', 7, 'sa')", ["sa", 8])
    replaced = "REPLACE WHERE region = :from"
    lake.sql(f"INSERT INTO bound {replaced} VALUES (8, 'Quito', 8, 'sa')", {"from": "sa"})
    texts = F.array(F.lit("Nice"))  # which has no SQL
    into = "PARTITION (region = 'eu') WITH c AS (SELECT element_at(:v, 1) w) SELECT 9, w, 9 FROM c"
    lake.sql(f"INSERT OVERWRITE bound {into}", {"v": texts})
    assert rows(lake, "SELECT id, region FROM bound") == [(5, "as"), (8, "sa"), (9, "eu")]


@covers("WH-13")
def test_what_a_column_cannot_hold_is_refused_in_either_mode_of_expressions(lake: Any) -> None:
    lake.warehouse.create_table("db.narrow", "id INT, n INT, d DECIMAL(5, 2)", primary_key="id")
    with setting(lake, ansi_enabled="false"):
        for values in ("1, 3000000000L, 1", "1, 1e30D, 1", "1, 1, 123456.789"):
            with pytest.raises(InvalidRequestError, match=r"overflow|cannot be represented"):
                lake.sql(f"INSERT INTO narrow SELECT {values}")
        lake.sql("INSERT INTO narrow SELECT 1, CAST('x' AS INT), 1.004")
    assert rows(lake, "SELECT n, d FROM narrow") == [(None, Decimal("1.00"))]


@covers("WH-8", "WH-13")
def test_values_inside_of_others_are_stored_as_spark_stores_them(lake: Any) -> None:
    """INSERT by the places of fields, and what goes by name by their names."""
    columns = (
        "id INT, s STRUCT<x: BIGINT, y: DECIMAL(5, 2)>, l ARRAY<STRUCT<x: SMALLINT, y: DOUBLE NOT NULL>>, "
        "m MAP<STRING, STRUCT<x: INT, Y: INT>>, f DECIMAL(7, 4), d DECIMAL(5, 2), o STRUCT<y: INT, x: BIGINT>"
    )
    lake.warehouse.create_table("db.parts", columns, primary_key="id")
    table = Warehouse(lake.warehouse.path).table("db.parts")
    lake.sql("INSERT INTO parts VALUES (1, (7, 2.125), array((1, 2)), map(1, (3, 4L)), 1.005, NULL, NULL)")
    stored = {
        "id": 1,
        "s": {"x": 7, "y": Decimal("2.13")},
        "l": [{"x": 1, "y": 2.0}],
        "m": [("1", {"x": 3, "Y": 4})],
        "f": Decimal("1.0050"),
        "d": None,
        "o": None,
    }
    assert table.to_arrow().to_pylist() == [stored]
    swapped = {
        "s": "named_struct('y', 2.125, 'x', 7)",
        "l": "array(named_struct('y', 2, 'X', 1))",
        "m": "map(1, named_struct('y', 4L, 'x', 3))",
    }
    select = ", ".join(f"{text} AS {name}" for name, text in swapped.items())
    lake.sql(f"INSERT INTO parts BY NAME SELECT 1.005 AS f, {select}, 2 AS id")
    assert table.to_arrow(where="id = 2").to_pylist() == [stored | {"id": 2}]
    lake.sql("UPDATE parts SET s = NULL, l = array(), m = map() WHERE id = 1")
    assert table.to_arrow(columns=["s", "l", "m"], where="id = 1").to_pylist() == [
        {"s": None, "l": [], "m": []}
    ]
    assignments = ", ".join(f"{name} = {text}" for name, text in swapped.items())
    lake.sql(f"UPDATE parts SET {assignments} WHERE id = 1")
    lake.sql("UPDATE parts SET d = f WHERE id = 1")
    lake.sql("UPDATE parts SET o = s WHERE id = 1")
    rounded = stored | {"d": Decimal("1.01"), "o": {"y": 2, "x": 7}}
    assert table.to_arrow(where="id = 1").to_pylist() == [rounded]
    merge = (
        "MERGE INTO parts AS t USING parts AS o ON t.id = o.id + 1 AND t.id = 2 WHEN MATCHED THEN UPDATE SET"
    )
    lake.sql(f"{merge} d = o.f, s = named_struct('y', o.s.x, 'x', 9)")
    assert table.to_arrow(columns=["s", "d"], where="id = 2").to_pylist() == [
        {"s": {"x": 9, "y": Decimal("7.00")}, "d": Decimal("1.01")}
    ]
    for wrong in ("struct(1, 2)", "named_struct('x', '1', 'y', 2)", "array(1)", "named_struct('x', 1)"):
        with pytest.raises(InvalidRequestError, match="column s: expected ROW"):
            lake.sql(f"UPDATE parts SET s = {wrong}")
    with pytest.raises(InvalidRequestError, match="overflow"), setting(lake, ansi_enabled="false"):
        lake.sql("INSERT INTO parts BY NAME SELECT 1 AS id, named_struct('x', 1, 'y', 3000000000L) AS o")
    lake.sql(f"{merge} s = named_struct('y', 1, 'x', 2) WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert table.to_arrow(columns=["s"]).to_pylist() == [{"s": {"x": 2, "y": Decimal("1.00")}}]
    lake.sql("INSERT INTO parts BY NAME SELECT 1 AS id")
    assert table.count() == 2


@covers("STM-1", "WH-12")
def test_a_statement_sees_the_rows_of_its_table_that_wait_for_a_compaction_wherever_it_names_it(
    lake: Any,
) -> None:
    options = {**DV, "write-only": "true"}
    table = lake.warehouse.create_table("db.waiting", "id INT, v INT", primary_key="id", options=options)
    lake.sql("INSERT INTO waiting VALUES (1, 10), (2, 20), (3, 30)")
    lake.sql("DELETE FROM waiting WHERE v = (SELECT max(v) FROM waiting)")
    lake.sql("MERGE INTO waiting w USING waiting s ON w.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 1")
    lake.sql("INSERT OVERWRITE waiting SELECT * FROM waiting")
    assert sorted(map(tuple, table.read(fresh=True).collect())) == [(1, 11), (2, 21)]


@covers("WH-8")
def test_nulls_of_nested_types_are_left_to_spark(lake: Any) -> None:
    columns = "id INT, r ROW<`a b` TIMESTAMP(3), m MAP<STRING, ARRAY<BYTES>>>, l ARRAY<DECIMAL(5, 2)>"
    lake.warehouse.create_table("db.nested", columns, primary_key="id")
    lake.sql("INSERT INTO nested SELECT id, NULL, array(id) FROM VALUES (1), (2) AS v(id)")
    lake.sql("UPDATE nested SET r = NULL, l = NULL WHERE id IN (SELECT max(id) FROM nested)")
    assert rows(lake, "SELECT id, r, l IS NULL FROM nested") == [(1, None, False), (2, None, True)]


@covers("STM-6")
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM overtaken WHERE id = 1 AND (SELECT max(n) FROM overtaken) < 100", [(1, 11), (2, 500)]),
        ("UPDATE overtaken SET n = (SELECT max(n) FROM overtaken) WHERE id = 1", [(1, 500), (2, 500)]),
        (
            "MERGE INTO overtaken t USING (SELECT max(n) AS n FROM overtaken) s ON t.id = 1 "
            "WHEN MATCHED THEN UPDATE SET n = s.n",
            [(1, 500), (2, 500)],
        ),
    ],
)
def test_queries_inside_of_a_statement_are_computed_again_with_it(
    lake: Any, statement: str, left: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.warehouse.drop_table("db.overtaken", if_exists=True)
    table = lake.warehouse.create_table("db.overtaken", "id INT, n INT", primary_key="id")
    table.upsert([{"id": 1, "n": 10}, {"id": 2, "n": 20}])
    changes, other = SparkRunner.changes, lake.warehouse.table("db.overtaken")

    def overtaken(*arguments: Any) -> Any:
        found = changes(*arguments)
        monkeypatch.setattr(SparkRunner, "changes", changes)
        other.upsert([{"id": 1, "n": 11}, {"id": 2, "n": 500}])
        return found

    monkeypatch.setattr(SparkRunner, "changes", overtaken)
    lake.sql(statement)
    assert rows(lake, "SELECT * FROM overtaken") == left


@covers("STM-1")
def test_queries_inside_of_a_statement_are_computed_after_its_table_is_read(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.warehouse.create_table("db.later", "id INT, n INT", primary_key="id")
    table.upsert([{"id": 1, "n": 10}])
    delete = Statements.delete

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(Statements, "delete", delete)
        table.upsert([{"id": 2, "n": 20}])
        return delete(*arguments)

    monkeypatch.setattr(Statements, "delete", late)
    lake.sql("DELETE FROM later WHERE n = (SELECT max(n) FROM later)")
    assert rows(lake, "SELECT * FROM later") == [(1, 10)]


@covers("WH-10")
def test_a_column_keeps_its_database_where_two_tables_have_one_name(lake: Any) -> None:
    lake.warehouse.create_database("other", if_not_exists=True)
    for name, ids in (("db.twin", "(1), (2)"), ("other.twin", "(1)")):
        lake.warehouse.create_table(name, "id INT", primary_key="id")
        lake.sql(f"INSERT INTO {name} VALUES {ids}")
    within = "EXISTS (SELECT 1 FROM other.twin WHERE other.twin.id = db.twin.id)"
    for statement in (f"DELETE FROM db.twin WHERE {within}", f"SELECT id FROM db.twin WHERE {within}"):
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            lake.sql(statement)
    lake.sql("DELETE FROM db.twin x WHERE EXISTS (SELECT 1 FROM other.twin o WHERE o.id = x.id)")
    assert rows(lake, "SELECT id FROM db.twin") == [(2,)]


@covers("WH-8")
def test_spark_is_asked_only_where_there_is_a_session(lake: Any) -> None:
    table = Warehouse(lake.warehouse.path).create_table("plain", "id INT, n INT", primary_key="id")
    for work in (
        lambda: table.update({"n": "1"}, by_spark=True),
        lambda: table.delete(where="true", by_spark=True),
        lambda: table.merge([{"id": 1}], "id", by_spark=True),
    ):
        with pytest.raises(InvalidRequestError, match="give spark=session"):
            work()
    table.upsert([{"id": 1, "n": 1}])
    table.update({"n": "t.n + 1"}, where="t.id = 1", alias="t")
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 2}]
