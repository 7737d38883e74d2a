"""A few histories in each direction, the same each time, for every change.

Drawn histories (`histories`) are simple and many. Here a history has many features: a key of several columns, values
of all types, options that no other one has, and steps in which everyone adds, takes back and compacts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from model_tests.interop.append_histories import APPEND_OPTIONS, STATEMENTS, possible
from model_tests.interop.directions import Direction
from model_tests.interop.environments import JVM, JVMS
from model_tests.interop.histories import (
    BITMAP64,
    ENGINES,
    OPTIONS,
    PRODUCER,
    PRODUCERS,
    SEQUENCE_FIELD,
    VECTORS,
    Condition,
    Definition,
    History,
    Step,
    Universe,
    change,
    definition_of,
    loaded,
)
from model_tests.interop.long_histories import SPAN_KEY
from model_tests.interop.outcomes import OURS
from model_tests.interop.retracting import CASES, Retracting
from model_tests.interop.retracting_histories import Writes

KEYS: Final = 3
"""How many keys have all types together."""
CHANGES: Final = (
    ((0, 0, 0), (1, 2, 2), (2, 4, 3), (3, 5, 1)),
    ((1, 0, 1), (0, 2, 2)),
    ((2, 0, 2), (3, 0, 3), (2, 2, 0)),
    ((0, 0, 3), (1, 4, 0), (3, 2, 1)),
)
"""Of each write the changes: the numbers of key, kind and values, as `change` takes them."""
APPENDED: Final[Sequence[tuple[str, Condition | None]]] = (
    ("write", None),
    ("delete", ("w", "=", "2")),
    ("update", ("w", ">", "6")),
    ("merge", None),
    ("delete", ("w", "<=", "4")),
    ("compact", None),
    ("write", None),
    ("update", ("w", "<>", "5")),
    ("overwrite", None),
)
"""The steps of an append table, each by everyone who can."""
FEW_COMPACTIONS: Final = {"num-sorted-run.compaction-trigger": "5", "num-levels": "6"}
"""Else writes would be merged with all there is, and leave no vectors."""
ROWS: Final = 900
SPANS: Final = ((5, ROWS, 90), (100, 700, 1))
"""Start, stop and step of the keys of long writes: an array container, and one of runs."""


def histories_of(number: int, direction: Direction) -> dict[str, list[History]]:
    """Return the histories of a direction, by what they are. ``number``: of the direction, which chooses options."""
    if direction.append:
        kinds = range(2 if direction.writers == {OURS} else 1)
        return {direction.name: [_appended(number + at, direction) for at in kinds]}
    alone = direction.writers == {OURS}
    chunks = range(KEYS if alone and not direction.ordered else 1)
    found = {direction.name: [_keyed(number + at, direction, vectors=at != 2) for at in chunks]}
    if direction.ordered:
        return found
    found[f"{direction.name}, long writes"] = [_long(number, direction)]
    if direction.engines:
        cases = [one for one in CASES.values() if one.drawn and not (one.newer and JVM in direction.writers)]
        # The others have the rest of the cases, a case each.
        chosen = (
            [one for one in cases if one.newer or one is cases[0]]
            if alone
            else [cases[(number - 1) % len(cases)]]
        )
        found[f"{direction.name}, retractions"] = [_retracting(number, direction, one) for one in chosen]
    return found


def _keyed(number: int, direction: Direction, *, vectors: bool) -> History:
    """Return a history of a table whose key has some of the types, and its values all."""
    universe = direction.universe if vectors and not direction.ordered else direction.universe.merged()
    definition = _defined(number, number, universe, vectors=vectors, bitmap64=direction.bitmap64)
    options = {**definition.options}
    if direction.ordered:
        options |= {SEQUENCE_FIELD: "v0", f"{SEQUENCE_FIELD}.sort-order": "descending"}
    elif direction.engines and vectors:
        options |= ENGINES[number % len(ENGINES)]
    definition = replace(definition, options=options)
    compactors = [actor.name for actor in direction.actors if actor.compacts]
    steps = loaded(definition, universe, compactors[0])
    for at, numbers in enumerate(CHANGES):
        actor = direction.actors[at % len(direction.actors)]
        inserts_only = not (actor.retracts and definition.takes_retractions)
        changes = tuple(
            change(definition, key + 4 * (kind + 6 * variant), universe, inserts_only=inserts_only)
            for key, kind, variant in numbers
        )
        steps.append(Step(actor.name, "write", changes, write_only=not actor.compacts or at == 1))
        if at % 2:
            steps.append(Step(compactors[-(at // 2) % len(compactors)], "compact", full=at == 3))
    return _history(number, direction, definition, universe, steps)


def _defined(number: int, chunk: int, universe: Universe, *, vectors: bool, bitmap64: bool) -> Definition:
    """Return a table with a part of all types of keys, by its number, and values of all types."""
    keys, partitions = list(universe.keys), list(universe.partitions)
    producers = PRODUCERS if vectors else (*PRODUCERS, "full-compaction")
    return definition_of(
        keys=tuple(keys[chunk % KEYS :: KEYS]),
        partitions=(partitions[number % len(partitions)],),
        values=("STRING", *universe.values),
        options={
            **_turned(OPTIONS, number),
            **(FEW_COMPACTIONS if vectors else {}),
            VECTORS: str(vectors).lower(),
            PRODUCER: producers[number % len(producers)],
            BITMAP64: str(bitmap64 and number % 3 == 1).lower(),
        },
    )


def _turned(options: Mapping[str, tuple[str, ...]], number: int) -> dict[str, str]:
    """Return a value of each option: another one of each for the next number."""
    # Witnesses have no statistics, which not all peers can do with.
    some = {name: [value for value in values if value != "none"] for name, values in options.items()}
    return {name: values[(number + at) % len(values)] for at, (name, values) in enumerate(some.items())}


def _history(
    number: int, direction: Direction, definition: Definition, universe: Universe, steps: Iterable[Step]
) -> History:
    creators = direction.creators
    conditions = tuple(_conditions(number, definition, universe))
    return History(definition, creators[number % len(creators)], tuple(steps), conditions)


def _conditions(number: int, definition: Definition, universe: Universe) -> Iterator[Condition]:
    """Yield a condition on the first column that there may be one on, and of append tables one on the last column."""
    if not definition.primary_key:
        yield "w", "<=", "5"  # behind columns without statistics
    for name, kind in definition.columns:
        if kind in ("INT", "STRING", "BIGINT") and name[0] in "kp":
            some = (universe.partitions if name == "p" else universe.keys)[kind]
            yield (name, "=", some[0]) if number % 2 else (name, "<=", some[1])
            return


def _appended(number: int, direction: Direction) -> History:
    """Return a history of an append table, on which everyone does in turn whatever they can."""
    keyed = _defined(number, 0, direction.universe, vectors=True, bitmap64=direction.bitmap64)
    names = (VECTORS, BITMAP64, "file.format", "target-file-size")
    options = {**_turned(APPEND_OPTIONS, number), **{name: keyed.options[name] for name in names}}
    if number % 2 or JVM in direction.writers:
        options |= {"bucket": "2", "bucket-key": keyed.columns[0][0]}
    else:
        options |= {"bucket": "-1", "row-tracking.enabled": str(direction.row_ids).lower()}
    definition = replace(keyed, primary_key=(), options=options)
    steps = []
    for at, (do, where) in enumerate(APPENDED):
        for actor in direction.actors:
            if do not in possible(actor, definition):
                continue
            if do == "compact":
                steps.append(Step(actor.name, do, full=True))
            elif do in STATEMENTS:
                steps.append(Step(actor.name, do, where=where))
            else:
                rows = [
                    change(keyed, 24 * at + key, direction.universe, inserts_only=True) for key in range(4)
                ]
                steps.append(Step(actor.name, do, tuple(rows)))
    return _history(number, direction, definition, direction.universe, steps)


def _long(number: int, direction: Direction) -> History:
    """Return a history of writes of many rows, which make files of several pages and containers of two kinds."""
    definition = definition_of(
        (SPAN_KEY,),
        (),
        ("STRING",),
        {
            "bucket": "1",
            "target-file-size": "8 kb",
            BITMAP64: str(direction.bitmap64 and number % 2 == 1).lower(),
        },
    )
    first, last = direction.actors[0], direction.actors[-1]
    steps = [Step(first.name, "write", span=("+I", 0, ROWS, 1))]
    for actor, (start, stop, by) in zip((last, first), SPANS, strict=True):
        kind = "-D" if actor.retracts else "+I"
        steps.append(Step(actor.name, "write", span=(kind, start, stop, by)))
    steps.append(Step(first.name, "compact"))
    return _history(number, direction, definition, direction.universe, steps)


def _retracting(number: int, direction: Direction, one: Retracting) -> History:
    """Return a history of a table of a case, whose writes have each kind of change in turn."""
    names = [actor.name for actor in direction.actors]
    definition = _defined(number, 0, direction.universe, vectors=True, bitmap64=direction.bitmap64)
    keys = [column for column in definition.columns if column[0] in definition.primary_key][:2]
    definition = replace(
        definition,
        columns=(*keys, *one.case.columns.items()),
        primary_key=tuple(name for name, _ in keys),
        partition_by=(),
        options={**definition.options, **one.case.options},
        case=one.case.name,
    )
    writes = Writes(definition, one, direction.universe, strict=JVM in names)
    values = [one.values_of(name) for name in one.case.columns if name != "w"]

    def drawn(at: int) -> tuple[int, int, tuple[int, ...]]:
        kind = 2 * (at % len(one.case.kinds)) + 1
        return at % 4, kind, tuple((at + column) % len(some) for column, some in enumerate(values))

    begun = writes.changes([drawn(at) for at in range(4)], bulk=True)
    steps = [Step(names[0], "write", begun, write_only=True), Step(names[0], "compact", full=True)]
    for at in range(4):
        by = names[at % len(names)]
        some = [drawn(3 * at + change + 4) for change in range(3)]
        steps.append(Step(by, "write", writes.changes(some, merged=by in JVMS), write_only=at == 1))
        if at % 2:
            steps.append(Step(names[-(at // 2) % len(names)], "compact", full=at == 3))
    return _history(number, direction, definition, direction.universe, steps)
