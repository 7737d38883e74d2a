"""Failing histories as files: kept where ``PKTABLE_FAILURES`` names a directory, and replayed from there.

A kept file has the format of the corpus (`model_tests.corpus`), and says in addition on which backend the history
failed, by which check and with what message. A replay checks everything after every step, so it fails at the
step at which the drawn history did, or at an earlier one whose reads had been left out there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pktable_conform.judge.checks import CheckFailed, message_of
from pktable_conform.judge.history import History

from model_tests.backends.tables import BACKENDS
from model_tests.histories.profiles import Profile
from model_tests.histories.session import replay

DIRECTORY: Final = "PKTABLE_FAILURES"
"""The environment variable that names the directory."""

EVERYTHING: Final = Profile("replay", histories=1, steps=1)
BACKEND: Final = "local"  # of a file that names none, such as those of the corpus


@dataclass(frozen=True)
class Failure:
    """A history that failed. ``message``: see `message_of`; ``check``: None if no check found it."""

    history: str
    backend: str
    message: str
    check: str | None = None

    @staticmethod
    def of(history: History, backend: str, error: BaseException) -> Failure:
        """Return the failure of a history on a backend that ended with ``error``."""
        check = error.check if isinstance(error, CheckFailed) else None
        return Failure(history.to_json(), backend, message_of(error), check)

    def to_json(self) -> str:
        """Return the text of a corpus file: the history, with what is known of the failure before it."""
        facts = {"backend": self.backend, "check": self.check, "message": self.message}
        lines = "".join(f"{json.dumps(name)}: {json.dumps(fact)},\n " for name, fact in facts.items())
        return "{" + lines + self.history.removeprefix("{")


def keep(failure: Failure) -> Path | None:
    """Write a failure into the directory that the environment names, and return its path; None if it names none."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return None
    text = failure.to_json()
    path = Path(directory) / f"{failure.backend}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def kept(failure: Failure) -> str:
    """Keep a failure, and return a line that says where it is and how to replay it; else its history."""
    try:
        path = keep(failure)
    except OSError as error:
        return f"the history could not be kept in {DIRECTORY}: {error}\n{failure.history}"
    if path is None:
        return failure.history
    return f"{failure.history}\nkept; to replay it: python -m model_tests.histories --replay {path}"


def replayed(path: Path, backend: str | None = None) -> tuple[str, str | None]:
    """Replay a file; return what was done in a line, and the message of the failure, None if nothing failed.

    ``backend``: the one of the file by default. Raises ValueError if the file holds no history or names no backend
    there is, OSError if it cannot be read.
    """
    stored: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    try:
        history = History.from_json(stored)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no history: {error!r}") from None
    backend = backend or stored.get("backend", BACKEND)
    if backend not in BACKENDS:
        raise ValueError(f"the backend is {', '.join(BACKENDS)}, not {backend}")
    done = f"{backend}: {len(history.operations)} operations of {path}"
    with BACKENDS[backend]() as open_table:
        try:
            replay(history, open_table, EVERYTHING)
        except Exception as failure:  # whatever a table raises is a failure
            return done, message_of(failure)
    return done, None
