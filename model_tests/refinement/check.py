"""Every snapshot of a table on disk is a step of the oracle's mechanism.

What a write adds must be a level-0 file numbered above all others; what a compaction changes must be, record
by record and mark by mark, what the mechanism does for one of the allowed picks. Sizes decide which pick, and
where outputs are cut into files: both are left to the table.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pktable_spec.covers import covers
from pktable_spec.model import picks
from pktable_spec.model.levels import FileId, LiveFile, Record
from pktable_spec.model.mechanism import Mechanism, Plan, State
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import APPEND, COMPACT

from model_tests.refinement.disk_state import Abstraction, Bucket, Directory


class Refinement:
    """Follows one table directory, snapshot by snapshot."""

    def __init__(self, path: Path, options: ModelOptions) -> None:
        self.abstraction = Abstraction(Directory(path))
        self.mechanism = Mechanism(options)

    @covers(
        "CMT-2", "CMP-9", "CMP-12", "CMP-13", "CMP-14", "DV-6", "DV-7", "DV-8", "DV-10", "META-2", "META-3"
    )
    def follow(self, latest: int, *, beside: bool = False) -> int:
        """Check the snapshots up to ``latest`` that were not checked yet; return how many.

        ``beside``: they were written by writers that do not look at each other's numbers.
        Raises AssertionError for a snapshot that is no step of the mechanism.
        """
        done = 0
        while self.abstraction.snapshots < latest:
            changed = self.abstraction.follow()
            snapshot = self.abstraction.snapshots
            kind = self.abstraction.directory.kind(snapshot)
            assert changed, f"snapshot {snapshot} changes nothing"
            for bucket, (before, after) in changed.items():
                if kind == APPEND:
                    self._is_write(before, after, numbered=not beside)
                else:
                    assert kind == COMPACT, kind
                    self._is_compaction(bucket, before, after)
            done += 1
        return done

    def _is_write(self, before: State, after: State, *, numbered: bool) -> None:
        new = after.live - before.live
        assert before.live <= after.live, f"a write removes {before.live - after.live}"
        assert after.vectors == before.vectors, "a write changes no vector"
        assert all(level == 0 for _, level in new), f"a write goes to level 0, found {new}"
        # One sorted run, cut into files where they reach their size: the keys of a file need not be
        # numbered above those of the file before.
        run = sorted((after.files[file] for file, _ in new), key=lambda data: data.min_key)
        keys = [record.key for data in run for record in data.records]
        assert keys == sorted(set(keys)), f"keys ascend, each once: {keys}"
        next_sequence = self.mechanism.next_sequence(before)
        for data in run:
            assert data.min_sequence >= next_sequence or not numbered, (
                f"{data} is not numbered from {next_sequence}"
            )
        numbers = [record.sequence for data in run for record in data.records]
        assert len(numbers) == len(set(numbers)), f"numbers are given once: {numbers}"

    def _is_compaction(self, bucket: Bucket, before: State, after: State) -> None:
        removed, created = before.live - after.live, after.live - before.live
        rewritten = {file for file, _ in removed} - {file for file, _ in created}
        found = _effect(before, after)
        allowed = []
        for base in self._bases(self.abstraction.states[bucket][:-1]):
            for plan in self._plans(base, removed, rewritten):
                planned = before._replace(pending=(("compaction", plan),))
                committed = self.mechanism.commit_compaction(planned, "compaction")
                if committed != before:
                    allowed.append(_effect(before, committed))
                    if allowed[-1] == found:
                        return
        raise AssertionError(
            f"no step of the mechanism: {removed} gave {reprlib.repr(found)}, allowed is {reprlib.repr(allowed)}"
        )

    def _bases(self, states: Sequence[State]) -> Iterator[State]:
        """Yield what a compaction may have been planned on: each state up to the last, to which it is committed.

        A write plans its own on what it is about to make of an earlier state, if no other write comes between.
        Clauses: CMP-17, CMT-18.
        """
        yield from reversed(states)
        if len(states) < 2:
            return
        *earlier, before, last = states
        own = {file for file, _ in last.live - before.live}
        for base in reversed(earlier):
            written = range(len(base.files), len(last.files))
            if own == {file for file in written if last.files[file].born == 0}:
                yield base._replace(files=last.files, live=base.live | (last.live - before.live))

    def _plans(self, base: State, removed: frozenset[LiveFile], rewritten: set[FileId]) -> Iterator[Plan]:
        """Yield what the allowed compactions of ``base`` do that take away ``removed``, some of it ``rewritten``."""
        runs = self.mechanism.runs(base)
        full = picks.full_pick(runs, self.mechanism.options)
        for pick in [*picks.allowed_picks(runs, self.mechanism.options), *([full] if full else [])]:
            if removed <= {(file.name, file.level) for file in pick.files}:
                plan = self.mechanism.plan(base, pick, lambda file: file.name not in rewritten)
                if plan.inputs == removed:
                    yield plan


def _effect(before: State, after: State) -> tuple[object, ...]:
    """Return what a compaction made: files at another level, per level the new records in order, vectors."""
    created = after.live - before.live
    moved = frozenset(entry for entry in created if entry[0] < len(before.files))
    records: dict[int, list[Record]] = {}
    for level, _, file in sorted((level, after.files[file].min_key, file) for file, level in created - moved):
        records.setdefault(level, []).extend(after.files[file].records)
    return moved, records, after.vectors
