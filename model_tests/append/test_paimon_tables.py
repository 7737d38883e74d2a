"""Every snapshot and tag of append tables that Paimon wrote has the rows that Paimon read."""

from __future__ import annotations

import pickle

import pytest
from pktable import Table
from pktable.run.spark.runner import SparkRunner
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import APPEND, expected_of, expected_rows, path_of, rows_of
from model_tests.backends.spark_session import spark_session
from model_tests.real_data import needs_shared

pytestmark = needs_shared


@covers("APP-1", "APP-3", "APP-4", "APP-11", "DVF-7", "META-9")
@pytest.mark.parametrize("name", APPEND)
def test_every_snapshot_has_the_rows_that_paimon_read(name: str) -> None:
    table, truth = Table.open(path_of(name)), expected_of(name)
    assert truth["snapshots"]
    for snapshot, expected in truth["snapshots"].items():
        scan = table.scan(snapshot=int(snapshot))
        rows = expected_rows(expected["rows"])
        assert rows_of(scan.to_pylist()) == rows, snapshot
        assert scan.count() == len(rows) == table.count(snapshot=int(snapshot), fresh=True)
    for tag, kept in truth["tags"].items():
        assert rows_of(table.scan(tag=tag).to_pylist()) == expected_rows(kept["rows"])


@covers("APP-4", "RD-6", "RD-9")
@pytest.mark.parametrize("name", APPEND)
def test_conditions_columns_limits_and_splits_are_those_of_the_same_rows(name: str) -> None:
    table = Table.open(path_of(name))
    every = table.to_arrow()
    first, last = every.column_names[0], every.column_names[-1]
    wanted = [value for value in every.column(first).to_pylist() if value is not None and value % 3 == 0]
    scan = table.scan(where=f"{first} % 3 = 0", columns=[last, first])
    assert sorted(scan.to_arrow().column(first).to_pylist()) == sorted(wanted)
    assert scan.to_arrow().column_names == [last, first]
    assert scan.count() == len(wanted)
    assert table.to_arrow(limit=5).num_rows == table.count(limit=5) == 5
    splits = pickle.loads(pickle.dumps(table.scan().splits()))
    rows = [row for split in splits for part in split.read() for row in part.to_pylist()]
    assert rows_of(rows) == rows_of(every.to_pylist())
    assert not any(split.merges for split in splits)


@covers("APP-2", "APP-5", "APP-11", "DV-1")
@pytest.mark.parametrize("name", APPEND)
def test_files_and_records_show_each_row_by_its_position(name: str) -> None:
    table = Table.open(path_of(name))
    for snapshot in table.snapshots():
        live = 0
        for file in table.inspect.files(snapshot.id).to_pylist():
            records = table.inspect.records(file["file_name"], snapshot.id)
            assert records.column("position").to_pylist() == list(range(file["row_count"]))
            assert sum(records.column("deleted").to_pylist()) == file["deleted_row_count"]
            assert (file["level"], file["min_key"], file["max_key"]) == (0, "", "")
            live += file["row_count"] - file["deleted_row_count"]
        if name == "ap_dataevo":  # rows of which a file has the newer columns are in two files
            assert live >= table.count(snapshot=snapshot.id)
        else:
            assert live == table.count(snapshot=snapshot.id)
        vectors = table.inspect.vectors(snapshot.id).column("file_name").to_pylist()
        assert len(vectors) == len(set(vectors))


@covers("APP-11")
def test_a_partition_without_buckets_has_several_index_files() -> None:
    table = Table.open(path_of("ap_dv"))
    (bucket,) = table.inspect.buckets(5).to_pylist()
    assert len(bucket["index_file"].split(", ")) == 2
    assert len(set(table.inspect.vectors(5).column("index_file").to_pylist())) == 2


@covers("APP-4", "APP-5", "APP-11", "DV-5")
@pytest.mark.parametrize("name", [*APPEND, "pk_dynamic"])
def test_a_check_finds_no_error_in_tables_of_paimon(name: str) -> None:
    report = check(path_of(name))
    assert [str(found) for found in report.findings if found.severity == "error"] == []
    assert report.rows


@pytest.mark.spark
@covers("APP-1", "APP-4", "RD-6")
@pytest.mark.parametrize("name", ["ap_dv", "ap_fixed", "ap_orc", "ap_evolve_tags", "ap_dataevo"])
def test_spark_reads_the_same_rows(name: str) -> None:
    here, there = Table.open(path_of(name)), Table.open(path_of(name), spark=spark_session())
    there.runner = SparkRunner(spark_session())
    snapshots = here.snapshots()
    earlier, last = snapshots[-4:][0], snapshots[-1]
    condition = "id > 10 AND b IS NOT NULL"
    for snapshot, where in ((earlier, condition), (last, None), (last, condition)):
        scans = [table.scan(snapshot=snapshot.id, where=where) for table in (here, there)]
        local, spark = (rows_of(scan.to_pylist()) for scan in scans)
        assert local == spark
    assert scans[0].count() == scans[1].count() == len(local)
