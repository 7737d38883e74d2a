"""Merge engines: the laws, and what breaks without them.

The second engine is owned by the tests. It goes through all that the first goes through: the laws on drawn changes, the
invariants in whole small state graphs, and the state machine with and without deletion vectors. Broken engines are
noticed by each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable_spec.covers import covers
from pktable_spec.errors import UnsupportedOptionError
from pktable_spec.interface import Change, Row, StoredRecord
from pktable_spec.model.graph import Scope, steps
from pktable_spec.model.invariants import broken, broken_by_step
from pktable_spec.model.levels import KeyedChange, flush, merge
from pktable_spec.model.meaning import Meaning
from pktable_spec.model.mechanism import EMPTY, Mechanism
from pktable_spec.model.merge import (
    DEDUPLICATE,
    ENGINES,
    OPTION,
    STEPS,
    ByColumn,
    Deduplicate,
    FirstRow,
    Group,
    MergeEngine,
    folded,
)
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import RowKind

from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.oracle.max_engine import NAME, ForgetsRetractions, MaxOfColumn, registered
from model_tests.seeded import cases, seed_for

MAXIMUM = MaxOfColumn(1)
LAWFUL = (
    DEDUPLICATE,
    MAXIMUM,
    Deduplicate(ignores_retractions=True),
    FirstRow(),
    ByColumn("partial-update", STEPS["last_non_null_value"]),
    *(ByColumn(f"aggregation by {name}", step) for name, step in STEPS.items() if name != "sum"),
    ByColumn("aggregation by sum", STEPS["max"], ((2, STEPS["sum"]),)),
    ByColumn("partial-update by a group", STEPS["last_non_null_value"], groups=(Group(1, (2,)),)),
    ByColumn("partial-update by a sum", STEPS["max"], groups=(Group(1, (2,), frozenset([2])),)),
)
each_engine = pytest.mark.parametrize("engine", LAWFUL, ids=lambda engine: engine.name)


class KeepsTheOldest(Deduplicate):
    """The oldest change of a part wins. M05."""

    def fold(self, changes: Sequence[Change]) -> Change:
        return changes[0]


class SetsAlways(MaxOfColumn):
    """A fold says that what is older no longer counts, though it does."""

    def fold(self, changes: Sequence[Change]) -> Change:
        found = super().fold(changes)
        return found._replace(kind=RowKind.UPDATE_AFTER) if found.kind.is_add else found


@dataclass(frozen=True)
class AsksForPositions(MaxOfColumn):
    """The engine does not say that it needs the rows that a compaction replaces."""

    lookup: str = "position"  # type: ignore[assignment]


# ------------------------------------------------------------------ the laws

VALUES = (None, "a", "b")
CHANGES = [Change(kind, (1, value, 0)) for kind, value in product(RowKind, VALUES)]


def changes_of_a_key() -> st.SearchStrategy[list[Change]]:
    """Draw changes that differ in their last column."""
    drawn = st.lists(st.sampled_from(CHANGES), min_size=1, max_size=6)
    return drawn.map(lambda some: [Change(kind, (*row[:2], at)) for at, (kind, row) in enumerate(some)])


def broken_laws(engine: MergeEngine, changes: Sequence[Change]) -> Iterator[str]:
    """Yield the laws that do not hold for ``changes``."""
    whole = engine.fold(changes)
    before: tuple[Row | None, ...] = (None, (1, None, -1), (1, "a", -1), (1, "b", -1))
    if any(reduce(engine.apply, changes, row) != engine.apply(row, whole) for row in before):
        yield "sound"
    for end in range(1, len(changes) + 1):
        for start in range(end):
            part = engine.fold(changes[start:end])
            if engine.fold([*changes[:start], part, *changes[end:]]) != whole:
                yield "associative"
    if engine.fold(changes[:1]) != changes[0] or engine.fold([whole]) != whole:
        yield "idempotent"


@covers("MRG-1", "MRG-3", "MRG-4")
@each_engine
@given(changes=changes_of_a_key())
def test_an_engine_keeps_the_laws(engine: MergeEngine, changes: list[Change]) -> None:
    assert set(broken_laws(engine, changes)) == set()


@pytest.mark.parametrize(
    ("engine", "laws"),
    [
        (KeepsTheOldest(), {"sound"}),
        (ForgetsRetractions(1), {"sound", "associative"}),
        (SetsAlways(1), {"sound", "associative", "idempotent"}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_engine_that_breaks_a_law_is_noticed(engine: MergeEngine, laws: set[str]) -> None:
    samples = [some for length in (1, 2, 3) for some in product(CHANGES, repeat=length)]
    assert {law for changes in samples for law in broken_laws(engine, changes)} == laws


@covers("MRG-4", "MRG-5")
@each_engine
@given(
    drawn=st.lists(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(CHANGES)), max_size=3), max_size=5),
    cuts=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
def test_runs_that_are_merged_in_parts_are_merged_all_the_same(
    engine: MergeEngine, drawn: list[list[tuple[int, Change]]], cuts: tuple[int, int]
) -> None:
    start, end = sorted(cuts)
    runs = [
        flush(
            [KeyedChange((key,), kind, (key, *row[1:])) for key, (kind, row) in run], 10 * (9 - age), engine
        )
        for age, run in enumerate(drawn)  # newest first
    ]
    whole = merge(runs, engine)
    assert [record.key for record in whole] == sorted({record.key for run in runs for record in run})
    assert merge([*runs[:start], merge(runs[start:end], engine), *runs[end:]], engine) == whole


@each_engine
@given(changes=changes_of_a_key())
def test_a_folded_record_has_the_number_of_the_newest_that_counts_and_with_first_row_of_the_oldest(
    engine: MergeEngine, changes: list[Change]
) -> None:
    records = [StoredRecord((1,), 3 * at, kind, row) for at, (kind, row) in enumerate(changes)]
    counting = [one for one in records if one.kind.is_add or not engine.ignores_retractions] or records[-1:]
    found = folded(records, engine)
    chosen = counting[0] if isinstance(engine, FirstRow) else counting[-1]
    assert (found.key, found.sequence) == ((1,), chosen.sequence)
    assert Change(found.kind, found.row) == engine.fold(changes)


# ------------------------------------------------------- meaning and mechanism

PUT, SET, DELETE = RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE


def test_an_insert_raises_a_row_an_update_sets_it_and_a_deletion_removes_it() -> None:
    meaning = Meaning(lambda row: row[:1], lambda row: ((), 0), MAXIMUM)
    kinds = [(PUT, "b"), (PUT, "a"), (SET, "a"), (PUT, None), (DELETE, None), (PUT, None), (PUT, "b")]
    shown = []
    for snapshot, (kind, value) in enumerate(kinds, 1):
        meaning.commit(snapshot, [Change(kind, (1, value))])
        shown.append([row[1] for row in meaning.rows(snapshot)])
    assert shown == [["b"], ["b"], ["a"], ["a"], [], [None], ["b"]]


def test_an_engine_that_is_not_implemented_is_refused_by_name() -> None:
    assert ModelOptions.parse({}).merge_engine is ModelOptions.parse({OPTION: "deduplicate"}).merge_engine
    with pytest.raises(UnsupportedOptionError, match=r"merge-engine='newest-wins'.*deduplicate"):
        ModelOptions.parse({OPTION: "newest-wins"})


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_the_oracle_refuses_an_engine_whose_retractions_it_cannot_fold(engine: str) -> None:
    with pytest.raises(UnsupportedOptionError, match="ignore-delete='false'"):
        ModelOptions.parse({OPTION: engine})


@pytest.mark.parametrize(
    ("engine", "options", "match"),
    [
        (
            "partial-update",
            {"fields.g.sequence-group": "a", "fields.a.aggregate-function": "max"},
            r"fields\.a\.aggregate-function='max' is not supported: expected sum",
        ),
        (
            "aggregation",
            {"fields.a.aggregate-function": "median"},
            r"fields\.a\.aggregate-function='median' is not supported",
        ),
        (
            "aggregation",
            {"fields.default-aggregate-function": "median"},
            r"fields\.default-aggregate-function='median' is not supported",
        ),
    ],
)
def test_the_oracle_refuses_a_function_that_it_does_not_have(
    engine: str, options: dict[str, str], match: str
) -> None:
    with pytest.raises(UnsupportedOptionError, match=match):
        ModelOptions.parse({OPTION: engine, "ignore-delete": "true", **options}, ("k", "g", "a"))


def test_a_registered_engine_is_found_until_the_block_ends() -> None:
    with registered(MAXIMUM):
        assert ModelOptions.parse({OPTION: NAME}).merge_engine is MAXIMUM
    assert NAME not in ENGINES


BATCHES = tuple(
    (KeyedChange((1,), kind, (1, value)),) for kind, value in ((PUT, "b"), (PUT, "a"), (DELETE, None))
)
SCOPE = Scope(BATCHES, ("c1", "c2"), write_limit=3, compaction_limit=3, crashes=False)


IN_GRAPHS = (*LAWFUL[:5], ByColumn("aggregation", STEPS["first_value"]))
"""One engine for each way of the mechanism; the folds of the others are known to keep the laws."""


def mechanism_of(engine: MergeEngine, *, deletion_vectors: bool) -> Mechanism:
    trigger = 3 if deletion_vectors else 2
    return Mechanism(ModelOptions(deletion_vectors, num_levels=4, trigger=trigger, merge_engine=engine))


@covers("CMP-12", "CMP-13", "CMP-14", "DV-12", "RD-3", "RD-15")
@pytest.mark.parametrize(
    ("engine", "deletion_vectors"),
    [
        (engine, vectors)
        for engine in IN_GRAPHS
        for vectors in (True, False)
        if not (vectors and isinstance(engine, FirstRow))  # which is refused with vectors
    ],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_every_invariant_holds_with_every_engine(engine: MergeEngine, deletion_vectors: bool) -> None:
    snapshots, wrong = walked(mechanism_of(engine, deletion_vectors=deletion_vectors))
    assert snapshots > 100
    assert wrong == set()


def walked(mechanism: Mechanism) -> tuple[int, set[str]]:
    """Return the number of snapshots in a graph, and the invariants that one of them, or a commit, breaks.

    Staged work breaks none, and which compactor has it makes no difference.
    """
    states, queue, wrong = {EMPTY}, [EMPTY], set(broken(mechanism, EMPTY))
    snapshots, commits = {EMPTY[:4]}, set()
    while queue:
        state = queue.pop()
        for _, _, _, after in steps(mechanism, state, SCOPE):
            if after[:4] not in snapshots:
                snapshots.add(after[:4])
                wrong.update(broken(mechanism, after))
            if (commit := (state[:4], after[:4])) not in commits:
                commits.add(commit)
                wrong.update(broken_by_step(mechanism, state, after))
            works = sorted((work for _, work in after.pending), key=hash)
            after = after._replace(pending=tuple(zip(SCOPE.compactors, works, strict=False)))
            if after not in states:
                states.add(after)
                queue.append(after)
    return len(snapshots), wrong


@pytest.mark.parametrize(
    ("engine", "deletion_vectors"),
    [
        (KeepsTheOldest(), True),
        (KeepsTheOldest(), False),
        (ForgetsRetractions(1), False),
        (AsksForPositions(1), True),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, bool) else str(one),
)
def test_an_invariant_notices_a_broken_engine(engine: MergeEngine, deletion_vectors: bool) -> None:
    assert walked(mechanism_of(engine, deletion_vectors=deletion_vectors))[1]


# ---------------------------------------------------------------- the machine

HISTORIES = Profile("engines", histories=cases(45), steps=12, seed=seed_for(7), shrinks=False)
"""A broken engine is noticed in the first fifteen."""
COLUMN = -2
"""Of the values in the rows of a history: before the number of the change."""


@covers("MRG-4", "RD-3", "RD-15", "CMP-14")
def test_the_mechanism_means_the_fold_with_the_second_engine() -> None:
    with registered(MaxOfColumn(COLUMN)):
        report = run_histories("model", HISTORIES, options={OPTION: NAME})
    assert report.message is None, f"seed {HISTORIES.seed}: {report.message}\n{report.falsifying_history}"
    assert report.stats.compactions > 0


@pytest.mark.parametrize(
    "engine",
    [KeepsTheOldest(), ForgetsRetractions(COLUMN), SetsAlways(COLUMN), AsksForPositions(COLUMN)],
    ids=lambda engine: type(engine).__name__,
)
def test_the_machine_notices_a_broken_engine(engine: MergeEngine) -> None:
    with registered(engine):
        report = run_histories("model", HISTORIES, options={OPTION: engine.name})
    assert report.message is not None, f"{engine} was not noticed in {report.stats}"
    assert "read of snapshot" in report.message, report.message
