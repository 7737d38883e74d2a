"""Ranges of rows of a data file.

Clauses: RD-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

RowRanges = npt.NDArray[np.int64]
"""n ascending ranges of rows that do not touch: an array of n pairs, the first row and the row after the last."""

NEAR: Final = (
    4096  # rows between two that are read with them: many small ranges cost more than rows nobody wants
)


def within(ranges: RowRanges, start: int, end: int) -> RowRanges:
    """Return the parts of ``ranges`` from row ``start`` to before row ``end``, as numbers from ``start`` on."""
    some = ranges[(ranges[:, 1] > start) & (ranges[:, 0] < end)]
    parts: RowRanges = np.clip(some, start, end) - start
    return parts


def around(positions: npt.NDArray[np.int64]) -> RowRanges:
    """Return few ranges that hold all of the ascending ``positions``."""
    if not len(positions):
        return np.empty((0, 2), np.int64)
    gaps = np.flatnonzero(np.diff(positions) > NEAR)
    starts, ends = positions[np.append(0, gaps + 1)], positions[np.append(gaps, len(positions) - 1)] + 1
    return np.stack([starts, ends], axis=1).astype(np.int64)


def where_true(flags: npt.NDArray[np.bool_], edges: npt.NDArray[np.int64]) -> RowRanges:
    """Return the rows of the n parts that are flagged. ``edges``: n + 1 ascending rows, where parts begin and end."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.stack([edges[np.flatnonzero(steps == 1)], edges[np.flatnonzero(steps == -1)]], axis=1)


def together(parts: Sequence[RowRanges]) -> RowRanges:
    """Return ascending ranges as one array; those that touch become one."""
    ranges = np.concatenate([np.empty((0, 2), np.int64), *parts])
    if not len(ranges):
        return ranges
    apart = np.flatnonzero(ranges[1:, 0] > ranges[:-1, 1])
    return np.stack(
        [ranges[np.append(0, apart + 1), 0], ranges[np.append(apart, len(ranges) - 1), 1]], axis=1
    )
