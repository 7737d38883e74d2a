"""How many tiny steps a second: what the model tests and small tables live on.

A local step is one upsert of two rows, with or without the compaction after it. A model step is one operation
of the state machine on Spark with all the checks that follow it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table

from model_tests.histories.profiles import PROFILES
from model_tests.histories.run import run_histories

STEPS = 100


def rows(number: int) -> pa.Table:
    return pa.table({"k": pa.array([number % 5, number % 3], pa.int32()), "v": ["x", "y"]})


@pytest.mark.parametrize("write_only", [False, True])
def test_local_steps(benchmark: Any, tmp_path: Path, write_only: bool) -> None:
    """100 upserts of two rows: each an APPEND and a COMPACT snapshot, or write-only an APPEND."""
    numbers = itertools.count()

    def new_table() -> tuple[tuple[Table], dict[str, Any]]:
        path = tmp_path / str(next(numbers))
        options = {"deletion-vectors.enabled": "true", "write-only": str(write_only).lower()}
        table = Table.create(path, "k INT, v STRING", primary_key=["k"], options=options)
        return (table,), {}

    def steps(table: Table) -> None:
        for number in range(STEPS):
            table.upsert(rows(number))

    benchmark.pedantic(steps, setup=new_table, rounds=5, warmup_rounds=1)
    benchmark.extra_info["steps per second"] = round(STEPS / benchmark.stats.stats.median)


@pytest.mark.parametrize("backend", ["model", "local", "spark"])
def test_model_steps(benchmark: Any, backend: str) -> None:
    """Steps of the state machine with all checks; Spark's start-up is not counted."""
    profile = replace(PROFILES[backend, "quick"], histories=12, steps=8, seed=7)
    run_histories(backend, replace(profile, histories=6))
    reports = []
    benchmark.pedantic(lambda: reports.append(run_histories(backend, profile)), rounds=3)
    assert not any(report.mismatches for report in reports)
    benchmark.extra_info["steps per second"] = round(
        reports[-1].stats.steps / benchmark.stats.stats.median, 1
    )
