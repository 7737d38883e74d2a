"""Row tracking: each row has an id and the snapshot that wrote it, and keeps both when it is written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CommitId, CorruptFileError, InvalidRequestError, Table
from pktable.ingest.changes import ChangeKind
from pktable.run.spark import statements
from pktable.run.spark.runner import SparkRunner
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import path_of, rows_of
from model_tests.append.test_writing import made, some, sound
from model_tests.backends.spark_session import spark_session
from model_tests.real_data import needs_shared

TRACKED = {"row-tracking.enabled": "true"}
KINDS = {"vectors": {**TRACKED, "deletion-vectors.enabled": "true"}, "files written again": TRACKED}
each_kind = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a copy of a table that Paimon wrote."""
    return Table.open(shutil.copytree(path_of("ap_rowtrack"), tmp_path / "t"))


def tracked(table: Table, snapshot: int | None = None) -> dict[int, tuple[int, int]]:
    """Return for each live row, by its row id, its column id and its sequence number."""
    found = {}
    for name in table.inspect.files(snapshot).column("file_name").to_pylist():
        for row in table.inspect.records(name, snapshot).to_pylist():
            if not row["deleted"]:
                assert row["_ROW_ID"] not in found
                found[row["_ROW_ID"]] = row["id"], row["_SEQUENCE_NUMBER"]
    return found


@covers("APP-24", "APP-25")
@each_kind
def test_rows_keep_id_and_number_whatever_happens_to_their_files(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 10))
    table.append(some(10, 30))
    expected = {i: (i, 1 if i < 10 else 2) for i in range(30)}
    assert tracked(sound(table)) == expected
    table.delete(where="id % 5 = 0")
    expected = {i: ids for i, ids in expected.items() if i % 5}
    assert tracked(sound(table)) == expected
    table.compact(full=True)
    assert tracked(sound(table)) == expected
    table.append(some(30, 33))
    expected |= {i: (i, 5) for i in (30, 31, 32)}
    assert tracked(sound(table)) == expected
    table.delete(where="id IN (1, 31)")
    table.compact(full=True)
    expected = {i: ids for i, ids in expected.items() if i not in (1, 31)}
    assert tracked(sound(table)) == expected
    assert [one.next_row_id for one in table.snapshots()] == [10, 30, 30, 30, 33, 33, 33]
    assert sorted(table.to_arrow().column_names) == ["id", "p", "v"]


@covers("APP-24")
def test_writers_at_the_same_time_give_no_id_twice(tmp_path: Path) -> None:
    table = made(tmp_path, TRACKED)
    staged = [table.stage_write(some(start, start + 5), ChangeKind()) for start in (0, 10, 20)]
    for one in reversed(staged):
        assert one is not None
        one.commit(CommitId.new())
    found = tracked(sound(table))
    assert sorted(found) == list(range(15))
    assert found[0] == (20, 1)
    assert found[10] == (0, 3)


@covers("APP-24", "APP-25")
@needs_shared
def test_a_table_of_paimon_goes_on_with_its_ids(table: Table) -> None:
    before, rows = tracked(table), rows_of(table.to_arrow().to_pylist())
    assert len({number for _, number in before.values()}) > 1
    assert table.snapshots()[-1].next_row_id == 103
    table.compact(full=True)
    assert tracked(sound(table)) == before
    assert rows_of(table.to_arrow().to_pylist()) == rows
    new = table.to_arrow(limit=2)
    new = new.set_column(0, "id", [[5001, 5002]])
    table.append(new)
    number = table.snapshots()[-1].id
    assert tracked(sound(table)) == before | {103: (5001, number), 104: (5002, number)}


@covers("APP-25")
@needs_shared
def test_a_compacted_file_has_the_columns_of_paimons(table: Table) -> None:
    theirs = next(f for files in table.catalog.state(6).files.values() for f in files if f.file_source == 1)
    table.compact(full=True)
    ours = next(f for files in table.catalog.state().files.values() for f in files if f.file_source == 1)
    assert ours.file_name != theirs.file_name
    assert (ours.write_cols, ours.first_row_id) == (theirs.write_cols, None)
    schemas = [pq.read_schema(f"{table.path}/bucket-0/{one.file_name}") for one in (ours, theirs)]
    fields = [[(f.name, f.type, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in one] for one in schemas]
    assert fields[0] == fields[1]


@covers("APP-25", "APP-32")
@needs_shared
def test_an_updated_file_has_the_columns_and_numbers_of_paimons(table: Table) -> None:
    before, theirs = tracked(table), [f for files in table.catalog.state(3).files.values() for f in files]
    snapshot = table.update({"a": 5}, where="id % 7 = 2")
    ours = [
        f
        for files in table.catalog.state().files.values()
        for f in files
        if f.min_sequence_number == snapshot
    ]
    (mine,), (other, *_) = ours, [file for file in theirs if file.write_cols]
    assert (mine.write_cols, mine.first_row_id, mine.file_source) == (other.write_cols, None, 0)
    stored = [pq.read_table(f"{table.path}/bucket-0/{one.file_name}") for one in (mine, other)]
    fields = [[(f.name, f.type, f.nullable, f.metadata) for f in one.schema] for one in stored]
    assert fields[0] == fields[1]
    assert stored[0].column("_SEQUENCE_NUMBER").null_count == mine.row_count
    expected = {i: (id, snapshot if id % 7 == 2 else number) for i, (id, number) in before.items()}
    assert tracked(sound(table)) == expected
    assert table.snapshots()[-1].next_row_id == table.snapshots()[-2].next_row_id


@covers("APP-25", "APP-32")
@pytest.mark.parametrize(
    ("kind", "runner"),
    [
        *((kind, "here") for kind in KINDS),
        pytest.param("vectors", "Spark", marks=pytest.mark.spark),
        pytest.param("files written again", "Spark, many rows", marks=pytest.mark.spark),
    ],
)
def test_updated_and_merged_rows_keep_their_ids_wherever_these_are_stored(
    tmp_path: Path, kind: str, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids are counted from the first of a file, or stored in it by an UPDATE or a compaction."""
    if runner == "Spark, many rows":
        monkeypatch.setattr(statements, "FEW_BYTES", -1)
    spark = {} if runner == "here" else {"runner": SparkRunner(spark_session())}
    table = made(tmp_path, KINDS[kind], partition_by="p", **spark)
    table.append(some(0, 8))
    table.append(some(8, 12, None))
    table.update({"v": "'once'"}, where="id % 3 = 0")
    table.update({"v": "concat(v, ' more')"}, where="id IN (3, 4)")
    rows = {i: (i, 4 if i in (3, 4) else 3 if i % 3 == 0 else 1 if i < 8 else 2) for i in range(12)}
    assert tracked(sound(table)) == rows
    source = pa.table({"id": pa.array([1, 3, 9, 20, 21]), "v": ["m", None, "m", "m", "m"]})
    merge = table.merge(source, on="id").when_matched_delete("source.v IS NULL")
    merge.when_matched_update({"v": "source.v"}).when_not_matched_insert(
        {"id": "source.id", "p": 5}
    ).execute()
    del rows[3]
    rows |= {1: (1, 5), 9: (9, 5)}
    found = tracked(sound(table))
    assert {i: found.pop(i)[1] for i in (12, 13)} == {12: 5, 13: 5}
    assert found == rows
    table.compact(full=True)
    table.update({"v": "'last'"}, where="id < 2")
    rows |= {i: (i, table.snapshots()[-1].id) for i in (0, 1)}
    assert {i: row for i, row in tracked(sound(table)).items() if i < 12} == rows
    values = table.to_arrow(where="id IN (1, 4, 9)").sort_by("id").column("v").to_pylist()
    assert values == ["last", "v4 more", "m"]
    assert [one.next_row_id for one in table.snapshots()][-3:] == [14, 14, 14]


@covers("APP-24", "APP-32")
def test_an_update_of_rows_that_have_no_ids_is_refused(tmp_path: Path) -> None:
    """Row tracking was switched on by a writer of someone else when rows were there."""
    table = made(tmp_path)
    table.append(some(0, 5))
    stored = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(stored.read_text())
    del schema["pktable.crc32"]
    stored.write_text(json.dumps({**schema, "options": TRACKED}))
    table = Table.open(table.path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        CorruptFileError, match="row ids: expected a first id or a column of ids in each file"
    ):
        table.update({"v": "'x'"}, where="id = 1")
    assert sorted(tmp_path.rglob("*")) == before


@covers("APP-24")
def test_a_table_with_a_key_has_no_row_tracking(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"row-tracking\.enabled='true' is not supported: expected a table w"
    ):
        Table.create(tmp_path / "t", "id INT", primary_key="id", options=TRACKED)
