"""Faults of the commit and of what it is checked against."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from threading import local
from typing import Any
from unittest import mock

from pktable import staging as changing
from pktable.bucket.write import BucketAppend
from pktable.catalog import commit
from pktable.catalog.manifests import ADD, DELETE, Manifests
from pktable.catalog.state import TableState
from pktable.lsm.bucket import BucketChange
from pktable.lsm.vectors import VectorMaintainer

from model_tests.mutants.registry import NOT_ABSORBED, READ, Mutant, instead, patched

_committing = local()


def _vectors_with_the_append(append: Any) -> Any:
    """Commit a write while it says which compaction follows, and plan that on what the write commits."""

    def appended(self: changing.StagedWrite, user: str) -> TableState:
        _committing.write = self
        try:
            state: TableState = append(self, user)
        finally:
            _committing.write = None
        self.changes = [replace(change, base_index=change.index) for change in self.changes]
        return state

    return appended


def _index_of_what_follows(next_snapshot: Any) -> Any:
    def snapshot(self: Any, state: TableState, delta: Any, writer: Any, user: str) -> Any:
        write = getattr(_committing, "write", None)
        if write is not None:
            indexes = {change.place.id: change.index for change in write.changes}
            merged = {**delta.indexes, **indexes}
            delta = replace(delta, indexes={at: index for at, index in merged.items() if index is not None})
        return next_snapshot(self, state, delta, writer, user)

    return snapshot


def _without_level(after: Any) -> Any:
    """Net the entries of a commit by name alone."""

    def netted(state: Any, snapshot: Any, manifests: Any, delta: Any) -> Any:
        deleted = {entry.file.file_name for entry in delta.entries if entry.kind == DELETE}
        kept = [e for e in delta.entries if e.kind == DELETE or e.file.file_name not in deleted]
        return after(state, snapshot, manifests, replace(delta, entries=tuple(kept)))

    return netted


def _folded_without_level(fold: Any) -> Any:
    """Net the entries of manifests by name alone."""

    def netted(self: Manifests, metas: Any) -> dict[Any, Any]:
        entries = [entry for meta in metas for entry in self.read(meta)]
        deleted = {entry.file.file_name for entry in entries if entry.kind == DELETE}
        return {e.identity: e for e in entries if e.kind == ADD and e.file.file_name not in deleted}

    return netted


def _append_without_index(next_snapshot: Any) -> Any:
    def snapshot(self: Any, state: Any, delta: Any, writer: Any, user: str) -> Any:
        if delta.kind == "APPEND":
            delta = replace(delta, indexes={})
        return next_snapshot(self, state, delta, writer, user)

    return snapshot


def _names_of_vectors_unchecked(conflict: Any) -> Any:
    """Without the check that what a new vector names is live, which would refuse the fault (CMT-9)."""
    return lambda change, state, order: conflict(replace(change, index=None), state, order)


def _vectors_unchecked(conflict: Any) -> Any:
    def checked(change: BucketChange, state: TableState, order: Any) -> Any:
        return conflict(replace(change, base_index=state.indexes.get(change.place.id)), state, order)

    return checked


def _of_what_is_live(after: Any) -> Any:
    """Take no more away than there is: what a commit that checks nothing comes to, without a crash."""

    def netted(state: TableState, snapshot: Any, manifests: Any, delta: Any) -> Any:
        kept = [e for e in delta.entries if e.kind == ADD or (e.partition, e.bucket) in state.files]
        return after(state, snapshot, manifests, replace(delta, entries=tuple(kept)))

    return netted


def _folded_as_it_comes(fold: Any) -> Any:
    """Net the entries of manifests in their order, whether or not each file is added and deleted once."""

    def netted(self: Manifests, metas: Any) -> dict[Any, Any]:
        live: dict[Any, Any] = {}
        for entry in (entry for meta in metas for entry in self.read(meta)):
            if entry.kind == ADD:
                live[entry.identity] = entry
            else:
                live.pop(entry.identity, None)
        return live

    return netted


def _restarts_when_write_only(write: Any) -> Any:
    """Number the rows of a write-only write from 0: its writer restores no files."""

    def written(self: Any, rows: Any, change: Any, *, write_only: bool) -> Any:
        from_zero = mock.patch.object(changing, "next_sequences", return_value={})
        with from_zero if write_only else nullcontext():
            return write(self, rows, change, write_only=write_only)

    return written


def _only_what_is_left(newer: Any) -> Any:
    """Compare the numbers of the rows that no later row of the write has replaced."""

    def compared(append: BucketAppend, live: Any) -> bool:
        left = min(file.min_sequence_number for file in append.files)
        return bool(newer(replace(append, first_sequence=left), live))

    return compared


MUTANTS = (
    Mutant(
        "M03",
        "marks become visible with the write, a snapshot before the rows that replace what they hide",
        patched(
            (changing.StagedWrite, "_append", _vectors_with_the_append),
            (commit.Committer, "_next", _index_of_what_follows),
        ),
        "appended: a write changes no vector",
        ("DV-14", "CMT-6"),
        bugs=("paimon#3001",),
    ),
    Mutant(
        "M09",
        "an upgrade cancels itself: ADD and DELETE are netted without the level",
        patched((commit, "_after", _without_level), (Manifests, "fold", _folded_without_level)),
        "compaction_took_the_pick: upgrades",
        ("CMT-4",),
        bugs=("paimon-rust#376",),
    ),
    Mutant(
        "M10",
        "an append forgets the index of vectors",
        patched((commit.Committer, "_next", _append_without_index)),
        "appended: a write changes no vector",
        ("CMT-6",),
        bugs=("paimon#7662",),
    ),
    Mutant(
        "M11b",
        "the vector of a rewritten file stays in the index",
        patched(
            (VectorMaintainer, "forget", instead(lambda self, file: None)),
            (commit, "conflict", _names_of_vectors_unchecked),
        ),
        "vectors_are_well_formed: a vector names a file that is not live",
        ("DV-4", "DV-10"),
        bugs=("paimon#8778", "paimon#8783"),
    ),
    Mutant(
        "M12",
        "a compaction commits though the vectors it was planned on have changed",
        patched((commit, "conflict", _vectors_unchecked)),
        f"_commit_compaction: committed, though the vectors|vectors_only_grow: .* lost marks|{READ}",
        ("CMT-8",),
        bugs=("paimon#6303", "delta#7163", "delta#3982", "iceberg#15966"),
    ),
    Mutant(
        "M18",
        "sequence numbers restart with a write-only writer",
        patched(
            (changing.Stager, "write", _restarts_when_write_only),
            (commit, "_newer", instead(lambda appended, live: True)),
        ),
        "appended: sequence numbers start above",
        ("LSM-5", "CMT-10"),
        bugs=("paimon#3327",),
    ),
    Mutant(
        "C14",
        "a commit checks nothing",
        patched(
            (commit, "conflict", instead(lambda change, state, order: None)),
            (commit, "_after", _of_what_is_live),
            (Manifests, "fold", _folded_as_it_comes),
        ),
        "_commit_compaction: (committed, though|a file is live at one level)|vectors_are_well_formed: "
        "|vectors_only_grow: |levels_are_runs: ",
        ("CMT-7", "CMT-8", "CMT-9", "CMT-11"),
    ),
    Mutant(
        "C17",
        "the numbers of rows replaced within a write are taken for free, though its compaction is planned",
        patched((commit, "_newer", _only_what_is_left)),
        f"{NOT_ABSORBED}|{READ}|newer_runs_hold_newer_records: ",
        ("CMT-18", "CMT-10"),
    ),
)
