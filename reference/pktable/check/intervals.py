"""When rows are live, over the versions of a bucket or the snapshots of a table, which are counted from 0.

`live_intervals` gives the intervals in which rows of one file are live: from where the file appears until it is removed
or a vector deletes the row's position. `pairs_together` gives the pairs of rows that are live at the same time,
and `by_files` counts them by their files.

Clauses: APP-33, DV-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pktable.format.vectors.deletion_vector import DeletionVector

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """A file in versions ``start`` to ``end`` - 1, at one level and with one vector.

    ``enabled``: whether default reads of these versions do not merge, so that a key may be live only once.
    """

    start: int
    end: int
    level: int
    enabled: bool
    vector: DeletionVector | None

    def continues(self, before: Span) -> bool:
        """Return whether a record that neither vector deletes has one interval through both spans."""
        return (before.end, before.level, before.enabled) == (self.start, self.level, self.enabled)


@dataclass(frozen=True, slots=True)
class Intervals:
    """When records are live, n intervals: record ``rows[i]`` from version ``starts[i]`` to before ``ends[i]``.

    ``levels``, ``enabled``: as in `Span`.
    """

    rows: Longs
    starts: Longs
    ends: Longs
    levels: Longs
    enabled: Longs

    @classmethod
    def of(cls, parts: Sequence[Sequence[Longs]]) -> Intervals:
        """Join parts, each of five columns."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def pairs_together(intervals: Intervals, groups: Longs) -> Iterator[tuple[Longs, Longs]]:
    """Yield indices (left, right) of intervals that overlap and are of one group; left begins first.

    ``groups``: of each interval. Every pair is yielded once.
    """
    order = np.lexsort((intervals.starts, groups))
    starts, ends, groups = intervals.starts[order], intervals.ends[order], groups[order]
    for distance in range(1, len(groups)):
        left = np.flatnonzero(groups[distance:] == groups[:-distance])
        if not len(left):
            return
        together = left[starts[left + distance] < ends[left]]
        yield order[together], order[together + distance]


def by_files(
    intervals: Intervals, files: Longs, left: Longs, right: Longs
) -> Iterator[tuple[int, int, range, Longs, int]]:
    """Yield (file, other file, when, an example, number) of pairs that have the first three in common.

    ``files``: the number of the file of each row. ``left``, ``right``: as `pairs_together` yields them. The example is
    the two rows, in the order of the files.
    """
    if not len(left):
        return
    pairs = np.stack([intervals.rows[left], intervals.rows[right]])
    pairs = np.take_along_axis(pairs, np.argsort(files[pairs], axis=0, kind="stable"), axis=0)
    starts = np.maximum(intervals.starts[left], intervals.starts[right])
    ends = np.minimum(intervals.ends[left], intervals.ends[right])
    kinds = np.stack([*files[pairs], starts, ends])
    distinct, examples, counts = np.unique(kinds, axis=1, return_index=True, return_counts=True)
    for (file, other, start, end), example, count in zip(distinct.T, examples, counts, strict=True):
        yield int(file), int(other), range(int(start), int(end)), pairs[:, example], int(count)


def live_intervals(spans: Sequence[Span], rows: Longs, positions: Longs) -> Iterator[Sequence[Longs]]:
    """Yield (rows, starts, ends, levels, enabled) of the intervals in which ``rows`` of one file are live.

    ``spans``: of one level, by start. A row's interval goes on as long as no vector deletes its position.
    """
    never = -1
    since = np.full(len(rows), never, np.int64)
    base = int(positions.min())
    for i, span in enumerate(spans):
        if i and not span.continues(spans[i - 1]):
            yield _ended(rows, since, since != never, spans[i - 1])
            since[:] = never
        deleted = np.zeros(len(rows), bool)
        if span.vector is not None:
            deleted = span.vector.mask(int(positions.max()) - base + 1, base)[positions - base]
        closing = deleted & (since != never)
        if closing.any():
            yield _ended(rows, since, closing, spans[i - 1])
            since[closing] = never
        since[~deleted & (since == never)] = span.start
    yield _ended(rows, since, since != never, spans[-1])


def _ended(rows: Longs, since: Longs, chosen: npt.NDArray[np.bool_], last: Span) -> Sequence[Longs]:
    """Return the intervals of the ``chosen`` rows, which end with the span ``last``."""
    count = int(np.count_nonzero(chosen))
    constants = (np.full(count, value, np.int64) for value in (last.end, last.level, int(last.enabled)))
    return [rows[chosen], since[chosen], *constants]
