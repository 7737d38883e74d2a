"""Check what a table tells of itself, what it refuses, and how it takes damaged files, a full disk and a rollback."""

from __future__ import annotations

from collections.abc import Sequence

from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.layout import Layout
from pktable_spec.covers import covers
from pktable_spec.interface import (
    EVERYTHING,
    Change,
    CompactionPlan,
    Query,
    RefusesRequests,
    RollsBack,
    ShowsRecords,
    SuffersFaults,
    Summary,
    TellsItsPlans,
    Wanted,
)

from model_tests.histories.plans import files_to_open
from model_tests.histories.statement_expectations import StatementExpectations


class AskedExpectations(StatementExpectations):
    """`StatementExpectations` of a table that can be asked for more than rows."""

    has_statistics = True

    def reads_agree(self, query: Query) -> None:
        super().reads_agree(query)
        if isinstance(self.table, TellsItsPlans) and self.retained:
            fresh = self.stats.steps % 2 > 0
            if isinstance(self.table, ShowsRecords) and not self.without_vector:
                self.files_are_opened(self.table, query, fresh=fresh)
            if self.stats.steps % 3 == 0:
                self.numbers_agree(self.table, full=fresh)

    @check
    @covers("RD-1", "RD-3", "RD-8", "RD-16", "META-27")
    def files_are_opened(self, table: TellsItsPlans, query: Query, *, fresh: bool) -> None:
        """Compare the files that a query on the latest snapshot opens with those that metadata cannot rule out."""
        expected = files_to_open(
            self.latest,
            query.where,
            self.shape,
            self.options,
            self.records,
            self.bucket_of,
            fresh=fresh or not self.options.one_record_per_key,
            has_statistics=self.has_statistics,
        )
        found = table.files_of_read(Wanted(fresh=fresh, query=query))
        if found != expected:
            fail(f"{query}, fresh={fresh}: opens {sorted(found)}, expected {sorted(expected)}")

    @check
    @covers("CMT-1", "CMT-4", "CMP-3", "RD-1", "RD-3")
    def numbers_agree(self, table: TellsItsPlans, *, full: bool) -> None:
        """Compare what the metadata of all snapshots says, and what a compaction would take, with the oracle's."""
        summaries = [_summary(layout) for layout in self.retained]
        if list(table.summaries()) != summaries:
            fail(f"expected {summaries}, found {table.summaries()}")
        level_zero = [
            file.row_count
            for key, file in self.latest.files.items()
            if file.level == 0 and key not in self.without_vector
        ]
        rows = sum(level_zero) if self.options.one_record_per_key else 0
        if table.uncompacted_rows() != rows:
            fail(f"uncompacted rows: expected {rows}, found {table.uncompacted_rows()}")
        planned = table.plan_compaction(full=full)
        for (partition, bucket), one in self.expected_compactions(self.latest, full=full).items():
            files = one.pick.files
            sums = sum(file.row_count for file in files), sum(file.size for file in files)
            plan = CompactionPlan(len(files), *sums, one.output_level)
            directory = "/".join(
                f"{n}={v}" for n, v in zip(self.shape.partition_keys, partition, strict=True)
            )
            if planned.get((directory, bucket)) != plan:
                fail(f"compaction of {partition, bucket}, full={full}: expected {plan}, found {planned}")

    @check
    @covers("TBL-1", "TBL-9", "TBL-12", "TBL-16", "MRG-11", "TBL-2", "TBL-4", "TBL-8", "CMT-17", "CHG-13")
    def wrong_requests_are_refused(self) -> None:
        """Make wrong requests: they are refused, and change nothing."""
        assert isinstance(self.table, RefusesRequests)
        wrong = self.table.ask_wrongly()
        if wrong:
            fail("; ".join(wrong))
        self.nothing_was_committed()

    @check
    @covers("RD-11", "RD-19")
    def damage_of_a_file_is_noticed(self, number: int) -> None:
        """Damage a file: a read tells of it."""
        assert isinstance(self.table, SuffersFaults)
        files = sorted(self.latest.files.values())
        problem = self.table.damage_file(files[number % len(files)], number) if files else None
        if problem:
            fail(problem)

    def work_on_a_full_disk(self, changes: Sequence[Change], at: int) -> None:
        """Write, or compact fully, on a disk that is full from an operation on: all is done, or nothing is left."""
        assert isinstance(self.table, SuffersFaults)
        failed, left = self.table.work_on_a_full_disk(changes, at)
        self.nothing_is_left(left)
        new = self.new_snapshots()
        if failed and not new:
            return
        if changes:
            self.written(changes, write_only=failed, new=new)
        else:
            self.compacted(new, self.latest, full=True, among=set(self.latest.buckets()))

    @check
    @covers("CMT-2", "CMT-12", "CMT-25", "SAFE-5")
    def nothing_is_left(self, left: Sequence[str]) -> None:
        if left:
            fail(f"work on a full disk left {left}")

    @check
    @covers("CMT-42", "CMT-45", "CMT-47")
    def rolled_back(self, tag: str, *, newer: int) -> None:
        """Roll back to a tag or to an older snapshot. The table then has the rows that it had there.

        Nothing more can be checked of this table afterwards.
        """
        assert isinstance(self.table, RollsBack)
        target = self.tags.get(tag) or self.retained[max(0, len(self.retained) - 1 - newer)]
        done = self.table.roll_back(**({"tag": tag} if tag in self.tags else {"snapshot": target.id}))
        later = [name for name, kept in self.tags.items() if kept.id > target.id]
        if done == bool(later and target.id >= self.earliest):
            fail(
                f"back to {tag or target.id}: {'not ' * (not done)}done, and there are the later tags {later}"
            )
        if done:
            kept = len(self.table.snapshots())
            if kept != max(1, target.id - self.earliest + 1):
                fail(f"back to {tag or target.id}: {kept} snapshots are there")
            for fresh, expected in ((False, target.visible), (True, target.fresh)):
                rows = self.table.read(fresh=fresh, query=EVERYTHING)
                if set(rows) != expected or len(rows) != len(expected):
                    fail(f"back to {tag or target.id}: expected {expected}, found {rows}")
        self.is_sound(leftovers=True)

    @check
    @covers("CMT-1", "CMT-4", "CMT-5", "CMT-6", "CMT-12", "CMT-45")
    @covers("META-6", "META-11", "META-12", "DV-11", "DV-12", "LSM-6")
    def is_sound(self, *, leftovers: bool) -> None:
        """Check the table as a whole. ``leftovers``: whether there may be files that nothing refers to."""
        found = self.table.findings() if isinstance(self.table, RollsBack) else ()
        findings = [one for one in found if not (leftovers and one.startswith("note"))]
        if findings:
            fail("; ".join(findings))


def _summary(layout: Layout) -> Summary:
    rows = sum(file.row_count for file in layout.files.values())
    deleted = sum(map(len, layout.vectors.values()))
    return Summary(layout.id, layout.kind, rows, len(layout.files), len(layout.vectors), deleted)
