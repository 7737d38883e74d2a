"""Plain `spark.sql` knows the tables of a warehouse by a catalog in Python, and does what the session's SQL does."""

from __future__ import annotations

import copy
import datetime
import gc
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pktable
import pytest
from pktable import InvalidRequestError, Table
from pktable.run import by_size
from pktable.spark_sql.catalog import catalog, reading
from pktable.spark_sql.catalog.machine import Machine
from pktable.warehouse import Warehouse
from pktable_spec.covers import covers
from pktable_spec.errors import CommitUnknownError, CompactionFailedError, PkTableError
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as F

from model_tests.backends.spark_session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.versions]

ROWS = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]
DV = {"deletion-vectors.enabled": "true"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # A session of its own, so that no other test has its catalog.
    spark = spark_session().newSession()
    found = pktable.session(spark, warehouse=tmp_path_factory.mktemp("lake"), catalog="lake")
    found.warehouse.create_database("db")
    yield found
    spark.sql("USE spark_catalog")


@pytest.fixture(autouse=True)
def _small_work_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_size, "SMALL_BYTES", 32 << 20)


def made(lake: Any, name: str) -> Table:
    lake.warehouse.drop_table(f"db.{name}", if_exists=True)
    table: Table = lake.warehouse.create_table(
        f"db.{name}", "id BIGINT, city STRING", primary_key="id", options=DV
    )
    table.upsert(ROWS)
    return table


def rows(lake: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.spark.sql(query).collect())


@covers("WH-37")
def test_plain_sql_reads_the_newest_snapshot_at_each_analysis_and_a_version_by_its_name(lake: Any) -> None:
    table = made(lake, "t")
    lake.spark.sql("CREATE OR REPLACE TEMPORARY VIEW oslo AS SELECT id FROM lake.db.t WHERE city = 'Oslo'")
    before = lake.spark.table("lake.db.t")
    assert rows(lake, "SELECT t.id, city FROM lake.db.t JOIN oslo USING (id)") == [(2, "Oslo")]
    table.upsert([{"id": 3, "city": "Oslo"}])
    assert rows(lake, "FROM oslo") == [(2,), (3,)]
    whole = "db.t" if lake.spark.version < "4.2" else "lake.db.t"
    assert rows(lake, f"SELECT {whole}.id FROM lake.db.t WHERE t.id < 2") == [(1,)]
    assert before.count() == 2  # a DataFrame stays as it was analyzed
    table.create_tag("first", snapshot=2)
    assert rows(lake, "SELECT id FROM lake.db.t VERSION AS OF 'first'") == [(1,), (2,)]
    assert rows(lake, "SELECT id FROM lake.db.t VERSION AS OF 4 WHERE id > 2") == [(3,)]
    assert rows(lake, "SELECT count(*) FROM lake.db.t TIMESTAMP AS OF '2999-01-01'") == [(3,)]
    assert rows(lake, "SELECT max(snapshot_id) FROM lake.db.`t$snapshots`") == [(4,)]


@covers("WH-37")
def test_its_plan_is_that_of_a_read_into_which_spark_pushes_filters(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, "planned")
    table.delete([{"id": 1}])
    table.compact(full=True)
    monkeypatch.setattr(by_size, "SMALL_BYTES", 0)

    ((plan,),) = rows(lake, "EXPLAIN SELECT id FROM lake.db.planned WHERE city = 'Oslo'")
    assert "PushedFilters: [IsNotNull(city), EqualTo(city,Oslo)]" in plan


@covers("WH-38")
def test_a_query_that_names_a_table_twice_reads_one_snapshot(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, "twice")
    read = Table.read

    def read_and_commit(self: Table, **options: Any) -> Any:
        found = read(self, **options)
        table.upsert([{"id": table.count() + 1, "city": "new"}])
        return found

    monkeypatch.setattr(Table, "read", read_and_commit)
    query = "SELECT count(t.id), count(u.id) FROM lake.db.twice t FULL JOIN lake.db.twice u USING (id)"
    assert rows(lake, query) == [(2, 2)]
    assert rows(lake, query) == [(3, 3)]


@covers("WH-38")
def test_rows_are_given_up_when_the_jvm_has_forgotten_their_view(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FORGOTTEN_KEPT", 2)
    machine = Machine(lake.spark, str)
    views = reading.Views(machine, "nothing")
    frame = lake.spark.range(1)

    def view() -> Any:
        return views.table(("lake", "db", "t"), frame.schema, lambda: frame)

    found = [view() for _ in range(10)]
    assert len(views) == 11  # and one to try
    kept = found[0]
    found.clear()
    for _ in range(100):
        gc.collect()
        machine.jvm.System.gc()
        view()
        if len(views) < 10:
            break
    assert len(views) < 10
    assert lake.spark.sql(kept.v1Table().viewText().get()).count() == 1


INSERTS = {
    "values": "INSERT INTO {t} VALUES (2, 'Kobe'), (3, 'Lima')",
    "some columns": "INSERT INTO {t} (id) SELECT 3",
    "by name": "INSERT INTO {t} BY NAME SELECT 'Lima' AS city, 3L AS id",
    "from itself": "INSERT INTO {t} SELECT id + 10, upper(city) FROM {t}",
}


SINCE_4_1 = ("some columns", "from itself", "all without rows", "its own rows")
"""What Spark 4.0 refuses for tables of any such catalog."""


@pytest.mark.parametrize("kind", INSERTS)
@covers("WH-39")
def test_an_insert_puts_what_the_same_insert_of_the_session_puts(lake: Any, kind: str) -> None:
    statement = INSERTS[kind]
    if kind in SINCE_4_1 and lake.spark.version.startswith("4.0"):
        pytest.skip("Spark 4.0 refuses this")
    made(lake, "here")
    made(lake, "there")
    lake.spark.sql(statement.format(t="lake.db.here"))
    lake.sql(statement.format(t="db.there"))
    left = rows(lake, "SELECT * FROM lake.db.here")
    assert left == rows(lake, "SELECT * FROM lake.db.there") != [(1, "Rome"), (2, "Oslo")]


OVERWRITES = {
    "all": "INSERT OVERWRITE {t} VALUES (7, 'Lima', 'x')",
    "all by name": "INSERT OVERWRITE {t} BY NAME SELECT 'Lima' AS city, 7L AS id, 'x' AS p",
    "all without rows": "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE false",
    "its own rows": "INSERT OVERWRITE {t} SELECT id + 10, city, p FROM {t}",
    "a partition": "INSERT OVERWRITE {t} PARTITION (p = 'it\\'s') VALUES (7, 'Lima')",
    "a partition of NULL": "INSERT OVERWRITE {t} PARTITION (p = NULL) VALUES (7, 'Lima')",
    "a partition without rows": "INSERT OVERWRITE {t} PARTITION (p = 'b') SELECT 1L, 'x' WHERE false",
    "where": "INSERT INTO {t} REPLACE WHERE p = 'b' VALUES (7, 'Lima', 'b')",
    "where without partition": "INSERT INTO {t} REPLACE WHERE id = 3 VALUES (3, 'Lima', 'b')",
}


@pytest.mark.parametrize("kind", OVERWRITES)
@covers("WH-60")
def test_an_overwrite_replaces_what_the_same_overwrite_of_the_session_replaces(lake: Any, kind: str) -> None:
    if kind in SINCE_4_1 and lake.spark.version.startswith("4.0"):
        pytest.skip("Spark 4.0 refuses this")
    for name in ("over_here", "over_there"):
        lake.warehouse.drop_table(f"db.{name}", if_exists=True)
        table = lake.warehouse.create_table(
            f"db.{name}", "id BIGINT, city STRING, p STRING", primary_key=[], partition_by="p"
        )
        table.append(
            [{"id": i, "city": "Rome", "p": p} for i, p in enumerate(["it's", "it's", "b", "b", None])]
        )
    before = sorted(map(str, table.read().collect()))
    lake.spark.sql(OVERWRITES[kind].format(t="lake.db.over_here"))
    lake.sql(OVERWRITES[kind].format(t="db.over_there"))
    left, right = (
        lake.warehouse.table(f"db.{name}").read().collect() for name in ("over_here", "over_there")
    )
    assert sorted(map(str, left)) == sorted(map(str, right)) != before


@covers("WH-60")
def test_dataframes_overwrite_by_each_type_of_a_partition_and_the_rest_is_refused(lake: Any) -> None:
    types = {"b": "BOOLEAN", "d": "DATE", "n": "INT", "l": "BIGINT", "m": "DECIMAL(6,2)"}
    values = {"b": "false", "d": "DATE '1969-12-30'", "n": "-3", "l": "5", "m": "-0.50"}
    for column, kind in types.items():
        lake.spark.sql("DROP TABLE IF EXISTS lake.db.typed")
        lake.spark.sql(
            f"CREATE TABLE lake.db.typed (id BIGINT, {column} {kind}) USING pktable PARTITIONED BY ({column})"
        )
        lake.spark.sql(f"INSERT INTO lake.db.typed VALUES (1, {values[column]}), (2, NULL)")
        lake.spark.sql(f"INSERT OVERWRITE lake.db.typed PARTITION ({column} = {values[column]}) VALUES (3)")
        assert rows(lake, "SELECT id FROM lake.db.typed") == [(2,), (3,)]
    table = made(lake, "t")
    frame = lake.spark.createDataFrame([(7, "Lima")], "id BIGINT, city STRING")
    frame.write.insertInto("lake.db.t", overwrite=True)
    assert rows(lake, "SELECT * FROM lake.db.t") == [(7, "Lima")]
    frame.writeTo("lake.db.t").overwrite(F.col("id") == 7)
    before = table.snapshots()
    column = F.col("id")
    for condition in (column > 7, column + 1 == 8, column == F.length("city"), column.cast("string") == "7"):
        with pytest.raises(
            UnsupportedOperationException, match=r"^lake\.db\.t: plain .* with a value.*lake\.sql"
        ):
            frame.writeTo("lake.db.t").overwrite(condition)
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(
            UnsupportedOperationException, match=r"^lake\.db\.typed: .*Mode=dynamic ask; .*lake\.sql"
        ):
            lake.spark.sql("INSERT OVERWRITE lake.db.typed VALUES (1, 2)")
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert table.snapshots() == before


@covers("WH-39")
def test_dataframes_append_and_a_table_without_a_key_keeps_each_row(lake: Any) -> None:
    frame = lake.spark.createDataFrame([(1, "Rome"), (2, "Oslo")], "id BIGINT, city STRING")
    frame.writeTo("lake.db.plain").create()
    frame.writeTo("lake.db.plain").append()
    frame.write.insertInto("lake.db.plain")
    frame.write.mode("append").saveAsTable("lake.db.plain")
    assert rows(lake, "SELECT id, count(*) FROM lake.db.plain GROUP BY id") == [(1, 4), (2, 4)]


@covers("WH-37")
def test_what_is_cached_is_read_again_after_a_commit(lake: Any) -> None:
    made(lake, "cached")
    lake.spark.sql("CREATE OR REPLACE TEMPORARY VIEW of_cached AS SELECT * FROM lake.db.cached WHERE id > 1")
    try:
        lake.spark.sql("CACHE TABLE lake.db.cached")
        lake.spark.sql("CACHE TABLE of_cached")
        assert rows(lake, "SELECT * FROM of_cached") == [(2, "Oslo")]
        lake.sql("UPDATE lake.db.cached SET city = 'Lima' WHERE id = 2")
        assert rows(lake, "SELECT * FROM of_cached") == [(2, "Lima")]
        assert rows(lake, "SELECT * FROM lake.db.cached") == [(1, "Rome"), (2, "Lima")]
    finally:
        lake.spark.catalog.clearCache()


OTHERS = {
    "delete": "DELETE FROM lake.db.t WHERE id = 1",
    "delete all": "DELETE FROM lake.db.t",
    "update": "UPDATE lake.db.t SET city = 'Lima'",
    "merge": (
        "MERGE INTO lake.db.t t USING (SELECT 1L AS id, 'x' AS city) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    ),
    "merge that inserts": (
        "MERGE INTO lake.db.t t USING (SELECT 9L AS id, 'x' AS city) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "subquery": "INSERT INTO lake.db.t SELECT 9, 'x' WHERE 9 NOT IN (SELECT id FROM lake.db.t)",
}


@covers("WH-39")
def test_what_changes_rows_otherwise_is_refused_by_the_name_of_what_does_it(lake: Any) -> None:
    table = made(lake, "t")
    before = table.snapshots()
    for statement in OTHERS.values():
        with pytest.raises(
            UnsupportedOperationException, match=r"^lake\.db\.t: plain spark\.sql .*lake\.sql"
        ):
            lake.spark.sql(statement)
    frame = lake.spark.createDataFrame([(7, "Lima")], "id BIGINT, city STRING")
    with pytest.raises(UnsupportedOperationException, match=r"overwritePartitions\(\).*lake\.sql"):
        frame.writeTo("lake.db.t").overwritePartitions()
    for statement in ("CREATE OR REPLACE TABLE lake.db.t (id BIGINT)", "TRUNCATE TABLE lake.db.t"):
        with pytest.raises(PySparkException):
            lake.spark.sql(statement)
    with pytest.raises(PySparkException):
        frame.writeTo("lake.db.t").createOrReplace()
    assert table.snapshots() == before
    assert rows(lake, "SELECT * FROM lake.db.t") == [(1, "Rome"), (2, "Oslo")]


@covers("WH-40")
def test_an_error_is_one_sentence_and_what_is_not_there_is_sparks_own_error(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "t")
    for query, error in {
        "SELECT * FROM lake.db.nope": "TABLE_OR_VIEW_NOT_FOUND",
        "SELECT * FROM lake.nope.t": "TABLE_OR_VIEW_NOT_FOUND",
        "SHOW TABLES IN lake.nope": "SCHEMA_NOT_FOUND",
        "CREATE TABLE lake.db.t (id INT)": "TABLE_OR_VIEW_ALREADY_EXISTS",
        "CREATE NAMESPACE lake.db": "SCHEMA_ALREADY_EXISTS",
    }.items():
        with pytest.raises(AnalysisException) as found:
            lake.spark.sql(query)
        assert found.value.getCondition() == error
    assert not lake.spark.catalog.tableExists("lake.db.nope")
    lake.spark.sql("DROP TABLE IF EXISTS lake.db.nope")
    with pytest.raises(IllegalArgumentException, match=r"^snapshot 99 does not exist or has expired"):
        lake.spark.sql("SELECT * FROM lake.db.t VERSION AS OF 99")
    with pytest.raises(UnsupportedOperationException, match=r"^alter: column id cannot be dropped"):
        lake.spark.sql("ALTER TABLE lake.db.t DROP COLUMN id")
    with pytest.raises(PySparkException, match="cannot be cast"):
        lake.spark.sql("INSERT INTO lake.db.t SELECT int(string(id) || 'x'), 'x' FROM range(2)")
    monkeypatch.setattr(lake.warehouse, "has_table", lambda name: 1 // 0)
    with pytest.raises(Exception, match=r"RuntimeException: ZeroDivisionError: integer division"):
        lake.spark.sql("SELECT * FROM lake.db.t")


@covers("WH-40")
def test_an_option_that_is_not_understood_is_refused(lake: Any) -> None:
    made(lake, "t")
    frame = lake.spark.createDataFrame([(7, "Lima")], "id BIGINT, city STRING")
    with pytest.raises(IllegalArgumentException, match=r"^option another: a catalog takes none"):
        frame.writeTo("lake.db.t").option("another", "x").append()
    assert lake.spark.read.option("versionAsOf", "1").table("lake.db.t").count() == 0
    if lake.spark.version >= "4.3":  # no release before gives the options of a read to a catalog
        with pytest.raises(IllegalArgumentException, match=r"^option fresh: a catalog takes none"):
            lake.spark.read.option("fresh", "true").table("lake.db.t")


class Others:
    """What other code lets the JVM call, and fails with an exception of the JVM."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm

    def get(self) -> None:
        raise Py4JJavaError("theirs", self.jvm.java.lang.IllegalStateException("theirs"))

    class Java:
        implements: ClassVar = ["java.util.function.Supplier"]


@covers("WH-40")
def test_errors_of_other_callbacks_stay_as_they_were(lake: Any) -> None:
    jvm = Machine(lake.spark, str).jvm
    with pytest.raises(Py4JJavaError) as found:
        jvm.java.util.Optional.empty().orElseGet(Others(jvm))
    assert found.value.java_exception.getClass().getName() == "py4j.Py4JException"


@covers("WH-40")
def test_threads_read_and_insert_at_once(lake: Any) -> None:
    made(lake, "busy")
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(3):
                if number == 0:
                    lake.spark.sql(f"INSERT INTO lake.db.busy VALUES ({10 + i}, 'x')")
                ((left, right),) = rows(
                    lake,
                    "SELECT count(t.id), count(u.id) FROM lake.db.busy t FULL JOIN lake.db.busy u USING (id)",
                )
                assert left == right
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert rows(lake, "SELECT count(*) FROM lake.db.busy") == [(5,)]


@covers("WH-41")
def test_a_name_that_spark_has_is_refused_and_the_same_warehouse_takes_its_own_again(
    lake: Any, tmp_path: Any
) -> None:
    pktable.session(lake.spark, warehouse=lake.warehouse.path, catalog="lake")
    for name, why in {
        "lake": f"catalog lake of {lake.warehouse.path}",
        "spark_catalog": "one of this",
    }.items():
        with pytest.raises(
            InvalidRequestError, match=rf"catalog='{name}': Spark has .*{why}.*; give another"
        ):
            pktable.session(lake.spark, warehouse=tmp_path, catalog=name)
    other = pktable.session(spark_session().newSession(), warehouse=tmp_path, catalog="lake")
    assert other.spark.sql("SHOW NAMESPACES IN lake").collect()[0][0] == "default"


@covers("WH-41")
def test_where_spark_takes_no_catalog_the_versions_and_the_other_way_are_named(
    lake: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "CATALOGS", "elsewhere")
    spark = lake.spark.newSession()
    with pytest.raises(InvalidRequestError, match=r"pyspark 4\.0 to 4\.3 .*, and pyspark .*lake\.sql"):
        pktable.session(spark, warehouse=tmp_path, catalog="lake")
    without = pktable.session(spark, warehouse=lake.warehouse.path)
    made(lake, "t")
    assert without.sql("SELECT count(*) FROM paimon.db.t").collect()[0][0] == 2
    monkeypatch.setattr(catalog, "SparkSession", str)  # so that the session is not a classic one
    with pytest.raises(InvalidRequestError, match=r"and Spark Connect cannot; leave catalog out"):
        pktable.session(spark, warehouse=tmp_path, catalog="lake")


DDL = (
    "CREATE DATABASE {c}more",
    "CREATE TABLE {c}more.t (id INT NOT NULL COMMENT 'the id', n SMALLINT, s STRING, p STRING) PARTITIONED BY (p) "
    "COMMENT 'about' TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2')",
    "ALTER TABLE {c}more.t ADD COLUMNS (x STRUCT<a: INT> COMMENT 'more' AFTER id, y INT)",
    "ALTER TABLE {c}more.t ADD COLUMN x.b STRING",
    "ALTER TABLE {c}more.t RENAME COLUMN y TO z",
    "ALTER TABLE {c}more.t ALTER COLUMN n TYPE BIGINT",
    "ALTER TABLE {c}more.t ALTER COLUMN s COMMENT 'text'",
    "ALTER TABLE {c}more.t ALTER COLUMN s FIRST",
    "ALTER TABLE {c}more.t DROP COLUMN z",
    "ALTER TABLE {c}more.t SET TBLPROPERTIES ('snapshot.num-retained.max' = '20', 'comment' = 'more about')",
    "ALTER TABLE {c}more.t UNSET TBLPROPERTIES ('snapshot.num-retained.max')",
    "ALTER TABLE {c}more.t UNSET TBLPROPERTIES IF EXISTS ('snapshot.num-retained.max')",
    "CREATE TABLE {c}more.u COMMENT 'made' TBLPROPERTIES ('primary-key' = 'id') AS SELECT 1 AS id, 'x' AS s",
    "ALTER TABLE {c}more.u RENAME TO more.v0",
    "ALTER TABLE {c}more.v0 RENAME TO {c}more.v",
    "CREATE TABLE {c}more.w (id INT)",
    "DROP TABLE {c}more.w",
)


@covers("WH-42")
def test_definitions_leave_what_the_same_statements_of_the_session_leave(lake: Any, tmp_path: Any) -> None:
    other = pktable.session(spark_session(), warehouse=tmp_path)
    for statement in DDL:
        lake.spark.sql(statement.format(c="lake."))
        other.sql(statement.format(c="paimon."))
    with pytest.raises(Exception, match="without quotes it is a field of that column"):
        lake.spark.sql("ALTER TABLE lake.more.t ADD COLUMN `x.q` INT")
    assert lake.warehouse.tables("more") == other.warehouse.tables("more") == ["t", "v"]
    for name in ("more.t", "more.v"):
        mine, theirs = lake.warehouse.table(name), other.warehouse.table(name)
        assert mine.schema.fields == theirs.schema.fields
        assert (mine.schema.comment, mine.options) == (theirs.schema.comment, theirs.options)
        assert mine.schema.primary_keys == theirs.schema.primary_keys
        assert mine.schema.partition_keys == theirs.schema.partition_keys
        assert mine.to_arrow() == theirs.to_arrow()
    assert ("s", "string", "text") in rows(lake, "DESCRIBE lake.more.t")
    assert rows(lake, "SHOW TABLES IN lake.more") == [("more", "t", False), ("more", "v", False)]
    assert ("more",) in rows(lake, "SHOW NAMESPACES IN lake")
    lake.spark.sql("CREATE TABLE lake.without (id INT)")
    assert rows(lake, "SHOW TABLES IN lake") == [("default", "without", False)]
    with pytest.raises(PySparkException, match="it has tables"):
        lake.spark.sql("DROP DATABASE lake.more")
    lake.spark.sql("DROP DATABASE lake.more CASCADE")
    assert "more" not in lake.warehouse.databases()


@covers("WH-42")
def test_of_a_create_that_fails_or_is_refused_no_table_stays(lake: Any) -> None:
    for definition, why in {
        "(id INT) USING parquet": "USING parquet",
        "(id INT) LOCATION '/tmp/x'": "location is not supported",
        "(id INT) PARTITIONED BY (bucket(3, id))": "PARTITIONED BY bucket",
        "(id INT) TBLPROPERTIES ('bukket' = '3')": "did you mean bucket",
        "AS SELECT id, int(string(id) || 'x') AS n FROM range(2)": "cannot be cast",
    }.items():
        with pytest.raises(PySparkException, match=why):
            lake.spark.sql(f"CREATE TABLE lake.db.failed {definition}")
        assert not lake.warehouse.has_table("db.failed")


@pytest.mark.parametrize("by", ["plain", "session"])
@covers("WH-51")
def test_a_create_that_fails_leaves_what_has_rows_and_what_took_its_place(
    lake: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    put, sql = Table.put, lake.spark.sql if by == "plain" else lake.sql

    def replaced(self: Table, rows: Any, **options: Any) -> Any:
        lake.warehouse.drop_table("db.failed")
        put(lake.warehouse.create_table("db.failed", "other INT", primary_key=None), [{"other": 9}])
        return put(self, rows, **options)

    def committed(self: Table, rows: Any, **options: Any) -> Any:
        raise CompactionFailedError("the rows are committed", int(put(self, rows, **options) or 0))

    def unknown(self: Table, rows: Any, **options: Any) -> Any:
        raise CommitUnknownError(self.path, 1)

    for fails, left in ((replaced, [(9,)]), (committed, [(1,)]), (unknown, [])):
        lake.warehouse.drop_table("db.failed", if_exists=True)
        monkeypatch.setattr(Table, "put", fails)
        with pytest.raises(
            (PySparkException, PkTableError), match=r"another table|committed|could not be found out"
        ):
            sql("CREATE TABLE lake.db.failed AS SELECT 1 AS id")
        monkeypatch.setattr(Table, "put", put)
        assert rows(lake, "SELECT * FROM lake.db.failed") == left


@covers("WH-50")
def test_a_time_is_read_in_a_session_that_knows_it_and_a_catalog_may_have_any_name(lake: Any) -> None:
    spark = lake.spark.newSession()
    pktable.session(spark, warehouse=lake.warehouse.path, catalog="größe")
    made(lake, "t")
    assert spark.sql("SELECT count(*) FROM `größe`.db.t").collect()[0][0] == 2
    if lake.spark.version < "4.1":
        pytest.skip("Spark 4.0 has no TIME")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    lake.warehouse.drop_table("db.timed", if_exists=True)
    noon = datetime.time(12)
    lake.warehouse.create_table("db.timed", "id INT, at TIME(3)", primary_key="id").upsert(
        [{"id": 1, "at": noon}]
    )
    assert [tuple(row) for row in spark.sql("SELECT * FROM `größe`.db.timed").collect()] == [(1, noon)]


@covers("WH-50")
def test_a_column_that_has_not_null_inside_is_read(lake: Any) -> None:
    lake.warehouse.drop_table("db.nested", if_exists=True)
    columns = "id INT, r ROW<a INT NOT NULL>, l ARRAY<ROW<b INT NOT NULL> NOT NULL>, m MAP<INT, INT NOT NULL>"
    table = lake.warehouse.create_table("db.nested", columns, primary_key="id")
    assert rows(lake, "SELECT * FROM lake.db.nested") == []
    lake.spark.sql("INSERT INTO lake.db.nested SELECT 1, struct(2 AS a), array(struct(3 AS b)), map(4, 5)")
    assert rows(lake, "SELECT id, r.a, l[0].b, m[4] FROM lake.db.nested") == [(1, 2, 3, 5)]
    assert lake.spark.table("lake.db.nested").schema == table.read().schema


NO_TABLES = {
    "CREATE NAMESPACE lake.a.b": "CREATE DATABASE a.b: expected one name without a dot",
    "CREATE DATABASE lake.x COMMENT 'mine'": "CREATE DATABASE x: expected one name without comment",
    "CREATE DATABASE lake.x WITH DBPROPERTIES ('a' = 'b')": "CREATE DATABASE x: expected one name without a",
    "CREATE TABLE lake.db.`new$files` (id INT)": "CREATE TABLE .*: expected database.table",
    "CREATE TABLE lake.db.`new$branch_b` (id INT)": "CREATE TABLE .*: expected database.table",
    "CREATE TABLE lake.a.b.c (id INT)": "CREATE TABLE a.b.c: expected database.table",
    "INSERT INTO lake.db.`named$files` VALUES (1)": r"lake\.db\.named\$files: a metadata table cannot be changed",
    "DROP TABLE lake.db.`named$files`": "DROP TABLE .*: expected database.table",
    "DROP TABLE lake.db.`named$branch_b`": "DROP TABLE .*: expected database.table",
    "ALTER TABLE lake.db.`named$files` SET TBLPROPERTIES ('bucket' = '2')": "ALTER TABLE .*: expected database.table",
    "ALTER TABLE lake.db.`named$branch_b` RENAME TO db.u": "RENAME TABLE .*: expected database.table",
    "ALTER TABLE lake.db.named RENAME TO lake.db.a.b": "RENAME TO lake.db.a.b: expected a name such as",
    "ALTER TABLE lake.db.named RENAME TO db.`u$files`": "RENAME TO .*: expected a name such as database.table",
    "ALTER TABLE lake.db.named RENAME TO db.`u$branch_b`": "RENAME TO .*: expected a name such as database.table",
    "ALTER TABLE lake.db.named CLUSTER BY (id)": "ALTER TABLE: ClusterBy is not supported",
    "ALTER TABLE lake.db.named ALTER COLUMN city SET DEFAULT 'x'": "is not supported for column city",
    "ALTER TABLE lake.db.named ADD COLUMN d INT DEFAULT 3": "column d: a default is not supported",
    "ALTER DATABASE lake.db SET DBPROPERTIES ('a' = 'b')": r"lake: plain .* \(alterNamespace\); .*lake\.sql",
}


@covers("WH-40", "WH-42")
def test_names_of_no_tables_and_what_tables_do_not_have_are_refused_and_nothing_changes(lake: Any) -> None:
    table = made(lake, "named")
    table.create_branch("b")

    def there() -> Any:
        found = lake.warehouse.table("db.named")
        return lake.warehouse.databases(), lake.warehouse.tables("db"), found.schema, found.branches()

    before = there()
    for statement, why in NO_TABLES.items():
        with pytest.raises((IllegalArgumentException, UnsupportedOperationException), match=f"^.*{why}"):
            lake.spark.sql(statement)
        assert there() == before, statement
    with pytest.raises(AnalysisException) as found:
        lake.spark.sql("CREATE TABLE lake.nope.t (id INT)")
    assert found.value.getCondition() == "SCHEMA_NOT_FOUND"
    assert there() == before


@covers("WH-38")
def test_rows_are_those_of_a_number_that_a_catalog_gave(lake: Any) -> None:
    views = reading.Views(Machine(lake.spark, str), "nothing")
    assert lake.spark.sql(f"SELECT * FROM {views.function}(0)").collect() == []
    for arguments, found in (("99", "99"), ("'a'", "a"), ("0, 0", "None"), ("", "None")):
        with pytest.raises(
            IllegalArgumentException, match=f"expected a number that a catalog gave, found {found}$"
        ):
            lake.spark.sql(f"SELECT * FROM {views.function}({arguments})")


def test_a_copy_of_a_session_has_its_tables_and_what_the_jvm_calls_has_no_methods_of_pythons(
    lake: Any,
) -> None:
    made(lake, "t")
    assert copy.copy(lake).sql("SELECT count(*) FROM db.t").collect()[0][0] == 2
    offered = Machine(lake.spark, str).offered(self_made := object())
    assert copy.copy(offered).target is self_made


@pytest.mark.parametrize("later", [1, 2])
@covers("WH-42")
def test_a_create_that_another_was_faster_with_is_sparks_error(
    lake: Any, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    made(lake, "raced")
    answers = iter([False] * later)
    monkeypatch.setattr(Warehouse, "has_table", lambda self, name: next(answers, True))
    lake.spark.sql("CREATE TABLE IF NOT EXISTS lake.db.raced (id INT)")
    assert lake.warehouse.table("db.raced").schema.value_names == ("id", "city")


@covers("WH-37", "WH-10")
def test_the_catalog_may_be_the_current_one(lake: Any) -> None:
    made(lake, "t")
    lake.spark.sql("USE lake.db")
    try:
        assert rows(lake, "SELECT count(*) FROM t") == [(2,)]
        assert lake.sql("SELECT count(*) FROM db.t").collect()[0][0] == 2
        lake.sql("USE db")
        lake.spark.range(1).createOrReplaceTempView("t")
        with pytest.raises(InvalidRequestError, match=r"t: it is a table of .*, and one or a view of Spark"):
            lake.sql("SELECT * FROM t")
    finally:
        lake.spark.catalog.dropTempView("t")
        lake.spark.sql("USE spark_catalog.default")
