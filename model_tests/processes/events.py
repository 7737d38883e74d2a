"""The log of a worker: one JSON object a line, written before and after each thing it does.

A worker that is killed leaves the lines it has written; the operating system keeps them. A last line without its end is
dropped. Times are those of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""``event``: its name, ``at``: seconds of the monotonic clock, and what belongs to it."""


class EventLog:
    """The log of this process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def write(self, event: str, **facts: Any) -> None:
        """Append an event. It is there when this returns, even if the process is killed."""
        line = json.dumps({"event": event, "at": time.monotonic(), **facts}) + "\n"
        os.write(self._file, line.encode())


def read_events(path: Path) -> Iterator[Event]:
    """Yield the complete events of a log."""
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)
