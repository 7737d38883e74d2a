"""One command from its arguments to its exit code: every error becomes one line and a code."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import typer
from pktable_spec.errors import InvalidRequestError, PkTableError, StorageError

from pktable.cli import commands, maintenance, progress, queries, specification, warehouse  # noqa: F401 (help lists them in this order)
from pktable.cli.app import OWN_PROCESS, app
from pktable.cli.codes import FAILED, FINE, INTERRUPTED, MISTAKEN, STORE_FAILED
from pktable.cli.output import ReaderGoneError

NOT_THE_CALLER: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE}
)
"""Numbers of failures that no other argument would have avoided."""

OF_SPARK: Final = ("pyspark", "py4j")
NOISE: Final = (
    ("Input should be a valid integer, unable to parse string as an integer", "expected an integer"),
    ("Input should be a valid number, unable to parse string as a number", "expected a number"),
    ("Input should be ", "expected a value "),
    ("Value error, ", ""),
)
"""Words of pydantic, which checks arguments for some versions of typer, and what they mean."""
UsageProblem: Any = typer.BadParameter.__mro__[2]  # the base of all complaints about arguments


def run(arguments: Sequence[str], *, own_process: bool = False) -> int:
    """Run a command and return its exit code. Raises nothing that a user can cause.

    ``own_process``: nothing but the command runs in this process.
    """
    try:
        known = {OWN_PROCESS: True} if own_process else {}
        code = app(args=list(arguments), prog_name="pktable", standalone_mode=False, obj=known)
        _flush()
        # Typer turns an interrupt into this code, and says nothing.
        return _complain("interrupted", INTERRUPTED) if code == INTERRUPTED else int(code or FINE)
    except InvalidRequestError as error:
        return _complain(str(error), MISTAKEN)
    except StorageError as error:
        return _complain(str(error), STORE_FAILED)
    except PkTableError as error:
        return _complain(str(error), FAILED)
    except UsageProblem as problem:
        command = problem.ctx.command_path if problem.ctx else "pktable"
        return _complain(f"{_in_words(problem.format_message())} (see {command} --help)", MISTAKEN)
    except ReaderGoneError:
        _discard_output()
        return FINE
    except (BrokenPipeError, SystemExit) as ending:
        return _ended(ending)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except OSError as error:
        code = STORE_FAILED if error.errno in NOT_THE_CALLER else MISTAKEN
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", code)
    except Exception as bug:  # ours, not the caller's: still one line, unless asked for more
        if os.environ.get("PKTABLE_TRACEBACK"):
            raise
        absent = bug.name if isinstance(bug, ModuleNotFoundError) else None
        if absent is not None and absent.partition(".")[0] in OF_SPARK:
            return _complain(
                "--spark: pyspark is not installed; install it with: pip install pyspark", MISTAKEN
            )
        return _complain(
            f"internal error ({type(bug).__name__}, PKTABLE_TRACEBACK=1 shows where): {bug}", FAILED
        )
    finally:
        progress.be_quiet(False)  # whatever else this process does is not to be silent


def _in_words(problem: str) -> str:
    """Return the text of a complaint about an argument, without the words of the library that reads arguments."""
    for noise, words in NOISE:
        problem = problem.replace(noise, words)
    return problem


def _ended(ending: BrokenPipeError | SystemExit) -> int:
    """Return the exit code of an exit, with which typer and rich also answer a broken pipe."""
    broken = ending.__context__ if isinstance(ending, SystemExit) else ending
    if isinstance(broken, BrokenPipeError):
        if not _reader_is_gone(broken):
            return _complain("a pipe to another process is broken", FAILED)
        _discard_output()
        return FINE
    assert isinstance(ending, SystemExit)
    _flush()
    return ending.code if isinstance(ending.code, int) else FAILED if ending.code else FINE


def _flush() -> None:
    try:
        if sys.stdout is not None:  # as it is where the process was given none
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()


def _reader_is_gone(broken: BrokenPipeError) -> bool:
    """Return whether it is standard output that broke, and not a pipe of ours, as to git or to Spark."""
    caught = broken.__traceback__
    if caught is not None and str(caught.tb_frame.f_globals.get("__name__")).startswith("rich."):
        return True  # it met the broken pipe while printing, and has redirected standard output
    with suppress(AttributeError, OSError):  # as where standard output is no file
        watch = select.poll()
        watch.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in watch.poll(0))
    return False


def _discard_output() -> None:
    """Send the rest of standard output nowhere. Python flushes it once more at exit, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complain(message: str, code: int) -> int:
    progress.tell(f"pktable: {' '.join(message.split())}")
    return code
