"""Append tables: what they mean, and how files, positions and vectors produce it.

`Content` is a snapshot: files of rows, and the deleted positions of each. Its meaning is the multiset of live rows. A
step from one snapshot to the next is an addition, a deletion (by vectors, or by writing files again), a replacement or
a compaction; `problem_of_step` says what is wrong with a pair of snapshots that is none of them.

`AppendMechanism` is the transition system of the TLA+ module ``AppendTable``, with its variables and actions: jobs
compute a change from the latest snapshot, prepare it, and commit it.

Clauses: APP-1, APP-2, APP-12, APP-13, APP-15 to APP-18, APP-21.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

Row = tuple[Any, ...]
Name = str
"""The name of a data file."""


@dataclass(frozen=True)
class Content:
    """A snapshot: ``files`` has the rows of each live file, ``deleted`` the deleted positions of some of them."""

    files: Mapping[Name, tuple[Row, ...]] = field(default_factory=dict)
    deleted: Mapping[Name, frozenset[int]] = field(default_factory=dict)

    def live(self, name: Name) -> list[Row]:
        """Return the live rows of a file, in order."""
        gone = self.deleted.get(name, frozenset())
        return [row for position, row in enumerate(self.files[name]) if position not in gone]

    def meaning(self) -> Counter[Row]:
        """Return how often each row is there. Clauses: APP-1."""
        return Counter(row for name in self.files for row in self.live(name))


def problem_of_step(before: Content, after: Content, kind: str) -> str | None:
    """Return what is wrong with a step, None if nothing is.

    ``kind``: of the snapshot, APPEND, COMPACT or OVERWRITE. Clauses: APP-12, APP-13, APP-21.
    """
    for name in after.deleted:
        if name not in after.files:
            return f"a vector names {name}, which is not live"
        if any(position >= len(after.files[name]) for position in after.deleted[name]):
            return f"a vector of {name} has a position beyond its rows"
    kept = before.files.keys() & after.files.keys()
    for name in kept:
        if before.files[name] != after.files[name]:
            return f"{name} has changed"
        if before.deleted.get(name, frozenset()) - after.deleted.get(name, frozenset()):
            return f"deleted rows of {name} are live again"
    removed, added = before.files.keys() - kept, after.files.keys() - kept
    grown = [name for name in kept if before.deleted.get(name) != after.deleted.get(name)]
    if kind == "APPEND" and (removed or grown):
        return "an addition removes files or deletes rows"
    gone: Counter[Row] = Counter(row for name in removed for row in before.live(name))
    come: Counter[Row] = Counter(row for name in added for row in after.live(name))
    if kind == "COMPACT" and (grown or gone != come):
        return "a compaction changes rows"
    return None


class Meaning:
    """The multiset of rows at every snapshot, as the statements say, without any file."""

    def __init__(self) -> None:
        self.at: dict[int, Counter[Row]] = {0: Counter()}

    @property
    def latest(self) -> Counter[Row]:
        return self.at[max(self.at)]

    def commit(
        self, snapshot: int, *, gone: Counter[Row] | None = None, come: Counter[Row] | None = None
    ) -> None:
        """Add a snapshot without the rows ``gone`` and with the rows ``come``. Clauses: APP-1, APP-12, APP-21."""
        assert not (gone or Counter()) - self.latest, "only rows that are there can go"
        self.at[snapshot] = self.latest - (gone or Counter()) + (come or Counter())


# The transition system of AppendTable.tla. Files have numbers from 1, as do positions.

Place = tuple[int, int]
Index = tuple[tuple[int, str], frozenset[Place]]
"""Its name (the number of commits before it, and the job) and the deleted places in it."""


@dataclass(frozen=True)
class Change:
    """A computed change: see `Change` in AppendTable.tla."""

    places: frozenset[Place] = frozenset()
    removed: frozenset[int] = frozenset()
    under: frozenset[Place] = frozenset()
    adds: tuple[Row, ...] = ()
    old: frozenset[Row] = frozenset()
    new: frozenset[Row] = frozenset()


@dataclass(frozen=True)
class Work:
    """The work of a job; ``base`` and ``made`` once it is prepared."""

    change: Change
    base: frozenset[Index] | None = None
    made: frozenset[Index] | None = None


@dataclass(frozen=True)
class State:
    """The variables of AppendTable.tla. ``pending``: the work of the jobs that are not idle."""

    files: tuple[tuple[Row, ...], ...]
    live: frozenset[int]
    indexes: frozenset[Index]
    commits: int
    pending: frozenset[tuple[str, Work]]
    rows: frozenset[Row]

    def work(self, job: str) -> Work | None:
        return dict(self.pending).get(job)

    def with_work(self, job: str, work: Work | None) -> State:
        others = {one for one in self.pending if one[0] != job}
        return replace(self, pending=frozenset(others | ({(job, work)} if work else set())))

    @property
    def deleted(self) -> frozenset[Place]:
        return deleted_in(self.indexes)

    @property
    def live_places(self) -> set[Place]:
        places = {(f, p) for f in self.live for p in range(1, len(self.files[f - 1]) + 1)}
        return places - self.deleted

    def row_at(self, place: Place) -> Row:
        return self.files[place[0] - 1][place[1] - 1]

    def concatenated(self, some: frozenset[int]) -> tuple[Row, ...]:
        return tuple(self.row_at(place) for place in sorted(self.live_places) if place[0] in some)


def deleted_in(indexes: frozenset[Index]) -> frozenset[Place]:
    """Return the deleted places of some DV index files."""
    return frozenset(place for _, places in indexes for place in places)


def of_files(places: frozenset[Place], some: frozenset[int]) -> frozenset[Place]:
    return frozenset(place for place in places if place[0] in some)


@dataclass(frozen=True)
class AppendMechanism:
    """The constants of AppendTable.tla, and its actions. A fault overrides one method, as AppendFaults does."""

    deleters: tuple[str, ...] = ()
    updaters: tuple[str, ...] = ()
    compactors: tuple[str, ...] = ()
    file_count: int = 1
    append_limit: int = 0
    buckets: bool = False
    vectors: bool = True
    commit_limit: int = 2

    @property
    def jobs(self) -> tuple[str, ...]:
        return (*self.deleters, *self.updaters, *self.compactors)

    def initial(self) -> State:
        files = tuple(((2 * f - 1, "first"), (2 * f, "first")) for f in range(1, self.file_count + 1))
        rows = frozenset(row for file in files for row in file)
        live = frozenset(range(1, self.file_count + 1))
        return State(files, live, frozenset(), 0, frozenset(), rows)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield every (action, next state)."""
        for job in self.jobs:
            work = state.work(job)
            if work is None:
                yield from ((name, state.with_work(job, Work(c))) for name, c in self.computed(state, job))
            elif work.made is None:
                if self.fits(state, work.change):
                    made = self.made(state, job, work.change)
                    yield "Prepare", state.with_work(job, Work(work.change, state.indexes, made))
                else:
                    yield "Stale", state.with_work(job, None)
            elif self.may_commit(state, work):
                yield "Commit", self.committed(state, job, work)
            else:
                yield "PrepareAgain", state.with_work(job, Work(work.change))
        yield from self._file_added(state)

    def computed(self, state: State, job: str) -> Iterator[tuple[str, Change]]:
        """Yield what a job may compute. Clauses: APP-12, APP-21."""
        if state.commits + len(state.pending) >= self.commit_limit:
            return
        if job in self.compactors:
            for count in range(1, len(state.live) + 1):
                for some in map(frozenset, combinations(sorted(state.live), count)):
                    under = of_files(state.deleted, some)
                    yield "Compact", Change(removed=some, under=under, adds=state.concatenated(some))
            return
        for place in state.live_places:
            row = state.row_at(place)
            added = ((row[0], job),) if job in self.updaters else ()
            yield "Update" if added else "Delete", self._changing(state, place, added)

    def _changing(self, state: State, place: Place, added: tuple[Row, ...]) -> Change:
        old, new = frozenset({state.row_at(place)}), frozenset(added)
        if self.vectors:
            return Change(places=frozenset({place}), adds=added, old=old, new=new)
        file = frozenset({place[0]})
        left = tuple(row for row in state.concatenated(file) if row not in old)
        under = of_files(state.deleted, file)
        return Change(removed=file, under=under, adds=(*left, *added), old=old, new=new)

    def fits(self, state: State, change: Change) -> bool:
        return (
            self.are_live(state, change.removed)
            and self.is_under_the_same(state, change)
            and self.rows_are_live(state, change)
        )

    def are_live(self, state: State, some: frozenset[int]) -> bool:
        """Clauses: APP-15."""
        return some <= state.live

    def is_under_the_same(self, state: State, change: Change) -> bool:
        """Clauses: APP-16."""
        return of_files(state.deleted, change.removed) == change.under

    def rows_are_live(self, state: State, change: Change) -> bool:
        """Clauses: APP-17."""
        return change.places <= state.live_places

    def has_same_indexes(self, state: State, work: Work) -> bool:
        """Clauses: APP-18."""
        return state.indexes == work.base

    def names_live_files(self, state: State, work: Work) -> bool:
        """Clauses: DV-4."""
        named = {place[0] for place in deleted_in(work.made or frozenset())}
        return named <= state.live - work.change.removed

    def may_commit(self, state: State, work: Work) -> bool:
        return (
            self.has_same_indexes(state, work)
            and self.are_live(state, work.change.removed)
            and self.names_live_files(state, work)
        )

    def touched(self, state: State, change: Change) -> frozenset[Index]:
        """Return the DV index files that must be written again. Clauses: APP-14."""
        changed = {place[0] for place in change.places} | change.removed
        touched = frozenset(index for index in state.indexes if changed & {place[0] for place in index[1]})
        if not self.buckets:
            return touched
        return state.indexes if change.places or touched else frozenset()

    def made(self, state: State, job: str, change: Change) -> frozenset[Index]:
        """Return the new DV index file, if there is to be one. Clauses: APP-13."""
        kept = deleted_in(self.touched(state, change))
        after = (kept - of_files(kept, change.removed)) | change.places
        return frozenset({((state.commits, job), after)}) if after else frozenset()

    def committed(self, state: State, job: str, work: Work) -> State:
        change = work.change
        number = frozenset({len(state.files) + 1}) if change.adds else frozenset()
        found = change.old <= state.rows
        return State(
            (*state.files, change.adds) if change.adds else state.files,
            (state.live - change.removed) | number,
            (state.indexes - self.touched(state, change)) | (work.made or frozenset()),
            state.commits + 1,
            state.with_work(job, None).pending,
            (state.rows - change.old) | change.new if found else state.rows,
        )

    def _file_added(self, state: State) -> Iterator[tuple[str, State]]:
        first = 2 * self.file_count
        if sum(file[0][0] > first for file in state.files) < self.append_limit:
            row = (first + len(state.files) + 1, "first")
            yield (
                "AddFile",
                replace(
                    state,
                    files=(*state.files, (row,)),
                    live=state.live | {len(state.files) + 1},
                    rows=state.rows | {row},
                ),
            )


def broken_invariants(mechanism: AppendMechanism, state: State) -> set[str]:
    """Return the names of the invariants of AppendTable.tla that do not hold."""
    places = sorted(state.live_places)
    files = [frozenset(place[0] for place in places) for _, places in state.indexes]
    holds = {
        "ReadIsTheMeaning": {state.row_at(place) for place in places} == state.rows,
        "RowsAreLiveOnce": len({state.row_at(place) for place in places}) == len(places),
        "FilesHaveOneVector": sum(map(len, files)) == len(frozenset().union(*files)),
        "VectorsNameLiveFiles": {place[0] for place in state.deleted} <= state.live,
        "BucketsHaveOneIndex": not mechanism.buckets or len(files) < 2,
    }
    return {name for name, does in holds.items() if not does}
