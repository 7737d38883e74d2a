"""Check that every snapshot of a table on disk is a step of the oracle's mechanism.

A write must add one run at level 0, or more if retractions are kept apart, numbered above all others. A compaction must
change, record by record and position by position, what the mechanism changes for one of the allowed picks. Sizes decide
which pick, and where outputs are cut into files: both are left to the table.
"""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.model import picks
from pktable_spec.model.levels import DataFile, FileId, LiveFile, Record
from pktable_spec.model.mechanism import Mechanism, Plan, State
from pktable_spec.model.merge import retracts_apart
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import APPEND, COMPACT, OVERWRITE

from model_tests.refinement.disk_state import Abstraction, Bucket, Directory

PARQUET_MAGIC_BYTES = 4


class Refinement:
    """Follows one table directory, snapshot by snapshot."""

    def __init__(self, path: Path, options: ModelOptions) -> None:
        self.abstraction = Abstraction(Directory(path))
        self.mechanism = Mechanism(options)

    def follow(self, latest: int, *, concurrent: bool = False) -> int:
        """Check the snapshots up to ``latest`` that were not checked yet; return how many.

        ``concurrent``: they were written by writers that do not look at each other's numbers.
        Raises CheckFailed for a snapshot that is no step of the mechanism.
        """
        done = 0
        while self.abstraction.snapshots < latest:
            changed = self.abstraction.follow()
            kind = self.abstraction.directory.kind(self.abstraction.snapshots)
            self.snapshot_is_a_step(kind, changed, concurrent=concurrent)
            self.files_are_closed_in_time()
            done += 1
        return done

    @check
    @covers("CMP-15")
    def files_are_closed_in_time(self) -> None:
        """No row group was added to a file that had reached its target size."""
        for name, start in self.abstraction.directory.last_groups.items():
            if start >= self.mechanism.options.target_file_size and start > PARQUET_MAGIC_BYTES:
                fail(f"{name} had {start} bytes when its last row group was begun")
        self.abstraction.directory.last_groups.clear()

    @contextlib.contextmanager
    def removal(self) -> Iterator[None]:
        """Check that what is done within removes files that nothing names any more, and no others."""
        directory = self.abstraction.directory
        before = directory.stored() - directory.named()
        yield
        named, stored = directory.named(), directory.stored()
        self.exactly_what_is_unnamed_was_removed(missing=named - stored, left=stored - named - before)

    @check
    @covers("CMT-16", "CMT-17", "CMT-31")
    def exactly_what_is_unnamed_was_removed(self, *, missing: set[str], left: set[str]) -> None:
        if missing:
            fail(f"files were removed that a snapshot or a tag needs: {sorted(missing)}")
        if left:
            fail(f"files were left that no snapshot and no tag needs: {sorted(left)}")

    @check
    @covers("CMT-2", "CMT-21", "META-2", "META-3")
    def snapshot_is_a_step(
        self, kind: str, changed: Mapping[Bucket, tuple[State, State]], *, concurrent: bool
    ) -> None:
        """Check that a snapshot is a write, an overwrite or a compaction of the buckets that it changed."""
        if not changed:
            fail(f"snapshot {self.abstraction.snapshots} changes nothing")
        if kind not in (APPEND, COMPACT, OVERWRITE):
            fail(
                f"snapshot {self.abstraction.snapshots} is neither APPEND, COMPACT nor OVERWRITE, but {kind}"
            )
        for bucket, (before, after) in changed.items():
            if kind == OVERWRITE:
                self.overwrite_is_a_step(before, after)
            elif kind == APPEND:
                self.write_is_a_step(before, after, numbered=not concurrent)
            else:
                self.compaction_is_a_step(bucket, before, after)

    def overwrite_is_a_step(self, before: State, after: State) -> None:
        """Check that nothing was left of a bucket, and that at most one sorted run was added.

        Where default reads skip level 0 it is at the greatest level, to which a compaction takes what is alone.
        Elsewhere it may be there if its rows can have filled as many files as make a compaction.
        """
        left = {file for file, _ in before.live} & {file for file, _ in after.live}
        if left:
            fail(f"an overwrite left {left}")
        options, new = self.mechanism.options, after.live - before.live
        many = sum(len(after.files[file].records) for file, _ in new) >= options.trigger
        lifted = options.compacts_level_zero or (many and {level for _, level in new} == {options.max_level})
        level = options.max_level if lifted else 0
        self.write_is_a_step(State(files=before.files), after, numbered=True, level=level)

    @check
    @covers("CMT-2", "LSM-1", "LSM-2", "LSM-5", "DV-14")
    def write_is_a_step(self, before: State, after: State, *, numbered: bool, level: int = 0) -> None:
        """Check that one sorted run was added at ``level``. ``numbered``: above all that was live."""
        new = after.live - before.live
        if not before.live <= after.live:
            fail(f"a write removed {before.live - after.live}")
        if after.vectors != before.vectors:
            fail(f"a write changed vectors: {before.vectors ^ after.vectors}")
        if any(found != level for _, found in new):
            fail(f"a write goes to level {level}, found {new}")
        # One sorted run, cut into files where they reach their size: the keys of a file need not be
        # numbered above those of the file before.
        run = sorted((after.files[file] for file, _ in new), key=lambda data: data.min_key)
        self.run_ascends(run)
        next_sequence = self.mechanism.next_sequence(before)
        for data in run:
            if numbered and data.min_sequence < next_sequence:
                fail(f"sequence numbers start at {next_sequence}, found {data}")
        numbers = [record.sequence for data in run for record in data.records]
        if len(numbers) != len(set(numbers)):
            fail(f"sequence numbers are given once, found {numbers}")

    def run_ascends(self, files: Sequence[DataFile]) -> None:
        """Check that a write has each key once, or with retractions that are kept apart, a file of it."""
        apart = retracts_apart(self.mechanism.options.merge_engine)
        for run in [[file] for file in files] if apart else [files]:
            keys = [record.key for data in run for record in data.records]
            if keys != sorted(set(keys)):
                fail(f"keys ascend in a run, each once; found {keys}")

    @check
    @covers(
        "CMP-9", "CMP-12", "CMP-13", "CMP-14", "CMP-23", "CMP-24", "DV-6", "DV-7", "DV-8", "DV-10", "DV-17"
    )
    def compaction_is_a_step(self, bucket: Bucket, before: State, after: State) -> None:
        """Check that the mechanism does the same for one of the picks it allows, planned on some state so far."""
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
        fail(f"{removed} became {reprlib.repr(found)}, allowed is {reprlib.repr(allowed)}")

    def _bases(self, states: Sequence[State]) -> Iterator[State]:
        """Yield the states a compaction may have been planned on: each up to the last, on which it is committed.

        A write plans its own on the state that it is about to make, if no other write comes between.
        Clauses: CMP-17, CMT-33.
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
        """Yield the plans of the allowed compactions of ``base`` that remove ``removed``, some of it ``rewritten``."""
        runs = self.mechanism.runs(base)
        full = picks.full_pick(runs, self.mechanism.options)
        for pick in [*picks.allowed_picks(runs, self.mechanism.options), *([full] if full else [])]:
            if removed <= {(file.name, file.level) for file in pick.files}:
                plan = self.mechanism.plan(base, pick, lambda file: file.name not in rewritten)
                if plan.inputs == removed:
                    yield plan


def _effect(before: State, after: State) -> tuple[object, ...]:
    """Return the result of a compaction: files at another level, new records per level in order, vectors.

    Where new records are cut into files may differ: a deleted one of them is given by its place in its level.
    """
    created = after.live - before.live
    moved = frozenset(entry for entry in created if entry[0] < len(before.files))
    records: dict[int, list[Record]] = {}
    places: dict[FileId, tuple[int, int]] = {}
    for level, _, file in sorted((level, after.files[file].min_key, file) for file, level in created - moved):
        places[file] = level, len(records.setdefault(level, []))
        records[level].extend(after.files[file].records)
    deleted = frozenset(
        ("new", places[file][0], places[file][1] + position) if file in places else (file, position)
        for file, position in after.vectors
    )
    return moved, records, deleted
