"""The table that actors work on, what one of them can do, and jobs that are drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.catalog.fences import KEPT
from pktable.format.paths import TablePaths
from pktable.ingest.changes import ChangeKind

from model_tests.simulation.log_oracle import FOREIGN, FOREIGN_ROLLBACK, WRITER, Rows, Writes
from model_tests.simulation.scheduler import SimulationError, deterministic
from model_tests.simulation.store import ActorStore, World

ROOT: Final = "t"
PATHS: Final = TablePaths(ROOT)
COLUMNS: Final = "k BIGINT, v BIGINT"
SLOTS: Final = 32
FEW: Final = 2
"""How many fences count in a run in which one actor sleeps over more than those."""
SLEEPER: Final = "sleeper"
DELETES: Final = 1_000
"""Statements that delete have their numbers from here on."""
UPDATES: Final = 2_000
"""Statements that update have their numbers from here on."""
ADDED: Final = 10_000
"""What such a statement adds to the row of key 0, times its number."""
LAST_WRITE: Final = 999
ROWS_WITH_IDS: Final = "append with ids of rows"
TABLES: Final = {
    "keys": {"num-sorted-run.compaction-trigger": "2"},
    "append": {"compaction.min.file-num": "2"},
    "append in a bucket": {"compaction.min.file-num": "2", "bucket": "1", "bucket-key": "k"},
    ROWS_WITH_IDS: {"compaction.min.file-num": "2", "row-tracking.enabled": "true"},
}
"""The options of tables, by kind."""
KINDS: Final = {
    "write": 4, "write only": 3, "compact": 2, "full": 1, "expire": 2, "expire most": 3, "expire older": 1, "tag": 1,
    "tag middle": 1, "tag for a while": 1, "untag": 1, "read": 2, "read by time": 1, "rollback 1": 1, "rollback 2": 1,
    "rollback 3": 1, "rollback to tag": 1, "clean": 2, "update": 2, "consume": 2, "forget": 1, "branch": 1,
    "drop branch": 1, "make branch": 1, "make old branch": 1, "write on branch": 2, "full on branch": 1,
    "expire on branch": 1, "clean on branch": 1, "fast forward": 1, "remove branch": 1,
}  # fmt: skip
"""What an actor can do, each one operation of the table, and how often it is drawn."""
OF_BRANCHES: Final = (
    *("make branch", "make old branch", "write on branch", "full on branch", "expire on branch"),
    *("clean on branch", "fast forward", "remove branch"),
)
"""The kinds of work on branches as we make them."""
KINDS_WITH_OTHERS: Final = {
    **{kind: weight for kind, weight in KINDS.items() if "rollback" not in kind},
    FOREIGN: 5,
    "repair": 1,
}
"""The same with a writer that puts no fences. Nobody may roll back then, nor while a repair is under way."""
WITH_ROLLBACKS: Final = {"write": 4, "write only": 3, "compact": 2, "full": 1, "update": 2, "read": 2}
"""What one actor does while another one, who puts no fences, rolls back. Nobody else may look meanwhile: see CMT-41."""
SLEEPING: Final = {
    **{kind: weight for kind, weight in KINDS.items() if "read" not in kind and kind not in OF_BRANCHES},
    **{f"rollback {depth}": 4 for depth in (1, 2, 3)},
}
"""What an actor does that sleeps while others put fences."""
FENCING: Final = ("expire one", "write only", "write only", "expire most", "rollback 1")
"""What others do then besides, who put fences."""
DELETING: Final = {"write only": "delete"}
"""What an actor does to an append table instead."""


@dataclass(frozen=True)
class Job:
    """What one actor does: some of KINDS, one after the other. ``reopens``: with a new handle each time."""

    kinds: Sequence[str]
    reopens: bool = False


@dataclass(frozen=True)
class Setting:
    """``vectors``: whether the table has deletion vectors. ``kept``: how many fences stay.

    ``writes``: how many there were before. The tag has all but the last two. Its snapshot has expired. ``kind``: of
    the table, one of TABLES. ``producer``: of its changelog, in a table with keys; "lookup" needs vectors.
    ``changelogs``: of how many snapshots the changes are kept, 0 for those that are retained. ``jumps``: whether clocks
    jump by days.
    """

    vectors: bool = True
    kept: int = KEPT
    writes: int = 5
    kind: str = "keys"
    producer: str = "none"
    changelogs: int = 0
    jumps: bool = False

    @property
    def tagged(self) -> int:
        return self.writes - 2

    @property
    def options(self) -> dict[str, str]:
        """The options of the table."""
        return {
            "deletion-vectors.enabled": str(self.vectors).lower(),
            "manifest.merge-min-count": "3",
            "changelog-producer": self.producer,
            **TABLES[self.kind],
            **({"changelog.num-retained.max": str(self.changelogs)} if self.changelogs else {}),
        }

    def rows_of(self, number: int) -> Rows:
        """Return the rows of a write, by key. In a table with keys they take the place of others.

        In an append table each write has its own rows. Those there were before have one more for each number after
        them: the rows that the statement of that number deletes or updates.
        """
        if self.kind == "keys":
            return {0: number, number: number}
        values = range(number, SLOTS) if number <= self.writes else (number,)
        return {number * SLOTS + value: value for value in values}

    def rows_after(self, writes: Writes) -> Rows:
        """Return the rows after some writes and statements."""
        rows: Rows = {}
        for number in writes:
            rows = self.rows_with(rows, number)
        return rows

    def rows_with(self, rows: Rows, number: int) -> Rows:
        """Return what a write or a statement makes of the rows before it."""
        if number < DELETES:
            return rows | self.rows_of(number)
        if number < UPDATES:
            return {key: value for key, value in rows.items() if value != number - DELETES}
        if self.kind == "keys":
            return {**rows, 0: rows[0] + ADDED * (number - UPDATES)}
        return {key: -value if value == number - UPDATES else value for key, value in rows.items()}


USUAL: Final = Setting()
SMALL: Final = Setting(writes=3)


def expect(holds: bool, otherwise: str) -> None:
    """Raise SimulationError unless something holds."""
    if not holds:
        raise SimulationError(otherwise)


def template(setting: Setting) -> World:
    """Return a table with a few snapshots, a tag of an expired one, and expired snapshots before them."""
    return _template(replace(setting, kept=KEPT, jumps=False))


@cache
def _template(setting: Setting) -> World:
    world = World({})
    key = "k" if setting.kind == "keys" else None
    with deterministic(world, "template"):
        store = ActorStore(world)
        table = Table.create(ROOT, COLUMNS, primary_key=key, options=setting.options, store=store)
        for number in range(1, setting.writes + 1):
            write(table, number, setting)
            if number == setting.tagged:
                table.create_tag("first")
        table.expire_snapshots(retain_last=4)  # one to expire above the target of a rollback
    return world


def write(table: Table, number: int, setting: Setting, *, write_only: bool | None = None) -> None:
    """Do a write."""
    found = setting.rows_of(number)
    rows = pa.table({"k": pa.array(found, pa.int64()), "v": pa.array(found.values(), pa.int64())})
    staged = table.stage_write(rows, ChangeKind(), write_only=write_only)
    assert staged is not None
    staged.commit(CommitId(WRITER, number))


def delete(table: Table, number: int) -> None:
    """Delete the rows that are there for a statement of this number, of an append table."""
    table.delete(where=f"v = {number - DELETES}", commit_id=CommitId(WRITER, number))


def update(table: Table, number: int, setting: Setting) -> None:
    """Execute the UPDATE of a number: of the row of key 0, or of the rows that an append table has for it."""
    change, where = f"v + {ADDED * (number - UPDATES)}", "k = 0"
    if setting.kind != "keys":
        change, where = "0 - v", f"v = {number - UPDATES}"
    table.update({"v": change}, where=where, commit_id=CommitId(WRITER, number))


def content(table: Table, **arguments: Any) -> Rows:
    """Return the rows of a fresh read."""
    rows = table.to_arrow(fresh=True, **arguments)
    expect(len(set(rows["k"].to_pylist())) == rows.num_rows, f"a key is there twice: {rows['k'].to_pylist()}")
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def drawn(seed: int) -> tuple[dict[str, Job], Setting]:
    """Return the jobs of a seed, and the table they are on."""
    random = Random(seed)
    setting = Setting(vectors=random.random() < 0.8, kept=random.choice((KEPT, KEPT, 2)))
    share = random.random()
    if share < 0.15:
        jobs = _while_one_sleeps(random)
        setting = replace(setting, kept=FEW)
    elif share < 0.23:
        jobs = _beside_rollbacks(random)
    else:
        jobs = _at_the_same_time(random, with_others=share < 0.4)
    kind = random.choice(("keys", "keys", "keys", *TABLES))
    setting = replace(setting, kind=kind, jumps=random.random() < 0.2)
    if kind == "keys":
        setting = replace(setting, producer=random.choice(("none", "none", "input", "lookup")))
        setting = replace(setting, vectors=setting.vectors or setting.producer == "lookup")
        setting = replace(setting, changelogs=random.choice((0, 0, 6)))
    else:
        jobs = {
            name: replace(job, kinds=[DELETING.get(one, one) for one in job.kinds])
            for name, job in jobs.items()
        }
    return jobs, setting


def _at_the_same_time(random: Random, *, with_others: bool) -> dict[str, Job]:
    jobs = {}
    weights = KINDS_WITH_OTHERS if with_others else KINDS
    for number in range(random.randint(2, 4)):
        kinds = random.choices(list(weights), list(weights.values()), k=random.randint(1, 3))
        if number == 0:
            kinds[0] = random.choice(("write", "write only"))
        if number == 1 and with_others:
            kinds[0] = FOREIGN
        if number != 1:  # repairs may not meet
            kinds = ["write" if kind == "repair" else kind for kind in kinds]
        jobs[f"{'abcd'[number]}"] = Job(tuple(kinds), reopens=random.random() < 0.3)
    return jobs


def _while_one_sleeps(random: Random) -> dict[str, Job]:
    """Return the jobs of an actor that may sleep while another one puts more fences than count."""
    kinds = random.choices(list(SLEEPING), list(SLEEPING.values()), k=random.choice((1, 1, 2)))
    fencing = ["expire one"] * (FEW + 1) + random.choices(FENCING, k=random.randint(0, 2))
    random.shuffle(fencing)
    return {SLEEPER: Job(tuple(kinds)), "b": Job(tuple(fencing))}


def _beside_rollbacks(random: Random) -> dict[str, Job]:
    kinds = random.choices(list(WITH_ROLLBACKS), list(WITH_ROLLBACKS.values()), k=random.randint(2, 4))
    return {
        "a": Job(("write only", *kinds), reopens=random.random() < 0.3),
        "b": Job((FOREIGN_ROLLBACK,) * random.randint(1, 2)),
    }
