"""Which parts of some work, such as tests or stored histories, execute which lines: only these can notice a change.

A line that is executed outside of all parts, when its module is imported, belongs to every part.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

OUTSIDE = ""
Executed: TypeAlias = Mapping[str, Mapping[str, Collection[int]]]
"""The numbers of the lines executed by each part, by module, a path from the root."""


class Recorder:
    """Records the lines of some modules. ``part``: the one under way. ``modules``: their paths from ``root``."""

    def __init__(self, root: Path, modules: Collection[str]) -> None:
        self.part = OUTSIDE
        self._modules = {str(root / module): module for module in modules}
        self._lines: dict[tuple[str, str], set[int]] = {}

    def begin(self, part: str) -> None:
        """Let what is executed from now on belong to ``part``."""
        self.part = part

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this thread, and those that it starts, execute within."""
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._modules else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        place = self.part, self._modules[frame.f_code.co_filename]
        self._lines.setdefault(place, set()).add(frame.f_lineno)
        return self._line

    def executed(self) -> dict[str, dict[str, list[int]]]:
        """Return what was executed, as JSON can hold it."""
        found: dict[str, dict[str, list[int]]] = {}
        for (part, module), lines in self._lines.items():
            found.setdefault(module, {})[part] = sorted(lines)
        return found


def parts_that_execute(executed: Executed, module: str, lines: range) -> Collection[str] | None:
    """Return the parts that execute one of the lines, None for all of them."""
    parts = {part for part, found in executed.get(module, {}).items() if not set(lines).isdisjoint(found)}
    return None if OUTSIDE in parts else parts
