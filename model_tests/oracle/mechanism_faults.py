"""Faults of the oracle: each is a `Mechanism` with one step done wrong, after a bug that some lake format had.

The tests of the harness run histories on them and expect the check that is meant for each (`test_faults`). Ids M.. are
those of the catalogue of historic bugs, C.. those of TLC's counterexamples.
"""

from __future__ import annotations

from collections.abc import Sequence

from pktable_spec.interface import Key, Row
from pktable_spec.model import picks
from pktable_spec.model.deletion_vectors import Mark
from pktable_spec.model.levels import (
    DataFile,
    FileId,
    KeyedChange,
    LiveFile,
    Record,
    flush,
    merge,
    sorted_runs,
)
from pktable_spec.model.mechanism import IsLarge, Mechanism, Plan, StagedWrite, State, overlapping
from pktable_spec.model.picks import Pick


class ChecksBaseVectorsOnly(Mechanism):
    """A vector is committed for a file removed in between (ABA). C4."""

    def conflict(self, state: State, plan: Plan) -> str | None:
        found = super().conflict(state, plan)
        return None if found == "CMT-9" else found


class IgnoresChangedVectors(Mechanism):
    """A compaction replaces deleted positions that another one committed after it was planned. C5."""

    def conflict(self, state: State, plan: Plan) -> str | None:
        return next((clause for clause in self.conflicts(state, plan) if clause != "CMT-8"), None)


class ForgetsMarks(Mechanism):
    """An upsert deletes no position: two rows of a key are live. C12."""

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        return frozenset()


class ComparesDeletedRows(Mechanism):
    """A changelog takes a deleted record for the row before. B09."""

    def rows_from(self, state: State, level: int) -> dict[Key, Row]:
        return super().rows_from(state._replace(vectors=frozenset()), level)


class MarksNoDeletes(Mechanism):
    """The lookup is skipped for retractions, and they are dropped: an old row comes back. C9."""

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        retracted = {
            record.key for file, _ in group for record in state.files[file].records if not record.kind.is_add
        }
        found = super().marks(state, group, output_level, vectors)
        return frozenset(mark for mark in found if state.files[mark[0]].records[mark[1]].key not in retracted)

    def keeps_retraction(self, state: State, key: Key, output_level: int, marks: frozenset[Mark]) -> bool:
        return False


class KeepsRetractions(Mechanism):
    """An engine that keeps retractions below level 0, and looks their keys up in a later compaction. No fault."""

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        found = super().marks(state, group, output_level, vectors)
        if any(level > 0 for _, level in group):
            return found
        kept = self.rewrite(state, group, 1, frozenset())
        retracted = {record.key for record in kept if not record.kind.is_add}
        return frozenset(mark for mark in found if state.files[mark[0]].records[mark[1]].key not in retracted)

    def keeps_retraction(self, state: State, key: Key, output_level: int, marks: frozenset[Mark]) -> bool:
        return output_level < self.options.max_level


class TakesRetractionsForRows(KeepsRetractions):
    """A retraction below level 0 counts as the older row of its key, so that a deeper row is not looked up."""

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        deeper = {record.key for file, level in group if level > 0 for record in state.files[file].records}
        found = super().marks(state, group, output_level, vectors)
        return frozenset(mark for mark in found if state.files[mark[0]].records[mark[1]].key not in deeper)


class DropsRetractionsEarly(Mechanism):
    """A retraction is dropped though a deeper run holds its key (no deletion vectors). M07."""

    def keeps_retraction(self, state: State, key: Key, output_level: int, marks: frozenset[Mark]) -> bool:
        return False


class KeepsVectorsOfRewrittenFiles(ChecksBaseVectorsOnly):
    """The vector of a removed file stays in the DV index file. M11, C6, C10."""

    def kept_vectors(self, state: State, rewritten: frozenset[FileId]) -> frozenset[Mark]:
        return state.vectors


class DropsSiblingVectors(Mechanism):
    """Rewriting one file loses the vectors of the others in the DV index file. M11."""

    def kept_vectors(self, state: State, rewritten: frozenset[FileId]) -> frozenset[Mark]:
        return frozenset() if rewritten else state.vectors


class MarksInputs(ChecksBaseVectorsOnly):
    """Positions of a file that the same compaction rewrites are deleted. C10."""

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        keys = {record.key for file, level in group if level == 0 for record in state.files[file].records}
        own = {
            (file, position)
            for file, level in group
            if level > 0
            for position, record in enumerate(state.files[file].records)
            if record.key in keys
        }
        return super().marks(state, group, output_level, vectors) | own


class IgnoresVectorsOfInputs(Mechanism):
    """A rewrite reads its inputs without their vectors: deleted rows come back. M17, C11."""

    def rewrite(
        self, state: State, group: Sequence[LiveFile], output_level: int, marks: frozenset[Mark]
    ) -> list[Record]:
        return super().rewrite(state._replace(vectors=frozenset()), group, output_level, marks)


class RenumbersRows(Mechanism):
    """A rewrite gives the rows that are left of a file with deleted ones a new sequence number."""

    def input_run(self, state: State, run: Sequence[LiveFile]) -> list[Record]:
        marked = {file for file, _ in state.vectors}
        return [
            record._replace(sequence=self.next_sequence(state)) if file in marked else record
            for file, level in run
            for record in super(RenumbersRows, self).input_run(state, [(file, level)])
        ]


class PicksSomeOfLevelZero(Mechanism):
    """The oldest level-0 run is left behind. C13."""

    def pick(self, state: State, *, full: bool) -> Pick | None:
        pick = super().pick(state, full=full)
        level_zero = [file for file in pick.files if file.level == 0] if pick else []
        if pick is None or len(level_zero) < 2:
            return pick
        return pick._replace(files=tuple(file for file in pick.files if file != level_zero[-1]))


class OldestWins(Mechanism):
    """A merge lets the smallest sequence number win. M05."""

    def rewrite(
        self, state: State, group: Sequence[LiveFile], output_level: int, marks: frozenset[Mark]
    ) -> list[Record]:
        older_first = [
            record._replace(sequence=-record.sequence)
            for entry in group
            for record in self.input_run(state, [entry])
        ]
        merged = merge([[record] for record in older_first])
        return [r._replace(sequence=-r.sequence) for r in merged if r.kind.is_add]


class FirstOfABatchWins(Mechanism):
    """Of two changes of one key in one write the earlier decides."""

    def write(self, state: State, changes: Sequence[KeyedChange]) -> State:
        return super().write(state, changes[::-1])


class RestartsSequences(Mechanism):
    """Sequence numbers start from 0 with every writer. M18."""

    def next_sequence(self, state: State) -> int:
        return 0


class NumbersWhenBegun(Mechanism):
    """A staged write keeps the numbers it was begun with: a later commit loses to an earlier. C2."""

    def first_sequence(self, state: State, staged: StagedWrite) -> int:
        return staged.first_sequence


class LetsRetractionsWinTies(NumbersWhenBegun):
    """Of equal sequence numbers a retraction wins over an add."""

    def rewrite(
        self, state: State, group: Sequence[LiveFile], output_level: int, marks: frozenset[Mark]
    ) -> list[Record]:
        runs = [self.input_run(state, run) for run in sorted_runs(state.files, group)]
        # Twice the number, and one more for a retraction: then no two of different kinds are equal.
        apart = [
            [one._replace(sequence=2 * one.sequence + (not one.kind.is_add)) for one in run] for run in runs
        ]
        return [one._replace(sequence=one.sequence // 2) for one in merge(apart) if one.kind.is_add]


class LetsTheLaterFileWinTies(NumbersWhenBegun):
    """Of two files with equal sequence numbers the later one is the newer run."""

    def rewrite(
        self, state: State, group: Sequence[LiveFile], output_level: int, marks: frozenset[Mark]
    ) -> list[Record]:
        later_first = [self.input_run(state, [entry]) for entry in sorted(group, reverse=True)]
        return [one for one in merge(later_first) if one.kind.is_add]


class KeepsPlansUnlessRenumbered(Mechanism):
    """The compaction of a write is dropped only if the write is renumbered, though numbers may start again. C21."""

    def plan_fits(self, state: State, staged: StagedWrite) -> bool:
        return self.first_sequence(state, staged) == staged.first_sequence


class ComparesWhatIsLeft(KeepsPlansUnlessRenumbered):
    """And a number that no record has counts as free, though a write had assigned it: another took it. C17."""

    def first_sequence(self, state: State, staged: StagedWrite) -> int:
        left = min(record.sequence for record in flush(staged.changes, staged.first_sequence))
        next_sequence = self.next_sequence(state)
        return staged.first_sequence if left >= next_sequence else next_sequence


class LooksBehindAtLevelZero(ComparesWhatIsLeft):
    """The same, repaired in part: no compaction leaves an older run behind at level 0. C17."""

    def conflict(self, state: State, plan: Plan) -> str | None:
        taken = [state.files[file].max_sequence for file, level in plan.inputs if level == 0]
        behind = [state.files[file].max_sequence for file, level in state.live - plan.inputs if level == 0]
        if taken and behind and min(behind) < max(taken):
            return "CMT-18"
        return super().conflict(state, plan)


class CommitsBlindly(Mechanism):
    """Conflicts are not looked for: commits that came between are overwritten. C14."""

    def conflict(self, state: State, plan: Plan) -> str | None:
        return None


class ChecksInputsOnly(Mechanism):
    """Vectors are not compared: one of two compactions loses its deleted positions. C3, C5, M12."""

    def conflict(self, state: State, plan: Plan) -> str | None:
        return None if plan.inputs <= state.live and not overlapping(self.apply(state, plan)) else "CMT-7"


class UpgradesRetractions(Mechanism):
    """A file that holds retractions leaves level 0 by metadata alone."""

    def plan(self, state: State, pick: Pick, is_large: IsLarge) -> Plan:
        blind = pick._replace(files=tuple(file._replace(retraction_count=0) for file in pick.files))
        return super().plan(state, blind, is_large)


class UpgradeLosesTheFile(Mechanism):
    """An entry's identity leaves out its level: an upgrade cancels itself. M09."""

    def apply(self, state: State, plan: Plan) -> State:
        after = super().apply(state, plan)
        return after._replace(live=frozenset(entry for entry in after.live if entry[0] not in plan.upgraded))


class AppendForgetsVectors(Mechanism):
    """An APPEND drops the DV index files. M10."""

    def write(self, state: State, changes: Sequence[KeyedChange]) -> State:
        return super().write(state, changes)._replace(vectors=frozenset())


class KeepsOneFilePerSequence(Mechanism):
    """Level-0 files with equal greatest sequence number are taken for one. M08 (with M18's ties)."""

    def append(self, state: State, changes: Sequence[KeyedChange], first_sequence: int) -> State:
        after = super().append(state, changes, first_sequence)
        lengths = {len(after.files[file].records) for file, level in state.live if level == 0}
        if len(after.files[-1].records) not in lengths:
            return after
        return after._replace(live=state.live)


class VectorsOneSnapshotEarly(Mechanism):
    """Deleted positions become visible with the write, the rows that replace them with the compaction. M03."""

    def write(self, state: State, changes: Sequence[KeyedChange]) -> State:
        after = super().write(state, changes)
        if not self.options.deletion_vectors:
            return after
        return after._replace(
            vectors=after.vectors | self.marks(after, [(len(state.files), 0)], 0, state.vectors)
        )


class PicksByCountOnly(Mechanism):
    """A pick ignores the size-ratio rule: levels fill differently."""

    def pick(self, state: State, *, full: bool) -> Pick | None:
        runs = self.runs(state)
        pick = super().pick(state, full=full)
        if full or pick is None:
            return pick
        return picks.take(runs, max(1, sum(run[0].level == 0 for run in runs)), self.options)


class LimitBeforeVectors(Mechanism):
    """Reads skip the first record of a file that has a vector as well. M01, M02."""

    def plain_read(self, state: State) -> list[Record]:
        marked = {file for file, _ in state.vectors}
        lost = [state.files[file].records[-1] for file in marked]
        return [record for record in super().plain_read(state) if record not in lost]


class LevelZeroForgotten(Mechanism):
    """A compaction is planned from the files of a default read, without level 0. M16."""

    def runs(self, state: State) -> list[tuple[picks.PickFile, ...]]:
        return [run for run in super().runs(state) if run[0].level > 0 or not self.options.deletion_vectors]


class ForgetsDeletions(Mechanism):
    """A retraction is dropped with its sequence, and a late row is visible. S5."""

    def keeps_retraction(self, state: State, key: Key, output_level: int, marks: frozenset[Mark]) -> bool:
        return False


class TakesDeeperForOlder(Mechanism):
    """A late record replaces the newer row that it looked up. S6."""

    def late_keys(self, state: State, group: Sequence[LiveFile], output_level: int) -> set[Key]:
        return set()


class ComparesLiveRows(Mechanism):
    """A lookup compares no deleted rows, and so not the deletion that is remembered. S7."""

    def passed_over(self, state: State) -> frozenset[Mark]:
        return state.vectors


class ShowsRetractions(Mechanism):
    """A retraction that is kept is not deleted by the vector of its file. S9."""

    def hidden_retractions(self, files: Sequence[DataFile], first: FileId) -> frozenset[Mark]:
        return frozenset()
