"""Which Python Spark's workers run, and what a caller reads when it is not one that can do the work."""

from __future__ import annotations

import importlib
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.run.spark.errors import too_little_memory
from pktable.run.spark.wire import BLOBS, collected
from pktable.run.spark.workers import map_batches, run_this_interpreter
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.versions]

INTERPRETER = "spark.sql.execution.pyspark.python"
PYTHON = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
ROWS = 100

# Modules that an interpreter finds before all others, and what is said of it then.
UNFIT = {
    "no pktable": (
        {"pktable/__init__.py": """raise ModuleNotFoundError("No module named 'pktable'")"""},
        r"found .*\(No module named 'pktable'\)",
    ),
    "another pktable": (
        {"pktable/__init__.py": "", "pktable/run/spark/runner.py": ""},
        r"found \S+/bin/python\S* \(.*pktable",
    ),
    "no pyroaring": (
        {"pyroaring/__init__.py": """raise ModuleNotFoundError("No module named 'pyroaring'")"""},
        r"found \S+/bin/python\S* \(No module named 'pyroaring'\)",
    ),
    "no pyarrow": (
        {"pyarrow/__init__.py": """raise ModuleNotFoundError("No module named 'pyarrow'")"""},
        r"found .*\(No module named 'pyarrow'\)",
    ),
    "another Python": (
        {
            "sitecustomize.py": "import collections, sys\n"
            "kind = collections.namedtuple('version_info', 'major minor micro releaselevel serial')\n"
            "sys.version_info = kind(4, 0, 0, 'final', 0)\n"
        },
        r"found Python 4\.0;",
    ),
}


def interpreter(folder: Path, modules: dict[str, str]) -> Path:
    """Return an interpreter like this one, to which ``modules`` come first."""
    for name, text in modules.items():
        path = folder / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = ["#!/bin/sh", f'PYTHONPATH="{folder}/modules:$PYTHONPATH" exec "{sys.executable}" "$@"']
    return executable(folder / "python", lines)


def executable(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join([*lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """An empty table, in a session whose interpreter is put back afterwards."""
    spark = spark_session()
    yield Table.create(tmp_path / "t", "id BIGINT", primary_key=["id"], spark=spark, runner="spark")
    spark.conf.unset(INTERPRETER)


def refused(table: Table) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        table.upsert(spark_session().range(ROWS))
    message = str(refused.value)
    assert "\n" not in message
    assert refused.value.__suppress_context__, "the page of Java is shown too"
    assert "set PYSPARK_PYTHON" in message
    assert list(Path(table.path).rglob("data-*")) == []
    return message


@covers("RD-12")
@pytest.mark.parametrize("lacking", UNFIT)
def test_an_unfit_interpreter_of_workers_is_named_in_one_line(
    table: Table, tmp_path: Path, lacking: str
) -> None:
    modules, found = UNFIT[lacking]
    spark_session().conf.set(INTERPRETER, str(interpreter(tmp_path, modules)))
    message = refused(table)
    assert message.startswith(f"Spark worker: expected {PYTHON} with pktable, found ")
    assert re.search(found, message), message


@covers("RD-12")
def test_an_interpreter_that_does_not_start_is_named_in_one_line(table: Table, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    spark_session().conf.set(INTERPRETER, absent)
    assert f"found {absent}, which cannot be run (No such file" in refused(table)
    spark_session().conf.set(INTERPRETER, str(executable(tmp_path / "ends", ["#!/bin/sh", "exit 1"])))
    assert "found an interpreter that does not start" in refused(table)


class Remote:
    """A session of Spark Connect, as far as its settings go."""

    def __init__(self, host: str) -> None:
        self.settings: dict[str, str] = {}
        self.conf, self.client = self, SimpleNamespace(host=host)

    def get(self, name: str, default: None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@covers("WH-17")
def test_a_server_of_this_process_runs_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*given: str, host: str = "localhost") -> dict[str, str]:
        session: Any = Remote(host)
        session.settings.update(dict.fromkeys(given, "/named/by/the/user"))
        assert not run_this_interpreter(session)
        return dict(session.settings)

    for name in ("SPARK_LOCAL_REMOTE", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    assert told() == {}
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert told() == {INTERPRETER: sys.executable}
    assert told(host="elsewhere") == {}, "a process may inherit the variable"
    assert told(INTERPRETER) == {INTERPRETER: "/named/by/the/user"}
    monkeypatch.setenv("PYSPARK_PYTHON", "/named/by/the/user")
    assert told() == {}


@covers("RD-12")
def test_a_module_that_only_some_work_needs_and_workers_lack_is_named_in_one_line() -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("absent_module")
        yield from batches

    frame = map_batches(spark_session().range(1), work, BLOBS)
    with pytest.raises(InvalidRequestError, match=r"found \S+ \(No module named 'absent_module'\); install"):
        collected(frame)


def test_a_driver_without_the_memory_that_a_plan_needs_is_named_in_one_line(table: Table) -> None:
    frame = spark_session().sql("SELECT 1L AS id, repeat('x', 2147483600) AS s").where("length(s) > 1")
    with pytest.raises(InvalidRequestError, match=r"raise spark\.driver\.memory") as refused:
        table.upsert(frame.select("id"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("limit", ["(1024.0 MiB)", "1024.0 MiB."])
def test_results_without_room_in_the_driver_are_named_in_one_line(limit: str) -> None:
    said = "Total size of serialized results of 9 tasks (1.1 GiB) is bigger than spark.driver.maxResultSize "
    error = too_little_memory(f"Job aborted due to stage failure: {said}{limit}\nat java")
    assert str(error) == (
        "Spark: results for the driver are larger than spark.driver.maxResultSize (1024.0 MiB); "
        "raise that before Spark starts, or read less at a time"
    )


SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pktable import Table

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = Table.create(sys.argv[1], "id BIGINT", primary_key=["id"], spark=spark, runner="spark")
table.upsert(spark.range(int(sys.argv[2])))
assert table.count(fresh=True) == int(sys.argv[2])
assert spark.sparkContext.pythonExec == "python3", "the user's own functions are run by another interpreter"
"""


@covers("RD-12")
def test_workers_of_a_venv_that_is_not_activated_run_its_interpreter(tmp_path: Path) -> None:
    first = executable(tmp_path / "python3", ["#!/bin/sh", f"touch {tmp_path}/was-run", "exit 1"])
    path = f"{first.parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "t"), str(ROWS)],
        env={**kept, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not (tmp_path / "was-run").exists()
