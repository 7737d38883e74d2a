"""Try again after a lost race: one loop, with exponential backoff and jitter.

The wait before attempt n is drawn between 0 and ``first_wait * 2**n`` seconds, at most ``longest_wait``. Drawing it
(full jitter) keeps writers that collided once from colliding again.
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

    ``sleep`` and ``draw`` (a number from 0 to 1) are replaced by tests.
    """

    attempts: int = 100
    first_wait: float = 0.001
    longest_wait: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    def wait(self, failures: int) -> float:
        """Return how long to wait after so many failures, in seconds."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(failures, 60))
        return self.draw() * longest


def retry(attempt: Callable[[], Result], *, on: type[Exception], policy: RetryPolicy) -> Result:
    """Return the result of ``attempt``, called again as long as it raises ``on``.

    Raises what the last attempt raised, and at once whatever else an attempt raises.
    """
    for failures in range(1, policy.attempts):
        try:
            return attempt()
        except on:
            policy.sleep(policy.wait(failures))
    return attempt()
