"""Histories of append tables that several implementations take part in: additions, statements and compactions.

The tables are those of `histories` without their primary key, with buckets and without, with deletion vectors and
without. Every row has a number of its own in the column ``w``, which conditions choose rows by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from model_tests.interop.histories import (
    BITMAP64,
    NUMBERS,
    OPTIONS,
    VECTORS,
    Actor,
    Condition,
    Definition,
    History,
    Step,
    Universe,
    change,
    conditions,
    definitions,
)

STATEMENTS: Final = ("delete", "update")
"""The statements on the rows that satisfy a condition, which deletion vectors are enough for."""
MERGED_TYPES: Final = ("INT", "BIGINT", "STRING")
"""The types whose values are equal where their texts are."""
APPEND_OPTIONS: Final = {
    "compaction.min.file-num": ("5", "2"),
    "deletion-vector.index-file.target-size": ("2 mb", "50 b"),
    "manifest.merge-min-count": OPTIONS["manifest.merge-min-count"],
    "metadata.stats-mode": OPTIONS["metadata.stats-mode"],
}
CHOSEN: Final[SearchStrategy[Condition]] = st.tuples(
    st.just("w"), st.sampled_from(("=", "<=", ">", "<>")), st.integers(1, 9).map(str)
)
"""Conditions on the numbers of rows."""


@st.composite
def append_histories(
    draw: st.DrawFn,
    actors: Sequence[Actor],
    creators: Sequence[str],
    universe: Universe,
    *,
    bitmap64: bool,
    row_ids: bool,
) -> History:
    """Draw a history of an append table: two writes, then three to seven steps.

    ``row_ids``: whether all actors know row tracking, which the table then may have.
    """
    vectors = draw(st.sampled_from((True, True, True, False)))
    keyed = draw(definitions(universe, vectors=vectors, bitmap64=bitmap64))
    definition = draw(_without_key(keyed, row_ids=row_ids))
    steps = [_written(draw, keyed, universe, actors) for _ in range(2)]
    for _ in range(draw(st.integers(3, 7))):
        actor = draw(st.sampled_from(list(actors)))
        do = draw(st.sampled_from(possible(actor, definition)))
        if do == "compact":
            steps.append(Step(actor.name, do, full=draw(st.booleans())))
        elif do in STATEMENTS:
            steps.append(Step(actor.name, do, where=draw(CHOSEN)))
        else:
            steps.append(replace(_written(draw, keyed, universe, [actor]), do=do))
    return History(
        definition,
        draw(st.sampled_from(list(creators))),
        tuple(steps),
        draw(conditions(keyed, universe, 1)),
    )


def _written(draw: st.DrawFn, keyed: Definition, universe: Universe, actors: Sequence[Actor]) -> Step:
    changes = tuple(change(keyed, n, universe, inserts_only=True) for n in draw(NUMBERS))
    return Step(draw(st.sampled_from(list(actors))).name, "write", changes=changes)


def possible(actor: Actor, definition: Definition) -> list[str]:
    found, has_buckets = ["write"], definition.options["bucket"] != "-1"
    if actor.compacts and (has_buckets or actor.compacts_unaware):
        found.append("compact")
    if actor.changes == "rows" and definition.has_vectors:
        found += STATEMENTS * 2
    if actor.changes == "all":
        found += [*STATEMENTS * 2, "overwrite"]
        found += ["merge"] if definition.columns[0][1] in MERGED_TYPES else []
    return found


@st.composite
def _without_key(draw: st.DrawFn, keyed: Definition, *, row_ids: bool) -> Definition:
    """Draw the options of an append table with the columns of ``keyed``."""
    options = {name: draw(st.sampled_from(values)) for name, values in APPEND_OPTIONS.items()}
    options |= {name: keyed.options[name] for name in (VECTORS, BITMAP64, "file.format", "target-file-size")}
    buckets = draw(st.sampled_from(("-1", "-1", "1", "2")))
    options["bucket"] = buckets
    if buckets != "-1":
        options["bucket-key"] = keyed.columns[0][0]
    elif row_ids:
        options["row-tracking.enabled"] = draw(st.sampled_from(("true", "false")))
    return replace(keyed, primary_key=(), options=options)
