"""The kernel against the copy of the same bytes, and the DV read against a read of the compacted table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import Table

ROWS = 2_000_000
OPTIONS = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "5"}


def rows(keys: Any, seed: int) -> pa.Table:
    values = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "a": pa.array(values.integers(0, 1 << 40, len(keys))),
            "b": pa.array(values.random(len(keys))),
            "s": pa.array(np.char.add("name ", values.integers(0, 5000, len(keys)).astype(str))),
        }
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("bench")
    table = Table.create(path, "k BIGINT, a BIGINT, b DOUBLE, s STRING", primary_key=["k"], options=OPTIONS)
    table.upsert(rows(np.arange(ROWS), 1))
    table.upsert(rows(np.arange(0, ROWS, 5), 2))
    assert sum(table.files().column("deleted_row_count").to_pylist()) == ROWS // 5
    return table


def test_write_with_lookup_compaction(benchmark: Any, tmp_path: Path) -> None:
    """400,000 upserts into 2,000,000 rows: the level-0 file, the lookup, the vectors, both commits."""
    numbers = iter(range(100))

    def fresh() -> tuple[tuple[Table], dict[str, Any]]:
        path = tmp_path / str(next(numbers))
        table = Table.create(
            path, "k BIGINT, a BIGINT, b DOUBLE, s STRING", primary_key=["k"], options=OPTIONS
        )
        table.upsert(rows(np.arange(ROWS), 1))
        return (table,), {}

    upserts = rows(np.arange(0, ROWS, 5), 2)
    benchmark.pedantic(lambda table: table.upsert(upserts), setup=fresh, rounds=3)
    benchmark.extra_info["rows per second"] = round(upserts.num_rows / benchmark.stats.stats.median)


def test_full_compaction(benchmark: Any, tmp_path: Path) -> None:
    """Merge 2,000,000 rows with 400,000 newer ones into one run."""
    numbers = iter(range(100))

    def fresh() -> tuple[tuple[Table], dict[str, Any]]:
        path = tmp_path / str(next(numbers))
        options = {**OPTIONS, "write-only": "true"}
        table = Table.create(
            path, "k BIGINT, a BIGINT, b DOUBLE, s STRING", primary_key=["k"], options=options
        )
        table.upsert(rows(np.arange(ROWS), 1))
        table.upsert(rows(np.arange(0, ROWS, 5), 2))
        return (table,), {}

    benchmark.pedantic(lambda table: table.compact(full=True), setup=fresh, rounds=3)


def test_copy_floor_of_a_full_compaction(benchmark: Any, base: Table, tmp_path: Path) -> None:
    """The floor: read the same files and write as many rows once, nothing compared."""
    paths = [str(path) for path in Path(base.path).glob("bucket-0/data-*")]

    def copy() -> None:
        table = pa.concat_tables([pq.read_table(path) for path in paths]).slice(0, ROWS)
        pq.write_table(table, tmp_path / "copy.parquet", compression="zstd", compression_level=1)

    benchmark.pedantic(copy, rounds=3)


@pytest.fixture(scope="module")
def unmerged(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("unmerged")
    options = {**OPTIONS, "write-only": "true"}
    table = Table.create(path, "k BIGINT, a BIGINT, b DOUBLE, s STRING", primary_key=["k"], options=options)
    table.upsert(rows(np.arange(ROWS), 1))
    table.upsert(rows(np.arange(0, ROWS, 5), 2))
    return table


def test_read_filtered_by_position(benchmark: Any, base: Table) -> None:
    """2,000,000 live rows, 20 % of the older file marked."""
    assert benchmark.pedantic(base.to_arrow, rounds=5).num_rows == ROWS


def test_read_merged(benchmark: Any, unmerged: Table) -> None:
    """The same rows, the two runs merged by the read."""
    assert benchmark.pedantic(lambda: unmerged.to_arrow(fresh=True), rounds=5).num_rows == ROWS
