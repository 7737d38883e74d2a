"""Writes to Hudi tables on Spark: the rows and the file groups of the same writes in one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import HudiTable
from pktable_hudi.incoming import RowForm
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.log_index import Row

from model_tests.backends.spark_session import spark_session
from model_tests.hudi.dying_task import ROWS
from model_tests.hudi.written_tables import arrow, delete, new_table, rows_of, tiny_groups, upsert
from model_tests.processes.run import ROOT

pytestmark = pytest.mark.spark


def frame_of(rows: pa.Table) -> Any:
    schema = "k string, ts long, v int"
    return spark_session().createDataFrame([tuple(one.values()) for one in rows.to_pylist()], schema)


@covers("LOG-64")
def test_writes_on_spark_have_the_rows_of_the_same_writes_here(tmp_path: Path) -> None:
    spark = spark_session()
    tables = [tiny_groups(new_table(tmp_path / "here")), tiny_groups(new_table(tmp_path / "s", spark=spark))]
    changes = [
        {f"k{i}": Row(1, i) for i in range(12)},
        {f"k{i}": Row(i % 3, -i) for i in range(6, 18)},
    ]
    for table in tables:
        for change in changes:
            rows = arrow(change)
            table.upsert(rows if table.session is None else frame_of(rows))
        delete(table, "k0", "k17")
    for work in (
        lambda table: None,
        lambda table: table.compact(),
        lambda table: upsert(table, {"k1": Row(7, 7)}),
    ):
        for table in tables:
            work(table)
        here, there = (rows_of(table) for table in tables)
        assert here == there
        for table in tables:
            found = table.locate(list(here)).to_pylist()
            assert len({one["key"] for one in found}) == len(found) == len(here)
            assert len({one["group"] for one in found}) > 2
    assert tables[1].check().findings == []


@covers("LOG-54", "LOG-55", "LOG-59", "LOG-64")
def test_rows_of_a_dataframe_stay_on_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def collected(self: RowForm, rows: object) -> object:
        raise AssertionError("the rows are here")

    spark = spark_session()
    columns = "id BIGINT, region STRING, ts BIGINT, v INT"
    tables = [
        tiny_groups(
            HudiTable.create(
                tmp_path / name, columns, key="id", partition_by="region", ordering="ts", spark=on
            )
        )
        for name, on in (("here", None), ("spark", spark))
    ]
    changes = [
        [(i, "eu" if i % 3 else "us", i % 4, i) for i in range(40)],
        [(i % 45, "eu" if i % 3 else "us", (i * 7) % 5, -i) for i in range(20, 110)],  # some keys twice
        [(i, "asia", 0, i) for i in range(5)],
    ]
    for rows in changes:
        names = ["id", "region", "ts", "v"]
        tables[0].upsert([dict(zip(names, row, strict=True)) for row in rows])
        with monkeypatch.context() as patch:
            patch.setattr(RowForm, "incoming", collected)
            frame = spark.createDataFrame(rows, "id long, region string, ts long, v int").coalesce(1)
            tables[1].upsert(frame)
    gone = [(3, "us"), (1, "eu"), (99, "eu")]
    tables[0].delete([{"id": key, "region": region} for key, region in gone])
    tables[1].delete(spark.createDataFrame(gone, "id long, region string"))
    assert tables[1].delete(spark.createDataFrame(gone[2:], "id long, region string")) is None
    assert tables[1].upsert(spark.createDataFrame([], "id long, region string, ts long, v int")) is None
    read = [
        sorted(HudiTable.open(one.path).to_arrow(columns=["id", "region", "ts", "v"]).to_pylist(), key=str)
        for one in tables
    ]
    assert read[0] == read[1]
    groups = {(one["partition"], one["group"]) for one in tables[1].files().to_pylist()}
    assert len(groups) > 3
    keys = [str(i) for i in range(45)]
    for partition in ("region=eu", "region=us", "region=asia"):
        found = [one["key"] for one in tables[1].locate(keys).to_pylist() if one["partition"] == partition]
        assert len(found) == len(set(found))
    tables[1].compact()
    assert tables[1].check().findings == []
    # With room in the file groups of two partitions, the new keys of each go to its own.
    new = [(i, "eu" if i % 2 else "us", 0, i) for i in range(200, 206)]
    roomy = HudiTable.open(tables[1].path, spark=spark)
    roomy.upsert(spark.createDataFrame(new, "id long, region string, ts long, v int"))
    assert {(one["partition"], one["group"]) for one in roomy.files().to_pylist()} == groups
    found = roomy.locate([str(row[0]) for row in new]).to_pylist()
    assert sorted((int(one["key"]), one["partition"]) for one in found) == [
        (row[0], f"region={row[1]}") for row in new
    ]


@pytest.mark.deep("a task that runs twice leaves two log files")
@covers("LOG-64", "LOG-73")
def test_a_task_whose_process_dies_after_it_has_created_its_file_leaves_one_file(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("SPARK_REMOTE", None)
    command = [sys.executable, "-m", "model_tests.hudi.dying_task", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["died"], "no task created a file"
    assert found["rows"] == list(range(ROWS))
    assert len(found["files"]) > 1
    assert found["files"] == found["found"]
    assert found["findings"] == []


@covers("LOG-58")
def test_an_error_of_an_executor_is_raised_here_and_the_write_is_rolled_back(tmp_path: Path) -> None:
    table = tiny_groups(new_table(tmp_path / "t", spark=spark_session()))
    upsert(table, {f"k{i}": Row(1, i) for i in range(6)})
    path = next((tmp_path / "t").glob("*.parquet"))
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(Exception, match=path.name):
        upsert(table, {f"k{i}": Row(2, 2) for i in range(6)})
    path.write_bytes(content)
    assert not table.timeline().pending
    assert rows_of(HudiTable.open(table.path)) == {f"k{i}": Row(1, i) for i in range(6)}
    with pytest.raises(InvalidRequestError, match="column v is missing"):
        table.upsert(spark_session().createDataFrame([("a", 1)], "k string, ts long"))


@covers("TBL-70", "LOG-36")
def test_a_null_whose_type_has_not_null_inside_is_one(tmp_path: Path) -> None:
    spark = spark_session()
    columns = "k STRING, r ROW<a INT NOT NULL>, m MAP<STRING, ROW<b INT NOT NULL>>"
    table = HudiTable.create(tmp_path / "t", columns, key="k", spark=spark)
    here = HudiTable.open(table.path)
    text = (
        "SELECT CAST(id AS STRING) AS k, IF(id = 1, NULL, named_struct('a', 7)) AS r, "
        "IF(id = 1, NULL, map('x', named_struct('b', 1))) AS m FROM range(2)"
    )
    expected = [{"k": "0", "r": {"a": 7}, "m": [("x", {"b": 1})]}, {"k": "1", "r": None, "m": None}]
    for writer in (table, here):  # the second write is to log files, which are merged
        writer.upsert(spark.sql(text))
        for reader in (table, here):
            assert reader.to_arrow(columns=["k", "r", "m"]).sort_by("k").to_pylist() == expected


@covers("LOG-54", "LOG-64")
def test_each_file_group_that_has_a_key_gets_its_row(tmp_path: Path) -> None:
    for name, spark in (("here", None), ("there", spark_session())):
        table = new_table(tmp_path / name)
        upsert(table, {"a": Row(1, 1), "b": Row(1, 1)})
        (base,) = (tmp_path / name).glob("*.parquet")
        shutil.copy(base, base.with_name(f"f{base.name[1:]}" if base.name[0] != "f" else f"e{base.name[1:]}"))
        again = HudiTable.open(tmp_path / name, spark=spark)
        rows = arrow({"a": Row(2, 5)})
        again.upsert(rows if spark is None else frame_of(rows))
        found = HudiTable.open(tmp_path / name).to_arrow().select(["k", "v"]).to_pylist()
        assert sorted((one["k"], one["v"]) for one in found) == [("a", 5), ("a", 5), ("b", 1), ("b", 1)]
        keys = rows.select(["k"])
        again.delete(keys if spark is None else spark.createDataFrame([("a",)], "k string"))
        assert HudiTable.open(tmp_path / name).to_arrow()["k"].to_pylist() == ["b", "b"]
