"""Drawn contests: work on a table that others change each time it is planned, until it wins or gives up.

A write, a statement or a compaction is done through a handle that tries `ATTEMPTS` times. Whenever its runner has done
some work for it, another handle may write or compact. The rows are those of a dict: the work is done once, where it is
committed, or not at all, and what others do is never undone.

If others act less often than it tries, and the disk is not full, the work must succeed. If they change what it needs
each time, it must give up with CommitConflictError. Given up, it leaves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import CommitConflictError, CommitId, StorageError, Table
from pktable.format.bucket_hash import bucket_of
from pktable.format.types import parse_type
from pktable.ingest.changes import ChangeKind
from pktable.retry import RetryPolicy
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.seeded import drawn_options, play_at_random

ATTEMPTS: Final = 3
SURELY: Final = 2 * ATTEMPTS + 2
"""How often others have to act so that each attempt fails: a write is planned in two parts."""
POLICY: Final = RetryPolicy(attempts=ATTEMPTS, sleep=lambda seconds: None)
LATER: Final = 1 << 40  # milliseconds
KEYS: Final = 4
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "1", "2"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "changelog-producer": ("none", "none", "lookup", "input"),
    "target-file-size": ("128 mb", "2 kb"),
    "data-file.path-directory": ("", "", "data/files"),
    "index-file-in-data-file-dir": ("false", "true"),
    "manifest.merge-min-count": ("30", "2"),
}
GAVE_UP: Final = {
    "compact": "compaction failed: in all 3 attempts",
    "upsert": "write failed: in all 3 attempts other writers took its sequence numbers",
    "update": "failed: ",
    "delete": "failed: ",
}
"""The kinds of work, and a part of the error of each if others always win."""

Rows = dict[int, str | None]


def draw(number: int, seed: int) -> None:
    """Play some drawn contests. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def fill_disks(seed: int) -> None:
    """Do each kind of work on a disk that is full as soon as others have acted. Raises as `draw` does.

    Others change one of two buckets, so that what was done for the other one is still good when the work is given up.
    """
    drawn = random.Random(seed)
    for do, first, writes in itertools.product(sorted(GAVE_UP), (1, 2), (False, True)):
        with _new_contest(drawn, {"bucket": "2"}) as (contest, _):
            contest.fill_disk(do, first, writes=writes)
            contest.is_sound()


@contextlib.contextmanager
def _new_contest(drawn: random.Random, given: Mapping[str, str]) -> Iterator[tuple[Contest, Table]]:
    with tempfile.TemporaryDirectory() as folder:
        options = {**drawn_options(drawn, OPTIONS), **given}
        table = Table.create(folder + "/t", "k INT, v STRING", primary_key=["k"], options=options)
        yield Contest(table, drawn), table


def play(drawn: random.Random) -> None:
    """Do a few contests on a new table."""
    with _new_contest(drawn, {}) as (contest, table):
        for _ in range(drawn.randint(1, 3)):
            contest.upsert(table, [drawn.randrange(KEYS) for _ in range(2)])
        for _ in range(2):
            contest.play()
        contest.is_sound()


class Contest:
    """A table that two handles change. ``rows``: those that it must have."""

    def __init__(self, table: Table, drawn: random.Random) -> None:
        self._drawn, self.rows = drawn, Rows()
        self._mine, self._other = table, Table.open(table.path)
        self._mine.catalog.committer.policy = POLICY
        self._count = 0

    def upsert(self, table: Table, keys: Sequence[int], *, write_only: bool = False) -> None:
        """Give keys new values."""
        new = self._new_rows(keys)
        staged = table.stage_write(_arrow(new), ChangeKind(), write_only=write_only)
        assert staged is not None, "there is a row"
        staged.commit(CommitId.new())
        self.rows |= new

    def play(self) -> None:
        """Do one contest, and check what became of it."""
        before = _orphans(self._other)
        do, key = self._drawn.choice(sorted(GAVE_UP)), self._drawn.randrange(KEYS)
        always, times = self._drawn.random() < 0.5, self._drawn.choice((0, 1, 2, ATTEMPTS, SURELY))
        if do == "update" and key not in self.rows:
            self.upsert(self._other, [key])

        def act() -> None:
            self._act(key if always or self._drawn.random() < 0.5 else (key + 1) % KEYS, always=always)

        full_at = self._drawn.choice((0, 0, 0, 2, 3, 4))
        error, acted = self._contend(do, [key], act, times=times, full_at=full_at)
        self.nothing_is_left(before)
        self.gave_up_rightly(do, error, acted, sure=always and not full_at)

    def fill_disk(self, do: str, first: int, *, writes: bool) -> None:
        """Do some work on one key of each bucket, until others have changed bucket 0 and the disk is full.

        ``first``: the number of the work of the runner after which they act. ``writes``: whether they write.
        """
        keys = [self._key_of(bucket) for bucket in (0, 1)]
        self.upsert(self._other, keys)
        self._other.compact(full=True)
        for _ in range(2):
            self.upsert(self._other, keys[:1], write_only=True)
        before = _orphans(self._other)

        def act() -> None:
            if writes:
                self.upsert(self._other, keys[:1])
            else:
                self._other.compact(full=True)

        self._contend(do, keys, act, times=1, first=first, full_at=first + 1)
        self.nothing_is_left(before)

    def _key_of(self, bucket: int) -> int:
        """Return the first key of one of two buckets."""
        keys = pa.array(range(KEYS * KEYS), pa.int32())
        return int(bucket_of([keys], [parse_type("INT")], 2).tolist().index(bucket))

    def _contend(
        self,
        do: str,
        keys: Sequence[int],
        act: Callable[[], None],
        *,
        times: int,
        full_at: int,
        first: int = 1,
    ) -> tuple[CommitConflictError | None, int]:
        """Do some work while others act, and compare the rows. Return how it was given up, and how often they acted."""
        me = CommitId.new()
        work, effect = self._work(do, keys, me)
        done, error = False, None

        def settle() -> None:
            """Take my work for done, if it is committed by now."""
            nonlocal done
            users = {one.commit_user for one in self._other.snapshots()}
            if not done and me.user in users:
                effect()
                done = True

        def then() -> None:
            settle()
            act()

        with (
            contextlib.suppress(StorageError),
            _interrupted(self._mine, then, times, first, full_at) as acted,
        ):
            try:
                work()
            except CommitConflictError as raised:
                error = raised
        settle()
        self.rows_agree()
        return error, len(acted)

    def _work(
        self, do: str, keys: Sequence[int], me: CommitId
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return a piece of work, and what it makes of the rows there are when it is committed."""
        mine, where = self._mine, f"k IN ({', '.join(map(str, keys))})"
        if do == "compact":
            return lambda: mine.stage_compaction(full=True).commit(me), lambda: None
        if do == "upsert":
            new = self._new_rows(keys)
            return lambda: mine.upsert(_arrow(new), commit_id=me), lambda: self.rows.update(new)
        if do == "delete":
            without = f"{where} AND v IS NOT NULL"
            return lambda: mine.delete(where=without, commit_id=me), lambda: [
                self.rows.pop(k, None) for k in keys
            ]

        def update() -> None:
            self.rows |= {key: f"{self.rows[key]}u" for key in keys if key in self.rows}

        return lambda: mine.update({"v": "v || 'u'"}, where=where, commit_id=me), update

    def _act(self, key: int, *, always: bool) -> None:
        """Let the other handle write, so that numbers and rows change, or compact, so that files do."""
        if always or self._drawn.random() < 0.7:
            self.upsert(self._other, [key])
        if always or self._drawn.random() < 0.5:
            self._other.compact(full=always or self._drawn.random() < 0.5)

    def _new_rows(self, keys: Sequence[int]) -> Rows:
        self._count += 1
        return dict.fromkeys(keys, f"{self._count}")

    @check
    @covers("CMT-7", "CMT-14", "CMT-18", "CMT-24", "CMT-33", "CMT-54", "STM-6")
    def rows_agree(self) -> None:
        """Compare the rows that each handle reads, and one that is opened now."""
        for table in (self._mine, self._other, Table.open(self._mine.path)):
            found = {row["k"]: row["v"] for row in table.to_arrow(fresh=True).to_pylist()}
            if found != self.rows:
                fail(f"expected {self.rows}, found {found}")

    @check
    @covers("META-11")
    def is_sound(self) -> None:
        findings = [str(one) for one in self._other.check().findings]
        if findings:
            fail(f"{findings}")

    @check
    @covers("CMT-12")
    def nothing_is_left(self, before: set[str]) -> None:
        left = _orphans(self._other) - before
        if left:
            fail(f"files that nobody needs: {sorted(left)}")

    @check
    @covers("CMT-14", "CMT-24", "STM-6")
    def gave_up_rightly(self, do: str, error: CommitConflictError | None, acted: int, *, sure: bool) -> None:
        """Work is given up exactly if it lost each time, with the number of the latest snapshot."""
        if error is None:
            if sure and acted >= SURELY:
                fail(f"{do}: done, though others won {acted} times")
            return
        if acted < ATTEMPTS:
            fail(f"{do}: given up after others acted {acted} times: {error}")
        if (
            GAVE_UP[do] not in str(error)
            or "in all 3 attempts" not in str(error)
            or error.snapshot > self._other.catalog.state().id
        ):
            fail(f"{do}: {error}")


@contextlib.contextmanager
def _interrupted(
    table: Table, act: Callable[[], None], times: int, first: int, full_at: int
) -> Iterator[list[None]]:
    """Let ``act`` come after each work that the runner of ``table`` does, from the ``first`` on, up to ``times`` times.

    Yields a list that grows with each. ``full_at``: the work that fails, because the disk is full by then; 0 for none.
    """
    runner, acted, acting, works = table.runner, list[None](), False, 0

    def after(original: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any, **named: Any) -> Any:
            nonlocal acting, works
            works += not acting
            if not acting and works == full_at:
                raise StorageError("write", table.path, errno.ENOSPC, os.strerror(errno.ENOSPC))
            found = original(*arguments, **named)
            if not acting and works >= first and len(acted) < times:
                acting = True
                try:
                    act()
                finally:
                    acting = False
                acted.append(None)
            return found

        return do

    with contextlib.ExitStack() as stack:
        for name in ("write", "results"):
            stack.enter_context(mock.patch.object(type(runner), name, after(getattr(type(runner), name))))
        yield acted


def _arrow(rows: Rows) -> pa.Table:
    return pa.table({"k": pa.array(rows, pa.int32()), "v": pa.array(rows.values(), pa.string())})


def _orphans(table: Table) -> set[str]:
    later = time.time_ns() // 1_000_000 + LATER
    return {one.path for one in table.remove_orphans(older_than=later, dry_run=True)}
