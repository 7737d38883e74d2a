"""The expectations of one table under test: its reads, snapshots, files and vectors are checked after every step.

`Expectations` does an operation on its table and then

1. takes in the new snapshots and checks the layout of each (`new_snapshots`, `settle`);
2. checks what the operation may change: a write adds level-0 files (`appended`), a compaction takes what the
   oracle picks (`compacted`);
3. fixes the rows that every read of the new snapshots must return from now on, by the oracle's meaning;
4. compares the reads of all retained snapshots with those rows (`ReadExpectations.reads_agree`).

The subtle case is a compaction that was planned earlier than it commits: its pick is judged by the snapshot it was
planned on, its effect by the snapshot before its commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from pktable_spec.covers import covers
from pktable_spec.interface import (
    BucketId,
    Change,
    FileInfo,
    HasConcurrentWriters,
    KeepsSnapshots,
    Key,
    ShowsRecords,
    SuffersFaults,
)
from pktable_spec.vocabulary import APPEND, COMPACT

from pktable_conform.judge.changes import unrecorded
from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.layout import (
    ExpectedCompaction,
    Layout,
    expected_compactions,
    sorted_runs,
)
from pktable_conform.judge.read_expectations import ReadExpectations

OPTIONAL: Final[Mapping[str, str]] = {
    "compaction_took_the_pick": "a compaction takes the files that Paimon's universal compaction picks",
    "level_zero_is_compacted": "a compaction takes all files of level 0",
    "no_vector_is_left": "a full compaction leaves no deletion vector",
    "nothing_is_left_out": "a writer also writes what readers do without",
}
"""The checks that a run may leave out: those of one strategy of compaction, and that of what harms no read."""


class Expectations(ReadExpectations):
    """A table under test, what is known about it so far, and the checks of what is done to it.

    ``without``: the names of those of `OPTIONAL` that are left out.
    """

    without: frozenset[str] = frozenset()

    # ------------------------------------------------------------- operations

    def write(self, changes: Sequence[Change], *, write_only: bool) -> None:
        """Write, and check the snapshots this makes."""
        self.table.write(changes, write_only=write_only)
        self.written(changes, write_only=write_only)

    @check
    @covers("CMT-2", "CMT-18", "CMT-33", "CMP-17", "CMP-30")
    def written(
        self,
        changes: Sequence[Change],
        *,
        write_only: bool,
        planned_on: Layout | None = None,
        new: Sequence[Layout] | None = None,
    ) -> None:
        """Check the APPEND snapshot of a write and, unless write-only, the compaction after it.

        ``planned_on``: the snapshot on which that was planned with the write, if not the one before it. Then it
        may have been planned again, and `Refinement` says whether there was a snapshot to plan it on.
        ``new``: its snapshots, if not all that were not known.
        """
        changes = self.placed(changes)
        new, before, full = new or self.new_snapshots(), self.latest, self.full_compaction_is_due()
        if not new:
            fail("a write made no snapshot")
        self.appended(new[0], changes)
        if write_only:
            if len(new) > 1:
                fail(f"a write-only write makes one snapshot, found {kinds_of(new)}")
            return
        touched = {bucket for bucket, _ in new[0].files.keys() - before.files.keys()}
        if planned_on in (None, before):
            self.compacted(
                new[1:], self.latest, full=full, among=set(self.latest.buckets()) if full else touched
            )
        else:
            for layout in new[1:]:
                if layout.kind != COMPACT:
                    fail(f"a write makes an APPEND and then COMPACT snapshots, found {kinds_of(new)}")
                self.settle(layout)
        self.level_zero_is_compacted(touched)

    def full_compaction_is_due(self) -> bool:
        """Whether the write after the latest snapshot compacts all buckets fully. Clauses: CMP-30."""
        snapshots = (
            (layout.kind, {file.level for file in layout.files.values()})
            for layout in reversed(self.layouts[1:])
        )
        return self.options.full_compaction_is_due(snapshots)

    def write_concurrently(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        """Let two writers commit that do not know of each other, and check both snapshots."""
        assert isinstance(self.table, HasConcurrentWriters)
        base = self.latest
        self.table.write_concurrently(first, second)
        self.both_writes_are_there(base, first, second)

    @check
    @covers("LSM-4", "LSM-8", "CMT-2")
    def both_writes_are_there(self, base: Layout, *writes: Sequence[Change]) -> None:
        """Check that each write made a snapshot, whatever their sequence numbers."""
        new = self.new_snapshots()
        if len(new) != len(writes):
            fail(f"{len(writes)} writes make {len(writes)} snapshots, found {kinds_of(new)}")
        for layout, changes in zip(new, map(self.placed, writes), strict=True):
            self.appended(layout, changes, numbered_on=base)

    @covers("CMT-15", "DV-15", "DV-18", "RD-22", "RD-28")
    def enable_vectors(self) -> None:
        """Switch deletion vectors on. Rows that were superseded before have no vector, and must not be read.

        The snapshots that are there read as before.
        """
        assert isinstance(self.table, SuffersFaults)
        self.table.enable_vectors()
        self.options = replace(self.options, deletion_vectors=True)
        self.without_vector = set(self.latest.files)

    @check
    @covers("DVF-5", "RD-11")
    def damage_is_noticed(self, bit: int) -> None:
        """Flip a bit of the deletion vectors: the read must refuse them."""
        assert isinstance(self.table, SuffersFaults)
        if self.latest.vectors and not self.table.damage_vectors(bit):
            fail(f"a read accepted deletion vectors with bit {bit} (from the end) flipped")

    def compact(self, *, full: bool) -> None:
        """Compact, and check that every bucket did what the strategy says."""
        self.table.compact(full=full)
        self.compacted(self.new_snapshots(), self.latest, full=full, among=set(self.latest.buckets()))
        self.level_zero_is_compacted(set(self.latest.buckets()))
        if full:
            self.no_vector_is_left()

    @covers("CMT-16")
    def expire(self, retain_last: int) -> None:
        """Expire old snapshots, and check that the others and all tags stay."""
        assert isinstance(self.table, KeepsSnapshots)
        self.table.expire(retain_last)
        self.earliest = max(self.earliest, len(self.layouts) - retain_last)
        kept = self.latest.id + 1 - self.changelogs_kept
        self.earliest_changes = min(self.earliest, max(self.earliest_changes, kept))
        self.nothing_was_committed()

    @covers("CMT-17")
    def create_tag(self, tag: str, *, newer: int) -> None:
        """Tag a retained snapshot, than which ``newer`` others are newer if there are as many."""
        assert isinstance(self.table, KeepsSnapshots)
        if self.retained and tag not in self.tags:
            layout = self.retained[max(0, len(self.retained) - 1 - newer)]
            self.table.create_tag(tag, layout.id)
            self.tags[tag] = layout
            self.nothing_was_committed()

    @covers("CMT-17", "CMT-31")
    def delete_tag(self, tag: str) -> None:
        """Delete a tag."""
        assert isinstance(self.table, KeepsSnapshots)
        if self.tags.pop(tag, None):
            self.table.delete_tag(tag)
            self.nothing_was_committed()

    @check
    @covers("CMP-3")
    def level_zero_is_compacted(self, buckets: set[BucketId]) -> None:
        """Where default reads skip level 0, no file of it is left in ``buckets``."""
        left = {file.bucket for file in self.latest.files.values() if file.level == 0} & buckets
        if left and self.options.one_record_per_key and "level_zero_is_compacted" not in self.without:
            fail(f"level 0 is left in {left}")

    @check
    @covers("CMP-7", "CMP-22", "DV-13")
    def no_vector_is_left(self) -> None:
        """A full compaction leaves no deletion vector, except for retractions that are kept."""
        left = {
            key: positions
            for key, positions in self.latest.vectors.items()
            if not self.options.hides_retractions or len(positions) > self.latest.files[key].retraction_count
        }
        if left and "no_vector_is_left" not in self.without:
            fail(f"a full compaction left {left}")

    # -------------------------------------------------------------- snapshots

    def new_snapshots(self) -> list[Layout]:
        """Return the snapshots that were not known, their files and vectors. Clauses: CMT-1, CMT-15."""
        retained = self.table.snapshots()
        known = len(self.retained)
        self.ids_are_dense([snapshot.id for snapshot in retained])
        self.kinds_are_kept([snapshot.kind for snapshot in retained[:known]])
        new = [Layout(snapshot.id, snapshot.kind) for snapshot in retained[known:]]
        for layout in new:
            self.files_are_live_once(layout)
            self.vectors_are_well_formed(layout)
        return new

    @check
    @covers("CMT-1")
    def ids_are_dense(self, ids: Sequence[int]) -> None:
        if list(ids) != list(range(self.earliest, self.earliest + len(ids))):
            fail(f"snapshot ids are dense from {self.earliest}, found {ids}")
        if len(ids) < len(self.retained):
            fail(f"a snapshot was lost: expected {len(self.retained)}, found {len(ids)}")

    @check
    @covers("CMT-15")
    def kinds_are_kept(self, kinds: Sequence[str]) -> None:
        known = [layout.kind for layout in self.retained]
        if list(kinds) != known:
            fail(f"the kinds of retained snapshots changed: expected {known}, found {kinds}")

    @check
    @covers("CMT-4")
    def files_are_live_once(self, layout: Layout) -> None:
        """Take in the files of a new snapshot; a file is live at one level only."""
        files = self.table.files(layout.id)
        layout.files = {(file.bucket, file.name): file for file in files}
        if len(layout.files) != len(files):
            twice = [key for key, count in Counter((f.bucket, f.name) for f in files).items() if count > 1]
            fail(f"live at two levels: {twice}")

    @check
    @covers("CMT-2", "CMT-12", "CMT-20", "CMT-25")
    def nothing_was_committed(self) -> None:
        """Check that what was staged, abandoned or refused made no snapshot."""
        new = self.new_snapshots()
        if new:
            fail(f"work that is not committed made {kinds_of(new)}")

    # ---------------------------------------------------------------- a write

    @check
    @covers("LSM-5", "LSM-10", "LSM-2", "TBL-3", "TBL-6", "CMT-2", "CMT-6", "DV-14")
    def appended(
        self, layout: Layout, changes: Sequence[Change], *, numbered_on: Layout | None = None
    ) -> None:
        """Check that a write added level-0 files only, numbered above all others.

        ``numbered_on``: the snapshot that its numbers must be above, if not the one before it.
        """
        before = self.latest
        older = (numbered_on or before).buckets()
        if layout.kind != APPEND:
            fail(f"a write makes an APPEND snapshot, found {layout.kind}")
        if not before.entries() <= layout.entries():
            fail(f"a write removes no file, found {before.entries() - layout.entries()} removed")
        if layout.vectors != before.vectors:
            fail(f"a write changes no vector: {before.vectors} became {layout.vectors}")
        self.run_was_added(layout, changes, older)
        self.meaning.commit(layout.id, changes)
        self.settle(layout)

    def run_was_added(
        self,
        layout: Layout,
        changes: Sequence[Change],
        older: Mapping[BucketId, Sequence[FileInfo]],
        lifted: int | None = 0,
    ) -> None:
        """Check the new files of a write, and take them in. ``older``: the files its numbers must be above.

        ``lifted``: the level where all must lie; None if their number may have made them a compaction of their own.
        """
        before = self.latest
        touched: Counter[BucketId] = Counter(self.bucket_of(row) for _, row in changes)
        added = [file for key, file in layout.files.items() if key not in before.files]
        # Where keys move, a retraction that is ignored may be where its key was before others wrote it (BKT-26).
        free = self.shape.moves_keys and self.options.merge_engine.ignores_retractions
        needed = {self.bucket_of(row) for kind, row in changes if kind.is_add or not free} or touched.keys()
        if not needed <= {file.bucket for file in added} <= touched.keys():
            right, found = map(buckets_text, (touched, {file.bucket for file in added}))
            fail(f"a write goes to the buckets of its keys, {right}; found {found}")
        for file in added:
            many = lifted is None and touched[file.bucket] >= self.options.trigger
            if file.level not in ((0, self.options.max_level) if many else (lifted or 0,)):
                fail(f"a write goes to level {lifted or 0}, found {file}")
            highest = max((other.max_sequence for other in older.get(file.bucket, [])), default=-1)
            first, last = file.min_sequence, file.max_sequence
            if first <= highest:
                fail(f"sequence numbers start above {highest}, found {first}")
            # The numbers of live files decide where numbering starts; within a write there are no gaps.
            if last - first >= touched[file.bucket]:
                fail(f"{touched[file.bucket]} rows take as many sequence numbers, found {first} to {last}")
            self.written_by[file.bucket, file.name] = layout.id

    # ----------------------------------------------------------- a compaction

    def expected_compactions(self, base: Layout, *, full: bool) -> dict[BucketId, ExpectedCompaction]:
        """Return what compacting each bucket of ``base`` must do; buckets with nothing to do are absent."""
        return expected_compactions(
            base,
            self.options,
            full=full,
            without_vector=self.without_vector,
            moves_keys=self.shape.moves_keys,
        )

    @check
    @covers("CMP-3", "CMT-2", "CMT-21")
    def compacted(self, new: Sequence[Layout], base: Layout, *, full: bool, among: set[BucketId]) -> None:
        """Check at most one COMPACT snapshot against what was expected of ``base``.

        ``among``: the buckets that had to be compacted; others may have been.
        """
        chosen = "compaction_took_the_pick" in self.without  # by a strategy that the oracle does not know
        expected = {} if chosen else self.expected_compactions(base, full=full)
        must = {bucket for bucket in expected if bucket in among}
        if not new:
            if must:
                each = "; ".join(
                    f"in {bucket_text(bucket)} {expected[bucket]}" for bucket in sorted(must, key=repr)
                )
                fail(f"nothing was compacted, expected {each}")
            return
        if [layout.kind for layout in new] != [COMPACT]:
            fail(f"a compaction makes one COMPACT snapshot, found {kinds_of(new)}")
        changed = self.changed_buckets(new[0])
        if not chosen:
            self.compaction_took_the_pick(new[0], expected, changed)
        self.files_that_stay_are_the_same(new[0])
        if not changed:
            fail("a snapshot was made that changes nothing")
        if not must <= changed:
            fail(f"expected compactions of {buckets_text(must)}, found of {buckets_text(changed)}")
        self.stats.compactions += 1
        self.settle(new[0])

    def changed_buckets(self, layout: Layout) -> set[BucketId]:
        """Return the buckets whose files or vectors are others than in the snapshot before."""
        changed = {bucket for bucket, _, _ in self.latest.entries() ^ layout.entries()}
        for key in {*self.latest.vectors, *layout.vectors}:
            if self.latest.vectors.get(key) != layout.vectors.get(key):
                changed.add(key[0])
        return changed

    @check
    @covers("CMP-1", "CMP-2", "CMP-4", "CMP-5", "CMP-6", "CMP-7", "CMP-8", "CMP-9", "CMP-10", "CMP-11")
    @covers("CMP-18", "CMP-19", "CMP-20", "CMP-21", "CMP-22", "CMP-23", "CMP-24", "CMP-25", "CMP-27")
    @covers("CMP-28", "CMP-29")
    @covers("DV-17", "DV-25", "TBL-14")
    def compaction_took_the_pick(
        self, layout: Layout, expected: Mapping[BucketId, ExpectedCompaction], changed: set[BucketId]
    ) -> None:
        """Check inputs, output level and upgrades of every bucket that changed."""
        before, after = self.latest.entries(), layout.entries()
        for bucket in changed:
            if bucket not in expected:
                fail(f"{bucket_text(bucket)} was compacted, though there was nothing to do")
            want = expected[bucket]
            removed = {entry for entry in before - after if entry[0] == bucket}
            added = {entry for entry in after - before if entry[0] == bucket}
            if removed != want.removed:
                fail(f"inputs: expected {sorted(want.removed)}, found {sorted(removed)}")
            levels = {level for _, _, level in added}
            if not levels <= {want.output_level}:
                fail(f"output level: expected {want.output_level}, found {levels}")
            kept = {name for _, name, _ in added if (bucket, name) in self.latest.files}
            if kept != want.upgraded:
                fail(f"upgrades: expected {sorted(want.upgraded)}, found {sorted(kept)}")

    @check
    @covers("CMP-10", "CMT-4")
    def files_that_stay_are_the_same(self, layout: Layout) -> None:
        for key in layout.files.keys() & self.latest.files.keys():
            old, now = self.latest.files[key], layout.files[key]
            if old._replace(level=now.level) != now:
                fail(f"nothing but the level of a file that stays can change: {old} became {now}")

    # --------------------------------------------------------------- a layout

    def settle(self, layout: Layout) -> None:
        """Check a new snapshot's layout, and fix the rows it must return from now on."""
        self.levels_are_runs(layout)
        self.vectors_only_grow(layout)
        if isinstance(self.table, ShowsRecords):
            self.metadata_is_true(layout)
            self.newer_runs_hold_newer_records(layout)
            self.states.add(layout, self.records)
        layout.fresh = frozenset(self.meaning.rows(layout.id))
        layout.visible = self.visible_rows(layout) if self.options.one_record_per_key else layout.fresh
        layout.unrecorded = unrecorded(layout, self.latest, self.options, self.written_by)
        self.layouts.append(layout)

    @check
    @covers("DV-1", "DV-2", "DV-3", "DV-4", "DV-5", "DV-10", "DV-16")
    def vectors_are_well_formed(self, layout: Layout) -> None:
        """Take in the deletion vectors of a new snapshot and check each."""
        for vector in self.table.vectors(layout.id):
            key = vector.bucket, vector.data_file
            if not self.options.deletion_vectors:
                fail(f"a table without deletion vectors has {vector}")
            if key not in layout.files:
                fail(f"a vector names a file that is not live in its bucket: {vector}")
            file = layout.files[key]
            if file.level == 0:
                fail(f"a vector names a file of level 0: {vector}")
            if not all(0 <= position < file.row_count for position in vector.positions):
                fail(f"a vector deletes positions beyond the {file.row_count} rows of its file: {vector}")
            if not vector.positions:
                fail(f"a vector deletes nothing: {vector}")
            if key in layout.vectors:
                fail(f"a file has two vectors: {vector}")
            if layout.index_files.setdefault(vector.bucket, vector.index_file) != vector.index_file:
                fail(f"a bucket has two DV index files: {vector}")
            layout.vectors[key] = vector.positions

    @check
    @covers("DV-11")
    def vectors_only_grow(self, layout: Layout) -> None:
        for key, positions in self.latest.vectors.items():
            if key in layout.files:
                lost = positions - layout.vectors.get(key, frozenset())
                if lost:
                    fail(f"{key} lost deleted positions: {sorted(lost)}")

    @check
    @covers("LSM-2", "LSM-3", "CMT-11", "CMP-26")
    def levels_are_runs(self, layout: Layout) -> None:
        for files in layout.buckets().values():
            by_level: dict[int, list[FileInfo]] = {}
            for file in files:
                by_level.setdefault(file.level, []).append(file)
                if file.level == 0 and (file.bucket, file.name) not in self.written_by:
                    fail(f"a compaction put {file} into level 0")
            if not all(0 <= level < self.options.num_levels for level in by_level):
                fail(f"levels are 0 to {self.options.num_levels - 1}, found {set(by_level)}")
            for level, of_level in by_level.items():
                of_level.sort(key=lambda file: file.min_key)
                for left, right in pairwise(of_level):
                    if level > 0 and left.max_key >= right.min_key:
                        fail(f"{left} and {right} overlap")

    @check
    @covers("LSM-1", "LSM-7", "CMP-11")
    def metadata_is_true(self, layout: Layout) -> None:
        """Compare the metadata of each new file with its records."""
        assert isinstance(self.table, ShowsRecords)
        for key, file in layout.files.items():
            if key in self.records:
                continue
            records = self.records[key] = self.table.records(layout.id, file)
            keys = [record.key for record in records]
            if keys != sorted(set(keys)):
                fail(f"keys ascend in a file, each once; found {keys}")
            sequences = [record.sequence for record in records]
            true = file._replace(
                row_count=len(records),
                min_key=keys[0],
                max_key=keys[-1],
                min_sequence=min(sequences),
                max_sequence=max(sequences),
                retraction_count=sum(not record.kind.is_add for record in records),
            )
            if file != true:
                fail(f"metadata: expected {true}, found {file}")
            if file.retraction_count and file.level == self.options.max_level and not self.options.order:
                fail(f"retractions at the last level, below which nothing can come back: {file}")

    @check
    @covers("LSM-4", "LSM-6", "LSM-8", "MRG-4")
    def newer_runs_hold_newer_records(self, layout: Layout) -> None:
        for bucket, files in layout.buckets().items():
            newest: dict[Key, int] = {}
            for run in sorted_runs(files, layout, self.options):
                for file in run:
                    key = bucket, str(file.name)
                    deleted = layout.vectors.get(key, frozenset())
                    for position, record in enumerate(self.records[key]):
                        if position not in deleted:
                            newer = newest.get(record.key, record.sequence + 1)
                            copied = self.options.deeper_rows_are_merged and newer == record.sequence
                            if newer <= record.sequence and not copied:
                                fail(f"{record} is in an older run than the record numbered {newer}")
                            newest[record.key] = record.sequence


def bucket_text(bucket: BucketId) -> str:
    """Return a bucket in words."""
    partition, number = bucket
    return f"bucket {number}" + (f" of partition {', '.join(map(str, partition))}" if partition else "")


def buckets_text(buckets: Iterable[BucketId]) -> str:
    return ", ".join(sorted(map(bucket_text, buckets))) or "none"


def kinds_of(layouts: Sequence[Layout]) -> list[str]:
    return [f"{layout.kind} {layout.id}" for layout in layouts]
