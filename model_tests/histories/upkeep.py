"""Drawn upkeep whose process dies half-way, or whose disk fills up, and that another process does again.

A small table gets writes, tags and expiries. Then an expiry, a tag, a rollback or a write dies at some change of the
store: that is not made, nor any after it. Or the disk is full from some file on: work that does not fail must be done.
Each snapshot that is left must read as it did, and so must the tags. Done again, the work must end as if nothing had
happened, and an expiry must leave no file that nothing needs.

Reads during which others expire the snapshot are asked, too: one of the latest snapshot reads the next one, any other
says that its snapshot has gone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import CommitUnknownError, InvalidRequestError, SnapshotNotFoundError, StorageError, Table
from pktable.format.paths import EARLIEST, SNAPSHOT
from pktable.store.file_io import LocalFileIO
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.backends.failing_store import CHANGING, FailingStore
from model_tests.seeded import drawn_options, play_at_random

LATER: Final = 1 << 40  # milliseconds
KEYS: Final = 5
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "deletion-vectors.bitmap64": ("false", "true"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "changelog-producer": ("none", "lookup", "input"),
    "changelog.num-retained.max": ("", "4"),
    "data-file.path-directory": ("", "", "data/files"),
    "index-file-in-data-file-dir": ("false", "true"),
    "manifest.merge-min-count": ("30", "2"),
    "manifest.target-file-size": ("8 mb", "1 kb"),
}
DEATHS: Final = (1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 13)
"""The changes of the store that a process dies at. The first is mostly the one that decides, the others clean up."""

Rows = dict[int, str]


class Killed(BaseException):
    """The process is gone."""


class Dying(LocalFileIO):
    """A directory whose process dies at its ``at``-th change of it. ``deleted``: how many files were deleted."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.count = self.deleted = 0

    def _count_change(self) -> None:
        self.count += 1
        if self.count >= self._at:
            raise Killed

    def create(self, path: str) -> Any:
        self._count_change()
        return super().create(path)

    def write(self, path: str, data: bytes) -> None:
        self._count_change()
        super().write(path, data)

    def delete(self, path: str) -> None:
        self._count_change()
        super().delete(path)
        self.deleted += 1


class Between(LocalFileIO):
    """A directory in which others do ``work`` before a data file is opened for the first time."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.left = [work]

    def open(self, path: str) -> Any:
        if "data-" in path and self.left:
            self.left.pop()()
        return super().open(path)


def draw(number: int, seed: int) -> None:
    """Play some drawn schedules. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Do one schedule on a new table."""
    with tempfile.TemporaryDirectory() as folder:
        options = drawn_options(drawn, OPTIONS)
        schedule = Schedule(
            Table.create(folder + "/t", "k INT, v STRING", primary_key=["k"], options=options), drawn
        )
        schedule.use(drawn.randint(3, 5))
        schedule.die()
        schedule.use(1)
        if drawn.random() < 0.5:
            schedule.die()
        schedule.read_while_others_expire()
        schedule.end()


@dataclass(frozen=True)
class Upkeep:
    """Some work. ``again``: what another process does if it may not be done. ``done``: takes note that it is."""

    name: str
    work: Callable[[Table], object]
    again: Callable[[], object]
    done: Callable[[], object]


class Schedule:
    """A table with the rows of each snapshot and tag that it has."""

    def __init__(self, table: Table, drawn: random.Random) -> None:
        self._table, self._drawn = table, drawn
        self._path, self._count, self._leaves_files = table.path, 0, False
        self._latest, self._rows, self._tags = Rows(), dict[int, Rows](), dict[str, tuple[int, Rows]]()

    def use(self, writes: int) -> None:
        """Write, compact and make tags."""
        for _ in range(writes):
            new = self._new()
            self._table.upsert(_arrow(new))
            self._wrote(new)
            if self._drawn.random() < 0.2:
                self._table.compact(full=True)
                self._wrote({})
            if self._drawn.random() < 0.4:
                self._count += 1
                snapshot = self._drawn.choice(sorted(self._rows))
                self._table.create_tag(f"t{self._count}", snapshot=snapshot)
                self._tags[f"t{self._count}"] = snapshot, self._rows[snapshot]
        self.agrees(Table.open(self._path))

    def _new(self) -> Rows:
        self._count += 1
        return {self._drawn.randrange(KEYS): f"{self._count}" for _ in range(2)}

    def _wrote(self, new: Rows) -> None:
        self._latest = {**self._latest, **new}
        self._found()

    def _found(self) -> None:
        """Take the snapshots that there are; those that are new have the latest rows."""
        ids = [one.id for one in Table.open(self._path).snapshots()]
        self._rows = {one: self._rows.get(one, self._latest) for one in ids}

    def die(self) -> None:
        """Let a process die during some work, or its disk be full, and another one do what was not done."""
        upkeep = self._upkeep()
        orphans = self._orphans()
        # A removal of orphans leaves what copies of snapshots name.
        copies_name_more = self._leaves_files and Path(self._path, "changelog").exists()
        if self._drawn.random() < 0.3:
            self._fill_disk(upkeep)
        else:
            store = Dying(self._drawn.choice(DEATHS))
            with contextlib.suppress(Killed):
                upkeep.work(Table.open(self._path, store=store))
            self.is_left_sound()
            self._repair(upkeep)
            self._leaves_files |= store.deleted > 0
            upkeep.again()
            if upkeep.name == "expire" and not store.deleted and not copies_name_more:
                self.nothing_more_is_left(orphans)
        upkeep.done()
        self.agrees(Table.open(self._path))
        Table.open(self._path).remove_orphans(older_than=time.time_ns() // 1_000_000 + LATER)
        self._table = Table.open(self._path)
        self.agrees(self._table)

    def _fill_disk(self, upkeep: Upkeep) -> None:
        """Do some work on a disk that is full from some file on, and again where it said that it failed."""
        store = FailingStore(errno.ENOSPC, CHANGING, self._drawn.choice(DEATHS))
        try:
            upkeep.work(Table.open(self._path, store=store))
        except (StorageError, CommitUnknownError):
            self.is_left_sound()
            self._repair(upkeep)
            upkeep.again()
        self._leaves_files |= store.at <= store.count

    def _repair(self, upkeep: Upkeep) -> None:
        """Take on a rollback that others began. It leaves files: tags may name those of what was rolled back."""
        if upkeep.name == "rollback":
            Table.open(self._path).repair()
            self._leaves_files = True

    def _upkeep(self) -> Upkeep:
        do = self._drawn.choice(["expire"] * 3 + ["rollback"] * 2 + ["tag", "untag", "upsert"])
        if do == "untag" and self._tags:
            return self._untag(self._drawn.choice(sorted(self._tags)))
        if do == "tag":
            return self._tag(self._drawn.choice(sorted(self._rows)))
        if do == "rollback":
            return self._roll_back()
        if do == "upsert":
            return self._upsert(self._new())
        return self._expire(self._drawn.randint(1, 3))

    def _expire(self, retain: int) -> Upkeep:
        kept = sorted(self._rows)[-retain:]

        def work(table: Table) -> None:
            table.expire_snapshots(retain_last=retain)

        def done() -> None:
            self._rows = {one: self._rows[one] for one in kept}

        return Upkeep("expire", work, lambda: work(Table.open(self._path)), done)

    def _untag(self, tag: str) -> Upkeep:
        def again() -> None:
            table = Table.open(self._path)
            if tag in table.tags():
                table.delete_tag(tag)

        return Upkeep("untag", lambda table: table.delete_tag(tag), again, lambda: self._tags.pop(tag))

    def _tag(self, snapshot: int) -> Upkeep:
        self._count += 1
        name = f"t{self._count}"

        def work(table: Table) -> None:
            table.create_tag(name, snapshot=snapshot)

        def again() -> None:
            table = Table.open(self._path)
            if name not in table.tags():
                work(table)

        def done() -> None:
            self._tags[name] = snapshot, self._rows[snapshot]

        return Upkeep("tag", work, again, done)

    def _upsert(self, new: Rows) -> Upkeep:
        last = max(self._rows)

        def work(table: Table) -> None:
            table.upsert(_arrow(new))

        def again() -> None:
            table = Table.open(self._path)
            if table.catalog.state().id == last:
                work(table)

        return Upkeep("upsert", work, again, lambda: self._wrote(new))

    def _roll_back(self) -> Upkeep:
        """Go back to a snapshot, or to a tag whose snapshot may have expired; later tags forbid it."""
        tag = self._drawn.choice([None, *sorted(self._tags)])
        target, rows = self._tags[tag] if tag else self._drawn.choice(sorted(self._rows.items()))
        expired = target < min(self._rows)
        later = any(kept > target for kept, _ in self._tags.values()) and max(self._rows) > target
        refused = later and not expired

        def work(table: Table) -> None:
            error = None
            try:
                table.rollback(**({"tag": tag} if tag else {"snapshot": target}))
            except InvalidRequestError as found:
                if not refused:
                    raise
                error = found
            if refused:
                self.later_tags_forbid(error)

        def done() -> None:
            if refused:
                return
            self._latest = rows
            if expired:
                self._found()
            else:
                self._rows = {one: found for one, found in self._rows.items() if one <= target}

        return Upkeep("rollback", work, lambda: work(Table.open(self._path)), done)

    def read_while_others_expire(self) -> None:
        """Read the latest snapshot, the first or a tag while others write, expire, and delete the tag."""
        first, tag = min(self._rows), self._drawn.choice([None, *sorted(self._tags)])
        kind = (
            self._drawn.choice(("latest", "first", "tag")) if tag else self._drawn.choice(("latest", "first"))
        )
        ways: Mapping[str, dict[str, Any]] = {"latest": {}, "first": {"snapshot": first}, "tag": {"tag": tag}}
        asked = ways[kind]
        before = {"latest": self._latest, "first": self._rows[first]}
        expected = self._tags[tag][1] if kind == "tag" and tag else before.get(kind, {})
        store = Between(lambda: self._others_expire(tag if kind == "tag" else None))
        found: Rows | None = None
        with contextlib.suppress(SnapshotNotFoundError):
            found = _rows(Table.open(self._path, store=store).to_arrow(fresh=True, **asked))
        allowed = [expected, None]
        if store.left:  # no file was opened: there are no rows, or they are kept in memory
            allowed = [expected]
        elif kind == "latest":
            allowed = [expected, self._latest]
        self.read_is_right(kind, found, allowed)
        self.agrees(Table.open(self._path))
        self.has_gone(first if not store.left else 0)

    def _others_expire(self, tag: str | None) -> None:
        table = Table.open(self._path)
        for _ in range(2):
            self._count += 1
            self._latest = dict.fromkeys(range(KEYS), f"new {self._count}")
            table.upsert(_arrow(self._latest))
            table.compact(full=True)
        if tag:
            table.delete_tag(tag)
            del self._tags[tag]
        table.expire_snapshots(retain_last=1)
        self._rows = {}
        self._found()

    def end(self) -> None:
        """Delete all tags and expire all but the last snapshot: the files are those of its rows, and no others."""
        table = Table.open(self._path)
        for tag in sorted(self._tags):
            table.delete_tag(tag)
        self._tags = {}
        table.expire_snapshots(retain_last=1)
        self._rows = {max(self._rows): self._latest}
        self.agrees(table)
        self.is_left_sound()
        if not self._leaves_files:
            self.nothing_more_is_left(set())

    @check
    @covers("CMT-15", "CMT-16", "CMT-17", "CMT-28", "CMT-42", "CMT-45", "CMT-47", "RD-4")
    def agrees(self, table: Table) -> None:
        """Compare the snapshots and tags that there are, the rows of each, and what the checker finds."""
        ids = [one.id for one in table.snapshots()]
        if ids != sorted(self._rows):
            fail(f"expected the snapshots {sorted(self._rows)}, found {ids}")
        if {name: kept.id for name, kept in table.tags().items()} != {
            n: at for n, (at, _) in self._tags.items()
        }:
            fail(f"expected the tags {self._tags}, found {table.tags()}")
        for at, expected in self._rows.items():
            if (found := _rows(table.to_arrow(snapshot=at, fresh=True))) != expected:
                fail(f"snapshot {at}: expected {expected}, found {found}")
        for tag, (_, expected) in self._tags.items():
            if (found := _rows(table.to_arrow(tag=tag, fresh=True))) != expected:
                fail(f"tag {tag}: expected {expected}, found {found}")
        if (found := _rows(table.to_arrow(fresh=True))) != self._latest:
            fail(f"expected {self._latest}, found {found}")
        self.hint_is_no_later_snapshot()

    @check
    @covers("CMT-13", "CMT-16")
    def hint_is_no_later_snapshot(self) -> None:
        """The hint of the earliest snapshot names that one or none: Paimon believes it if the snapshot is there."""
        folder, first = Path(self._path, SNAPSHOT.rstrip("-")), min(self._rows)
        hint = folder / EARLIEST
        named = hint.read_text() if hint.exists() else ""  # also if the disk was full
        if named not in ("", f"{first}") and (folder / f"{SNAPSHOT}{named}").exists():
            fail(f"the earliest snapshot is {first}, and the hint says {named}")

    @check
    @covers("CMT-28", "SAFE-5")
    def is_left_sound(self) -> None:
        """After a death each snapshot that is there reads as it did, or as the work that died left it."""
        table = Table.open(self._path)
        for one in table.snapshots():
            found = _rows(table.to_arrow(snapshot=one.id, fresh=True))
            if one.id in self._rows and found != self._rows[one.id]:
                fail(f"snapshot {one.id}: expected {self._rows[one.id]}, found {found}")
        findings = [str(one) for one in table.check().findings if one.severity == "error"]
        if findings:
            fail("; ".join(findings))

    @check
    @covers("CMT-45")
    def later_tags_forbid(self, error: InvalidRequestError | None) -> None:
        """A rollback below a snapshot that a tag keeps is refused, and the error says so."""
        if error is None or "tags keep later snapshots" not in str(error):
            fail(f"the tags {self._tags} keep later snapshots, and a rollback ended in {error}")

    @check
    @covers("CMT-26", "CMT-28")
    def nothing_more_is_left(self, before: set[str]) -> None:
        """There are no more files that nothing needs than there were."""
        left = self._orphans() - before
        if left:
            fail(f"files that nothing needs: {sorted(left)}")

    @check
    @covers("RD-10", "RD-18", "RD-19")
    def read_is_right(self, kind: str, found: Rows | None, allowed: Sequence[Rows | None]) -> None:
        """A read of what expires concurrently gives the rows of one snapshot, or says that it has gone."""
        if found not in allowed:
            fail(f"a read of {kind}: expected one of {allowed}, found {found}")

    @check
    @covers("RD-17", "RD-18")
    def has_gone(self, snapshot: int) -> None:
        """A snapshot that has expired is not read, nor a time before the first; the error says which there are."""
        table = Table.open(self._path)
        first = table.snapshots()[0]
        oldest = dt.datetime.fromtimestamp(first.time_millis / 1000, dt.timezone.utc).isoformat(
            timespec="milliseconds"
        )
        expected = f"the oldest of {oldest.removesuffix('+00:00').removesuffix('.000')}Z"
        past: dict[str, Any] = {"timestamp": first.time_millis - 1}
        for asked, text in ((past, expected), ({"snapshot": snapshot}, "")):
            try:
                table.to_arrow(**asked)
            except SnapshotNotFoundError as error:
                if text not in str(error):
                    fail(f"{asked}: {error}, which says nothing of {text}")
                continue
            fail(f"{asked} is read, though the first snapshot is {first.id} of {oldest}")

    def _orphans(self) -> set[str]:
        later = time.time_ns() // 1_000_000 + LATER
        found = Table.open(self._path).remove_orphans(older_than=later, dry_run=True)
        return {
            one.path for one in found if "/fence/" not in one.path
        }  # those of snapshots that were rolled back stay


def _arrow(rows: Rows) -> pa.Table:
    return pa.table({"k": pa.array(rows, pa.int32()), "v": pa.array(rows.values(), pa.string())})


def _rows(table: pa.Table) -> Rows:
    rows = {row["k"]: row["v"] for row in table.to_pylist()}
    if len(rows) != table.num_rows:
        fail(f"a key twice: {table.to_pylist()}")
    return rows
