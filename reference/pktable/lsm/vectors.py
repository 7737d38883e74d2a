"""The deletion vectors of one bucket while a compaction changes them.

Marks of this compaction count at once: a position already marked is no hit (DV-9). A vector leaves with
the file that is rewritten and stays with the file that is upgraded (DV-10).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pktable.format.deletion_vector import DeletionVector


class VectorMaintainer:
    """Collects marks and removals over the vectors of a snapshot, keyed by data file name."""

    def __init__(self, vectors: Mapping[str, DeletionVector], *, bits: int) -> None:
        self._vectors = dict(vectors)
        self._bits = bits
        self.modified = False

    def vector_of(self, file: str) -> DeletionVector | None:
        return self._vectors.get(file)

    def mark(self, file: str, positions: npt.NDArray[np.int64]) -> int:
        """Mark ``positions`` (ascending, unique, none marked yet) of ``file``; return how many.

        A vector keeps its kind: 32- and 64-bit vectors may lie side by side (DVF-4). Clauses: DV-1, DV-11.
        """
        if not len(positions):
            return 0
        before = self._vectors.get(file)
        after = (
            before.union(positions) if before else DeletionVector.from_positions(positions, bits=self._bits)
        )
        assert after.cardinality == len(positions) + (before.cardinality if before else 0), (
            "lookup found a marked row"
        )
        self._vectors[file] = after
        self.modified = True
        return len(positions)

    def forget(self, file: str) -> None:
        """Drop the vector of a file that was rewritten. Clauses: DV-10."""
        if self._vectors.pop(file, None) is not None:
            self.modified = True

    def vectors(self) -> Mapping[str, DeletionVector]:
        return dict(self._vectors)
