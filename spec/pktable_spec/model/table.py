"""The oracle's mechanism as a table: buckets side by side, and one list of snapshots over them.

A commit of several buckets is one snapshot and atomic: if one bucket refuses, nothing is committed.
States are immutable, so a retained snapshot is nothing but the states it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    FileInfo,
    Key,
    Query,
    Row,
    Shape,
    SnapshotInfo,
    StoredRecord,
    VectorInfo,
    Wanted,
)
from pktable_spec.model import buckets
from pktable_spec.model.levels import KeyedChange, runs_of_write
from pktable_spec.model.mechanism import EMPTY, RECORD_SIZE, Mechanism, Plan, StagedWrite, State
from pktable_spec.model.moving import in_order, placed
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import APPEND, COMPACT


class _Snapshot(NamedTuple):
    """A snapshot: the states of all buckets, and the changes that its commit recorded."""

    kind: str
    states: Mapping[BucketId, State]
    changes: tuple[Change, ...] = ()


class _Assigned(NamedTuple):
    """The buckets of a staged write: those of its partitions before and after it. ``planned``: with its compaction.

    ``moved``: what its changes are where keys move between partitions.
    """

    changes: tuple[Change, ...]
    moved: tuple[Change, ...]
    before: Mapping[Key, Mapping[int, int]]
    after: Mapping[Key, dict[int, int]]
    planned: bool


class ModelTable:
    """A `TableUnderTest` without bytes. ``mechanism`` lets a test put a fault in."""

    def __init__(
        self,
        shape: Shape,
        options: Mapping[str, str],
        mechanism: Callable[[ModelOptions], Mechanism] = Mechanism,
    ) -> None:
        self.shape = shape
        self.mechanism = mechanism(ModelOptions.parse(options, shape.names))
        self.states: dict[BucketId, State] = {}
        self._history: list[_Snapshot] = []
        self._staged: dict[int, set[BucketId]] = {}
        self._compacting: dict[int, bool] = {}  # writes that compact, and whether all buckets fully
        self._tickets = 0
        options_of = self.mechanism.options
        self._buckets = buckets.DynamicBuckets(shape, options_of.keys_per_bucket, options_of.assigners)
        self._assigned: dict[int, _Assigned] = {}

    # ----------------------------------------------------------------- writes

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        divided, full = self._divided(self._placed(changes)), self._full_compaction_is_due()
        for bucket, keyed in divided.items():
            self.states[bucket] = self.mechanism.write(self._state(bucket), keyed)
        self._commit(APPEND, self._written(divided))
        if not write_only:
            self._compact(list(self.states if full or self.shape.moves_keys else divided), full=full)

    def compact(self, *, full: bool = False) -> None:
        self._compact(list(self.states), full=full)

    def reopen(self) -> None:
        """Do nothing: all there is, is stored."""

    def write_concurrently(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        for changes in (first, second):
            self.write(changes, write_only=True)

    def close(self) -> None:
        """Do nothing: there are no files."""

    # ------------------------------------------------------------ staged work

    def begin_write(self, changes: Sequence[Change], *, write_only: bool = False) -> int:
        ticket = self._new_ticket()
        full = self._full_compaction_is_due()
        # Where keys move between partitions, all buckets are compacted together (BKT-27), after the commit.
        planned = not write_only and not full and not self.shape.moves_keys
        self._stage(ticket, changes, planned=planned)
        if not write_only:
            self._compacting[ticket] = full
        return ticket

    def _stage(self, ticket: int, changes: Sequence[Change], *, planned: bool) -> None:
        assigned = self._buckets.copy()
        moved = self._placed(changes)
        divided = self._divided(moved, assigned)
        for bucket, keyed in divided.items():
            state = self._state(bucket)
            plan = self._own_plan(state, keyed) if planned else None
            self.states[bucket] = self.mechanism.begin_write(state, str(ticket), keyed, plan)
        self._staged[ticket] = set(divided)
        partitions = {partition for partition, _ in divided}
        self._assigned[ticket] = _Assigned(
            tuple(changes), tuple(moved), self._buckets.of(partitions), assigned.of(partitions), planned
        )

    def _assign(self, ticket: int) -> None:
        """Let the keys of a staged write have their buckets; if others got some, or moved keys, stage it again.

        Clauses: BKT-8, BKT-26.
        """
        assigned = self._assigned.pop(ticket)
        moved = tuple(self._placed(assigned.changes)) != assigned.moved
        if moved or self._buckets.of(assigned.before) != assigned.before:
            for bucket in self._staged.pop(ticket):
                self.states[bucket] = self.mechanism.crash(self.states[bucket], str(ticket))
            self._stage(ticket, assigned.changes, planned=assigned.planned)
            assigned = self._assigned.pop(ticket)
        self._buckets.partitions.update(assigned.after)

    def begin_compaction(self, *, full: bool = False) -> int | None:
        ticket = self._new_ticket()
        planned = self._plan(ticket, list(self.states), full=full)
        if not planned:
            return None
        self._staged[ticket] = planned
        return ticket

    def commit(self, ticket: int) -> str | None:
        if ticket in self._assigned:
            self._assign(ticket)
        job, touched = str(ticket), self._staged.pop(ticket)
        work = [(bucket, self.states[bucket], self.states[bucket].work(job)) for bucket in touched]
        conflicts = [self.mechanism.conflict(state, one) for _, state, one in work if isinstance(one, Plan)]
        refused = next((clause for clause in conflicts if clause), None)
        if refused:
            for bucket in touched:
                self.states[bucket] = self.mechanism.crash(self.states[bucket], job)
            return refused
        changes: list[Change] = []
        for bucket, state, one in work:
            if isinstance(one, Plan):
                changes += self.mechanism.changelog(state, one)
                self.states[bucket] = self.mechanism.commit_compaction(state, job)
            else:
                self.states[bucket] = self.mechanism.commit_write(state, job)
                assert isinstance(one, StagedWrite)
                changes += self._written({bucket: one.changes})
        self._commit(COMPACT if isinstance(work[0][2], Plan) else APPEND, changes)
        if ticket in self._compacting:
            full = self._compacting.pop(ticket)
            if full or self.shape.moves_keys:
                self._compact(list(self.states), full=full)
            else:
                self._compact_own(ticket, touched)
        return None

    def abandon(self, ticket: int) -> None:
        self._compacting.pop(ticket, None)
        self._assigned.pop(ticket, None)
        for bucket in self._staged.pop(ticket):
            self.states[bucket] = self.mechanism.crash(self.states[bucket], str(ticket))

    def _full_compaction_is_due(self) -> bool:
        """Whether a write that is planned now compacts all buckets fully. Clauses: CMP-30."""
        snapshots = (
            (snapshot.kind, {level for state in snapshot.states.values() for _, level in state.live})
            for snapshot in reversed(self._history)
        )
        return self.mechanism.options.full_compaction_is_due(snapshots)

    def _own_plan(self, state: State, changes: Sequence[KeyedChange]) -> Plan | None:
        written = self.mechanism.write(state, changes)
        pick = self.mechanism.pick(written, full=False)
        plan = self.mechanism.plan(written, pick, self.mechanism.is_large) if pick else None
        return plan if plan and plan.inputs else None

    def _compact_own(self, ticket: int, touched: set[BucketId]) -> None:
        """Commit the compactions planned with a write; plan anew what it dropped or what stands against."""
        job = str(ticket)
        for bucket in touched:
            work = dict(self.states[bucket].pending).get(job)
            if isinstance(work, Plan) and self.mechanism.conflict(self.states[bucket], work):
                self.states[bucket], work = self.mechanism.crash(self.states[bucket], job), None
            if work is None:
                self._plan(ticket, [bucket], full=False)
        planned = {bucket for bucket in touched if job in dict(self.states[bucket].pending)}
        self._commit_planned(ticket, planned)

    def _compact(self, among: Sequence[BucketId], *, full: bool) -> None:
        ticket = self._new_ticket()
        self._commit_planned(ticket, self._plan(ticket, among, full=full))

    def _commit_planned(self, ticket: int, planned: set[BucketId]) -> None:
        if planned:
            self._staged[ticket] = planned
            refused = self.commit(ticket)
            assert refused is None, "nothing came between plan and commit"

    def _plan(self, ticket: int, among: Sequence[BucketId], *, full: bool) -> set[BucketId]:
        planned = set()
        full = full or self._records_moves(among)
        for bucket in among:
            state = self.states[bucket]
            pick = self.mechanism.pick(state, full=full)
            if pick is None:
                continue
            after = self.mechanism.plan_compaction(state, str(ticket), pick, self.mechanism.is_large)
            if after != state:
                self.states[bucket] = after
                planned.add(bucket)
        return planned

    def _records_moves(self, among: Sequence[BucketId]) -> bool:
        """Whether a compaction records changes of keys that move, so that it takes all buckets. Clauses: BKT-27."""
        options = self.mechanism.options
        if not (self.shape.moves_keys and options.records_full_compactions):
            return False
        picked = (self.mechanism.pick(self.states[bucket], full=False) for bucket in among)
        return any(pick and pick.output_level == options.max_level for pick in picked)

    # ------------------------------------------------------------------ reads

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        if snapshot is None:
            snapshot = len(self._history)
        read = self.mechanism.fresh_read if fresh else self.mechanism.plain_read
        states = self._history[snapshot - 1].states if snapshot else {}
        rows = [record.row for state in states.values() for record in read(state)]
        return rows if query is EVERYTHING else query.over(self.shape, rows)[: query.limit]

    def read_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        return [self.read(snapshot=one.snapshot, fresh=one.fresh, query=one.query) for one in wanted]

    def changes(self, start: int, end: int) -> Sequence[Change]:
        return [change for snapshot in self._history[start:end] for change in snapshot.changes]

    def snapshots(self) -> Sequence[SnapshotInfo]:
        return [SnapshotInfo(id, snapshot.kind) for id, snapshot in enumerate(self._history, 1)]

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        return [
            FileInfo(
                name=_file_name(bucket, file),
                bucket=bucket,
                level=level,
                row_count=len(data.records),
                min_key=data.min_key,
                max_key=data.max_key,
                min_sequence=data.min_sequence,
                max_sequence=data.max_sequence,
                retraction_count=data.retraction_count,
                size=RECORD_SIZE * len(data.records),
                created=file,
            )
            for bucket, state in self._history[snapshot - 1].states.items()
            for file, level in state.live
            for data in (state.files[file],)
        ]

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        return [
            VectorInfo(f"vectors of {bucket}", bucket, _file_name(bucket, file), positions)
            for bucket, state in self._history[snapshot - 1].states.items()
            for file, positions in positions_by_file(state).items()
        ]

    def records(self, snapshot: int, file: FileInfo) -> Sequence[StoredRecord]:
        return (
            self._history[snapshot - 1].states[file.bucket].files[int(file.name.rpartition("-")[2])].records
        )

    # -------------------------------------------------------------- the parts

    def _placed(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return what changes write where keys move between partitions. Clauses: BKT-22 to BKT-24."""
        if not self.shape.moves_keys:
            return changes
        rows = [record.row for state in self.states.values() for record in self.mechanism.fresh_read(state)]
        return placed(self.shape, self.mechanism.options.merge_engine.name, changes, rows)

    def _divided(
        self, changes: Sequence[Change], dynamic: buckets.DynamicBuckets | None = None
    ) -> dict[BucketId, list[KeyedChange]]:
        """Return changes by bucket. ``dynamic``: gives buckets to their keys, by default for good."""
        divided: dict[BucketId, list[KeyedChange]] = {}
        options, dynamic = self.mechanism.options, dynamic or self._buckets
        for kind, row in changes:
            keyed = KeyedChange(self.shape.pick(row, self.shape.trimmed_key), kind, row)
            bucket = (
                dynamic.bucket_of(row)
                if options.has_dynamic_buckets
                else buckets.bucket_of(self.shape, row, options.bucket_count)
            )
            divided.setdefault(bucket, []).append(keyed)
        return divided

    def _state(self, bucket: BucketId) -> State:
        return self.states.get(bucket, EMPTY)

    def _new_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _written(self, divided: Mapping[BucketId, Sequence[KeyedChange]]) -> list[Change]:
        """Return the changes that a write records, or that its level-0 files hold. Clauses: CHG-4, CHG-11."""
        if self.mechanism.options.changelog_producer == "input":
            return [Change(one.kind, one.row) for keyed in divided.values() for one in keyed]
        if self.mechanism.options.changelog_producer == "none":
            engine = self.mechanism.options.merge_engine
            runs = [run for keyed in divided.values() for run in runs_of_write(keyed, 0, engine)]
            return [Change(record.kind, record.row) for run in runs for record in run]
        return []

    def _commit(self, kind: str, changes: Sequence[Change]) -> None:
        ordered = tuple(in_order(self.shape, changes))
        self._history.append(_Snapshot(kind, dict(self.states), ordered))


def _file_name(bucket: BucketId, file: int) -> str:
    partition, number = bucket
    return "-".join(map(str, (*partition, number, file)))


def positions_by_file(state: State) -> dict[int, frozenset[int]]:
    """Return the deletion vector of each file that has one. Clauses: DV-1, DV-5, DV-16."""
    return {
        file: frozenset(position for marked, position in state.vectors if marked == file)
        for file, _ in state.vectors
    }
