"""An executor of a Spark cluster is killed in the middle of a write and of a compaction: no row is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pktable_spec.covers import covers

from model_tests.processes.run import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.deep("an executor that dies leaves a row out or twice")]


@covers("CMT-12", "CMT-25", "CMT-48", "TBL-6")
def test_an_executor_that_is_killed_costs_no_row(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, "-m", "model_tests.processes.executors", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=600,
        check=False,
    )
    if done.returncode == 2:
        pytest.skip(f"a standalone cluster of Spark cannot be started here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["killed"] == ["upsert", "full compaction"], "the work was done before the kill"
    assert (found["rows"], found["sum"]) == (found["expected_rows"], found["expected_sum"])
    orphans = ("CMT-12", "CMT-28", "CMT-30")
    others = [
        what for severity, clause, what in found["findings"] if severity == "error" or clause not in orphans
    ]
    assert not others
    assert not found["findings_at_the_end"]
