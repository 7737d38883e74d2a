"""How many cases tests draw, and schedules that are drawn by a seed, of which only a hunt looks for a smaller one.

`make deep` sets ``PKTABLE_TESTS=deep``: tests then draw many cases, by fresh seeds.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

DEEP: Final = os.environ.get("PKTABLE_TESTS") == "deep"


DEEPER: Final = 8
"""How many times as many cases `make deep` draws, so that it ends in a night."""


def cases(few: int) -> int:
    """Return how many cases a test draws: ``few`` that every change waits for, or ``DEEPER`` times as many."""
    return few * DEEPER if DEEP else few


def seed_for(fixed: int) -> int:
    """Return the seed of a test: ``fixed``, or a fresh one in `make deep`, which a failure must print."""
    return secrets.randbelow(1 << 32) if DEEP else fixed


_shrinks: Final = ContextVar("shrinks", default=False)


def shrinks() -> bool:
    """Return whether what fails is to be made small."""
    return _shrinks.get()


@contextmanager
def made_small() -> Iterator[None]:
    """Let what fails be made small, which takes time."""
    token = _shrinks.set(True)
    try:
        yield
    finally:
        _shrinks.reset(token)


def play_drawn(number: int, seed: int, play: Callable[[st.DataObject], object]) -> None:
    """Play ``number`` drawn schedules. Raises what ``play`` raises, at the first that fails."""

    @hypothesis.seed(seed)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrinks() else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(data=st.data())
    def agree(data: st.DataObject) -> None:
        play(data)

    agree()


def play_at_random(number: int, seed: int, play: Callable[[random.Random], object]) -> None:
    """Play ``number`` schedules that draw by themselves. Raises what ``play`` raises, at the first that fails."""
    play_drawn(number, seed, lambda data: play(random.Random(data.draw(st.integers(0, 1 << 30)))))


def drawn_options(drawn: random.Random, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a value of each option; an empty one leaves it out."""
    values = {name: drawn.choice(some) for name, some in choices.items()}
    return {name: value for name, value in values.items() if value}
