"""Start workers on a table, kill and stop some of them, start others in their place, and look at what is left.

At the end, with nobody at work:

1. The logs of the workers are judged (`judge`), with reads of all that is retained.
2. ``check`` finds nothing, or only files that killed workers left behind.
3. After a compaction a default read is a fresh read. After an expiry, without tags and orphans, no file is left over.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pktable import Table
from pktable_spec.errors import PkTableError, SnapshotNotFoundError

from model_tests.patience import wait_for
from model_tests.processes.content import COLUMNS, digest_of
from model_tests.processes.events import Event, EventLog, read_events
from model_tests.processes.judge import Verdict, judge
from model_tests.processes.worker import facts_of

ROOT: Final = Path(__file__).parents[2]
CREW: Final = (
    *("writer", "compactor", "reader", "expirer", "writer", "deleter", "tagger", "expirer"),
    *("writer", "compactor", "writer", "reader", "tagger", "deleter", "writer", "writer"),
)
"""The kinds of the first workers, in this order, and again from the front."""
OPTIONS: Final = {"deletion-vectors.enabled": "true", "manifest.merge-min-count": "5"}
KILL_EVERY: Final = 0.6
"""Seconds, about."""
LEAST_LOGGED: Final = 2_000
"""Bytes that the workers log between two kills, about twenty events."""
TURNS: Final = 100
"""How many workers are killed or paused at most until all that is wanted has been counted."""
PAUSES: Final = 0.5
"""How often a worker is stopped for a while, and not killed. Others overtake it, and what it is about to commit
may have expired by the time it goes on."""
STOP: Final = "stop"


@dataclass
class Hammer:
    """A run.

    ``seconds``: how long workers work, and longer until something has been counted under each name of ``wanted``;
    ``buckets``: of the table; ``kills``: whether some workers are killed, and some stopped for a while.
    """

    folder: Path
    seconds: float
    workers: int
    buckets: int = 1
    kills: bool = False
    seed: int = 0
    wanted: Sequence[str] = ()
    killed: Counter[str] = field(default_factory=Counter)
    pauses: int = 0
    _started: int = 0

    def run(self) -> Verdict:
        """Run, and return what was found."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = str(self.folder / "table")
        table = Table.create(path, COLUMNS, primary_key="k", options={**OPTIONS, "bucket": str(self.buckets)})
        self._work(path)
        log = EventLog(self.folder / "0.log")
        problems: list[str] = []
        try:
            for event in _retained(table):
                log.write(event.pop("event"), **event)
            problems += self._left(Table.open(path))
        except PkTableError as error:
            problems.append(f"at the end: {error}")
        verdict = self._judged()
        verdict.problems += problems
        return verdict

    def _judged(self) -> Verdict:
        verdict = judge([event for path in self.folder.glob("*.log") for event in read_events(path)])
        verdict.counts |= Counter(kills=self.killed.total(), pauses=self.pauses)
        return verdict

    def _work(self, path: str) -> None:
        """Let the workers work. The time begins when all have started."""
        drawn = random.Random(self.seed)
        kinds = [CREW[slot % len(CREW)] for slot in range(self.workers)]
        crew = [self._start(kind, path) for kind in kinds]
        try:
            wait_for(
                lambda: sum(map(_has_started, self.folder.glob("*.log"))) >= self.workers,
                "that all workers have started",
                failure=lambda: next(
                    (f"{one.args!r} has ended" for one in crew if one.poll() is not None), ""
                ),
            )
            until, turns = time.monotonic() + self.seconds, 0
            while time.monotonic() < until or (self._lacks() and turns < TURNS):
                turns += 1
                self._let_work(KILL_EVERY * drawn.uniform(0.2, 1.8))
                slot = drawn.randrange(self.workers)
                if self.kills and drawn.random() < PAUSES:
                    crew[slot].send_signal(signal.SIGSTOP)
                    self.pauses += 1
                    self._let_work(KILL_EVERY)
                    crew[slot].send_signal(signal.SIGCONT)
                elif self.kills:
                    crew[slot].kill()
                    crew[slot].wait()
                    self.killed[kinds[slot]] += 1
                    crew[slot] = self._start(kinds[slot], path)
            (self.folder / STOP).touch()
            wait_for(lambda: all(one.poll() is not None for one in crew), "an end of all workers")
        finally:
            for process in crew:
                process.kill()
                process.wait()

    def _let_work(self, seconds: float) -> None:
        """Return after so many seconds in which the workers have done something, however slow the machine is."""
        before = self._logged()
        time.sleep(seconds)
        wait_for(lambda: self._logged() > before + LEAST_LOGGED, "that the workers work")

    def _logged(self) -> int:
        return sum(log.stat().st_size for log in self.folder.glob("*.log"))

    def _lacks(self) -> list[str]:
        """Return which of the wanted names nothing was counted under."""
        counts = self._judged().counts if self.wanted else Counter()
        return [name for name in self.wanted if not counts[name]]

    def _start(self, kind: str, path: str) -> subprocess.Popen[bytes]:
        self._started += 1
        number = str(self._started)
        command = [sys.executable, "-m", "model_tests.processes.worker", kind, path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        log, stop = str(self.folder / f"{number}.log"), str(self.folder / STOP)
        return subprocess.Popen([*command, log, number, stop], cwd=ROOT, env=environment)

    def _left(self, table: Table) -> Iterator[str]:
        """Yield what is wrong with the table now that nobody works."""
        tolerated = ("CMT-12", "CMT-28", "CMT-30", "CMT-40") if self.killed else ()
        for finding in table.check().findings:
            if finding.severity == "error" or finding.clause not in tolerated:
                yield f"check: {finding}"
        fresh = digest_of(table.to_arrow(fresh=True))
        table.compact(full=True)
        if not fresh == digest_of(table.to_arrow(fresh=True)) == digest_of(table.to_arrow()):
            yield "a full compaction has changed the rows"
        for tag in table.tags():
            table.delete_tag(tag)
        table.expire_snapshots(retain_last=1)
        orphans = table.remove_orphans(older_than=int((time.time() + 60) * 1000))
        if orphans and not self.killed:
            yield f"nobody was killed, and there were {len(orphans)} orphans: {orphans[0].path}"
        for finding in table.check().findings:
            yield f"check, after the orphans were removed: {finding}"
        if digest_of(table.to_arrow()) != fresh:
            yield "the removal of orphans has changed the rows"


def _retained(table: Table) -> Iterator[Event]:
    """Yield the retained snapshots, and a read of each and of each tag."""
    for one in table.snapshots():
        yield {"event": "snapshot", **facts_of(one)}
        rows = table.to_arrow(snapshot=one.id, fresh=True)
        yield {"event": "read", "low": one.id, "high": one.id, "digest": digest_of(rows)}
    for tag, kept in table.tags().items():
        try:
            rows = table.to_arrow(tag=tag, fresh=True)
        except SnapshotNotFoundError as error:
            raise AssertionError(f"nobody works, and tag {tag} has gone") from error
        yield {"event": "read tag", "low": kept.id, "high": kept.id, "digest": digest_of(rows)}


def _has_started(log: Path) -> bool:
    return any(event["event"] == "start" for event in read_events(log))
