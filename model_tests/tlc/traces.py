"""Traces of tables, which TLC checks against module Traces: is each a behaviour of the specification?

An `Event` is an action, and what can be seen of one bucket afterwards: everything in it can be read from a table on
disk. File names are opaque. A trace does not say which compaction was planned: TLC finds out whether some allowed one
explains the files it left, for many traces in one run.

The subtle case is numbering. TLA+ knows keys, rows and files as numbers: keys are numbered by their order,
rows as they come, files in the order of their commits and, within one commit, of their keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any, Final, Protocol

from pktable_spec.errors import InvalidRequestError
from pktable_spec.interface import BucketId, Key, Row, Shape, ShowsRecords, StoredRecord, TableUnderTest
from pktable_spec.model.buckets import bucket_of
from pktable_spec.model.graph import plans
from pktable_spec.model.levels import KeyedChange
from pktable_spec.model.mechanism import EMPTY, Mechanism, StagedWrite, State
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import APPEND, RowKind

from model_tests.tlc.checker import outcome, printed_for
from model_tests.tlc.models import PASSES, Expected, Model
from model_tests.tlc.values import spelled

ENDS: Final = ("CommitCompaction", "RefuseCompaction", "Crash")
EXPLAINED: Final = re.compile(r'<<"explained", (\d+), (\d+)>>')
UNBOUNDED: Final = 10**6


@dataclass(frozen=True)
class SeenFile:
    """A live data file: any name, its level, and all its records by position, vectors not applied."""

    name: str
    level: int
    records: tuple[StoredRecord, ...]


@dataclass(frozen=True)
class Observation:
    """The visible state of a bucket: the latest snapshot's id, its live files, ``(file name, position)`` of every
    deleted record (from 0), and the rows of a default read with their trimmed keys."""

    snapshot: int = 0
    files: tuple[SeenFile, ...] = ()
    vectors: frozenset[tuple[str, int]] = frozenset()
    rows: tuple[tuple[Key, Row], ...] = ()


@dataclass(frozen=True)
class Event:
    """One step: who did what, and what is seen after it.

    ``action`` is Write, BeginWrite, CommitWrite, PlanCompaction, CommitCompaction, RefuseCompaction or
    Crash, as in module DeletionVectors; ``job`` is a name of the staged work, "" for Write.
    """

    action: str
    job: str
    after: Observation


@dataclass(frozen=True)
class Trace:
    """The events of one bucket from its creation on, and the options its picks depend on."""

    events: tuple[Event, ...]
    levels: int
    trigger: int
    vectors: bool = True


@dataclass(frozen=True)
class Verdict:
    """How many events of a trace are explained; ``accepted`` if all are."""

    explained: int
    events: int

    @property
    def accepted(self) -> bool:
        return self.explained == self.events


def accepts(traces: Sequence[Trace], batch: int = 50, side_by_side: int = 2) -> list[Verdict]:
    """Return how far each trace is a behaviour of the specification.

    At most ``batch`` traces of equal options share a run of TLC. Raises InvalidRequestError where TLC fails.
    """
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for number, trace in enumerate(traces):
        alike.setdefault((trace.levels, trace.trigger, trace.vectors), []).append(number)
    parts = [part[start : start + batch] for part in alike.values() for start in range(0, len(part), batch)]
    with ThreadPoolExecutor(side_by_side) as pool:
        verdicts = pool.map(_run, [[traces[number] for number in part] for part in parts])
        found = {
            number: one
            for part, ones in zip(parts, verdicts, strict=True)
            for number, one in zip(part, ones, strict=True)
        }
    return [found[number] for number in range(len(traces))]


def _run(traces: Sequence[Trace]) -> list[Verdict]:
    reached = explained(model_of(traces), "TraceData", data_of(traces), len(traces))
    return [Verdict(one, len(trace.events)) for one, trace in zip(reached, traces, strict=True)]


def explained(model: Model, module: str, data: str, count: int) -> list[int]:
    """Return how many events TLC explains of each of ``count`` traces.

    ``data``: the text of the module that holds them. Raises InvalidRequestError where TLC fails.
    """
    found = outcome(model, printed_for({**model.files(), f"{module}.tla": data}))
    if found.violated != PASSES:
        raise InvalidRequestError(f"expected TLC to read {count} traces, found {found.violated}")
    reached = [0] * count
    for trace, at in EXPLAINED.findall(found.printed):
        reached[int(trace) - 1] = max(reached[int(trace) - 1], int(at))
    return reached


def model_of(traces: Sequence[Trace]) -> Model:
    """Return the model that reads traces of equal options."""
    jobs: dict[bool, set[str]] = {True: set(), False: set()}
    for event in (event for trace in traces for event in trace.events if event.job):
        if event.action != "Crash":
            jobs[event.action.endswith("Write")].add(event.job)
    constants: dict[str, Any] = {
        "Batches": [],
        "Writers": f"{{{', '.join(map(spelled, sorted(jobs[True])))}}}",
        "Compactors": f"{{{', '.join(map(spelled, sorted(jobs[False])))}}}",
        "WriteLimit": UNBOUNDED,
        "CompactionLimit": UNBOUNDED,
        "Crashes": True,
        "Vectors": traces[0].vectors,
        "MaxLevel": traces[0].levels - 1,
        "Trigger": traces[0].trigger,
    }
    return Model(
        "traces",
        "",
        "Traces",
        constants,
        Expected(PASSES, 0),
        "TraceSpec",
        invariants=("TraceTypeOK",),
        replaces={"Rolled": "CutAsSeen"},
    )


def data_of(traces: Sequence[Trace]) -> str:
    """Return the module TraceData that holds ``traces``."""
    events = ",\n".join(spelled(_Numbering(trace).events()) for trace in traces)
    return f"---- MODULE TraceData ----\nTraces == <<{events}>>\n====\n"


class _Numbering:
    """One trace in the terms of module Traces."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        records = [record for event in trace.events for file in event.after.files for record in file.records]
        self.keys = {key: number for number, key in enumerate(sorted({record.key for record in records}), 1)}
        self.rows: dict[Row, int] = {}
        self.files: dict[str, int] = {}

    def events(self) -> list[Mapping[str, object]]:
        return [self._event(at, event) for at, event in enumerate(self.trace.events)]

    def _event(self, at: int, event: Event) -> Mapping[str, object]:
        after = event.after
        fields: dict[str, object] = {
            "action": event.action,
            "job": event.job,
            "created": [self._records(file) for file in self._created(after)],
            "snapshot": after.snapshot,
            "live": frozenset((self.files[file.name], file.level) for file in after.files),
            # A vector may name a file that was never seen; 0 is none.
            "vectors": frozenset((self.files.get(name, 0), position + 1) for name, position in after.vectors),
            "rows": frozenset((self.keys.get(key, 0), self._row(row)) for key, row in after.rows),
            "count": len(after.rows),
        }
        return fields | self._planned(at, event) if event.action == "PlanCompaction" else fields

    def _planned(self, at: int, plan: Event) -> dict[str, object]:
        """Return how a plan will end, and what a commit of it will change."""
        later = pairwise(self.trace.events[at:])
        ends = (pair for pair in later if pair[1].job == plan.job and pair[1].action in ENDS)
        before, end = next(ends, (plan, replace(plan, action="")))
        old = {file.name: file.level for file in before.after.files}
        new = {file.name: file.level for file in end.after.files}
        created = sorted((file for file in end.after.files if file.name not in old), key=_first_key)
        return {
            "ends": end.action,
            "outputs": [self._records(file) for file in created],
            "upgraded": frozenset(
                self.files[name] for name, level in new.items() if old.get(name, level) != level
            ),
            "gone": frozenset(self.files.get(name, 0) for name in old.keys() - new.keys()),
        }

    def _created(self, after: Observation) -> list[SeenFile]:
        """Number the files seen for the first time, and return them."""
        created = sorted((file for file in after.files if file.name not in self.files), key=_first_key)
        for file in created:
            self.files[file.name] = len(self.files) + 1
        return created

    def _records(self, file: SeenFile) -> list[Mapping[str, object]]:
        return [self._record(record) for record in file.records]

    def _record(self, record: StoredRecord) -> Mapping[str, object]:
        return {
            "key": self.keys[record.key],
            "seq": record.sequence,
            "kind": "+I" if record.kind.is_add else "-D",
            "row": self._row(record.row),
        }

    def _row(self, row: Row) -> int:
        return self.rows.setdefault(row, len(self.rows) + 1)


def _first_key(file: SeenFile) -> Key:
    return file.records[0].key


# ------------------------------------------------------------------ from a table


class RecordedTable(TableUnderTest, ShowsRecords, Protocol):
    """A table whose records can be seen."""


class Recorder:
    """Notes the events of one bucket of a table, while someone else works on the table.

    Call `caught_up` after whatever commits at once; `begun` after a write or a compaction of this bucket was
    staged, and `ended` after it was committed, refused or abandoned.
    """

    def __init__(
        self, table: RecordedTable, shape: Shape, bucket_count: int = 1, bucket: BucketId = ((), 0)
    ) -> None:
        self.table, self.shape, self.bucket_count, self.bucket = table, shape, bucket_count, bucket
        self.events: list[Event] = []
        self.last = Observation()
        self.kinds: dict[str, str] = {}

    def caught_up(self, job: str = "table") -> None:
        """Note every snapshot made since the last call: an APPEND is a write, a COMPACT planned and done."""
        for snapshot, kind in self._new():
            if kind == APPEND:
                self._note("Write", "", snapshot)
            else:
                self.events.append(Event("PlanCompaction", job, self.last))
                self._note("CommitCompaction", job, snapshot)

    def begun(self, job: str, kind: str) -> None:
        """Note that ``job`` has staged a "Write" or a "Compaction"."""
        self.kinds[job] = kind
        self.events.append(Event("BeginWrite" if kind == "Write" else "PlanCompaction", job, self.last))

    def ended(self, job: str, *, committed: bool, abandoned: bool = False) -> None:
        """Note how the staged work of ``job`` ended."""
        kind = self.kinds.pop(job)
        if not committed:
            self.events.append(Event("Crash" if abandoned else f"Refuse{kind}", job, self.last))
            return
        for snapshot, _ in self._new():
            self._note(f"Commit{kind}", job, snapshot)

    def trace(self, options: Mapping[str, str]) -> Trace:
        """Return what was noted, of a table made with ``options`` (Paimon's names)."""
        parsed = ModelOptions.parse(options)
        events = self.events if self._is_alone() else ranked(self.events)
        return Trace(tuple(events), parsed.num_levels, parsed.trigger, parsed.deletion_vectors)

    def _is_alone(self) -> bool:
        return self.bucket_count == 1 and not self.shape.partition_keys

    def _new(self) -> Iterator[tuple[int, str]]:
        """Yield the new snapshots; of a table of several buckets, those that changed this one."""
        for one in self.table.snapshots():
            if one.id > self.last.snapshot and (self._is_alone() or self._changed(self._seen(one.id))):
                yield one.id, one.kind

    def _changed(self, seen: Observation) -> bool:
        return (set(seen.files), seen.vectors) != (set(self.last.files), self.last.vectors)

    def _note(self, action: str, job: str, snapshot: int) -> None:
        self.last = self._seen(snapshot)
        self.events.append(Event(action, job, self.last))

    def _seen(self, snapshot: int) -> Observation:
        """Read from the table what a snapshot shows of the bucket."""
        rows = self.table.read(snapshot=snapshot)
        return Observation(
            snapshot,
            tuple(
                SeenFile(file.name, file.level, tuple(self.table.records(snapshot, file)))
                for file in self.table.files(snapshot)
                if file.bucket == self.bucket
            ),
            frozenset(
                (vector.data_file, position)
                for vector in self.table.vectors(snapshot)
                if vector.bucket == self.bucket
                for position in vector.positions
            ),
            tuple(
                (self.shape.pick(row, self.shape.trimmed_key), row)
                for row in rows
                if bucket_of(self.shape, row, self.bucket_count) == self.bucket
            ),
        )


def ranked(events: Sequence[Event]) -> list[Event]:
    """Number the snapshots of a bucket among several from 1: those that changed it."""
    ids = sorted({event.after.snapshot for event in events} - {0})
    rank = {0: 0} | {id: number for number, id in enumerate(ids, 1)}
    return [replace(one, after=replace(one.after, snapshot=rank[one.after.snapshot])) for one in events]


# ------------------------------------------------------------------ from the oracle

JOBS: Final = ("w1", "c1", "c2")


def walk(mechanism: Mechanism, random: Random, steps: int, keys: int = 3) -> Trace:
    """Return the trace of a random walk of the oracle: one writer, two compactors, writes at once between."""
    state = EMPTY
    events: list[Event] = []
    while len(events) < steps:
        before = state
        action, job, state = _random_step(mechanism, state, random, keys)
        if (action, state) != ("PlanCompaction", before):
            events.append(Event(action, job, observed(mechanism, state)))
    options = mechanism.options
    return Trace(tuple(events), options.num_levels, options.trigger, options.deletion_vectors)


def _random_step(mechanism: Mechanism, state: State, random: Random, keys: int) -> tuple[str, str, State]:
    busy = dict(state.pending)
    job = random.choice(["", *JOBS])
    if job in busy:
        if random.random() < 0.1:
            return "Crash", job, mechanism.crash(state, job)
        work = busy[job]
        if isinstance(work, StagedWrite):
            return "CommitWrite", job, mechanism.commit_write(state, job)
        refused = mechanism.conflict(state, work) is not None
        return f"{'Refuse' if refused else 'Commit'}Compaction", job, mechanism.commit_compaction(state, job)
    if job in ("", "w1"):
        chosen = random.sample(range(keys), random.randint(1, 2))
        row: Row = (len(state.files), str(random.random()))
        changes = [
            KeyedChange((key,), random.choice((RowKind.INSERT, RowKind.DELETE)), row) for key in chosen
        ]
        if job:
            return "BeginWrite", job, mechanism.begin_write(state, job, changes)
        return "Write", "", mechanism.write(state, changes)
    possible = [step.after for step in plans(mechanism, state, job)]
    return "PlanCompaction", job, random.choice(possible) if possible else state


def observed(mechanism: Mechanism, state: State) -> Observation:
    """Return what can be seen of a state of the oracle."""
    return Observation(
        state.snapshot,
        tuple(SeenFile(str(file), level, state.files[file].records) for file, level in sorted(state.live)),
        frozenset((str(file), position) for file, position in state.vectors),
        tuple((record.key, record.row) for record in mechanism.plain_read(state)),
    )
