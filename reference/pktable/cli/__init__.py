"""The command line: ``pktable …``.

Exit codes: 0 fine, 1 a check failed or stored data is damaged, 2 the caller's mistake, 130 interrupted. Errors
are one line on standard error. A reader that stops reading, as ``head`` does, ends a command quietly.

Little is imported here, so that the process can be interrupted from its first moment without a traceback. The
rest is imported by `main` and `run`; what only some commands need, by these commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from pktable.cli.codes import FAILED, INTERRUPTED


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process, whoever calls this.

    Once Python has run its exit handlers, the process ends at once: a thread of a native library that is still
    alive when its memory is torn down aborts the process now and then, and the exit code would be lost.
    """
    # Nothing has begun yet, so an interrupt may end the process on the spot; inside of an import it must not raise.
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # unless whoever started us wants interrupts ignored
        signal.signal(signal.SIGINT, _end_before_start)
    import atexit

    from pktable.cli.process import run

    codes = [FAILED]  # unless the command returns one
    atexit.register(_end, codes)  # the first to be registered is the last to run
    signal.signal(signal.SIGINT, before)
    codes[0] = run(sys.argv[1:], own_process=True)
    sys.exit(codes[0])


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Raises nothing that a user can cause."""
    from pktable.cli.process import run

    return run(arguments)


def _end_before_start(*_: Any) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"pktable: interrupted\n")
    os._exit(INTERRUPTED)


def _end(codes: Sequence[int]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the command has flushed them, and reported a failure
            if stream is not None:
                stream.flush()
    os._exit(codes[0])
