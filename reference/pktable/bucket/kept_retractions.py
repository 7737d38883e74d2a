"""The retractions that a rewrite keeps: rows of kind -D or -U that the vector of their own file deletes.

A table with ``sequence.field`` must remember how new a deletion was, since an older record may come later. With
deletion vectors no reader may see the row that remembers it. So it lies in the output file like any record, and its
position is deleted in the commit that adds the file.

Clauses: DV-21.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import Positions
from pktable.merge.grouping import is_add


class KeptRetractions:
    """Collects where the retractions of one rewrite are, while its rows are written."""

    def __init__(self) -> None:
        self._rows = 0
        self._found: list[Positions] = []

    def add(self, rows: pa.Table) -> None:
        """Take the next rows of the rewrite, in the order in which they are written."""
        self._found.append(np.flatnonzero(~is_add(rows)) + self._rows)
        self._rows += rows.num_rows

    def by_file(self, files: Sequence[DataFileMeta]) -> Iterator[tuple[str, Positions]]:
        """Yield the name of each of ``files``, into which the rows were cut in order, and the positions to delete."""
        if not self._found:
            return
        found = np.concatenate(self._found)
        start = 0
        for file in files:
            first, end = np.searchsorted(found, [start, start + file.row_count])
            yield file.file_name, found[first:end] - start
            start += file.row_count
