"""Draw some schedules with a seed, without looking for a smaller one when one fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def play_drawn(number: int, seed: int, play: Callable[[st.DataObject], None]) -> None:
    """Play ``number`` drawn schedules. Raises what ``play`` raises, at the first that fails."""

    @hypothesis.seed(seed)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(data=st.data())
    def agree(data: st.DataObject) -> None:
        play(data)

    agree()


def play_at_random(number: int, seed: int, play: Callable[[random.Random], None]) -> None:
    """Play ``number`` schedules that draw by themselves. Raises what ``play`` raises, at the first that fails."""
    play_drawn(number, seed, lambda data: play(random.Random(data.draw(st.integers(0, 1 << 30)))))


def drawn_options(drawn: random.Random, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a value of each option; an empty one leaves it out."""
    values = {name: drawn.choice(some) for name, some in choices.items()}
    return {name: value for name, value in values.items() if value}
