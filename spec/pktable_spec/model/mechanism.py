"""One bucket as a transition system: files, levels, deletion vectors, staged work, commits.

A `State` is a frozen, hashable value; every action is a function from a state to a state, named as in
the TLA+ modules: Write, BeginWrite, CommitWrite, PlanCompaction, CommitCompaction (which commits or
refuses), Crash. What a compaction will do is decided whole when it is planned, and checked against the
latest state when it commits; between the two, other writes and compactions may commit. The subtle case is
the compaction that is planned with a write, on what that has yet to commit.

The steps of an action are methods of their own, so that a test can override one and watch the fault
being noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from pktable_spec.interface import Change, Key, Row
from pktable_spec.model import deletion_vectors, picks
from pktable_spec.model.changelog import difference
from pktable_spec.model.deletion_vectors import Mark
from pktable_spec.model.levels import (
    DataFile,
    FileId,
    KeyedChange,
    LiveFile,
    Record,
    merge,
    runs_of_write,
    sorted_runs,
)
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import Pick, PickFile

RECORD_SIZE = 1000
"""Bytes of a record: the model has no encoding, and sizes decide only picks and upgrades."""


OWN_FILE: FileId = -1
"""In a plan: the first file of a write that is not committed, which gets its name with the commit; -2 is the next."""


class Plan(NamedTuple):
    """A compaction, done but not committed.

    ``inputs`` leave the levels they are at: those in ``upgraded`` for the output level, the others for
    good. ``vectors`` is the bucket's whole new index, ``base_vectors`` the one it was planned on.
    """

    inputs: frozenset[LiveFile]
    output_level: int
    upgraded: frozenset[FileId]
    outputs: tuple[tuple[Record, ...], ...]
    vectors: frozenset[Mark]
    base_vectors: frozenset[Mark]

    def with_own_files(self, first: FileId) -> Plan:
        """Return the same plan, in which the files from ``first`` on are those of a write that is not committed.

        It also goes the other way. The name of a file and `OWN_FILE` are as far from each other as that.
        """

        def renamed(file: FileId) -> FileId:
            return first + OWN_FILE - file if file < 0 or file >= first else file

        return self._replace(
            inputs=frozenset((renamed(file), level) for file, level in self.inputs),
            upgraded=frozenset(map(renamed, self.upgraded)),
        )


class StagedWrite(NamedTuple):
    """A write whose files exist and are not committed; numbered when it was begun.

    ``plan`` is the compaction that was planned with it, as if `OWN_FILE` were live already; None if none was.
    ``planned_on`` are the files that were live then.
    """

    changes: tuple[KeyedChange, ...]
    first_sequence: int
    plan: Plan | None = None
    planned_on: frozenset[LiveFile] = frozenset()


Work: TypeAlias = StagedWrite | Plan


class State(NamedTuple):
    """A bucket: every file ever committed, the latest snapshot's live files and vectors, staged work.

    ``snapshot`` counts the commits of this bucket; ``pending`` is ascending by job.
    """

    files: tuple[DataFile, ...] = ()
    live: frozenset[LiveFile] = frozenset()
    vectors: frozenset[Mark] = frozenset()
    snapshot: int = 0
    pending: tuple[tuple[str, Work], ...] = ()

    def work(self, job: str) -> Work:
        """Return the staged work of ``job``, which must have some."""
        return dict(self.pending)[job]


EMPTY = State()
IsLarge: TypeAlias = Callable[[PickFile], bool]


class Mechanism:
    """The actions of one bucket. Holds options only; all else is in the states."""

    def __init__(self, options: ModelOptions) -> None:
        self.options = options

    # ---------------------------------------------------------------- actions

    def write(self, state: State, changes: Sequence[KeyedChange]) -> State:
        """Commit changes as new level-0 files, one for each sorted run. Clauses: CMT-2, CMP-17, LSM-8, MRG-8."""
        return self.append(state, changes, self.next_sequence(state))

    def begin_write(
        self, state: State, job: str, changes: Sequence[KeyedChange], plan: Plan | None = None
    ) -> State:
        """Stage a write, numbered from the state it was begun on, alone or with its compaction.

        ``plan`` compacts what `write` would make of ``state``. Clauses: CMT-2, CMP-17.
        """
        own = plan.with_own_files(len(state.files)) if plan else None
        planned_on = state.live if plan else frozenset[LiveFile]()
        return _with_work(state, job, StagedWrite(tuple(changes), self.next_sequence(state), own, planned_on))

    def commit_write(self, state: State, job: str) -> State:
        """Commit a staged write; what it planned is then a compaction as any, staged.

        If another write came between, it is renumbered. If other files are live than its compaction was planned on,
        that is dropped. Clauses: CMT-24, CMT-33, CMT-54.
        """
        staged = state.work(job)
        assert isinstance(staged, StagedWrite)
        first = self.first_sequence(state, staged)
        after = self.append(_without_work(state, job), staged.changes, first)
        if staged.plan is None or not self.plan_fits(state, staged):
            return after
        return _with_work(after, job, staged.plan.with_own_files(len(state.files)))

    def plan_fits(self, state: State, staged: StagedWrite) -> bool:
        """Whether the compaction that was planned with a write may follow it. Clauses: CMT-33, CMT-54."""
        return staged.planned_on == state.live

    def first_sequence(self, state: State, staged: StagedWrite) -> int:
        """Return the number that a staged write begins with when it commits. Clauses: CMT-10, CMT-18, CMT-24."""
        return max(staged.first_sequence, self.next_sequence(state))

    def plan_compaction(self, state: State, job: str, pick: Pick, is_large: IsLarge) -> State:
        """Stage the compaction of a pick; without effect where it would change nothing. Clauses: CMT-21."""
        plan = self.plan(state, pick, is_large)
        return _with_work(state, job, plan) if plan.inputs else state

    def commit_compaction(self, state: State, job: str) -> State:
        """Commit a staged compaction, or refuse and drop it. Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-14."""
        plan = state.work(job)
        assert isinstance(plan, Plan)
        idle = _without_work(state, job)
        return idle if self.conflict(idle, plan) else self.apply(idle, plan)

    def crash(self, state: State, job: str) -> State:
        """Drop staged work. Clauses: CMT-25."""
        return _without_work(state, job)

    # ------------------------------------------------------------------ picks

    def runs(self, state: State) -> list[tuple[PickFile, ...]]:
        """Return the runs as picks see them, newest first."""
        # Retractions that a vector only hides are not to be purged (CMP-22, CMP-28).
        deleted = Counter(
            file
            for file, position in state.vectors
            if not self.options.hides_retractions or state.files[file].records[position].kind.is_add
        )
        return [
            tuple(_pick_file(file, level, state.files[file], deleted[file]) for file, level in run)
            for run in sorted_runs(state.files, state.live)
        ]

    def pick(self, state: State, *, full: bool) -> Pick | None:
        """Return what is compacted when sizes count."""
        choose = picks.full_pick if full else picks.universal_pick
        return choose(self.runs(state), self.options)

    def is_large(self, file: PickFile) -> bool:
        return file.size >= self.options.large_file_size

    # ------------------------------------------------------------- compaction

    def plan(self, state: State, pick: Pick, is_large: IsLarge) -> Plan:
        """Return what compacting ``pick`` does, from this state alone.

        Clauses: CMP-9, CMP-10, CMP-12, CMP-23, CMP-24, DV-6, DV-10, DV-14, DV-17.
        """
        division = picks.divide(pick, self.options, is_large)
        groups = [_entries(group) for group in division.rewrites]
        upgrades = _entries(division.upgrades)
        marks = frozenset[Mark]()
        if self.options.deletion_vectors:
            for group in [*groups, *((entry,) for entry in upgrades)]:
                marks |= self.marks(state, group, pick.output_level, state.vectors | marks)
        outputs = [self.rewrite(state, group, pick.output_level, marks) for group in groups]
        rewritten = frozenset(entry for group in groups for entry in group)
        return Plan(
            inputs=rewritten | frozenset(upgrades),
            output_level=pick.output_level,
            upgraded=frozenset(file for file, _ in upgrades),
            outputs=tuple(output for rolled in outputs for output in self.rolled(rolled)),
            vectors=self.kept_vectors(state, frozenset(file for file, _ in rewritten)) | marks,
            base_vectors=state.vectors,
        )

    def marks(
        self, state: State, group: Sequence[LiveFile], output_level: int, vectors: frozenset[Mark]
    ) -> frozenset[Mark]:
        """Return the positions that one rewrite or upgrade replaces. Clauses: DV-6, DV-7, DV-8, DV-9, DV-23."""
        ignores = self.options.merge_engine.ignores_retractions
        keys = deletion_vectors.keys_to_look_up(state.files, group, vectors, ignores_retractions=ignores)
        keys -= self.late_keys(state, group, output_level)
        return deletion_vectors.positions_of(keys, state.files, state.live, output_level, vectors)

    def late_keys(self, state: State, group: Sequence[LiveFile], output_level: int) -> set[Key]:
        """Return the keys of a group of which an older file holds a newer record. Clauses: DV-23, MRG-19."""
        order = self.options.order
        if order is None or not self.options.deletion_vectors:
            return set()
        return {
            record.key
            for record in self.merged(state, group)
            for file, position in deletion_vectors.positions_of(
                {record.key}, state.files, state.live, output_level, self.passed_over(state)
            )
            if order.is_newer(state.files[file].records[position].row, record.row)
        }

    def passed_over(self, state: State) -> frozenset[Mark]:
        """Return the deleted positions whose rows are not compared: none. Clauses: DV-23."""
        return frozenset()

    def rewrite(
        self, state: State, group: Sequence[LiveFile], output_level: int, marks: frozenset[Mark]
    ) -> list[Record]:
        """Return the records that remain of a group. Clauses: CMP-12, CMP-13, MRG-1."""
        left_out = self.keys_left_out(state, group, output_level)
        return [
            record
            for record in self.merged(state, group, self.looked_up(state, group, output_level))
            if record.key not in left_out
            and (record.kind.is_add or self.keeps_retraction(state, record.key, output_level, marks))
        ]

    def merged(self, state: State, group: Sequence[LiveFile], older: Sequence[Record] = ()) -> list[Record]:
        """Return one record of each key of a group, ``older`` ones taken in. Clauses: CMP-12, MRG-1, MRG-19."""
        return merge(
            [*self.runs_to_merge(state, group), older], self.options.merge_engine, self.options.order
        )

    def keys_left_out(self, state: State, group: Sequence[LiveFile], output_level: int) -> set[Key]:
        """Return the keys that an older file has, which no newer record replaces. Clauses: DV-23, MRG-12."""
        if self.options.merge_engine.lookup != "presence":
            return self.late_keys(state, group, output_level)
        older = self.marks(state, group, output_level, state.vectors)
        return {state.files[file].records[position].key for file, position in older}

    def looked_up(self, state: State, group: Sequence[LiveFile], output_level: int) -> list[Record]:
        """Return the older records of other files that take part in the merge of a group.

        None if positions are enough, else those that the group replaces. Clauses: CHG-20, DV-20.
        """
        if self.options.looks_up_values:
            replaced = self.marks(state, group, output_level, state.vectors)
            return [state.files[file].records[position] for file, position in replaced]
        if self.options.deletion_vectors or not self.options.deeper_rows_are_merged:
            return []
        ignores = self.options.merge_engine.ignores_retractions
        wanted = deletion_vectors.keys_of_level_zero_alone(state.files, group, ignores_retractions=ignores)
        deeper = [entry for entry in state.live if entry[1] > output_level]
        return [record for run in self.runs_to_merge(state, deeper) for record in run if record.key in wanted]

    def runs_to_merge(self, state: State, entries: Iterable[LiveFile]) -> list[list[Record]]:
        """Return what a merge takes of the runs of some files, newest run first. Clauses: CHG-19."""
        runs: list[list[Record]] = []
        held: set[Key] = set()
        for run in sorted_runs(state.files, entries):
            records = [record for record in self.input_run(state, run) if record.key not in held]
            runs.append(records)
            if self.options.deeper_rows_are_merged and run[0][1] > 0:
                held |= {record.key for record in records}
        return runs

    def input_run(self, state: State, run: Sequence[LiveFile]) -> list[Record]:
        """Return what a merge reads of a run. Clauses: CMP-12, DV-22."""
        read = deletion_vectors.remembered if self.options.hides_retractions else deletion_vectors.visible
        return [record for file, _ in run for record in read(state.files, file, state.vectors)]

    def keeps_retraction(self, state: State, key: Key, output_level: int, marks: frozenset[Mark]) -> bool:
        """Whether something older of a retracted key could come back. Clauses: CMP-13, MRG-21."""
        if self.options.merge_engine.ignores_retractions:
            return False
        if self.options.order is not None:
            return True
        if not self.options.deletion_vectors:
            return any(level > output_level for _, level in state.live)
        return bool(
            deletion_vectors.positions_of({key}, state.files, state.live, output_level, state.vectors | marks)
        )

    def kept_vectors(self, state: State, rewritten: frozenset[FileId]) -> frozenset[Mark]:
        """Return the marks that outlive the compaction. Clauses: DV-10, DV-11, DV-17."""
        return frozenset(mark for mark in state.vectors if mark[0] not in rewritten)

    def rolled(self, records: list[Record]) -> Iterator[tuple[Record, ...]]:
        """Cut the output of one rewrite into files of the target size. Clauses: CMP-15."""
        count = max(1, self.options.target_file_size // RECORD_SIZE)
        return (tuple(records[start : start + count]) for start in range(0, len(records), count))

    # ----------------------------------------------------------------- commit

    def conflict(self, state: State, plan: Plan) -> str | None:
        """Return the first clause that forbids the commit, None where it may go ahead.

        Clauses: CMT-7, CMT-8, CMT-9, CMT-11.
        """
        return next(self.conflicts(state, plan), None)

    def conflicts(self, state: State, plan: Plan) -> Iterator[str]:
        """Yield every clause that forbids the commit. Clauses: CMT-7, CMT-8, CMT-9, CMT-11."""
        if not plan.inputs <= state.live:
            yield "CMT-7"
        if plan.base_vectors != state.vectors:
            yield "CMT-8"
        after = self.apply(state, plan)
        if not {file for file, _ in after.vectors} <= {file for file, _ in after.live}:
            yield "CMT-9"
        if overlapping(after):
            yield "CMT-11"

    def apply(self, state: State, plan: Plan) -> State:
        files = state.files + tuple(DataFile(records, plan.output_level) for records in plan.outputs)
        created = frozenset((file, plan.output_level) for file in range(len(state.files), len(files)))
        upgraded = frozenset((file, plan.output_level) for file in plan.upgraded)
        return state._replace(
            files=files,
            live=(state.live - plan.inputs) | upgraded | created,
            vectors=plan.vectors | self.hidden_retractions(files, len(state.files)),
            snapshot=state.snapshot + 1,
        )

    def changelog(self, before: State, plan: Plan) -> list[Change]:
        """Return the changes that a compaction records when it commits to ``before``. Clauses: CHG-5, CHG-6, CHG-7."""
        level = self.options.recorded_from
        if level is None or plan.output_level < level:
            return []
        engine = self.options.merge_engine
        records = (record for file, at in plan.inputs if at < level for record in before.files[file].records)
        keys = {one.key for one in records if one.kind.is_add or not engine.ignores_retractions}
        rows = self.rows_from(before, level)
        if engine.lookup == "presence":  # a row that is there stays as it is
            keys -= rows.keys()
        return difference(rows, self.rows_from(self.apply(before, plan), level), keys)

    def rows_from(self, state: State, level: int) -> dict[Key, Row]:
        """Return the rows that the records of ``level`` and of greater levels leave, by key. Clauses: CHG-6, MRG-3."""
        deeper = frozenset(entry for entry in state.live if entry[1] >= level)
        return {record.key: record.row for record in self.fresh_read(state._replace(live=deeper))}

    def hidden_retractions(self, files: Sequence[DataFile], first: FileId) -> frozenset[Mark]:
        """Return the positions of the retractions of the files that a compaction created. Clauses: DV-21."""
        if not self.options.hides_retractions:
            return frozenset()
        return frozenset(
            (file, position)
            for file in range(first, len(files))
            for position, record in enumerate(files[file].records)
            if not record.kind.is_add
        )

    def append(self, state: State, changes: Sequence[KeyedChange], first_sequence: int) -> State:
        runs = runs_of_write(changes, first_sequence, self.options.merge_engine, self.options.order)
        created = range(len(state.files), len(state.files) + len(runs))
        return state._replace(
            files=(*state.files, *(DataFile(run, 0) for run in runs)),
            live=state.live | {(file, 0) for file in created},
            snapshot=state.snapshot + 1,
        )

    def next_sequence(self, state: State) -> int:
        """Return the first sequence number above those of every live file. Clauses: LSM-10, CMT-10."""
        return max((state.files[file].max_sequence for file, _ in state.live), default=-1) + 1

    # ------------------------------------------------------------------ reads

    def fresh_read(self, state: State) -> list[Record]:
        """Return the records that all runs leave, merged. Clauses: CHG-19, RD-3, RD-4, MRG-3."""
        merged = merge(self.runs_to_merge(state, state.live), self.options.merge_engine, self.options.order)
        return [record for record in merged if record.kind.is_add]

    def plain_read(self, state: State) -> list[Record]:
        """Return the records a plain read of the table returns.

        With deletion vectors, or first-row, level 0 is left out and nothing is merged, unless retractions lie deeper.
        Clauses: RD-1, RD-4, RD-5.
        """
        if not self.options.one_record_per_key:
            return self.fresh_read(state)
        deeper = [entry for entry in state.live if entry[1] > 0]
        records = [
            record
            for file, _ in deeper
            for record in deletion_vectors.visible(state.files, file, state.vectors)
        ]
        if all(record.kind.is_add for record in records):
            return records
        return self.fresh_read(state._replace(live=frozenset(deeper)))


def overlapping(state: State) -> bool:
    """Whether two files of one level >= 1 overlap in key range. Clauses: CMT-11, LSM-2."""
    for run in sorted_runs(state.files, state.live):
        for (left, _), (right, _) in pairwise(run):
            if state.files[left].max_key >= state.files[right].min_key:
                return True
    return False


def _pick_file(file: FileId, level: int, data: DataFile, deleted_count: int) -> PickFile:
    rows = len(data.records)
    size = RECORD_SIZE * rows
    return PickFile(file, level, data.min_key, data.max_key, size, data.retraction_count, rows, deleted_count)


def _entries(group: Sequence[PickFile]) -> tuple[LiveFile, ...]:
    # In a state, files are named by their index.
    return tuple((file.name, file.level) for file in group if isinstance(file.name, int))


def _with_work(state: State, job: str, work: Work) -> State:
    assert job not in dict(state.pending), f"{job} is busy"
    return state._replace(pending=tuple(sorted([*state.pending, (job, work)], key=lambda item: item[0])))


def _without_work(state: State, job: str) -> State:
    assert job in dict(state.pending), f"{job} is idle"
    return state._replace(pending=tuple(item for item in state.pending if item[0] != job))
