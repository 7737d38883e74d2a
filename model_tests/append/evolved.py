"""Tables with data evolution, as others write them, drawn: columns of the same rows lie in several files.

`pktable` reads such tables and writes none. So rows are appended, and files with some of their columns are put next to
them. The newest file that has a column decides, as plain Python says.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.bucket import read
from pktable.format import binary_row
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.manifest import ADD, DataFileMeta, ManifestEntry
from pktable.format.metadata.schema import encode_schema
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.predicate.conditions import Text, column, compared, conjunction, constant, disjunction, like
from model_tests.seeded import play_at_random
from model_tests.table.foreign_tables import commit

TYPES: Final = {"id": pa.int32(), "a": pa.string(), "b": pa.int32()}
SQL: Final = "id INT, a STRING, b INT"
A, B, ID = column("a"), column("b"), column("id")
CONDITIONS: Final = (
    compared("=", B, constant("2", 2)),
    compared("<", ID, constant("4", 4)),
    like(A, "n%"),
    Text("b IS NULL", lambda row: row["b"] is None),
    conjunction([compared(">", B, constant("1", 1)), like(A, "%1")]),
    disjunction([compared("=", ID, constant("3", 3)), compared("=", A, constant("'old'", "old"))]),
)

Row: TypeAlias = "dict[str, Any]"


def draw(number: int, seed: int) -> None:
    """Play some drawn tables. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Make one table, and read it in several ways."""
    with tempfile.TemporaryDirectory() as folder:
        table, rows = made(Path(folder, "t"), drawn)
        few = mock.patch.object(read, "STITCHED_ROWS", drawn.randint(1, 9))
        with few, mock.patch.object(binary_row, "FEW_ROWS", drawn.choice((0, 32))):
            rows_agree(table, rows, list(TYPES), None)
            for one in drawn.sample(CONDITIONS, 3):
                names = drawn.sample(list(TYPES), drawn.randint(1, 3))
                rows_agree(table, rows, names, one)


def made(path: Path, drawn: random.Random) -> tuple[Table, list[Row]]:
    """Return a table whose rows have columns in several files, and these rows."""
    table = Table.create(path, SQL, primary_key=None)
    rows: list[Row] = []
    groups: list[list[Row]] = []
    for _ in range(drawn.randint(1, 3)):
        group: list[Row] = [
            {"id": len(rows) + i, "a": "old", "b": drawn.choice((1, 2, None))}
            for i in range(drawn.randint(1, 9))
        ]
        table.append(arrow(group, list(TYPES)))
        rows += group
        groups.append(group)
    files: list[DataFileMeta] = []
    for base, group in zip(table.catalog.state().files[EMPTY_ROW, 0], groups, strict=True):
        first = replace(base, first_row_id=group[0]["id"], min_sequence_number=1, max_sequence_number=1)
        files.append(first)
        newest = dict.fromkeys(TYPES, 1)
        for sequence in drawn.sample(range(2, 60), drawn.randint(0, 3)):
            names = drawn.choice((["a"], ["b"], ["a", "b"], ["b", "a"]))
            new = [
                {"a": drawn.choice(("new", "n1", None)), "b": drawn.choice((1, 2, 3, None))} for _ in group
            ]
            stored = arrow(new, names)
            files.append(written(path, stored, first, sequence, names))
            for name in (one for one in names if sequence > newest[one]):
                newest[name] = sequence
                for row, values in zip(group, new, strict=True):
                    row[name] = values[name]
    drawn.shuffle(files)
    return evolved(table, files), rows


def arrow(rows: Sequence[Row], names: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in names})


def written(
    root: Path, rows: pa.Table, like_file: DataFileMeta, sequence: int, columns: Sequence[str]
) -> DataFileMeta:
    """Write a file with some columns of the rows of another one."""
    name = f"data-{like_file.first_row_id}-{'-'.join(columns)}-{sequence}.parquet"
    path = root / "bucket-0" / name
    pq.write_table(rows, path, row_group_size=7, compression="zstd")
    return replace(
        like_file,
        file_name=name,
        file_size=path.stat().st_size,
        row_count=rows.num_rows,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        write_cols=tuple(columns),
        value_stats_cols=(),
        value_stats=replace(
            like_file.value_stats, min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=()
        ),
    )


def evolved(table: Table, files: Sequence[DataFileMeta]) -> Table:
    """Make ``files`` those of the table, and let it have data evolution."""
    commit(Path(table.path), [ManifestEntry(ADD, EMPTY_ROW, 0, -1, file) for file in files], [])
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    schema = replace(table.schema, options=options)
    Path(table.path, "schema", "schema-0").write_bytes(encode_schema(schema))
    return Table.open(table.path)


@check
@covers("APP-23", "RD-6", "RD-9")
def rows_agree(table: Table, rows: Sequence[Row], names: Sequence[str], condition: Text | None) -> None:
    """Compare the rows that a read gives, and their number, with those of plain Python."""
    chosen = [row for row in rows if condition is None or condition.of(row) is True]
    where = condition.sql if condition else None
    found = table.to_arrow(columns=list(names), where=where).to_pylist()
    expected = [{name: row[name] for name in names} for row in chosen]
    if sorted(map(str, found)) != sorted(map(str, expected)):
        fail(f"{where}: expected {expected}, found {found}")
    if table.count(where=where) != len(chosen):
        fail(f"{where}: expected {len(chosen)} rows, counted {table.count(where=where)}")
