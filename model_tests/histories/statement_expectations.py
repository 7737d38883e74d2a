"""Check the snapshots that statements make on a table under test, alone and at the same time.

An UPDATE, a DELETE by condition or a MERGE makes the snapshots of a write of the changes that it means. An overwrite or
truncation makes a snapshot of its own kind. Of two statements at the same time both have their effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pktable_conform.judge.changes import applied
from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.expectations import Expectations, kinds_of
from pktable_conform.judge.layout import FileKey, Layout
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError
from pktable_spec.interface import BucketId, Change, Comparison, ExecutesStatements, RacesStatements, Row
from pktable_spec.vocabulary import APPEND, OVERWRITE, RowKind

from model_tests.histories.statements import effect, execute, replacement

Statement: TypeAlias = tuple[str, Sequence[Change]]
"""One of `statements.STATEMENTS`, and the changes that say what it does."""


class StatementExpectations(Expectations):
    """`Expectations` of a table that may execute statements."""

    @covers("STM-1", "STM-2", "STM-5")
    def execute(self, do: str, changes: Sequence[Change]) -> None:
        """Execute a statement, and check that it made the snapshots of a write of its changes."""
        assert isinstance(self.table, ExecutesStatements)
        expected = effect(self.shape, do, changes, self.latest.fresh)
        execute(self.table, self.shape, do, changes)
        if expected:
            self.written(expected, write_only=False)
        else:
            self.nothing_was_committed()

    def race(self, statement: Statement, other: Statement) -> None:
        """Execute a statement, and another one between its read and its commit; check the snapshots of both."""
        assert isinstance(self.table, RacesStatements)
        table, shape, base = self.table, self.shape, self.latest
        table.race(lambda: execute(table, shape, *statement), lambda: execute(table, shape, *other))
        self.both_were_executed(base, statement, other)

    @check
    @covers("STM-1", "STM-6")
    def both_were_executed(self, base: Layout, statement: Statement, other: Statement) -> None:
        """Check that the other statement came first, and the statement after it, or as if it had come before.

        It may only have been computed from rows that were there before the other if they have no key in common.
        """
        new = self.new_snapshots()
        earlier = effect(self.shape, *other, base.fresh)
        if earlier:
            starts = [i for i, layout in enumerate(new) if layout.kind == APPEND]
            self.written(earlier, write_only=False, new=new[: starts[1] if len(starts) > 1 else len(new)])
            new = [layout for layout in new if layout.id > self.latest.id]
        possible = [effect(self.shape, *statement, self.latest.fresh)]
        before = effect(self.shape, *statement, base.fresh)
        if {self.key_of(row) for _, row in before}.isdisjoint(self.key_of(row) for _, row in earlier):
            possible.append(before)
        found = set(self.table.read(fresh=self.options.one_record_per_key))
        rows = {self.key_of(row): row for row in self.latest.fresh}
        later = next(
            (one for one in possible if found == set(applied(rows, one, self.key_of).values())), None
        )
        if later is None:
            fail(f"{statement} and {other}: rows are {found}, expected the effect of one of {possible}")
        if later:
            self.written(later, write_only=False, planned_on=base, new=new)
        elif new:
            fail(f"a statement without effect made {kinds_of(new)}")

    def replace(self, do: str, changes: Sequence[Change]) -> None:
        """Overwrite or truncate the table, and check that it made the snapshots of an overwrite."""
        assert isinstance(self.table, ExecutesStatements)
        rows, where = replacement(self.shape, do, changes)
        if where is not None and self._would_move(rows, where):
            self.move_is_refused(self.table, rows, where)
            return
        if do == "truncate":
            self.table.truncate()
        else:
            self.table.overwrite(rows, where)

        def replaces(row: Row) -> bool:
            return where is None or where.holds(row[self.shape.names.index(where.column)])

        if where is not None and rows and self.shape.moves_keys:
            self.compacted_before(lambda bucket: not where.holds(bucket[0][0]))
        gone = {key for key in self.latest.files if where is None or where.holds(key[0][0][0])}
        if rows or gone:
            self.dynamic.forget(lambda partition: where is None or where.holds(partition[0]))
            self.overwritten([Change(RowKind.INSERT, row) for row in rows], gone, replaces)
        else:
            self.nothing_was_committed()

    @covers("BKT-27")
    def compacted_before(self, stays: Callable[[BucketId], bool]) -> None:
        """Check the compaction before an overwrite, if files that stay may hold moved keys which it does not show."""
        options = self.options
        level = options.max_level if options.records_full_compactions else int(options.compacts_level_zero)
        if any(file.level < level and stays(key[0]) for key, file in self.latest.files.items()):
            new, among = self.new_snapshots(), set(filter(stays, self.latest.buckets()))
            self.compacted(new[:1], self.latest, full=options.records_full_compactions, among=among)

    def _would_move(self, rows: Sequence[Row], where: Comparison) -> bool:
        """Whether a key of ``rows`` has its place in a partition that stays."""
        at = self.shape.names.index(where.column)
        stays = {self.key_of(row) for row in self.latest.fresh if not where.holds(row[at])}
        return self.shape.moves_keys and not stays.isdisjoint(map(self.key_of, rows))

    @check
    @covers("BKT-28")
    def move_is_refused(self, table: ExecutesStatements, rows: Sequence[Row], where: Comparison) -> None:
        """An overwrite takes no key out of a partition that it does not replace."""
        try:
            table.overwrite(rows, where)
        except InvalidRequestError:
            self.nothing_was_committed()
        else:
            fail(f"an overwrite moved keys of {rows} into {where}")

    @check
    @covers("STM-7", "STM-11", "CMT-2", "LSM-5", "CMP-17")
    def overwritten(
        self, changes: Sequence[Change], gone: set[FileKey], replaces: Callable[[Row], bool]
    ) -> None:
        """Check the OVERWRITE snapshot, from which the files ``gone`` are gone, and the full compaction after it."""
        new, before, full = self.new_snapshots(), self.latest, self.full_compaction_is_due()
        if not new or new[0].kind != OVERWRITE:
            fail(f"an overwrite makes an OVERWRITE snapshot, found {kinds_of(new)}")
        layout = new[0]
        if {entry for entry in before.entries() if entry[:2] not in gone} != {
            entry for entry in layout.entries() if entry[:2] in before.files
        }:
            fail(f"an overwrite removes {sorted(gone)} alone, found {layout.entries()}")
        if layout.vectors != {key: found for key, found in before.vectors.items() if key not in gone}:
            fail(f"vectors: {before.vectors} became {layout.vectors}")
        lifted = self.options.max_level if self.options.compacts_level_zero else None
        self.run_was_added(layout, changes, {}, lifted)
        self.meaning.overwrite(layout.id, changes, replaces)
        self.settle(layout)
        if full:
            self.compacted(new[1:], self.latest, full=True, among=set(self.latest.buckets()))
        elif len(new) > 1:
            fail(f"an overwrite makes one snapshot, found {kinds_of(new)}")
