"""Faults of the kernel: picks, merges, lookups and deleted positions of one bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pktable.bucket import compact, read
from pktable.format.metadata.manifest import DataFileMeta
from pktable.kinds import primary_key
from pktable.kinds.primary_key import PrimaryKeyTables
from pktable.lsm import universal
from pktable.lsm.bucket import BucketState
from pktable.lsm.plan import VectorMaintainer
from pktable.lsm.universal import Pick
from pktable.merge.aggregation import Aggregation
from pktable.merge.engine import Deduplicate, Selected
from pktable.merge.grouping import Window
from pktable.merge.partial_update import PartialUpdate

from model_tests.mutants.registry import LEVEL_ZERO_LEFT, NOT_PICKED, READ, Mutant, instead, patched


def _deletes_dropped(plan: Any) -> Any:
    return lambda *arguments, **named: replace(plan(*arguments, **named), drop_deletes=True)


def _one_file_per_sequence(sorted_runs: Any) -> Any:
    """Keep level 0 in a set whose order and equality are those of the greatest sequence number alone."""

    def runs(files: Sequence[DataFileMeta], order: Any) -> Any:
        fresh: dict[int, DataFileMeta] = {}
        for file in files:
            if file.level == 0:
                fresh.setdefault(file.max_sequence_number, file)
        return sorted_runs([*fresh.values(), *(file for file in files if file.level > 0)], order)

    return runs


def _drops_siblings(forget: Any) -> Any:
    def drop(self: VectorMaintainer, file: str) -> None:
        siblings = self.vectors()
        for sibling in siblings if file in siblings else ():
            forget(self, sibling)

    return drop


def _inputs_without_vectors(merged: Any) -> Any:
    return lambda files, place, runs, vectors, columns, **more: merged(
        files, place, runs, {}, columns, **more
    )


def _range_end_inclusive(mark: Any) -> Any:
    """Add consecutive positions as a range whose end was meant to be exclusive."""

    def marks(self: VectorMaintainer, file: str, positions: Any) -> Any:
        follows = np.isin(positions, positions + 1)
        last_of_range = positions[follows & ~np.isin(positions + 1, positions)]
        return mark(self, file, np.union1d(positions, last_of_range + 1))

    return marks


def _oldest_wins(self: Deduplicate, window: Window) -> Selected:
    return Selected(window, window.order[window.starts])


def _adds_looked_up_only(keys_to_look_up: Any) -> Any:
    def needed(window: Window, **named: Any) -> Any:
        return keys_to_look_up(window, **named) & window.adds()[window.newest]

    return needed


def _one_level_zero_run(pick: Any) -> Any:
    """Leave out of a pick all level-0 runs but the newest."""

    def picked(runs: Any, options: Any) -> Pick | None:
        chosen: Pick | None = pick(runs, options)
        if chosen is None:
            return None
        level_zero = [file for file in chosen.files if file.level == 0]
        return replace(chosen, files=tuple(file for file in chosen.files if file not in level_zero[1:]))

    return picked


def _level_zero_unseen(choose: Any) -> Any:
    """Plan a compaction from the files of a default read."""

    def chosen(self: Any, context: Any, state: BucketState, *, full: bool) -> Any:
        if context.options.deletion_vectors_enabled:
            state = replace(state, files=tuple(file for file in state.files if file.level > 0))
        return choose(self, context, state, full=full)

    return chosen


def _reaches_the_threshold(is_above: Any) -> Any:
    """Take files whose share of deleted rows equals the threshold, too."""
    return lambda threshold, file, counts: counts.get(file.file_name, 0) >= threshold * file.row_count


MUTANTS = (
    Mutant(
        "M05",
        "a merge lets the oldest record win",
        patched((Deduplicate, "fold", instead(_oldest_wins))),
        READ,
        ("MRG-1", "MRG-4"),
        bugs=("paimon#3286", "paimon#4075", "hudi#4880"),
    ),
    Mutant(
        "M06",
        "a compaction deletes the rows that it looks up without merging their values",
        patched(*((engine, "lookup", instead("position")) for engine in (PartialUpdate, Aggregation))),
        f"{READ}|compaction_took_the_pick: upgrades",
        ("DV-20",),
        bugs=("paimon#3036",),
        engines=True,
    ),
    Mutant(
        "M07",
        "a delete is dropped while deeper levels hold its key (a table without vectors)",
        patched((compact, "plan", _deletes_dropped)),
        READ,
        ("CMP-13",),
        bugs=("paimon#11",),
        twin=True,
    ),
    Mutant(
        "M04",
        "a lookup takes a deleted row for the row before a change",
        patched(
            (compact, "not_deleted", instead(lambda vector, positions: np.ones(len(positions), dtype=bool)))
        ),
        "changes_agree: ",
        ("CHG-6", "DV-9"),
        bugs=("paimon#8204",),
    ),
    Mutant(
        "M08",
        "level-0 files with the same greatest sequence number are one",
        patched(
            (compact, "sorted_runs", _one_file_per_sequence),
            (read, "sorted_runs", _one_file_per_sequence),
            (primary_key, "sorted_runs", _one_file_per_sequence),
        ),
        rf"{READ}|{NOT_PICKED}|{LEVEL_ZERO_LEFT}",
        ("LSM-8",),
        bugs=("paimon#356",),
    ),
    Mutant(
        "M11a",
        "rewriting a file drops the vectors of its siblings",
        patched((VectorMaintainer, "forget", _drops_siblings)),
        "vectors_only_grow: .* lost deleted positions",
        ("DV-10", "DV-11", "CMT-23"),
        bugs=("paimon#6258",),
    ),
    Mutant(
        "M16",
        "a compaction is planned from the files of a default read, without level 0",
        patched((PrimaryKeyTables, "choose_compaction", _level_zero_unseen)),
        rf"{NOT_PICKED}|{LEVEL_ZERO_LEFT}",
        ("CMP-3",),
        bugs=("paimon#5790", "paimon#8712", "paimon#6630"),
    ),
    Mutant(
        "M17",
        "a rewrite reads its inputs without their vectors",
        patched((compact, "merge", _inputs_without_vectors)),
        READ,
        ("CMP-12", "DV-9"),
        bugs=("iceberg#10312", "iceberg-go#2042", "hudi#12594"),
    ),
    Mutant(
        "S2",
        "a range of positions is deleted up to its end, inclusively",
        patched((VectorMaintainer, "delete", _range_end_inclusive)),
        rf"{READ}|vectors_are_well_formed: a vector deletes positions beyond",
        ("DV-1", "DV-2"),
        bugs=("trino#23231",),
    ),
    Mutant(
        "C9",
        "a deleted key is not looked up",
        patched((compact, "keys_to_look_up", _adds_looked_up_only)),
        READ,
        ("DV-6", "CMP-13"),
    ),
    Mutant(
        "C12",
        "a replaced row is not deleted",
        patched((VectorMaintainer, "delete", instead(lambda self, file, positions: 0))),
        rf"{READ}|newer_runs_hold_newer_records: ",
        ("DV-6", "DV-12"),
    ),
    Mutant(
        "C13",
        "one level-0 run is compacted without the others",
        patched((primary_key, "pick", _one_level_zero_run)),
        f"{NOT_PICKED}|{LEVEL_ZERO_LEFT}|newer_runs_hold_newer_records: ",
        ("CMP-18",),
    ),
    Mutant(
        "D1",
        "files with too many deleted rows are never picked",
        patched((primary_key, "pick_deleted", instead(lambda runs, options, counts: None))),
        NOT_PICKED,
        ("CMP-28",),
    ),
    Mutant(
        "D2",
        "a file is picked when its share of deleted rows equals the threshold",
        patched((universal, "is_above", _reaches_the_threshold)),
        f"{NOT_PICKED}|compaction_took_the_pick: .* was compacted, though",
        ("CMP-28",),
    ),
)
