"""Histories that together take every step of the oracle's state graph near its start.

The graph is that of one bucket: `OPERATIONS` from every state that a number of them reach. A state is its files by
level, with their records and deleted positions. Each history begins with an empty table and goes on to the nearest
step that none has taken yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from pktable_spec.model.table import ModelTable

from pktable_conform.judge.history import SHAPES, History, Operation, numbered

STORED: Final = 2
"""Operations before the steps that the histories of the archive take."""
MOST: Final = 6
"""Operations before a step, at most: from 9 steps after none to some 28,000 after six, three times as many each."""
NAME: Final = "steps-"
LONGEST: Final = 10  # operations of a history
SHAPE: Final = SHAPES["int"]
OPTIONS: Final[Mapping[str, str]] = {
    "bucket": "1",
    "num-levels": "3",
    "num-sorted-run.compaction-trigger": "3",
}

ONE, TWO = ("+I", (1, "v")), ("+I", (2, "v"))
OPERATIONS: Final = (
    Operation("write", changes=(ONE,)),
    Operation("write", changes=(TWO,)),
    Operation("write", changes=(ONE, TWO)),
    Operation("write", changes=(("-D", (1, None)),)),
    Operation("write", changes=(("-D", (1, None)),), write_only=True),
    Operation("write", changes=(ONE,), write_only=True),
    Operation("write", changes=(TWO, ("+I", (3, "v"))), write_only=True),
    Operation("compact"),
    Operation("compact", full=True),
)

State: TypeAlias = tuple[object, ...]
Step: TypeAlias = tuple[State, int]
"""A state, and the number of the operation that is done in it."""
Graph: TypeAlias = dict[State, tuple[State, ...]]


def after(operations: tuple[int, ...]) -> State:
    """Return the state of a table after operations."""
    table = ModelTable(SHAPE, {**OPTIONS, "deletion-vectors.enabled": "true"})
    written = 0
    for number in operations:
        one = OPERATIONS[number]
        if one.do == "write":
            table.write(numbered(one.changes, written + 1), write_only=one.write_only)
            written += len(one.changes)
        else:
            table.compact(full=one.full)
    found: list[object] = []
    if not table.states:
        return ()
    (state,) = table.states.values()
    for file, level in sorted(state.live):
        records = tuple((record.key, record.kind) for record in state.files[file].records)
        found.append((level, records, tuple(sorted(at for of, at in state.vectors if of == file))))
    return tuple(found)


def graph(before: int = STORED) -> Graph:
    """Return the states that at most ``before`` operations reach, and where each operation leads from them."""
    ways: dict[State, tuple[int, ...]] = {(): ()}
    edges: Graph = {}
    reached: list[State] = [()]
    for _ in range(before + 1):
        new: list[State] = []
        for state in reached:
            ends = tuple(after((*ways[state], number)) for number in range(len(OPERATIONS)))
            edges[state] = ends
            for number, end in enumerate(ends):
                if end not in ways:
                    ways[end] = (*ways[state], number)
                    new.append(end)
        reached = new
    return edges


def walks(edges: Graph) -> Iterator[tuple[int, ...]]:
    """Yield walks from the empty table that together take every step of the graph."""
    left = {(state, number) for state, ends in edges.items() for number in range(len(ends))}
    while left:
        walk: tuple[int, ...] = ()
        state: State = ()
        while (way := _nearest(edges, state, left)) and len(walk) + len(way) <= LONGEST:
            for number in way:
                left.discard((state, number))
                state = edges[state][number]
            walk += way
        yield walk


def _nearest(edges: Graph, start: State, left: set[Step]) -> tuple[int, ...]:
    """Return the shortest way from a state whose last step is one of ``left``, empty if there is none."""
    seen, waiting = {start}, deque([(start, tuple[int, ...]())])
    while waiting:
        state, way = waiting.popleft()
        for number, end in enumerate(edges.get(state, ())):
            if (state, number) in left:
                return (*way, number)
            if end not in seen:
                seen.add(end)
                waiting.append((end, (*way, number)))
    return ()


def histories(before: int = STORED) -> Iterator[tuple[str, History]]:
    """Yield histories by name: they take every step that begins after at most ``before`` operations."""
    for number, walk in enumerate(walks(graph(before)), 1):
        yield f"{NAME}{number:03}", History(SHAPE, OPTIONS, [OPERATIONS[one] for one in walk])
