"""``python -m model_tests.side_by_side``: run all tests but the deep ones, those on Spark beside the others.

A test on Spark mostly waits for its JVM, which leaves room on two cores. What those tests print follows at the end.
With one core they run afterwards. The exit code is that of the first part that failed. Options are given to pytest.

The tests on Spark are in a quarter of the files. Their process collects no others, which takes as long as many tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

WITHOUT_SPARK: Final = ("-n", "logical", "-m", "not spark and not deep")
ON_SPARK: Final = ("-m", "spark and not deep")
TESTS: Final = Path(__file__).parent
PATIENCE_SECONDS: Final = 5


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def started(command: Sequence[str], output: Any = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process. If the block fails it has some time to end, since a terminal interrupts both, and is ended."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:
        try:
            yield process
        except BaseException:
            for sent in (signal.SIGTERM, signal.SIGKILL):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_SECONDS)
                    break
                process.send_signal(sent)
            raise


def marked_files(marker: str) -> list[str]:
    """Return the files that have tests with a marker of pytest's."""
    return [
        str(path) for path in sorted(TESTS.rglob("test_*.py")) if f"mark.{marker}" in path.read_text("utf-8")
    ]


def side_by_side(first: Sequence[str], second: Sequence[str]) -> int:
    """Run two commands at a time, and print the output of ``second`` at the end. Return an exit code that is not 0."""
    with tempfile.TemporaryFile() as output, started(second, output) as beside:
        with started(first) as shown:
            code = shown.wait()
        print("\ntests on Spark, which ran meanwhile:", flush=True)
        other = beside.wait()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return code or other


def main(options: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    pytest = (sys.executable, "-m", "pytest", "-q", *options)
    parts = (*pytest, *WITHOUT_SPARK), (*pytest, *ON_SPARK, *marked_files("spark"))
    if cores() > 1:
        return side_by_side(*parts)
    codes = [subprocess.call(part) for part in parts]
    return codes[0] or codes[1]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
