"""Every step the mechanism can take in a small scope, for the comparison with the state graph of TLC.

Sizes are abstract here: every allowed pick is taken, and every file that is alone in its section is
both large and small. Labels name the action and the job; states are `State` values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from pktable_spec.model import picks
from pktable_spec.model.levels import KeyedChange
from pktable_spec.model.mechanism import EMPTY, Mechanism, Plan, StagedWrite, State
from pktable_spec.model.picks import Pick, PickFile


@dataclass(frozen=True)
class Scope:
    """Bounds of a search.

    Without ``writers`` a write is one step (Write); with them it is two (BeginWrite, CommitWrite). A writer
    that is one of the ``compactors`` may plan the compaction of a write with it.
    ``batches`` are the writes that may be made, by number; rows are told apart by that number.
    """

    batches: tuple[tuple[KeyedChange, ...], ...]
    compactors: tuple[str, ...] = ("c1",)
    writers: tuple[str, ...] = ()
    write_limit: int = 2
    compaction_limit: int = 2
    crashes: bool = True


class Step(NamedTuple):
    """One labelled edge: the action, who acts, and what tells it from the same action done otherwise."""

    action: str
    job: str
    detail: tuple[object, ...]
    after: State


def steps(mechanism: Mechanism, state: State, scope: Scope) -> Iterator[Step]:
    """Yield every step from ``state`` within ``scope``, each once."""
    busy = dict(state.pending)
    committed = sum(data.born == 0 for data in state.files)
    staged = sum(isinstance(work, StagedWrite) for work in busy.values())
    planned = sum(isinstance(work, Plan) or work.plan is not None for work in busy.values())
    may_compact = state.snapshot - committed + planned < scope.compaction_limit
    if committed + staged < scope.write_limit:
        for number, batch in enumerate(scope.batches):
            if not scope.writers:
                yield Step("Write", "", (number,), mechanism.write(state, batch))
            for writer in scope.writers:
                if writer not in busy:
                    yield Step("BeginWrite", writer, (number,), mechanism.begin_write(state, writer, batch))
                    if may_compact and writer in scope.compactors:
                        yield from writes_with_plan(mechanism, state, writer, number, batch)
    if may_compact:
        for compactor in scope.compactors:
            if compactor not in busy:
                yield from plans(mechanism, state, compactor)
    for job, work in state.pending:
        if isinstance(work, Plan):
            refused = mechanism.conflict(state, work) is not None
            action = "RefuseCompaction" if refused else "CommitCompaction"
            yield Step(action, job, (), mechanism.commit_compaction(state, job))
        else:
            yield Step("CommitWrite", job, (), mechanism.commit_write(state, job))
        if scope.crashes:
            yield Step("Crash", job, (), mechanism.crash(state, job))


def plans(mechanism: Mechanism, state: State, compactor: str) -> Iterator[Step]:
    """Yield every compaction that ``compactor`` may plan, each once.

    Clauses: CMP-1, CMP-2, CMP-7, CMP-9, CMP-18, CMP-19.
    """
    runs = mechanism.runs(state)
    full = picks.full_pick(runs, mechanism.options)
    allowed = [*picks.allowed_picks(runs, mechanism.options), *([full] if full else [])]
    seen: set[State] = set()
    for pick in allowed:
        for large in _choices(pick):
            after = mechanism.plan_compaction(state, compactor, pick, large.__contains__)
            if after != state and after not in seen:
                seen.add(after)
                detail = (pick.output_level, frozenset(file.name for file in pick.files))
                yield Step("PlanCompaction", compactor, detail, after)


def writes_with_plan(
    mechanism: Mechanism, state: State, writer: str, number: int, batch: tuple[KeyedChange, ...]
) -> Iterator[Step]:
    """Yield every way to begin a write together with its compaction, each once. Clauses: CMP-17."""
    for planned in plans(mechanism, mechanism.write(state, batch), writer):
        plan = planned.after.work(writer)
        assert isinstance(plan, Plan)
        after = mechanism.begin_write(state, writer, batch, plan)
        yield Step("BeginWrite", writer, (number, *planned.detail), after)


def _choices(pick: Pick) -> Iterator[frozenset[PickFile]]:
    """Yield every choice of large files among those alone in their section. Clauses: CMP-23."""
    alone = [section[0] for section in picks.sections(pick.files) if len(section) == 1]
    for count in range(len(alone) + 1):
        for chosen in combinations(alone, count):
            yield frozenset(chosen)


def explore(mechanism: Mechanism, scope: Scope) -> Iterator[State]:
    """Yield every state reachable from the empty bucket, breadth first, each as soon as it is found."""
    found = {EMPTY}
    queue = deque([EMPTY])
    yield EMPTY
    while queue:
        for step in steps(mechanism, queue.popleft(), scope):
            if step.after not in found:
                found.add(step.after)
                queue.append(step.after)
                yield step.after


def reachable(mechanism: Mechanism, scope: Scope) -> tuple[set[State], set[tuple[State, str, str, State]]]:
    """Return all states reachable from the empty bucket, and all labelled edges between them."""
    states = set(explore(mechanism, scope))
    edges = {
        (state, step.action, step.job, step.after)
        for state in states
        for step in steps(mechanism, state, scope)
    }
    return states, edges
