"""The scripts whose work on the store is recorded, by the names of their records."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Final

from model_tests.store_work import (
    appending,
    contests,
    damages,
    evolving,
    folding,
    looking_up,
    upkeep,
    writing,
)
from model_tests.store_work.play import Script

SCRIPTS: Final[Mapping[str, Script]] = {
    name: found
    for module in (
        writing,
        upkeep,
        contests,
        looking_up,
        appending,
        evolving,
        folding,
        damages,
    )
    for name, found in vars(module).items()
    if isinstance(found, FunctionType) and found.__module__ == module.__name__ and not name.startswith("_")
}
