"""Spark's daemon for Python workers, with the modules of pktable imported once instead of by each worker.

A worker imports pyarrow, numpy and pktable in half a second of processor time, and Spark ends workers that were idle
for a minute. This daemon imports them before it forks, so a worker has them at once. `local_session` uses it. For other
sessions set ``spark.python.daemon.module`` to ``pktable.run.spark.daemon`` before Spark starts; each executor needs
pktable then, also for work that is not pktable's.

A process must not be forked while other threads of it may hold a lock. So none is started: those of numpy's BLAS and
of Arrow's allocator are turned off here. Where one runs all the same, or where threads cannot be counted (they can on
Linux), this is Spark's own daemon.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final

WITHOUT_THREADS: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
MODULES: Final = ("pyspark.worker", "pktable.run.spark.runner")
TASKS: Final = "/proc/self/task"
SPARKS_DAEMON: Final = "pyspark.daemon"


def main() -> None:
    """Import what workers need, then fork them as Spark asks. Does not return before Spark ends it."""
    if not _is_ready():
        os.execv(sys.executable, [sys.executable, "-m", SPARKS_DAEMON, *sys.argv[1:]])
    gc.freeze()  # what is imported is never collected, so workers share its memory

    from pyspark.daemon import manager

    manager()


def _is_ready() -> bool:
    """Import what workers need, and return whether that was possible and has started no thread."""
    if not os.path.isdir(TASKS):
        return False
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    try:
        for module in MODULES:
            import_module(module)
    except Exception:  # the first work that needs the module says what is wrong
        return False
    return len(os.listdir(TASKS)) == 1


if __name__ == "__main__":
    main()
