"""The deletion vectors of one bucket while a compaction changes them.

Positions deleted by this compaction count at once: a position that is deleted already is not deleted again (DV-9). The
vector of a file that is rewritten is dropped; the vector of a file that is upgraded stays (DV-10).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder


class VectorMaintainer:
    """Collects deleted positions and dropped vectors on top of a snapshot's vectors, by data file name."""

    def __init__(self, vectors: Mapping[str, DeletionVector], *, bits: int) -> None:
        self._vectors = dict(vectors)
        self._growing: dict[str, VectorBuilder] = {}
        self._bits = bits
        self.modified = False

    def delete(self, file: str, positions: npt.NDArray[np.int64]) -> int:
        """Delete ``positions`` (ascending, unique) of ``file``; return how many were not deleted before.

        A vector keeps its kind: 32- and 64-bit vectors may lie side by side (DVF-12). Clauses: DV-1, DV-9, DV-11.
        """
        if not len(positions):
            return 0
        if file not in self._growing:
            before = self._vectors.get(file, DeletionVector({}, self._bits))
            self._growing[file] = VectorBuilder(before)
        deleted = self._growing[file].mark(positions)
        self.modified = self.modified or deleted > 0
        return deleted

    def forget(self, file: str) -> None:
        """Drop the vector of a file that was rewritten. Clauses: DV-10."""
        had_one = [vectors.pop(file, None) is not None for vectors in (self._vectors, self._growing)]
        self.modified = self.modified or any(had_one)

    def vectors(self) -> Mapping[str, DeletionVector]:
        """Return the vectors as they are now, in the order in which their files came to have one."""
        grown = {file: builder.vector() for file, builder in self._growing.items()}
        return {**self._vectors, **grown}
