"""The daemon that forks Spark's Python workers with pktable's modules imported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from pktable.run.spark import daemon
from pktable.run.spark.session import worker_daemon

from model_tests.backends.spark_session import spark_session

HAS_TASKS = pytest.mark.skipif(
    not os.path.isdir(daemon.TASKS), reason="only Linux lists the threads of a process"
)


OUR_DAEMON, SPARKS_DAEMON = "pktable.run.spark.daemon", "pyspark.daemon"


class ReplacedError(Exception):
    """The process would run another program now."""


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line that this process would become."""
    command: list[str] = []

    def execv(_: str, arguments: list[str]) -> None:
        command.extend(arguments)
        raise ReplacedError

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    for name, value in daemon.WITHOUT_THREADS.items():
        monkeypatch.setenv(name, value)
    return command


@pytest.mark.versions
@pytest.mark.spark
@HAS_TASKS
def test_workers_are_forked_from_a_process_with_one_thread_and_our_modules() -> None:
    def look(batches: Iterator[object]) -> Iterator[object]:
        parent = f"/proc/{os.getppid()}"
        has_runner = "pktable.run.spark.runner" in sys.modules
        arguments = Path(f"{parent}/cmdline").read_text().split("\0")
        for _ in batches:
            pass
        found = [" ".join(arguments), str(has_runner), str(len(os.listdir(f"{parent}/task")))]
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"found": ["|".join(found)]})

    rows = spark_session().range(4).mapInArrow(look, "found string").distinct().collect()
    ((found,),) = rows
    command, has_runner, threads = found.split("|")
    assert OUR_DAEMON in command
    assert (has_runner, threads) == ("True", "1")


@HAS_TASKS
def test_the_modules_start_no_thread() -> None:
    code = (
        "import os; from pktable.run.spark import daemon; from importlib import import_module\n"
        "os.environ.update(daemon.WITHOUT_THREADS); [import_module(one) for one in daemon.MODULES]\n"
        "print(len(os.listdir(daemon.TASKS)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"


@HAS_TASKS
def test_a_process_with_two_threads_becomes_sparks_own_daemon(replaced: list[str]) -> None:
    thread = Thread(target=time.sleep, args=(1,))
    thread.start()
    with pytest.raises(ReplacedError):
        daemon.main()
    assert replaced == [sys.executable, "-m", SPARKS_DAEMON, "pyspark.worker"]
    thread.join()


@pytest.mark.parametrize("why", ["a module is missing", "threads cannot be counted"])
def test_what_cannot_be_imported_or_counted_becomes_sparks_own_daemon(
    replaced: list[str], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "a module is missing":
        monkeypatch.setattr(daemon, "MODULES", ("absent_module",))
    else:
        monkeypatch.setattr(daemon, "TASKS", "/absent")
    with pytest.raises(ReplacedError):
        daemon.main()
    assert replaced[1:] == ["-m", SPARKS_DAEMON, "pyspark.worker"]


def test_workers_of_another_interpreter_have_sparks_own_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert worker_daemon() == OUR_DAEMON
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert worker_daemon() == SPARKS_DAEMON
