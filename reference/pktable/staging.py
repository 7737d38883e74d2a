"""Make the parts of a change: its new files, and the compaction that is planned on a state. Nothing becomes visible.

A write:

1. The runner writes the rows as new level-0 files, numbered above all live sequence numbers.
2. The compaction of the touched buckets is planned and carried out as if those files were live (CMP-17).
3. `staged` commits the files as an APPEND snapshot, then the compaction as a COMPACT snapshot.

If the option ``full-compaction.delta-commits`` asks for it, a write compacts the whole table fully instead, after its
own commit (CMP-30). So a failure before the commits leaves the table as it was.

Clauses: CMT-2, CMT-12, CMT-20, CMP-17, CMP-30.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import POSTPONE_BUCKET
from pktable_spec.vocabulary import RowKind

from pktable.bucket.assign import assigner_of
from pktable.bucket.hash_index import rebuilt
from pktable.bucket.moving import MovingKeys
from pktable.bucket.write import BucketAppend
from pktable.catalog.changes import Assignment, Replaces, TouchedPartitions
from pktable.catalog.commit import Committer
from pktable.catalog.earlier_commits import is_full_compaction_due
from pktable.catalog.isolation import CLAUSE as STALE
from pktable.catalog.isolation import Isolation
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.ingest.changes import ChangeKind
from pktable.kinds import TableKind, kind_of
from pktable.lsm.bucket import BucketChange, BucketId, BucketState
from pktable.lsm.universal import Pick
from pktable.run.runner import CompactionTask, FoundRows, RowChange, Runner
from pktable.store.new_files import NewFiles

INSERTED, UPDATED = ChangeKind(RowKind.INSERT), ChangeKind(RowKind.INSERT, row_ids=True)

Written: TypeAlias = tuple[list[BucketAppend], Assignment]
"""The files of rows that were written, and what the rows were assigned to dynamic buckets by."""


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """The effect that a compaction would have in one bucket: the files it takes, and the level their rows go to.

    ``partition``: its directory, empty without partitions. ``files``, ``rows``, ``size_bytes``: of all files taken,
    retractions and deleted rows included.
    """

    partition: str
    bucket: int
    files: int
    rows: int
    size_bytes: int
    output_level: int


@dataclass(slots=True)
class Stager:
    """Plans on a state and lets the runner work. ``clock``: milliseconds since the epoch."""

    context: TableContext
    states: StateLoader
    committer: Committer
    runner: Runner
    clock: Callable[[], int]

    @property
    def kind(self) -> TableKind:
        return kind_of(self.context.schema, self.context.root)

    def written(
        self, state: TableState, rows: Any, change: ChangeKind, new: NewFiles, replaces: Replaces | None
    ) -> Written:
        """Write ``rows`` as files that are to become live after ``state``, whose hash index files assign them.

        ``replaces``: of an overwrite, the partitions whose rows go. Clauses: BKT-4, BKT-8, BKT-9, BKT-11.
        """
        known: dict[BucketId, IndexManifestEntry] = {}
        made: dict[BucketId, IndexManifestEntry] = {}
        if self.context.has_dynamic_buckets and replaces is None:
            lacking = [one for one in state.files if one not in state.hashes]
            made = {one: rebuilt(self.context, self.states.bucket(state, one), new) for one in lacking}
            known = {**state.hashes, **made}
        numbers = {} if self.context.has_unaware_buckets else next_sequences(state)
        moves = self.context.moves_keys
        assigner = self._moving(state, change, replaces) if moves else assigner_of(self.context, known)
        appends = self.runner.write(self.context, rows, change, assigner, numbers, new, self.clock())
        if isinstance(replaces, TouchedPartitions):
            replaces.partitions = frozenset(append.place.partition for append in appends)
        if replaces is not None:
            self._expect_replaced(appends, replaces)
        else:
            self.expect_totals(state, appends)
        made |= {append.place.id: append.hashes for append in appends if append.hashes is not None}
        if moves:
            return appends, Assignment(places=self.isolation(state, clause="BKT-26"))
        return appends, Assignment(state.hashes if replaces is None else None, made)

    def _moving(self, state: TableState, change: ChangeKind, replaces: Replaces | None) -> MovingKeys:
        """Return what knows where all keys of ``state`` are, and moves them. Clauses: BKT-21, BKT-28."""
        if isinstance(replaces, TouchedPartitions):
            raise InvalidRequestError(
                "overwrite: dynamic is not supported where a key may lie in any partition; name the partitions by "
                "where=..."
            )
        live = plan_read(self.context, self.states, state, fresh=True, predicate=None)
        if replaces is not None:
            live = [part for part in live if not replaces(part.state.place.partition)]
        return MovingKeys(self.context, live, may_move=replaces is None, keys_only=change.keys_only)

    def changed(self, state: TableState, change: RowChange) -> list[BucketChange]:
        """Write the rows that a statement adds to an append table, and drop those that it has found in ``state``.

        With deletion vectors these become deleted positions, without them their files are written again.
        Clauses: APP-12.
        """
        appends: list[BucketAppend] = []
        new = NewFiles()
        try:
            for rows, kind in ((change.rows, INSERTED), (change.updated, UPDATED)):
                if rows is not None:
                    assigner = assigner_of(self.context, {})
                    appends += self.runner.write(self.context, rows, kind, assigner, {}, new, self.clock())
            found = change.found
            if self.context.options.deletion_vectors_enabled:
                dropped = [
                    BucketChange(self.context.place(*one.bucket_id), deleted=one.positions) for one in found
                ]
            else:
                dropped = self._rewritten(state, found)
        except BaseException:
            new.remove(self.context.store)
            raise
        added = [
            BucketChange(
                one.place,
                added=one.files,
                created=tuple(self.context.data_path(one.place, file) for file in one.files),
            )
            for one in appends
        ]
        return added + dropped

    def _rewritten(self, state: TableState, found: Sequence[FoundRows]) -> list[BucketChange]:
        """Write each file without the rows found in it. Clauses: APP-12."""
        tasks = []
        for one in found:
            bucket = self.states.bucket(state, one.bucket_id)
            for file in bucket.files:
                if file.file_name in one.positions:
                    dropped = {file.file_name: one.positions[file.file_name]}
                    token = str(uuid.uuid4())
                    chosen = Pick(0, (file,))
                    tasks.append(CompactionTask(bucket, chosen, token, self.clock(), dropped=dropped))
        return self.runner.results(self.context, tasks) if tasks else []

    def compacted(
        self,
        state: TableState,
        bucket_ids: Iterable[BucketId],
        *,
        full: bool,
        cached_rows: Mapping[str, pa.Table] = MappingProxyType({}),
        alone: bool = False,
    ) -> list[BucketChange]:
        """Plan the compaction of some buckets of ``state`` and do its data work; nothing becomes visible.

        ``cached_rows``: the rows of some files by name, which then are not read. ``alone``: whether no other bucket is
        compacted, though keys may have moved there.
        """
        if not alone:
            bucket_ids = dict.fromkeys((*bucket_ids, *self._that_may_share_keys(state)))
        tasks = []
        for bucket, chosen in self._picks_of_all(state, bucket_ids, full=full):
            names = cached_rows.keys() & {file.file_name for file in chosen.files}
            rows = {name: cached_rows[name] for name in names}
            tasks.append(CompactionTask(bucket, chosen, str(uuid.uuid4()), self.clock(), rows))
        if not tasks:
            return []
        return [change for change in self.runner.results(self.context, tasks) if not change.empty]

    def _that_may_share_keys(self, state: TableState) -> list[BucketId]:
        """Return the buckets that must be compacted together, because a key may have moved between them.

        Clauses: BKT-27.
        """
        options = self.context.options
        if not self.context.moves_keys:
            return []
        if options.records_full_compactions:
            return list(state.files)
        if not options.compacts_level_zero:
            return []
        return [one for one, files in state.files.items() if any(file.level == 0 for file in files)]

    def planned(self, state: TableState, *, full: bool) -> list[PlannedCompaction]:
        """Return what a compaction of ``state`` would compact, per bucket; nothing is done.

        In an append table a bucket may have several groups of files, each of which is compacted by itself.
        """
        waiting = [(self.context.place(*one), state.files[one], 0) for one in state.waiting]
        picks = self._picks_of_all(state, state.files, full=full)
        return [
            PlannedCompaction(
                self.context.partition_path(place.partition),
                place.bucket,
                len(files),
                sum(file.row_count for file in files),
                sum(file.file_size for file in files),
                level,
            )
            for place, files, level in [
                *waiting,
                *((bucket.place, chosen.files, chosen.output_level) for bucket, chosen in picks),
            ]
        ]

    def _picks_of_all(
        self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool
    ) -> list[tuple[BucketState, Pick]]:
        """Return the picks of some buckets, or of all where a compaction that records moved keys must be whole.

        Clauses: BKT-27.
        """
        picks, options = list(self._picks(state, bucket_ids, full=full)), self.context.options
        records = self.context.moves_keys and options.records_full_compactions
        if records and any(chosen.output_level == options.max_level for _, chosen in picks):
            return list(self._picks(state, state.files, full=True))
        return picks

    def _picks(
        self, state: TableState, bucket_ids: Iterable[BucketId], *, full: bool
    ) -> Iterator[tuple[BucketState, Pick]]:
        """Yield the buckets that need a compaction, each with what to compact in it. Reads metadata only."""
        self.expect_same_keys(state)
        kind = self.kind
        for bucket_id in bucket_ids:
            if bucket_id[1] < 0:  # rows that wait for a bucket are moved, see `postponed`
                continue
            bucket = self.states.bucket(state, bucket_id)
            for chosen in kind.choose_compaction(self.context, bucket, full=full):
                yield bucket, chosen

    def is_full_compaction_due(self, state: TableState) -> bool:
        """Return whether the write that is planned on ``state`` is to compact the whole table. Clauses: CMP-30."""
        return is_full_compaction_due(self.context, self.committer.snapshots, state.snapshot)

    def isolation(self, read: TableState, *, clause: str = STALE) -> Isolation:
        """Return what compares ``read`` with later states. ``clause``: which is broken where they differ."""
        snapshots, manifests = self.committer.snapshots, self.committer.manifests
        return Isolation(
            read, snapshots, manifests, self.context.order, across=self.context.moves_keys, clause=clause
        )

    def _expect_replaced(self, appends: Iterable[BucketAppend], replaces: Replaces) -> None:
        """Raise InvalidRequestError unless an overwrite's rows are in partitions that it replaces. Clauses: STM-7."""
        for partition in {append.place.partition for append in appends}:
            if not replaces(partition):
                raise InvalidRequestError(
                    f"overwrite: rows of partition {self.context.partition_path(partition)} are outside of those "
                    "for which the condition holds; leave them out, or change the condition"
                )

    def expect_same_keys(self, state: TableState) -> None:
        """Raise InvalidRequestError unless live files have the table's keys. Clauses: META-41."""
        self.context.expect_keys(file for live in state.files.values() for file in live)

    def expect_totals(self, state: TableState, appends: Iterable[BucketAppend]) -> None:
        """Raise InvalidRequestError unless the partitions of ``appends`` have the table's number of buckets.

        Clauses: BKT-19, TBL-18.
        """
        wanted = self.context.options.bucket
        for append in appends:
            partition, bucket = append.place.id
            totals = state.totals.get(partition, frozenset())
            if bucket >= 0 and wanted != POSTPONE_BUCKET and totals - {wanted}:
                remedy = "rescale() writes them again, or restore" if wanted > 0 else "restore"
                raise InvalidRequestError(
                    f"{append.place.directory}: option bucket is {wanted}, but live files of the partition were "
                    f"written under {', '.join(map(str, sorted(totals)))} buckets; "
                    f"{remedy} the option"
                )


def next_sequences(state: TableState) -> dict[BucketId, int]:
    """Return per bucket the first sequence number above all of its live files. Clauses: LSM-10."""
    return {
        bucket_id: max(file.max_sequence_number for file in files) + 1
        for bucket_id, files in state.files.items()
    }
