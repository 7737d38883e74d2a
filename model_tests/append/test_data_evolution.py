"""Columns of the same rows in several files: the newest file that has a column decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.bucket import read
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.schema import encode_schema
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.append.evolved import evolved, written

ROWS = 50


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table whose rows 0 to 49 have column a of a second file, and b of a third; the others are in one file."""
    made = Table.create(tmp_path / "t", "id INT, a STRING, b INT", primary_key=None)
    for start in (0, ROWS):
        numbers = range(start, start + ROWS)
        made.append(
            pa.table(
                {
                    "id": pa.array(numbers, pa.int32()),
                    "a": ["first"] * ROWS,
                    "b": pa.array([1] * ROWS, pa.int32()),
                }
            )
        )
    files = [replace(f, first_row_id=i * ROWS, min_sequence_number=1, max_sequence_number=1)
             for i, f in enumerate(made.catalog.state().files[EMPTY_ROW, 0])]  # fmt: skip
    for sequence, column, values in (
        (2, "a", [f"new {i}" for i in range(ROWS)]),
        (3, "b", list(range(ROWS))),
    ):
        stored = pa.table({column: pa.array(values, pa.string() if column == "a" else pa.int32())})
        files.append(written(Path(made.path), stored, files[0], sequence, [column]))
    return evolved(made, files)


EXPECTED = [{"id": i, "a": f"new {i}", "b": i} for i in range(ROWS)] + [
    {"id": i, "a": "first", "b": 1} for i in range(ROWS, 2 * ROWS)
]


@covers("APP-23")
@pytest.mark.parametrize("batch", [1 << 14, 9])
def test_each_column_is_that_of_the_newest_file_that_has_it(
    table: Table, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "STITCHED_ROWS", batch)
    assert table.to_arrow().sort_by("id").to_pylist() == EXPECTED
    assert table.to_arrow(columns=["b"], where="a = 'new 7'").to_pylist() == [{"b": 7}]
    assert table.to_arrow(columns=["id"], where="b = 1 AND id < 50").to_pylist() == [{"id": 1}]
    assert table.count() == 2 * ROWS
    assert table.count(where="a LIKE 'new%'") == ROWS
    splits = table.scan().splits()
    assert sum(part.num_rows for split in splits for part in split.read()) == 2 * ROWS
    report = check(table.path, snapshot=table.catalog.state().id)
    # `commit` states the count of the snapshot before, and the next row id.
    errors = {one.clause for one in report.findings if one.severity == "error"}
    assert errors <= {"APP-24", "META-11"}
    assert report.rows == 4 * ROWS


@covers("APP-23")
def test_files_of_the_same_rows_must_have_as_many(table: Table) -> None:
    files = list(table.catalog.state().files[EMPTY_ROW, 0])
    short = pa.table({"b": pa.array(range(3), pa.int32())})
    files[-1] = written(Path(table.path), short, files[0], 9, ["b"])
    with pytest.raises(CorruptFileError, match="rows of files with one row id"):
        evolved(table, files).to_arrow()


@covers("APP-23")
def test_a_check_says_that_reads_with_deletion_vectors_are_refused(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
    made = Table.create(tmp_path / "t", "id BIGINT", primary_key=None, options=options)
    made.append([{"id": i} for i in range(8)])
    made.delete(where="id < 5")
    assert not [one for one in check(made.path).findings if "refused" in str(one)]
    schema = replace(made.schema, options={**options, "data-evolution.enabled": "true"})
    Path(made.path, "schema", "schema-0").write_bytes(encode_schema(schema))
    with pytest.raises(InvalidRequestError, match="data evolution with deletion vectors is not supported"):
        Table.open(made.path).to_arrow()
    (note,) = (one for one in check(made.path).findings if one.clause == "APP-23")
    assert note.severity == "note"
    assert "because of which reads are refused" in str(note)
