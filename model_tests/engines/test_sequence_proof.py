"""The rules of sequences, proven by an SMT solver for all values: the result does not depend on the schedule.

A record of a key is four integers: its place by `sequence.field`, null being the least, its sequence number, whether it
is an add, and its run. The newer one of two is the greater tuple (MRG-19, MRG-1, MRG-2, MRG-6). Merging two states of a
key is associative and commutative, so records may be merged in any grouping and order, late ones included. A state must
remember the retraction that has won (MRG-21): without that the solver finds the history that a table then plays.
A sequence group of partial-update is merged by position, so only its grouping is free (MRG-14).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st
from pktable import Table
from pktable_spec.covers import covers

PLACE, NUMBER, ADD, RUN = range(4)
Record = tuple[Any, Any, Any, Any]


def record(name: str) -> Record:
    """A record that can be any."""
    place, number, run = (z3.Int(f"{name}.{part}") for part in ("place", "number", "run"))
    return place, number, z3.Bool(f"{name}.add"), run


def is_newer(one: Record, other: Record) -> Any:
    """The greater tuple; an add is greater than a retraction."""
    parts = [
        (one[i], other[i]) if i != ADD else (z3.If(one[i], 1, 0), z3.If(other[i], 1, 0)) for i in range(4)
    ]
    found: Any = z3.BoolVal(False)
    for mine, theirs in reversed(parts):
        found = z3.Or(mine > theirs, z3.And(mine == theirs, found))
    return found


def merged(older: Record, newer: Record) -> Record:
    """The record that wins; nothing else of the two is known afterwards."""
    wins = is_newer(newer, older)
    place, number, add, run = (z3.If(wins, new, old) for old, new in zip(older, newer, strict=True))
    return place, number, add, run


def same(one: Record, other: Record) -> Any:
    return z3.And(*(a == b for a, b in zip(one, other, strict=True)))


def counterexample(claim: Any) -> Any:
    """Return values for which a claim does not hold, None if it always does."""
    solver = z3.Solver()
    solver.set(timeout=60_000)
    solver.add(z3.Not(claim))
    found = solver.check()
    assert found != z3.unknown
    return solver.model() if found == z3.sat else None


A, B, C = (record(name) for name in "abc")


@covers("MRG-1", "MRG-2", "MRG-6", "MRG-19", "MRG-21")
@pytest.mark.parametrize(
    "claim",
    [
        z3.Or(is_newer(A, B), is_newer(B, A), same(A, B)),
        z3.Not(z3.And(is_newer(A, B), is_newer(B, A))),
        z3.Implies(z3.And(is_newer(A, B), is_newer(B, C)), is_newer(A, C)),
        same(merged(merged(A, B), C), merged(A, merged(B, C))),
        same(merged(A, B), merged(B, A)),
        same(merged(A, A), A),
    ],
    ids=["one is newer", "not both", "transitive", "any grouping", "any order", "twice is once"],
)
def test_the_newest_record_wins_in_any_grouping_and_order(claim: Any) -> None:
    assert counterexample(claim) is None


@covers("MRG-19")
@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 2, st.booleans(), st.integers(0, 2)), min_size=2, max_size=2)
)
def test_the_solver_compares_as_tuples_are_compared(pair: list[tuple[int, int, bool, int]]) -> None:
    one, other = ([z3.IntVal(i), z3.IntVal(j), z3.BoolVal(k), z3.IntVal(m)] for i, j, k, m in pair)
    assert z3.is_true(z3.simplify(is_newer(tuple(one), tuple(other)))) == (pair[0] > pair[1])


@covers("MRG-21")
def test_a_state_that_forgets_the_retraction_that_won_depends_on_the_schedule(tmp_path: Path) -> None:
    together = merged(merged(A, B), C)
    forgets = z3.Not(merged(A, B)[ADD])  # a compaction merges a and b, and drops the retraction; c comes late
    claim = z3.Implies(forgets, C[ADD] == together[ADD])
    written_so = z3.And(
        *(one[NUMBER] == i for i, one in enumerate((A, B, C))), A[ADD], z3.Not(B[ADD]), C[ADD]
    )
    small = z3.And(*(z3.And(one[PLACE] >= 0, one[PLACE] < 4) for one in (A, B, C)))
    found = counterexample(z3.Implies(z3.And(written_so, small), claim))
    assert found is not None
    places = [found.eval(one[PLACE], model_completion=True).as_long() for one in (A, B, C)]
    assert places[2] < places[1]
    for number, vectors in enumerate(("true", "false")):
        for forgetful, rows in ((False, 0), (True, 1)):
            options = {"sequence.field": "s", "deletion-vectors.enabled": vectors, "write-only": "true"}
            if forgetful:
                options["sequence.field.retractions"] = "drop-in-full-compaction"
            path = tmp_path / f"{number}-{forgetful}"
            table = Table.create(path, "k BIGINT, s BIGINT", primary_key="k", options=options)
            for kind, place in (("+I", places[0]), ("-D", places[1])):
                table.write_changes([{"k": 1, "s": place, "op": kind}], row_kind="op")
                table.compact(full=True)
            table.upsert([{"k": 1, "s": places[2]}])
            assert table.to_arrow(fresh=True).num_rows == rows


GroupState = tuple[Any, Any, Any]


def group(name: str) -> GroupState:
    """The state of a sequence group: whether its sequence is null, the sequence, and the value of a column."""
    return z3.Bool(f"{name}.null"), z3.Int(f"{name}.sequence"), z3.Int(f"{name}.value")


def group_merged(older: GroupState, newer: GroupState) -> GroupState:
    """A null sequence changes nothing; of equal sequences the one that was written later wins."""
    wins = z3.And(z3.Not(newer[0]), z3.Or(older[0], newer[1] >= older[1]))
    is_null, sequence, value = (z3.If(wins, new, old) for old, new in zip(older, newer, strict=True))
    return is_null, sequence, value


@covers("MRG-14")
def test_a_sequence_group_is_the_same_in_any_grouping_of_neighbours() -> None:
    a, b, c = (group(name) for name in "abc")
    one, other = group_merged(group_merged(a, b), c), group_merged(a, group_merged(b, c))
    assert counterexample(z3.And(*(x == y for x, y in zip(one, other, strict=True)))) is None
    swapped = z3.And(*(x == y for x, y in zip(group_merged(a, b), group_merged(b, a), strict=True)))
    assert counterexample(swapped) is not None  # equal sequences
