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
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.ingest.changes import ChangeKind
from pktable_spec.errors import CommitConflictError, CommitUnknownError, InvalidRequestError

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
FIRST_WRITES: Final = 4
KINDS: Final = {
    "write": 4, "write only": 3, "compact": 2, "full": 1, "expire": 2, "expire most": 3, "tag": 1, "untag": 1, "read": 2
}  # fmt: skip
"""What an actor can do, each one operation of the table, and how often it is drawn."""

Rows = dict[int, int]
Identity = tuple[int, str]


@dataclass(frozen=True)
class Job:
    """What one actor does: some of KINDS, one after the other. ``reopens``: with a new handle each time."""

    kinds: Sequence[str]
    reopens: bool = False


@dataclass
class Told:
    """What actors were told, and what they saw."""

    committed: set[int] = field(default_factory=set)  # numbers of writes
    unknown: set[int] = field(default_factory=set)
    seen: dict[Identity, Rows] = field(default_factory=dict)
    reads: int = 0

    def see(self, snapshot: Snapshot, rows: Rows) -> None:
        """Remember what a snapshot has; it must be what it had before."""
        self.reads += 1
        identity = (snapshot.id, snapshot.delta_manifest_list)
        before = self.seen.setdefault(identity, rows)
        expect(before == rows, f"snapshot {snapshot.id} had {before}, has {rows}")


def expect(holds: bool, otherwise: str) -> None:
    """Raise SimulationError unless something holds."""
    if not holds:
        raise SimulationError(otherwise)


@cache
def template(vectors: bool) -> dict[str, bytes]:
    """Return the files of a table with a few snapshots, a tag, and expired snapshots before them."""
    world = World({})
    store = ActorStore(world, lambda _: Outcome.DO)
    options = {"deletion-vectors.enabled": str(vectors).lower(), "num-sorted-run.compaction-trigger": "2"}
    options |= {"manifest.merge-min-count": "3"}
    table = Table.create(ROOT, COLUMNS, primary_key="k", options=options, store=store)
    for number in range(1, FIRST_WRITES + 1):
        write(table, number)
    table.expire_snapshots(retain_last=3)
    table.create_tag("first", snapshot=table.snapshots()[0].id)
    return world.files


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
        self.jobs, self.told = jobs, Told()
        self.world = World(dict(template(vectors)))
        self._number = FIRST_WRITES

    def run(self, policy: Policy) -> Run:
        """Run the jobs and check what is left. Raises SimulationError."""
        done = run(self.world, {name: self._actor(name, job) for name, job in self.jobs.items()}, policy)
        while self.world.late:
            self.world.deliver()
        self._check(done)
        done.snapshots, done.reads = len(self.told.seen), self.told.reads
        return done

    def _actor(self, name: str, job: Job) -> Callable[[ActorStore], None]:
        def work(store: ActorStore) -> None:
            table = None
            for count, kind in enumerate(job.kinds):
                try:
                    if table is None or job.reopens:
                        table = Table.open(ROOT, store=store)
                    getattr(self, "_" + kind.replace(" ", "_"))(table, f"{name}-{count}")
                except LostError:
                    continue  # the store did not answer, and the operation said so

        return work

    def _write(self, table: Table, name: str, *, write_only: bool = False) -> None:
        self._number += 1
        number = self._number
        self.told.unknown.add(number)
        try:
            write(table, number, write_only=write_only)
        except CommitUnknownError:
            return
        except CommitConflictError as error:
            expect("its compaction is not" in str(error), f"write {number} failed: {error}")
        except LostError:
            # Before the commit or in it. After it, the error is of the compaction: the caller cannot tell.
            return
        self.told.unknown.discard(number)
        self.told.committed.add(number)

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
        table.expire_snapshots(retain_last=2)

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

    def _read(self, table: Table, name: str) -> None:
        content(table)
        for snapshot in table.snapshots():
            try:
                self.told.see(snapshot, content(table, snapshot=snapshot.id))
            except InvalidRequestError:  # it has expired
                continue
        for tag, snapshot in table.tags().items():
            try:
                self.told.see(snapshot, content(table, tag=tag))
            except InvalidRequestError:  # it was deleted
                continue

    def _check(self, done: Run) -> None:
        table = Table.open(ROOT, store=ActorStore(self.world, lambda _: Outcome.DO))
        rows = content(table)
        first = {*range(1, FIRST_WRITES + 1)}
        expect(rows.keys() >= {0, *first, *self.told.committed}, f"lost: {self.told}, found {rows}")
        expect(
            rows.keys() <= {0, *first, *self.told.committed, *self.told.unknown}, f"failed, but there: {rows}"
        )
        if self.told.committed and not self.told.unknown:
            # The last put of a write is the one that was its commit: strays come before it.
            puts = [decode_snapshot(data, at=path) for path, data in self.world.puts if "/snapshot-" in path]
            last = [one.commit_identifier for one in puts if one.commit_kind == "APPEND"][-1]
            expect(rows[0] == last, f"the last write is {last}, key 0 has {rows[0]}: {self.told}")
        self._check_snapshots(table)
        self._check_files(table, bool(done.faults))

    def _check_snapshots(self, table: Table) -> None:
        before: Rows = {}
        for snapshot in table.snapshots():
            rows = content(table, snapshot=snapshot.id)
            self.told.see(snapshot, rows)
            expect(rows.keys() >= before.keys(), f"snapshot {snapshot.id} lost {before.keys() - rows.keys()}")
            before = rows
        for tag, snapshot in table.tags().items():
            self.told.see(snapshot, content(table, tag=tag))

    def _check_files(self, table: Table, faulty: bool) -> None:
        """Only what a fault left behind is left, and it goes with the next expiry and clean-up."""
        found = table.check().findings
        bad = [str(one) for one in found if one.severity == "error" or not faulty]
        expect(not bad, "; ".join(bad))
        write(table, 1_000_000)
        table.expire_snapshots(retain_last=1)
        bad = [str(one) for one in table.check().findings if one.severity == "error" or not faulty]
        expect(not bad, f"after an expiry: {'; '.join(bad)}")
        expect(1_000_000 in content(table), "the next write is not there")


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
