"""The oracle's mechanism does not follow faults of the kernel. Histories are followed where they are played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.history import History, row_kind, spelled_out
from pktable_spec.covers import covers
from pktable_spec.interface import OpenTable
from pktable_spec.model.options import ModelOptions

from model_tests.backends.tables import PaimonTable, local_backend
from model_tests.histories.session import DELETION_VECTORS
from model_tests.mutants import MUTANTS
from model_tests.mutants.measure import stored_history
from model_tests.refinement.check import Refinement

# Faults of a read leave no trace on disk, those of a commit need staged work, and CMT-9 refuses a kept vector.
ON_DISK = ("M05", "M07", "M17", "C9", "C12", "C13")


@pytest.fixture(scope="module")
def local_tables() -> Iterator[OpenTable]:
    with local_backend() as open_table:
        yield open_table


def followed(history: History, open_table: OpenTable, deletion_vectors: str) -> int:
    """Do the writes and compactions of a history, unread; return how many snapshots the mechanism followed."""
    options = {**history.options, DELETION_VECTORS: deletion_vectors}
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


@covers("DV-6", "DV-10", "CMP-12", "CMP-13", "LSM-5", "MRG-1")
@pytest.mark.parametrize("mutant", ON_DISK)
def test_a_fault_of_the_kernel_is_no_step_of_the_mechanism(mutant: str, local_tables: OpenTable) -> None:
    fault = MUTANTS[mutant]
    vectors = "false" if fault.twin else "true"
    assert followed(stored_history(fault), local_tables, vectors)
    with fault.inject(), pytest.raises(CheckFailed):
        followed(stored_history(fault), local_tables, vectors)
