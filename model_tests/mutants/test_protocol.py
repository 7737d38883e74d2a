"""Each fault of the protocol is found by the check meant for it, in the run that its script tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable_spec.covers import covers
from pktable_spec.trace import defined

from model_tests.mutants.protocol import PROTOCOL, WITH_OTHERS, ProtocolMutant
from model_tests.simulation.explore import BadRun, Jobs
from model_tests.simulation.preemptions import first_bad
from model_tests.simulation.tables import USUAL, template

every_mutant = pytest.mark.parametrize("mutant", PROTOCOL, ids=lambda mutant: mutant.id)


@covers(
    "CMT-13",
    "CMT-16",
    "CMT-17",
    "CMT-27",
    "CMT-31",
    "CMT-35",
    "CMT-36",
    "CMT-37",
    "CMT-38",
    "CMT-39",
    "CMT-40",
)
@covers(
    "CMT-41",
    "CMT-42",
    "CMT-43",
    "CMT-44",
    "CMT-45",
    "CMT-46",
    "CMT-49",
    "CMT-50",
    "CMT-52",
    "CMT-53",
    "RD-17",
    "CHG-11",
    "STM-6",
)
@covers("APP-24", "CHG-17", "CMT-34", "CMT-48", "CMT-57", "CMT-59", "CMT-60")
@every_mutant
def test_the_check_meant_for_a_fault_of_the_protocol_finds_it(mutant: ProtocolMutant) -> None:
    template(mutant.setting)  # which is kept, and must not have the fault
    with mutant.inject():
        found = mutant.run()
    assert isinstance(found, BadRun), "survived"
    assert mutant.judge("simulation", found.error).meant, found.error


@every_mutant
def test_the_run_of_a_script_goes_well_without_its_fault(mutant: ProtocolMutant) -> None:
    found = mutant.run()
    assert not isinstance(found, BadRun), found.error


@pytest.mark.parametrize("jobs", WITH_OTHERS, ids=str)
def test_jobs_go_well_in_every_order_with_those_who_put_no_fences(jobs: Jobs) -> None:
    assert first_bad(jobs) is None


def test_one_of_these_orders_shows_a_commit_that_is_taken_for_late() -> None:
    template(USUAL)
    with next(one for one in PROTOCOL if one.id == "P44").inject():
        found = first_bad(WITH_OTHERS[0])
    assert found is not None
    assert "expected a file, found none" in found.error


def test_a_fault_of_the_protocol_breaks_a_clause_that_there_is() -> None:
    known = set(defined(Path(__file__).parents[2]).force)
    assert {clause for mutant in PROTOCOL for clause in mutant.clauses} <= known
    assert len({mutant.id for mutant in PROTOCOL}) == len(PROTOCOL)
