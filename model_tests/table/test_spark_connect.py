"""Spark Connect: the tests of the Spark side once more, from a client that has no Java, on a server of its own.

A process has sessions of one kind only. So the client is a pytest of its own, which SPARK_REMOTE tells of the
server. Without a Java in the client, whatever asks for more than the public API has nobody to ask.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pktable_spec.covers import covers

from model_tests.backends.tables import FOR_SMALL_QUERIES

ROOT = Path(__file__).parents[2]
HISTORIES = ("marks_lost_to_a_rewrite", "vectors_switched_on_late")
TESTS = (
    "model_tests/table/test_native_scan.py",
    "model_tests/table/test_executors.py",
    "model_tests/table/test_runner_of_writes.py::test_a_frame_is_computed_once",
    "model_tests/table/test_partition_pruning.py::test_a_filter_on_a_partition_column_opens_no_file_of_another_partition",
    "model_tests/table/test_spark_workers.py::test_an_unfit_interpreter_of_workers_is_named_in_one_line",
    "model_tests/table/test_spark_workers.py::test_an_interpreter_that_does_not_start_is_named_in_one_line",
    "model_tests/table/test_times.py::test_spark_reads_and_writes_times_that_it_can_hold_and_rounds_none",
    "model_tests/predicate/test_predicate_on_spark.py::test_what_spark_cannot_compute_is_refused_in_one_line",
    "model_tests/check/test_check.py::test_spark_finds_the_same",
    "model_tests/cli/test_cli.py::test_spark_reads_what_this_process_reads",
    *(
        f"model_tests/histories/test_histories.py::test_a_stored_history_holds_on_spark[{name}]"
        for name in HISTORIES
    ),
)
SETTINGS = {
    **FOR_SMALL_QUERIES,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "Asia/Tokyo",  # a server is where it is
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
PATIENCE_SECONDS = 60
OUTPUT = 10_000  # characters of the client's that are shown

pytestmark = pytest.mark.spark


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Spark Connect server, gone afterwards. Skips without what Spark Connect needs."""
    try:
        importlib.import_module("pyspark.sql.connect.session")
    except ImportError as error:
        pytest.skip(f"Spark Connect: {error}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.delenv("SPARK_REMOTE", raising=False)  # a server is no client
    home = Path(pyspark.__file__).parent
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port), "spark.local.dir": str(tmp_path)}
    running = subprocess.Popen(
        [
            str(home / "bin" / "spark-submit"),
            "--master=local[2]",
            "--driver-java-options=-XX:TieredStopAtLevel=1",  # what runs for a minute is not worth C2's time
            "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
            *(f"--conf={name}={value}" for name, value in settings.items()),
            "spark-internal",
        ],
        cwd=tmp_path,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not listens(port):
            assert running.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@covers("RD-12")
def test_a_client_of_spark_connect_sees_what_every_other_sees(server: str, tmp_path: Path) -> None:
    client = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=short",
            "--durations=9",
            *TESTS,
        ],
        cwd=ROOT,
        env={**os.environ, "SPARK_REMOTE": server, "JAVA_HOME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    print(client.stdout[-OUTPUT:], client.stderr[-OUTPUT:])
    assert client.returncode == 0
    assert "skipped" not in client.stdout.splitlines()[-1]
