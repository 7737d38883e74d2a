"""Make a killing history small: drop and simplify parts of it as long as the same check still finds the mutant.

Hypothesis shrinks a history that it drew, in hundreds of replays. This shrinks a stored history from any source, in
tens of replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pktable_conform.judge.history import BULK_BYTES, History, Operation
from pktable_spec.interface import EVERYTHING, Query

Kills = Callable[[History], bool]
REPLAYS = 200
"""The greatest number of replays; the smallest history by then is kept."""


def shrunk(history: History, kills: Kills, replays: int = REPLAYS) -> History:
    """Return a part of ``history`` for which ``kills`` still holds, and all of whose parts are needed."""
    tried = 0
    again = True
    while again:
        again = False
        for candidate in _smaller(history):
            tried += 1
            if tried > replays:
                return history
            if kills(candidate):
                history, again = candidate, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    """Yield histories a little smaller: most operations first, then what an operation holds, then options."""
    operations = history.operations
    size = len(operations) // 2
    while size:
        for start in range(len(operations) - size, -1, -size):
            yield replace(history, operations=operations[:start] + operations[start + size :])
        size //= 2
    for at, operation in enumerate(operations):
        for simpler in _simpler(operation):
            yield replace(history, operations=[*operations[:at], simpler, *operations[at + 1 :]])
    for option in history.options:
        rest = {name: value for name, value in history.options.items() if name != option}
        yield replace(history, options=rest)


def _simpler(operation: Operation) -> Iterator[Operation]:
    changes, query = operation.changes, operation.query
    if len(changes) > 1:
        for at in range(len(changes)):
            yield replace(operation, changes=changes[:at] + changes[at + 1 :])
    if query != EVERYTHING:
        yield replace(operation, query=EVERYTHING)
        for at in range(len(query.where)):
            yield replace(operation, query=replace(query, where=query.where[:at] + query.where[at + 1 :]))
        for name in ("columns", "limit"):
            if getattr(query, name) is not None:
                yield replace(operation, query=_without(query, name))
    if operation.write_only:
        yield replace(operation, write_only=False)
    if operation.full:
        yield replace(operation, full=False)
    if operation.bit:
        yield replace(operation, bit=0)
    for at, (kind, row) in enumerate(changes):
        plain = tuple("a" if value in BULK_BYTES else value for value in row)
        if plain != row:
            yield replace(operation, changes=(*changes[:at], (kind, plain), *changes[at + 1 :]))


def _without(query: Query, name: str) -> Query:
    return Query(query.where, None, query.limit) if name == "columns" else Query(query.where, query.columns)
