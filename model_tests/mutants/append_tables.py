"""Faults of append tables and of statements on them, found by drawn histories of `model_tests.append.machine`.

``python -m model_tests.mutants.append_tables`` measures them: seeds draw histories of the kind of table that a fault is
about until a check fails. The smallest that kills each is kept in ``stored_append``, where tests replay it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from pktable.bucket import append_write, index
from pktable.catalog import rules
from pktable.catalog.state import Delta, TableState
from pktable.run import local
from pktable.staged import FileChanges
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER

from model_tests.append.machine import HISTORIES, TABLES, AppendHistory, play
from model_tests.mutants.registry import Kill, Mutant, instead, patched

STORED: Final = Path(__file__).parent / "stored_append"
SEEDS: Final = 5
MOST: Final = 60
"""Histories that a seed draws before it gives up."""
WRONG_ROWS: Final = "reads_agree: |step_is_the_oracles: |only_live_rows_go: |table_is_sound: "


def _without(*clauses: str) -> Any:
    def kept(checked: Any) -> Any:
        return tuple((clause, rule) for clause, rule in checked if clause not in clauses)

    return patched((rules, "FILE_RULES", kept))


def _on_the_first_indexes(delta: Any) -> Any:
    """Make the vectors after a change from the vectors of the state that it was planned on first."""
    first: dict[int, Any] = {}  # by what was planned, which is kept so that nothing else gets its id

    def made(self: FileChanges, state: TableState, refused: Any) -> Delta | None:
        _, planned_on = first.setdefault(id(self.changes), (self.changes, state))
        found: Delta | None = delta(self, replace(state, indexes=planned_on.indexes), refused)
        return found

    return made


def _only_new_rows(original: Any) -> Any:
    return lambda found, *rows, **counts: original((), *rows, **counts)


def _updated_as_new(original: Any) -> Any:
    def changed(
        found: Any, rows: pa.Table, updated: pa.Table | None = None, *counts: int, **named: int
    ) -> Any:
        old = [] if updated is None else [updated.drop_columns([ROW_ID])]
        return original(found, pa.concat_tables([rows, *old]), None, *counts, **named)

    return changed


def _with_number_of_file(original: Any) -> Any:
    def rows(reader: Any, columns: Any) -> Iterator[tuple[int, pa.Table]]:
        for position, table in original(reader, columns):
            number = pa.array([reader.meta.max_sequence_number] * table.num_rows, pa.int64())
            yield position, table.drop_columns([SEQUENCE_NUMBER]).append_column(SEQUENCE_NUMBER, number)

    return rows


@dataclass(frozen=True)
class AppendMutant:
    """A `Mutant`, and the kind of append table (`TABLES`) whose histories must find it."""

    mutant: Mutant
    table: str

    @property
    def id(self) -> str:
        return self.mutant.id

    def replayed(self, history: AppendHistory) -> Kill | None:
        """Do a history with the fault; None if nothing noticed it."""
        with self.mutant.inject():
            try:
                play(history, TABLES[self.table])
            except Exception as failure:  # judged by its check and message
                return self.mutant.kill(failure)
        return None


def _append_mutant(
    id: str, title: str, inject: Any, table: str, clauses: Sequence[str], found_by: str = WRONG_ROWS
) -> AppendMutant:
    return AppendMutant(Mutant(id, title, inject, found_by, tuple(clauses)), table)


APPEND_MUTANTS: Final[Mapping[str, AppendMutant]] = {
    one.id: one
    for one in (
        _append_mutant(
            "A1",
            "the vectors of a bucket are replaced without looking, which loses one of two concurrent deletes",
            patched((FileChanges, "delta", _on_the_first_indexes)),
            "vectors in buckets",
            ["APP-18"],
        ),
        _append_mutant(
            "A2",
            "a vector forgets what was deleted before",
            patched((index, "merged", instead(lambda before, deleted, bits: deleted))),
            "vectors",
            ["APP-13"],
        ),
        _append_mutant(
            "A3",
            "a compaction brings rows back that were deleted since it read them",
            _without("APP-16"),
            "vectors",
            ["APP-16"],
        ),
        _append_mutant(
            "A4",
            "a row is deleted though others have deleted it or removed its file",
            _without("APP-17"),
            "vectors of 64 bits",
            ["APP-17"],
        ),
        _append_mutant(
            "A5",
            "a compaction writes deleted rows again",
            patched((append_write, "without_deleted", instead(lambda table, position, vector: table))),
            "vectors",
            ["APP-21"],
        ),
        _append_mutant(
            "A6",
            "an UPDATE adds the new rows and keeps the old ones",
            patched((local, "RowChange", _only_new_rows)),
            "files of buckets written again",
            ["APP-31"],
        ),
        _append_mutant(
            "A7",
            "an UPDATE gives rows new ids",
            patched((local, "RowChange", _updated_as_new)),
            "row ids and vectors",
            ["APP-32"],
            "ids_agree: ",
        ),
        _append_mutant(
            "A8",
            "a row that is written again gets the number of its file, though the file stores another for it",
            patched((append_write, "tracked_rows", _with_number_of_file)),
            "row ids and files written again",
            ["APP-25"],
            "ids_agree: ",
        ),
    )
}


@dataclass
class AppendRuns:
    """The seeds of one mutant. ``steps``: until the kill, of each seed that killed it."""

    steps: list[int]
    history: AppendHistory | None = None
    accident: Kill | None = None


def draw(one: AppendMutant, number: int, runs: AppendRuns) -> None:
    """Draw histories with a seed until one kills the mutant or the budget is spent, and add that to ``runs``."""
    steps, kills = 0, False

    @seed(number)
    @settings(
        max_examples=MOST,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(HISTORIES)
    def survives(history: AppendHistory) -> None:
        nonlocal steps, kills
        steps += 0 if kills else len(history.steps)
        kill = one.replayed(history)
        if kill is not None and not kill.meant:
            runs.accident = kill
        if kill is not None and kill.meant:
            kills, runs.history = True, history
            raise AssertionError(kill.message)

    try:
        survives()
    except AssertionError:
        runs.steps.append(steps)


def small(one: AppendMutant, history: AppendHistory) -> AppendHistory:
    """Return the history without the steps that are not needed to kill a mutant."""
    for at in reversed(range(len(history.steps))):
        steps = [*history.steps[:at], *history.steps[at + 1 :]]
        kill = one.replayed(replace(history, steps=steps))
        if kill is not None and kill.meant:
            history = replace(history, steps=steps)
    return history


def stored(one: AppendMutant) -> AppendHistory:
    """Return the stored history that kills a mutant."""
    return AppendHistory.from_json(json.loads((STORED / f"{one.id}.json").read_text("utf-8")))


def main(arguments: Sequence[str]) -> int:
    """Measure every mutant, or those named; ``--keep`` stores small killing histories. Return the exit code."""
    names = [name for name in arguments if name != "--keep"] or list(APPEND_MUTANTS)
    survived = 0
    for name in names:
        one, runs = APPEND_MUTANTS[name], AppendRuns([])
        for number in range(1 if "--keep" in arguments else SEEDS):
            draw(one, number, runs)
        if "--keep" in arguments and runs.history is not None:
            STORED.mkdir(exist_ok=True)
            (STORED / f"{name}.json").write_text(small(one, runs.history).to_json() + "\n", "utf-8")
        survived += not runs.steps
        steps = f"{median(runs.steps):g} steps" if runs.steps else "survived"
        print(
            f"{name}  {steps:12} {len(runs.steps)} seeds  {one.mutant.title}; accident: {runs.accident}",
            flush=True,
        )
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
