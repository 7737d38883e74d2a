"""The writer mode: a runner does stored and drawn histories, and the oracle judges every step.

Every history is done on a table with deletion vectors and on one without. What lies in the directory of the table at
the end is audited by whoever can read it (`Auditor`), so that a writer is judged by its bytes, too. A history that
shows a mistake is made smaller, by columns, operations, changes and values, as long as the same check fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from pktable_spec.covers import covers
from pktable_spec.interface import Row

from pktable_conform import typed
from pktable_conform.archive import Rows
from pktable_conform.judge.checks import CheckFailed, check, fail
from pktable_conform.judge.expectations import Expectations
from pktable_conform.judge.history import SHAPES, Changes, History, Operation, numbered
from pktable_conform.judge.read_expectations import Stats
from pktable_conform.remote import RemoteTable, value_of
from pktable_conform.runner import Refused, Runner, RunnerError, Unsupported, features

Result = TypeVar("Result")

VECTORS: Final = "deletion-vectors.enabled"
ONE_BUCKET: Final[Mapping[str, str]] = {"bucket": "1"}
"""The buckets of a table whose history gives none: Paimon's default is dynamic ones."""
WRITES: Final = ("create", "write", "read", "snapshots", "files", "vectors")
NEEDS: Final = ("keys", "merge on read", "snapshots", "fresh", "columns", "where", "limit")
RETRACTIONS: Final = ("-U", "-D")
MOST_TRIES: Final = 80  # to make a history smaller
REREAD: Final = 2  # retained snapshots that are read again at each step


class Wrong(NamedTuple):
    """What is wrong with a table. ``harms``: False if it is only left out, and readers do without it."""

    clause: str
    text: str
    harms: bool = True


class Auditor(Protocol):
    """Whoever can read the directory of a table without the runner."""

    def findings(self, directory: Path) -> Sequence[Wrong]:
        """Return what is wrong with a table."""
        ...

    def rows(self, directory: Path, snapshot: int | None) -> Rows:
        """Return the rows of a default read, as the protocol spells them. ``snapshot``: None for the latest."""
        ...


@dataclass(frozen=True)
class Writers:
    """What the writer mode works with: the runner, a folder for tables, an auditor, and the checks to leave out."""

    runner: Runner
    folder: Path
    auditor: Auditor | None
    without: frozenset[str] = frozenset()
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def part(self, history: History) -> tuple[History, str]:
        """Return what the runner does of a history, and the types of the columns left out of it, as text.

        Raises Unsupported for a runner that cannot do it.
        """
        supported = self.runner.supports()
        commands, needs = needed(history)
        features(commands, supported.commands)
        features(needs, supported.features)
        part, missing = typed.part_for(history, supported.writes)
        return part, ", ".join(missing)

    def replay(self, history: History) -> None:
        """Do a history on two tables. Raises CheckFailed, RunnerError, and Unsupported for a runner that cannot."""
        history, _ = self.part(history)
        for enabled in ("true", "false"):
            if enabled == "true" and history.options.get(VECTORS) == "false":
                continue
            options = {**ONE_BUCKET, **history.options, VECTORS: enabled}
            try:
                self._replay(replace(history, options=options))
            except CheckFailed as failure:
                failure.options = options
                raise

    def _replay(self, history: History) -> None:
        path = self.folder / "conform.db" / f"table-{next(self._numbers)}"
        path.parent.mkdir(exist_ok=True)
        steps = _Steps(self.runner, path, history, self.without)
        for at, operation in enumerate(history.operations, 1):
            steps.do(at, operation)
        if self.auditor is not None and (path / "snapshot").is_dir():
            found = self.auditor.findings(path)
            audit(self.auditor, path, steps.expectations, [one for one in found if one.harms])
            if "nothing_is_left_out" not in self.without:
                nothing_is_left_out([one for one in found if not one.harms])


def needed(history: History) -> tuple[Sequence[str], Sequence[str]]:
    """Return the commands and features that a runner needs for a history."""
    operations = history.operations
    compacts = any(one.do == "compact" or (one.do == "write" and not one.write_only) for one in operations)
    reopens = any(one.do == "reopen" for one in operations)
    retracts = any(kind in RETRACTIONS for one in operations for kind, _ in one.changes)
    commands = (*WRITES, *["compact"] * compacts, *["reopen"] * reopens)
    return commands, (*NEEDS, *["retractions"] * retracts)


class _Steps:
    """A history under way on one table."""

    def __init__(self, runner: Runner, path: Path, history: History, without: frozenset[str]) -> None:
        self._written = 0
        table = _taken(0, "create", lambda: RemoteTable(runner, path, history.shape, history.options))
        self.expectations = Expectations(
            table, history.shape, history.options, stats=Stats(), reread_limit=REREAD
        )
        self.expectations.without = without

    def do(self, at: int, operation: Operation) -> None:
        """Do an operation, and compare all reads afterwards."""
        _taken(at, operation.do, lambda: self._do(operation))
        _taken(at, "read", lambda: self.expectations.reads_agree(operation.query))
        self.expectations.stats.steps += 1

    def _do(self, operation: Operation) -> None:
        if operation.do == "write":
            changes = numbered(operation.changes, self._written + 1)
            self._written += len(changes)
            self.expectations.write(changes, write_only=operation.write_only)
        elif operation.do == "compact":
            self.expectations.compact(full=operation.full)
        elif operation.do == "reopen":
            self.expectations.table.reopen()
        else:
            assert operation.do == "read", operation.do


def _taken(at: int, do: str, work: Callable[[], Result]) -> Result:
    """Return what ``work`` does; a refusal of the runner is a failed check. ``at``: the number of the operation."""
    try:
        return work()
    except Refused as refusal:
        operation_is_taken(at, do, str(refusal))
        raise AssertionError from None


@check
@covers("TBL-4", "CMT-2", "RD-1")
def operation_is_taken(at: int, do: str, refusal: str) -> None:
    fail(f"operation {at}, {do}, was refused: {refusal}")


@check
@covers(
    "CMT-4", "CMT-5", "CMT-6", "META-6", "META-11", "META-12", "DVF-1", "DVF-2", "DVF-9", "RD-11", "RD-15"
)
def audit(auditor: Auditor, directory: Path, expectations: Expectations, findings: Sequence[Wrong]) -> None:
    """Compare what lies in a directory with what its snapshots must return. ``findings``: the harmful ones."""
    if findings:
        fail(_first(findings))
    for layout in expectations.retained:
        rows = [_row(expectations, row) for row in auditor.rows(directory, layout.id)]
        if len(rows) != len(layout.visible) or set(rows) != layout.visible:
            fail(f"snapshot {layout.id} on disk: expected {sorted(layout.visible)}, found {sorted(rows)}")


@check
@covers("DVF-13", "META-2", "META-7", "META-8", "META-10")
def nothing_is_left_out(findings: Sequence[Wrong]) -> None:
    """Expect also what a writer must write and readers do without. ``findings``: the harmless ones."""
    if findings:
        fail(_first(findings))


def _first(findings: Sequence[Wrong]) -> str:
    return "; ".join(f"{one.clause}: {one.text}" for one in findings[:3])


def _row(expectations: Expectations, row: Sequence[str | None]) -> Row:
    columns = expectations.shape.columns
    return tuple(value_of(type, value, name) for (name, type), value in zip(columns, row, strict=True))


def smallest(writers: Writers, history: History, failure: CheckFailed) -> tuple[History, CheckFailed]:
    """Return the smallest history found in some tries that fails the same check, and its failure."""
    tries = itertools.count(1)
    found = history, failure
    while True:
        for smaller in _smaller(found[0]):
            if next(tries) > MOST_TRIES:
                return found
            try:
                writers.replay(smaller)
            except CheckFailed as again:
                if again.check == failure.check:
                    found = smaller, again
                    break
            except (RunnerError, Unsupported):
                continue
        else:
            return found


def _smaller(history: History) -> Iterator[History]:
    """Yield the history without some column, operation or change of a write, or with nulls for the values of one."""
    operations, shape = history.operations, history.shape
    if shape.name not in SHAPES:  # of the columns that fail the one of the shortest type is left
        for name, _ in sorted(shape.columns[1:-1], key=lambda column: -len(column[1])):
            yield typed.without_column(history, name)
    for at in reversed(range(len(operations))):
        if len(operations) > 1:
            yield replace(history, operations=operations[:at] + operations[at + 1 :])
    for at, operation in enumerate(operations):
        for left_out in range(len(operation.changes) if len(operation.changes) > 1 else 0):
            yield _with_changes(history, at, operation.changes[:left_out] + operation.changes[left_out + 1 :])
    if shape.name not in SHAPES:
        for at, operation in enumerate(operations):
            for number, (kind, row) in enumerate(operation.changes):
                changes = [*operation.changes]
                changes[number] = (kind, (row[0], *(None for _ in row[1:])))
                if changes[number] != operation.changes[number]:
                    yield _with_changes(history, at, tuple(changes))


def _with_changes(history: History, at: int, changes: Changes) -> History:
    operations = [*history.operations]
    operations[at] = replace(operations[at], changes=changes)
    return replace(history, operations=operations)


def stored(histories: Mapping[str, Mapping[str, object]]) -> dict[str, History]:
    """Return the histories of an archive."""
    return {name: History.from_json(fields) for name, fields in histories.items()}
