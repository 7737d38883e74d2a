"""The files and deletion vectors of one snapshot, and what a compaction planned on them must take.

A `Layout` is what a table shows of a snapshot, with the rows that its reads must return. `expected_compactions`
asks the oracle's picks, given the sizes in the table's own metadata, what compacting each bucket must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pktable_spec.interface import BucketId, Change, FileInfo, Row
from pktable_spec.model import picks
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import Pick, PickFile

FileKey: TypeAlias = tuple[BucketId, str]
"""A data file by its bucket and name."""
Entry: TypeAlias = tuple[BucketId, str, int]
"""A live file at a level."""


@dataclass
class Layout:
    """The files and vectors of one snapshot, and the rows its reads must return.

    ``index_files``: the DV index file of each bucket that has one. ``visible``: the rows of a default read.
    ``unrecorded``: per bucket the first write that no compaction has recorded yet. ``changes``: what it recorded.
    """

    id: int
    kind: str
    files: dict[FileKey, FileInfo] = field(default_factory=dict)
    vectors: dict[FileKey, frozenset[int]] = field(default_factory=dict)
    index_files: dict[BucketId, str] = field(default_factory=dict)
    visible: frozenset[Row] = frozenset()
    fresh: frozenset[Row] = frozenset()
    unrecorded: Mapping[BucketId, int] = field(default_factory=dict)
    changes: Sequence[Change] = ()

    def entries(self) -> set[Entry]:
        return {(file.bucket, file.name, file.level) for file in self.files.values()}

    def vectors_of(self, bucket: BucketId) -> dict[str, frozenset[int]]:
        return {name: positions for (at, name), positions in self.vectors.items() if at == bucket}

    def buckets(self) -> dict[BucketId, list[FileInfo]]:
        divided: dict[BucketId, list[FileInfo]] = {}
        for file in self.files.values():
            divided.setdefault(file.bucket, []).append(file)
        return divided


@dataclass(frozen=True)
class ExpectedCompaction:
    """The files that one bucket's compaction must remove and keep, by the oracle's picks.

    ``removed``: the files that leave their level; ``upgraded``: the names of those that only change level.
    """

    pick: Pick
    removed: frozenset[Entry]
    upgraded: frozenset[str]

    @property
    def output_level(self) -> int:
        return self.pick.output_level

    def __str__(self) -> str:
        """Return in words what is done with which files."""
        moved = sorted(f"{name} of level {level}" for _, name, level in self.removed if name in self.upgraded)
        merged = sorted(
            f"{name} of level {level}" for _, name, level in self.removed if name not in self.upgraded
        )
        where = "in place" if self.pick.purges else f"into level {self.output_level}"
        steps = [f"{', '.join(merged)} rewritten {where}"] * bool(merged)
        steps += [f"{', '.join(moved)} moved to level {self.output_level}"] * bool(moved)
        return " and ".join(steps)


def expected_compactions(
    base: Layout,
    options: ModelOptions,
    *,
    full: bool,
    without_vector: Iterable[FileKey] = (),
    moves_keys: bool = False,
) -> dict[BucketId, ExpectedCompaction]:
    """Return what compacting each bucket of ``base`` must do; buckets with nothing to do are absent.

    ``without_vector``: files written before deletion vectors were switched on.
    ``moves_keys``: whether a compaction that records changes takes all buckets.
    """
    found = {}
    old_files = set(without_vector)

    def picked(full: bool) -> Iterator[tuple[BucketId, picks.Pick]]:
        for bucket, files in base.buckets().items():
            choose = picks.full_pick if full or may_shadow_rows(files, old_files) else picks.universal_pick
            pick = choose(sorted_runs(files, base, options), options)
            if pick is not None:
                yield bucket, pick

    chosen = list(picked(full))
    records = moves_keys and options.records_full_compactions
    if records and any(pick.output_level == options.max_level for _, pick in chosen):
        chosen = list(picked(True))
    for bucket, pick in chosen:
        division = picks.divide(pick, options, lambda file: file.size >= options.large_file_size)
        removed = [file for group in division.rewrites for file in group] + list(division.upgrades)
        if removed:
            found[bucket] = ExpectedCompaction(
                pick,
                frozenset((bucket, str(file.name), file.level) for file in removed),
                frozenset(str(file.name) for file in division.upgrades),
            )
    return found


def may_shadow_rows(files: Sequence[FileInfo], without_vector: set[FileKey]) -> bool:
    """Whether one of a bucket's files may replace rows that no vector deletes. Clauses: DV-15."""
    deepest = max(file.level for file in files)
    return any((file.bucket, file.name) in without_vector for file in files if 0 < file.level < deepest)


def sorted_runs(files: Iterable[FileInfo], layout: Layout, options: ModelOptions) -> list[list[PickFile]]:
    """Return the runs that ``files``, of one bucket of ``layout``, form, newest first. Clauses: LSM-2, LSM-4, LSM-8."""
    level_zero, deeper = [], dict[int, list[FileInfo]]()
    for file in files:
        if file.level == 0:
            level_zero.append(file)
        else:
            deeper.setdefault(file.level, []).append(file)
    level_zero.sort(key=lambda file: (-file.max_sequence, -file.min_sequence, file.created, file.name))
    runs = [[file] for file in level_zero]
    for level in sorted(deeper):
        runs.append(sorted(deeper[level], key=lambda file: file.min_key))
    return [[_pick_file(file, _purged_count(file, layout, options)) for file in run] for run in runs]


def _purged_count(file: FileInfo, layout: Layout, options: ModelOptions) -> int:
    """Return how many rows a vector deletes that are not retractions to keep. Clauses: CMP-22, CMP-28."""
    deleted = layout.vectors.get((file.bucket, file.name), frozenset())
    return max(len(deleted) - (file.retraction_count if options.hides_retractions else 0), 0)


def _pick_file(file: FileInfo, deleted_count: int) -> PickFile:
    """Return what picks see of a file."""
    keys = file.min_key, file.max_key
    return PickFile(
        file.name, file.level, *keys, file.size, file.retraction_count, file.row_count, deleted_count
    )
