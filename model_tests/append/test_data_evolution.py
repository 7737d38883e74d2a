"""Columns of the same rows in several files: the newest file that has a column decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, Table
from pktable.bucket import read
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.manifest import ADD, DataFileMeta, ManifestEntry
from pktable.format.metadata.schema import encode_schema
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.table.foreign_tables import commit

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
        files.append(_written(Path(made.path), stored, files[0], sequence, [column]))
    _replaced(made, files)
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    schema = replace(made.schema, options=options)
    Path(made.path, "schema", "schema-0").write_bytes(encode_schema(schema))
    return Table.open(made.path)


def _written(
    root: Path, rows: pa.Table, like: DataFileMeta, sequence: int, columns: Sequence[str]
) -> DataFileMeta:
    name = f"data-{'-'.join(columns)}-{sequence}.parquet"
    path = root / "bucket-0" / name
    pq.write_table(rows, path, row_group_size=7)
    return replace(
        like,
        file_name=name,
        file_size=path.stat().st_size,
        row_count=rows.num_rows,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        write_cols=tuple(columns),
        value_stats_cols=(),
        value_stats=replace(like.value_stats, min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=()),
    )


def _replaced(table: Table, files: Sequence[DataFileMeta]) -> None:
    commit(Path(table.path), [ManifestEntry(ADD, EMPTY_ROW, 0, -1, file) for file in files], [])


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
    assert {one.clause for one in report.findings} <= {
        "META-11"
    }  # `commit` states the count of the snapshot before
    assert report.rows == 4 * ROWS


@covers("APP-23")
def test_files_of_the_same_rows_must_have_as_many(table: Table) -> None:
    files = list(table.catalog.state().files[EMPTY_ROW, 0])
    short = pa.table({"b": pa.array(range(3), pa.int32())})
    files[-1] = _written(Path(table.path), short, files[0], 9, ["b"])
    _replaced(table, files)
    with pytest.raises(CorruptFileError, match="rows of files with one row id"):
        Table.open(table.path).to_arrow()
