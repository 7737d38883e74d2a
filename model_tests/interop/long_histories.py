"""Histories of writes of thousands of rows, which make every kind of container and levels of several files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from model_tests.interop.histories import BITMAP64, Actor, History, Step, definition_of

SPAN_KEY: Final = "INT"
SPAN_ROWS: Final = 8400
SPANS: Final = (
    ("-D", 5, 8400, 900),  # an array container
    ("-D", 100, 4000, 1),  # a run container
    ("-D", 0, 8400, 2),  # a bitmap container
    ("+U", 1000, 8400, 3),
    ("-D", 0, 8000, 1),
)
"""Row kind, start, stop and step of the keys of a write."""


@st.composite
def long_histories(
    draw: st.DrawFn, actors: Sequence[Actor], creators: Sequence[str], *, bitmap64: bool
) -> History:
    """Draw a history of long writes, so that vectors have every kind of container and levels several files."""
    options = {
        "bucket": draw(st.sampled_from(("1", "2"))),
        "target-file-size": draw(st.sampled_from(("128 mb", "8 kb"))),
        BITMAP64: draw(st.sampled_from(("false", "true") if bitmap64 else ("false",))),
    }
    definition = definition_of((SPAN_KEY,), (), ("STRING",), options)
    first = actors[0].name
    steps = [Step(first, "write", span=("+I", 0, SPAN_ROWS, 1))]
    for kind, start, stop, by in draw(st.lists(st.sampled_from(SPANS), min_size=1, max_size=3)):
        actor = draw(st.sampled_from(list(actors)))
        steps.append(Step(actor.name, "write", span=(kind if actor.retracts else "+I", start, stop, by)))
    steps.append(Step(first, "compact"))
    return History(definition, draw(st.sampled_from(list(creators))), tuple(steps))
