"""Rows that a Spark task gathers in any order are given in the caller's order, whatever part of them is on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pktable_spec.covers import covers

pytest.importorskip("pyspark")
from pktable.run.spark.gathered import Gathered


@covers("LSM-5", "TBL-6")
@pytest.mark.parametrize(("most_bytes", "tables"), [(1 << 30, 1), (4000, 12), (1, 143)])
def test_gathered_rows_come_in_order_in_tables_of_the_limit_and_leave_no_file(
    most_bytes: int, tables: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    order = np.random.default_rng(3).permutation(1000).astype(np.int64) << 33
    rows = pa.table({"o": order, "v": order >> 33, "s": [f"text {i}" for i in order >> 33]})
    with Gathered("o", most_bytes) as gathered:
        for start in range(0, 1000, 7):
            gathered.add(rows.slice(start, 7))
        found = list(gathered.in_order())
        assert pa.concat_tables(found) == rows.sort_by("o").drop_columns(["o"])
        assert len(found) <= tables
        if most_bytes == 4000:
            assert max(table.nbytes for table in found) < 3 * most_bytes
            assert len(found) > 5
            assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_nothing_gathered_is_nothing_given() -> None:
    with Gathered("o", 10) as gathered:
        assert not list(gathered.in_order())
