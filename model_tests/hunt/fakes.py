"""Kinds that fail, die and hang on purpose, in a module that takes no time to import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Final

from model_tests.hunt.turns import FoundError, Kind


def fine(seed: int) -> int:
    return 3


def fails(seed: int) -> int:
    raise FoundError(f"row {seed} is missing", f"the case of {seed}")


def dies(seed: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def hangs(seed: int) -> int:
    time.sleep(1_000)
    return 0


FAKES: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("fine", 4, fine),
        Kind("fails", 2, fails),
        Kind("dies", 1, dies),
        Kind("hangs", 1, hangs, seconds=1),
    )
}
