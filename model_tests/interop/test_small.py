"""The small set of histories has all that matters, in every direction."""

from __future__ import annotations

import pytest

from model_tests.interop.directions import DIRECTIONS, Direction
from model_tests.interop.histories import EVERYTHING, KEYS, PARTITIONS, VECTORS, History
from model_tests.interop.outcomes import OURS
from model_tests.interop.retracting import CASES
from model_tests.interop.small import histories_of

SMALL = [(direction, histories_of(number, direction)) for number, direction in enumerate(DIRECTIONS)]
ALL: list[tuple[Direction, History]] = [
    (direction, history) for direction, some in SMALL for histories in some.values() for history in histories
]
BY_US = [history for direction, history in ALL if any(actor.name == OURS for actor in direction.actors)]


@pytest.mark.parametrize(("direction", "found"), SMALL, ids=[direction.name for direction, _ in SMALL])
def test_everyone_who_writes_does_and_someone_compacts(
    direction: Direction, found: dict[str, list[History]]
) -> None:
    assert all(found.values())
    for histories in found.values():
        for history in histories:
            assert {step.by for step in history.steps} == {actor.name for actor in direction.actors}
            assert "compact" in {step.do for step in history.steps}


def test_we_write_keys_partitions_and_values_of_all_types() -> None:
    definitions = [history.definition for history in BY_US if not history.definition.case]
    keys = {one.type_of(name) for one in definitions for name in one.primary_key if name != "p"}
    partitions = {one.type_of("p") for one in definitions if one.partition_by}
    values = {kind for one in definitions for name, kind in one.columns if name.startswith("v")}
    assert (keys, partitions, values) == (set(KEYS), set(PARTITIONS), set(EVERYTHING.values))


def test_every_case_of_retractions_and_kind_of_table_is_there() -> None:
    drawn = {name for name, one in CASES.items() if one.drawn}
    assert {history.definition.case for _, history in ALL} == {"", *drawn}
    options = {pair for _, history in ALL for pair in history.definition.options.items()}
    assert options >= {(VECTORS, "true"), (VECTORS, "false"), ("bucket", "-1"), ("bucket", "3")}
    assert options >= {("row-tracking.enabled", "true"), ("deletion-vectors.bitmap64", "true")}


def test_most_histories_have_a_condition() -> None:
    assert sum(bool(history.conditions) for _, history in ALL) > 0.9 * len(ALL)
