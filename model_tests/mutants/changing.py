"""Faults of statements: UPDATE, DELETE by condition, MERGE and overwrites of rows that are there."""

from __future__ import annotations

from typing import Any

from pktable import dml
from pktable.catalog import changes
from pktable.catalog.isolation import Isolation
from pktable.catalog.state import TableState
from pktable.statements.plan import Statement

from model_tests.mutants.registry import READ, Mutant, instead, patched

OTHER_CHANGES = f"{READ}|written: |nothing_was_committed: |appended: "


def _not_fresh(plan_read: Any) -> Any:
    """Plan the read of a statement as a default read."""

    def planned(*arguments: Any, **named: Any) -> Any:
        return plan_read(*arguments, **{**named, "fresh": False})

    return planned


def _last_first(of: Any) -> Any:
    """Ask the clauses of a statement in the other order."""
    return lambda self, when: of(self, when)[::-1]


def _level_zero_alone(replaced: Any) -> Any:
    """Let an overwrite take a bucket as replaced only if all of its files are at level 0."""

    def found(state: TableState, replaces: Any) -> Any:
        gone = replaced(state, replaces)
        return [one for one in gone if not any(file.level for file in state.files.get(one, ()))]

    return found


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
    Mutant(
        "T3",
        "a statement is not compared with what was committed since it read",
        patched((Isolation, "conflicts", instead(lambda self, appends, state: {}))),
        "both_were_executed: ",
        ("STM-6",),
    ),
    Mutant(
        "T4",
        "an overwrite leaves files that were compacted",
        patched((changes, "replaced", _level_zero_alone)),
        "overwritten: ",
        ("STM-7",),
    ),
)
