"""The data source on Spark: batches and streams, values, failures, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pktable import CommitId, Table
from pktable.run.spark.session import ANSI, with_setting
from pktable.spark_source.stream_reader import HAS_LIMITS
from pktable_spec.covers import covers
from pyspark.errors import AnalysisException
from pyspark.sql import datasource
from pyspark_pktable import DefaultSource

from model_tests.backends.spark_session import spark_session
from model_tests.changelog.tables import changes, put, rows, three_writes
from model_tests.source.driven import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.versions]

HAS_STREAM_WRITER = hasattr(datasource, "DataSourceStreamArrowWriter")

LOST = "failed to connect back"
"""Spark gives the process of a stream reader ten seconds to start, which a busy machine may not keep."""


@pytest.fixture(scope="module")
def session() -> SparkSession:
    session = spark_session()
    with suppress(AnalysisException):  # before pyspark 4.1, if it was found by its name
        session.dataSource.register(DefaultSource)  # Spark does not find it in an editable install
    return session


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return three_writes(tmp_path / "t")


def collected(frame: DataFrame) -> set[Row]:
    return {tuple(row) for row in frame.collect()}


@covers("BRN-1", "BRN-10")
@pytest.mark.parametrize("key", ["id", None])
def test_a_branch_is_read_and_written_on_spark(
    session: SparkSession, tmp_path: Path, key: str | None
) -> None:
    options = {"deletion-vectors.enabled": "true"}
    path = Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key=key, options=options).path
    table = Table.open(path, spark=session, runner="spark")
    put = Table.upsert if key else Table.append
    put(table, session.sql("SELECT id, 1 AS v FROM range(6)"))
    table.create_branch("b")
    branch = table.branch("b")
    branch.alter(add="n INT")
    put(branch, session.sql("SELECT id, 2 AS v, 2 AS n FROM range(6, 9)"))
    branch.delete(where="id % 3 = 0")
    branch.update({"n": "7"}, where="id = 1")
    writer = session.sql("SELECT id, 3 AS v, 3 AS n FROM range(20, 22)").write.format("pktable")
    writer.option("branch", "b").mode("append").save(path)
    branch.compact(full=True)
    expected = {
        (1, 1, 7),
        (2, 1, None),
        (4, 1, None),
        (5, 1, None),
        (7, 2, 2),
        (8, 2, 2),
        (20, 3, 3),
        (21, 3, 3),
    }
    assert collected(branch.scan().to_spark()) == expected
    assert collected(session.read.format("pktable").option("branch", "b").load(path)) == expected
    assert collected(table.scan().to_spark()) == {(number, 1) for number in range(6)}
    assert not branch.check().findings
    assert table.fast_forward("b")
    assert collected(table.scan().to_spark()) == expected


def refusal(work: Callable[[], Any]) -> str:
    """Return the text of the error that ``work`` raises."""
    try:
        work()
    except Exception as error:  # each version of Spark has classes of its own
        return str(error)
    raise AssertionError("nothing was refused")


def left(table: Table) -> list[str]:
    return [one.name for one in Path(table.path).glob("staged/*")]


def test_a_batch_read_is_that_of_the_table(session: SparkSession, table: Table) -> None:
    reader = session.read.format("pktable")
    frame = reader.load(table.path)
    assert frame.columns == ["id", "v"]
    assert collected(frame) == rows(table)
    assert collected(session.read.format("pktable").schema("v INT").load(f"file:{table.path}")) == {
        (5,),
        (3,),
    }
    older = session.read.format("pktable").option("scan.snapshot-id", 2).option("filter", "v > 1")
    assert collected(older.load(table.path)) == {(2, 2)}
    found = session.read.format("pktable").option("incremental-between", "2,6").load(table.path)
    assert sorted(map(tuple, found.collect())) == sorted(changes(table, 2))
    text = refusal(lambda: session.read.format("pktable").option("scan.snapshot", 2).load(table.path))
    assert "option scan.snapshot: not an option of read; there are scan.mode, scan.snapshot-id" in text


def test_a_write_is_that_of_the_table(session: SparkSession, table: Table) -> None:
    def save(frame: DataFrame, mode: str, **options: str) -> None:
        frame.write.format("pktable").mode(mode).options(**options).save(table.path)

    frame = session.createDataFrame([(8, 4), (9, 1), (10, 4)], "v INT, id BIGINT").coalesce(1)
    save(frame, "append")
    assert rows(table) == {(1, 9), (3, 3), (4, 10)}
    kinds = session.createDataFrame([(None, 4, "-D"), (2, 2, "+I")], "v INT, id BIGINT, op STRING")
    save(kinds, "append", **{"row-kind-column": "op"})
    assert rows(table) == {(1, 9), (3, 3), (2, 2)}
    save(frame, "overwrite")
    assert rows(table) == {(1, 9), (4, 10)}
    assert left(table) == []
    assert "columns" in refusal(lambda: save(frame.select("v"), "append"))


@covers("WH-20")
def test_an_overwrite_replaces_the_partitions_of_its_rows_if_the_session_or_the_write_says_so(
    session: SparkSession, tmp_path: Path
) -> None:
    table = Table.create(
        tmp_path / "days", "id INT, day STRING", primary_key=["id", "day"], partition_by="day"
    )
    name = "spark.sql.sources.partitionOverwriteMode"

    def left_by(mode: str, rows: list[tuple[int, str]], **options: str) -> set[Any]:
        table.overwrite([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}])
        session.conf.set(name, mode)
        try:
            frame = session.createDataFrame(rows, "id INT, day STRING")
            frame.write.format("pktable").mode("overwrite").options(**options).save(table.path)
        finally:
            session.conf.unset(name)
        return {(row["id"], row["day"]) for row in table.to_arrow().to_pylist()}

    assert left_by("dynamic", [(3, "b")]) == {(1, "a"), (3, "b")}
    assert left_by("dynamic", []) == {(1, "a"), (2, "b")}
    assert left_by("dynamic", [(3, "b")], partitionOverwriteMode="static") == {(3, "b")}
    assert left_by("static", [(3, "b")], partitionOverwriteMode="DYNAMIC") == {(1, "a"), (3, "b")}
    text = refusal(lambda: left_by("static", [(3, "b")], partitionOverwriteMode="some"))
    assert "option partitionOverwriteMode: expected static or dynamic, found 'some'" in text


@covers("CMT-12", "CMT-56")
def test_a_failing_task_leaves_no_staged_file_and_no_snapshot(session: SparkSession, table: Table) -> None:
    before = table.snapshots()
    # Random text, so that the rows are too many for a message.
    frame = session.range(0, 400_000, 1, 4).selectExpr(
        "id", "CAST(IF(id = 399999, raise_error('asked to fail'), id) AS INT) AS v"
    )
    assert "asked to fail" in refusal(lambda: frame.write.format("pktable").mode("append").save(table.path))
    assert left(table) == []
    assert table.snapshots() == before


VALUES = """
SELECT CAST(id AS BIGINT) AS id, id > 1 AS b, CAST(id AS TINYINT) AS t, CAST(id AS SMALLINT) AS s,
    CAST(id / 3 AS FLOAT) AS f, id / 3 AS d, CAST(id / 7 AS DECIMAL(20, 3)) AS dec, CONCAT('ä', id) AS txt,
    CAST(CONCAT('x', id) AS BINARY) AS bin, DATE '1969-12-31' AS day,
    TIMESTAMP_NTZ '1900-01-01 00:00:00.000001' AS wall, TIMESTAMP '2024-07-01 12:00:00.123456' AS point,
    CAST(moment AS TIMESTAMP) AS `to.wall`, CAST(moment AS TIMESTAMP_NTZ) AS to_point,
    IF(id = 2, NULL, ARRAY(1, NULL)) AS arr, MAP('k', CAST(id AS DECIMAL(5, 2)), 'n', NULL) AS m,
    IF(id = 2, NULL, NAMED_STRUCT('a', CAST(id AS INT), 'at', TIMESTAMP '2024-07-01 12:00:00')) AS r
FROM VALUES (1, '2024-03-10 02:30:00'), (2, '2024-11-03 01:30:00'), (3, NULL), (4, '2024-06-01 00:00:00')
    AS given(id, moment)
"""
COLUMNS = (
    "id BIGINT, b BOOLEAN, t TINYINT, s SMALLINT, f FLOAT, d DOUBLE, dec DECIMAL(20, 3), txt STRING NOT NULL, "
    "bin BYTES, day DATE, wall TIMESTAMP(6), point TIMESTAMP_LTZ(6), `to.wall` TIMESTAMP(6), "
    "to_point TIMESTAMP_LTZ(6), arr ARRAY<INT>, m MAP<STRING, DECIMAL(5, 2)>, r ROW<a INT, `at` TIMESTAMP_LTZ(6)>"
)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_are_those_of_upsert_and_read(session: SparkSession, tmp_path: Path, ansi: str) -> None:
    """Times of the other kind are cast in the session's zone, also those that its clocks skip or show twice."""
    tables = [Table.create(tmp_path / name, COLUMNS, primary_key="id") for name in "ab"]
    zone = with_setting(session, "spark.sql.session.timeZone", lambda _: "America/New_York")
    with zone, with_setting(session, ANSI, lambda _: ansi):
        frame = session.sql(VALUES)
        Table.open(tables[0].path, spark=session, runner="spark").upsert(frame)
        frame.write.format("pktable").mode("append").save(tables[1].path)
        found, expected = (one.to_arrow().sort_by("id") for one in tables)
        assert found.equals(expected)
        assert found.column("to_point").null_count == 1
        read = session.read.format("pktable").load(tables[1].path)
        native = Table.open(tables[1].path, spark=session, runner="spark").read()
        assert read.schema == native.schema
        assert read.sort("id").collect() == native.sort("id").collect()


@pytest.fixture
def events(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "events", "kind STRING, id BIGINT, v INT", primary_key=None)


def copy(session: SparkSession, table: Table, to: Table, place: Path, **options: Any) -> None:
    """Let a stream append the changes of ``table`` to the table ``to``, until it has read all that is there."""

    def once() -> None:
        reader = session.readStream.format("pktable").option("read.changelog", "true").options(**options)
        append(reader.load(table.path).selectExpr("_row_kind AS kind", "id", "v"), to, place)

    twice(once)


def append(stream: DataFrame, to: Table, place: Path) -> None:
    """Append the rows of ``stream`` to a table, until it ends."""
    writer = stream.writeStream.option("checkpointLocation", str(place)).trigger(availableNow=True)
    if HAS_STREAM_WRITER:
        ended(writer.format("pktable").start(to.path))
    else:
        table = Table.open(to.path, spark=stream.sparkSession)
        ended(writer.foreachBatch(lambda rows, n: table.append(rows, commit_id=CommitId("copy", n))).start())


def ended(query: Any) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def twice(once: Callable[[], None]) -> None:
    try:
        once()
    except Exception as error:
        if LOST not in str(error):
            raise
        once()


def batches(events: Table) -> dict[int, list[Row]]:
    """Return the rows of each batch, by its number."""
    found = {}
    for one in events.snapshots():
        added = events.changes(one.id - 1, one.id, columns=["kind", "id", "v"]).to_pylist()
        found[one.commit_identifier] = sorted((row["kind"], row["id"], row["v"]) for row in added)
    return found


@pytest.mark.skipif(not HAS_LIMITS, reason="pyspark 4.2 divides a stream into batches for availableNow")
@covers("CHG-28", "CMT-55")
def test_a_batch_that_spark_replays_is_the_same_and_is_committed_once(
    session: SparkSession, table: Table, events: Table, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"
    options = {"scan.snapshot-id": 1, "maxSnapshotsPerTrigger": 2}
    copy(session, table, events, place, **options)
    expected = {number: sorted(changes(table, 2 * number, 2 * number + 2)) for number in range(3)}
    assert batches(events) == expected
    query = json.loads((place / "metadata").read_text())["id"]
    assert {one.commit_user for one in events.snapshots()} == {f"spark-{query}"}
    # As if Spark was killed after our commit of batch 2 and before its own.
    for name in ("2", ".2.crc"):
        (place / "commits" / name).unlink(missing_ok=True)
    put(table, ("+I", 7, 7))
    copy(session, table, events, place, **options)
    assert batches(events) == expected | {3: [("+I", 7, 7)]}
    assert events.count() == len(changes(table, 0))
    # As if it was killed before our commit of batch 3.
    for name in ("3", ".3.crc"):
        (place / "commits" / name).unlink(missing_ok=True)
    events.rollback(snapshot=3)
    copy(session, table, events, place, **options)
    assert batches(events) == expected | {3: [("+I", 7, 7)]}
    assert left(events) == []


@covers("CHG-26", "CHG-27")
def test_a_stream_begins_with_rows_and_is_refused_after_a_rollback(
    session: SparkSession, table: Table, events: Table, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"
    copy(session, table, events, place)
    assert batches(events) == {0: [("+I", 1, 5), ("+I", 3, 3)]}
    table.rollback(snapshot=4)
    put(table, ("+I", 7, 7))
    text = refusal(lambda: copy(session, table, events, place))
    assert (
        "readStream: snapshot 6, up to which the stream has read, was rolled back; another has its id now"
        in text
    )
    assert events.count() == 2


@pytest.mark.skipif(not HAS_STREAM_WRITER, reason="pyspark 4.0 writes no streams of Arrow batches")
def test_complete_mode_overwrites_and_update_mode_is_refused(
    session: SparkSession, events: Table, tmp_path: Path
) -> None:
    def count(mode: str) -> set[Row]:
        counts = Table.create(tmp_path / mode, "kind STRING, n BIGINT", primary_key="kind")
        counts.upsert([{"kind": "old", "n": 1}])

        def once() -> None:
            frame = session.readStream.format("pktable").load(events.path).groupBy("kind").count()
            writer = frame.withColumnRenamed("count", "n").writeStream.format("pktable").outputMode(mode)
            writer = writer.option("checkpointLocation", f"{counts.path}-checkpoint")
            ended(writer.trigger(availableNow=True).start(counts.path))

        twice(once)
        return rows(counts)

    events.append([{"kind": "a", "id": 1, "v": 1}, {"kind": "b", "id": 2, "v": 1}])
    assert count("complete") == {("a", 1), ("b", 1)}
    assert "pktable does not support Update mode" in refusal(lambda: count("update"))


def test_a_stream_without_row_kinds_is_refused_in_words(
    session: SparkSession, table: Table, events: Table, tmp_path: Path
) -> None:
    def once() -> None:
        append(session.readStream.format("pktable").load(table.path), events, tmp_path / "checkpoint")

    assert 'set option("read.changelog", "true")' in refusal(lambda: twice(once))
