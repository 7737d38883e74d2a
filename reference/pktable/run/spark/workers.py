"""Send work to Spark's Python workers, and see to it that they run an interpreter that has pktable.

1. In a local session workers run the interpreter of this process, unless the user has named another. Spark's own
   default is the first python3 on PATH: another interpreter, wherever a venv is used without being activated. So do
   those of a server of Spark Connect that this process has started.
2. Work is unpickled and called by a function that needs the standard library only. Where pktable is missing, or is
   another version, or a module that the work imports is missing, it raises one line that names the interpreter.
3. `unusable_interpreter` makes the same line of what Spark says about an interpreter that does not get that far.

Clauses: RD-12.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from pyspark.cloudpickle import dumps
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

Work = Callable[[Iterator[Any]], Iterator[Any]]

SPARKS_DEFAULT: Final = "python3"
INTERPRETER: Final = "spark.sql.execution.pyspark.python"
LOCAL_SERVER: Final = "SPARK_LOCAL_REMOTE"
"""The variable that pyspark sets where it has started the server of Spark Connect itself."""
NAMES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Variables that give such a server an interpreter."""
PYTHON: Final = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
REMEDY: Final = (
    f"install pktable for {PYTHON} where the workers run and set PYSPARK_PYTHON to that interpreter before Spark "
    "(with Spark Connect: its server) starts, or spark.sql.execution.pyspark.python in the session"
)

LACKS_US: Final = re.compile(r"^RuntimeError: (Spark worker: .*)$", re.M)
LACKS_MODULE: Final = re.compile(
    r"^\s*ModuleNotFoundError: (No module named '(?:pyarrow|numpy|pandas|pktable)\b.*)$", re.M
)
LACKS_DAEMON: Final = re.compile(r"^\s*(\S+): (No module named pktable\S*)$", re.M)
OTHER_PYTHON: Final = re.compile(r"\[PYTHON_VERSION_MISMATCH\].*?different version: ([\d.]+)")
NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]*)".*?: (?:error=\d+, )?(.*)$', re.M)
NO_DAEMON: Final = re.compile(r"(?:pyspark|pktable\.run\.spark)\.daemon's (?:stdout|standard output)")

_naming = Lock()


def map_batches(frame: DataFrame, work: Work, schema: StructType | str) -> DataFrame:
    """Return `DataFrame.mapInArrow` of ``work``, which maps Arrow batches to Arrow batches of ``schema``.

    Starts no job. A worker that cannot open ``work`` fails with a line that `unusable_interpreter` knows.
    """
    with _driver_interpreter(frame.sparkSession):
        return frame.mapInArrow(_Sent(work), schema)


def unusable_interpreter(message: str) -> InvalidRequestError | None:
    """Return the error to raise for a Spark failure that the workers' interpreter caused, None for another one."""
    if found := LACKS_US.search(message):
        return InvalidRequestError(found[1])
    if found := LACKS_MODULE.search(message):
        why = f"an interpreter without ({found[1]})"
    elif found := LACKS_DAEMON.search(message):
        why = f"{found[1]} ({found[2]})"
    elif found := OTHER_PYTHON.search(message):
        why = f"Python {found[1]}"
    elif found := NO_PROGRAM.search(message):
        why = f"{found[1]}, which cannot be run ({found[2]})"
    elif NO_DAEMON.search(message):
        why = "an interpreter that does not start"
    else:
        return None
    return InvalidRequestError(f"Spark worker: expected {PYTHON} with pktable, found {why}; {REMEDY}")


class _Sent:
    """``work`` as a worker gets it: inside a function that says what is wrong where ``work`` cannot be unpickled."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, given: Iterator[Any]) -> Iterator[Any]:
        return self._work(given)

    def __reduce__(self) -> tuple[object, ...]:
        return _opener(), (dumps(self._work),)


def _opener() -> Callable[[bytes], Work]:
    """Return a function that is pickled as code, since no name leads to it, and so is unpickled without pktable."""
    expected, remedy = f"{PYTHON} with pktable", REMEDY

    def opened(pickled: bytes) -> Work:
        import pickle
        import sys

        def unfit(error: Exception) -> RuntimeError:
            return RuntimeError(
                f"Spark worker: expected {expected}, found {sys.executable} ({error}); {remedy}"
            )

        def called(given: Iterator[Any]) -> Iterator[Any]:
            try:
                yield from work(given)
            except ImportError as error:
                raise unfit(error) from None

        try:
            work: Work = pickle.loads(pickled)
        except (ImportError, AttributeError) as error:
            raise unfit(error) from None
        return called

    return opened


def run_this_interpreter(session: SparkSession) -> bool:
    """Let all workers of a session on this machine run this process's interpreter, unless the user has named another.

    Returns whether it is a classic session on this machine. Clauses: WH-17.
    """
    context = _local_context(session)
    if context is None:
        return False
    with _naming:
        if context.pythonExec == SPARKS_DEFAULT:
            context.pythonExec = sys.executable
    return True


@contextmanager
def _driver_interpreter(session: SparkSession) -> Iterator[None]:
    """Let functions made inside the block run on this process's interpreter, if the session is on this machine.

    An interpreter that the user has named, by PYSPARK_PYTHON, stays. A server of Spark Connect elsewhere knows its own.
    """
    context = _local_context(session)
    if context is None:
        yield
        return
    with _naming:
        named = context.pythonExec
        if named == SPARKS_DEFAULT:
            context.pythonExec = sys.executable
        try:
            yield
        finally:
            context.pythonExec = named


def _local_context(session: SparkSession) -> Any:
    """Return the context of a classic session on this machine, None of any other one.

    A server of Spark Connect that this process has started is given its interpreter.
    """
    context = getattr(session, "sparkContext", None)
    if context is None:
        _name_to_local_server(session)
        return None
    return context if context.master.startswith("local") and sys.executable else None


def _name_to_local_server(session: SparkSession) -> None:
    """Let workers of a server of Spark Connect that this process has started run its interpreter."""
    named = any(name in os.environ for name in NAMES) or not sys.executable
    started = LOCAL_SERVER in os.environ and session.client.host in ("localhost", "127.0.0.1")
    if started and not named and session.conf.get(INTERPRETER, None) is None:
        session.conf.set(INTERPRETER, sys.executable)
