"""The part of a table that looks after it: compaction, tags, expiry, orphans, repair, rollback, checks."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime, timedelta
from typing import Any

from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError

from pktable.catalog.arguments import expect_flag
from pktable.catalog.as_of import LATEST, AsOf, millis_of, snapshot_id
from pktable.catalog.branches import Branches
from pktable.catalog.catalog import Catalog
from pktable.catalog.changes import CommitId
from pktable.catalog.effects import Result, Tally
from pktable.catalog.snapshots import expect_tag_name
from pktable.catalog.state import TableState
from pktable.catalog.tag_times import expired_tags, time_of
from pktable.check.orphans import Orphan, find_orphans, remove_orphans
from pktable.check.repair import repair
from pktable.check.walk import Report, check_table
from pktable.context import TableContext
from pktable.dml import Statements
from pktable.format.metadata.snapshot import Snapshot
from pktable.postponed import StagedMove
from pktable.run.runner import Runner
from pktable.staged import StagedCompaction
from pktable.staging import PlannedCompaction, Stager
from pktable.watching import Progress, measured, report

ONE_DAY = 24 * 60 * 60 * 1000  # milliseconds


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class TableUpkeep:
    """The methods of a table that change how it is kept, never its rows, and those that check it."""

    path: str
    catalog: Catalog
    runner: Runner
    stager: Stager

    @measured("compact")
    def compact(self, *, full: bool = False, where: Any = None) -> Result | None:
        """Compact what the strategy picks in every bucket, or with ``full`` everything.

        ``where``: a condition on partition columns; only the partitions for which it holds are compacted.
        In a table with a postpone bucket, rows that wait there become rows of the table first.
        Returns the new snapshot's id, None if there was nothing to compact. Raises CommitConflictError.
        Clauses: APP-19, APP-20, BKT-14, CMP-1 to CMP-8, CMP-18 to CMP-22, CMP-27 to CMP-29,
        WH-20.
        """
        if where is not None and self.catalog.context.postpones_buckets:
            raise InvalidRequestError(
                "compact: a table with a postpone bucket is compacted whole; leave where out"
            )
        moved = self._move_waiting(full=full) if self.catalog.context.postpones_buckets else None
        state = self.stage_compaction(full=full, where=where).commit(CommitId.new()) or moved
        return Tally().result(state, self.catalog)

    def _move_waiting(self, *, full: bool) -> TableState | None:
        expect_flag("full", full)
        self.catalog.expect_writable()
        return self.catalog.committer.retry_on_latest_state(
            lambda state: StagedMove.of(self.stager, state, full=full)
        ).commit(CommitId.new())

    def plan_compaction(self, *, full: bool = False) -> list[PlannedCompaction]:
        """Return what `compact` with the same argument would compact now, per bucket. Changes nothing.

        Reads metadata only. Raises InvalidRequestError as `compact` does. Clauses: CMP-1 to CMP-8.
        """
        expect_flag("full", full)
        self.catalog.expect_writable()
        return self.catalog.read_as_of(LATEST, lambda state, _: self.stager.planned(state, full=full))

    def stage_compaction(self, *, full: bool = False, where: Any = None) -> StagedCompaction:
        """Do the data work of a compaction, and do not commit it. Clauses: APP-19, APP-20, CMT-12, CMT-20."""
        expect_flag("full", full)
        self.catalog.expect_writable()
        holds = Statements(self.catalog, self.stager, self.runner).partitions_of(
            "compact", self.catalog.context.condition(where)
        )

        def stage(state: TableState, _: TableContext) -> StagedCompaction:
            wanted = [one for one in state.files if holds(one[0])]
            return StagedCompaction.of(self.stager, state, wanted, full=full)

        return self.catalog.read_as_of(LATEST, stage)

    def create_tag(
        self, name: str, *, snapshot: int | None = None, time_retained: str | timedelta | None = None
    ) -> None:
        """Keep ``snapshot`` (by default the latest) readable under ``name``, also after it has expired.

        ``time_retained``, such as "7 d", or else the option `tag.default-time-retained`: when `expire_tags`, or
        Paimon, may delete the tag; without both nobody does.
        Raises InvalidRequestError if the name is taken or not allowed, or there is no snapshot yet;
        SnapshotNotFoundError. Clauses: CMT-17, CMT-32, CMT-70, TBL-60.
        """
        time = time_of(time_retained, self.catalog.context.options.tag_retained_millis, now_millis)
        self.catalog.expect_opened()
        found = self.catalog.snapshots.latest_id() if snapshot is None else AsOf.given(snapshot).snapshot
        if found is None:
            raise InvalidRequestError(f"tag {name!r}: the table has no snapshot yet")
        self.catalog.expiry.make_tag(name, found, time.fields())

    def replace_tag(
        self, name: str, *, snapshot: int | None = None, time_retained: str | timedelta | None = None
    ) -> None:
        """Let a tag keep another ``snapshot`` (by default the latest), and delete the files that only it kept.

        ``time_retained``: as of `create_tag`. A reader that comes in between finds no tag. Raises InvalidRequestError,
        SnapshotNotFoundError; if the snapshot is not there, the tag stays as it is. Clauses: WH-19.
        """
        found = self.catalog.snapshots.latest_id() if snapshot is None else AsOf.given(snapshot).snapshot
        if found is None:
            raise InvalidRequestError(f"tag {name!r}: the table has no snapshot yet")
        self.catalog.snapshots.read(found)
        time_of(time_retained, self.catalog.context.options.tag_retained_millis, now_millis)
        self.delete_tag(name)
        self.create_tag(name, snapshot=found, time_retained=time_retained)

    def rename_tag(self, name: str, to: str) -> None:
        """Give a tag another name; for a moment it has both.

        Raises InvalidRequestError if the new name is taken or not allowed; SnapshotNotFoundError. Clauses: WH-19.
        """
        expect_tag_name(to)
        self.catalog.expect_opened()
        self.catalog.expiry.copy_tag(name, self.catalog.snapshots.by_tag(name), to)
        self.delete_tag(name)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that only it kept. Raises SnapshotNotFoundError.

        Clauses: CMT-17, CMT-31.
        """
        self.catalog.expect_opened()
        self.catalog.expiry.drop_tag(name)

    @measured("expire_tags")
    def expire_tags(
        self, *, older_than: int | str | datetime | None = None, dry_run: bool = False
    ) -> list[str]:
        """Delete the tags whose ``time_retained`` is over, and the files that only they kept; return their names.

        ``older_than`` (a time, as ``timestamp`` of `scan`): also all tags that were made before it. ``dry_run``: return
        the names, and delete nothing. Raises CorruptFileError. Clauses: CMT-31, CMT-70.
        """
        expect_flag("dry_run", dry_run)
        limit = None if older_than is None else millis_of(older_than, "older_than")
        self.catalog.expect_opened()
        found = expired_tags(self.catalog, limit, now_millis())
        if dry_run:
            return [*found]
        return [name for name, data in found.items() if self.catalog.expiry.drop_tag_that_says(name, data)]

    def tags(self) -> dict[str, Snapshot]:
        """Return the snapshot that each tag keeps, by name. Clauses: TBL-60."""
        self.catalog.expect_opened()
        snapshots, found = self.catalog.snapshots, {}
        for name in snapshots.tags():
            with contextlib.suppress(SnapshotNotFoundError):  # deleted since the listing
                found[name] = snapshots.by_tag(name)
        return found

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot: int | None = None, empty: bool = False
    ) -> None:
        """Make a branch: snapshots, tags, schemas and consumers of its own, on the same files.

        It begins with what ``tag`` keeps, with ``snapshot``, or by default with the latest snapshot; with ``empty``, as
        in a table without snapshots, it has columns and no rows. `Table.open` with ``branch`` opens it.
        Raises InvalidRequestError if the name is taken or not allowed; SnapshotNotFoundError. Clauses: BRN-3 to BRN-6.
        """
        expect_flag("empty", empty)
        if (tag is not None) + (snapshot is not None) + empty > 1:
            raise InvalidRequestError("create_branch: expected one of tag, snapshot and empty")
        self.catalog.expect_opened()
        branches, wanted = Branches(self.catalog), AsOf.given(snapshot, tag)
        latest = wanted.snapshot or self.catalog.snapshots.latest_id()
        if wanted.tag is not None:
            branches.make(name, tag=wanted.tag)
        elif empty or latest is None:
            branches.make_empty(name)
        else:
            branches.make(name, snapshot=latest)

    def branches(self) -> dict[str, Snapshot | None]:
        """Return the latest snapshot of each branch but the main one, by name; None for one without any.

        Raises CorruptFileError. Clauses: BRN-2.
        """
        self.catalog.expect_opened()
        return Branches(self.catalog).latest()

    def delete_branch(self, name: str) -> None:
        """Delete a branch, or what is left of one. Its files become orphans, see `remove_orphans`.

        Stop those who write to it before. Raises InvalidRequestError if it is not there, or is the one that is open.
        Clauses: BRN-9.
        """
        self.catalog.expect_opened()
        Branches(self.catalog).remove(name)

    def consumers(self) -> dict[str, int]:
        """Return the id of the snapshot that each consumer reads next, by name. Raises CorruptFileError.

        Clauses: META-58.
        """
        self.catalog.expect_opened()
        return self.catalog.expiry.consumers.all()

    def set_consumer(self, name: str, *, next_snapshot: int) -> None:
        """Let a reader of changes say what it reads next, so that no expiry removes it and no rollback changes it.

        ``next_snapshot``: a retained one, one whose changelog is kept, or the one after the latest.
        Raises InvalidRequestError and SnapshotNotFoundError. Clauses: CMT-59, CMT-60, META-58.
        """
        wanted = snapshot_id(next_snapshot, "next_snapshot")
        self.catalog.expect_opened()
        self.catalog.expiry.set_consumer(name, wanted)

    def delete_consumer(self, name: str) -> None:
        """Forget a consumer: expiries no longer keep what it has not read. Raises InvalidRequestError."""
        self.catalog.expect_opened()
        self.catalog.expiry.consumers.remove(name)

    @measured("expire_snapshots")
    def expire_snapshots(
        self,
        *,
        retain_last: int,
        older_than: int | str | datetime | None = None,
        dry_run: bool = False,
    ) -> list[int]:
        """Expire the oldest snapshots and delete the files that are no longer referenced; return the expired ids.

        The ``retain_last`` newest snapshots stay. With ``older_than`` (a time, as ``timestamp`` of `scan`) the first
        snapshot that is not older stays, and all after it. A snapshot that a tag keeps can still be read by the tag.
        The snapshot that a consumer reads next stays, and all after it. Files that a branch needs stay.
        With an option ``changelog.*-retained`` the changes of an expired snapshot can still be read, until they expire.
        ``dry_run``: return the ids that would expire, and change nothing.
        Raises InvalidRequestError, and CorruptFileError before anything is removed.
        Clauses: CHG-17, CHG-22, CMT-16, CMT-26 to CMT-31, CMT-34, CMT-59.
        """
        expect_flag("dry_run", dry_run)
        limit = None if older_than is None else millis_of(older_than, "older_than")
        self.catalog.expect_opened()
        return self.catalog.expiry.expire(
            retain_last=retain_last, older_than=limit, now_millis=now_millis(), dry_run=dry_run
        )

    @measured("remove_orphans")
    def remove_orphans(
        self, *, older_than: int | str | datetime | None = None, dry_run: bool = False
    ) -> list[Orphan]:
        """Delete the files that no snapshot, tag or branch needs; return them.

        ``older_than`` (a time, as ``timestamp`` of `scan`; by default one day ago): only files last modified before
        it. Files of a running write look like orphans until it commits, so no write may run for longer than that.
        ``dry_run``: return them, and delete nothing. Raises CorruptFileError if some metadata cannot be read, because
        then it is not known what that metadata needs. Clauses: CMT-48, CMT-49.
        """
        expect_flag("dry_run", dry_run)
        limit = now_millis() - ONE_DAY if older_than is None else millis_of(older_than, "older_than")
        self.catalog.expect_opened()
        context = self.catalog.context
        found = find_orphans(context, limit)
        return found if dry_run else remove_orphans(context, found)

    def repair(self) -> list[str]:
        """Repair what can be repaired without a loss: strays, hints, half branches. Return what was done, in sentences.

        Raises CorruptFileError. Clauses: CMT-50.
        """
        self.catalog.expect_opened()
        return repair(self.catalog)

    @measured("rollback")
    def rollback(self, *, snapshot: int | None = None, tag: str | None = None) -> list[int]:
        """Go back to a retained snapshot, or to what a tag keeps; return the ids of the snapshots that went.

        The later snapshots go, and commits that were staged before are planned again or refused. Their files become
        orphans, see `remove_orphans`. If the snapshot of the tag has expired, its state is committed as a new snapshot
        and all others expire. Stop writers that put no fences, such as Paimon's, before.
        Raises InvalidRequestError unless exactly one of both is given and no tag keeps a later snapshot;
        SnapshotNotFoundError. Clauses: CMT-42 to CMT-47.
        """
        self.catalog.expect_writable()
        self.catalog.expect_opened()
        if (snapshot is None) == (tag is None):
            raise InvalidRequestError("rollback: expected either a snapshot or a tag")
        wanted = AsOf.given(snapshot, tag)
        if wanted.snapshot is not None:
            return self.catalog.rollback.to_snapshot(wanted.snapshot)
        assert wanted.tag is not None
        return self.catalog.rollback.to_tag(wanted.tag, CommitId.new())

    @measured("check")
    def check(
        self,
        *,
        snapshot: int | None = None,
        reads_rows: bool = True,
        progress: Progress = report,
    ) -> Report:
        """Check every invariant that stored bytes can show, and report every violation; nothing is changed.

        ``snapshot``: only this one; by default all that can be read, and files that are not referenced.
        ``reads_rows``: False opens no data file. Raises SnapshotNotFoundError. Clauses: RD-11.
        """
        return check_table(
            self.catalog.context.store,
            self.path,
            self.runner,
            snapshot=snapshot,
            reads_rows=reads_rows,
            branch=self.catalog.context.paths.branch,
            progress=progress,
        )
