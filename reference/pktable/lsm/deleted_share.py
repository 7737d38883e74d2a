"""The share of deleted rows of a data file, and the threshold above which a compaction takes the file.

Clauses: APP-19, CMP-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pktable.format.metadata.manifest import DataFileMeta


def is_above(threshold: Fraction, file: DataFileMeta, deleted_counts: Mapping[str, int]) -> bool:
    """Return whether the share of deleted rows of ``file`` is above ``threshold``; equal to it is not above.

    ``deleted_counts``: by data file, without the files that have none.
    """
    return deleted_counts.get(file.file_name, 0) > threshold * file.row_count
