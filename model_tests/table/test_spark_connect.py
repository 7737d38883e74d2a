"""Spark Connect: tests of the Spark side once more, from a client that has no Java, on a server of its own.

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

from model_tests.backends.spark_session import FOR_SHORT_RUNS
from model_tests.backends.tables import FOR_SMALL_QUERIES
from model_tests.table.test_native_scan import WAYS

ROOT = Path(__file__).parents[2]
TESTS: dict[str, tuple[str, ...]] = {
    "table/test_native_scan.py": (
        *(f"test_every_way_to_the_vectors_leaves_the_same_rows[k >= 64 AND k < 700-{way}]" for way in WAYS),
        "test_a_condition_that_can_fail_is_not_asked_of_deleted_rows[filtered_by_lookup]",
        "test_files_of_one_size_are_told_apart_by_name",
        "test_a_file_that_is_gone_is_named",
        "test_the_driver_looks_for_many_files_without_a_job_and_puts_the_setting_back",
    ),
    "table/test_executors.py": (
        "test_executors_write_compact_and_read_in_the_order_of_the_rows",
        "test_rows_of_many_partitions_are_numbered_in_their_order_however_they_travel[100-1 kb]",
        "test_a_value_that_a_column_cannot_hold_leaves_no_file_of_any_task",
        "test_executors_write_rows_of_python_and_pandas",
        "test_frames_of_pandas_on_spark_are_written_without_their_index",
        "test_rows_of_every_chunk_reach_the_executors",
        "test_what_fails_on_an_executor_is_raised_as_what_it_was",
    ),
    "table/test_runner_of_writes.py": ("test_a_frame_is_computed_once",),
    "table/test_partition_pruning.py": tuple(
        f"test_a_filter_on_a_partition_column_opens_no_file_of_another_partition[{case}-as usual]"
        for case in ("some texts-eu-p = 'eu'", "instants-wanted8-p = TIMESTAMP '2024-01-02 12:00:00Z'")
    ),
    "table/test_spark_workers.py": (
        "test_an_unfit_interpreter_of_workers_is_named_in_one_line[no pktable]",
        "test_an_unfit_interpreter_of_workers_is_named_in_one_line[another Python]",
        "test_an_interpreter_that_does_not_start_is_named_in_one_line",
    ),
    "table/test_spark_pitfalls.py": (
        "test_a_session_of_spark_connect_must_itself_have_the_mode_in_which_expressions_fail",
    ),
    "table/test_times.py": ("test_spark_reads_and_writes_times_that_it_can_hold_and_rounds_none",),
    "table/test_variants.py": ("test_a_null_whose_type_has_not_null_inside_is_one_for_spark",),
    "predicate/test_predicate_on_spark.py": tuple(
        f"test_what_spark_cannot_compute_is_refused_in_one_line[{case}]"
        for case in ("id-division", "id-cast", "None-delete", "None-update", "id-merge", "id-checked rows")
    ),
    "statements/test_spark.py": (
        "test_a_key_changed_twice_is_refused_and_an_insert_replaces_what_is_deleted",
        "test_an_update_on_spark_and_its_errors",
    ),
    "warehouse/test_sql.py": (
        "test_a_query_reads_tables_by_name_at_the_versions_that_it_asks_for",
        "test_metadata_tables_have_the_columns_of_paimon",
        "test_tables_are_defined_shown_altered_and_dropped",
        *(
            f"test_a_statement_leaves_the_rows_and_reports_how_many[{case}]"
            for case in (
                "insert by name-keyed",
                "update in Spark's words-plain",
                "merge in Spark's words-keyed",
            )
        ),
    ),
    "check/test_check.py": ("test_spark_finds_the_same",),
    "cli/test_cli.py": ("test_spark_reads_what_this_process_reads",),
}
"""Each way to ask Spark for something, once: what the ways then do with it is the same as without Connect."""

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

pytestmark = [pytest.mark.spark, pytest.mark.versions]


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
            f"--driver-java-options={FOR_SHORT_RUNS}",
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
            *(f"model_tests/{file}::{test}" for file, tests in TESTS.items() for test in tests),
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
