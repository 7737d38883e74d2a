"""The directions in which histories go between implementations, and how many of each a run plays.

Whatever the direction, everyone reads every snapshot in the end. Hypothesis draws the histories and makes a
failing one small.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from model_tests.interop.append_histories import append_histories
from model_tests.interop.append_outcomes import AppendPlayed
from model_tests.interop.environments import JVM, JVMS, NEWER_JVM, PYPAIMON, RUST
from model_tests.interop.histories import (
    EVERYTHING,
    FOR_JVM,
    FOR_LEVEL_ZERO,
    FOR_NEWER_JVM,
    Actor,
    History,
    Universe,
    histories,
)
from model_tests.interop.limits import LIMITS
from model_tests.interop.long_histories import long_histories
from model_tests.interop.outcomes import OURS, Played, Tally, compare
from model_tests.interop.peers import Peer
from model_tests.interop.retracting_histories import retracting_histories

US: Final = Actor(OURS)
SHRINKING_SECONDS: Final = 60


@dataclass(frozen=True)
class Direction:
    """Who writes and compacts tables that whom has created.

    ``weight``: its share of the histories. ``append``: whether these are of append tables. ``engines``: whether all of
    them know the merge engines that can be drawn. ``ordered``: whether the tables have the option ``sequence.field``.
    ``row_ids``: whether all of them know row tracking of append tables.
    There are no long histories of append tables and of ordered ones.
    """

    name: str
    actors: tuple[Actor, ...]
    creators: tuple[str, ...]
    weight: float = 1
    bitmap64: bool = True
    append: bool = False
    engines: bool = True
    ordered: bool = False
    row_ids: bool = False

    @property
    def writers(self) -> frozenset[str]:
        return frozenset({actor.name for actor in self.actors} | set(self.creators))

    def histories(self) -> SearchStrategy[History]:
        """Draw short histories."""
        if self.append:
            return append_histories(
                self.actors, self.creators, self.universe, bitmap64=self.bitmap64, row_ids=self.row_ids
            )
        return histories(
            self.actors,
            self.creators,
            self.universe,
            bitmap64=self.bitmap64,
            engines=self.engines,
            ordered=self.ordered,
        )

    @property
    def universe(self) -> Universe:
        """The keys and partitions that every writer can write."""
        if NEWER_JVM in self.writers:
            return FOR_NEWER_JVM
        if JVM in self.writers:
            return FOR_JVM
        return EVERYTHING if self.writers == {OURS} else FOR_LEVEL_ZERO

    def retracting_histories(self) -> SearchStrategy[History]:
        """Draw small histories of tables that take retractions back."""
        return retracting_histories(self.actors, self.creators, self.universe, bitmap64=self.bitmap64)

    def long_histories(self) -> SearchStrategy[History]:
        """Draw histories of thousands of rows."""
        return long_histories(self.actors, self.creators, bitmap64=self.bitmap64)


def level_zero_writer(name: str) -> Actor:
    """A peer that writes inserts as files of level 0 and does nothing else (see `probes`)."""
    return Actor(name, compacts=False, retracts=False)


COMPACTS_BUCKETS: Final = Actor(JVM, changes="nothing", compacts_unaware=False)
CHANGES_ROWS: Final = Actor(NEWER_JVM, changes="rows")


DIRECTIONS: Final = (
    Direction("pktable writes and compacts", (US,), (OURS,), weight=2),
    Direction("pktable orders records by the user", (US,), (OURS,), ordered=True),
    *(Direction(f"{jvm} writes and compacts", (Actor(jvm),), (jvm,)) for jvm in JVMS),
    *(
        # Paimon 0.9 cannot compact what has 64-bit vectors (see `probes`).
        Direction(f"pktable and {jvm} in turn", (US, Actor(jvm)), (OURS, jvm), bitmap64=jvm != JVM)
        for jvm in JVMS
    ),
    *(
        Direction(
            f"{peer} writes level 0, pktable compacts", (US, level_zero_writer(peer)), (OURS,), engines=False
        )
        for peer in (PYPAIMON, RUST)
    ),
    Direction("append tables: pktable alone", (US,), (OURS,), weight=0.5, append=True, row_ids=True),
    Direction(
        "append tables: pktable and paimon-jvm 0.9.0 in turn",
        (US, COMPACTS_BUCKETS),
        (OURS, JVM),
        weight=0.5,
        bitmap64=False,
        append=True,
    ),
    Direction(
        "append tables: pktable and paimon-jvm 1.4.2 in turn",
        (US, CHANGES_ROWS),
        (OURS, NEWER_JVM),
        append=True,
        row_ids=True,
    ),
    *(
        Direction(
            f"append tables: {peer} adds rows, pktable changes them",
            (US, Actor(peer, compacts=False, changes="nothing")),
            (OURS,),
            weight=0.5,
            append=True,
        )
        for peer in (PYPAIMON, RUST)
    ),
)


@dataclass
class Result:
    """The result of a direction. ``failure``: the message and the smallest history that led to it."""

    name: str
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    failure: tuple[str, History] | None = None


class Bench:
    """The peers, and a warehouse that tables come into and go from."""

    def __init__(self, folder: Path, peers: Mapping[str, Peer]) -> None:
        self.peers = peers
        self._database, self._numbers = folder / "interop.db", itertools.count()

    @contextmanager
    def played(self, history: History) -> Iterator[Played]:
        """Play a history on a new table, which is gone afterwards. Raises what `Played.play` raises."""
        path = self._database / f"t{next(self._numbers)}"
        try:
            kind = Played if history.definition.primary_key else AppendPlayed
            played = kind(history, path, self.peers)
            played.play()
            yield played
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def check(self, history: History, readers: Sequence[str], tally: Tally) -> None:
        """Play a history and compare what ``readers`` and pktable read."""
        with self.played(history) as played:
            compare(played, [self.peers[name] for name in readers], LIMITS, tally)

    def play(self, name: str, histories: Iterable[History], readers: Sequence[str]) -> Result:
        """Check some histories; stop at a failure."""
        result, started = Result(name), time.monotonic()
        for history in histories:
            try:
                self.check(history, readers, result.tally)
            except Exception as failure:  # whatever is raised is a mismatch, and the history says which
                result.failure = (f"{type(failure).__name__}: {failure}", history)
                break
        result.seconds = time.monotonic() - started
        return result

    def run(
        self,
        name: str,
        drawn: SearchStrategy[History],
        readers: Sequence[str],
        *,
        count: int,
        first: int,
        shrinks: bool = True,
    ) -> Result:
        """Check ``count`` histories drawn from the seed ``first``; stop at a failure, made small if it ``shrinks``."""
        result, smallest = Result(name), _Smallest()

        @seed(first)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(drawn)
        def check(history: History) -> None:
            if not smallest.is_decided(history):
                with smallest.looking_at(history):
                    self.check(history, readers, result.tally)

        started = time.monotonic()
        try:
            check()
        except Exception as failure:  # whatever is raised is a mismatch, and the history says which
            assert smallest.history is not None
            result.failure = (f"{type(failure).__name__}: {failure}", smallest.history)
        result.seconds = time.monotonic() - started
        return result


class _Smallest:
    """The last failing history. Hypothesis ends with a run of the smallest one it found.

    Making a history small ends after `SHRINKING_SECONDS`: then what failed fails again, all else passes.
    """

    def __init__(self) -> None:
        self.history: History | None = None
        self._failures: dict[str, Exception] = {}
        self._deadline = math.inf

    def is_decided(self, history: History) -> bool:
        """Whether there is no need to play ``history``. Raises what it failed with, if it is time."""
        if time.monotonic() < self._deadline:
            return False
        if repr(history) in self._failures:
            self.history = history
            raise self._failures[repr(history)]
        return True

    @contextmanager
    def looking_at(self, history: History) -> Iterator[None]:
        """Remember ``history`` if what is done fails."""
        try:
            yield
        except Exception as failure:
            self._deadline = min(self._deadline, time.monotonic() + SHRINKING_SECONDS)
            self.history, self._failures[repr(history)] = history, failure
            raise
