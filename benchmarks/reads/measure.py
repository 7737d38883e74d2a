"""Measure variants of one query side by side: they take turns, and every answer is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.machine import processor_seconds
from benchmarks.reads.queries import Answer


@dataclass
class Variant:
    """A way to answer a query. ``run`` returns the answer, and the times if it takes them itself.

    ``rounds``: how many at most, for what is slow. ``is_checked``: whether its answer must be everyone's.
    ``failed``: why there are no more times.
    """

    name: str
    run: Callable[[], tuple[Answer, float, float] | Answer]
    rounds: int = 1_000
    is_checked: bool = True
    may_fail: bool = False
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    failed: str | None = None

    def take_turn(self, expected: Answer | None) -> Answer | None:
        """Run once and keep the times; return the answer, None if there is none any more."""
        if self.failed or len(self.seconds) >= self.rounds:
            return None
        before, began = processor_seconds(), time.perf_counter()
        try:
            found: Any = self.run()
        except Exception as error:
            if not self.may_fail:
                raise
            self.failed = str(error)
            return None
        seconds = time.perf_counter() - began
        processor = sum(used - before.get(process, 0.0) for process, used in processor_seconds().items())
        if found and isinstance(found[0], tuple):
            found, seconds, processor = found
        if self.is_checked and expected is not None and found != expected:
            message = f"answered {found}, expected {expected}"
            assert self.may_fail, f"{self.name}: {message}"
            self.failed = message
            return None
        self.seconds.append(seconds)
        self.processor.append(processor)
        return found  # type: ignore[no-any-return]

    def forget(self) -> None:
        """Drop the times of the first turn, in which compilers and caches warm up, unless there is no other."""
        if len(self.seconds) < self.rounds:
            self.seconds.clear()
            self.processor.clear()

    def summary(self) -> dict[str, Any]:
        if self.failed or not self.seconds:
            return {"failed": self.failed or "not measured"}
        return {
            "median": median(self.seconds),
            "least": min(self.seconds),
            "processor": min(self.processor),
            "rounds": len(self.seconds),
        }
