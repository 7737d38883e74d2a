"""Create append tables and add rows to them: what lies on disk is what Paimon writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CommitId, InvalidRequestError, Table
from pktable.format.binary_row import EMPTY_ROW, FEW_ROWS
from pktable.format.metadata.schema import encode_schema
from pktable.format.types import Field, parse_type
from pktable.ingest.changes import ChangeKind
from pktable.run.spark.runner import SparkRunner
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import path_of, rows_of
from model_tests.backends.spark_session import spark_session
from model_tests.real_data import needs_shared

COLUMNS = "id BIGINT, v STRING, p INT"
DV = {"deletion-vectors.enabled": "true"}
FIXED = {"bucket": "3", "bucket-key": "id"}


def made(path: Path, options: dict[str, str] | None = None, **keywords: Any) -> Table:
    return Table.create(path / "t", COLUMNS, primary_key=None, options=options, **keywords)


def some(start: int, end: int, p: int | None = 0) -> pa.Table:
    numbers = range(start, end)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "v": [None if i % 7 == 3 else f"v{i % 5}" for i in numbers],
            "p": pa.array([p] * len(numbers), pa.int32()),
        }
    )


def sound(table: Table) -> Table:
    """Return the table as another process sees it, when its check finds nothing."""
    assert [str(found) for found in check(table.path).findings] == []
    return Table.open(table.path)


@covers("APP-1", "APP-3", "APP-5", "TBL-12")
def test_rows_are_added_to_rows_equal_ones_included(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.append(some(0, 20)) == 1
    assert table.append(some(10, 30)) == 2
    assert table.append(some(0, 0)) is None
    table = sound(table)
    assert rows_of(table.to_arrow().to_pylist()) == rows_of(
        [*some(0, 20).to_pylist(), *some(10, 30).to_pylist()]
    )
    assert table.count() == 40
    assert table.count(snapshot=1) == 20
    assert table.count(where="id = 15") == 2
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "APPEND"]
    assert repr(table).endswith("; append table>")


@covers("APP-3", "APP-5")
def test_the_metadata_of_a_file_is_as_paimons(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(some(0, 20))
    table.append(some(20, 25))
    state = table.catalog.state()
    assert state.snapshot is not None
    _, entries = table.catalog.states.live_entries(state.snapshot)
    assert [(one.bucket, one.total_buckets) for one in entries] == [(0, -1), (0, -1)]
    for file, last in zip((one.file for one in entries), (19, 4), strict=True):
        assert (file.min_key, file.max_key, file.delete_row_count) == (EMPTY_ROW, EMPTY_ROW, 0)
        assert (file.level, file.min_sequence_number, file.max_sequence_number) == (0, 0, last)
        assert (file.file_source, file.first_row_id, file.write_cols) == (0, None, None)
        assert file.key_stats.min_values == file.key_stats.max_values == EMPTY_ROW
        schema = pq.read_schema(f"{table.path}/bucket-0/{file.file_name}")
        assert schema.names == ["id", "v", "p"]
        assert [schema.field(name).metadata[b"PARQUET:field_id"] for name in schema.names] == [
            b"0",
            b"1",
            b"2",
        ]


@covers("APP-3", "APP-5")
@needs_shared
def test_schema_and_entries_have_the_fields_that_paimon_gives_them(tmp_path: Path) -> None:
    theirs = Table.open(path_of("ap_dv"))
    columns = ", ".join(f"{name} {kind}" for name, kind in theirs.columns.items())
    ours = Table.create(tmp_path / "t", columns, primary_key=(), options={"deletion-vectors.enabled": "true"})
    assert ours.schema.fields == theirs.schema.fields
    assert "bucket" not in ours.options
    ours.append(theirs.to_arrow(snapshot=1))
    found = []
    for table in (theirs, ours):
        _, entries = table.catalog.states.live_entries(table.snapshots()[0])
        found.append({(one.bucket, one.total_buckets, one.file.level, one.file.min_key) for one in entries})
    assert found[0] == found[1]


@covers("APP-6", "APP-7", "TBL-5")
def test_rows_go_to_the_bucket_of_their_key_and_are_numbered_there(tmp_path: Path) -> None:
    table = made(tmp_path, FIXED)
    for start in (0, 40, 80):
        table.append(some(start, start + 40))
    table = sound(table)
    assert table.count() == 120
    for bucket in range(3):
        files = [row for row in table.files().to_pylist() if row["bucket"] == bucket]
        ends = sorted((row["min_sequence_number"], row["max_sequence_number"]) for row in files)
        counted = [0]
        for low, high in ends:
            assert low == counted[-1]
            counted.append(high + 1)
        assert len(files) == 3
    splits = table.scan(where="id = 17").splits()
    assert len({split.bucket for split in splits}) == 1
    assert table.to_arrow(where="id = 17").column("id").to_pylist() == [17]


@covers("APP-6", "CMT-24")
def test_a_write_that_lost_the_race_for_its_numbers_keeps_its_files(tmp_path: Path) -> None:
    table = made(tmp_path, FIXED)
    first, second = (table.stage_write(some(start, start + 9), ChangeKind()) for start in (0, 100))
    assert first is not None
    assert second is not None
    files = {file.file_name for append in first.appends for file in append.files}
    second.commit(CommitId("second"))
    first.commit(CommitId("first"))
    table = sound(table)
    assert files <= set(table.files().column("file_name").to_pylist())
    assert table.count() == 18
    for bucket in set(table.files().column("bucket").to_pylist()):
        rows = [row for row in table.files().to_pylist() if row["bucket"] == bucket]
        spans = sorted((row["min_sequence_number"], row["max_sequence_number"]) for row in rows)
        assert all(left[1] < right[0] for left, right in pairwise(spans))


@covers("APP-1")
@pytest.mark.parametrize("options", [{}, FIXED])
def test_writers_at_once_lose_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    made(tmp_path, options)

    def work(number: int) -> None:
        table = Table.open(tmp_path / "t")
        for step in range(4):
            table.append(some(100 * number + 10 * step, 100 * number + 10 * step + 10))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = sound(Table.open(tmp_path / "t"))
    assert sorted(table.to_arrow().column("id").to_pylist()) == sorted(
        100 * number + i for number in range(3) for i in range(40)
    )


@covers("APP-3", "META-9", "TBL-3")
@pytest.mark.parametrize("options", [{}, FIXED])
def test_partitions_may_be_null(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options, partition_by="p")
    rows = pa.concat_tables([some(0, 9, 1), some(9, 15, None), some(15, 20, -1), some(20, 22, None)])
    table.append(rows)
    table.append(some(30, 33, None))
    table = sound(table)
    assert set(table.files().column("partition").to_pylist()) == {"p=1", "p=-1", "p=__DEFAULT_PARTITION__"}
    expected = rows.to_pylist() + some(30, 33, None).to_pylist()
    assert rows_of(table.to_arrow().to_pylist()) == rows_of(expected)
    assert table.count(where="p IS NULL") == 11
    assert table.count(where="p = -1") == 5


@covers("APP-1", "TBL-11")
def test_put_replaces_rows_of_the_same_key_and_adds_rows_without_one(tmp_path: Path) -> None:
    for key, expected in (("id", {"two"}), (None, {"one", "two"})):
        table = Table.create(tmp_path / str(key), "id INT, v STRING", primary_key=key)
        for value in ("one", "two"):
            table.put({"id": 1, "v": value})
        assert set(table.to_arrow()["v"].to_pylist()) == expected


@covers("TBL-8", "APP-8")
def test_calls_that_need_a_key_are_refused_by_name(tmp_path: Path) -> None:
    table = made(tmp_path)
    calls: list[Callable[[], Any]] = [
        lambda: table.upsert(some(0, 1)),
        lambda: table.delete(some(0, 1)),
        lambda: table.write_changes(some(0, 1).append_column("k", [["+I"]]), row_kind="k"),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError, match="the table has no primary key; use "):
            call()
    keyed = Table.create(tmp_path / "k", COLUMNS, primary_key="id")
    with pytest.raises(InvalidRequestError, match=r"append: the table has a primary key \(id\); use upsert"):
        keyed.append(some(0, 1))
    with pytest.raises(InvalidRequestError, match="column"):
        table.append(pa.table({"id": [1], "nope": [2]}))
    retraction = some(0, 1).append_column("k", [["-D"]])
    with pytest.raises(InvalidRequestError, match="can only be added"):
        table.stage_write(retraction, ChangeKind(column="k"))
    assert table.snapshots() == keyed.snapshots() == []


@covers("APP-7", "TBL-9", "TBL-16")
@pytest.mark.parametrize(
    ("options", "partition", "message"),
    [
        ({"bucket": "2"}, (), "option bucket=2: an append table with buckets needs the option bucket-key"),
        ({"bucket-key": "id"}, (), "option bucket-key=id: expected the option bucket with it"),
        ({"bucket": "2", "bucket-key": "x"}, (), "option bucket-key: x is not one of the columns"),
        ({"bucket": "2", "bucket-key": "p"}, "p", "option bucket-key: p is not one of the columns outside"),
        ({"bucket": "-2"}, (), "option bucket='-2' is not supported: expected a number of buckets, or -1"),
        (
            {**FIXED, "row-tracking.enabled": "true"},
            (),
            "option row-tracking.enabled='true' is not supported",
        ),
        ({"data-evolution.enabled": "true"}, (), "option data-evolution.enabled='true' is not supported"),
        ({}, "q", "partition keys: q is not one of the columns id, v, p"),
    ],
)
def test_a_definition_that_cannot_be_honoured_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], partition: Any, message: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        made(tmp_path, options, partition_by=partition)
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())


@covers("CMT-53")
def test_a_write_under_the_same_name_is_committed_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.append(some(0, 5), commit_id=CommitId("load", 1)) == 1
    assert table.append(some(0, 5), commit_id=CommitId("load", 1)) == 1
    assert table.append(some(0, 5), commit_id=CommitId("load", 2)) == 2
    assert table.count() == 10


@covers("APP-5", "META-6", "META-27", "RD-8")
def test_files_are_closed_at_their_target_size_and_skipped_by_statistics(tmp_path: Path) -> None:
    table = made(tmp_path, {"target-file-size": "10 kb", "file.block-size": "16 kb", "write-only": "true"})
    table.append(some(0, 20_000))
    table = sound(table)
    files = table.files().num_rows
    assert files >= 3
    assert table.count() == 20_000
    assert len(table.scan(where="id = 777").splits()) == 1
    (split,) = table.scan(where="id = 777").splits()
    assert len(split.paths) == 1
    assert table.to_arrow(where="id = 777").column("v").to_pylist() == ["v2"]


@covers("APP-1", "RD-8")
def test_many_files_are_excluded_by_their_statistics_at_once(tmp_path: Path) -> None:
    table = made(tmp_path, DV, partition_by="p")
    for i in range(FEW_ROWS + 3):
        table.append(some(10 * i, 10 * i + 10, i % 2))
    table.delete(where="id = 55")
    scan = Table.open(table.path).scan(where="id >= 52 AND id < 63")
    assert sum(len(split.paths) for split in scan.splits()) == 2
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [52, 53, 54, 56, 57, 58, 59, 60, 61, 62]
    assert table.count(where="v IS NULL AND p = 1") == table.to_arrow(where="p = 1").column("v").null_count


@covers("APP-1", "CMT-17", "CMT-42", "CMT-47", "CMT-48")
def test_tags_rollback_expiry_and_orphans_are_as_with_keys(tmp_path: Path) -> None:
    table = made(tmp_path)
    for i in range(4):
        table.append(some(10 * i, 10 * i + 10))
    table.create_tag("two", snapshot=2)
    assert table.expire_snapshots(retain_last=1) == [1, 2, 3]
    assert table.count(tag="two") == 20
    assert table.rollback(tag="two") == [4]
    table = sound(Table.open(table.path))
    assert table.count() == 20
    staged_before = set(table.files().column("file_name").to_pylist())
    table.remove_orphans(older_than=1 << 60)
    assert set(table.files().column("file_name").to_pylist()) == staged_before
    assert sound(table).count() == 20


@pytest.mark.spark
@covers("APP-1", "APP-3", "APP-5", "TBL-11")
@pytest.mark.parametrize("options", [{"target-file-size": "8 kb"}, FIXED])
@pytest.mark.parametrize("partition", [(), "p"])
def test_spark_adds_the_same_rows(tmp_path: Path, options: dict[str, str], partition: Any) -> None:
    made(tmp_path, options, partition_by=partition)
    table = Table.open(tmp_path / "t", spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    rows = pa.concat_tables([some(0, 700, 1), some(700, 900, None)])
    table.append(spark_session().createDataFrame(rows).repartition(3))
    table.append(rows.slice(0, 10))
    here = sound(table)
    expected = rows.to_pylist() + rows.slice(0, 10).to_pylist()
    assert rows_of(here.to_arrow().to_pylist()) == rows_of(expected)
    assert sorted(row.id for row in table.read(where="id < 20").collect()) == sorted([*range(20), *range(10)])
    assert table.count(where="p IS NULL") == 200


@covers("APP-1", "META-15")
def test_a_column_added_since_reads_as_nulls_alone(tmp_path: Path) -> None:
    """No column that is asked for is stored: the number of rows comes from another one."""
    table = made(tmp_path)
    table.append(some(0, 3))
    fields = (*table.schema.fields, Field(3, "new", parse_type("INT")))
    later = replace(table.schema, id=1, fields=fields, highest_field_id=3)
    Path(table.path, "schema", "schema-1").write_bytes(encode_schema(later))
    assert sound(table).to_arrow(columns=["new"]).to_pylist() == [{"new": None}] * 3
