"""The ways in which vectors come to the rows of Spark's scan: each returns what a read without Spark does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CorruptFileError, PkTableError, Table
from pktable.run.spark import native_scan as native
from pktable.run.spark.relations import Relations
from pktable.run.spark.session import THRESHOLD
from pktable_spec.covers import covers
from pyspark.errors import PySparkException

from model_tests.backends.spark_session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.versions]

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "3"}
MARKED = [*range(60, 70), *range(126, 130), *range(500, 1400), 2999]
WAYS: dict[str, dict[str, int]] = {
    "filtered_by_positions": {"FEW_POSITIONS": 1 << 20},
    "filtered_by_lookup": {},
    "filtered_by_lookup, plain files apart": {"FEW_ROWS": 0},
    "filtered_by_join": {"TASK_WORDS": 0},
    "filtered_by_join, many files": {"FILES_BY_SIZE": 2},
}


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "RELATIONS", Relations())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three files with vectors and three without: positions on both sides of words, and the last one."""
    path = tmp_path_factory.mktemp("native")
    table = Table.create(path, "k INT, v STRING", primary_key=["k"], options=OPTIONS)
    for keys, value in ((range(3000), "old"), (MARKED, "new")):
        table.upsert(pa.table({"k": pa.array(keys, pa.int32()), "v": [f"{value} {key}" for key in keys]}))
    assert sum(table.files()["deleted_row_count"].to_pylist()) == len(MARKED)
    return path


def rows(found: Any) -> list[tuple[int, str]]:
    return sorted((row["k"], row["v"]) for row in found)


@covers("DV-1", "RD-1", "RD-6", "RD-7")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", [None, "k >= 64 AND k < 700", "v LIKE 'old 12%'"])
def test_every_way_to_the_vectors_leaves_the_same_rows(
    path: Path, way: str, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(native, name, value)
    taken = watch(monkeypatch)
    frame = Table.open(path, spark=spark_session()).read(where=where)
    assert taken == [way.partition(",")[0]]
    assert rows(row.asDict() for row in frame.collect()) == rows(
        Table.open(path).read(where=where).to_pylist()
    )


@covers("RD-6")
@pytest.mark.parametrize("way", WAYS)
def test_a_condition_that_can_fail_is_not_asked_of_deleted_rows(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(native, name, value)
    table = Table.create(tmp_path / "t", "k INT, v INT", primary_key=["k"], options=OPTIONS)
    for keys, value in ((range(3000), 0), (range(3000), 5)):
        table.upsert(
            pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([value] * len(keys), pa.int32())})
        )
        table.compact()
    on_spark = Table.open(tmp_path / "t", spark=spark_session())
    assert len(on_spark.read(where="k < 7 AND 10 / v = 2").collect()) == 7


@covers("DV-1")
def test_files_of_one_size_are_told_apart_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def equal_sizes(*given: Any) -> native.DeletedRows:
        return original(1, *given[1:])

    original = native.DeletedRows
    monkeypatch.setattr(native, "DeletedRows", equal_sizes)
    taken = watch(monkeypatch)
    frame = Table.open(path, spark=spark_session()).read()
    assert taken == ["filtered_by_join"]
    assert rows(row.asDict() for row in frame.collect()) == rows(Table.open(path).read().to_pylist())


@covers("RD-11")
def test_a_file_that_is_gone_is_named(path: Path, tmp_path: Path) -> None:
    lacking = tmp_path / "lacking"
    shutil.copytree(path, lacking)
    victim = next(lacking.rglob("data-*"))
    victim.unlink()
    for spark in (None, spark_session()):
        with pytest.raises(CorruptFileError, match=rf"{victim.name}: data file: expected a file, found none"):
            Table.open(lacking, spark=spark).to_arrow()


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will name the way a read takes."""
    taken: list[str] = []

    def named(name: str) -> Any:
        real = getattr(native, name)

        def watched(*given: Any) -> Any:
            taken.append(name)
            return real(*given)

        return watched

    for name in ("filtered_by_positions", "filtered_by_lookup", "filtered_by_join"):
        monkeypatch.setattr(native, name, named(name))
    return taken


@covers("RD-9")
def test_the_driver_looks_for_many_files_without_a_job_and_puts_the_setting_back(tmp_path: Path) -> None:
    options = {**OPTIONS, "parquet.block.row.count.limit": "10", "target-file-size": "1 b"}
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options=options)
    table.upsert(pa.table({"k": pa.array(range(600), pa.int32()), "v": [f"old {key}" for key in range(600)]}))
    table.delete(pa.table({"k": pa.array([5, 400], pa.int32())}))
    assert table.files().num_rows > 40
    spark = spark_session()
    before = spark.conf.get(THRESHOLD)
    opened = Table.open(tmp_path / "t", spark=spark)
    if hasattr(spark, "sparkContext"):
        spark.sparkContext.setJobGroup("listing", "a read is planned")
        frame = opened.read()
        assert not spark.sparkContext.statusTracker().getJobIdsForGroup("listing")
    else:
        frame = opened.read()
    assert spark.conf.get(THRESHOLD) == before
    assert rows(row.asDict() for row in frame.collect()) == rows(table.to_arrow().to_pylist())
    next(tmp_path.glob("t/bucket-0/data-*")).unlink()
    with pytest.raises((PkTableError, PySparkException)):
        opened.read().collect()
    assert spark.conf.get(THRESHOLD) == before
