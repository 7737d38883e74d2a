"""Draw some schedules with a seed, without looking for a smaller one when one fails."""

from __future__ import annotations

from collections.abc import Callable

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
