"""Faults of the commit and of the rules that it is checked by."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from threading import local
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pktable import staged, staged_write, staging
from pktable.bucket.assign import HashedBuckets
from pktable.bucket.partitions import Partitions
from pktable.bucket.write import BucketAppend
from pktable.catalog import commit, rules
from pktable.catalog.changes import Append, CommitId
from pktable.catalog.manifests import Manifests
from pktable.catalog.retention import Expiry
from pktable.catalog.rules import Attempt
from pktable.catalog.state import Delta, TableState
from pktable.format.metadata.manifest import ADD, DELETE
from pktable.lsm.plan import VectorMaintainer

from model_tests.mutants.registry import LEVEL_ZERO_LEFT, READ, Mutant, instead, patched

_committing = local()


def _narrowed(of_rows: Any) -> Any:
    def narrowed(self: HashedBuckets, rows: pa.Table, partitions: Partitions) -> Any:
        return of_rows(self, rows, partitions).astype(np.int16).astype(np.int32)

    return narrowed


def _vectors_with_the_append(append: Any) -> Any:
    """Let the commit of a write know the compaction that follows, and plan that on the result of the write."""

    def appended(self: staged_write.StagedWrite, commit_id: CommitId) -> TableState | None:
        _committing.write = self
        try:
            state: TableState | None = append(self, commit_id)
        finally:
            _committing.write = None
        self.changes = [replace(change, base_index=change.index) for change in self.changes]
        return state

    return appended


def _index_of_what_follows(delta: Any) -> Any:
    def indexed(self: Append, state: TableState, refused: Any) -> Delta | None:
        found: Delta | None = delta(self, state, refused)
        write = getattr(_committing, "write", None)
        if found is None or write is None:
            return found
        indexes = {change.place.id: (change.index,) for change in write.changes}
        merged = {**found.indexes, **indexes}
        return replace(found, indexes={at: index for at, index in merged.items() if index != (None,)})

    return indexed


def _without_level(applied: Any) -> Any:
    """Net the entries of a commit by name alone."""

    def netted(state: Any, snapshot: Any, manifests: Any, delta: Any) -> Any:
        deleted = {entry.file.file_name for entry in delta.entries if entry.kind == DELETE}
        kept = [e for e in delta.entries if e.kind == DELETE or e.file.file_name not in deleted]
        return applied(state, snapshot, manifests, replace(delta, entries=tuple(kept)))

    return netted


def _folded_without_level(fold: Any) -> Any:
    """Net the entries of manifests by name alone."""

    def netted(self: Manifests, metas: Any) -> dict[Any, Any]:
        entries = [entry for meta in metas for entry in self.read(meta)]
        deleted = {entry.file.file_name for entry in entries if entry.kind == DELETE}
        return {e.identity: e for e in entries if e.kind == ADD and e.file.file_name not in deleted}

    return netted


def _append_without_index(delta: Any) -> Any:
    def unindexed(self: Append, state: TableState, refused: Any) -> Delta | None:
        found: Delta | None = delta(self, state, refused)
        return found and replace(found, indexes={})

    return unindexed


def _without_rules(*clauses: str) -> Callable[[Any], Any]:
    return lambda checked: tuple((clause, rule) for clause, rule in checked if clause not in clauses)


def _of_what_is_live(applied: Any) -> Any:
    """Remove no more than is live, so that a commit that checks nothing does not crash."""

    def netted(state: TableState, snapshot: Any, manifests: Any, delta: Any) -> Any:
        kept = [e for e in delta.entries if e.kind == ADD or (e.partition, e.bucket) in state.files]
        return applied(state, snapshot, manifests, replace(delta, entries=tuple(kept)))

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

    def written(*staged: Any, write_only: bool, **how: Any) -> Any:
        from_zero = mock.patch.object(staging, "next_sequences", return_value={})
        with from_zero if write_only else nullcontext():
            return write(*staged, write_only=write_only, **how)

    return written


def _only_what_is_left(checked: Any) -> Any:
    """Compare only the numbers of rows that no later row of the write has replaced."""
    ((clause, newest),) = checked

    def compared(append: BucketAppend, live: Any) -> Any:
        left = min(file.min_sequence_number for file in append.files)
        return newest(replace(append, first_sequence=left), live)

    return ((clause, compared),)


def _refused_unless_latest(change: Any) -> Any:
    """Compare nothing but the snapshot: a compaction is refused if any other was committed since it was planned."""

    def planned(self: staged.StagedCompaction) -> Any:
        base, found = self.base.id, change(self)

        def is_latest(attempt: Attempt) -> str | None:
            latest = attempt.state.id
            return (
                None if latest == base else f"snapshot {latest} is newer than {base}, on which it was planned"
            )

        return found and replace(found, rules=(("CMT-7", is_latest),))

    return planned


MUTANTS = (
    Mutant(
        "M03",
        "deleted positions become visible with the write, a snapshot before the rows that replace them",
        patched(
            (staged_write.StagedWrite, "commit_append", _vectors_with_the_append),
            (Append, "delta", _index_of_what_follows),
        ),
        "appended: a write changes no vector",
        ("DV-14", "CMT-6"),
        bugs=("paimon#3001",),
    ),
    Mutant(
        "M09",
        "an upgrade cancels itself: ADD and DELETE are netted without the level",
        patched((commit, "applied", _without_level), (Manifests, "fold", _folded_without_level)),
        "compaction_took_the_pick: upgrades",
        ("CMT-4",),
        bugs=("paimon-rust#376",),
    ),
    Mutant(
        "M10",
        "an append drops the DV index files",
        patched((Append, "delta", _append_without_index)),
        # The race of two statements compares rows before it looks at the snapshots.
        "appended: a write changes no vector|both_were_executed: .* rows are",
        ("CMT-6",),
        bugs=("paimon#7662",),
    ),
    Mutant(
        "M11b",
        "the vector of a rewritten file stays in the index",
        patched(
            (VectorMaintainer, "forget", instead(lambda self, file: None)),
            (rules, "COMPACTION_RULES", _without_rules("CMT-9")),
        ),
        "vectors_are_well_formed: a vector names a file that is not live",
        ("DV-4", "DV-10"),
        bugs=("paimon#8778", "paimon#8783"),
    ),
    Mutant(
        "M12",
        "a compaction commits though the vectors it was planned on have changed",
        patched((rules, "COMPACTION_RULES", _without_rules("CMT-8"))),
        f"refusal_agrees: committed, though it breaks CMT-8|vectors_only_grow: |{READ}",
        ("CMT-8",),
        bugs=("paimon#6303", "delta#7163", "delta#3982", "iceberg#15966"),
    ),
    Mutant(
        "M15",
        "an expiry does not keep what tags need",
        patched((Expiry, "needed_by_tag", instead(lambda self, tag: set()))),
        "is_sound: error CMT-15: |tag_agrees: tag .* cannot be read|"
        "exactly_what_is_unnamed_was_removed: files were removed that a snapshot or a tag needs",
        ("CMT-27", "CMT-31"),
        bugs=("paimon#4121", "paimon#5237", "hudi#19290"),
    ),
    Mutant(
        "S3",
        "the number of a bucket is kept in 16 bits",
        patched((HashedBuckets, "of_rows", _narrowed)),
        "appended: a write goes to the buckets of its keys",
        ("TBL-3", "TBL-5"),
        bugs=("paimon#9276",),
    ),
    Mutant(
        "M18",
        "sequence numbers restart with a write-only writer",
        patched(
            (staged_write.StagedWrite, "of", _restarts_when_write_only),
            (rules, "APPEND_RULES", instead(())),
        ),
        "appended: sequence numbers start above",
        ("LSM-10", "CMT-10"),
        bugs=("paimon#3327",),
    ),
    Mutant(
        "C14",
        "a commit checks nothing",
        patched(
            (rules, "COMPACTION_RULES", instead(())),
            (commit, "applied", _of_what_is_live),
            (Manifests, "fold", _folded_as_it_comes),
        ),
        f"refusal_agrees: committed, though it breaks |vectors_are_well_formed: |vectors_only_grow: |{READ}",
        ("CMT-7", "CMT-8", "CMT-9", "CMT-11"),
    ),
    Mutant(
        "C17",
        "the numbers of rows replaced within a write count as free, though its compaction is planned",
        patched(
            (rules, "APPEND_RULES", _only_what_is_left),
            (staged_write.StagedWrite, "drop_stale", instead(lambda self, state: [])),
        ),
        f"{LEVEL_ZERO_LEFT}|{READ}|newer_runs_hold_newer_records: ",
        ("CMT-18", "CMT-10"),
    ),
    Mutant(
        "C21",
        "the compaction planned with a write is committed though its bucket has changed",
        patched((staged_write.StagedWrite, "drop_stale", instead(lambda self, state: []))),
        "newer_runs_hold_newer_records: ",
        ("CMT-54", "LSM-4"),
    ),
    Mutant(
        "O1",
        "a compaction is refused whenever another snapshot came between",
        patched((staged.StagedCompaction, "change", _refused_unless_latest)),
        "refusal_agrees: refused by CMT-7, though it breaks ",
        ("CMT-7", "CMT-14"),
    ),
)
