"""How much checking: by profile and by backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEED: Final = 20_260
"""The seed of the quick profile, so that continuous integration is the same every time."""


@dataclass(frozen=True)
class Profile:
    """How many histories of how many steps, and what is looked at after each step.

    ``reread_limit``: how many retained snapshots are read again per step, None for all.
    ``refines``: whether each snapshot on disk is held against the oracle's mechanism.
    ``reads_records``: whether the records of every new file are compared with its metadata.
    ``seed``: None draws histories anew each time. ``shrinks``: whether a mismatch is made small first.
    """

    name: str
    histories: int
    steps: int
    reread_limit: int | None = None
    reads_records: bool = True
    twin: bool = True
    refines: bool = True
    seed: int | None = None
    shrinks: bool = True


PROFILES: Final[Mapping[tuple[str, str], Profile]] = {
    (backend, profile.name): profile
    for backend, profiles in {
        "model": (
            Profile("quick", histories=300, steps=12, seed=SEED),
            Profile("deep", histories=20_000, steps=30),
        ),
        "local": (
            Profile("quick", histories=100, steps=12, reread_limit=6, seed=SEED),
            Profile("deep", histories=1_500, steps=20),
        ),
        "spark": (
            Profile("quick", histories=9, steps=8, reread_limit=1, seed=SEED, shrinks=False),
            Profile("deep", histories=60, steps=12, reread_limit=4),
        ),
    }.items()
    for profile in profiles
}
