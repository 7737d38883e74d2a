"""Each fault of append tables is killed by the check meant for it, on a stored history that goes well without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable_spec.covers import covers
from pktable_spec.trace import defined

from model_tests.append.machine import TABLES, play
from model_tests.mutants.append_tables import APPEND_MUTANTS, STORED, AppendMutant, stored

every_mutant = pytest.mark.parametrize("one", APPEND_MUTANTS.values(), ids=APPEND_MUTANTS)


@covers("APP-13", "APP-15", "APP-16", "APP-17", "APP-18", "APP-21", "APP-25", "APP-31", "APP-32")
@every_mutant
def test_the_check_meant_for_a_fault_of_append_tables_finds_it(one: AppendMutant) -> None:
    kill = one.replayed(stored(one))
    assert kill is not None, "survived"
    assert kill.meant, kill


@every_mutant
def test_its_history_goes_well_without_the_fault(one: AppendMutant) -> None:
    assert play(stored(one), TABLES[one.table]) == len(stored(one).steps)


def test_every_stored_history_of_append_tables_is_that_of_a_fault() -> None:
    assert {path.stem for path in STORED.glob("*")} == set(APPEND_MUTANTS)
    known = set(defined(Path(__file__).parents[2]).force)
    assert {clause for one in APPEND_MUTANTS.values() for clause in one.mutant.clauses} <= known
