"""The vectors that are shipped read, at every snapshot and tag, to the rows that the Paimon that wrote them reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable.format.metadata.manifest import IndexManifestEntry, decode_index_manifest
from pktable.format.metadata.snapshot import decode_snapshot
from pktable.format.vectors.index_file import open_index
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.interop.cases import CASES
from model_tests.interop.plain import rows_of
from model_tests.interop.vectors import as_stated, as_text
from model_tests.real_data import VECTORS, shipped_tables

SIZE_LIMIT = 1_100_000
each_vector = pytest.mark.parametrize(
    "folder", [table.parent for table in shipped_tables()], ids=lambda f: f.name
)


def case_of(folder: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((folder / "case.json").read_text())
    return case


def expect_all_reads(table: Table, case: dict[str, Any]) -> None:
    assert [str(snapshot.id) for snapshot in table.snapshots()] == list(case["snapshots"])
    for id, rows in case["snapshots"].items():
        assert as_stated(rows_of(table.to_arrow(snapshot=int(id)))) == rows, f"snapshot {id}"
    for name, rows in case["tags"].items():
        assert as_stated(rows_of(table.to_arrow(tag=name))) == rows, f"tag {name}"
    assert as_stated(rows_of(table.to_arrow())) == case["latest"]


@each_vector
@covers("RD-1", "RD-4", "RD-5", "RD-10", "RD-14", "DV-1", "DVF-2", "DVF-3", "META-29", "META-30", "META-9")
@covers("META-15", "META-59", "CMT-13")
def test_a_vector_reads_as_the_paimon_that_wrote_it_reads_it(folder: Path) -> None:
    expect_all_reads(Table.open(folder / "table"), case_of(folder))


@pytest.mark.spark
@each_vector
@covers("RD-1", "RD-4", "RD-12", "RD-14", "META-29", "META-30", "META-15")
def test_a_vector_reads_on_spark_as_the_paimon_that_wrote_it_reads_it(folder: Path) -> None:
    table, case = Table.open(folder / "table", spark=spark_session()), case_of(folder)
    middle = list(case["snapshots"])[len(case["snapshots"]) // 2]
    assert as_stated(rows_of(table.to_arrow(snapshot=int(middle)))) == case["snapshots"][middle]
    assert as_stated(rows_of(table.to_arrow())) == case["latest"]


def test_the_vectors_are_those_of_the_scripts_and_small() -> None:
    assert {folder.parent.name for folder in VECTORS.glob("*/case.json")} == {case.name for case in CASES}
    for case in CASES:
        found = case_of(VECTORS / case.name)
        assert (found["script"], found["clauses"]) == (
            json.loads(json.dumps(case.script)),
            list(case.clauses),
        )
        assert as_text(found) == (VECTORS / case.name / "case.json").read_text()
    files = (path for path in VECTORS.rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert sum(path.stat().st_size for path in files) < SIZE_LIMIT


# ------------------------------------------------------------- each vector shows what it says it shows


def index_entries(name: str, snapshot: int) -> list[IndexManifestEntry]:
    table = VECTORS / name / "table"
    path = table / "snapshot" / f"snapshot-{snapshot}"
    index = decode_snapshot(path.read_bytes(), at=str(path)).index_manifest
    assert index is not None
    path = table / "manifest" / index
    return decode_index_manifest(path.read_bytes(), at=str(path))


def positions(name: str, snapshot: int) -> list[list[int]]:
    found = []
    for entry in index_entries(name, snapshot):
        path = VECTORS / name / "table" / "index" / entry.file_name
        vectors = dict(open_index(path.read_bytes(), entry.ranges or (), at=str(path)))
        found += [vector.positions().tolist() for vector in vectors.values()]
    return found


@covers("DVF-9", "DVF-2")
def test_the_vector_of_containers_holds_the_positions_of_the_keys_deleted() -> None:
    few, half = set(range(7, 8400, 1000)), set(range(0, 8400, 2))
    most = half | few | set(range(1, 8000, 2))
    for snapshot, expected in ((4, few), (6, few | half), (8, most)):
        assert positions("containers", snapshot) == [sorted(expected)]


@covers("DVF-1", "DVF-2", "DVF-8", "LSM-2")
def test_one_index_file_holds_a_vector_of_each_of_three_files() -> None:
    (entry,) = index_entries("several-vectors", 4)
    assert entry.row_count == 3
    assert (
        len({file["level"] for file in Table.open(VECTORS / "several-vectors/table").files(2).to_pylist()})
        == 1
    )
    assert sorted(positions("several-vectors", 6)) == [[3, 4], [300], [500]]


@covers("DVF-3", "DVF-4", "DVF-13")
def test_64_bit_vectors_tell_their_cardinality() -> None:
    for entry in index_entries("vectors-of-64-bits", 6):
        ranges = entry.ranges or ()
        found = [one.cardinality for one in ranges]
        path = VECTORS / "vectors-of-64-bits/table/index" / entry.file_name
        vectors = dict(open_index(path.read_bytes(), ranges, at=str(path)))
        assert found == [vector.cardinality for vector in vectors.values()]
        assert {vector.bits for vector in vectors.values()} == {64}


@covers("DVF-1", "DVF-2", "DVF-3", "DVF-12")
def test_one_index_file_holds_vectors_of_both_kinds() -> None:
    (entry,) = index_entries("vectors-of-both-kinds", 6)
    path = VECTORS / "vectors-of-both-kinds/table/index" / entry.file_name
    vectors = dict(open_index(path.read_bytes(), entry.ranges or (), at=str(path)))
    assert sorted(vector.bits for vector in vectors.values()) == [32, 64, 64]


@covers("DVF-7", "DV-13")
def test_an_index_without_vectors_is_one_byte() -> None:
    (entry,) = index_entries("empty-index", 5)
    assert (entry.file_size, entry.ranges) == (1, ())
    assert (VECTORS / "empty-index/table/index" / entry.file_name).read_bytes() == b"\1"


@covers("RD-1")
def test_a_vector_of_a_file_that_is_gone_hides_nothing() -> None:
    table = Table.open(VECTORS / "dangling-vector/table")
    last = table.snapshots()[-1].id
    named = {one.data_file for entry in index_entries("dangling-vector", last) for one in entry.ranges or ()}
    assert named
    assert not named & set(table.files(last).column("file_name").to_pylist())


@covers("CMP-10", "CMT-4")
def test_an_upgraded_file_is_deleted_and_added_under_its_name() -> None:
    table = Table.open(VECTORS / "upgraded-file/table")
    (before,), (after,) = (table.files(snapshot).to_pylist() for snapshot in (1, 2))
    assert (before["file_name"], before["level"], after["level"]) == (after["file_name"], 0, 5)


@covers("META-30")
def test_a_thin_file_has_no_key_columns() -> None:
    import pyarrow.parquet as pq

    files = list((VECTORS / "thin-files/table").glob("bucket-0/*.parquet"))
    assert files
    assert all(not name.startswith("_KEY_") for file in files for name in pq.read_schema(file).names)


@covers("APP-11", "APP-14")
def test_a_delete_writes_again_only_the_index_file_it_touches() -> None:
    names = [{entry.file_name for entry in index_entries("append-several-indexes", at)} for at in (6, 7)]
    assert (len(names[0]), len(names[0] & names[1]), len(names[1] - names[0])) == (3, 1, 1)
    assert sorted(positions("append-several-indexes", 6)) == [[1], [1], [1, 2, 3]]
    assert sorted(positions("append-several-indexes", 7)) == [[0, 1], [0, 1, 2, 3], [1, 2, 3]]


@covers("APP-13", "APP-21")
def test_a_compaction_without_buckets_leaves_no_index_file_and_with_buckets_one_byte() -> None:
    assert index_entries("append-several-indexes", 9) == []
    (entry,) = index_entries("append-empty-index", 5)
    assert (entry.file_size, entry.ranges) == (1, ())
    assert (VECTORS / "append-empty-index/table/index" / entry.file_name).read_bytes() == b"\1"


@covers("APP-2", "APP-12")
def test_a_vector_of_append_tables_takes_all_statements_of_others(tmp_path: Path) -> None:
    for folder in VECTORS.glob("append-*"):
        shutil.copytree(folder / "table", tmp_path / folder.name)
        table = Table.open(tmp_path / folder.name)
        before = rows_of(table.to_arrow())
        last = max(int(row[-2] or 0) for row in before)
        table.update({"v": "'new'"}, where=f"k = {last}")
        table.delete(where=f"k < {last}")
        table.compact(full=True)
        kept = [[*row[:-1], "new"] for row in before if row[-2] == str(last)]
        assert sorted(rows_of(table.to_arrow())) == sorted(kept), folder.name
        assert not [one for one in table.check().findings if one.severity == "error"]


def test_the_readme_lists_the_vectors() -> None:
    listed = (VECTORS / "README.md").read_text().split("## The vectors")[1].splitlines()[4:]
    rows = [f"| `{one.name}` | {one.writer.split()[1]} | {one.what} |" for one in CASES]
    assert sorted(listed) == sorted(rows)
