"""Rows that wait for a bucket get one: they become level-0 files of their buckets, which are compacted with them.

1. The files of the postpone bucket are read in the order in which they were written, as changes.
2. These are written to the buckets of their keys, numbered above what is there. A partition that has no buckets yet
   gets as many as an option says.
3. These buckets are compacted as if the new files were live. One COMPACT snapshot removes the files that waited.

Clauses: BKT-14, BKT-15, BKT-16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pktable.bucket.assign import BucketsOfPartitions
from pktable.bucket.changelog import ROW_KIND
from pktable.bucket.write import BucketAppend
from pktable.catalog import rules
from pktable.catalog.changes import CatalogChange, Compaction
from pktable.catalog.rules import Attempt
from pktable.catalog.state import TableState
from pktable.format.metadata.manifest import DataFileMeta
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketChange, ChangeRead
from pktable.run.runner import ChangeQuery
from pktable.staged import StagedParts
from pktable.staged_write import with_appends
from pktable.staging import Stager, next_sequences
from pktable.store.new_files import NewFiles, remove_quietly


@dataclass(slots=True)
class StagedMove(StagedParts):
    """The move of all rows that wait, into files of their buckets.

    ``full``: whether the buckets are compacted fully. ``totals``: the numbers of buckets by partition.
    Clauses: BKT-14, BKT-16.
    """

    full: bool
    totals: Mapping[bytes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, stager: Stager, state: TableState, *, full: bool) -> StagedMove:
        """Stage the move of the rows that wait in ``state``."""
        staged = cls(stager, (), state, full)
        staged.plan_again(state)
        return staged

    def as_one(self) -> CatalogChange:
        """Return the changes of all buckets, none of which may have other files by now."""
        base = self.base

        def unchanged(attempt: Attempt) -> str | None:
            place = attempt.change.place
            before, now = (_names(one.files.get(place.id, ())) for one in (base, attempt.state))
            return None if before == now or place.bucket < 0 else f"bucket {place.bucket} has other files"

        checked = (*rules.COMPACTION_RULES, ("CMT-54", unchanged))
        context = self.stager.context
        return Compaction(self.changes, context.options.bucket, context.order, False, checked, self.totals)

    def plan_again(self, state: TableState) -> None:
        """Do the data work on ``state``."""
        stager, context = self.stager, self.stager.context
        waiting = {bucket_id: in_order(state.files[bucket_id]) for bucket_id in state.waiting}
        places = {bucket_id: context.place(*bucket_id) for bucket_id in waiting}
        totals = {one[0]: state.total((one[0], 0), context.options.buckets_of_waiting) for one in waiting}
        self.base, self.totals = state, totals
        if not waiting:
            return
        new = NewFiles()
        try:
            parts = [ChangeRead(places[one], files) for one, files in waiting.items()]
            rows = stager.runner.read_changes(context, ChangeQuery(parts, context.schema.value_names))
            assigner = BucketsOfPartitions(context, totals, context.options.buckets_of_waiting)
            change = ChangeKind(column=ROW_KIND)
            numbers = next_sequences(state)
            appends = stager.runner.write(context, rows, change, assigner, numbers, new, stager.clock())
            after = with_appends(state, appends, waiting)
            compacted = stager.compacted(after, [append.place.id for append in appends], full=self.full)
        except BaseException:
            new.remove(context.store)
            raise
        changes = [BucketChange(places[one], files) for one, files in waiting.items()] + settled(
            state, appends, compacted
        )
        # Files that were compacted at once are no part of it.
        used = {
            context.data_path(one.place, file) for one in changes for file in (*one.added, *one.changelog)
        }
        remove_quietly(context.store, [path for path in new.paths if path not in used])
        changes[0] = replace(changes[0], created=tuple(path for path in new.paths if path in used))
        self.changes = changes


def in_order(files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    """Return files whose rows wait in the order in which they were written.

    Those of Paimon have no sequence numbers, but times; only writers of one process are told apart by these.
    Clauses: BKT-14.
    """
    timed = any(file.min_sequence_number < 0 for file in files)

    def age(file: DataFileMeta) -> tuple[int, int, str]:
        return (file.creation_time or 0) if timed else 0, file.min_sequence_number, file.file_name

    return tuple(sorted(files, key=age))


def settled(
    state: TableState, appends: Sequence[BucketAppend], compacted: Sequence[BucketChange]
) -> list[BucketChange]:
    """Return the change of each bucket that new files and their compaction make together, planned on ``state``."""
    by_bucket = {change.place.id: change for change in compacted}
    changes = []
    for append in appends:
        index = next(iter(state.indexes.get(append.place.id, ())), None)
        nothing = BucketChange(append.place, base_index=index, index=index)
        change = by_bucket.get(append.place.id, nothing)
        own, taken = _names(append.files), _names(change.removed)
        left = (file for file in append.files if file.file_name not in taken)
        changes.append(
            replace(
                change,
                removed=tuple(file for file in change.removed if file.file_name not in own),
                added=(*change.added, *left),
                changelog=(*append.changelog, *change.changelog),
            )
        )
    return changes


def _names(files: Sequence[DataFileMeta]) -> set[str]:
    return {file.file_name for file in files}
