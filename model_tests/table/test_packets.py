"""Rows that travel in packets come to their tasks whole and in the caller's order, whatever part of them is on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pktable import InvalidRequestError
from pktable_spec.covers import covers

pytest.importorskip("pyspark")
from pktable.run.spark import packets
from pktable.run.spark.packets import Division, Gathered, failure, packed

ROWS = pa.table(
    {
        "v": range(3000),
        "s": [f"text {i}" * (i % 5) if i % 7 else None for i in range(3000)],
        "l": [[i] * (i % 3) for i in range(3000)],
    }
)


def sent(tasks: int, packet_bytes: int) -> list[pa.RecordBatch]:
    """Return the packets of two tasks, in the order of nobody: row v goes to task v % ``tasks``."""
    division = Division(lambda rows: np.asarray(rows.column("v")) % tasks, tasks, packet_bytes)
    given = [ROWS.slice(start, 70) for start in range(0, ROWS.num_rows, 70)]
    batches = [*packed(given[:20], division, 0), *packed(given[20:], division, 1 << 33)]
    single = [batch.slice(i, 1) for batch in batches for i in range(batch.num_rows)]
    return [single[i] for i in np.random.default_rng(3).permutation(len(single))]


@covers("LSM-5", "TBL-5", "TBL-6")
@pytest.mark.parametrize("tasks", [1, 3, 1000])
@pytest.mark.parametrize("packet_bytes", [1, 1 << 10, 1 << 20])
@pytest.mark.parametrize("most_bytes", [1 << 10, 1 << 30])
def test_rows_of_packets_come_in_order_in_tables_of_the_limit_and_leave_no_file(
    tasks: int, packet_bytes: int, most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "SHARE_BYTES", 10_000)  # so that rows are divided in several pieces of work
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    arriving = sent(tasks, packet_bytes)
    rows_of = {task: ROWS.filter(np.arange(ROWS.num_rows) % tasks == task) for task in range(tasks)}
    with Gathered(most_bytes) as gathered:
        found = list(gathered.in_order(arriving))
        assert pa.concat_tables(found) == pa.concat_tables(rows_of.values())
        assert not list(tmp_path.iterdir())
        if most_bytes == 1 << 10:
            assert max(table.nbytes for table in found) < 2 * most_bytes + packet_bytes
        else:
            assert len(found) == tasks
    assert not list(tmp_path.iterdir())


@covers("TBL-6")
def test_packets_are_about_as_large_as_they_may_be() -> None:
    sizes = [len(batch.column("packet")[0].as_py()) for batch in sent(2, 8 << 10)]
    assert max(sizes) < 12 << 10
    assert np.median(sizes) > 6 << 10
    # Arrow reads values best where they are aligned, also where packets follow each other.
    assert all(size % 8 == 0 for size in sizes)


@covers("TBL-6", "TBL-8")
def test_a_packet_can_be_an_error() -> None:
    with Gathered(1 << 30) as gathered, pytest.raises(InvalidRequestError, match="column v"):
        list(gathered.in_order([*sent(2, 100), failure(InvalidRequestError("column v"))]))


def test_no_packets_are_no_rows() -> None:
    with Gathered(10) as gathered:
        assert not list(gathered.in_order([]))
