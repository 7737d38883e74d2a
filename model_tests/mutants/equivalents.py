"""The mutations that are known to change nothing anybody could see, each with the reason.

They are stored in ``equivalents.json``, by module, text of the line and change, so that an entry stays right when
lines move. An entry that matches no mutation of the code as it is has become stale, and must go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from model_tests.mutants.mutations import Mutation

STORED: Final = Path(__file__).parent / "equivalents.json"
Name: TypeAlias = tuple[str, str, str]
"""A module, the stripped text of a line, and `Mutation.change`."""


def name_of(mutation: Mutation) -> Name:
    """Return the name that a mutation keeps when lines move."""
    return mutation.module, mutation.text, mutation.change


def load(path: Path = STORED) -> Mapping[Name, str]:
    """Return the reasons by name. Raises ValueError if an entry has no reason or is there twice."""
    reasons: dict[Name, str] = {}
    for entry in json.loads(path.read_text("utf-8")):
        name = entry["module"], entry["line"], entry["change"]
        if not entry["why"].strip():
            raise ValueError(f"{name}: an equivalent needs a reason")
        if name in reasons:
            raise ValueError(f"{name}: recorded twice")
        reasons[name] = entry["why"]
    return reasons


def stale(reasons: Mapping[Name, str], found: Iterable[Mutation]) -> list[Name]:
    """Return the recorded equivalents that are no mutation of the code any more."""
    present = {name_of(mutation) for mutation in found}
    return [name for name in reasons if name not in present]
