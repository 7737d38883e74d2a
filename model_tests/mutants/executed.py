"""Which parts of some work, such as tests or stored histories, execute which lines: only these can notice a change.

A line that is executed outside of all parts, when its module is imported, belongs to every part.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

OUTSIDE = ""
BETWEEN = "between two parts"
NO_PARTS = (OUTSIDE, BETWEEN)
Executed: TypeAlias = Mapping[str, Mapping[str, Collection[int]]]
"""The numbers of the lines executed by each part, by module, a path from the root."""
Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


class Recorder:
    """Records the lines of some modules, and the time of parts.

    ``part``: the one under way. ``modules``: their paths from ``root``. ``seconds``: the computing of each part.
    """

    def __init__(self, root: Path, modules: Collection[str]) -> None:
        self.part = OUTSIDE
        self.seconds: dict[str, float] = {}
        self._modules = {str(root / module): module for module in modules}
        self._lines: dict[tuple[str, str], set[int]] = {}
        self._tracers: dict[tuple[str, str], Tracer] = {}
        self._since = time.process_time()

    def begin(self, part: str) -> None:
        """Let what is executed from now on belong to ``part``."""
        now = time.process_time()
        self.seconds[self.part] = self.seconds.get(self.part, 0.0) + now - self._since
        self.part, self._since = part, now

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

    def _called(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        module = self._modules.get(frame.f_code.co_filename)
        if module is None:
            return None
        place = self.part, module
        return self._tracers.get(place) or self._tracers.setdefault(place, self._tracer(place))

    def _tracer(self, place: tuple[str, str]) -> Tracer:
        """Return what adds lines to those of a place: called at each line, so it looks nothing up."""
        add = self._lines.setdefault(place, set()).add

        def tracer(frame: FrameType, event: str, argument: Any) -> Tracer:
            add(frame.f_lineno)
            return tracer

        return tracer

    def executed(self) -> dict[str, dict[str, list[int]]]:
        """Return what was executed, as JSON can hold it: of each module, also of one of which nothing was."""
        found: dict[str, dict[str, list[int]]] = {module: {} for module in self._modules.values()}
        for (part, module), lines in self._lines.items():
            found.setdefault(module, {})[part] = sorted(lines)
        return found


@dataclass(frozen=True)
class Clean:
    """Some work without a change: the lines that its parts execute, and the seconds of computing of each.

    ``imports``: the modules of other packages that it imported.
    """

    executed: Executed
    seconds: Mapping[str, float]
    imports: Collection[str]

    def parts(self, module: str, lines: range) -> list[str]:
        """Return the parts that execute one of the lines, the cheapest first. Those of one file stay together.

        All parts do if the lines are executed outside of them, or if those of the module are not recorded.
        """
        found = parts_that_execute(self.executed, module, lines) if module in self.executed else None
        parts = [one for one in self.seconds if one not in NO_PARTS and (found is None or one in found)]
        of_files: dict[str, float] = {}
        for part in parts:
            of_files[file_of(part)] = of_files.get(file_of(part), 0.0) + self.seconds[part]
        return sorted(parts, key=lambda part: of_files[file_of(part)])

    def computed(self, parts: Collection[str]) -> float:
        """Return the seconds that some of the parts take, with what is outside of all."""
        return sum(self.seconds.get(one, 0.0) for one in (*NO_PARTS, *parts)) if parts else 0.0


def file_of(part: str) -> str:
    """Return the file of a part that is a test; any other is a file of its own."""
    return part.partition("::")[0]


def parts_that_execute(executed: Executed, module: str, lines: range) -> Collection[str] | None:
    """Return the parts that execute one of the lines, None for all of them."""
    parts = {part for part, found in executed.get(module, {}).items() if not set(lines).isdisjoint(found)}
    return None if OUTSIDE in parts else parts
