"""Draw histories of the tables of `retracting`: writes with retractions, and compactions.

At least half of the changes are adds. Left out are changes whose result depends on Paimon's schedule of merges, as
`retraction_probes` proves: a retraction of a key that has no row, and one that a write of Paimon merges with other
changes of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hypothesis import strategies as st
from pktable_conform.judge.history import BULK, row_kind
from pktable_spec.interface import Row
from pktable_spec.vocabulary import RowKind

from model_tests.interop.environments import JVM, JVMS
from model_tests.interop.histories import (
    PRODUCER,
    Actor,
    Definition,
    History,
    PlainChange,
    Step,
    Universe,
    conditions,
    definitions,
)
from model_tests.interop.retracting import CASES, Retracting, row_after

Drawn: TypeAlias = tuple[int, int, tuple[int, ...]]
"""A change as it is drawn: numbers of its key, its kind and its values."""

CONTAINERS: Final = ("ARRAY", "MAP")


@st.composite
def retracting_histories(
    draw: st.DrawFn, actors: Sequence[Actor], creators: Sequence[str], universe: Universe, *, bitmap64: bool
) -> History:
    """Draw a history of two to six steps on a table of any of `CASES`; an actor that compacts ends it."""
    names = {actor.name for actor in actors}
    one = draw(
        st.sampled_from([one for one in CASES.values() if one.drawn and not (one.newer and JVM in names)])
    )
    # Paimon 0.9 reads every table.
    alone = one.newer or (JVM in names and bool(one.ranks))
    vectors = alone or draw(st.sampled_from((True, True, True, False)))
    if not vectors:
        universe = universe.merged()
    definition = draw(definitions(universe, vectors=vectors, bitmap64=bitmap64))
    keys = tuple(column for column in definition.columns if column[0] in definition.primary_key)
    options = {**definition.options, **one.case.options, **({} if vectors else {PRODUCER: "lookup"})}
    definition = replace(
        definition, columns=(*keys, *one.case.columns.items()), options=options, case=one.case.name
    )
    writes = Writes(definition, one, universe, strict=JVM in names or not vectors)
    compactors = [actor.name for actor in actors if actor.compacts]
    steps: list[Step] = []
    if draw(st.sampled_from((True, True, True, False))):
        by, drawn = draw(st.sampled_from(compactors)), draw(st.lists(writes.drawn, min_size=4, max_size=4))
        changes = writes.changes([(key, 0, values) for key, (_, _, values) in enumerate(drawn)], bulk=True)
        steps = [Step(by, "write", changes=changes, write_only=True), Step(by, "compact", full=True)]
    for _ in range(draw(st.integers(2, 6))):
        actor = draw(st.sampled_from(list(actors)))
        if draw(st.integers(0, 3)) == 3:
            steps.append(Step(actor.name, "compact", full=draw(st.booleans())))
            continue
        changes = writes.changes(
            draw(st.lists(writes.drawn, min_size=1, max_size=5)), merged=actor.name in JVMS
        )
        steps.append(Step(actor.name, "write", changes=changes, write_only=draw(st.integers(0, 4)) == 4))
    steps.append(Step(draw(st.sampled_from(compactors)), "compact", full=draw(st.booleans())))
    return History(
        definition,
        draw(st.sampled_from(list(creators))),
        tuple(steps),
        draw(conditions(definition, universe, 1)),
    )


class Writes:
    """The changes of a history so far, which say which retractions may come next.

    ``strict``: whether no retraction has a container that is null, which Paimon 0.9 does not take out.
    """

    def __init__(self, definition: Definition, one: Retracting, universe: Universe, *, strict: bool) -> None:
        self._definition, self._one, self._universe, self._strict = definition, one, universe, strict
        self._before: dict[Row, list[tuple[RowKind, Row]]] = {}
        columns = [name for name in one.case.columns if name != "w"]
        self._values = [one.values_of(name) for name in columns]
        self.drawn: st.SearchStrategy[Drawn] = st.tuples(
            st.integers(0, 3),
            st.integers(0, 2 * len(one.case.kinds) - 1),
            st.tuples(*(st.integers(0, len(values) - 1) for values in self._values)),
        )

    def changes(
        self, drawn: Sequence[Drawn], *, merged: bool = False, bulk: bool = False
    ) -> tuple[PlainChange, ...]:
        """Return the changes of a write. ``merged``: by one that merges them."""
        found: list[tuple[str, Row]] = []
        for number, kind, values in drawn:
            key = self._key(number)
            symbol = self._symbol(key, kind)
            others = [one for one, row in found if row[: len(key)] == key]
            if merged and others and not all(row_kind(one).is_add for one in (symbol, *others)):
                continue
            begins = row_after(self._definition, self._before.get(key, [])) is None
            row = (*key, *self._row(values, row_kind(symbol), begins=begins))
            if bulk:
                row = (*row[:-1], BULK)
            found.append((symbol, row))
            self._before.setdefault(key, []).append((row_kind(symbol), (*row, None)))
        return tuple(found)

    def _symbol(self, key: Row, kind: int) -> str:
        """Return the kind of a change: of every other one an add, and of one to a key that has no row."""
        kinds = self._one.case.kinds
        found = kinds[kind // 2] if kind % 2 else RowKind.INSERT
        there = row_after(self._definition, self._before.get(key, []))
        return found.symbol if found.is_add or there is not None else "+I"

    def _key(self, number: int) -> Row:
        columns = [column for column in self._definition.columns if column[0] in self._definition.primary_key]
        return tuple(
            self._universe.partitions[type][number // 2]
            if name in self._definition.partition_by
            else self._universe.keys[type][(number + at) % 4]
            for at, (name, type) in enumerate(columns)
        )

    def _row(self, values: tuple[int, ...], kind: RowKind, *, begins: bool) -> Row:
        """Return the values of a change, which may be the one that a row ``begins`` with: then it orders each group."""
        found = [some[at] for at, some in zip(values, self._values, strict=True)]
        if begins and self._one.ranks:
            names = list(self._one.case.columns)
            found = [
                "0" if value is None and name in self._one.ranks else value
                for value, name in zip(found, names, strict=False)
            ]
        if kind.is_add or not self._strict:
            return tuple(found)
        types = list(self._one.case.columns.values())[: len(found)]
        return tuple(
            "[]" if value is None and type.startswith(CONTAINERS) else value
            for value, type in zip(found, types, strict=True)
        )
