"""A statement of which a part is not understood changes nothing, not even what comes before that part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pktable
import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError
from pktable_spec.covers import covers
from pyspark.errors import ParseException

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
    root = Path(lake.warehouse.table("half.t").path)
    before = files(root.parent)
    with pytest.raises(InvalidRequestError) as raised:
        lake.sql(statement)
    assert "\n" not in str(raised.value)
    assert files(root.parent) == before


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
    root = Path(lake.warehouse.table("half.t").path)
    before = files(root.parent)
    with pytest.raises((InvalidRequestError, ParseException)):
        lake.sql(statement)
    assert files(root.parent) == before


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
