"""A Spark session: where it comes from, and its settings while a DataFrame is made or runs, which are then put back.

It is that of the Spark Connect server that SPARK_REMOTE names, or one on this machine if it has a Java.

Without ANSI mode, Spark makes NULL of a division by zero and wraps a sum that overflows, where the local runner refuses
both. A classic session looks at the mode when an expression is made, so it is on while ours are. Spark Connect looks at
it when a plan runs, so the session itself must have it on.

Spark looks for more than 32 paths by a job with a task a path, which costs some milliseconds of CPU a file. The driver
needs a tenth of a millisecond, so it looks for the files of a scan, however many they are. A classic session does when
the DataFrame is made. Spark Connect does when the plan is analysed, and keeps the result for as long as its cache of
plans has room; then it looks again, by a job.

The name of a job says what is done to which table, in Spark's user interface and to its listeners. A session of Spark
Connect has no such names, and a name that the caller has set stays.

Clauses: RD-9, RD-26, WH-26.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, TypeVar

from pktable_spec.errors import InvalidRequestError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pktable.context import TableContext
from pktable.run.spark import daemon
from pktable.statements.plan import SparkWords

ANSI: Final = "spark.sql.ansi.enabled"

_changing = RLock()


@contextmanager
def with_setting(session: SparkSession, name: str, wanted: Callable[[str], str]) -> Iterator[None]:
    """Set ``name`` inside the block. ``wanted``: returns the value, from the one that it has.

    Threads wait for each other: one would put back the value of the other.
    """
    with _changing:
        before = str(session.conf.get(name))
        value = wanted(before)
        if before == value:
            yield
            return
        session.conf.set(name, value)
        try:
            yield
        finally:
            session.conf.set(name, before)


@contextmanager
def in_ansi_mode(session: SparkSession, *, can_fail: bool) -> Iterator[None]:
    """Let the expressions that are made inside the block fail where they cannot be computed.

    ``can_fail``: whether one of them can. Raises InvalidRequestError for Spark Connect without ANSI mode.
    """
    if not can_fail:
        yield
        return
    if not hasattr(session, "sparkContext") and session.conf.get(ANSI) != "true":
        raise InvalidRequestError(
            f"session: expected {ANSI}=true for an expression that can fail, such as a sum, a quotient or a cast; "
            "set it, or use runner='local'"
        )
    with with_setting(session, ANSI, lambda _: "true"):
        yield


JOINS_TEXTS: Final = "legacy.consecutiveStringLiterals.enabled"
UTC: Final = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "+00:00", "UTC+00:00"})
"""Names of the time zone in which conditions are read without Spark. Under another name it may be another zone."""


def words_of(session: SparkSession) -> SparkWords:
    """Return how the session reads conditions and values. Clauses: WH-8."""

    def is_on(name: str, *default: str) -> bool:
        return str(session.conf.get(f"spark.sql.{name}", *default)).lower() == "true"

    return SparkWords(
        in_utc=session.conf.get("spark.sql.session.timeZone") in UTC,
        substitutes=is_on("variable.substitute"),
        keeps_backslashes=is_on("parser.escapedStringLiterals"),
        quotes_names=is_on("ansi.enabled") and is_on("ansi.doubleQuotedIdentifiers"),
        # Spark 4.0 always does, and does not know the setting.
        joins_texts=session.version.startswith("4.0.") or is_on(JOINS_TEXTS, "false"),
    )


THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_PATHS: Final = 100_000  # that the driver looks for: some ten seconds' worth


@contextmanager
def listed_in_driver(session: SparkSession, paths: int) -> Iterator[None]:
    """Let scans of up to ``paths`` paths that are made inside the block be listed without a job."""
    wanted = min(paths, MOST_PATHS)
    with with_setting(session, THRESHOLD, lambda before: str(max(int(before), wanted))):
        yield


DESCRIPTION: Final = "spark.job.description"
Method = TypeVar("Method", bound=Callable[..., Any])


@contextmanager
def described(session: SparkSession, what: str, context: TableContext) -> Iterator[None]:
    """Name the jobs that this thread starts in it after ``what``, which is done to a table. Clauses: WH-26."""
    spark = getattr(session, "sparkContext", None)
    if spark is None or spark.getLocalProperty(DESCRIPTION) is not None:
        yield
        return
    spark.setLocalProperty(DESCRIPTION, f"pktable: {what} {context.root}")
    try:
        yield
    finally:
        spark.setLocalProperty(DESCRIPTION, None)


def names_jobs(what: str) -> Callable[[Method], Method]:
    """Return a decorator for a method of a runner, whose jobs do ``what`` to a table. Clauses: WH-26."""

    def decorated(method: Method) -> Method:
        @functools.wraps(method)
        def run(self: Any, context: TableContext, *args: Any, **kwargs: Any) -> Any:
            with described(self.session, what, context):
                return method(self, context, *args, **kwargs)

        found: Any = run
        return found  # type: ignore[no-any-return]

    return decorated


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
