"""A Spark session: of the Spark Connect server that SPARK_REMOTE names, or on this machine if it has a Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from pktable_spec.errors import InvalidRequestError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pktable.run.spark import daemon

JAVA_NEEDED = 17
LOGS_OF_ERRORS = "SQLQueryContextLogger", "DataFrameQueryContextLogger"
"""They log a page of Java for each error that is raised. A command says what is wrong in a line."""
HOW_TO_GET_JAVA = "install a JDK (Debian: apt-get install openjdk-17-jdk-headless) or point JAVA_HOME at one"


def spark_session(*, cores: str = "*") -> SparkSession:
    """Return the session of a command: what SPARK_REMOTE asks for, as in Spark's own shell; else `local_session`.

    Raises InvalidRequestError if what Spark Connect needs is not installed.
    """
    for name in LOGS_OF_ERRORS:
        PySparkLogger.getLogger(name).disabled = True
    remote = os.environ.get("SPARK_REMOTE")
    if not remote:
        return local_session(cores=cores)
    if remote.startswith("local"):  # a server that is started here, now
        _name_interpreter()
    try:
        return SparkSession.builder.getOrCreate()
    except ImportError as error:
        raise InvalidRequestError(f"Spark Connect: {error}; pip install 'pyspark[connect]'") from None


def local_session(*, cores: str = "*", memory: str = "2g", show_progress: bool = False) -> SparkSession:
    """Return a session on ``local[cores]``, started if need be. Raises InvalidRequestError without Java 17+."""
    require_java()
    _name_interpreter()
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("pktable")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(show_progress).lower())
        .config("spark.driver.memory", memory)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.python.daemon.module", worker_daemon())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _name_interpreter() -> None:
    """Let workers run the interpreter that runs this: another one has neither us nor our dependencies."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def worker_daemon() -> str:
    """Return the module that forks workers: ours if they run this interpreter, which has pktable, else Spark's own."""
    return daemon.__name__ if os.environ["PYSPARK_PYTHON"] == sys.executable else daemon.SPARKS_DAEMON


def require_java() -> None:
    """Raise InvalidRequestError unless a Java of at least version 17 is found."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise InvalidRequestError(
            f"Spark: expected Java {JAVA_NEEDED} or newer, found none on {where}; {HOW_TO_GET_JAVA}"
        )
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    if not found or int(found[1]) < JAVA_NEEDED:
        first = text.strip().partition("\n")[0] or "no version"
        raise InvalidRequestError(
            f"Spark: expected Java {JAVA_NEEDED} or newer, found {first}; {HOW_TO_GET_JAVA}"
        )
