"""Which runs to compact: universal compaction, and with deletion vectors never a level 0 left behind.

Runs come newest first, and a pick is always a prefix of them: merging anything but neighbours in age
would let an older record overtake a newer one. The conditions are tried in order: size amplification,
size ratio, file number; then, with deletion vectors, level 0 is forced up, because its rows stay
invisible until a compaction has found what they replace.

Where all of these pick nothing, files with too many deleted rows are rewritten one by one, each in its level: that
moves no record between runs, so the order of ages stays.

Clauses: APP-19, CMP-1 to CMP-8, CMP-18 to CMP-22, CMP-27 to CMP-29.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pktable_spec.options import TableOptions

from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import Run


@dataclass(frozen=True, slots=True)
class Pick:
    """Files to compact and the level their records go to.

    ``per_file``: rewrite file by file, to apply vectors, instead of merging (CMP-22, CMP-29). ``must_rewrite``: names
    of files that must be rewritten, because no vector may be left (CMP-25). ``forgets_deletions``: it drops the
    retractions that are kept otherwise (MRG-22).
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    per_file: bool = False
    must_rewrite: frozenset[str] = frozenset()
    forgets_deletions: bool = False


def pick(runs: Sequence[Run], options: TableOptions) -> Pick | None:
    """Return what the strategy compacts now, or None.

    Clauses: CMP-1, CMP-3, CMP-8, CMP-18.
    """
    count = _universal(runs, options)
    if count is None and options.compacts_level_zero:
        count = _level_zero(runs, options)
    if count is None:
        return None
    chosen = _to_level(runs, count, options.max_level)
    if len(chosen.files) == 1 and chosen.files[0].level == chosen.output_level:
        return None
    return chosen


def pick_full(
    runs: Sequence[Run],
    options: TableOptions,
    to_rewrite: Collection[str],
    *,
    forgets_deletions: bool = False,
) -> Pick | None:
    """Return the full compaction, or None if there is nothing to do.

    ``to_rewrite``: names of the files that may not stay as they are. Clauses: CMP-7, CMP-22, MRG-22.
    """
    if not runs:
        return None
    if len(runs) == 1 and runs[0].level == options.max_level:
        files = tuple(file for file in runs[0].files if file.file_name in to_rewrite)
        if not files:
            return None
        return Pick(options.max_level, files, per_file=True, forgets_deletions=forgets_deletions)
    files = tuple(file for run in runs for file in run.files)
    return Pick(
        options.max_level, files, must_rewrite=frozenset(to_rewrite), forgets_deletions=forgets_deletions
    )


def pick_deleted(
    runs: Sequence[Run], options: TableOptions, deleted_counts: Mapping[str, int]
) -> Pick | None:
    """Return the files with too many deleted rows of the greatest level that has any, None if none has.

    ``deleted_counts``: by data file, without the files that have none. Clauses: CMP-28, CMP-29.
    """
    threshold = options.delete_ratio_threshold
    if threshold is None:
        return None
    for run in reversed(runs):
        files = tuple(file for file in run.files if is_above(threshold, file, deleted_counts))
        if files:
            return Pick(run.level, files, per_file=True)
    return None


def _universal(runs: Sequence[Run], options: TableOptions) -> int | None:
    """Return how many of the newest runs universal compaction takes. Clauses: CMP-4, CMP-6, CMP-27."""
    if len(runs) < options.compaction_trigger:
        return None
    younger = sum(run.size_bytes for run in runs[:-1])
    if younger * 100 > options.max_size_amplification_percent * runs[-1].size_bytes:
        return len(runs)
    count = _extend(runs, 1, options, forced=False)
    if count > 1:
        return count
    if len(runs) > options.compaction_trigger:
        return _extend(runs, len(runs) - options.compaction_trigger + 1, options, forced=True)
    return None


def _level_zero(runs: Sequence[Run], options: TableOptions) -> int | None:
    """Return how many runs a forced compaction of level 0 takes. Clauses: CMP-20."""
    fresh = sum(run.level == 0 for run in runs)
    return _extend(runs, fresh, options, forced=True) if fresh else None


def _extend(runs: Sequence[Run], count: int, options: TableOptions, *, forced: bool) -> int:
    """Return ``count`` enlarged by every next run that is not large compared to those before it.

    Once compaction happens anyway, a run of level 1 joins whatever its size: the output level would
    otherwise be 0. Clauses: CMP-5, CMP-21.
    """
    size = sum(run.size_bytes for run in runs[:count])
    for following in runs[count:]:
        too_large = size * (100 + options.size_ratio_percent) < following.size_bytes * 100
        if too_large and not (forced and following.level <= 1):
            break
        size += following.size_bytes
        count += 1
        forced = True
    return count


def _to_level(runs: Sequence[Run], count: int, max_level: int) -> Pick:
    """Return the pick of the newest ``count`` runs with its output level. Clauses: CMP-2, CMP-19."""
    output_level = max_level if count == len(runs) else runs[count].level - 1
    assert output_level > 0, "a pick that ends before a run of level 0 or 1 takes that, too"
    return Pick(output_level, tuple(file for run in runs[:count] for file in run.files))


def is_above(threshold: Fraction, file: DataFileMeta, deleted_counts: Mapping[str, int]) -> bool:
    """Return whether the share of deleted rows of ``file`` is above ``threshold``; equal to it is not above.

    ``deleted_counts``: by data file, without the files that have none.
    """
    return deleted_counts.get(file.file_name, 0) > threshold * file.row_count
