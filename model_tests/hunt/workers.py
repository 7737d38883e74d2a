"""Processes that play turns, one after another, each with a time limit.

A worker that dies or is ended takes its processes with it, and another takes its place.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from model_tests.hunt.turns import Outcome, Turn, made_smaller, played

SHRINKING_SECONDS: Final = 120
STARTING_SECONDS: Final = 300
BEGUN: Final = "begun"
"""The answer that a turn begins: until then the process starts, and imports what it needs."""
STACK_SECONDS: Final = 1
"""How long a process that is ended has to say where it is."""


class Worker:
    """A process and the turn that it plays."""

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self._since, self._limit = 0.0, 0.0
        self._failed: Outcome | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="pktable-hunt-")
        self._words = Path(self._folder.name) / "words"
        context = get_context("spawn")  # Spark and Arrow have threads, which a fork would not take along
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._words), daemon=False)
        self._process.start()
        theirs.close()

    def start(self, turn: Turn) -> None:
        """Let it play a turn."""
        self.turn, self._failed = turn, None
        self._allow(STARTING_SECONDS)
        with contextlib.suppress(OSError):  # it is dead, which is heard when its answer is asked for
            self.connection.send(turn)

    def _allow(self, seconds: float) -> None:
        self._since, self._limit = time.monotonic(), seconds

    @property
    def is_late(self) -> bool:
        """Whether the turn, or the search for a smaller case, has no more time."""
        return self.turn is not None and time.monotonic() - self._since > self._limit

    @property
    def has_failed(self) -> bool:
        """Whether it looks for a smaller case."""
        return self.turn is not None and self._failed is not None

    def answer(self) -> Outcome | None:
        """Return what the turn came to, None if that comes later. Raises EOFError if it died."""
        assert self.turn is not None, "it was asked"
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            if self._failed is None:
                raise EOFError(self._last_words()) from None
            return self._failed
        if found == BEGUN:
            self._allow(self.turn.kind.seconds)
            return None
        assert isinstance(found, Outcome)
        if self._failed is not None:
            return found if found.fault else self._failed  # it does not fail every time
        if found.fault:
            self._failed = found
            self._allow(SHRINKING_SECONDS)
            return None
        return found

    def end(self) -> tuple[Outcome | None, str]:
        """End it; return the failure that it was making smaller, if it was, and where in the code it was."""
        with contextlib.suppress(ProcessLookupError):
            if self.turn is not None:
                os.kill(self._pid, signal.SIGUSR1)
                self._process.join(STACK_SECONDS)
        words = self._last_words()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()
        return self._failed, words

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return self._words.read_text("utf-8", "replace")[-8_000:]
        return ""


def _serve(connection: Connection, words: Path) -> None:
    """Play the turns that come, until none does."""
    os.setsid()  # so that it can be ended with all its processes, and an interrupt of the terminal leaves it alone
    file = words.open("a")
    os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file)
    while True:
        try:
            turn: Turn = connection.recv()
        except EOFError:
            return
        connection.send(BEGUN)
        found = played(turn)
        connection.send(found)
        if found.fault:
            connection.send(made_smaller(turn))
        file.truncate(0)
