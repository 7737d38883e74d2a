"""``python -m model_tests.processes.worker KIND TABLE LOG NUMBER STOP``: one process that works on the table.

KIND is one of KINDS. NUMBER is different for each process: the writes of process n have the numbers from n million on.
It works until there is a file STOP, or its parent has gone. Everything that the process does is in its LOG, before it
is done and after. Anything but an outcome that the table may have is an ``error`` there; the process goes on.
"""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.format.metadata.snapshot import Snapshot
from pktable.ingest.changes import ChangeKind
from pktable.store.file_io import LocalFileIO
from pktable_spec.errors import CommitConflictError, InvalidRequestError, SnapshotNotFoundError
from pktable_spec.vocabulary import RowKind

from model_tests.processes.content import digest_of, rows_of
from model_tests.processes.events import EventLog

MILLION: Final = 1_000_000
REOPEN: Final = 0.1
"""How often a handle is opened again, so that its caches are empty."""
SLOW: Final = 0.03
LONGEST_DELAY: Final = 1.5
"""Seconds."""
ORPHAN_AGE: Final = 60
"""Seconds. No write takes that long."""


class SlowStore(LocalFileIO):
    """A store that now and then takes its time before a put or a delete, so that others overtake."""

    def __init__(self, drawn: random.Random) -> None:
        self._random = drawn

    def _delay(self) -> None:
        if self._random.random() < SLOW:
            time.sleep(self._random.random() * LONGEST_DELAY)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._delay()
        done = super().put_if_absent(path, data)
        self._delay()
        return done

    def delete(self, path: str) -> None:
        if "/snapshot/" in path:  # others are many
            self._delay()
        super().delete(path)


class Worker:
    """One process's work."""

    def __init__(self, path: str, log: EventLog, number: int) -> None:
        self.path, self.log = path, log
        self.random = random.Random(number)
        self.number = number * MILLION
        self.table = self._opened()
        self.lost = 0
        self.tags: list[str] = []
        self.known: set[int] = set()

    def _opened(self) -> Table:
        """Open the table, and count how often its commits are tried again."""
        store = SlowStore(self.random) if self.random.random() < 0.5 else None
        table = Table.open(self.path, store=store)
        committer = table.catalog.committer

        def lose(seconds: float) -> None:
            self.lost += 1
            time.sleep(seconds)

        committer.policy = replace(committer.policy, sleep=lose)
        return table

    def run(self, kind: str, stop: str) -> None:
        """Work until there is a file ``stop``."""
        parent = os.getppid()
        self.log.write("start", kind=kind)
        work = getattr(self, f"_{kind}")
        while not os.path.exists(stop) and os.getppid() == parent:
            if self.random.random() < REOPEN:
                self.table = self._opened()
            try:
                work()
            except Exception as error:
                self.log.write("error", kind=kind, what=repr(error), trace=traceback.format_exc())
        self.log.write("end", kind=kind)

    def _counts(self) -> dict[str, int]:
        counts = {"lost": self.lost}
        self.lost = 0
        return counts

    def _commit(self, rows: pa.Table, change: ChangeKind, *, deletes: list[int] | None = None) -> None:
        """Commit rows under the next number; log it before, and its outcome after."""
        self.number += 1
        number = self.number
        self.log.write("try", number=number, deletes=deletes)
        try:
            staged = self.table.stage_write(rows, change, write_only=self.random.random() < 0.5)
            assert staged is not None
            staged.commit(CommitId("hammer", number))
        except CommitConflictError as error:
            if "its compaction is not" not in str(error):
                self.log.write("refused", number=number, what=str(error), **self._counts())
                return
        self.log.write("committed", number=number, **self._counts())

    def _writer(self) -> None:
        rows = rows_of(self.number + 1)
        self._commit(pa.table({"k": pa.array(rows, pa.int64()), "v": pa.array(rows.values())}), ChangeKind())

    def _deleter(self) -> None:
        keys = self.table.to_arrow(fresh=True, where="k > 0", columns=["k"], limit=200)["k"].to_pylist()
        if keys:
            gone = sorted(self.random.sample(keys, min(len(keys), 3)))
            change = ChangeKind(RowKind.DELETE, keys_only=True)
            self._commit(pa.table({"k": pa.array(gone, pa.int64())}), change, deletes=gone)
        time.sleep(0.05)

    def _compactor(self) -> None:
        full = self.random.random() < 0.1
        try:
            done = self.table.compact(full=full)
        except CommitConflictError as error:
            self.log.write("compaction refused", full=full, what=str(error), **self._counts())
            return
        self.log.write("compacted", full=full, snapshot=done, **self._counts())
        time.sleep(self.random.random() * 0.05)

    def _expirer(self) -> None:
        time.sleep(self.random.random() * 0.2)
        snapshots = self.table.snapshots()
        if not snapshots:
            return
        self._see(snapshots)
        # Only snapshots that are in the log now, so that the log has all there ever were.
        limit = snapshots[-1].time_millis
        expired = self.table.expire_snapshots(retain_last=self.random.choice((1, 1, 2, 8)), older_than=limit)
        self.log.write("expired", ids=expired)
        if self.random.random() < 0.05:
            limit = int((time.time() - ORPHAN_AGE) * 1000)
            self.log.write("cleaned", files=len(self.table.remove_orphans(older_than=limit)))

    def _see(self, snapshots: list[Snapshot]) -> None:
        """Log the snapshots that this process has not logged yet."""
        for one in snapshots:
            if one.id not in self.known:
                self.known.add(one.id)
                self.log.write("snapshot", **facts_of(one))

    def _tagger(self) -> None:
        time.sleep(self.random.random() * 0.2)
        snapshots = self.table.snapshots()
        if not snapshots:
            return
        self._see(snapshots)
        name = f"t-{self.number}-{len(self.tags)}"
        try:
            self.table.create_tag(name, snapshot=self.random.choice(snapshots).id)
        except SnapshotNotFoundError:
            self.log.write("tag too late")
            return
        self.tags.append(name)
        tags = self.table.tags()
        for tag in self.random.sample(sorted(tags), min(len(tags), 2)):
            self._read_tag(tag, tags[tag])
        if len(tags) > 5:
            try:
                self.table.delete_tag(self.random.choice(sorted(tags)))
            except SnapshotNotFoundError:  # another tagger has deleted it
                return

    def _read_tag(self, tag: str, kept: Snapshot) -> None:
        try:
            rows = self.table.to_arrow(tag=tag, fresh=True)
        except SnapshotNotFoundError:  # another tagger has deleted it
            return
        self.log.write("read tag", low=kept.id, high=kept.id, digest=digest_of(rows))

    def _reader(self) -> None:
        began, table = time.monotonic(), self.table
        low = table.catalog.snapshots.latest_id() or 0
        rows = table.to_arrow(fresh=True)
        high = table.catalog.snapshots.latest_id() or 0
        self.log.write("read latest", low=low, high=high, digest=digest_of(rows), began=began)
        snapshots = table.snapshots()
        self._see(snapshots)
        for one in self.random.sample(snapshots, min(len(snapshots), 3)):
            try:
                rows = table.to_arrow(snapshot=one.id, fresh=True)
                visible = table.to_arrow(snapshot=one.id)
            except SnapshotNotFoundError:
                self.log.write("read too late")
                continue
            self.log.write("read", low=one.id, high=one.id, digest=digest_of(rows))
            self._expect_own_values(visible)

    def _expect_own_values(self, rows: pa.Table) -> None:
        """A default read holds no key twice, and of each key a value that was written to it."""
        found: list[dict[str, Any]] = rows.to_pylist()
        if len({row["k"] for row in found}) != len(found):
            raise AssertionError("a default read holds a key twice")
        if any(rows_of(row["v"]).get(row["k"]) != row["v"] for row in found):
            raise AssertionError("a default read holds a value that was not written to its key")


KINDS: Final = ("writer", "deleter", "compactor", "expirer", "tagger", "reader")


def facts_of(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the log keeps of a snapshot."""
    return {
        "id": snapshot.id,
        "name": snapshot.delta_manifest_list,
        "kind": snapshot.commit_kind,
        "user": snapshot.commit_user,
        "number": snapshot.commit_identifier,
    }


def main(kind: str, path: str, log: str, number: str, stop: str) -> None:
    """Work."""
    events = EventLog(Path(log))
    try:
        worker = Worker(path, events, int(number))
    except (InvalidRequestError, OSError) as error:
        events.write("error", kind=kind, what=repr(error), trace=traceback.format_exc())
        return
    worker.run(kind, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
