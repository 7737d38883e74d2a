"""A statement that is not understood to its end changes nothing, not even by its first words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pktable
import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError
from pktable_spec.covers import covers
from pyspark.errors import AnalysisException, ParseException

from model_tests.backends.spark_session import spark_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = pktable.session(spark_session(), warehouse=tmp_path_factory.mktemp("lake"))
    for statement in (
        "CREATE DATABASE half",
        "USE half",
        "CREATE TABLE t (id INT, v STRING, k INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p')",
        "INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y'), (3, 'c', 3, 'z'), (4, 'd', 4, 'z')",
        "ALTER TABLE t CREATE TAG tg",
        "CALL sys.create_branch('t', 'b')",
    ):
        found.sql(statement)
    yield found
    spark_session().sql("USE spark_catalog.default")


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def refused(lake: Any, statement: str, *errors: type[Exception]) -> str:
    """Return how a statement is refused, by one of ``errors``; it has changed no file."""
    root = Path(lake.warehouse.table("half.t").path).parent
    before = files(root)
    with pytest.raises(errors) as raised:
        lake.sql(statement)
    assert files(root) == before
    return str(raised.value)


LEFT_OVER = (
    "RENAME TO c2",
    "RENAME COLUMN v TO w",
    "DROP COLUMNS (v, k)",
    "DROP COLUMN v",
    "ADD COLUMN z INT",
    "ADD COLUMNS (z INT)",
    "ADD COLUMNS (z INT AFTER k)",
    "ALTER COLUMN k FIRST",
    "ALTER COLUMN k AFTER id",
    "ALTER COLUMN v COMMENT 'note'",
    "ALTER COLUMN id DROP NOT NULL",
    "SET TBLPROPERTIES ('write-only' = 'true')",
    "UNSET TBLPROPERTIES IF EXISTS ('write-only')",
    "CREATE TAG other",
    "REPLACE TAG tg",
    "RENAME TAG tg TO other",
    "DELETE TAG tg",
    "DROP PARTITION (p = 'x')",
)
BY_HALF = (
    *(f"ALTER TABLE t {one} garbage" for one in LEFT_OVER),
    "ALTER TABLE t DELETE TAG tg, nope",
    "ALTER TABLE t RENAME COLUMN v TO w, k TO z",
    "ALTER TABLE t DROP COLUMNS (v, k garbage)",
    "ALTER TABLE t ADD COLUMNS (z INT FIRST garbage)",
    "ALTER TABLE t ALTER COLUMN k TYPE BIGINT COMMENT 'note'",
    "ALTER TABLE t ALTER COLUMN k TYPE BIGINT NOT NULL",
    "CALL sys.delete_branch('t', 'b,typo')",
    "CALL sys.create_tag('t', tag => 'one', tag => 'two')",
    "ALTER TABLE t SET TBLPROPERTIES ('snapshot.num-retained.max' = '5' 'snapshot.num-retained.min' = '2')",
    "ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true', 'write-only' = 'false')",
    "ALTER TABLE t SET TBLPROPERTIES ('target-file-size' = '8 mb' garbage more)",
    "ALTER TABLE t SET TBLPROPERTIES (target-file-size = 8 mb)",
    "ALTER TABLE t SET TBLPROPERTIES ('comment' = 'a' 'b')",
    "ALTER TABLE t UNSET TBLPROPERTIES ('comment' garbage)",
    "ALTER TABLE t UNSET TBLPROPERTIES (write only)",
    "ALTER TABLE t DROP PARTITION (p = 'q' OR true)",
    "ALTER TABLE t DROP PARTITION (p = 'z' AND id = 3)",
    "ALTER TABLE t DROP PARTITION (p = v)",
    "ALTER TABLE t DROP PARTITION (p = 'x', p = 'y')",
    "TRUNCATE TABLE t PARTITION (p = 'x' OR p = 'y')",
    "INSERT INTO t PARTITION (p = 'x', p = 'y') VALUES (9, 'n', 9)",
    "INSERT OVERWRITE t PARTITION (p = 'x' OR true) VALUES (9, 'n', 9)",
    "ALTER TABLE t ADD COLUMN V STRING",
    "ALTER TABLE t ADD COLUMNS (z INT, P STRING)",
    "ALTER TABLE t RENAME COLUMN v TO K",
    "CREATE TABLE t2 (id INT, Id STRING)",
    "CREATE TABLE t2 (id INT) TBLPROPERTIES ('bucket' = '4' '2')",
    "CREATE GLOBAL TEMPORARY VIEW gv AS SELECT * FROM t",
)


@covers("WH-10", "WH-14")
@pytest.mark.parametrize("statement", BY_HALF)
def test_a_statement_that_is_not_understood_to_its_end_changes_nothing(lake: Any, statement: str) -> None:
    assert "\n" not in refused(lake, statement, InvalidRequestError)


@covers("WH-10", "STM-13")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET k = 0 garbage",
        "UPDATE t SET k = rand() garbage",
        "DELETE FROM t WHERE id = 1 x",
        "DELETE FROM t WHERE rand() > 2 x",
        "MERGE INTO t USING t s ON t.id = s.id x WHEN MATCHED THEN DELETE",
    ],
)
def test_a_word_after_an_expression_is_no_name_of_it(lake: Any, statement: str) -> None:
    refused(lake, statement, InvalidRequestError, ParseException)


@covers("WH-10", "WH-15")
def test_what_is_named_twice_is_deleted_once(lake: Any) -> None:
    lake.sql("ALTER TABLE t CREATE TAG twice")
    lake.sql("CALL sys.create_branch('t', 'twice')")
    lake.sql("CALL sys.delete_tag('t', 'twice,twice')")
    lake.sql("CALL sys.delete_branch('t', 'twice, twice')")
    table = lake.warehouse.table("half.t")
    assert (list(table.tags()), list(table.branches())) == (["tg"], ["b"])


@covers("WH-14")
def test_letter_case_is_changed_and_fields_may_be_called_like_columns(lake: Any) -> None:
    lake.sql("CREATE TABLE f (id INT, v STRING, r STRUCT<x: INT>) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("ALTER TABLE f RENAME COLUMN r.x TO ID")
    lake.sql("ALTER TABLE f ADD COLUMN r.V INT")
    lake.sql("ALTER TABLE f RENAME COLUMN v TO V")
    fields = lake.sql("SELECT * FROM f").schema
    assert [fields.names, fields["r"].dataType.names] == [["id", "V", "r"], ["ID", "V"]]


@covers("WH-14", "WH-15")
def test_a_doubled_quote_is_a_quote(lake: Any) -> None:
    lake.sql(
        "CREATE TABLE q (id INT COMMENT 'it''s', v STRING) COMMENT 'the table''s' TBLPROPERTIES ("
        "'primary-key' = 'id', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'listagg', "
        "'fields.v.list-agg-delimiter' = 'a''b')"
    )
    for value in ("x", "y"):
        lake.sql(f"INSERT INTO q VALUES (1, '{value}')")
    assert [row[0] for row in lake.sql("SELECT v FROM q").collect()] == ["xa'by"]
    assert lake.warehouse.table("half.q").schema.comment == "the table's"
    lake.sql("ALTER TABLE q SET TBLPROPERTIES ('comment' = 'it''s fine')")
    lake.sql("ALTER TABLE q ALTER COLUMN v COMMENT 'it''s'")
    table = lake.warehouse.table("half.q")
    assert (table.schema.comment, table.schema.field("v").description) == ("it's fine", "it's")
    lake.sql("CALL sys.create_tag('q', 'early', 1)")
    assert lake.sql("SELECT v FROM q VERSION AS OF 'early'").collect()[0][0] == "x"
    for read in (lake.sql, lake.warehouse.query):
        with pytest.raises(SnapshotNotFoundError, match="early'"):
            read("SELECT v FROM half.q VERSION AS OF 'early''x'")


TAKEN_AS_SOMETHING_ELSE = (
    "/* /* */ DELETE FROM t -- */ SELECT nosuch FROM t",
    "UPDATE t SET k = 0 WHERE id = 1 -- c \\\n OR id = 2",
    "DELETE FROM t -- c \\\n WHERE id = 1",
    "UPDATE t SET",
    "UPDATE t SET k = 1,",
    "UPDATE t SET k = 1,, v = 'x'",
    "UPDATE t SET `t.k` = 5",
    "TRUNCATE TABLE t PARTITION (p = 'x',)",
    "TRUNCATE TABLE t PARTITION ()",
    "ALTER TABLE t DROP COLUMNS (v,)",
    "ALTER TABLE t ADD COLUMNS (z INT,)",
    *(
        "MERGE INTO t USING t s ON t.id = s.id + 8 WHEN NOT MATCHED THEN "
        f"INSERT {columns} VALUES (s.id, s.p, 1, 2)"
        for columns in ("(id, p, k, k)", "(id garbage, p, k, v)", "(id = 5, p, k, v)", "(id, p, k K, v)")
    ),
    "INSERT INTO t BY NAME (id, v, k, p) SELECT 9 AS id, 'n' AS v, 9 AS k, 'x' AS p",
    "INSERT OVERWRITE t REPLACE WHERE p = 'x' SELECT 9, 'n', 9, 'x'",
    "INSERT t VALUES (9, 'n', 9, 'x')",
    "INSERT OVERWRITE t PARTITION () VALUES (9, 'n', 9, 'x')",
    "CREATE TABLE t2 (id INT) COMMENT 'a' COMMENT 'b'",
    "CREATE TABLE t2 (id INT, p INT) PARTITIONED BY (id) PARTITIONED BY (p)",
    "CREATE TABLE t2 (id INT, p INT) PARTITIONED BY ()",
    "CREATE TABLE t2 (id INT) OPTIONS ('bucket' = '2') TBLPROPERTIES ('bucket' = '1')",
    "CREATE TABLE t2 (id INT) TBLPROPERTIES ('comment' = 'b') COMMENT 'a'",
    "CREATE TABLE t2 (id INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ('partition' = 'id')",
    "CREATE TABLE t2 (id INT) TBLPROPERTIES (comment = NULL)",
    "CREATE TABLE t2 (id INT) TBLPROPERTIES ('primary-key' = 'id,,id')",
    "CREATE TABLE t2 (id: INT)",
    "CREATE TABLE t2 (struct<a: int, b: string>)",
    "CREATE TEMPORARY VIEW w (a, b, c, d) AS SELECT * FROM t",
    "CREATE TEMPORARY VIEW t AS SELECT 99 AS id",
    "CREATE TEMPORARY VIEW t AS SELECT * FROM t",
    "USE paimon.half.garbage",
    "SHOW TABLES LIKE",
    "SHOW TBLPROPERTIES t garbage",
)  # fmt: skip


@covers("WH-10", "WH-14")
@pytest.mark.parametrize("statement", TAKEN_AS_SOMETHING_ELSE)
def test_a_statement_that_says_something_else_changes_nothing(lake: Any, statement: str) -> None:
    refused(lake, statement, InvalidRequestError, AnalysisException)


@covers("WH-10")
def test_a_negative_parameter_after_a_minus_begins_no_comment(lake: Any) -> None:
    (row,) = lake.sql("UPDATE t SET k = 10 -:p WHERE id = 99", {"p": -5}).collect()
    assert row["num_affected_rows"] == 0


@covers("WH-10")
def test_a_view_keeps_its_database_and_is_not_changed(lake: Any) -> None:
    lake.sql("CREATE TEMPORARY VIEW kept AS TABLE t")
    lake.sql("CREATE OR REPLACE TEMPORARY VIEW upon AS SELECT id FROM kept")
    lake.sql("CREATE DATABASE empty")
    lake.sql("USE empty")
    try:
        assert lake.sql("SELECT count(*) FROM upon").collect()[0][0] == 4
    finally:
        lake.sql("USE half")
    for statement, message in (
        ("DELETE FROM kept", "a temporary view cannot be changed"),
        ("INSERT INTO kept VALUES (9, 'n', 9, 'x')", "a temporary view cannot be changed"),
        ("TRUNCATE TABLE kept", "a temporary view cannot be changed"),
        ("DROP VIEW kept garbage", "expected the end"),
        ("CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT * FROM upon", "table kept: neither"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            lake.sql(statement)
    with pytest.raises(InvalidRequestError, match="table nowhere: neither"):
        lake.sql("CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT nosuch FROM nowhere")
    assert lake.sql("SELECT count(*) FROM upon").collect()[0][0] == 4
    lake.sql("CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT 1 AS id")
    assert lake.sql("SELECT * FROM upon").collect()[0][0] == 1
    for view in ("upon", "kept"):
        lake.sql(f"DROP VIEW {view}")
