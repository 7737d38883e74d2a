"""Which runs a compaction takes, to which level, and which files of them it must rewrite.

`universal_pick` tells it for known sizes; `allowed_picks` for all sizes at once, which is what a model
without bytes needs: `universal_pick` of any sizes is one of `allowed_picks`. `divide` then splits a
pick into rewrites and upgrades. Runs are given newest first, the files of a run in key order.

The subtle case is the output level: one less than that of the first run not taken, and never 0 (CMP-2, CMP-19).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

from pktable_spec.interface import Key
from pktable_spec.model.options import ModelOptions


class PickFile(NamedTuple):
    """What a pick depends on, of one live file."""

    name: Hashable
    level: int
    min_key: Key
    max_key: Key
    size: int
    retraction_count: int
    row_count: int
    deleted_count: int  # of the positions that its vector deletes

    @property
    def has_vector(self) -> bool:
        return self.deleted_count > 0


Run: TypeAlias = Sequence[PickFile]


class Pick(NamedTuple):
    """The files a compaction takes and its output level.

    ``purges``: the files are rewritten one by one, where they are, to leave out their deleted rows. ``full``: a full
    compaction, after which no deletion vector is left.
    """

    files: tuple[PickFile, ...]
    output_level: int
    full: bool = False
    purges: bool = False


class Division(NamedTuple):
    """A pick taken apart: groups of files rewritten together, and files that only change level."""

    rewrites: tuple[tuple[PickFile, ...], ...]
    upgrades: tuple[PickFile, ...]


def universal_pick(runs: Sequence[Run], options: ModelOptions) -> Pick | None:
    """Return what universal compaction picks, None where it picks nothing.

    Clauses: CMP-1 to CMP-6, CMP-8, CMP-18 to CMP-21, CMP-27, CMP-28.
    """
    count = _run_count(runs, options)
    pick = None if count == 0 else take(runs, count, options)
    if pick is None or (len(pick.files) == 1 and pick.files[0].level == pick.output_level):
        return purge_pick(runs, options)
    return with_all_that_is_older(pick, runs, options)


def with_all_that_is_older(pick: Pick, runs: Sequence[Run], options: ModelOptions) -> Pick:
    """Return the pick, or all runs if it has retractions that can be merged only with all of them. Clauses: MRG-8."""
    if options.retractions_take_all and any(file.retraction_count for file in pick.files):
        return full_pick(runs, options) or pick
    return pick


def purge_pick(runs: Sequence[Run], options: ModelOptions) -> Pick | None:
    """Return the files with too many deleted rows of the greatest level that has any, None if none has.

    Clauses: CMP-28, CMP-29.
    """
    threshold = options.delete_ratio_threshold
    if threshold is None or not options.deletion_vectors:
        return None
    for run in reversed(runs):
        files = tuple(file for file in run if file.deleted_count > threshold * file.row_count)
        if files:
            return Pick(files, files[0].level, purges=True)
    return None


def _run_count(runs: Sequence[Run], options: ModelOptions) -> int:
    """Return how many runs are wanted, 0 for none."""
    sizes = [sum(file.size for file in run) for run in runs]
    if len(runs) >= options.trigger:
        if sum(sizes[:-1]) * 100 > options.max_amplification_percent * sizes[-1]:
            return len(runs)
        by_ratio = _extended(runs, 1, options, begun=False)
        if by_ratio > 1:
            return by_ratio
    if len(runs) > options.trigger:
        return _extended(runs, len(runs) - options.trigger + 1, options, begun=True)
    level_zero_count = sum(run[0].level == 0 for run in runs)
    if options.compacts_level_zero and level_zero_count:
        return _extended(runs, level_zero_count, options, begun=True)
    return 0


def _extended(runs: Sequence[Run], count: int, options: ModelOptions, *, begun: bool) -> int:
    """Add runs to the newest ``count`` while they are not too large for what is picked.

    Once there is something to compact (``begun``), runs of level 0 and 1 are added whatever their size.
    Clauses: CMP-5, CMP-21.
    """
    sizes = [sum(file.size for file in run) for run in runs]
    while count < len(runs):
        small = sum(sizes[:count]) * (100 + options.size_ratio_percent) >= sizes[count] * 100
        if not small and not (begun and runs[count][0].level <= 1):
            break
        count, begun = count + 1, True
    return count


def take(runs: Sequence[Run], count: int, options: ModelOptions) -> Pick:
    """Return the pick of the newest ``count`` runs, or more where it would end in level 0. Clauses: CMP-2, CMP-19."""
    if count < len(runs) and runs[count][0].level <= 1:
        while count < len(runs) and runs[count][0].level == 0:
            count += 1
        count = min(count + 1, len(runs))
        output_level = runs[count - 1][0].level
    else:
        output_level = runs[count][0].level - 1 if count < len(runs) else 0
    if count == len(runs):
        output_level = options.max_level
    return Pick(tuple(file for run in runs[:count] for file in run), output_level)


def allowed_picks(runs: Sequence[Run], options: ModelOptions) -> frozenset[Pick]:
    """Return every pick that universal compaction takes for some sizes of the files.

    Clauses: CMP-1, CMP-2, CMP-3, CMP-18, CMP-19, CMP-28.
    """
    level_zero_count = sum(run[0].level == 0 for run in runs)
    purge = None if level_zero_count or len(runs) > options.trigger else purge_pick(runs, options)
    purges = frozenset([purge] if purge else [])
    if len(runs) >= options.trigger:
        fewest = 2
    elif options.compacts_level_zero and level_zero_count:
        fewest = level_zero_count
    else:
        return purges
    if options.compacts_level_zero and level_zero_count and len(runs) == options.trigger:
        # Neither amplification nor ratio need fire; then level 0 is forced out alone.
        fewest = min(fewest, level_zero_count)
    low = sum(run[0].level <= 1 for run in runs)  # all of these are taken, whatever their size
    picks = {take(runs, count, options) for count in range(max(fewest, low), len(runs) + 1)}
    return purges | {
        with_all_that_is_older(pick, runs, options)
        for pick in picks
        if len(pick.files) > 1 or pick.files[0].level != pick.output_level
    }


def full_pick(runs: Sequence[Run], options: ModelOptions) -> Pick | None:
    """Return what a full compaction takes, None where there is nothing to do. Clauses: CMP-7, CMP-22."""
    if not runs:
        return None
    if len(runs) == 1 and runs[0][0].level == options.max_level:
        marked = tuple(file for file in runs[0] if file.has_vector)
        return Pick(marked, options.max_level, full=True, purges=True) if marked else None
    return Pick(tuple(file for run in runs for file in run), options.max_level, full=True)


def divide(pick: Pick, options: ModelOptions, is_large: Callable[[PickFile], bool]) -> Division:
    """Split a pick into what is rewritten together and what is upgraded.

    A file alone in its section and already at the output level is neither.
    Clauses: CMP-9 to CMP-11, CMP-22 to CMP-25, CMP-29.
    """
    if pick.purges:
        return Division(tuple((file,) for file in pick.files), ())
    rewrites: list[tuple[PickFile, ...]] = []
    upgrades: list[PickFile] = []
    neighbours: list[PickFile] = []

    def keep_whole(file: PickFile) -> None:
        if must_be_rewritten(file, pick, options):
            rewrites.append((file,))
        elif file.level != pick.output_level:
            upgrades.append(file)

    def rewrite_neighbours() -> None:
        if len(neighbours) == 1:
            keep_whole(neighbours[0])
        elif neighbours:
            rewrites.append(tuple(neighbours))
        neighbours.clear()

    for section in sections(pick.files):
        if len(section) == 1 and is_large(section[0]):
            rewrite_neighbours()
            keep_whole(section[0])
        else:
            neighbours.extend(section)
    rewrite_neighbours()
    return Division(tuple(rewrites), tuple(upgrades))


def must_be_rewritten(file: PickFile, pick: Pick, options: ModelOptions) -> bool:
    """Whether a file may not be upgraded however large it is. Clauses: CMP-11, CMP-25, DV-13."""
    decided = options.lookup_decides_rows or options.hides_retractions
    if decided and file.level == 0 and pick.output_level < options.max_level:
        return True
    if file.retraction_count:
        out_of_level_zero = options.deletion_vectors and file.level == 0
        if out_of_level_zero or (options.order is None and pick.output_level == options.max_level):
            return True
    # A full compaction leaves no vector, so a file that has one cannot keep its bytes.
    return pick.full and file.has_vector


def sections(files: Sequence[PickFile]) -> list[list[PickFile]]:
    """Group files whose key ranges overlap, directly or through others, in key order. Clauses: CMP-9."""
    found: list[list[PickFile]] = []
    greatest: Key = ()
    for file in sorted(files, key=lambda file: (file.min_key, file.max_key)):
        if found and file.min_key <= greatest:
            found[-1].append(file)
            greatest = max(greatest, file.max_key)
        else:
            found.append([file])
            greatest = file.max_key
    return found
