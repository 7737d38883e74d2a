"""Hudi tables read by Spark: the rows, and the errors, of the same read in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable import HudiTable
from pktable_hudi import scan
from pktable_hudi.placing import WriteOptions
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.backends.spark_session import spark_session
from model_tests.hudi.made_tables import MadeTable, row
from model_tests.hudi.real_tables import each_hudi_table, unpacked
from model_tests.hudi.test_real_rows import points, rows_of

pytestmark = pytest.mark.spark


@covers("LOG-36")
@each_hudi_table()
def test_spark_reads_the_rows_that_hudi_reads(archive: Path) -> None:
    table = HudiTable.open(unpacked(archive), spark=spark_session())
    known = list(points(archive))
    for instant, read_optimized, columns, rows in (known[len(known) // 2], known[-1]):
        found = table.to_arrow(instant=instant, read_optimized=read_optimized)
        assert rows_of(found, columns) == rows
        assert found.schema == HudiTable.open(unpacked(archive)).scan(instant=instant).schema


@pytest.mark.versions
@covers("LOG-36")
def test_spark_gives_a_lazy_frame_with_conditions_and_limits(tmp_path: Path) -> None:
    made = MadeTable(tmp_path / "t")
    made.base(1, [row("a", 1, 1), row("b", 1, 2)])
    made.base(1, [row("c", 1, 3)], "h")
    made.commit(1)
    made.log(2, made.data(2, [row("a", 2, 9), row("d", 2, 4)]))
    made.commit(2)
    table = made.open(spark=spark_session())
    frame = table.read(where="v > 2", columns=["k", "v"])
    assert sorted(tuple(one) for one in frame.collect()) == [("a", 9), ("c", 3), ("d", 4)]
    assert table.count() == 4
    assert table.scan(limit=2).to_spark().count() == 2
    assert table.to_arrow(where="v > 100").num_rows == 0
    assert made.open().read().num_rows == 4
    with pytest.raises(InvalidRequestError, match="without Spark"):
        made.open().scan().to_spark()


@covers("LOG-41", "LOG-36", "LOG-80")
def test_keys_of_a_large_table_are_looked_up_on_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeTable(tmp_path / "t")
    for group in "ghi":
        made.base(1, [row(f"{group}{i}", 1, i) for i in range(3)], group)
    made.commit(1)
    log = made.log(2, made.data(2, [row("new", 2, 9)]))
    made.commit(2)
    keys = ["g0", "h2", "i1", "new", "absent"]
    here = made.open().locate(keys)
    assert here.num_rows == 4
    monkeypatch.setattr(scan, "LOCATED_BYTES", 0)
    monkeypatch.setattr(scan, "LOCATING_TASKS", 2)
    jobs = spark_session().sparkContext.statusTracker()
    before = len(jobs.getJobIdsForGroup(None))
    table = made.open(spark=spark_session())
    assert table.locate(keys).sort_by("key").equals(here.sort_by("key"))
    assert len(jobs.getJobIdsForGroup(None)) > before
    log.write_bytes(log.read_bytes()[:-3])
    with pytest.raises(CorruptFileError, match="the rows of the completed commit"):
        table.locate(keys)


@covers("LOG-36")
def test_slices_without_logs_are_read_by_spark_itself_if_it_has_nothing_to_convert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = HudiTable.create(tmp_path / "t", "k STRING, d DOUBLE, v INT", key="k", spark=spark_session())
    table.write_options = WriteOptions(most_bytes=1)  # a file group for each key

    def write(rows: list[dict[str, object]]) -> None:
        table.upsert(rows)

    write(
        [{"k": "a", "d": float("nan"), "v": 1}, {"k": "b", "d": -0.0, "v": 2}, {"k": "c", "d": 1.0, "v": 3}]
    )
    write([{"k": "b", "d": 0.0, "v": 5}])
    here = HudiTable.open(table.path)
    merged = table.read()
    assert merged.schema == table.read(read_optimized=True).schema
    table.read(read_optimized=True).explain()
    plan = capsys.readouterr().out
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    for where in (None, "d > 0.5", "d = 0.0", "v > 1 AND k <> 'c'", "10 / v > 3", "d IS NULL"):
        for read_optimized in (False, True):
            found, expected = (
                sorted(
                    map(
                        str,
                        one.to_arrow(
                            where=where, read_optimized=read_optimized, columns=["k", "d"]
                        ).to_pylist(),
                    )
                )
                for one in (table, here)
            )
            assert found == expected
    assert table.count() == table.count(read_optimized=True) == 3


@covers("LOG-36", "LOG-21")
def test_base_files_of_an_earlier_schema_are_converted(tmp_path: Path) -> None:
    made = MadeTable(tmp_path / "t")
    made.base(1, [row("a", 1, 1)])
    made.commit(1)
    made.columns = (*made.columns, "w")
    made.base(2, [{**row("b", 1, 1), "w": "new"}], "h")
    made.commit(2)
    table = made.open(spark=spark_session())
    assert table.to_arrow(where="w = 'new'", columns="k").to_pylist() == [{"k": "b"}]
    assert table.to_arrow().sort_by("k") == made.open().to_arrow().sort_by("k")


def test_damage_is_named_by_the_driver(tmp_path: Path) -> None:
    made = MadeTable(tmp_path / "t")
    path = made.base(1, [row("a", 1, 1)])
    made.commit(1)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFileError, match=path.name):
        made.open(spark=spark_session()).to_arrow()
