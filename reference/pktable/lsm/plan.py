"""Plan the compaction of a pick: which files are rewritten together, and which only change their level.

Files whose key ranges overlap form a section. A section of one large file needs no merge: the file is upgraded, which
changes metadata only. Small files are rewritten with their neighbours, so that their number stays bounded. With
deletion vectors an upgraded level-0 file still needs the lookup that deletes the rows its keys replace.

The vectors of a bucket change along: a position that a compaction has deleted is not deleted again (DV-9). The vector
of a file that is rewritten is dropped; the vector of a file that is upgraded stays (DV-10).

Clauses: CMP-9 to CMP-11, CMP-13, CMP-23 to CMP-25.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pktable_spec.options import TableOptions

from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder
from pktable.lsm.bucket import KeyOrder
from pktable.lsm.universal import Pick

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
