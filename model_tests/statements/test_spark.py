"""MERGE and UPDATE by Spark: as locally, in one pass over the source, with errors of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.bucket.read import located_rows
from pktable.catalog.read_plan import plan_read
from pktable.predicate import parse
from pktable.run.runner import Query
from pktable.run.spark import native_scan
from pktable.run.spark.runner import SparkRunner
from pktable.statements.plan import PLACE
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.statements.plain import Row
from model_tests.statements.test_merge import CLAUSES, COLUMNS, DV, ON, SCHEMA, SOURCE, TARGET, expect_merged
from model_tests.table.test_native_scan import WAYS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("merge") / "t"
    return Table.create(path, COLUMNS, primary_key="id", options=DV, runner=SparkRunner(spark_session()))


@pytest.fixture(scope="module")
def append_table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path, runner = tmp_path_factory.mktemp("merge") / "t", SparkRunner(spark_session())
    options = {"deletion-vectors.enabled": "true"}
    return Table.create(path, COLUMNS, primary_key=None, options=options, runner=runner)


@covers("STM-1", "STM-2", "STM-3", "STM-8")
@settings(max_examples=10, phases=[Phase.generate], derandomize=True)  # to shrink takes minutes
@given(TARGET, SOURCE, st.sampled_from(ON), CLAUSES)
def test_a_merge_on_spark_does_what_its_clauses_say(
    table: Table, target: list[Row], source: list[Row], on: Any, clauses: list[Any]
) -> None:
    frame = spark_session().createDataFrame(pa.Table.from_pylist(source, SCHEMA))
    expect_merged(table, target, frame, source, on, clauses)


@covers("STM-1", "STM-2", "STM-3", "APP-12", "APP-31")
@settings(max_examples=6, phases=[Phase.generate], derandomize=True)
@given(TARGET, SOURCE, st.sampled_from(ON), CLAUSES)
def test_a_merge_on_spark_into_an_append_table_does_what_its_clauses_say(
    append_table: Table, target: list[Row], source: list[Row], on: Any, clauses: list[Any]
) -> None:
    frame = spark_session().createDataFrame(pa.Table.from_pylist(source, SCHEMA))
    expect_merged(append_table, target, frame, source, on, clauses)


@pytest.mark.versions
@covers("STM-3", "STM-8")
def test_a_key_changed_twice_is_refused_and_an_insert_replaces_what_is_deleted(table: Table) -> None:
    table.overwrite(pa.Table.from_pylist([{"id": 1, "g": 1, "n": 1, "s": "a"}], SCHEMA))
    spark = spark_session()
    twice = spark.createDataFrame([(1, 5), (1, 6)], "id BIGINT, n INT")
    before = table.catalog.state().id
    with pytest.raises(InvalidRequestError, match=r"^merge: several source rows change the row with id = 1$"):
        table.merge(twice, on="id").when_matched_update({"n": "source.n"}).execute()
    sevens = spark.createDataFrame([(7, 5), (7, 6)], "id BIGINT, n INT")
    with pytest.raises(InvalidRequestError, match=r"several source rows change the row with id = 7$"):
        table.merge(sevens, on="id").when_not_matched_insert({"id": "source.id"}).execute()
    assert table.catalog.state().id == before
    moved = spark.createDataFrame([(1, 9)], "id BIGINT, g INT")
    builder = table.merge(moved, on="g").when_not_matched_insert({"id": "source.id", "g": "source.g"})
    builder.when_not_matched_by_source_delete().execute()
    assert table.to_arrow().to_pylist() == [{"id": 1, "g": 9, "n": None, "s": None}]


@pytest.mark.versions
@covers("STM-4")
def test_an_update_on_spark_and_its_errors(tmp_path: Path) -> None:
    spark = spark_session()
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=DV, runner=SparkRunner(spark))
    table.upsert(pa.Table.from_pylist([{"id": i, "g": i % 2, "n": i, "s": None} for i in range(4)], SCHEMA))
    table.update({"n": "n * 10", "s": "'it''s'"}, where="g = 1")
    assert sorted(table.to_arrow(columns=["id", "n", "s"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 0, "n": 0, "s": None},
        {"id": 1, "n": 10, "s": "it's"},
        {"id": 2, "n": 2, "s": None},
        {"id": 3, "n": 30, "s": "it's"},
    ]
    before = table.catalog.state().id
    with pytest.raises(InvalidRequestError):
        table.update({"n": "10 / CAST(n AS DOUBLE)"}, where="g = 0")  # a double is no INT
    with pytest.raises(InvalidRequestError, match="rows: a Spark DataFrame can only be written"):
        Table.open(tmp_path / "t").merge(spark.range(1), on="id").when_matched_delete().execute()
    assert table.catalog.state().id == before


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An append table in partitions: files with vectors and files without."""
    path = tmp_path_factory.mktemp("places") / "t"
    options = {"deletion-vectors.enabled": "true"}
    table = Table.create(path, "id BIGINT, p STRING", primary_key=None, partition_by="p", options=options)
    for start in (0, 300, 600):
        ids = list(range(start, start + 300))
        table.append(pa.table({"id": ids, "p": [["a/b", "c", None][one % 3] for one in ids]}))
    table.delete(where="id < 500 AND id % 7 < 3")
    return path


def located(
    runner: SparkRunner | None, path: Path, where: str | None, columns: list[str]
) -> list[tuple[object, ...]]:
    table = Table.open(path)
    context, predicate = table.catalog.context, parse(where, table.schema.fields) if where else None
    parts = plan_read(context, table.catalog.states, table.catalog.state(), fresh=True, predicate=predicate)
    if runner is None:
        rows = pa.concat_tables(
            table for part in parts for table in located_rows(context, part, columns, predicate)
        )
    else:
        rows = runner.read_located(context, Query(parts, columns, predicate)).toArrow()
    assert rows.column_names == [*columns, *PLACE]
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


@pytest.mark.versions
@covers("APP-2", "RD-12")
@pytest.mark.parametrize("way", WAYS)
def test_sparks_own_scan_finds_the_places_that_the_kernel_finds(
    places: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(native_scan, name, value)
    fails_for_a_deleted_row = "10 / (id - 14) > 1"
    for where, columns in (
        (None, ["id", "p"]),
        ("id > 250 AND p = 'c'", []),
        (fails_for_a_deleted_row, ["p"]),
    ):
        expected = located(None, places, where, columns)
        assert expected
        assert located(SparkRunner(spark_session()), places, where, columns) == expected


@pytest.mark.versions
@covers("STM-1")
@pytest.mark.parametrize("native", [True, False])
def test_a_merge_on_spark_does_not_send_the_target_to_every_task(
    places: Path, native: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not native:
        monkeypatch.setattr("pktable.run.spark.shares.native_test", lambda *given: lambda part: False)
    plans = []
    real = SparkRunner.changes

    def changes(self: SparkRunner, *given: Any) -> Any:
        frame = real(self, *given)
        frame.explain()
        plans.append(capsys.readouterr().out)
        return frame

    monkeypatch.setattr(SparkRunner, "changes", changes)
    table = Table.open(places, runner=SparkRunner(spark_session()))
    source = spark_session().range(2000).selectExpr("id + 100000 AS id", "'c' AS p").where("id < 0")
    table.merge(source, on="id").when_matched_delete().when_not_matched_insert_all().execute()
    (plan,) = plans
    assert ("FileScan parquet" in plan, "SortMergeJoin" in plan) == (native, not native), plan
    assert "MapInArrow" not in plan or not native


@covers("WH-26")
def test_jobs_say_what_they_do_to_which_table(tmp_path: Path) -> None:
    session = spark_session()
    if not hasattr(session, "sparkContext"):
        pytest.skip("a session of Spark Connect has no descriptions of jobs")
    path = Table.create(tmp_path, "id BIGINT, n INT", primary_key="id").path
    table = Table.open(path, spark=session, runner="spark")
    table.upsert(session.sql("SELECT id, 1 AS n FROM range(9)"))
    table.delete(where="id > 5")
    table.check()
    context = getattr(session.sparkContext, "_js" + "c")  # pyspark has no public way to the descriptions
    jobs = context.sc().statusStore().jobsList(None)
    found = {jobs.apply(i).description() for i in range(jobs.size())}
    names = {one.get() for one in found if one.isDefined()}
    assert {f"pktable: write to {path}", f"pktable: check {path}"} <= names
    assert session.sparkContext.getLocalProperty("spark.job.description") is None


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_frame_without_columns_has_no_rows_to_merge(tmp_path: Path, runner: str) -> None:
    spark = spark_session()
    opened = Table.create(tmp_path / "t", COLUMNS, primary_key="id", spark=spark)
    opened.upsert([{"id": 1, "g": 1, "n": 1, "s": "x"}])
    table = Table.open(tmp_path / "t", spark=spark, runner=runner)
    assert table.merge(spark.range(2).select(), on="id").when_matched_delete().execute() is None
    assert table.count() == 1
