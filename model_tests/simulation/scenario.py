"""Actors on one table, and what must be true after they have run.

Every write has a number of its own. It sets the row of that key, and the row of key 0, to that number. So it can be
seen which writes are in a snapshot, and which of them was the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.format.metadata.snapshot import Snapshot
from pktable.ingest.changes import ChangeKind
from pktable_spec.errors import CommitConflictError, CommitUnknownError, InvalidRequestError, StorageError

from model_tests.simulation.log_oracle import LogOracle, Rows, rows_after
from model_tests.simulation.scheduler import (
    ActorStore,
    LostError,
    Outcome,
    Policy,
    Run,
    SimulationError,
    World,
    run,
)

ROOT: Final = "t"
COLUMNS: Final = "k BIGINT, v BIGINT"
FIRST_WRITES: Final = 5
LAST_WRITE: Final = 1_000_000
TAGGED: Final = 3
"""The last of the first writes that the tag of the template has. The snapshot of the tag has expired."""
KINDS: Final = {
    "write": 4, "write only": 3, "compact": 2, "full": 1, "expire": 2, "expire most": 3, "tag": 1, "untag": 1,
    "read": 2, "rollback": 1, "rollback to tag": 1, "clean": 1,
}  # fmt: skip
"""What an actor can do, each one operation of the table, and how often it is drawn."""


@dataclass(frozen=True)
class Job:
    """What one actor does: some of KINDS, one after the other. ``reopens``: with a new handle each time."""

    kinds: Sequence[str]
    reopens: bool = False


@dataclass
class Seen:
    """The writes that were acknowledged, and the snapshots that were read."""

    acknowledged: set[int] = field(default_factory=set)  # numbers of writes
    snapshots: list[tuple[Snapshot, Rows]] = field(default_factory=list)
    reads: int = 0


def expect(holds: bool, otherwise: str) -> None:
    """Raise SimulationError unless something holds."""
    if not holds:
        raise SimulationError(otherwise)


@cache
def template(vectors: bool) -> World:
    """Return a table with a few snapshots, a tag of an expired one, and expired snapshots before them."""
    world = World({})
    store = ActorStore(world, lambda _: Outcome.DO)
    options = {"deletion-vectors.enabled": str(vectors).lower(), "num-sorted-run.compaction-trigger": "2"}
    options |= {"manifest.merge-min-count": "3"}
    table = Table.create(ROOT, COLUMNS, primary_key="k", options=options, store=store)
    for number in range(1, FIRST_WRITES + 1):
        write(table, number)
        if number == TAGGED:
            table.create_tag("first")
    table.expire_snapshots(retain_last=4)  # one to expire above the target of a rollback
    return world


def write(table: Table, number: int, *, write_only: bool | None = None) -> None:
    """Do a write."""
    rows = pa.table({"k": pa.array([0, number], pa.int64()), "v": pa.array([number, number], pa.int64())})
    staged = table.stage_write(rows, ChangeKind(), write_only=write_only)
    assert staged is not None
    staged.commit(CommitId("writer", number))


def content(table: Table, **arguments: Any) -> Rows:
    """Return the rows of a fresh read."""
    rows = table.to_arrow(fresh=True, **arguments)
    expect(len(set(rows["k"].to_pylist())) == rows.num_rows, f"a key is there twice: {rows['k'].to_pylist()}")
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


class Scenario:
    """Some jobs on a table. Run it once."""

    def __init__(self, jobs: dict[str, Job], *, vectors: bool = True) -> None:
        self.jobs, self.seen = jobs, Seen()
        first = template(vectors)
        self.world = World(dict(first.files), puts=list(first.puts), old=frozenset(first.files))
        self._number = FIRST_WRITES

    def run(self, policy: Policy) -> Run:
        """Run the jobs and check what is left. Raises SimulationError."""
        done = run(self.world, {name: self._actor(name, job) for name, job in self.jobs.items()}, policy)
        while self.world.late:
            self.world.deliver()
        self._check(done)
        done.snapshots, done.reads = len(self.seen.snapshots) + 1, self.seen.reads
        return done

    def _actor(self, name: str, job: Job) -> Callable[[ActorStore], None]:
        def work(store: ActorStore) -> None:
            table = None
            for count, kind in enumerate(job.kinds):
                try:
                    if table is None or job.reopens:
                        table = Table.open(ROOT, store=store)
                    getattr(self, "_" + kind.replace(" ", "_"))(table, f"{name}-{count}")
                except (LostError, StorageError):
                    continue  # the store did not answer, and the operation said so

        return work

    def _write(self, table: Table, name: str, *, write_only: bool = False) -> None:
        self._number += 1
        number = self._number
        try:
            write(table, number, write_only=write_only)
        except CommitUnknownError:
            return
        except CommitConflictError as error:
            if "was rolled back" in str(error):  # by a process that died then
                return
            expect("its compaction is not" in str(error), f"write {number} failed: {error}")
        self.seen.acknowledged.add(number)

    def _write_only(self, table: Table, name: str) -> None:
        self._write(table, name, write_only=True)

    def _compact(self, table: Table, name: str, *, full: bool = False) -> None:
        try:
            table.compact(full=full)
        except (CommitUnknownError, CommitConflictError):
            return

    def _full(self, table: Table, name: str) -> None:
        self._compact(table, name, full=True)

    def _expire(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=3)

    def _expire_most(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=1)

    def _tag(self, table: Table, name: str) -> None:
        try:
            table.create_tag(name)
        except InvalidRequestError:  # the snapshot has expired, or the tag is there
            return

    def _untag(self, table: Table, name: str) -> None:
        try:
            table.delete_tag("first")
        except InvalidRequestError:
            return

    def _rollback(self, table: Table, name: str) -> None:
        try:
            table.rollback(snapshot=max(table.snapshots()[-1].id - 2, 1))
        except InvalidRequestError:  # it has expired, or a tag keeps a later one
            return

    def _rollback_to_tag(self, table: Table, name: str) -> None:
        try:
            table.rollback(tag="first")
        except (InvalidRequestError, CommitUnknownError, CommitConflictError):
            return

    def _clean(self, table: Table, name: str) -> None:
        # Files of the run have the time 0, those of the template are older.
        table.remove_orphans(older_than=0)

    def _read(self, table: Table, name: str) -> None:
        content(table)
        for snapshot in table.snapshots():
            try:
                rows = content(table, snapshot=snapshot.id)
                # The same id may be another snapshot since, after a rollback.
                if table.catalog.snapshots.read(snapshot.id) == snapshot:
                    self.seen.snapshots.append((snapshot, rows))
            except InvalidRequestError:  # it has expired
                continue
        for tag, snapshot in table.tags().items():
            try:
                self.seen.snapshots.append((snapshot, content(table, tag=tag)))
            except InvalidRequestError:  # it was deleted
                continue

    def _check(self, done: Run) -> None:
        oracle = LogOracle.after(self.world.puts, restored=tuple(range(1, TAGGED + 1)))
        expect(not oracle.problems, "; ".join(oracle.problems))
        everything = {number for writes in oracle.known.values() for number in writes}
        expect(
            everything >= self.seen.acknowledged,
            f"acknowledged, but never there: {self.seen.acknowledged - everything}",
        )
        for snapshot, rows in self.seen.snapshots:
            self._expect(oracle, snapshot, rows)
        table = Table.open(ROOT, store=ActorStore(self.world, lambda _: Outcome.DO))
        snapshots = table.snapshots()
        ids = [one.id for one in snapshots]
        expect(ids == sorted(oracle.retained), f"there are {sorted(oracle.retained)}, found {ids}")
        for snapshot in snapshots:
            self._expect(oracle, snapshot, content(table, snapshot=snapshot.id))
        for tag, snapshot in table.tags().items():
            self._expect(oracle, snapshot, content(table, tag=tag))
        self._expect(oracle, snapshots[-1], content(table))
        self._check_files(table, done)

    def _expect(self, oracle: LogOracle, snapshot: Snapshot, rows: Rows) -> None:
        self.seen.reads += 1
        writes = oracle.writes(snapshot)
        expect(writes is not None, f"snapshot {snapshot.id} was read, and never committed: {rows}")
        assert writes is not None
        expect(
            rows == rows_after(writes), f"snapshot {snapshot.id}: expected the writes {writes}, found {rows}"
        )

    def _check_files(self, table: Table, done: Run) -> None:
        """Only what a fault or a rollback left behind is left, and a clean-up removes just that."""
        untidy = done.faults or any("rollback" in kind for job in self.jobs.values() for kind in job.kinds)
        bad = [str(one) for one in table.check().findings if one.severity == "error" or not untidy]
        expect(not bad, "; ".join(bad))
        if untidy:
            table.repair()
        write(table, LAST_WRITE)
        table.expire_snapshots(retain_last=1)
        table.remove_orphans(older_than=1)
        bad = [str(one) for one in table.check().findings]
        expect(not bad, f"after an expiry and a clean-up: {'; '.join(bad)}")
        expect(LAST_WRITE in content(table), "the next write is not there")


def drawn(seed: int) -> tuple[dict[str, Job], bool]:
    """Return the jobs of a seed, and whether the table has deletion vectors."""
    random = Random(seed)
    jobs = {}
    for number in range(random.randint(2, 4)):
        kinds = random.choices(list(KINDS), list(KINDS.values()), k=random.randint(1, 3))
        if number == 0:
            kinds[0] = random.choice(("write", "write only"))
        jobs[f"{'abcd'[number]}"] = Job(tuple(kinds), reopens=random.random() < 0.3)
    return jobs, random.random() < 0.8
