"""Faults of the bucket kernel and of the commit, each a bug that some table format has had.

A mutant is a context in which the fault is in; outside of it everything is as it was. Each names the
message by which the machine must find it: a crash by accident is no kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from pktable import changing, local
from pktable.bucket import compact, data_reader, merge, read
from pktable.catalog import commit
from pktable.lsm import universal, vectors


@dataclass(frozen=True)
class Mutant:
    """A fault by name, how to put it in, and a pattern of the message of the check that must find it."""

    name: str
    inject: Callable[[], Any]
    found_by: str


def _patched(target: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
    @contextmanager
    def context() -> Iterator[None]:
        with mock.patch.object(target, name, make(getattr(target, name))):
            yield

    return context


def _no_mark(original: Any) -> Any:
    return lambda self, file, positions: 0


def _deletes_dropped_early(original: Any) -> Any:
    return lambda *arguments: replace(original(*arguments), drop_deletes=True)


def _keeps_vectors(original: Any) -> Any:
    return lambda self, file: None


def _oldest_wins(original: Any) -> Any:
    def grouped(*arguments: Any, **flags: Any) -> Any:
        window = original(*arguments, **flags)
        return replace(window, winners=window.order[window.starts])

    return grouped


def _inputs_without_vectors(original: Any) -> Any:
    return lambda files, place, runs, found, columns, **rest: original(
        files, place, runs, {}, columns, **rest
    )


def _lookup_only_below_adds(original: Any) -> Any:
    """Look up only keys that are written, not keys that are deleted."""

    def mark(self: Any, window: Any, locator: Any) -> None:
        kept = window.adds()[window.winners]
        narrowed = replace(window, winners=window.winners[kept], starts=window.starts[kept])
        original(self, narrowed, locator)

    return mark


def _one_level_zero_run(original: Any) -> Any:
    def extend(runs: Any, count: int, options: Any, *, forced: bool) -> int:
        return 1 if forced and len(runs) > 1 else int(original(runs, count, options, forced=forced))

    return extend


def _positions_of_a_filtered_read(original: Any) -> Any:
    """Apply the vector to what is left of a row group after skipping its first row."""
    return lambda table, position, vector: original(table, position + (1 if position else 0), vector)


def _no_conflict(original: Any) -> Any:
    return lambda *arguments: None


def _append_forgets_vectors(original: Any) -> Any:
    def next_snapshot(self: Any, state: Any, delta: Any, writer: Any, user: str) -> Any:
        if delta.kind == "APPEND":
            delta = replace(delta, indexes={})
        return original(self, state, delta, writer, user)

    return next_snapshot


def _level_forgotten(original: Any) -> Any:
    """Net ADD and DELETE by name alone, so that an upgrade cancels itself."""

    def after(state: Any, snapshot: Any, manifests: Any, delta: Any) -> Any:
        deleted = {entry.file.file_name for entry in delta.entries if entry.kind == 1}
        return original(
            state,
            snapshot,
            manifests,
            replace(
                delta,
                entries=tuple(e for e in delta.entries if e.kind == 1 or e.file.file_name not in deleted),
            ),
        )

    return after


def _sequence_restarts(original: Any) -> Any:
    return lambda state: {}


def _limit_before_vectors(original: Any) -> Any:
    """Let a limit count the records of a file before its vector is applied."""

    def limited(self: Any, files: Any, parts: Any, columns: Any, predicate: Any, limit: int | None) -> Any:
        if limit is None:
            return original(self, files, parts, columns, predicate, limit)
        unmarked = data_reader.without_marked
        with mock.patch.object(read, "without_marked", lambda t, p, v: unmarked(t.slice(0, limit), p, v)):
            return original(self, files, parts, columns, predicate, limit)

    return limited


MUTANTS = (
    Mutant(
        "a replaced row is not marked",
        _patched(vectors.VectorMaintainer, "mark", _no_mark),
        "read of|read:|record",
    ),
    Mutant(
        "a delete is dropped too early",
        _patched(compact, "plan", _deletes_dropped_early),
        "read of|read:|record",
    ),
    Mutant(
        "the vector of a rewritten file is kept",
        _patched(vectors.VectorMaintainer, "forget", _keeps_vectors),
        "vector",
    ),
    Mutant("the oldest record wins", _patched(merge, "_grouped", _oldest_wins), "read of|read:|record"),
    Mutant(
        "inputs are read without their vectors",
        _patched(compact, "merge", _inputs_without_vectors),
        "read of|read:|record|vector",
    ),
    Mutant(
        "a deleted key is not looked up",
        _patched(compact._Compaction, "_mark_replaced", _lookup_only_below_adds),
        "read of|read:|record",
    ),
    Mutant(
        "one level-0 run is picked alone",
        _patched(universal, "_extend", _one_level_zero_run),
        "level|inputs|read|compact",
    ),
    Mutant(
        "positions are off after the first row group",
        _patched(read, "without_marked", _positions_of_a_filtered_read),
        "read",
    ),
    Mutant(
        "a commit checks nothing",
        _patched(commit, "conflict", _no_conflict),
        "inputs|vector|twice|read|committed",
    ),
    Mutant(
        "an append forgets the vectors",
        _patched(commit.Committer, "_next", _append_forgets_vectors),
        "vector|read",
    ),
    Mutant(
        "an upgrade cancels itself",
        _patched(commit, "_after", _level_forgotten),
        "inputs|read|level|upgrade|compact",
    ),
    Mutant(
        "sequence numbers restart",
        _patched(changing, "next_sequences", _sequence_restarts),
        "sequence|number",
    ),
    Mutant(
        "a limit is applied before the vectors",
        _patched(local.LocalRunner, "read", _limit_before_vectors),
        "rows, found",
    ),
)
