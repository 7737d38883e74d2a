"""Try again what can fail for a while: one loop, with jitter and waits that grow.

* A store that is busy needs time: the wait before attempt n + 1 is drawn between 0 and ``first_wait * 2**n`` seconds.
* A race that was lost can be won at once: the wait is drawn between 0 and n times what the attempt took. Exponential
  waits would starve a writer if another one does not wait, since no attempt is likely to meet a pause of the other.

Both are at most ``longest_wait``. Drawing them (full jitter) keeps those that collided once from colliding again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently to try. Waits in seconds.

    ``races``: whether an attempt fails because another was faster. ``sleep`` and ``draw`` (a number from 0 to 1) are
    replaced by tests.
    """

    attempts: int = 100
    first_wait: float = 0.001
    longest_wait: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random
    races: bool = False

    def wait(self, failures: int, took: float) -> float:
        """Return how long to wait after so many failures, the last of which took so long, in seconds."""
        longest = (
            max(self.first_wait, took) * failures
            if self.races
            else self.first_wait * 2.0 ** min(failures, 60)
        )
        return self.draw() * min(self.longest_wait, longest)


def retry(attempt: Callable[[], Result], *, on: type[Exception], policy: RetryPolicy) -> Result:
    """Return the result of ``attempt``, called again as long as it raises ``on``.

    Raises what the last attempt raised, and at once whatever else an attempt raises.
    """
    began = time.monotonic()
    for failures in range(1, policy.attempts):
        try:
            return attempt()
        except on:
            policy.sleep(policy.wait(failures, time.monotonic() - began))
        began = time.monotonic()
    return attempt()
