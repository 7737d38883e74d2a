"""How many histories are drawn and how much is checked, by profile and by backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEED: Final = 20_260
"""The seed of the quick profile, so that continuous integration is the same every time."""


@dataclass(frozen=True)
class Profile:
    """How many histories of how many steps, and how much is checked after each step.

    ``reread_limit``: how many retained snapshots are read again per step, None for all. 0: the newest, by turns with a
    default and a fresh read.
    ``twin``: whether each history is also done on a table without deletion vectors.
    ``refines``: whether each snapshot on disk must be a step of the oracle's mechanism, and what is on disk at the end
    of a stored history sound, as at the end of those that are drawn.
    ``engines``: whether tables of other merge engines than deduplicate are drawn, too.
    ``orders``: whether some tables have the option ``sequence.field``. Without engines and orders, no table has
    ``full-compaction.delta-commits`` or dynamic buckets, so that an implementation need not know them.
    ``seed``: None draws other histories each time. ``shrinks``: whether a mismatch is made small first.
    """

    name: str
    histories: int
    steps: int
    reread_limit: int | None = None
    twin: bool = True
    refines: bool = True
    engines: bool = False
    orders: bool = False
    seed: int | None = None
    shrinks: bool = True


PROFILES: Final[Mapping[tuple[str, str], Profile]] = {
    (backend, profile.name): profile
    for backend, profiles in {
        "model": (
            Profile("quick", histories=240, steps=12, engines=True, orders=True, seed=SEED),
            Profile("deep", histories=2_000, steps=30, engines=True, orders=True),
        ),
        "local": (
            Profile("quick", histories=64, steps=12, engines=True, orders=True, reread_limit=1, seed=SEED),
            Profile("deep", histories=500, steps=20, engines=True, orders=True),
        ),
        "spark": (
            Profile("quick", histories=9, steps=8, orders=True, reread_limit=0, seed=SEED, shrinks=False),
            Profile("deep", histories=40, steps=12, reread_limit=4, engines=True, orders=True),
        ),
    }.items()
    for profile in profiles
}
