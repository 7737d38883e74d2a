"""The clauses about picks, stated without an algorithm, and held against the oracle and the reference.

The oracle's picks make the model's compactions and judge those of tables, so they need a judge of their own:

1. The number of runs of a universal pick is the least one at which the first rule that applies may stop.
2. A division is right if each picked file is where the clauses want it, whatever order it was found in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.lsm import bucket as theirs
from pktable.lsm import plan as reference
from pktable.lsm import universal
from pktable_spec.covers import covers
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import Pick, PickFile, Run, divide, full_pick, purge_pick, universal_pick
from pktable_spec.options import parse_options

LEVELS = 5
TARGET = 1 << 20
LARGE = TARGET * 7 // 10 + 1
"""More than 70 % of the target size; every smaller size here is far below."""


class Files(NamedTuple):
    """A table with runs, newest first."""

    runs: list[Run]
    options: ModelOptions


@st.composite
def buckets(draw: st.DrawFn) -> Files:
    sizes = st.sampled_from((1, 2, 9, 10, 90, 100, 1000, LARGE, 3 * LARGE))
    counts, rows = st.sampled_from((0, 0, 1)), st.sampled_from((1, 2, 10))
    vectors = draw(st.booleans())

    def file(level: int, low: int, high: int) -> PickFile:
        total = draw(rows)
        deleted = draw(st.integers(0, total)) if vectors and level > 0 and draw(st.booleans()) else 0
        name = f"{level}:{low}:{draw(st.integers(0, 10**9))}"
        return PickFile(name, level, (low,), (high,), draw(sizes), draw(counts), total, deleted)

    runs: list[Run] = []
    for _ in range(draw(st.integers(0, 3))):
        low = draw(st.integers(0, 29))
        runs.append((file(0, low, low + draw(st.integers(0, 3))),))
    for level in sorted(draw(st.sets(st.integers(1, LEVELS - 1), max_size=3))):
        bounds = sorted(draw(st.sets(st.integers(0, 29), min_size=2, max_size=6)))
        pairs = list(zip(bounds[::2], bounds[1::2], strict=False))
        runs.append(tuple(file(level, low, high) for low, high in pairs))
    trigger, threshold = draw(st.integers(2, 4)), draw(st.none() | st.sampled_from((0, 0.2, 0.5, 1)))
    options = ModelOptions(
        vectors,
        trigger=trigger,
        num_levels=LEVELS,
        target_file_size=TARGET,
        delete_ratio_threshold=None if threshold is None else Fraction(str(threshold)),
    )
    return Files(runs, options)


@st.composite
def picked(draw: st.DrawFn) -> tuple[Files, Pick]:
    """Draw a bucket and a pick of it: a full one, one of files with too many deleted rows, or any prefix of the runs
    with any level that it may go to."""
    bucket = draw(buckets().filter(lambda one: one.runs))
    for special in (full_pick, purge_pick):
        if draw(st.booleans()) and (pick := special(bucket.runs, bucket.options)):
            return bucket, pick
    taken = bucket.runs[: draw(st.integers(1, len(bucket.runs)))]
    level = draw(st.integers(max(1, taken[-1][0].level), LEVELS - 1))
    return bucket, Pick(tuple(file for run in taken for file in run), level)


# ----------------------------------------------------------------- how many runs are picked


def runs_wanted(runs: Sequence[Run], options: ModelOptions) -> int:
    """Return how many runs the first rule that picks something takes, 0 for none. Clauses: CMP-4 to CMP-6."""
    sizes = [sum(file.size for file in run) for run in runs]
    levels = [run[0].level for run in runs]

    def extended(start: int, *, begins: bool) -> int:
        """Return the least number from ``start`` on at which the size-ratio rule may stop."""

        def stops(count: int) -> bool:
            if count == len(runs):
                return True
            too_large = sum(sizes[:count]) * 101 < sizes[count] * 100
            low = levels[count] <= 1 and (begins or count > start)
            return too_large and not low

        return next(count for count in range(start, len(runs) + 1) if stops(count))

    enough = len(runs) >= options.trigger
    if enough and sum(sizes[:-1]) > 2 * sizes[-1]:
        return len(runs)
    if enough and extended(1, begins=False) > 1:
        return extended(1, begins=False)
    if len(runs) > options.trigger:
        return extended(len(runs) - options.trigger + 1, begins=True)
    zeros = levels.count(0)
    return extended(zeros, begins=True) if options.deletion_vectors and zeros else 0


def files_with_too_many_deleted_rows(runs: Sequence[Run], options: ModelOptions) -> set[PickFile]:
    """Return them, of the greatest level that has any. Clauses: CMP-28."""
    threshold = options.delete_ratio_threshold
    if threshold is None or not options.deletion_vectors:
        return set()
    found = {
        file
        for run in runs
        for file in run
        if file.level > 0 and Fraction(file.deleted_count, file.row_count) > threshold
    }
    return {file for file in found if file.level == max(one.level for one in found)}


@covers("CMP-1", "CMP-2", "CMP-4", "CMP-5", "CMP-6", "CMP-8", "CMP-18", "CMP-19", "CMP-20", "CMP-21")
@covers("CMP-27", "CMP-28")
@settings(max_examples=500, deadline=None)
@given(buckets())
def test_a_pick_is_the_least_that_its_rule_allows(bucket: Files) -> None:
    runs, options = bucket
    count = runs_wanted(runs, options)
    pick = universal_pick(runs, options)
    if not count:
        assert pick is None or pick.purges
        assert set(pick.files if pick else ()) == files_with_too_many_deleted_rows(runs, options)
        return
    assert pick is not None, "one file at its output level is never wanted"
    assert not pick.purges
    assert list(pick.files) == [file for run in runs[:count] for file in run]
    assert not pick.full
    if count == len(runs):
        assert pick.output_level == LEVELS - 1
    else:
        assert pick.output_level == runs[count][0].level - 1
        assert pick.output_level > 0, "the extension to a deeper level is never needed"


# ----------------------------------------------------------- what is done with picked files


def wanted(pick: Pick, files: Sequence[PickFile], options: ModelOptions) -> set[tuple[str, frozenset[str]]]:
    """Return what is to be done with the picked files: ("rewrite" | "upgrade" | "stay", their names).

    Clauses: CMP-9, CMP-11, CMP-22 to CMP-25, CMP-29.
    """
    if pick.purges:
        return {("rewrite", frozenset({str(file.name)})) for file in files if file.has_vector}
    in_order = sorted(files, key=lambda file: (file.min_key, file.max_key))

    def overlap(one: PickFile, other: PickFile) -> bool:
        return one.min_key <= other.max_key and other.min_key <= one.max_key

    def alone(file: PickFile) -> bool:
        return not any(overlap(file, other) for other in files if other is not file)

    def apart(file: PickFile) -> bool:
        return alone(file) and file.size >= options.target_file_size * 0.7

    def may_stay_whole(file: PickFile) -> bool:
        leaves_zero = options.deletion_vectors and file.level == 0
        if file.retraction_count > 0 and (pick.output_level == LEVELS - 1 or leaves_zero):
            return False
        return not (pick.full and file.has_vector)

    # Between two files that are large and alone, all others are one group.
    groups: list[list[PickFile]] = [[in_order[0]]]
    for one, other in pairwise(in_order):
        if apart(one) or apart(other):
            groups.append([])
        groups[-1].append(other)
    done = set()
    for group in groups:
        whole = len(group) == 1 and may_stay_whole(group[0])
        moved = group[0].level != pick.output_level
        deed = ("upgrade" if moved else "stay") if whole else "rewrite"
        done.add((deed, frozenset(str(file.name) for file in group)))
    return done


def found(rewrites: Any, upgrades: Any, files: Sequence[Any], name: str) -> set[tuple[str, frozenset[str]]]:
    """Return a division in the same words."""
    touched = {getattr(file, name) for file in [*(one for group in rewrites for one in group), *upgrades]}
    return {
        *(("rewrite", frozenset(str(getattr(file, name)) for file in group)) for group in rewrites),
        *(("upgrade", frozenset({str(getattr(file, name))})) for file in upgrades),
        *(("stay", frozenset({str(getattr(f, name))})) for f in files if getattr(f, name) not in touched),
    }


@covers("CMP-7", "CMP-9", "CMP-11", "CMP-22", "CMP-23", "CMP-24", "CMP-25", "CMP-29", "DV-13")
@settings(max_examples=1_000, deadline=None)
@given(picked())
def test_each_picked_file_is_rewritten_moved_or_left_as_the_clauses_want(drawn: tuple[Files, Pick]) -> None:
    (_, options), pick = drawn
    division = divide(pick, options, lambda file: file.size >= options.large_file_size)
    assert found(*division, pick.files, "name") == wanted(pick, pick.files, options)
    assert not pick.full or not any(file.has_vector for file in division.upgrades)


@dataclass(frozen=True)
class StoredFile:
    """The metadata of a file that the reference's plans depend on."""

    file_name: str
    level: int
    file_size: int
    delete_row_count: int
    row_count: int
    keys: tuple[Any, Any]


class ByKeys:
    """The order of keys, as `KeyOrder` gives it."""

    def smallest(self, file: StoredFile) -> Any:
        return file.keys[0]

    def greatest(self, file: StoredFile) -> Any:
        return file.keys[1]


@covers("CMP-7", "CMP-9", "CMP-11", "CMP-22", "CMP-23", "CMP-24", "CMP-25", "CMP-28", "CMP-29")
@settings(max_examples=1_000, deadline=None)
@given(picked())
def test_the_reference_does_with_each_file_what_the_clauses_want(drawn: tuple[Files, Pick]) -> None:
    (runs, options), pick = drawn
    stored = {
        file: StoredFile(
            str(file.name),
            file.level,
            file.size,
            file.retraction_count,
            file.row_count,
            (file.min_key, file.max_key),
        )
        for run in runs
        for file in run
    }
    stored_options = {
        "bucket": "1",
        "deletion-vectors.enabled": str(options.deletion_vectors).lower(),
        "num-sorted-run.compaction-trigger": str(options.trigger),
        "num-levels": str(LEVELS),
        "target-file-size": f"{TARGET} b",
    }
    if options.delete_ratio_threshold is not None:
        stored_options["compaction.delete-ratio-threshold"] = str(float(options.delete_ratio_threshold))
    parsed = parse_options(stored_options)
    files: Any = tuple(stored[file] for file in pick.files)
    marked = {str(file.name) for file in stored if file.has_vector}
    chosen = universal.Pick(pick.output_level, files)
    if pick.full:
        full = universal.pick_full([_run(run, stored) for run in runs], parsed, marked)
        assert full is not None
        assert (full.output_level, full.files, full.per_file) == (pick.output_level, files, pick.purges)
        chosen = full
    elif pick.purges:
        counts = {str(file.name): file.deleted_count for file in stored if file.has_vector}
        purge = universal.pick_deleted([_run(run, stored) for run in runs], parsed, counts)
        assert purge == universal.Pick(pick.output_level, files, per_file=True)
        chosen = purge
    order: Any = ByKeys()
    everything: Any = list(stored.values())
    plan = reference.plan(chosen, everything, parsed, order)
    assert found(plan.rewrites, plan.upgrades, files, "file_name") == wanted(pick, pick.files, options)


def _run(run: Run, stored: dict[PickFile, StoredFile]) -> Any:
    files: Any = tuple(stored[file] for file in run)
    return theirs.Run(run[0].level, files)
