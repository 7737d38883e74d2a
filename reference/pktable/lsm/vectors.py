"""The deletion vectors of one bucket while a compaction changes them.

Marks of this compaction count at once: a position already marked is no hit (DV-9). A vector leaves with
the file that is rewritten and stays with the file that is upgraded (DV-10).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder


class VectorMaintainer:
    """Collects marks and removals over the vectors of a snapshot, keyed by data file name."""

    def __init__(self, vectors: Mapping[str, DeletionVector], *, bits: int) -> None:
        self._vectors = dict(vectors)
        self._growing: dict[str, VectorBuilder] = {}
        self._bits = bits
        self.modified = False

    def mark(self, file: str, positions: npt.NDArray[np.int64]) -> int:
        """Mark ``positions`` (ascending, unique) of ``file``; return how many were not marked before.

        A vector keeps its kind: 32- and 64-bit vectors may lie side by side (DVF-4). Clauses: DV-1, DV-9, DV-11.
        """
        if not len(positions):
            return 0
        if file not in self._growing:
            before = self._vectors.get(file, DeletionVector({}, self._bits))
            self._growing[file] = VectorBuilder(before)
        marked = self._growing[file].mark(positions)
        self.modified = self.modified or marked > 0
        return marked

    def forget(self, file: str) -> None:
        """Drop the vector of a file that was rewritten. Clauses: DV-10."""
        had_one = [vectors.pop(file, None) is not None for vectors in (self._vectors, self._growing)]
        self.modified = self.modified or any(had_one)

    def vectors(self) -> Mapping[str, DeletionVector]:
        """Return the vectors as they are now, in the order in which their files came to have one."""
        grown = {file: builder.vector() for file, builder in self._growing.items()}
        return {**self._vectors, **grown}
