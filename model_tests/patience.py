"""Waiting for what other processes and threads do, as long as a busy machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 300.0
"""Seconds. It takes a tenth of it on a machine that is ten times too busy."""


class TooSlowError(Exception):
    """Something did not happen in time. That says nothing of what is tested, so a mutant is not killed by it."""


def wait_for(holds: Callable[[], bool], what: str, *, failure: Callable[[], str] = str) -> None:
    """Wait until ``holds``. Raises AssertionError with what ``failure`` says if that is not empty, TooSlowError.

    ``failure``: why it will never happen.
    """
    end = time.monotonic() + PATIENCE
    while not holds():
        reason = failure()
        assert not reason or holds(), f"expected {what}: {reason}"
        if time.monotonic() > end:
            raise TooSlowError(f"expected {what} within {PATIENCE:.0f} s")
        time.sleep(0.02)
