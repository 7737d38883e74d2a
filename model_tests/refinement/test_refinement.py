"""The oracle's mechanism follows the snapshots on disk step by step, and does not follow faults of the kernel."""

from __future__ import annotations

import pytest
from pktable_spec.covers import covers
from pktable_spec.model.options import ModelOptions

from model_tests import corpus
from model_tests.backends.tables import PaimonTable, local_backend
from model_tests.histories.checks import CheckFailed
from model_tests.histories.history import History, row_kind, spelled_out
from model_tests.histories.session import DELETION_VECTORS
from model_tests.mutants import MUTANTS
from model_tests.refinement.check import Refinement

# Faults of a read leave no trace on disk, those of a commit need staged work, and CMT-9 refuses a kept vector.
ON_DISK = ("M05", "M07", "M17", "C9", "C12", "C13")


def followed(history: History, deletion_vectors: str) -> int:
    """Do the writes and compactions of a history; return how many snapshots the mechanism followed."""
    options = {**history.options, DELETION_VECTORS: deletion_vectors}
    with local_backend() as open_table:
        table = open_table(history.shape, options)
        assert isinstance(table, PaimonTable)
        count = 0
        for operation in history.operations:
            if operation.do == "write":
                changes = []
                for kind, row in operation.changes:
                    count += 1
                    changes.append((row_kind(kind), (*spelled_out(row, count), count)))
                table.write(changes, write_only=operation.write_only)  # type: ignore[arg-type]
            elif operation.do == "compact":
                table.compact(full=operation.full)
        parsed = ModelOptions.parse(options, history.shape.names)
        return Refinement(table.directory, parsed).follow(len(table.snapshots()))


@pytest.mark.parametrize("deletion_vectors", ["true", "false"])
def test_every_stored_history_is_followed(deletion_vectors: str) -> None:
    assert sum(followed(corpus.load(name), deletion_vectors) for name in corpus.names()) > 100


@covers("DV-6", "DV-10", "CMP-12", "CMP-13", "LSM-5", "MRG-1")
@pytest.mark.parametrize("mutant", ON_DISK)
def test_a_fault_of_the_kernel_is_no_step_of_the_mechanism(mutant: str) -> None:
    with MUTANTS[mutant].inject():
        for name in corpus.names():
            try:
                followed(corpus.load(name), "true")
                followed(corpus.load(name), "false")
            except CheckFailed:
                return
    raise AssertionError("survived")
