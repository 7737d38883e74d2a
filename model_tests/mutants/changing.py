"""Faults of statements: UPDATE, DELETE by condition and MERGE of rows that are there."""

from __future__ import annotations

from typing import Any

from pktable import dml
from pktable.statements.plan import Statement

from model_tests.mutants.registry import READ, Mutant, patched

OTHER_CHANGES = f"{READ}|written: |nothing_was_committed: |appended: "


def _not_fresh(plan_read: Any) -> Any:
    """Plan the read of a statement as a default read."""

    def planned(*arguments: Any, **named: Any) -> Any:
        return plan_read(*arguments, **{**named, "fresh": False})

    return planned


def _last_first(of: Any) -> Any:
    """Ask the clauses of a statement in the other order."""
    return lambda self, when: of(self, when)[::-1]


MUTANTS = (
    Mutant(
        "T1",
        "a statement does not see the rows of level 0",
        patched((dml, "plan_read", _not_fresh)),
        OTHER_CHANGES,
        ("STM-1",),
    ),
    Mutant(
        "T2",
        "the last clause whose condition is true decides about a row",
        patched((Statement, "of", _last_first)),
        OTHER_CHANGES,
        ("STM-2",),
    ),
)
