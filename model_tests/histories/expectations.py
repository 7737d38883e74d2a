"""One table, watched: after every step its reads, its snapshots and its files are checked.

What reads must return comes from the oracle's meaning; what a compaction must take comes from the
oracle's picks, told the sizes that the table's own metadata gives. A snapshot's rows are settled when
it appears and compared whenever it is read again.

The subtle case is a compaction that was planned earlier than it commits: its pick is judged by the
snapshot it was planned on, its effect by the snapshot before its commit.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from pktable_spec.covers import covers
from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    FileInfo,
    Key,
    Query,
    Row,
    Shape,
    StoredRecord,
    TableUnderTest,
    Wanted,
)
from pktable_spec.model import picks
from pktable_spec.model.buckets import bucket_of
from pktable_spec.model.meaning import Meaning
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import PickFile
from pktable_spec.vocabulary import APPEND, COMPACT

FileKey = tuple[BucketId, str]
Entry = tuple[BucketId, str, int]
"""A live file at a level."""


@dataclass
class Stats:
    """What was done and compared, for progress and reports."""

    histories: int = 0
    steps: int = 0
    reads: int = 0
    snapshots_compared: int = 0
    compactions: int = 0
    refused: int = 0
    refined: int = 0  # snapshots on disk shown to be steps of the mechanism


@dataclass
class Layout:
    """The files and vectors of one snapshot, and the rows its reads must return."""

    id: int
    kind: str
    files: dict[FileKey, FileInfo] = field(default_factory=dict)
    vectors: dict[FileKey, frozenset[int]] = field(default_factory=dict)
    plain: frozenset[Row] = frozenset()
    fresh: frozenset[Row] = frozenset()

    def entries(self) -> set[Entry]:
        return {(file.bucket, file.name, file.level) for file in self.files.values()}

    def vectors_of(self, bucket: BucketId) -> dict[str, frozenset[int]]:
        return {name: positions for (at, name), positions in self.vectors.items() if at == bucket}

    def buckets(self) -> dict[BucketId, list[FileInfo]]:
        divided: dict[BucketId, list[FileInfo]] = {}
        for file in self.files.values():
            divided.setdefault(file.bucket, []).append(file)
        return divided


@dataclass(frozen=True)
class ExpectedCompaction:
    """What one bucket's compaction must take away and give, by the oracle's picks."""

    output_level: int
    removed: frozenset[Entry]
    upgraded: frozenset[str]


class Watched:
    """A table under test and everything known about it so far."""

    def __init__(
        self,
        table: TableUnderTest,
        shape: Shape,
        options: Mapping[str, str],
        *,
        stats: Stats,
        reread_limit: int | None = None,
        reads_records: bool = True,
    ) -> None:
        self.table, self.shape, self.stats = table, shape, stats
        self.options = ModelOptions.parse(options)
        self.reread_limit, self.reads_records = reread_limit, reads_records
        self.bucket_of: Callable[[Row], BucketId] = lru_cache(maxsize=None)(
            lambda row: bucket_of(shape, row, self.options.bucket_count)
        )
        self.meaning = Meaning(lambda row: shape.pick(row, shape.primary_key), self.bucket_of)
        self.layouts: list[Layout] = [Layout(0, "")]
        self.written_by: dict[FileKey, int] = {}
        self.unmarked: set[FileKey] = set()
        self.records: dict[FileKey, Sequence[StoredRecord]] = {}

    @property
    def latest(self) -> Layout:
        return self.layouts[-1]

    # ------------------------------------------------------------- operations

    def write(self, changes: Sequence[Change], *, write_only: bool) -> None:
        """Write, and check the snapshots this makes."""
        self.table.write(changes, write_only=write_only)
        self.written(changes, write_only=write_only)

    @covers("CMT-2", "CMT-18", "CMP-17", "CMP-3")
    def written(
        self, changes: Sequence[Change], *, write_only: bool, planned_on: Layout | None = None
    ) -> None:
        """Check the APPEND snapshot of a write and, unless write-only, the compaction after it.

        ``planned_on``: the snapshot on which that was planned with the write, if not the one before it. Then it
        may have been planned anew, and `Refinement` says whether there was a snapshot to plan it on.
        """
        new, before = self.new_snapshots(), self.latest
        assert new, "a write makes a snapshot"
        self.appended(new[0], changes)
        touched = {self.bucket_of(row) for _, row in changes}
        if write_only:
            assert len(new) == 1, f"a write-only write makes one snapshot, found {new}"
            return
        if planned_on in (None, before):
            self.compacted(new[1:], self.layouts[-1], full=False, among=touched)
        else:
            for layout in new[1:]:
                assert layout.kind == COMPACT, f"a write and then its compaction, found {new}"
                self.settle(layout)
        if self.options.deletion_vectors:
            left = {file.bucket for file in self.latest.files.values() if file.level == 0}
            assert not left & touched, f"compaction leaves no level-0 run, left in {left}"

    @covers("LSM-4", "CMT-2")
    def write_beside(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        """Commit two writes that do not know of each other; both are there, whatever their numbers."""
        base = self.latest
        self.table.write_beside(first, second)
        new = self.new_snapshots()
        assert len(new) == 2, f"two writes make two snapshots, found {new}"
        for layout, changes in zip(new, (first, second), strict=True):
            self.appended(layout, changes, numbered_on=base)

    @covers("DV-15")
    def enable_vectors(self) -> None:
        """Switch deletion vectors on: what was superseded before has no mark, and is not to be read all the same."""
        self.table.enable_vectors()
        self.options = replace(self.options, deletion_vectors=True)
        self.unmarked = set(self.latest.files)
        for layout in self.layouts[1:]:
            layout.plain = self.plain_rows(layout)

    @covers("DVF-5", "RD-11")
    def damage_is_noticed(self, bit: int) -> None:
        """Flip a bit of the vectors: no read may take them for what they are not."""
        if self.latest.vectors:
            assert self.table.damage_vectors(bit), (
                f"a read took vectors with bit {bit} (from the end) flipped"
            )

    @covers("CMP-3", "CMP-7", "DV-13", "CMT-2")
    def compact(self, *, full: bool) -> None:
        """Compact, and check that every bucket did what the strategy says."""
        self.table.compact(full=full)
        self.compacted(self.new_snapshots(), self.latest, full=full, among=set(self.latest.buckets()))
        if self.options.deletion_vectors:
            assert all(file.level > 0 for file in self.latest.files.values()), "level 0 is left"
        if full:
            assert not self.latest.vectors, f"a full compaction leaves vectors: {self.latest.vectors}"

    def new_snapshots(self) -> list[Layout]:
        """Return the snapshots that were not known, their files and vectors. Clauses: CMT-1, CMT-15."""
        told = self.table.snapshots()
        known = len(self.layouts) - 1
        self.ids_are_dense([snapshot.id for snapshot in told])
        assert [one.kind for one in told[:known]] == [layout.kind for layout in self.layouts[1:]]
        new = [Layout(snapshot.id, snapshot.kind) for snapshot in told[known:]]
        for layout in new:
            files = self.table.files(layout.id)
            layout.files = {(file.bucket, file.name): file for file in files}
            assert len(layout.files) == len(files), "a file is live at one level only"
            self.vectors_are_well_formed(layout)
        return new

    @covers("CMT-1")
    def ids_are_dense(self, ids: Sequence[int]) -> None:
        assert list(ids) == list(range(1, len(ids) + 1)), f"snapshot ids are dense from 1, found {ids}"
        assert len(ids) >= len(self.layouts) - 1, "a snapshot was lost"

    # ---------------------------------------------------------------- a write

    @covers("LSM-5", "LSM-2", "TBL-3", "TBL-6", "CMT-2", "DV-14")
    def appended(
        self, layout: Layout, changes: Sequence[Change], *, numbered_on: Layout | None = None
    ) -> None:
        """Check that a write added level-0 files only, numbered above all others.

        ``numbered_on``: the snapshot that its numbers must be above, if not the one before it.
        """
        before = self.latest
        older = (numbered_on or before).buckets()
        assert layout.kind == APPEND, f"a write makes an APPEND snapshot, found {layout.kind}"
        assert before.entries() <= layout.entries(), "a write removes no file"
        assert layout.vectors == before.vectors, "a write changes no vector"
        touched: Counter[BucketId] = Counter(self.bucket_of(row) for _, row in changes)
        added = [file for key, file in layout.files.items() if key not in before.files]
        assert {file.bucket for file in added} == set(touched), "a write goes to the buckets of its keys"
        for file in added:
            assert file.level == 0, f"a write goes to level 0, found {file}"
            highest = max((one.max_sequence for one in older.get(file.bucket, [])), default=-1)
            first, last = file.min_sequence, file.max_sequence
            assert highest < first, f"sequence numbers start above {highest}, found {first}"
            # Those of a live file decide where numbering starts; gaps within a write there are none.
            assert last - first < touched[file.bucket], (
                f"{touched[file.bucket]} numbers, found {first}..{last}"
            )
            self.written_by[file.bucket, file.name] = layout.id
        self.meaning.commit(layout.id, changes)
        self.settle(layout)

    # ----------------------------------------------------------- a compaction

    def expected_compactions(self, base: Layout, *, full: bool) -> dict[BucketId, ExpectedCompaction]:
        """Return what compacting each bucket of ``base`` must do; buckets with nothing to do are absent."""
        found = {}
        for bucket, files in base.buckets().items():
            runs = sorted_runs(
                [pick_file(file, bool(base.vectors.get((bucket, file.name)))) for file in files], base
            )
            choose = (
                picks.full_pick
                if full or self.may_shadow_rows_without_vector(files)
                else picks.universal_pick
            )
            pick = choose(runs, self.options)
            if pick is None:
                continue
            large = self.options.large_file_size
            division = picks.divide(pick, self.options, lambda file, large=large: file.size >= large)  # type: ignore[misc]
            removed = [file for group in division.rewrites for file in group] + list(division.upgrades)
            if removed:
                found[bucket] = ExpectedCompaction(
                    pick.output_level,
                    frozenset((bucket, str(file.name), file.level) for file in removed),
                    frozenset(str(file.name) for file in division.upgrades),
                )
        return found

    def may_shadow_rows_without_vector(self, files: Sequence[FileInfo]) -> bool:
        """Whether one of a bucket's files may replace rows that no vector marks. Clauses: DV-15."""
        deepest = max(file.level for file in files)
        return any((file.bucket, file.name) in self.unmarked for file in files if 0 < file.level < deepest)

    def compacted(self, new: Sequence[Layout], base: Layout, *, full: bool, among: set[BucketId]) -> None:
        """Check at most one COMPACT snapshot against what was expected of ``base``.

        ``among``: the buckets that had to be compacted; others may have been.
        """
        expected = self.expected_compactions(base, full=full)
        must = {bucket for bucket in expected if bucket in among}
        if not new:
            assert not must, f"nothing was compacted, expected {[expected[bucket] for bucket in must]}"
            return
        assert [layout.kind for layout in new] == [COMPACT], f"one COMPACT snapshot, found {new}"
        changed = self.compaction_took_the_pick(new[0], expected)
        assert changed, "a snapshot that changes nothing is not made"
        assert must <= changed <= set(expected), f"expected {must}, compacted {changed}"
        self.stats.compactions += 1
        self.settle(new[0])

    @covers("CMP-1", "CMP-2", "CMP-4", "CMP-5", "CMP-6", "CMP-7", "CMP-8", "CMP-9", "CMP-10", "CMP-11")
    def compaction_took_the_pick(
        self, layout: Layout, expected: Mapping[BucketId, ExpectedCompaction]
    ) -> set[BucketId]:
        """Check inputs, output level and upgrades of every bucket that changed; return these buckets."""
        before, after = self.latest.entries(), layout.entries()
        changed = {bucket for bucket, _, _ in before ^ after}
        changed |= {
            key[0]
            for key in {*self.latest.vectors, *layout.vectors}
            if self.latest.vectors.get(key) != layout.vectors.get(key)
        }
        for bucket in changed:
            assert bucket in expected, f"nothing to compact in {bucket}"
            want = expected[bucket]
            removed = {entry for entry in before - after if entry[0] == bucket}
            added = {entry for entry in after - before if entry[0] == bucket}
            assert removed == want.removed, (
                f"inputs: expected {sorted(want.removed)}, found {sorted(removed)}"
            )
            levels = {level for _, _, level in added}
            assert levels <= {want.output_level}, f"output level {want.output_level}, found {levels}"
            kept = {name for _, name, _ in added if (bucket, name) in self.latest.files}
            assert kept == want.upgraded, f"upgrades: expected {sorted(want.upgraded)}, found {sorted(kept)}"
            for name in kept:
                old, now = self.latest.files[bucket, name], layout.files[bucket, name]
                assert old._replace(level=now.level) == now, "an upgrade changes the level and nothing else"
        return changed

    # -------------------------------------------------------------- a layout

    def settle(self, layout: Layout) -> None:
        """Check a new snapshot's layout, and fix the rows it must return from now on."""
        self.levels_are_runs(layout)
        self.vectors_only_grow(layout)
        if self.reads_records:
            self.metadata_is_true(layout)
            self.newer_runs_hold_newer_records(layout)
        for key, file in layout.files.items():
            assert file.level > 0 or key in self.written_by, f"a compaction put {file} into level 0"
        layout.fresh = frozenset(self.meaning.rows(layout.id))
        layout.plain = self.plain_rows(layout) if self.options.deletion_vectors else layout.fresh
        self.layouts.append(layout)

    def plain_rows(self, layout: Layout) -> frozenset[Row]:
        """Return what a read by vectors must return: what compaction has absorbed. Clauses: RD-1, RD-2."""
        oldest: dict[BucketId, int] = {}
        for key, file in layout.files.items():
            if file.level == 0:
                oldest[file.bucket] = min(self.written_by[key], oldest.get(file.bucket, layout.id))
        return frozenset(self.meaning.absorbed_rows(layout.id, oldest))

    @covers("DV-1", "DV-2", "DV-3", "DV-4", "DV-5", "DV-10")
    def vectors_are_well_formed(self, layout: Layout) -> None:
        index_files: dict[BucketId, str] = {}
        for vector in self.table.vectors(layout.id):
            key = vector.bucket, vector.data_file
            assert self.options.deletion_vectors, f"a table without deletion vectors has {vector}"
            assert key in layout.files, f"a vector names a file that is not live in its bucket: {vector}"
            file = layout.files[key]
            assert file.level > 0, f"a vector names a file of level 0: {vector}"
            assert all(0 <= at < file.row_count for at in vector.positions), (
                f"{vector} of {file.row_count} rows"
            )
            assert vector.positions, f"a vector that marks nothing: {vector}"
            assert key not in layout.vectors, f"a file has two vectors: {vector}"
            index_file = index_files.setdefault(vector.bucket, vector.index_file)
            assert index_file == vector.index_file, f"a bucket has two index files: {vector}"
            layout.vectors[key] = vector.positions

    @covers("DV-11")
    def vectors_only_grow(self, layout: Layout) -> None:
        for key, positions in self.latest.vectors.items():
            if key in layout.files:
                now = layout.vectors.get(key, frozenset())
                assert positions <= now, f"{key} lost marks: {sorted(positions - now)}"

    @covers("LSM-2", "LSM-3", "CMT-11")
    def levels_are_runs(self, layout: Layout) -> None:
        for files in layout.buckets().values():
            by_level: dict[int, list[FileInfo]] = {}
            for file in files:
                by_level.setdefault(file.level, []).append(file)
            assert all(0 <= level < self.options.num_levels for level in by_level), f"levels {set(by_level)}"
            for level, of_level in by_level.items():
                of_level.sort(key=lambda file: file.min_key)
                for left, right in pairwise(of_level):
                    assert level == 0 or left.max_key < right.min_key, f"{left} and {right} overlap"

    @covers("LSM-1", "LSM-7", "CMP-11")
    def metadata_is_true(self, layout: Layout) -> None:
        """Compare the metadata of each new file with its records."""
        for key, file in layout.files.items():
            if key in self.records:
                continue
            records = self.records[key] = self.table.records(layout.id, file)
            keys = [record.key for record in records]
            assert keys == sorted(set(keys)), f"keys ascend, each once, found {keys}"
            sequences = [record.sequence for record in records]
            true = file._replace(
                row_count=len(records),
                min_key=keys[0],
                max_key=keys[-1],
                min_sequence=min(sequences),
                max_sequence=max(sequences),
                retraction_count=sum(not record.kind.is_add for record in records),
            )
            assert file == true, f"metadata: expected {true}, found {file}"
            assert file.level < self.options.max_level or not file.retraction_count, (
                f"retractions where nothing older can be: {file}"
            )

    @covers("LSM-4", "LSM-6", "MRG-4")
    def newer_runs_hold_newer_records(self, layout: Layout) -> None:
        for bucket, files in layout.buckets().items():
            held: dict[Key, int] = {}
            for run in sorted_runs([pick_file(file, False) for file in files], layout):
                for file in run:
                    key = bucket, str(file.name)
                    marked = layout.vectors.get(key, frozenset())
                    for position, record in enumerate(self.records[key]):
                        if position not in marked:
                            newer = held.get(record.key)
                            assert newer is None or newer > record.sequence, f"{record} is in an older run"
                            held[record.key] = record.sequence

    # ------------------------------------------------------------------ reads

    @covers(
        "RD-1",
        "RD-2",
        "RD-3",
        "RD-4",
        "TBL-7",
        "CMT-15",
        "CMP-12",
        "CMP-14",
        "DV-9",
        "DV-12",
        "MRG-1",
        "MRG-3",
    )
    def reads_agree(self, query: Query) -> None:
        """Compare the reads of every retained snapshot, and one query on the latest, with the oracle's."""
        retained = self.layouts[1:]
        if self.reread_limit is not None and len(retained) > self.reread_limit:
            # The newest, and as many of the older ones as the limit allows, by turns.
            turn = self.stats.steps % (len(retained) - self.reread_limit + 1)
            retained = [*retained[turn : turn + self.reread_limit - 1], retained[-1]]
        asked: list[tuple[Wanted, frozenset[Row], str]] = []
        for layout in retained:
            # The newest is asked for as users do, without its id.
            at = None if layout is self.latest else layout.id
            asked.append((Wanted(at), layout.plain, f"read of snapshot {layout.id}"))
            if self.options.deletion_vectors:
                asked.append((Wanted(at, fresh=True), layout.fresh, f"fresh read of snapshot {layout.id}"))
            self.stats.snapshots_compared += 1
        queries = [] if query == EVERYTHING else self._query_kinds(query)
        answers = self.table.read_all([*(want for want, _, _ in asked), *(want for want, _ in queries)])
        self.stats.reads += len(answers)
        for (_, expected, what), rows in zip(asked, answers, strict=False):
            self._same(rows, expected, what)
        for (want, expected), rows in zip(queries, answers[len(asked) :], strict=True):
            self.query_agrees(want, expected, rows)

    def _query_kinds(self, query: Query) -> list[tuple[Wanted, frozenset[Row]]]:
        """Return the query as a plain read and as a fresh one; by turns where reads are dear."""
        kinds = [(Wanted(query=query), self.latest.plain)]
        if self.options.deletion_vectors:
            kinds.append((Wanted(fresh=True, query=query), self.latest.fresh))
        return kinds if self.reread_limit is None else [kinds[self.stats.steps % len(kinds)]]

    @covers("RD-6", "RD-9", "RD-12")
    def query_agrees(self, want: Wanted, rows: frozenset[Row], answer: Sequence[Row]) -> None:
        """Compare the answer to a query on the latest snapshot with the same query over the oracle's rows."""
        query, expected, found = want.query, Counter(want.query.over(self.shape, rows)), Counter(answer)
        if query.limit is None:
            assert found == expected, f"{query}, fresh={want.fresh}: {_difference(found, expected)}"
        else:
            size = min(query.limit, expected.total())
            assert found.total() == size, f"{query}, fresh={want.fresh}: {size} rows, found {found.total()}"
            assert found <= expected, f"{query}, fresh={want.fresh}: {_difference(found, expected)}"

    def _same(self, rows: Sequence[Row], expected: frozenset[Row], what: str) -> None:
        if len(rows) != len(expected) or set(rows) != expected:
            raise AssertionError(f"{what}: {_difference(Counter(rows), Counter(expected))}")


def pick_file(file: FileInfo, has_vector: bool) -> PickFile:
    """Return what picks see of a file."""
    return PickFile(
        file.name, file.level, file.min_key, file.max_key, file.size, file.retraction_count, has_vector
    )


def sorted_runs(files: Iterable[PickFile], layout: Layout) -> list[list[PickFile]]:
    """Return the runs of a bucket of ``layout``, newest first. Clauses: LSM-2, LSM-4."""
    numbers = {
        file.name: (-file.max_sequence, -file.min_sequence, file.created, file.name)
        for file in layout.files.values()
    }
    level_zero, deeper = [], dict[int, list[PickFile]]()
    for file in files:
        if file.level == 0:
            level_zero.append(file)
        else:
            deeper.setdefault(file.level, []).append(file)
    level_zero.sort(key=lambda file: numbers[str(file.name)])
    runs = [[file] for file in level_zero]
    for level in sorted(deeper):
        runs.append(sorted(deeper[level], key=lambda file: file.min_key))
    return runs


def _difference(found: Counter[Row], expected: Counter[Row]) -> str:
    missing, surplus = list((expected - found).elements()), list((found - expected).elements())
    return f"missing {reprlib.repr(missing)}, surplus {reprlib.repr(surplus)}"
