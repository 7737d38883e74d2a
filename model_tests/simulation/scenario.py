"""Actors on one table, and what must be true after they have run.

Every write has a number of its own. It sets the row of that key, and the row of key 0, to that number. So it can be
seen which writes are in a snapshot, and which of them was the last. An UPDATE adds its number to the row of key 0. In
an append table a write adds rows of its own; each statement has a number, too, and a row to delete or to update in
every file that was there before the actors began. `recorded` checks the changes of a table with a changelog.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from unittest import mock

from pktable import Table
from pktable.catalog import fences
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import EARLIEST, LATEST, SNAPSHOT, numbered
from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidRequestError,
    StorageError,
)

from model_tests.simulation.log_oracle import (
    FOREIGN,
    LogOracle,
    Rows,
    identity_of,
    left_over,
    named_by,
)
from model_tests.simulation.recorded import expect_changes
from model_tests.simulation.scheduler import Policy, Run, deterministic, run
from model_tests.simulation.store import YOUNG, ActorStore, LostError, Work, World, is_common
from model_tests.simulation.tables import (
    DELETES,
    LAST_WRITE,
    PATHS,
    ROOT,
    UPDATES,
    USUAL,
    Job,
    Setting,
    content,
    delete,
    expect,
    template,
    update,
    write,
)


@dataclass(frozen=True)
class LatestRead:
    """A read of the latest snapshot, or of that of a time; no rows: there was none so old.

    ``begin``, ``end``: how many effects there were.
    """

    begin: int
    end: int
    time: int | None
    rows: Rows


@dataclass
class Seen:
    """What the actors saw. ``acknowledged``, ``refused``: numbers of writes that are, or will never be, there.

    ``unknown``: work with a commit whose outcome could not be found out, because too few fences are kept; it leaves
    its files.
    """

    acknowledged: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[Work] = field(default_factory=set)
    snapshots: list[tuple[Snapshot, Rows]] = field(default_factory=list)
    by_id: list[tuple[int, int, Snapshot]] = field(
        default_factory=list
    )  # with the numbers of effects, as below
    latest: list[LatestRead] = field(default_factory=list)
    reads: int = 0


class Scenario:
    """Some jobs on a table. Run it once."""

    def __init__(self, jobs: dict[str, Job], setting: Setting = USUAL) -> None:
        self.jobs, self.setting, self.seen = jobs, setting, Seen()
        first = template(setting)
        self.world = World(dict(first.files), log=list(first.log), ever=dict(first.ever))
        names = (f"{name}-{count}" for name, job in jobs.items() for count in range(len(job.kinds)))
        self._numbers = {name: setting.writes + 1 + count for count, name in enumerate(names)}
        kinds = {kind for job in jobs.values() for kind in job.kinds}
        self._has_others = FOREIGN in kinds
        self._leaves_files = self._has_others or any("roll" in kind for kind in kinds)
        self._stores: dict[str, ActorStore] = {}

    def run(self, policy: Policy) -> Run:
        """Run the jobs and check what is left. Raises SimulationError."""
        few = self.setting.kept != fences.KEPT
        with mock.patch.object(fences, "KEPT", self.setting.kept) if few else nullcontext():
            actors = {name: self._actor(name, job) for name, job in self.jobs.items()}
            done = run(self.world, actors, policy)
            while self.world.late:
                self.world.deliver()
            self.world.happened = None  # what follows is not of the actors
            with deterministic(self.world, "check"):
                self._check(done)
        done.snapshots, done.reads = len(self.seen.snapshots) + 1, self.seen.reads
        return done

    def _actor(self, name: str, job: Job) -> Callable[[ActorStore], None]:
        def work(store: ActorStore) -> None:
            table, self._stores[name] = None, store
            for count, kind in enumerate(job.kinds):
                method, *number = kind.rsplit(" ", 1) if kind[-1].isdigit() else [kind]
                try:
                    with store.working(kind):
                        if table is None or job.reopens:
                            table = Table.open(ROOT, store=store)
                        done = getattr(self, "_" + method.replace(" ", "_"))
                        done(table, f"{name}-{count}", *map(int, number))
                except (LostError, StorageError, KeyboardInterrupt):
                    continue  # the store did not answer, and the operation said so; or it was interrupted
                except CorruptFileError:
                    # What others put, who know no fences, is a gap until it is taken back.
                    if not self._has_others:
                        raise

        return work

    def _write(self, table: Table, name: str, *, write_only: bool = False) -> None:
        number = self._numbers[name]
        self._commit(name, number, lambda: write(table, number, self.setting, write_only=write_only))

    def _delete(self, table: Table, name: str) -> None:
        number = DELETES + self._numbers[name]
        self._commit(name, number, lambda: delete(table, number))

    def _update(self, table: Table, name: str) -> None:
        number = UPDATES + self._numbers[name]
        self._commit(name, number, lambda: update(table, number, self.setting))

    def _commit(self, name: str, number: int, work: Callable[[], None]) -> None:
        try:
            try:
                work()
            except CommitUnknownError:
                self._note_unknown(name)
                work()  # under the same identifier
        except CommitUnknownError:
            self._note_unknown(name)
            return
        except CommitConflictError as error:
            if "was rolled back" in str(error):  # by a process that died then
                return
            expect("its compaction is not" in str(error), f"write {number} failed: {error}")
        except BaseException:
            if number not in self._puts():
                self.seen.refused.add(number)
            raise
        self.seen.acknowledged.add(number)

    def _note_unknown(self, name: str) -> None:
        """Note the work of a commit whose outcome is unknown, if fences that would tell it may be gone."""
        if self.setting.kept < USUAL.kept:
            self.seen.unknown.add(self._stores[name.partition("-")[0]].work)

    def _puts(self) -> set[int]:
        """Return the numbers of the writes whose snapshot files were ever there, or may still come."""
        effects = (*self.world.log, *self.world.late)
        files = (one for one in effects if f"/{SNAPSHOT}" in one.path and one.data is not None)
        return {decode_snapshot(one.data or b"", at=one.path).commit_identifier for one in files}

    def _write_only(self, table: Table, name: str) -> None:
        self._write(table, name, write_only=True)

    def _compact(self, table: Table, name: str, *, full: bool = False) -> None:
        try:
            table.compact(full=full)
        except CommitUnknownError:
            self._note_unknown(name)
        except CommitConflictError:
            return

    def _full(self, table: Table, name: str) -> None:
        self._compact(table, name, full=True)

    def _expire(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=3)

    def _expire_most(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=1)

    def _expire_as_others_do(self, table: Table, name: str) -> None:
        """Remove snapshot files, the oldest first, by no fence. The files that they name stay."""
        store = table.catalog.context.store
        names = store.list_names(PATHS.snapshots)
        ids = sorted(one for name in names if (one := numbered(name, SNAPSHOT)) is not None)
        for one in ids[:-1]:
            store.delete(PATHS.snapshot(one))
        store.write(PATHS.hint(EARLIEST), str(ids[-1]).encode())

    def _roll_back_as_others_do(self, table: Table, name: str) -> None:
        """Remove the files of the two latest snapshots, the latest first, and their tags, by no fence.

        Nobody else goes on meanwhile.
        """

        def remove(world: World, by: Work) -> None:
            names = (
                path.rpartition("/")[2] for path in world.files if path.startswith(PATHS.snapshots + "/")
            )
            ids = sorted(one for name in names if (one := numbered(name, SNAPSHOT)) is not None)
            kept = ids[:1] + ids[1:-2]
            for one in reversed(ids[len(kept) :]):
                world.delete(PATHS.snapshot(one), by)
            tags = {path: data for path, data in world.files.items() if path.startswith(PATHS.tags + "/")}
            for path, data in tags.items():
                if decode_snapshot(data, at=path).id > kept[-1]:
                    world.delete(path, by)
            world.write(PATHS.hint(LATEST), str(kept[-1]).encode(), by)

        self._stores[name.partition("-")[0]].at_once(PATHS.snapshots, remove)

    def _repair(self, table: Table, name: str) -> None:
        table.repair()

    def _tag(self, table: Table, name: str) -> None:
        try:
            table.create_tag(name)
        except InvalidRequestError:  # the snapshot has expired, or the tag is there
            return

    def _tag_middle(self, table: Table, name: str) -> None:
        snapshots = table.snapshots()
        try:
            table.create_tag(name, snapshot=snapshots[len(snapshots) // 2].id)
        except InvalidRequestError:
            return

    def _untag(self, table: Table, name: str) -> None:
        try:
            table.delete_tag("first")
        except InvalidRequestError:
            return

    def _tag_for_a_while(self, table: Table, name: str) -> None:
        try:
            table.create_tag(name)
            table.delete_tag(name)
        except InvalidRequestError:
            return

    def _rollback(self, table: Table, name: str, depth: int) -> None:
        try:
            table.rollback(snapshot=max(table.snapshots()[-1].id - depth, 1))
        except CommitUnknownError:
            self._note_unknown(name)
        except InvalidRequestError:  # it has expired, or a tag keeps a later one
            return

    def _rollback_to_tag(self, table: Table, name: str) -> None:
        try:
            table.rollback(tag="first")
        except CommitUnknownError:
            self._note_unknown(name)
        except (InvalidRequestError, CommitConflictError):
            return

    def _clean(self, table: Table, name: str) -> None:
        table.remove_orphans(older_than=YOUNG)

    def _read(self, table: Table, name: str) -> None:
        self._read_latest(table)
        ids = [one.id for one in table.snapshots()]
        for one in range(ids[0] - 1, ids[-1] + 2):  # and such as have ended, or are not there yet
            try:
                begin = len(self.world.log)
                snapshot = table.catalog.snapshots.read(one)
                self.seen.by_id.append((begin, len(self.world.log), snapshot))
                rows = content(table, snapshot=one)
                # The same id may be another snapshot since, after a rollback.
                if table.catalog.snapshots.read(one) == snapshot:
                    self.seen.snapshots.append((snapshot, rows))
            except InvalidRequestError:  # it has expired
                continue
        for tag, snapshot in table.tags().items():
            try:
                self.seen.snapshots.append((snapshot, content(table, tag=tag)))
            except InvalidRequestError:  # it was deleted
                continue

    def _read_by_time(self, table: Table, name: str) -> None:
        for snapshot in table.snapshots():
            begin, time = len(self.world.log), snapshot.time_millis + 1
            try:
                self._read_latest(table, time)
            except InvalidRequestError:
                self.seen.latest.append(LatestRead(begin, len(self.world.log), time, {}))

    def _read_latest(self, table: Table, time: int | None = None) -> None:
        begin = len(self.world.log)
        rows = content(table, **({} if time is None else {"timestamp": time}))
        self.seen.latest.append(LatestRead(begin, len(self.world.log), time, rows))

    # After the run

    def _check(self, done: Run) -> None:
        restored = tuple(range(1, self.setting.tagged + 1))
        oracle = LogOracle.after(self.world.log, restored, self.setting.rows_after)
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
        for read in self.seen.latest:
            expected = oracle.latest_rows(read.begin, read.end, read.time)
            when = "the latest" if read.time is None else f"the time {read.time}"
            expect(read.rows in expected, f"a read of {when}: expected one of {expected}, found {read.rows}")
        table = Table.open(ROOT, store=ActorStore(self.world))
        if self._has_others:  # their next expiry mends the hint, without which a stray looks like a loss
            table.catalog.snapshots.hint_earliest(min(oracle.retained))
            table.repair()
        snapshots = table.snapshots()
        ids = [one.id for one in snapshots]
        expect(ids == sorted(oracle.retained), f"there are {sorted(oracle.retained)}, found {ids}")
        for snapshot in snapshots:
            self._expect(oracle, snapshot, content(table, snapshot=snapshot.id))
        for tag, snapshot in table.tags().items():
            self._expect(oracle, snapshot, content(table, tag=tag))
        self._expect(oracle, snapshots[-1], content(table))
        if self.setting.producer != "none":
            expect_changes(table, oracle, self.setting)
        self._check_files(table, oracle, done)

    def _expect(self, oracle: LogOracle, snapshot: Snapshot, rows: Rows) -> None:
        self.seen.reads += 1
        writes = oracle.writes(snapshot)
        expect(writes is not None, f"snapshot {snapshot.id} was read, and never committed: {rows}")
        assert writes is not None
        expected = oracle.rows_after(writes)
        expect(rows == expected, f"snapshot {snapshot.id}: expected the writes {writes}, found {rows}")

    def _check_files(self, table: Table, oracle: LogOracle, done: Run) -> None:
        """Only what a fault, a rollback or another writer left behind is left, and a clean-up removes just that."""
        untidy = done.faults or self._leaves_files or self.seen.unknown
        left = left_over(self.world.files, oracle.retained.values(), oracle.expired)
        orphans = {one.path for one in table.remove_orphans(older_than=YOUNG + 1, dry_run=True)}
        expect(orphans == left, f"expected the orphans {sorted(left)}, found {sorted(orphans)}")
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
        """Return the files that may be left: of failed or unknown work, named by a snapshot file, or made by many."""
        files, maker = self.world.files, self.world.maker
        failed = {path for path in files if maker(path).has_failed or maker(path) in self.seen.unknown}
        found = failed.union(filter(is_common, files))
        return found.union(*(named_by(self.world.ever, snapshot) for snapshot in oracle.put))

    def _check_leftovers(self, table: Table, oracle: LogOracle) -> None:
        """The next expiry removes what an interrupted one left, snapshot files and others."""
        files = self.world.files
        expired = [one for one in range(1, oracle.expired + 1) if PATHS.snapshot(one) in files]
        if not expired:
            return
        found = [decode_snapshot(files[path], at=path) for path in map(PATHS.snapshot, expired)]
        ended = [one for one in found if identity_of(one) in oracle.known]
        named = {path for one in ended for path in named_by(files, one)}
        table.expire_snapshots(retain_last=len(oracle.retained))
        left = [one for one in expired if PATHS.snapshot(one) in files]
        expect(not left, f"snapshot files that an expiry left, and the next one, too: {left}")
        if self.setting.kept == fences.KEPT and not self._has_others:
            here = named & left_over(files, oracle.retained.values(), oracle.expired)
            expect(not here, f"files that an expiry left, and the next one, too: {sorted(here)}")
