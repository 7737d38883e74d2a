"""The machine and the stored histories notice faults of the reference: without that they would prove nothing."""

from __future__ import annotations

import re

import pytest
from pktable_spec.covers import covers

from model_tests import corpus
from model_tests.adapters import local_backend
from model_tests.checked import replay
from model_tests.harness import run_histories
from model_tests.mutants.kernel import MUTANTS, Mutant
from model_tests.profiles import Profile

STORED = Profile("mutant", histories=1, steps=1)
DRAWN = Profile("mutant", histories=1_000, steps=14, seed=7, shrinks=False)

# Faults that `make verify` must find in drawn histories alone.
DRAWN_TOO = ("a replaced row is not marked", "a delete is dropped too early", "the oldest record wins")


def names(mutant: Mutant) -> str:
    return mutant.name


def stored_history_that_finds(mutant: Mutant) -> tuple[str, str] | None:
    """Return the first stored history that the mutant fails, and the message."""
    with local_backend() as open_table, mutant.inject():
        for name in corpus.names():
            try:
                replay(corpus.load(name), open_table, STORED)
            except Exception as failure:  # judged by its message
                return name, f"{type(failure).__name__}: {failure}"
    return None


@covers("DV-6", "DV-9", "DV-10", "CMP-12", "CMP-13", "CMT-7", "CMT-8", "LSM-5", "MRG-1", "RD-7", "RD-9")
@pytest.mark.parametrize("mutant", MUTANTS, ids=names)
def test_a_stored_history_finds_each_fault(mutant: Mutant) -> None:
    found = stored_history_that_finds(mutant)
    assert found is not None, "survived"
    assert re.search(mutant.found_by, found[1]), f"{found[0]} ended by accident: {found[1]}"


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name in DRAWN_TOO], ids=names)
def test_drawn_histories_find_the_faults_that_matter_most(mutant: Mutant) -> None:
    with mutant.inject():
        report = run_histories("local", DRAWN)
    assert report.mismatches == 1, "survived"
    assert report.falsifying_history
    assert re.search(mutant.found_by, report.message or ""), report.message
