"""Data files that hold a part of the columns: the others are null, or another file of the same rows has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, Table
from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import encode_schema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import parse_type
from pktable_spec.covers import covers

from model_tests.append.test_data_evolution import EXPECTED, table
from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import at, of_parquet, read_parquet, rewritten

__all__ = ["table"]  # the fixture
KEPT = ["a", "c"]
INTS = [parse_type("INT")] * 2


def with_part(
    file: DataFileMeta, path: Path, write: Callable[[pa.Table, Path], None], suffix: str
) -> DataFileMeta:
    """Write some columns of a file, as a writer does that was given these, with statistics of all of them."""
    rows, target = read_parquet(path).select(KEPT), path.with_suffix(suffix)
    write(rows, target)
    low, high = ([of(rows.column(name).to_pylist()) for name in KEPT] for of in (min, max))
    stats = SimpleStats(encode_row(low, INTS), encode_row(high, INTS), (0, 0))
    return at(replace(file, value_stats=stats, value_stats_cols=None, write_cols=tuple(KEPT)), target)


def as_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, write_page_checksum=True)


def as_orc(rows: pa.Table, path: Path) -> None:
    po.write_table(rows, path)


def parted(path: Path, write: Callable[[pa.Table, Path], None], suffix: str) -> Table:
    made = Table.create(path, "a INT, b STRING, c INT", primary_key=None)
    for start in (0, 10):
        made.append([{"a": i, "b": "x", "c": 100 + i} for i in range(start, start + 10)])
    rewritten(
        path, of_parquet(lambda file, source: with_part(file, source, write, suffix), lambda file, _: file)
    )
    return Table.open(path)


@covers("RD-31", "META-77")
@pytest.mark.parametrize(("write", "suffix"), [(as_parquet, ".part.parquet"), (as_orc, ".orc")])
def test_a_column_that_was_not_written_is_null(
    tmp_path: Path, write: Callable[[pa.Table, Path], None], suffix: str
) -> None:
    table = parted(tmp_path, write, suffix)
    expected = [{"a": i, "b": None if i < 10 else "x", "c": 100 + i} for i in range(20)]
    assert table.to_arrow().sort_by("a").to_pylist() == expected
    assert table.to_arrow(columns=["b"]).column("b").null_count == 10
    assert table.count(where="b IS NULL") == 10
    assert table.count(where="b = 'x' AND c >= 110") == 10
    assert {one.clause for one in table.check().findings} <= {"META-11", "CMT-5"}  # of `rewritten`
    table.compact(full=True)
    assert [file["write_cols"] for file in table.files().to_pylist() if "write_cols" in file] in ([], [None])
    assert Table.open(tmp_path).to_arrow().sort_by("a").to_pylist() == expected


@covers("META-77")
def test_statistics_of_the_columns_that_were_written_rule_the_file_out(tmp_path: Path) -> None:
    table = parted(tmp_path, as_parquet, ".part.parquet")
    (part,) = tmp_path.glob("bucket-0/*.part.parquet")
    part.unlink()
    assert table.count(where="c >= 110") == 10
    with pytest.raises(CorruptFileError, match="expected a file, found none"):
        table.count(where="c >= 109")


@covers("RD-31")
def test_a_column_that_should_be_there_is_damage(tmp_path: Path) -> None:
    table = parted(tmp_path, as_parquet, ".part.parquet")
    rewritten(tmp_path, lambda file, _: replace(file, write_cols=None))
    with pytest.raises(CorruptFileError, match="columns: expected b"):
        Table.open(table.path).to_arrow()


@covers("RD-31", "APP-23")
def test_a_column_of_several_files_is_found_after_it_was_renamed(table: Table) -> None:
    schema = table.schema
    fields = tuple(replace(field, name="z") if field.name == "a" else field for field in schema.fields)
    later = replace(schema, id=schema.id + 1, fields=fields)
    Path(table.path, "schema", f"schema-{later.id}").write_bytes(encode_schema(later))
    found = Table.open(table.path).to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": row["id"], "z": row["a"], "b": row["b"]} for row in EXPECTED]


@pytest.mark.spark
@covers("RD-31")
def test_spark_reads_it_as_null(tmp_path: Path) -> None:
    parted(tmp_path, as_parquet, ".part.parquet")
    table = Table.open(tmp_path, spark=spark_session(), runner="spark")
    assert sorted(map(str, (row.b for row in table.read().collect()))) == ["None"] * 10 + ["x"] * 10
    assert table.read(where="b IS NULL").count() == 10
