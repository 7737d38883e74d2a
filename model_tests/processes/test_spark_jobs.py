"""Several Spark jobs at once on one bucket: writes, deletes and compactions, each with a table object of its own."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import CommitConflictError, Table
from pktable.run.spark.runner import SparkRunner
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.deep("Spark jobs at once on one bucket lose a commit")]

JOBS, WRITES, ROWS = 3, 2, 40
OPTIONS = {"deletion-vectors.enabled": "true"}


def sent_out(path: Path) -> Table:
    """Open the table so that executors do all work, however little."""
    table = Table.open(path, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    return table


def write(path: Path, job: int) -> None:
    """Upsert keys of this job, and one that all jobs share; then delete the first of them."""
    table = sent_out(path)
    for number in range(WRITES):
        first = (job * WRITES + number) * ROWS
        keys = [-1, *range(first, first + ROWS)]
        table.upsert(pa.table({"k": pa.array(keys, pa.int64()), "v": [first] * len(keys)}))
    table.delete({"k": job * WRITES * ROWS})


def compact(path: Path) -> None:
    table, drawn = sent_out(path), random.Random(1)
    for _ in range(WRITES):
        try:
            table.compact(full=drawn.random() < 0.5)
        except CommitConflictError:
            continue
        table.expire_snapshots(retain_last=2)


@covers("CMT-10", "CMT-24", "CMT-7", "CMT-14")
def test_jobs_of_one_bucket_lose_no_row_and_write_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "t"
    Table.create(path, "k BIGINT, v BIGINT", primary_key="k", options=OPTIONS)
    with ThreadPoolExecutor(JOBS + 1) as threads:
        works = [threads.submit(write, path, job) for job in range(JOBS)]
        works.append(threads.submit(compact, path))
        for work in works:
            work.result()
    table = Table.open(path)
    rows = table.to_arrow(fresh=True)
    expected = set(range(JOBS * WRITES * ROWS)) - {job * WRITES * ROWS for job in range(JOBS)} | {-1}
    assert sorted(rows["k"].to_pylist()) == sorted(expected)
    values = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert all(value == key // ROWS * ROWS for key, value in values.items() if key >= 0)
    assert values[-1] % ROWS == 0
    assert not table.check().findings
