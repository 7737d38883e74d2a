"""Plan a compaction: the files that are rewritten together, those that only change their level, those of append tables.

Files whose key ranges overlap form a section. A section of one large file needs no merge: the file is upgraded, which
changes metadata only. Small files are rewritten with their neighbours, so that their number stays bounded. With
deletion vectors an upgraded level-0 file still needs the lookup that deletes the rows its keys replace.

The vectors of a bucket change along: a position that a compaction has deleted is not deleted again (DV-9). The vector
of a file that is rewritten is dropped; the vector of a file that is upgraded stays (DV-10).

An append table compacts small files, and files with too many deleted rows:

1. A file is small if it is below 70 % of the target size. It has too many deleted rows if their share is above a
   threshold.
2. Such files are packed into groups. A group is complete when it has two files or more, and twice the target size;
   opening a file counts like so many bytes.
3. Without vectors the last group is compacted if it has enough files.
4. Files with vectors are grouped by their DV index file, since a file rewritten takes its vector with it, and their
   last group is always compacted.

A full compaction takes every small file and every file with a deleted row, whatever their number.

Clauses: APP-19, APP-20, CMP-9 to CMP-11, CMP-13, CMP-23 to CMP-25, DV-13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from pktable_spec.options import TableOptions

from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder
from pktable.lsm.bucket import BucketState, KeyOrder
from pktable.lsm.universal import Pick, is_above

SMALL_SHARE = 0.7  # of target-file-size; a smaller file is merged with its neighbours


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The way one compaction treats its picked files; every picked file is in exactly one place.

    ``rewrites``: groups of files, each merged into one run of the output level. ``upgrades``: files that
    only change their level. ``unchanged``: files already where they belong. ``drop_deletes``: retractions
    that win are not written.
    """

    output_level: int
    rewrites: tuple[tuple[DataFileMeta, ...], ...]
    upgrades: tuple[DataFileMeta, ...]
    drop_deletes: bool


def plan(
    chosen: Pick,
    files: Sequence[DataFileMeta],
    options: TableOptions,
    order: KeyOrder,
    *,
    merges_older: bool = False,
) -> CompactionPlan:
    """Return the plan for ``chosen``; ``files`` are all live files of the bucket.

    ``merges_older``: the records of level 0 are merged with older ones of files that are not picked.
    Clauses: CHG-21, CMP-9, CMP-13, CMP-23, CMP-24, DV-20.
    """
    highest = max(file.level for file in files)
    if options.remembers_deletions:
        drop_deletes = chosen.forgets_deletions
    else:
        drop_deletes = chosen.output_level > 0 and (
            options.deletion_vectors_enabled or chosen.output_level >= highest
        )
    if chosen.per_file:
        return CompactionPlan(chosen.output_level, tuple((file,) for file in chosen.files), (), drop_deletes)
    rewrites: list[tuple[DataFileMeta, ...]] = []
    upgrades: list[DataFileMeta] = []

    def settle(group: list[DataFileMeta]) -> None:
        if len(group) == 1 and not _must_rewrite(group[0], chosen, options, merges_older):
            if group[0].level != chosen.output_level:
                upgrades.append(group[0])
        elif group:
            rewrites.append(tuple(group))

    gathered: list[DataFileMeta] = []
    for section in sections(chosen.files, order):
        if len(section) > 1 or section[0].file_size < options.target_file_bytes * SMALL_SHARE:
            gathered += section
        else:
            settle(gathered)
            settle(list(section))
            gathered = []
    settle(gathered)
    return CompactionPlan(chosen.output_level, tuple(rewrites), tuple(upgrades), drop_deletes)


def sections(files: Sequence[DataFileMeta], order: KeyOrder) -> list[tuple[DataFileMeta, ...]]:
    """Return ``files`` grouped so that key ranges overlap inside a group only, in key order."""
    found: list[list[DataFileMeta]] = []
    bound: tuple[object, ...] = ()
    for file in sorted(files, key=lambda file: (order.smallest(file), order.greatest(file))):
        greatest = order.greatest(file)
        if found and order.smallest(file) <= bound:
            found[-1].append(file)
            bound = max(bound, greatest)
        else:
            found.append([file])
            bound = greatest
    return [tuple(section) for section in found]


def _must_rewrite(file: DataFileMeta, chosen: Pick, options: TableOptions, merges_older: bool) -> bool:
    """Whether ``file`` may not go where it goes as it is. Clauses: CHG-21, CMP-11, CMP-25, DV-20 to DV-22, META-75."""
    if file.file_name in chosen.must_rewrite:
        return True
    if merges_older and file.level == 0 and chosen.output_level < options.max_level:
        return True
    before, after = (options.format_of(level, changelog=False) for level in (file.level, chosen.output_level))
    if before != after:
        return True
    if file.delete_row_count == 0:
        return False
    if options.remembers_deletions:
        return file.level == 0 and options.deletion_vectors_enabled
    return chosen.output_level == options.max_level or (file.level == 0 and options.deletion_vectors_enabled)


class VectorMaintainer:
    """Collects deleted positions and dropped vectors on top of a snapshot's vectors, by data file name."""

    def __init__(self, vectors: Mapping[str, DeletionVector], *, bits: int) -> None:
        self._vectors = dict(vectors)
        self._growing: dict[str, VectorBuilder] = {}
        self._bits = bits
        self.modified = False

    def delete(self, file: str, positions: npt.NDArray[np.int64]) -> None:
        """Delete ``positions`` (ascending, unique) of ``file``.

        A vector keeps its kind: 32- and 64-bit vectors may lie side by side (DVF-12). Clauses: DV-1, DV-9, DV-11.
        """
        if not len(positions):
            return
        if file not in self._growing:
            before = self._vectors.get(file, DeletionVector({}, self._bits))
            self._growing[file] = VectorBuilder(before)
        self.modified = self._growing[file].mark(positions) > 0 or self.modified

    def forget(self, file: str) -> None:
        """Drop the vector of a file that was rewritten. Clauses: DV-10."""
        had_one = [vectors.pop(file, None) is not None for vectors in (self._vectors, self._growing)]
        self.modified = self.modified or any(had_one)

    def vectors(self) -> Mapping[str, DeletionVector]:
        """Return the vectors as they are now, in the order in which their files came to have one."""
        grown = {file: builder.vector() for file, builder in self._growing.items()}
        return {**self._vectors, **grown}


Files = tuple[DataFileMeta, ...]

DELETE_RATIO: Final = Fraction("0.2")
"""The threshold of a table whose options give none."""


def pick_files(
    state: BucketState,
    deleted_counts: Mapping[str, int],
    options: TableOptions,
    target_bytes: int,
    *,
    full: bool,
) -> list[Files]:
    """Return groups of live files, each of which is to be written again.

    ``deleted_counts``: by data file, without the files that have none. ``target_bytes``: of a data file.
    """
    with_vector = state.files_with_vector
    threshold = DELETE_RATIO if options.delete_ratio_threshold is None else options.delete_ratio_threshold
    chosen = [
        file
        for file in state.files
        if file.file_size < target_bytes * SMALL_SHARE
        or (full and file.file_name in with_vector)
        or is_above(threshold, file, deleted_counts)
    ]
    if full:
        groups = list(_packed(chosen, options, target_bytes, fewest=1))
        return [group for group in groups if len(group) > 1 or group[0].file_name in with_vector]
    found = list(
        _packed(
            [file for file in chosen if file.file_name not in with_vector],
            options,
            target_bytes,
            fewest=options.min_compacted_files,
        )
    )
    for index in state.indexes:
        names = {one.data_file for one in index.ranges or ()}
        found += _packed([f for f in chosen if f.file_name in names], options, target_bytes, fewest=1)
    return found


def _packed(
    files: Iterable[DataFileMeta], options: TableOptions, target_bytes: int, *, fewest: int
) -> Iterator[Files]:
    """Yield groups of ``files``, smallest first; the last group only if it has ``fewest`` files. Clauses: APP-20."""
    group: list[DataFileMeta] = []
    size = 0
    for file in sorted(files, key=_by_size):
        group.append(file)
        size += file.file_size + options.open_file_cost_bytes
        if len(group) > 1 and size >= 2 * target_bytes:
            yield in_order(group)
            group, size = [], 0
    if len(group) >= max(1, fewest):
        yield in_order(group)


def in_order(files: Sequence[DataFileMeta]) -> Files:
    """Return files in the order in which a rewrite reads them: that of their numbers."""
    return tuple(sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time or 0, f.file_name)))


def _by_size(file: DataFileMeta) -> tuple[int, str]:
    return file.file_size, file.file_name
