"""Row tracking: each row has an id and the snapshot that wrote it, and keeps both when it is written again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pktable import CommitId, InvalidRequestError, Table
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import path_of, rows_of
from model_tests.append.test_writing import made, some, sound
from model_tests.real_data import needs_shared

TRACKED = {"row-tracking.enabled": "true"}
KINDS = {"vectors": {**TRACKED, "deletion-vectors.enabled": "true"}, "files written again": TRACKED}
each_kind = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)


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
def test_a_table_of_paimon_goes_on_with_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(path_of("ap_rowtrack"), path)
    table = Table.open(path)
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
def test_a_compacted_file_has_the_columns_of_paimons(tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(path_of("ap_rowtrack"), path)
    table = Table.open(path)
    theirs = next(f for files in table.catalog.state(6).files.values() for f in files if f.file_source == 1)
    table.compact(full=True)
    ours = next(f for files in table.catalog.state().files.values() for f in files if f.file_source == 1)
    assert ours.file_name != theirs.file_name
    assert (ours.write_cols, ours.first_row_id) == (theirs.write_cols, None)
    schemas = [pq.read_schema(path / "bucket-0" / one.file_name) for one in (ours, theirs)]
    fields = [[(f.name, f.type, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in one] for one in schemas]
    assert fields[0] == fields[1]


@covers("APP-24")
def test_a_table_with_a_key_has_no_row_tracking(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"row-tracking\.enabled='true' is not supported: expected a table w"
    ):
        Table.create(tmp_path / "t", "id INT", primary_key="id", options=TRACKED)
