"""Each fault of the index of log files is found by the check meant for it, in its case, which goes well without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable_spec.covers import covers
from pktable_spec.trace import defined

from model_tests.mutants.log_index import LOOKUP_MUTANTS, LookupMutant

every_mutant = pytest.mark.parametrize("mutant", LOOKUP_MUTANTS, ids=lambda mutant: mutant.id)


@covers("LOG-1", "LOG-3", "LOG-13", "LOG-14", "LOG-15", "LOG-16", "LOG-24", "LOG-25")
@covers("LOG-40", "LOG-41", "LOG-42", "LOG-44", "LOG-45", "LOG-48")
@every_mutant
def test_the_check_meant_for_a_fault_of_the_index_finds_it(mutant: LookupMutant, tmp_path: Path) -> None:
    kill = mutant.replayed(tmp_path / "t")
    assert kill is not None, "survived"
    assert kill.meant, kill


@every_mutant
def test_its_case_goes_well_without_the_fault(mutant: LookupMutant, tmp_path: Path) -> None:
    mutant.case(tmp_path / "t")


def test_a_fault_of_the_index_breaks_a_clause_that_there_is() -> None:
    known = set(defined(Path(__file__).parents[2]).force)
    assert {clause for mutant in LOOKUP_MUTANTS for clause in mutant.clauses} <= known
    assert len({mutant.id for mutant in LOOKUP_MUTANTS}) == len(LOOKUP_MUTANTS) == 22
