"""Overwrite and truncate: what goes, what stays, and what others commit meanwhile."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pktable import CommitId, InvalidRequestError, Table
from pktable.ingest.changes import ChangeKind
from pktable.staged_write import StagedWrite
from pktable_spec.covers import covers
from pyspark.sql import functions as F

from model_tests.backends.spark_session import spark_session

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2"}


def rows(region: str, *ids: int) -> list[dict[str, object]]:
    return [{"region": region, "id": one, "v": f"{region}{one}"} for one in ids]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(
        tmp_path / "t",
        "region STRING, id INT, v STRING",
        primary_key=["region", "id"],
        partition_by="region",
        options=OPTIONS,
    )
    table.upsert([*rows("eu", 1, 2, 3), *rows("us", 1, 2)])
    table.upsert(rows("eu", 3))  # with a deletion vector
    return table


def found(table: Table, **options: object) -> list[str]:
    return sorted(table.to_arrow(columns="v", **options).column("v").to_pylist())  # type: ignore[arg-type]


@covers("STM-7")
def test_an_overwrite_replaces_all_rows_or_those_of_partitions(table: Table) -> None:
    before = table.catalog.state().id
    snapshot = table.overwrite(rows("eu", 7), where="region = 'eu'")
    assert snapshot is not None
    assert found(table) == ["eu7", "us1", "us2"]
    assert found(table, snapshot=before) == ["eu1", "eu2", "eu3", "us1", "us2"]
    assert [one.commit_kind for one in table.snapshots() if one.id > before] == ["OVERWRITE"]
    table.overwrite(rows("asia", 1))
    assert found(table) == found(table, fresh=True) == ["asia1"]
    assert not table.check().findings


@covers("STM-7")
def test_an_overwrite_by_nothing_removes_and_truncate_removes_all(table: Table) -> None:
    table.overwrite([], where="region < 'f'")
    assert found(table) == ["us1", "us2"]
    assert table.truncate() is not None
    assert found(table) == []
    assert table.count() == 0
    assert not table.inspect.files().num_rows
    assert table.truncate() is None
    assert table.overwrite([]) is None
    table.upsert(rows("eu", 5))
    assert found(table) == ["eu5"]
    assert not table.check().findings


@covers("STM-7")
def test_a_row_of_another_partition_is_refused(table: Table) -> None:
    before, files = table.catalog.state().id, sorted(Path(table.path).rglob("data-*"))
    with pytest.raises(InvalidRequestError, match="rows of partition region=us are outside"):
        table.overwrite([*rows("eu", 1), *rows("us", 1)], where="region = 'eu'")
    assert table.catalog.state().id == before
    assert sorted(Path(table.path).rglob("data-*")) == files


@covers("STM-7", "CMT-53")
def test_an_overwrite_repeated_under_its_name_is_committed_once(table: Table) -> None:
    name = CommitId("nightly", 1)
    first = table.overwrite(rows("eu", 9), commit_id=name)
    table.upsert(rows("us", 4))
    assert table.overwrite(rows("eu", 9), commit_id=name) == first is not None
    assert found(table) == ["eu9", "us4"]


@covers("STM-11", "CMP-17", "CHG-12")
@pytest.mark.parametrize(
    "options",
    [
        {"write-only": "true"},
        {"lookup-wait": "false"},
        {"changelog-producer": "lookup"},
        {"full-compaction.delta-commits": "1"},
        {"merge-engine": "first-row", "deletion-vectors.enabled": "false"},
    ],
    ids=lambda options: " ".join(options),
)
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_each_default_read_sees_the_rows_before_or_after_an_overwrite(
    tmp_path: Path, options: dict[str, str], spark: bool
) -> None:
    session = spark_session() if spark else None
    table = Table.create(
        tmp_path / "t", "id INT, v STRING", primary_key="id", options={**OPTIONS, **options}, spark=session
    )
    table.upsert([{"id": one, "v": "old"} for one in range(4)])
    table.compact(full=True)
    old, before = found(table), table.catalog.state().id
    new = [{"id": one, "v": "new"} for one in range(2, 7)]
    table.overwrite(session.createDataFrame(new) if session else new)
    after = [one.id for one in table.snapshots() if one.id >= before]
    assert [found(table, snapshot=one) for one in after] == [old, *(["new"] * 5 for _ in after[1:])]
    assert found(table, fresh=True) == ["new"] * 5
    assert not table.remove_orphans(older_than=1 << 60, dry_run=True)


@covers("STM-7", "CMT-7")
def test_an_overwrite_removes_what_is_live_when_it_commits(table: Table) -> None:
    other = Table.open(table.path)
    new = table.to_arrow(where="region = 'us'")
    staged = StagedWrite.of(
        table.stager,
        table.catalog.state(),
        lambda state: (new, ChangeKind()),
        write_only=False,
        replaces=lambda partition: True,
    )
    assert staged is not None
    other.upsert(rows("eu", 8))
    compaction = other.stage_compaction(full=True)
    staged.commit(CommitId("overwrite"))
    assert found(table) == found(table, fresh=True) == ["us1", "us2"]
    compaction.commit(CommitId("compaction"))  # its inputs are gone: it is planned again
    assert found(table) == ["us1", "us2"]
    assert not table.check().findings


APPENDED = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors in buckets": {**OPTIONS, "bucket-key": "id"},
    "files written again": {},
}


@covers("STM-10")
@pytest.mark.parametrize("options", APPENDED.values(), ids=APPENDED)
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_an_overwrite_of_rows_of_an_append_table_is_one_snapshot(
    tmp_path: Path, options: dict[str, str], spark: bool
) -> None:
    session = spark_session() if spark else None
    table = Table.create(
        tmp_path / "t", "region STRING, id INT, v STRING", primary_key=None, options=options, spark=session
    )
    table.append([*rows("eu", 1, 2, 2, 3), *rows("us", 1, 2)])
    new = rows("eu", 2, 7, 7)
    assert table.overwrite(
        session.createDataFrame(new) if session else new, where="region = 'eu' AND id >= 2"
    )
    assert found(table) == ["eu1", "eu2", "eu7", "eu7", "us1", "us2"]
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND", "OVERWRITE"]
    assert table.overwrite([], where="v = 'none'") is None
    table.overwrite([], where="id = 7")
    assert found(table) == ["eu1", "eu2", "us1", "us2"]
    assert not [one for one in table.check().findings if one.severity == "error"]


@covers("STM-10", "STM-8")
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_an_overwrite_of_rows_of_a_key_table_is_one_write(table: Table, spark: bool) -> None:
    session = spark_session() if spark else None
    table, before = Table.open(table.path, spark=session), table.catalog.state().id
    new = [{**row, "v": "new"} for row in rows("eu", 2, 9)]
    table.overwrite(
        session.createDataFrame(new) if session else new, where="region = 'eu' AND (id = 9 OR id < 3)"
    )
    assert found(table) == ["eu3", "new", "new", "us1", "us2"]
    assert [one.commit_kind for one in table.snapshots() if one.id > before] == ["APPEND", "COMPACT"]
    # A row of a key that is there, with values for which the condition did not hold.
    table.overwrite([{"region": "us", "id": 1, "v": "new"}], where="v = 'new'")
    assert table.to_arrow(where="v = 'new'").to_pylist() == [{"region": "us", "id": 1, "v": "new"}]
    assert found(table) == ["eu3", "new", "us2"]
    assert not [one for one in table.check().findings if one.severity == "error"]


@covers("STM-10")
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
@pytest.mark.parametrize("key", [["region", "id"], None], ids=["key", "append"])
def test_a_new_row_that_does_not_satisfy_the_condition_is_refused(
    tmp_path: Path, key: list[str] | None, spark: bool
) -> None:
    session = spark_session() if spark else None
    table = Table.create(tmp_path / "t", "region STRING, id INT, v STRING", primary_key=key, spark=session)
    before = sorted(Path(table.path).rglob("*"))
    for wrong in (rows("eu", 5, 1), [*rows("eu", 5), {"region": "eu", "id": 6, "v": None}]):
        new = session.createDataFrame(wrong) if session else wrong
        with pytest.raises(
            InvalidRequestError, match=r"^overwrite: the row \{.*eu.*\} does not satisfy \"id > 3 AND"
        ):
            table.overwrite(new, where="id > 3 AND v <> 'x'")
    assert sorted(Path(table.path).rglob("*")) == before


@covers("STM-10", "APP-17")
def test_an_overwrite_of_rows_that_another_deletes_is_computed_again(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t", "region STRING, id INT, v STRING", primary_key=None, options=APPENDED["vectors"]
    )
    table.append(rows("eu", 1, 2, 3))
    other, original, computed = Table.open(table.path), table.runner.results, []

    def find(*arguments: Any) -> Any:
        places = original(*arguments)
        computed.append(1)
        if len(computed) == 1:
            other.delete(where="id = 2")
        return places

    table.runner.results = find  # type: ignore[assignment,method-assign]
    table.overwrite(rows("eu", 4), where="id >= 2")
    assert len(computed) == 2
    assert found(table) == ["eu1", "eu4"]


@pytest.mark.spark
@covers("STM-10")
@pytest.mark.parametrize("key", ["id", None])
def test_the_rows_that_are_written_are_those_that_are_looked_at(tmp_path: Path, key: str | None) -> None:
    session = spark_session()
    table = Table.create(
        tmp_path / "t",
        "id INT, v INT",
        primary_key=key,
        options={"deletion-vectors.enabled": "true"},
        spark=session,
    )
    table.put([{"id": 1, "v": 1}])
    asked = tmp_path / "asked"

    def value(_: int) -> int:
        if asked.exists():
            return 5
        asked.touch()
        return 5000

    rows = session.range(7, 8).select("id", F.udf(value, "int").asNondeterministic()("id").alias("v"))
    for _ in range(2):  # the first evaluation has another row than all that follow
        with contextlib.suppress(InvalidRequestError):
            table.overwrite(rows, where="v > 900")
    found = [row["v"] for row in table.to_arrow().to_pylist()]
    assert set(found) in ({1}, {1, 5000})


@covers("STM-10", "MRG-18")
def test_an_overwrite_of_rows_is_refused_where_the_engine_would_merge_them(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "deletion-vectors.enabled": "true"}
    columns, key = "region STRING, id INT, v STRING", ["region", "id"]
    table = Table.create(tmp_path / "t", columns, primary_key=key, partition_by="region", options=options)
    table.upsert([*rows("eu", 1), *rows("us", 1)])
    with pytest.raises(
        InvalidRequestError, match="rows cannot be replaced under merge-engine=partial-update"
    ):
        table.overwrite([], where="id = 1")
    table.overwrite([], where="region = 'eu'")
    assert found(table) == ["us1"]


@covers("STM-10")
def test_a_condition_without_columns_is_about_rows(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "region STRING, id INT, v STRING", primary_key=None)
    table.append(rows("eu", 1, 2))
    table.overwrite(rows("eu", 3), where="TRUE")
    assert found(table) == ["eu3"]
    with pytest.raises(InvalidRequestError, match="does not satisfy 'FALSE'"):
        table.overwrite(rows("eu", 4), where="FALSE")


@pytest.mark.spark
@covers("STM-10", "TBL-8")
@pytest.mark.parametrize("key", [["region", "id"], None])
def test_rows_of_a_frame_have_the_columns_of_the_table(tmp_path: Path, key: list[str] | None) -> None:
    spark = spark_session()
    table = Table.create(tmp_path / "t", "region STRING, id INT, v STRING", primary_key=key, spark=spark)
    table.put(rows("eu", 1))
    frame = spark.createDataFrame([("eu", 1, "x", "lost")], "region STRING, id INT, v STRING, w STRING")
    for given, message in (
        (frame, "column w is not in the table"),
        (frame.drop("v", "w"), "column v is missing"),
        (frame.selectExpr("region", "id", "v AS V"), "V must be written v"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            table.overwrite(given, where="id = 1")
    assert found(table) == ["eu1"]
    table.overwrite(frame.select("v", "id", "region"), where="id = 1")
    assert found(table) == ["x"]
