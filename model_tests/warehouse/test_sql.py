"""SQL by name does what the methods do: statements with the rows that they leave, on one session."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pktable
import pytest
from pktable import InvalidRequestError
from pktable_spec.covers import covers
from pyspark.errors import ParseException

from model_tests.backends.spark_session import spark_session
from model_tests.warehouse.lakes import COLUMNS, DV, KINDS, NEW, ROWS, changed, dicts, in_order, made, rows

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A statement on the table ``t``, the rows it leaves, and how many it reports; None: not known.

    ``counts``: how many are inserted, updated and deleted.
    """

    statement: str
    left: list[tuple[Any, ...]]
    affected: int | None
    kinds: tuple[str, ...] = KINDS
    counts: tuple[int | None, ...] = ()


CASES = {
    "insert": Case("INSERT INTO t VALUES (5, 'Kobe', 50, 'as')", [*ROWS, (5, "Kobe", 50, "as")], 1),
    "insert some columns": Case(
        "INSERT INTO db.t (REGION, id) SELECT 'as', 5", [*ROWS, (5, None, None, "as")], 1
    ),
    "insert by name": Case(
        "INSERT INTO paimon.db.t BY NAME SELECT 'as' AS region, 7L AS id, 1.6 AS n",
        [*ROWS, (7, None, 1, "as")],
        1,
    ),
    "insert from itself": Case(
        "WITH more AS (SELECT id + 10 AS id, city, n, region FROM t WHERE id = 1) INSERT INTO t SELECT * FROM more",
        [*ROWS, (11, "Rome", 10, "eu")],
        1,
    ),
    "insert overwrite": Case("INSERT OVERWRITE t SELECT 9, 'Bonn', 1, 'eu'", [(9, "Bonn", 1, "eu")], 1),
    "insert into a partition": Case(
        "INSERT INTO t PARTITION (region = 'as') SELECT 5, 'Kobe', 50",
        [*ROWS, (5, "Kobe", 50, "as")],
        1,
        ("parted",),
    ),
    "insert overwrite a partition": Case(
        "INSERT OVERWRITE TABLE t PARTITION (region = 'eu') VALUES (9, 'Bonn', 1)",
        [*ROWS[2:], (9, "Bonn", 1, "eu")],
        1,
        ("parted",),
    ),
    "replace where": Case(
        "INSERT INTO t REPLACE WHERE n > 15 SELECT 9, 'Bonn', 16, 'eu'",
        [ROWS[0], (9, "Bonn", 16, "eu")],
        None,
    ),
    "update": Case("UPDATE t SET n = n + 1 WHERE id = 2", [*ROWS[:1], (2, "Oslo", 21, "eu"), *ROWS[2:]], 1),
    "update in Spark's words": Case(
        "UPDATE t AS x SET x.city = CASE WHEN x.n < 15 THEN reverse(city) ELSE initcap(x.city) END, N = n * 1.5 "
        "WHERE x.id IN (SELECT id FROM there) AND region = 'eu'",
        [(1, "emoR", 15, "eu"), *ROWS[1:]],
        1,
    ),
    "update by a subquery of itself": Case(
        "UPDATE t SET n = (SELECT max(n) FROM t) WHERE n = (SELECT min(n) FROM t)",
        [(1, "Rome", 40, "eu"), *ROWS[1:]],
        1,
    ),
    "update nothing": Case("UPDATE t SET n = 0 WHERE id = 99", ROWS, 0),
    "delete": Case("DELETE FROM t WHERE id > 2", ROWS[:2], 2),
    "delete in Spark's words": Case(
        "DELETE FROM db.t WHERE length(reverse(city)) = 4 "
        "AND NOT EXISTS (SELECT 1 FROM there WHERE there.id = db.t.id)",
        [ROWS[0], ROWS[2], ROWS[3]],
        1,
    ),
    "delete all": Case("DELETE FROM t", [], 4),
    "truncate": Case("TRUNCATE TABLE t", [], 4),
    "merge": Case(
        "MERGE INTO t USING new AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [*ROWS[:2], *NEW, ROWS[3]],
        2,
    ),
    "merge of all clauses": Case(
        "MERGE INTO db.t x USING (SELECT * FROM new) s ON x.id = s.id "
        "WHEN MATCHED AND s.n > 1000 THEN DELETE WHEN MATCHED THEN UPDATE SET city = lower(s.city), x.n = x.n + s.n "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (id, region) VALUES (s.id, s.region) "
        "WHEN NOT MATCHED BY SOURCE AND x.id = 1 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND id = 2 THEN UPDATE SET n = 0",
        [(2, "Oslo", 0, "eu"), (3, "lima", 63, "sa"), ROWS[3], (5, None, None, "as")],
        4,
        counts=(1, 2, 1),
    ),
    "merge in Spark's words": Case(
        "MERGE INTO db.t USING new FOR VERSION AS OF 2 AS s ON db.t.id = s.id AND upper(db.t.city) = s.city "
        "WHEN MATCHED AND day(DATE '2024-01-02') = 2 "
        "THEN UPDATE SET city = CASE WHEN t.n > 1 THEN repeat(s.city, 2) END "
        "WHEN NOT MATCHED THEN INSERT (id, city, n, region) VALUES (s.id, initcap(lower(s.city)), s.n, s.region)",
        [*ROWS[:2], (3, "LIMALIMA", 30, "sa"), ROWS[3], NEW[1]],
        2,
    ),
    "merge of values": Case(
        "MERGE INTO t USING (VALUES (3, 'Quito')) AS s (`i d`, city) ON s.`i d` = t.id "
        "WHEN MATCHED THEN UPDATE SET city = s.city",
        [*ROWS[:2], (3, "Quito", *ROWS[2][2:]), ROWS[3]],
        1,
        ("parted",),
    ),
    "merge that deletes": Case(
        "MERGE INTO t USING there ON there.id = t.id WHEN MATCHED THEN DELETE", [ROWS[1], ROWS[3]], 2
    ),
}


@covers("WH-8", "WH-12", "WH-13")
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, case in CASES.items() for kind in case.kinds]
)
def test_a_statement_leaves_the_rows_and_reports_how_many(lake: Any, name: str, kind: str) -> None:
    case = CASES[name]
    table = made(lake, "t", kind)
    if "new" in case.statement:
        new = lake.warehouse.create_table("db.new", COLUMNS, primary_key="id", options=DV, if_not_exists=True)
        new.upsert(dicts(NEW)) if not new.count() else None
    spark_session().createDataFrame([(1,), (3,)], "id BIGINT").createOrReplaceTempView("there")
    result = changed(lake, case.statement)
    assert rows(lake, "SELECT * FROM t") == sorted(case.left, key=in_order)
    if case.affected is not None:
        assert result["num_affected_rows"] == case.affected
    names = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    found = tuple(result[name] for name in names)
    if case.counts:
        assert found == case.counts
    if name == "merge in Spark's words":  # its pairs need more than the key
        assert found == ((None, None, 0) if kind == "keyed" else (1, 1, 0))
    if name == "insert":
        assert found == ((None, None, 0) if kind == "keyed" else (1, 0, 0))
    if name.startswith(("update ", "delete")) and case.affected:
        assert found == ((0, 0, case.affected) if name.startswith("delete") else (0, case.affected, 0))
    latest = lake.warehouse.table("db.t").snapshots()[-1].id
    assert result["snapshot_id"] == (None if case.affected == 0 else latest)
    assert table.path == lake.warehouse.path_of("db.t")


@covers("WH-10", "WH-11")
def test_a_query_reads_tables_by_name_at_the_versions_that_it_asks_for(lake: Any) -> None:
    table = made(lake, "q")
    table.create_tag("first")
    old = len(ROWS)
    time = table.snapshots()[-1].time_millis
    table.upsert(dicts(NEW))
    new = old + 1
    for query, expected in (
        ("SELECT count(*) FROM q", new),
        ("SELECT count(*) FROM db.q", new),
        ("SELECT count(*) FROM paimon.db.q;", new),
        (f"SELECT count(*) FROM pktable.`{table.path}`", new),
        ("SELECT count(*) FROM q VERSION AS OF 2", old),
        ("SELECT count(*) FROM q VERSION AS OF 'first'", old),
        ("SELECT count(*) FROM q FOR SYSTEM_VERSION AS OF '2'", old),
        (f"SELECT count(*) FROM q TIMESTAMP AS OF timestamp_millis({time})", old),
        ("SELECT count(*) FROM q TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY", new),
        ("SELECT count(*) FROM q FOR SYSTEM_TIME AS OF '2100-01-01 00:00:00' AS x", new),
        ("SELECT count(*) FROM q TABLESAMPLE (100 PERCENT) AS x", new),
        ("SELECT count(*) FROM q TABLESAMPLE (100 PERCENT) WHERE q.id > 0", new),
        ("SELECT sum(a.n) - sum(b.n) FROM q a JOIN q VERSION AS OF 2 AS b ON a.id = b.id", 3),
        ("WITH q AS (SELECT 1 AS id) SELECT count(*) FROM q", 1),
        ("WITH x AS (SELECT * FROM q), q AS (SELECT id FROM x) SELECT count(*) FROM q", new),
        ("SELECT count(*) FROM (SELECT * FROM q UNION ALL SELECT * FROM db.q) WHERE '{q}' = '{q}'", 2 * new),
        ("SELECT count(*) FROM range(3) WHERE id IN (SELECT q.id FROM q)", 2),
        ("SELECT max(paimon.db.q.id) FROM paimon.db.q WHERE db.q.n > 0", 5),
        ("SELECT max(db.q.id) FROM db.q WHERE db.q.n = (SELECT max(db.q.n) FROM db.q)", 5),
        ("FROM q SELECT count(*)", new),
        ("VALUES (7)", 7),
        ("SELECT count(*) FROM (TABLE q)", new),
    ):
        assert rows(lake, query) == [(expected,)], query
    assert lake.sql("SELECT id FROM q WHERE city = :city", {"city": "Kobe"}).collect()[0].id == 5
    versions = "FROM q VERSION AS OF :v JOIN q TIMESTAMP AS OF :t AS r ON q.id = r.id SELECT count(*) WHERE q.id > :i"
    assert rows(lake, versions, v="first", t="2100-01-01 00:00:00", i=1) == [(old - 1,)]
    assert lake.table("db.q").count() == new
    assert "Relation" in rows(lake, "EXPLAIN EXTENDED SELECT * FROM q")[0][0]
    assert lake.range(4).count() == 4, "all else is the session's"


@covers("WH-10")
def test_a_view_is_read_again_at_each_use(lake: Any) -> None:
    table = made(lake, "base")
    lake.sql("CREATE TEMPORARY VIEW some AS SELECT * FROM base WHERE n > 15")
    before = len(rows(lake, "SELECT * FROM some"))
    table.upsert(dicts(NEW[1:]))
    assert len(rows(lake, "SELECT some.id FROM some")) == before + 1
    lake.sql("CREATE OR REPLACE TEMP VIEW some AS SELECT id FROM base")
    assert rows(lake, "SELECT count(*) FROM some") == [(5,)]
    for statement, message in (
        ("CREATE TEMP VIEW some AS SELECT * FROM base", "there already"),
        ("CREATE VIEW kept AS SELECT * FROM base", "CREATE TEMPORARY VIEW"),
        ("CREATE OR REPLACE TEMP VIEW some AS SELECT * FROM some", "names some itself"),
        ("SELECT * FROM some VERSION AS OF 1", "has no versions"),
        ("CACHE TABLE some", "not understood"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            lake.sql(statement)
    assert ("", "some", True) in rows(lake, "SHOW VIEWS LIKE 'so*'")
    lake.sql("DROP VIEW some")


@covers("WH-14")
def test_the_definition_that_is_shown_makes_the_same_columns(lake: Any) -> None:
    for name in ("shown", "again"):
        lake.sql(f"DROP TABLE IF EXISTS {name}")
    lake.sql(
        "CREATE TABLE shown (id BIGINT, `a b` STRUCT<x: INT NOT NULL COMMENT 'it\\'s', "
        "`y z`: ARRAY<STRUCT<t: TIMESTAMP NOT NULL, c: CHAR(3)>>, "
        "m: MAP<STRING, STRUCT<n: TIMESTAMP_NTZ NOT NULL, v: VARIANT>> NOT NULL> NOT NULL)"
    )
    text = lake.sql("SHOW CREATE TABLE shown").collect()[0][0]
    lake.sql(text.replace("db.shown", "again", 1))
    made, copy = (lake.warehouse.table(f"db.{name}").schema for name in ("shown", "again"))
    assert "x` INT NOT NULL" in str(made.fields[1].type)
    assert made.fields[1].type.children[0].description == "it's"
    assert copy.fields == made.fields


@covers("WH-14")
def test_tables_are_defined_shown_altered_and_dropped(lake: Any) -> None:
    for name in ("made", "copy", "other"):
        lake.sql(f"DROP TABLE IF EXISTS {name}")
    lake.sql(
        "CREATE TABLE IF NOT EXISTS made (id BIGINT NOT NULL COMMENT 'the key', `at` TIMESTAMP, city VARCHAR(9), "
        "amount DECIMAL(9, 2), dt STRING) USING paimon PARTITIONED BY (dt) COMMENT 'all of it' "
        "TBLPROPERTIES ('primary-key' = 'id,dt', 'bucket' = '2', deletion-vectors.enabled = true)"
    )
    table = lake.warehouse.table("db.made")
    assert table.schema.primary_keys == ("id", "dt")
    assert table.schema.partition_keys == ("dt",)
    assert table.columns["at"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert table.options == {"bucket": "2", "deletion-vectors.enabled": "true"}
    assert table.schema.comment == "all of it"
    lake.sql(
        "INSERT INTO made VALUES (1, TIMESTAMP '2024-05-01 10:00:00', 'Rome', 1.5, 'x'), (2, NULL, 'Oslo', 2, 'y')"
    )
    again = lake.sql("SHOW CREATE TABLE made").collect()[0][0]
    lake.sql(again.replace("db.made", "copy", 1))
    copy = lake.warehouse.table("db.copy")
    assert (copy.columns, copy.options, copy.schema.primary_keys) == (
        table.columns,
        table.options,
        ("id", "dt"),
    )
    for statement in (
        "ALTER TABLE made ADD COLUMNS (note STRING COMMENT 'what', n INT)",
        "ALTER TABLE made ADD COLUMN first_one INT FIRST",
        "ALTER TABLE made RENAME COLUMN note TO remark",
        "ALTER TABLE made ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE made ALTER COLUMN n AFTER city",
        "ALTER TABLE made CHANGE COLUMN city COMMENT 'where'",
        "ALTER TABLE made DROP COLUMN first_one",
        "ALTER TABLE made ADD COLUMN r STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>",
        "ALTER TABLE made ADD COLUMNS (r.d DATE, R.b.element.e INT)",
        "ALTER TABLE made RENAME COLUMN r.a TO n",
        "ALTER TABLE made ALTER COLUMN r.n TYPE BIGINT",
        "ALTER TABLE made DROP COLUMNS (r.b.element.c)",
        "ALTER TABLE made SET TBLPROPERTIES ('snapshot.num-retained.min' = '3', 'comment' = 'new')",
        "ALTER TABLE made UNSET TBLPROPERTIES ('snapshot.num-retained.min')",
    ):
        lake.sql(statement)
    for column, message in {"`r.q`": "without quotes it is a field", "r.`q.p`": "has no dot"}.items():
        with pytest.raises(InvalidRequestError, match=message):
            lake.sql(f"ALTER TABLE made ADD COLUMN {column} INT")
    described = [tuple(row) for row in lake.sql("DESCRIBE made").collect()]
    assert described == [
        ("id", "bigint", "the key"),
        ("at", "timestamp", None),
        ("city", "varchar(9)", "where"),
        ("n", "bigint", None),
        ("amount", "decimal(9,2)", None),
        ("dt", "string", None),
        ("remark", "string", "what"),
        ("r", "struct<n:bigint,b:array<struct<e:int>>,d:date>", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("dt", "string", None),
    ]
    extended = rows(lake, "DESC TABLE EXTENDED db.made")
    assert ("Comment", "new", "") in extended
    assert rows(lake, "SHOW PARTITIONS made") == [("dt=x",), ("dt=y",)]
    lake.sql("INSERT INTO made (id, city, dt) SELECT 9, 'Nice', '20240228'")
    expire = "CALL sys.expire_partitions('made', '7 d', 'yyyyMMdd')"
    assert [rows(lake, expire) for _ in range(2)] == [[("dt=20240228",)], []]
    assert rows(lake, "SHOW COLUMNS IN copy")[0] == ("amount",)
    assert rows(lake, "SHOW TBLPROPERTIES copy ('bucket')") == [("bucket", "2")]
    lake.sql("ALTER TABLE copy RENAME TO other")
    shown = rows(lake, "SHOW TABLES IN db LIKE 'mad*|oth*'")
    assert [name for _, name, _ in shown] == ["made", "other"]
    result = changed(
        lake,
        "CREATE TABLE copy TBLPROPERTIES ('primary-key'='id') AS SELECT id, city, amount * 2 AS twice FROM made",
    )
    assert result["num_inserted_rows"] == 2
    assert rows(lake, "SELECT id, city, CAST(twice AS INT) FROM copy") == [(1, "Rome", 3), (2, "Oslo", 4)]
    with pytest.raises(InvalidRequestError):
        lake.sql(
            "CREATE TABLE broken TBLPROPERTIES ('primary-key'='id') AS SELECT CAST(NULL AS INT) AS id FROM made"
        )
    assert not lake.warehouse.has_table("db.broken")
    lake.sql("DROP TABLE other")
    lake.sql("CREATE DATABASE IF NOT EXISTS more")
    assert {("db",), ("more",)} <= set(rows(lake, "SHOW DATABASES"))
    lake.sql("DROP DATABASE paimon.more CASCADE")
    assert rows(lake, "SHOW DATABASES LIKE 'mo*'") == []


@covers("WH-14")
def test_a_comma_inside_of_a_type_ends_no_column(lake: Any) -> None:
    lake.warehouse.create_table("db.types", "id INT, v ROW<a INT>", primary_key="id")
    lake.sql(
        "ALTER TABLE types ADD COLUMNS (b INT, r STRUCT<a: INT, ID: INT> FIRST, m MAP<STRING, ARRAY<INT>> AFTER r)"
    )
    lake.sql("ALTER TABLE types ADD COLUMN v.m MAP<STRING, INT> COMMENT 'a < b, c'")
    found = [(field.name, str(field.type)) for field in lake.warehouse.table("db.types").schema.fields]
    assert found == [
        ("r", "ROW<`a` INT, `ID` INT>"),
        ("m", "MAP<STRING NOT NULL, ARRAY<INT>>"),
        ("id", "INT NOT NULL"),
        ("v", "ROW<`a` INT, `m` MAP<STRING NOT NULL, INT>>"),
        ("b", "INT"),
    ]


@covers("WH-15")
def test_procedures_do_what_the_methods_do(lake: Any) -> None:
    table = made(lake, "p")
    table.upsert(dicts(NEW))
    assert rows(lake, "CALL sys.create_tag(table => 'db.p', tag => 'one', snapshot => 2)") == [(True,)]
    assert rows(lake, "CALL paimon.sys.create_tag('p', 'two')") == [(True,)]
    assert rows(lake, "CALL sys.create_tag('p', 'gone', time_retained => '1 ms')") == [(True,)]
    assert rows(lake, "CALL sys.replace_tag('p', 'gone', time_retained => '2 ms')") == [(True,)]
    lake.sql("ALTER TABLE p CREATE TAG week AS OF VERSION 2 RETAIN 7 DAYS")
    lake.sql("ALTER TABLE p REPLACE TAG week RETAIN 8 DAYS")
    times = "SELECT tag_name, time_retained FROM `p$tags` WHERE time_retained IS NOT NULL"
    assert rows(lake, times) == [("gone", "PT0.002S"), ("week", "PT192H")]
    assert rows(lake, "CALL sys.expire_tags('p')") == [("gone",)]
    lake.sql("ALTER TABLE p DELETE TAG week")
    assert rows(lake, "SHOW TAGS p") == [("one",), ("two",)]
    assert rows(lake, "CALL sys.delete_tag(table => 'p', tag => 'two')") == [(True,)]
    assert rows(lake, "CALL sys.compact(`table` => 'p', compact_strategy => 'full')") == [(True,)]
    before = lake.warehouse.table("db.p").snapshots()[-1].id
    made_tag = rows(lake, "CALL sys.create_tag_from_timestamp('p', 'three', 0)")
    assert made_tag[0][:2] == ("three", 1)
    assert rows(lake, "CALL sys.reset_consumer('p', 'me', 3)") == [(True,)]
    assert rows(lake, "SELECT * FROM `p$consumers`") == [("me", 3)]
    lake.sql("CALL sys.reset_consumer('p', 'you', 3)")
    lake.sql("CALL sys.clear_consumers('p', includingConsumers => ' ', excludingConsumers => 'm.*')")
    assert rows(lake, "SELECT * FROM `p$consumers`") == [("me", 3)]
    assert rows(lake, "CALL sys.clear_consumers(table => 'p', includingConsumers => 'm.*')") == [(True,)]
    assert rows(lake, "CALL sys.rollback(table => 'p', version => '2')") == [(before, 2)]
    assert rows(lake, "SELECT count(*) FROM p") == [(len(ROWS),)]
    (orphans,) = rows(
        lake,
        "CALL sys.remove_orphan_files(table => 'p', older_than => '2100-01-01 00:00:00', dry_run => true)",
    )
    assert orphans[0] > 0
    assert rows(lake, "CALL sys.remove_orphan_files(table => 'p', older_than => '2100-01-01 00:00:00')") == [
        orphans
    ]
    lake.sql("DELETE FROM p WHERE id = 1")
    assert rows(lake, "CALL sys.expire_snapshots(table => 'p', retain_max => 1)")[0][0] > 0
    assert len(lake.warehouse.table("db.p").snapshots()) == 1


@covers("WH-15")
def test_an_expiry_by_time_keeps_as_many_snapshots_as_the_option_says(lake: Any) -> None:
    table = lake.warehouse.create_table("db.kept", "id INT", primary_key="id")
    for number in range(13):
        table.put([{"id": number}])
    for option, left in ((None, 10), ("3", 3)):
        if option:
            table.alter(set_options={"snapshot.num-retained.min": option})
        lake.sql("CALL sys.expire_snapshots(table => 'kept', older_than => '2100-01-01 00:00:00')")
        assert len(table.snapshots()) == left


@covers("WH-15")
def test_a_compaction_finds_the_partition_of_nulls_by_its_name(lake: Any) -> None:
    table = lake.warehouse.create_table(
        "db.nulls", "id INT, p STRING", partition_by="p", primary_key=None, options={"write-only": "true"}
    )
    for p in (None, None, "a", "a"):
        table.append([{"id": 1, "p": p}])
    table.alter(set_options={"write-only": "false"})
    lake.sql("CALL sys.compact(table => 'nulls', partitions => 'p=__DEFAULT_PARTITION__')")
    files = table.files()["partition"].to_pylist()
    assert sorted(files) == ["p=__DEFAULT_PARTITION__", "p=a", "p=a"]


@covers("WH-15", "WH-18")
def test_a_branch_is_a_table_of_its_own_name(lake: Any) -> None:
    made(lake, "b")
    assert rows(lake, "CALL sys.create_tag('b', 'now')") == [(True,)]
    assert rows(lake, "CALL sys.create_branch('db.b', 'trial', 'now')") == [(True,)]
    assert rows(lake, "CALL sys.create_branch(table => 'b', branch => 'trial', ignoreIfExists => true)") == [
        (True,)
    ]
    lake.sql("INSERT INTO `b$branch_trial` VALUES (9, 'Bonn', 1, 'eu')")
    lake.sql("UPDATE db.`b$branch_trial` SET n = 0 WHERE id = 1")
    assert rows(
        lake, "SELECT x.id FROM `b$branch_trial` x LEFT ANTI JOIN b ON b.id = x.id AND b.n = x.n"
    ) == [
        (1,),
        (9,),
    ]
    assert rows(lake, "SELECT count(*) FROM `b$branch_trial$snapshots`") > rows(
        lake, "SELECT count(*) FROM `b$snapshots`"
    )
    assert rows(lake, "CALL sys.create_tag('b$branch_trial', 'there')") == [(True,)]
    assert rows(lake, "SHOW TAGS `b$branch_trial`") == [("now",), ("there",)]
    with pytest.raises(InvalidRequestError, match=r"expected a name such as database\.table"):
        lake.sql("DROP TABLE `b$branch_trial`")
    with pytest.raises(InvalidRequestError, match="branch"):
        lake.sql("SELECT * FROM `b$branch_none`")
    assert rows(lake, "CALL sys.fast_forward('b', 'trial')") == [(True,)]
    assert rows(lake, "SELECT max(id) FROM b") == [(9,)]
    assert rows(lake, "CALL sys.delete_branch('b', 'trial')") == [(True,)]
    assert rows(lake, "SELECT * FROM `b$branches`") == []


@covers("WH-19", "WH-20")
def test_tags_and_partitions_are_altered(lake: Any) -> None:
    made(lake, "tp", "parted")
    lake.sql("ALTER TABLE tp CREATE TAG `one-1` AS OF VERSION 1")
    lake.sql("ALTER TABLE tp CREATE TAG IF NOT EXISTS `one-1`")
    lake.sql("ALTER TABLE tp CREATE OR REPLACE TAG two")
    lake.sql("ALTER TABLE tp REPLACE TAG two AS OF VERSION 1")
    lake.sql("ALTER TABLE tp RENAME TAG two TO three")
    assert rows(lake, "SELECT tag_name, snapshot_id FROM `tp$tags`") == [("one-1", 1), ("three", 1)]
    lake.sql("ALTER TABLE tp DELETE TAG `one-1,three`")
    assert rows(lake, "SHOW TAGS tp") == []
    for statement, message in {
        "ALTER TABLE tp CREATE TAG x RETAIN 7 YEARS": "expected DAYS, HOURS or MINUTES, found 'YEARS'",
        "ALTER TABLE tp REPLACE TAG x RETAIN DAYS": "expected a number, found 'DAYS'",
        "ALTER TABLE tp REPLACE TAG x": "not there; there are none",
        "ALTER TABLE tp DELETE TAG x": "not there",
        "ALTER TABLE tp DROP PARTITION (region)": "expected a value for region",
        "ALTER TABLE tp DROP PARTITION (n = 1)": "no partition column",
        "CALL sys.rescale(table => 'tp', bucket_num => 9, partitions => 'region=eu')": "the number of the whole table",
    }.items():
        with pytest.raises(InvalidRequestError, match=message):
            lake.sql(statement)
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("INSERT OVERWRITE tp VALUES (9, 'Bonn', 1, 'eu')")
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    lake.sql("INSERT INTO tp PARTITION (region) SELECT 8, 'Kobe', 2, 'as'")
    assert rows(lake, "SELECT id, region FROM tp") == [(3, "sa"), (4, "sa"), (8, "as"), (9, "eu")]
    assert rows(lake, "SHOW PARTITIONS tp PARTITION (region = 'as')") == [("region=as",)]
    lake.sql("ALTER TABLE tp DROP PARTITION (region = 'as'), PARTITION (region = 'eu')")
    assert rows(lake, "SELECT id FROM tp") == [(3,), (4,)]
    assert rows(lake, "CALL sys.compact(table => 'tp', partitions => 'region=sa')") == [(True,)]


@covers("WH-21")
@pytest.mark.parametrize("kind", KINDS)
def test_changes_come_in_sparks_form(lake: Any, kind: str) -> None:
    table = made(lake, "ch", kind)
    first = table.snapshots()[-1].id
    lake.sql("INSERT INTO ch VALUES (5, 'Kobe', 50, 'as')")
    table.create_tag("now", snapshot=first + 1)
    found = lake.sql(
        f"SELECT * FROM ch CHANGES FROM VERSION {first} EXCLUSIVE TO VERSION 'now' AS c WHERE c.id > 0"
    )
    assert found.columns == [
        *("id", "city", "n", "region"),
        *("_change_type", "_commit_version", "_commit_timestamp"),
    ]
    assert [(row["id"], row["_change_type"], row["_commit_version"]) for row in found.collect()] == [
        (5, "insert", first + 1)
    ]
    assert rows(lake, "SELECT count(*) FROM ch CHANGES FROM VERSION 1") == [(5,)]
    assert rows(lake, "SELECT count(*) FROM ch CHANGES FROM VERSION 1 TO VERSION 'now' EXCLUSIVE") == [(4,)]
    for clause, message in {
        "FROM TIMESTAMP '2020-01-01'": "expected VERSION",
        "FROM VERSION x": "the id of a snapshot",
        "FROM VERSION 99": "expected a snapshot from 1 to",
    }.items():
        with pytest.raises(InvalidRequestError, match=message):
            lake.sql(f"SELECT * FROM ch CHANGES {clause}")


@covers("WH-9")
def test_metadata_tables_have_the_columns_of_paimon(lake: Any) -> None:
    table = made(lake, "m", "parted")
    table.create_tag("t1")
    latest = table.snapshots()[-1].id
    assert lake.sql("SELECT * FROM `m$snapshots`").columns[:5] == [
        "snapshot_id", "schema_id", "commit_user", "commit_identifier", "commit_kind",
    ]  # fmt: skip
    assert rows(lake, "SELECT snapshot_id, commit_kind FROM db.`m$snapshots` WHERE snapshot_id = 1") == [
        (1, "APPEND")
    ]
    assert rows(lake, "SELECT tag_name, snapshot_id, record_count FROM `m$tags`") == [("t1", latest, 4)]
    assert ("deletion-vectors.enabled", "true") in rows(lake, "SELECT * FROM `m$options`")
    assert rows(lake, "SELECT schema_id, primary_keys FROM `m$schemas`") == [(0, '["id","region"]')]
    assert rows(lake, "SELECT partition, record_count FROM `m$partitions`") == [
        ("region=eu", 2),
        ("region=sa", 2),
    ]
    assert rows(lake, "SELECT partition, sum(record_count) FROM `m$files` GROUP BY 1") == [
        ("{eu}", 2),
        ("{sa}", 2),
    ]
    assert rows(lake, "SELECT min_key, max_value_stats FROM `m$files` WHERE partition = '{eu}'") == [
        ("[1]", "{city=Rome, id=2, n=20, region=eu}")
    ]
    assert rows(lake, "SELECT count(*) FROM `m$files` VERSION AS OF 1")[0][0] > 0
    assert rows(lake, "SELECT bucket, record_count FROM `m$buckets`") == [(0, 2), (0, 2)]
    assert rows(lake, "SELECT rowkind, id FROM `m$audit_log`") == [("+I", i) for i in (1, 2, 3, 4)]
    assert rows(lake, "SELECT * FROM `m$branches`") == rows(lake, "SELECT * FROM `m$consumers`") == []
    assert rows(lake, "SELECT sum(num_added_files) FROM `m$manifests`")[0][0] > 0
    assert table.metadata("snapshots").num_rows == latest
    with pytest.raises(InvalidRequestError, match="snapshots, schemas, options"):
        lake.sql("SELECT * FROM `m$nothing`")
    with pytest.raises(InvalidRequestError, match="not of one snapshot"):
        lake.sql("SELECT * FROM `m$tags` VERSION AS OF 1")


@covers("WH-2", "WH-10", "WH-13", "WH-15")
def test_what_is_not_understood_is_refused_and_nothing_is_written(lake: Any) -> None:
    table = made(lake, "r")
    made(lake, "shadow")
    spark_session().range(1).createOrReplaceTempView("shadow")
    before = table.snapshots()[-1].id
    for statement, message in (
        ("SELECT * FROM rr", "neither .* did you mean r"),
        ("SELECT * FROM db.rr", "did you mean r"),
        ("SELECT * FROM paimon.d.r", "did you mean db"),
        ("SELECT * FROM shadow", "paimon.db.shadow"),
        ("SELECT * FROM r$snapshots", "needs backquotes"),
        ("SHOW TAGS r$tags", "needs backquotes"),
        ("SELECT * FROM r PIVOT 1", "names r, and it is not understood"),
        ("SET spark.paimon.scan.snapshot-id = 1", "a session of Paimon's reads this, and this one does not"),
        ("ANALYZE TABLE r COMPUTE STATISTICS", "names r, and ANALYZE is not understood"),
        ("CACHE TABLE db.r", "CACHE is not understood"),
        ("SELECT * FROM r VERSION AS OF r", "expected the id of a snapshot"),
        ("SELECT * FROM r VERSION AS OF 99", "99 does not exist"),
        ("SELECT * FROM r TIMESTAMP AS OF 'never'", "TIMESTAMP AS OF"),
        ("CALL sys.optimize(table => 'r')", "expected one of compact, rescale, expire_snapshots"),
        ("CALL sys.compact(tabel => 'r')", "expected arguments table, partitions, compact_strategy"),
        ("CALL sys.compact(table => 'r', compact_strategy => 'some')", "full or minor"),
        ("CALL sys.rollback(table => 'r')", "one of version, snapshot and tag"),
        ("CALL sys.create_tag(table => 'r')", "expected tag"),
        ("CALL sys.expire_snapshots(table => 'nosuch', retain_max => 1)", "nosuch"),
        ("CALL sys.expire_snapshots(table => 'r', retain_max => 1, retain_min => 0)", "retain_min of 1"),
        ("CALL sys.rollback(table => 'r-old', version => '1')", "expected a name such as 'db.t'"),
        ("CALL sys.create_tag(table => 'r', tag => NULL, tag => 't')", "given twice"),
        ("CALL sys.clear_consumers(table => 'r', includingConsumers => '[')", "no regular expression"),
        ("INSERT INTO r VALUES (1)", "expected 4 columns"),
        ("INSERT INTO r (id, id) VALUES (1, 1)", "each column once"),
        ("INSERT INTO r BY NAME SELECT 1 AS id, 2 AS nosuch", "nosuch is not in the table"),
        ("INSERT INTO r SELECT 'x', 'y', 1, 'eu'", "column id: expected BIGINT"),
        ("INSERT INTO `r$snapshots` VALUES (1)", "cannot be changed"),
        ("UPDATE r SET id = 1", "primary key"),
        ("UPDATE r SET nosuch = 1", "nosuch is not in the table"),
        ("UPDATE r SET n = 1, N = 2", "given twice"),
        ("UPDATE r SET n 1", "expected ="),
        ("MERGE INTO r USING (SELECT explode(array(1, 1)) AS id) s ON r.id = s.id WHEN MATCHED THEN DELETE",
         "several source rows change the row with id = 1"),
        ("MERGE INTO r USING r s ON r.id = s.id WHEN NOT MATCHED THEN DELETE", "expected INSERT"),
        ("MERGE INTO r USING r s ON r.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (abs(year(r.id)))",
         "no row here"),
        ("MERGE WITH SCHEMA EVOLUTION INTO r USING r s ON r.id = s.id WHEN MATCHED THEN DELETE", "ALTER the table"),
        ("CREATE TABLE r (id INT)", "there already"),
        ("CREATE TABLE r2 (id INT DEFAULT 3)", "^columns 'id INT DEFAULT 3': .*at or near 'DEFAULT'"),
        ("ALTER TABLE r ADD COLUMN late INT DEFAULT 3", "near 'DEFAULT'"),
        ("CREATE TABLE r2 (id INT) LOCATION '/tmp'", "expected USING"),
        ("CREATE TABLE r2 (id INT) TBLPROPERTIES ('nosuch' = '1')", "nosuch"),
        ("CREATE TABLE r2 (id INT) TBLPROPERTIES ('primary-key' = 'no')", "primary key"),
        ("ALTER TABLE r FROB", "expected ADD"),
        ("SHOW PARTITIONS r", "has no partitions"),
        ("SHOW TABLES IN nosuch", "nosuch"),
        ("CREATE TABLE a.b.c (id INT)", "expected a name such as database.table"),
        ("CREATE OR REPLACE TABLE r2 (id INT)", "DROP the table, and CREATE it"),
        ("CREATE TABLE r2", "expected either columns, or AS and a query"),
        ("CREATE TABLE r2 (id INT) AS SELECT 1 AS id", "expected either columns, or AS and a query"),
        ("CREATE TABLE r2 (id INT GENERATED ALWAYS AS (1))", "GENERATED"),
        ("CREATE TABLE r2 (id INT) PARTITIONED BY (id % 2)", "id % 2: expected the name of a column of the table"),
        ("ALTER TABLE r ALTER COLUMN n AFTER a.b", "columns inside of columns cannot be changed"),
        ("CREATE DATABASE a.b", "expected a name, or paimon and a name"),
        ("ALTER TABLE r RENAME TO a.b.c", "expected a name such as database.table"),
        ("ALTER TABLE r DROP id", "expected COLUMN or PARTITION"),
        ("ALTER TABLE r ALTER COLUMN n FROB", "expected TYPE, COMMENT, DROP NOT NULL, FIRST or AFTER"),
        ("ALTER TABLE r CREATE TAG t1 AS OF VERSION x", "expected the id of a snapshot"),
        ("CALL sys.compact(table => 'r', order_strategy => 'zorder', order_by => 'n')", "not put in another order"),
        ("CALL sys.compact(table => 'r', where => 'id = 1', partitions => 'id=1')", "one of where and partitions"),
        ("CALL sys.compact(table => 'r', partitions => 'x=1')", "partitions: expected such as"),
        ("CALL sys.compact(table => 'tp', partitions => 'region=sa,region')", "found 'region=sa,region'"),
        ("CALL sys.compact(table => 'tp', partitions => 'region=sa,region=eu')", "found 'region=sa,region=eu'"),
        ("CALL sys.rescale(table => 'r', bucket_num => 9, partitions => 'x=1')", "partitions"),
        ("CALL sys.expire_snapshots(table => 'r')", "expected retain_max or older_than"),
        ("CALL sys.expire_snapshots(table => 'r', retain_max => 1, retain_min => 2)", "expected retain_max of 2"),
        ("CALL sys.create_tag_from_timestamp(table => 'r', tag => 'late', timestamp => 9999999999999)",
         "no snapshot is of 9999999999999 or later"),
        ("CALL sys.compact(table => 'r', where => id)", "expected a number, a text, TRUE, FALSE or NULL"),
        ("CALL sys.create_tag(table => 'r', tag => true)", "tag: expected str, found True"),
        ("SELECT * FROM `r$files` CHANGES FROM VERSION 1", "a metadata table has no changes"),
        ("SELECT * FROM r TIMESTAMP AS OF NULL", "expected a time, found NULL"),
        ("INSERT INTO r IF NOT EXISTS VALUES (1)", "IF NOT EXISTS is not supported"),
        ("INSERT INTO r", "expected a query or VALUES"),
        ("INSERT INTO r SHOW TABLES", "expected a query or VALUES, found 'SHOW'"),
        ("INSERT INTO 3", "expected a name, found '3'"),
        ("SHOW TABLES LIKE 3", "expected a text in quotes, found '3'"),
        ("SELECT * FROM r TABLESAMPLE 3", r"expected \(, found '3'"),
        ("CREATE TABLE r2 AS SHOW TABLES", "expected a query or VALUES, found 'SHOW'"),
        ("CREATE VIEW v AS DESCRIBE r", "CREATE TEMPORARY VIEW name AS a query"),
        ("CREATE VIEW v AS SHOW CREATE TABLE r", "names r, and it is not understood .SHOW …"),
        ("WITH x AS (SELECT 1) DELETE FROM r", "names r, and WITH is not understood"),
        ("UPDATE r SET n =", "expected a value"),
        ("MERGE INTO r USING r s ON r.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "has no source row"),
        ("MERGE INTO r USING r s ON r.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1)",
         "expected 2 values, found 1"),
        ("SELECT * FROM r VERSION AS OF", "expected a version or a time"),
        ("DESCRIBE r id garbage", "expected the end, found .id"),
        ("UPDATE r$files SET n = 1", "backquotes"),
        ("TRUNCATE TABLE nosuch", "nosuch"),
        ("SELECT 1; SELECT 2", "one statement"),
        (" ", "expected a statement"),
        ("SELECT 'x", "not closed"),
    ):  # fmt: skip
        with pytest.raises(InvalidRequestError, match=message) as raised:
            lake.sql(statement).collect()
        assert "\n" not in str(raised.value), statement
    with pytest.raises(ParseException, match="near 'SHOW'"):  # of Spark: the view names no table of ours
        lake.sql("CREATE VIEW v AS SHOW TABLES")
    assert lake.warehouse.table("db.r").snapshots()[-1].id == before
    assert lake.warehouse.tables("db") == sorted(set(lake.warehouse.tables("db")) - {"r2"})
    with pytest.raises(InvalidRequestError, match="expected the text of a statement, found int"):
        lake.sql(1)
    with pytest.raises(InvalidRequestError, match="SparkSession"):
        pktable.session(None, warehouse="x")
    with pytest.raises(InvalidRequestError, match="catalog: expected a name, found 'a b'"):
        pktable.session(spark_session(), warehouse=lake.warehouse, catalog="a b")
    with pytest.raises(InvalidRequestError, match="and no other settings"):
        pktable.session(spark_session(), warehouse=lake.warehouse, storage_options={})


@covers("WH-17")
def test_a_session_finds_the_data_source_whatever_is_on_the_path(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, "source")
    context = getattr(spark_session(), "sparkContext", None)
    if context is None:
        pytest.skip("a server of Spark Connect has its own environment")
    before = context.pythonExec
    monkeypatch.setattr(context, "pythonExec", "python3")
    found = pktable.session(spark_session(), lake.warehouse)
    assert context.pythonExec == sys.executable
    assert found.read.format("pktable").load(table.path).count() == len(ROWS)
    monkeypatch.setattr(context, "pythonExec", "/named/by/the/user")
    pktable.session(spark_session(), lake.warehouse)
    assert context.pythonExec == "/named/by/the/user"
    monkeypatch.setattr(context, "pythonExec", before)
