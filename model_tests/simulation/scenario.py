"""A run of actors on one table, and what must be true after it.

`actors` says what they do and see. `recorded` checks the changes of a table with a changelog.
"""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

from pktable import Table
from pktable.catalog import fences
from pktable.catalog.fences import KEPT
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.format.paths import CONSUMER, TAG

from model_tests.simulation.actors import Actors
from model_tests.simulation.ids_of_rows import expect_ids_of_rows
from model_tests.simulation.log_oracle import FOREIGN, LogOracle, Rows, identity_of
from model_tests.simulation.needed import Kept, left_over, named_by, rows_of_copies, snapshots_in
from model_tests.simulation.recorded import expect_changes
from model_tests.simulation.scheduler import Policy, Run, deterministic, run
from model_tests.simulation.store import BRANCHES, CONSUMERS, YOUNG, ActorStore, World, is_common
from model_tests.simulation.tables import (
    LAST_WRITE,
    PATHS,
    ROOT,
    ROWS_WITH_IDS,
    USUAL,
    Job,
    Setting,
    content,
    expect,
    template,
    write,
)


class Scenario:
    """Some jobs on a table. Run it once."""

    def __init__(self, jobs: dict[str, Job], setting: Setting = USUAL) -> None:
        self.jobs, self.setting = jobs, setting
        first = template(setting)
        self.world = World(dict(first.files), log=list(first.log), ever=dict(first.ever))
        self.actors = Actors(self.world, jobs, setting)
        self.seen = self.actors.seen
        kinds = {kind for job in jobs.values() for kind in job.kinds}
        self._has_others = FOREIGN in kinds
        self._leaves_files = self._has_others or any("roll" in kind or "branch" in kind for kind in kinds)

    def run(self, policy: Policy) -> Run:
        """Run the jobs and check what is left. Raises SimulationError."""
        few = self.setting.kept != KEPT
        with mock.patch.object(fences, "KEPT", self.setting.kept) if few else nullcontext():
            actors = {name: self.actors.work(name, job) for name, job in self.jobs.items()}
            done = run(self.world, actors, policy, jumps=self.setting.jumps)
            while self.world.late:
                self.world.deliver()
            self.world.happened = None  # what follows is not of the actors
            with deterministic(self.world, "check"):
                self._check(done)
        done.snapshots, done.reads = len(self.seen.snapshots) + 1, self.seen.reads
        return done

    def _check(self, done: Run) -> None:
        restored = tuple(range(1, self.setting.tagged + 1))
        oracle = LogOracle.after(self.world.log, restored, self.setting.rows_after, self.setting.kept)
        expect(not oracle.problems, "; ".join(oracle.problems))
        everything = {number for writes in oracle.known.values() for number in writes}
        missing, unwanted = self.seen.acknowledged - everything, self.seen.refused & everything
        expect(not missing, f"acknowledged, but never there: {missing}")
        expect(not unwanted, f"refused, but there: {unwanted}")
        for snapshot, rows in self.seen.snapshots:
            self._expect(oracle, snapshot, rows)
        for begin, end, snapshot in self.seen.by_id:
            there = any(snapshot in retained for retained in oracle.past[begin : end + 1])
            expect(there, f"snapshot {snapshot.id} was read, and was not there at any time then")
        for begin, end, following in self.seen.consumed if not self.setting.changelogs else ():
            past = [[one.id for one in retained] for retained in oracle.past[begin : end + 1]]
            there = any(following in (*ids, max(ids, default=0) + 1) for ids in past)
            expect(there, f"a consumer was to read snapshot {following}, which was not there any more")
        for read in self.seen.latest:
            expected = oracle.latest_rows(read.begin, read.end, read.time)
            when = "the latest" if read.time is None else f"the time {read.time}"
            expect(read.rows in expected, f"a read of {when}: expected one of {expected}, found {read.rows}")
        table = Table.open(ROOT, store=ActorStore(self.world))
        self._mend(table)
        if self._has_others:  # their next expiry mends the hint, without which a stray looks like a loss
            table.catalog.snapshots.hint_earliest(min(oracle.retained))
            if done.faults:
                self._remove_strays(table, oracle)
            table.repair()
        snapshots = table.snapshots()
        ids = [one.id for one in snapshots]
        expect(ids == sorted(oracle.retained), f"there are {sorted(oracle.retained)}, found {ids}")
        for snapshot in snapshots:
            self._expect(oracle, snapshot, content(table, snapshot=snapshot.id))
        for tag, snapshot in table.tags().items():
            self._expect(oracle, snapshot, content(table, tag=tag))
        self._expect(oracle, snapshots[-1], content(table))
        for branch in {path.split("/")[2] for path in self.world.files if BRANCHES in path}:
            self._check_branch(oracle, branch)
        if self.setting.producer != "none" or self.setting.changelogs:
            expect_changes(table, oracle, self.setting, self._copies(oracle, snapshots[0].id))
        if self.setting.kind == ROWS_WITH_IDS:
            expect_ids_of_rows(self.world.files, snapshots)
        self._check_files(table, oracle, done)

    def _expect(self, oracle: LogOracle, snapshot: Snapshot, rows: Rows) -> None:
        self.seen.reads += 1
        writes = oracle.writes(snapshot)
        expect(writes is not None, f"snapshot {snapshot.id} was read, and never committed: {rows}")
        assert writes is not None
        expected = oracle.rows_after(writes)
        expect(rows == expected, f"snapshot {snapshot.id}: expected the writes {writes}, found {rows}")

    def _mend(self, table: Table) -> None:
        """Remove what is only half there, which keeps everything."""
        context = table.catalog.context
        for path in [one for one in self.world.halves if CONSUMERS in one or BRANCHES in one]:
            name = path.partition(CONSUMER)[2]
            if name and path == context.paths.consumer(name):
                table.delete_consumer(name)
            else:
                context.store.delete(path)

    def _remove_strays(self, table: Table, oracle: LogOracle) -> None:
        """Remove the strays right before the snapshots, which without fences only their committers can tell from these.

        A committer that died did not.
        """
        before = min(oracle.retained) - 1
        while (path := PATHS.snapshot(before)) in self.world.files and identity_of(
            decode_snapshot(self.world.files[path], at=path)
        ) not in oracle.known:
            table.catalog.context.store.delete(path)
            before -= 1

    def _copies(self, oracle: LogOracle, earliest: int) -> list[Snapshot]:
        """Return the copies of expired snapshots, whose changes must be there.

        None if one may have gone: with others, who put no fences.
        """
        if not self.setting.changelogs or self._has_others:
            return []
        latest = max(one.id for retained in oracle.past for one in retained)
        files, found = self.world.files, []
        for one in range(max(latest - self.setting.changelogs + 1, 1), earliest):
            path = next(filter(files.__contains__, (PATHS.changelog(one), PATHS.snapshot(one))), "")
            expect(path != "", f"the changelog of snapshot {one} is gone")
            found.append(decode_snapshot(files[path], at=path))
        return found

    def _check_branch(self, oracle: LogOracle, branch: str) -> None:
        """Read the rows of a branch, as a table of its own: of its snapshot, or of its tag if it has no more.

        One that was dropped while it was made may have a schema only.
        """
        start, files = f"{PATHS.branches}/{branch}/", self.world.files
        own = {
            f"{ROOT}/{path.removeprefix(start)}": data
            for path, data in files.items()
            if path.startswith(start)
        }
        if f"{ROOT}/schema/schema-0" not in own and f"{ROOT}/claim" in own:
            return  # it is half there
        if not any(path.startswith(f"{ROOT}/snapshot/") for path in own):
            own |= {PATHS.snapshot(one.id): encode_snapshot(one) for one in snapshots_in(own, f"/tag/{TAG}")}
        if not any(snapshots_in(own, "")):
            return
        shared = ("manifest", "index", "bucket", "schema")
        world = World(
            {path: data for path, data in files.items() if path.split("/")[1].startswith(shared)} | own
        )
        table = Table.open(ROOT, store=ActorStore(world))
        for snapshot in table.snapshots():
            self._expect(oracle, snapshot, content(table, snapshot=snapshot.id))

    def _check_files(self, table: Table, oracle: LogOracle, done: Run) -> None:
        """Only what a fault, a rollback or another writer left behind is left, and a clean-up removes just that."""
        untidy = done.faults or self._leaves_files or self.seen.unknown
        left = left_over(self.world.files, self._kept(oracle))
        spare = rows_of_copies(self.world.files, self._kept(oracle))
        orphans = {one.path for one in table.remove_orphans(older_than=YOUNG + 1, dry_run=True)}
        expect(
            left <= orphans <= left | spare, f"expected the orphans {sorted(left)}, found {sorted(orphans)}"
        )
        leaked = left - self._excused(oracle) if untidy else left
        expect(not leaked, f"left by work that went well: {sorted(leaked)}")
        bad = [str(one) for one in table.check().findings if one.severity == "error" or not untidy]
        expect(not bad, "; ".join(bad))
        self._check_leftovers(table, oracle)
        if untidy:
            table.repair()
        write(table, LAST_WRITE, self.setting)
        table.expire_snapshots(retain_last=1)
        table.remove_orphans(older_than=YOUNG + 1)
        bad = [str(one) for one in table.check().findings]
        expect(not bad, f"after an expiry and a clean-up: {'; '.join(bad)}")
        expect(
            self.setting.rows_of(LAST_WRITE).items() <= content(table).items(), "the next write is not there"
        )

    def _excused(self, oracle: LogOracle) -> set[str]:
        """Return the files that may be left: of failed or unknown work, named by a snapshot file, or made by many.

        The snapshot may be one of a branch that was removed.
        """
        files, maker = self.world.files, self.world.maker
        failed = {path for path in files if maker(path).has_failed or maker(path) in self.seen.unknown}
        found = failed.union(filter(is_common, files))
        return found.union(
            *(named_by(self.world.ever, one) for one in (*oracle.put, *oracle.put_on_branches))
        )

    def _check_leftovers(self, table: Table, oracle: LogOracle) -> None:
        """The next expiry removes what an interrupted one left, snapshot files and others."""
        files = self.world.files
        expired = [one for one in range(1, oracle.expired + 1) if PATHS.snapshot(one) in files]
        if not expired:
            return
        ended = self._ended(oracle)
        named = {path for one in ended for path in named_by(files, one)}
        table.expire_snapshots(retain_last=len(oracle.retained))
        left = [one for one in expired if PATHS.snapshot(one) in files]
        expect(not left, f"snapshot files that an expiry left, and the next one, too: {left}")
        if self.setting.kept == KEPT and not self._has_others:
            here = named & left_over(files, self._kept(oracle))
            expect(not here, f"files that an expiry left, and the next one, too: {sorted(here)}")

    def _ended(self, oracle: LogOracle) -> list[Snapshot]:
        """Return the snapshots that have expired and whose files are there."""
        files = self.world.files
        there = [path for path in map(PATHS.snapshot, range(1, oracle.expired + 1)) if path in files]
        found = [decode_snapshot(files[path], at=path) for path in there]
        return [one for one in found if identity_of(one) in oracle.known]

    def _kept(self, oracle: LogOracle) -> Kept:
        ended = self._ended(oracle) if self.setting.changelogs else []
        return Kept([*oracle.retained.values()], oracle.expired, ended, self.setting.producer)
