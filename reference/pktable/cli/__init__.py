"""The command line: ``pktable …``.

Exit codes: 0 fine, 1 a check failed or stored data is damaged, 2 the caller's mistake. Errors are one line on
standard error. A reader that stops reading, as ``head`` does, ends a command quietly.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer
from pktable_spec.errors import InvalidRequestError, PkTableError

from pktable.cli import checks, options  # noqa: F401  (their commands join the others)
from pktable.cli.commands import app
from pktable.cli.output import ReaderGoneError
from pktable.cli.progress import tell

FINE, FAILED, MISTAKEN = 0, 1, 2
UsageProblem: Any = typer.BadParameter.__mro__[2]  # the base of all complaints about arguments


def main() -> None:
    """Run the command that the process was started with, and end the process, whoever calls this.

    Once Python has ended what the command began, the process is gone at once: a thread of a native library that is
    still alive when its memory is torn down aborts the process now and then, and with it goes the exit code.
    """
    codes = [FAILED]  # unless the command returns one
    atexit.register(_end, codes)  # the first to be registered is the last to run
    codes[0] = run(sys.argv[1:])
    sys.exit(codes[0])


def _end(codes: Sequence[int]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it was tried before, and has been complained of
            if stream is not None:
                stream.flush()
    os._exit(codes[0])


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Raises nothing that a user can cause."""
    try:
        code = app(args=list(arguments), prog_name="pktable", standalone_mode=False)
        _flush()
        return int(code or FINE)
    except InvalidRequestError as error:
        return _complain(str(error), MISTAKEN)
    except PkTableError as error:
        return _complain(str(error), FAILED)
    except UsageProblem as problem:
        return _complain(f"{problem.format_message()} (see pktable --help)", MISTAKEN)
    except ReaderGoneError:
        _let_go()
        return FINE
    except (BrokenPipeError, SystemExit) as ending:  # typer and rich exit with 1 where a pipe is broken
        broken = ending.__context__ if isinstance(ending, SystemExit) else ending
        if not isinstance(broken, BrokenPipeError):
            raise
        if not _reader_is_gone(broken):
            return _complain("a pipe to another process is broken", FAILED)
        _let_go()
        return FINE
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 128 + signal.SIGINT)
    except OSError as error:
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", MISTAKEN)
    except Exception as bug:  # ours, not the caller's: still one line, unless asked for more
        if os.environ.get("PKTABLE_TRACEBACK"):
            raise
        return _complain(
            f"internal error ({type(bug).__name__}, PKTABLE_TRACEBACK=1 shows where): {bug}", FAILED
        )


def _flush() -> None:
    try:
        if sys.stdout is not None:  # as it is where the process was given none
            sys.stdout.flush()
    except BrokenPipeError:
        _let_go()


def _reader_is_gone(broken: BrokenPipeError) -> bool:
    """Return whether it is standard output that broke, and not a pipe of ours, as to git or to Spark."""
    caught = broken.__traceback__
    if caught is not None and str(caught.tb_frame.f_globals.get("__name__")).startswith("rich."):
        return True  # it has met it by printing, and turned standard output away
    with suppress(AttributeError, OSError):  # as where standard output is no file
        watch = select.poll()
        watch.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in watch.poll(0))
    return False


def _let_go() -> None:
    """Send what is left for standard output nowhere. Python flushes it once more at exit, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complain(message: str, code: int) -> int:
    tell(f"pktable: {' '.join(message.split())}")
    return code
