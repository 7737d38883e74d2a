"""The reads that a table under test must give: rows of every retained snapshot, of a query, of tags, and changes.

`ReadExpectations` knows the snapshots of a table so far and what the oracle says that each of them means.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from pktable_spec.covers import covers
from pktable_spec.errors import PkTableError
from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    CountsRows,
    KeepsSnapshots,
    Key,
    Query,
    ReadsTogether,
    Row,
    Shape,
    ShowsChanges,
    StoredRecord,
    TableUnderTest,
    Wanted,
)
from pktable_spec.model.buckets import DynamicBuckets, bucket_of
from pktable_spec.model.meaning import Meaning
from pktable_spec.model.merge import DEDUPLICATE
from pktable_spec.model.moving import placed
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import OVERWRITE

from pktable_conform.judge.changes import applied, comparable, difference_of, expected_changes
from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.layout import FileKey, Layout
from pktable_conform.judge.refusals import OracleStates

KEPT_CHANGELOGS: Final = "changelog.num-retained.max"


@dataclass
class Stats:
    """Counts of operations and comparisons, for progress and reports. ``operations``: how often each was done."""

    histories: int = 0
    steps: int = 0
    reads: int = 0
    snapshots_compared: int = 0
    compactions: int = 0
    refused: int = 0
    refined: int = 0  # snapshots on disk shown to be steps of the mechanism
    operations: Counter[str] = field(default_factory=Counter)


class ReadExpectations:
    """A table under test, what is known about it so far, and the checks of its reads."""

    def __init__(
        self,
        table: TableUnderTest,
        shape: Shape,
        options: Mapping[str, str],
        *,
        stats: Stats,
        reread_limit: int | None = None,
    ) -> None:
        self.table, self.shape, self.stats = table, shape, stats
        self.options = ModelOptions.parse(options, shape.names)
        self.reread_limit = reread_limit
        self.dynamic = DynamicBuckets(shape, self.options.keys_per_bucket, self.options.assigners)
        self.bucket_of: Callable[[Row], BucketId] = (
            self.dynamic.bucket_of
            if self.options.has_dynamic_buckets
            else lru_cache(maxsize=None)(lambda row: bucket_of(shape, row, self.options.bucket_count))
        )
        self.meaning = Meaning(
            self.stored_key_of, self.bucket_of, self.options.merge_engine, self.options.order
        )
        self.layouts: list[Layout] = [Layout(0, "")]
        self.earliest = self.earliest_changes = 1
        self.changelogs_kept = int(options.get(KEPT_CHANGELOGS, "0"))
        self.tags: dict[str, Layout] = {}
        self.written_by: dict[FileKey, int] = {}
        self.without_vector: set[FileKey] = set()
        self.records: dict[FileKey, Sequence[StoredRecord]] = {}
        self.states = OracleStates()
        self.folded: dict[Key, Row] = {}
        self.compared = 0  # the index of the last layout whose changes were

    @property
    def latest(self) -> Layout:
        return self.layouts[-1]

    @property
    def retained(self) -> list[Layout]:
        """The snapshots that have not expired."""
        return self.layouts[self.earliest :]

    def key_of(self, row: Row) -> Key:
        return self.shape.pick(row, self.shape.primary_key)

    def stored_key_of(self, row: Row) -> Key:
        """Return what tells rows apart on disk, where keys may move between partitions."""
        return self.shape.pick(row, self.shape.stored_key)

    def placed(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return what ``changes`` write now, where keys may move between partitions. Clauses: BKT-22 to BKT-24."""
        if not self.shape.moves_keys:
            return changes
        return placed(self.shape, self.options.merge_engine.name, changes, self.latest.fresh)

    def visible_rows(self, layout: Layout) -> frozenset[Row]:
        """Return the rows of a default read that skips level 0: those compacted, or written before there were vectors.

        Clauses: RD-2, RD-15, RD-28.
        """
        oldest: dict[BucketId, int] = {}
        for key, file in layout.files.items():
            if file.level == 0 and key not in self.without_vector:
                oldest[file.bucket] = min(self.written_by[key], oldest.get(file.bucket, layout.id))
        rows = frozenset(self.meaning.absorbed_rows(layout.id, oldest))
        self.keys_are_in_one_place(rows)
        return rows

    @check
    @covers("BKT-27")
    def keys_are_in_one_place(self, rows: frozenset[Row]) -> None:
        """No two rows of a default read have a primary key in common, whatever partition each is in."""
        keys = Counter(map(self.key_of, rows))
        if len(keys) < len(rows):
            fail(f"a default read has a key twice: {keys.most_common(1)}")

    @check
    @covers("RD-1", "RD-2", "RD-3", "RD-4", "RD-15", "TBL-4", "TBL-6", "TBL-7", "MRG-1", "MRG-3", "MRG-4")
    @covers("CMT-15", "CMP-12", "CMP-14", "DV-9", "DV-12")
    def reads_agree(self, query: Query) -> None:
        """Compare the reads of every retained snapshot, and one query on the latest, with the oracle's."""
        wanted: list[tuple[Wanted, frozenset[Row], str]] = []
        for layout in self._reread():
            # The newest is asked for as users do, without its id.
            at = None if layout is self.latest else layout.id
            kinds = [(Wanted(at), layout.visible, f"default read of snapshot {layout.id}")]
            if self.options.one_record_per_key:
                kinds.append((Wanted(at, fresh=True), layout.fresh, f"fresh read of snapshot {layout.id}"))
            wanted += kinds if self.reread_limit != 0 else [kinds[self.stats.steps % len(kinds)]]
            self.stats.snapshots_compared += 1
        queries = [] if query == EVERYTHING else self._query_kinds(query)
        answers = self._answers([*(want for want, _, _ in wanted), *(want for want, _ in queries)])
        self.stats.reads += len(answers)
        for (_, expected, what), rows in zip(wanted, answers, strict=False):
            if len(rows) != len(expected) or set(rows) != expected:
                fail(f"{what}: {_difference(Counter(rows), Counter(expected))}")
        for (want, expected), rows in zip(queries, answers[len(wanted) :], strict=True):
            self.query_agrees(want, expected, rows)
        if isinstance(self.table, CountsRows):
            self.count_agrees(self.table, fresh=self.stats.steps % 2 > 0)
        if isinstance(self.table, ShowsChanges) and self.shows_changes:
            for before, layout in pairwise(self.layouts[self.compared :]):
                self.changes_agree(self.table, before, layout)
            self.compared = len(self.layouts) - 1
            if self.retained and self.stats.steps % 3 == 0:
                self.retained_changes_agree(self.table)
        if self.tags:
            self.tag_agrees(sorted(self.tags)[self.stats.steps % len(self.tags)])

    @check
    @covers("RD-1", "RD-6")
    def count_agrees(self, table: CountsRows, *, fresh: bool) -> None:
        """Compare the number of rows of the latest snapshot with the oracle's."""
        expected, found = self.latest.fresh if fresh else self.latest.visible, table.count(fresh=fresh)
        if found != len(expected):
            fail(f"count, fresh={fresh}: expected {len(expected)}, found {found}")

    @check
    @covers("CMT-17", "RD-4")
    def tag_agrees(self, tag: str) -> None:
        """Compare a read by tag with the rows of the snapshot that it keeps, by turns a default and a fresh read."""
        assert isinstance(self.table, KeepsSnapshots)
        layout, fresh = self.tags[tag], self.stats.steps % 2 > 0
        expected = layout.fresh if fresh else layout.visible
        try:
            rows = self.table.read_tag(tag, fresh=fresh)
        except PkTableError as error:
            fail(f"tag {tag} of snapshot {layout.id} cannot be read: {error}")
        if len(rows) != len(expected) or set(rows) != expected:
            fail(f"tag {tag} of snapshot {layout.id}: {_difference(Counter(rows), Counter(expected))}")

    def _reread(self) -> list[Layout]:
        """Return the snapshots to read again: the newest, and in turn as many older ones as the limit allows."""
        retained = self.retained
        if self.reread_limit is None or len(retained) <= self.reread_limit:
            return retained
        if self.reread_limit == 0:
            return retained[-1:]
        turn = self.stats.steps % (len(retained) - self.reread_limit + 1)
        return [*retained[turn : turn + self.reread_limit - 1], retained[-1]]

    def _answers(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        if isinstance(self.table, ReadsTogether):
            return self.table.read_all(wanted)
        return [self.table.read(snapshot=one.snapshot, fresh=one.fresh, query=one.query) for one in wanted]

    def _query_kinds(self, query: Query) -> list[tuple[Wanted, frozenset[Row]]]:
        """Return the query as a default read and as a fresh one; alternately when reads are expensive."""
        kinds = [(Wanted(query=query), self.latest.visible)]
        if self.options.one_record_per_key:
            kinds.append((Wanted(fresh=True, query=query), self.latest.fresh))
        return kinds if self.reread_limit is None else [kinds[self.stats.steps % len(kinds)]]

    @check
    @covers("RD-6", "RD-9", "RD-12")
    def query_agrees(self, want: Wanted, rows: frozenset[Row], answer: Sequence[Row]) -> None:
        """Compare the answer to a query on the latest snapshot with the same query over the oracle's rows."""
        query, expected, found = want.query, Counter(want.query.over(self.shape, rows)), Counter(answer)
        if query.limit is None:
            agrees = found == expected
        else:
            agrees = found.total() == min(query.limit, expected.total()) and found <= expected
        if not agrees:
            fail(f"{query}, fresh={want.fresh}: {_difference(found, expected)}")

    @property
    def shows_changes(self) -> bool:
        """Whether the oracle says what the changes are: those of a write, only where the newest one replaces others."""
        newest_wins = self.options.merge_engine is DEDUPLICATE and self.options.order is None
        return self.options.recorded_from is not None or newest_wins

    @check
    @covers("CHG-1", "CHG-4", "CHG-5", "CHG-6", "CHG-7", "CHG-9", "CHG-11", "CHG-16")
    def changes_agree(self, table: ShowsChanges, before: Layout, layout: Layout) -> None:
        """Compare the changes of a new snapshot with what the oracle says, and their fold with its reads.

        Those of an OVERWRITE are not known; the fold begins again after it.
        """
        if layout.kind == OVERWRITE:
            self.folded = {self.key_of(row): row for row in self.rows_of_changes(layout)}
            return
        expected = expected_changes(layout, before, self.meaning, self.options, self.stored_key_of)
        layout.changes = table.changes(before.id, layout.id)
        problem = self.difference_of_changes(layout.changes, expected)
        if problem:
            fail(f"changes of snapshot {layout.id}: {problem}")
        self.folded = applied(self.folded, layout.changes, self.key_of)
        read = self.rows_of_changes(layout)
        if set(self.folded.values()) != read:
            fail(f"fold of the changes: {_difference(Counter(self.folded.values()), Counter(read))}")

    def rows_of_changes(self, layout: Layout) -> frozenset[Row]:
        """Return the rows that the fold of all changes up to a snapshot gives."""
        if self.options.recorded_from is None:
            return layout.fresh
        return frozenset(self.meaning.absorbed_rows(layout.id, layout.unrecorded))

    @check
    @covers("CHG-11", "CHG-14", "CHG-17", "CHG-18", "CHG-22")
    def retained_changes_agree(self, table: ShowsChanges) -> None:
        """Compare all changes that are kept, after the last overwrite, with those that each snapshot had."""
        start = max(one.id for one in self.layouts if one.id < self.earliest_changes or one.kind == OVERWRITE)
        expected = [change for layout in self.layouts[start + 1 :] for change in layout.changes]
        try:
            found = table.changes(start, self.latest.id)
        except PkTableError as error:
            fail(f"changes after {start} up to {self.latest.id} cannot be read: {error}")
        problem = self.difference_of_changes(found, expected)
        if problem:
            fail(f"changes after {start} up to {self.latest.id}: {problem}")

    def difference_of_changes(self, found: Sequence[Change], expected: Sequence[Change]) -> str | None:
        """Return how changes differ from those expected, None if they agree."""
        one, other = (comparable(some, self.options, self.shape) for some in (found, expected))
        return difference_of(one, other, self.stored_key_of)


def _difference(found: Counter[Row], expected: Counter[Row]) -> str:
    missing, surplus = list((expected - found).elements()), list((found - expected).elements())
    return f"missing {reprlib.repr(missing)}, surplus {reprlib.repr(surplus)}"
