"""``python -m model_tests.processes.executors FOLDER``: kill executors of a Spark cluster in the middle of their work.

The cluster is a master and two workers of one core each on this machine, from the scripts of the pip package. With
speculation on, a slow task is started a second time, so that two executors write for the same bucket. In an upsert of
100,000 rows and in a full compaction one executor is killed (SIGKILL) as soon as it has begun a file. Prints one JSON
object, see `Outcome`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyspark
from pktable import Table
from pktable.run.spark.runner import SparkRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROWS: Final = 100_000
EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
PATIENCE: Final = 300
"""Seconds for a part of the cluster to start."""


@dataclass
class Outcome:
    """The outcome. ``killed``: the work in which an executor was killed before that work ended.

    ``rows``, ``sum``: of the values that are there at the end; ``expected_…``: of those that were written.
    ``findings``: severity, clause and text of each, before the orphans were removed.
    """

    killed: list[str]
    rows: int
    sum: int
    expected_rows: int
    expected_sum: int
    findings: list[tuple[str, str, str]]
    findings_at_the_end: list[str]
    failed_tasks: int


class ClusterError(Exception):
    """The cluster does not start here."""


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a master and two workers, and yield the address of the master. Raises ClusterError."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            command = ["bash", str(script), *arguments]
            processes.append(
                subprocess.Popen(
                    command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
                )
            )

    try:
        host = ("--host", "127.0.0.1", "--webui-port", "0")
        start("master", "org.apache.spark.deploy.master.Master", *host, "--port", str(port))
        _wait_for(folder / "master.log", "I have been elected leader")
        for name in ("worker-1", "worker-2"):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name))
            start(name, "org.apache.spark.deploy.worker.Worker", *host, *size, address)
        for name in ("worker-1", "worker-2"):
            _wait_for(folder / f"{name}.log", "Successfully registered with master")
        yield address
    finally:
        for process in processes:  # a worker ends its executors when it is asked to end
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(log: Path, text: str) -> None:
    until = time.monotonic() + PATIENCE
    while text not in log.read_text("utf-8", "replace"):
        if time.monotonic() > until:
            raise ClusterError(f"{log.name} does not say {text!r} within {PATIENCE} seconds")
        time.sleep(0.1)


def session_on(address: str) -> SparkSession:
    """Return a session on the cluster, with speculation."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(address).appName("executors-killed")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def executors(session: SparkSession) -> list[int]:
    """Return the process ids of the session's executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if EXECUTOR.encode() in words and session.sparkContext.applicationId.encode() in words:
            found.append(int(path.parent.name))
    return sorted(found)


class Killer:
    """Kills an executor when files of a piece of work begin to appear."""

    def __init__(self, session: SparkSession, table: Path) -> None:
        self.session, self.table, self.killed = session, table, list[str]()

    def during(self, name: str, work: Callable[[], object]) -> None:
        """Do some work, and kill an executor in the middle of it."""
        before, done = self._files(), threading.Event()

        def kill() -> None:
            while not done.is_set():
                if self._files() - before and (found := executors(self.session)):
                    os.kill(found[0], signal.SIGKILL)
                    if not done.is_set():
                        self.killed.append(name)
                    return
                time.sleep(0.002)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            work()
        finally:
            done.set()
            thread.join()

    def _files(self) -> set[str]:
        return {str(path) for path in self.table.glob("bucket-*/*")}


def run(folder: Path, address: str) -> Outcome:
    """Do the work, and return what is left of it."""
    session, path = session_on(address), folder / "table"
    options = {"deletion-vectors.enabled": "true", "bucket": "4", "write-only": "false"}
    table = Table.create(path, "k BIGINT, v BIGINT", primary_key="k", options=options, spark=session)
    # Also what the driver would do itself goes to the executors.
    table.runner = table.stager.runner = SparkRunner(session)
    killer = Killer(session, path)
    frame = session.range(ROWS).select(F.col("id").alias("k"), F.col("id").alias("v"))
    killer.during("upsert", lambda: table.upsert(frame))
    _await_two(session)
    half = session.range(ROWS // 2).select((F.col("id") * 2).alias("k"), F.lit(-1).cast("bigint").alias("v"))
    table.upsert(half)
    killer.during("full compaction", lambda: table.compact(full=True))
    tracker = session.sparkContext.statusTracker()
    failed = sum(
        info.numFailedTasks
        for job in tracker.getJobIdsForGroup()
        if (found := tracker.getJobInfo(job))
        for stage in found.stageIds
        if (info := tracker.getStageInfo(stage))
    )
    session.stop()
    return _judged(path, killer.killed, failed)


def _await_two(session: SparkSession) -> None:
    """Wait until the cluster has started an executor in place of the one that was killed."""
    until = time.monotonic() + PATIENCE
    while len(executors(session)) < 2 and time.monotonic() < until:
        time.sleep(0.1)


def _judged(path: Path, killed: list[str], failed: int) -> Outcome:
    """Read the table without Spark, check it, and remove its orphans."""
    table = Table.open(path)
    values = table.to_arrow()["v"].to_pylist()
    findings = [(one.severity, one.clause, str(one)) for one in table.check().findings]
    table.expire_snapshots(retain_last=1)
    table.remove_orphans(older_than=int((time.time() + 60) * 1000))
    end = [str(one) for one in table.check().findings]
    if table.to_arrow()["v"].to_pylist() != values:
        end.append("the removal of orphans has changed the rows")
    expected = sum(range(1, ROWS, 2)) - (ROWS + 1) // 2
    return Outcome(killed, len(values), sum(values), ROWS, expected, findings, end, failed)


def main(arguments: Sequence[str]) -> int:
    """Run and print the outcome. Returns 2 if the cluster cannot be started."""
    folder = Path(arguments[0])
    try:
        with cluster(folder) as address:
            print(json.dumps(asdict(run(folder, address))))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
