"""Find row ids that two live rows of a snapshot have, over all buckets and snapshots of a table at once.

1. The rows of an added file have consecutive ids, which its metadata gives. No such file is opened.
2. Of a file whose rows were written again the stored ids are read, and nothing else.
3. A row is a candidate if a second row may have its id: if it is of step 2, or of step 1 and its id lies in another
   range or is one of step 2.
4. Two candidates of one id that are live together are a finding. The deletion vectors are read for that.

Memory holds the candidates. A file that cannot be read is left out here; the check of its bucket reports it. With data
evolution files have columns of the same rows, and therefore share ids (APP-23): such tables are left out.

Clauses: APP-24, APP-25, APP-33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pktable_spec.vocabulary import ROW_ID

from pktable.bucket.reader import DataReader
from pktable.check.bucket import distinct_files
from pktable.check.findings import Findings, counted
from pktable.check.history import BucketHistory
from pktable.check.intervals import Intervals, Longs, Span, by_files, live_intervals, pairs_together
from pktable.check.vectors import read_vectors
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta

MOST_SHARED: Final = 1 << 24
"""The ids of an overlap of two ranges that are looked at: metadata may claim any number of rows."""
END_OF_IDS: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A data file of a table with row tracking."""

    bucket: BucketHistory
    meta: DataFileMeta

    @property
    def path(self) -> tuple[str, str]:
        return self.bucket.place.directory, self.meta.file_name

    @property
    def stores_ids(self) -> bool:
        return ROW_ID in (self.meta.write_cols or ())


@dataclass(frozen=True, slots=True)
class IdentifiedRows:
    """n rows: the number of the file, the position and the id of each."""

    files: Longs
    positions: Longs
    ids: Longs

    @classmethod
    def of(cls, parts: Sequence[tuple[int, Longs, Longs]]) -> IdentifiedRows:
        """Join parts, each of a file: its number, positions and ids."""
        none = np.empty(0, np.int64)
        files = [np.full(len(ids), number, np.int64) for number, _, ids in parts]
        return cls(
            np.concatenate([none, *files]),
            np.concatenate([none, *(positions for _, positions, _ in parts)]),
            np.concatenate([none, *(ids for _, _, ids in parts)]),
        )


@dataclass(slots=True)
class _Conflict:
    """Ids that rows of two files have at the same time: how many, an example, and in which snapshots."""

    ids: int = 0
    example: str = ""
    snapshots: set[int] = field(default_factory=set)


def check_row_ids(
    context: TableContext, buckets: Sequence[BucketHistory], findings: Findings, *, reads_rows: bool
) -> None:
    """Add a finding for each two files with rows that have the same id in the same snapshot.

    ``reads_rows``: False opens no data file, and compares only the ids that metadata gives. Clauses: APP-33.
    """
    files = [TrackedFile(bucket, entry.file) for bucket in buckets for entry in distinct_files(bucket)]
    stored = list(_stored_ids(context, files)) if reads_rows else []
    rows = IdentifiedRows.of([*stored, *_counted_ids(files, stored)])
    intervals = _intervals(context, files, rows)
    conflicts: dict[tuple[int, int], _Conflict] = {}
    snapshots = {
        version.first + i: snapshot
        for bucket in buckets
        for version in bucket.versions
        for i, snapshot in enumerate(version.snapshots)
    }
    for left, right in pairs_together(intervals, rows.ids[intervals.rows]):
        for file, other, when, (one, two), count in by_files(intervals, rows.files, left, right):
            conflict = conflicts.setdefault((file, other), _Conflict())
            conflict.ids += count
            conflict.snapshots.update(snapshots[number] for number in when)
            positions = f"{rows.positions[one]} and {rows.positions[two]}"
            conflict.example = conflict.example or f"{rows.ids[one]} at positions {positions}"
    _report(context, files, conflicts, findings)


def _stored_ids(context: TableContext, files: Sequence[TrackedFile]) -> Iterator[tuple[int, Longs, Longs]]:
    """Yield the number of each file that stores ids, the positions of its rows, and their ids."""
    for number, file in enumerate(files):
        if file.stores_ids:
            with Findings(context.root).guard("RD-11"):
                for position, table in DataReader(context, file.bucket.place, file.meta).read([ROW_ID]):
                    known = table.column(ROW_ID).is_valid().to_numpy()
                    ids = table.column(ROW_ID).drop_null().to_numpy()
                    yield number, position + np.flatnonzero(known), ids


def _counted_ids(
    files: Sequence[TrackedFile], stored: Sequence[tuple[int, Longs, Longs]]
) -> Iterator[tuple[int, Longs, Longs]]:
    """Yield rows whose ids are counted from the first of their file, and which may be ids of other rows, too."""
    ranges = {
        number: (file.meta.first_row_id, file.meta.first_row_id + file.meta.row_count)
        for number, file in enumerate(files)
        if file.meta.first_row_id is not None
        and not file.stores_ids
        and 0 <= file.meta.first_row_id <= file.meta.first_row_id + file.meta.row_count < END_OF_IDS
    }
    wanted = np.unique(np.concatenate([*_shared(ranges), *(ids for _, _, ids in stored)]))
    for number, (first, end) in ranges.items():
        start, stop = np.searchsorted(wanted, [first, end])
        if start < stop:
            yield number, wanted[start:stop] - first, wanted[start:stop]


def _shared(ranges: Mapping[int, tuple[int, int]]) -> list[Longs]:
    """Return the ids that lie in two or more of some ranges, each from the first id to before the end.

    Of each part that ranges share at most `MOST_SHARED`.
    """
    bounds = np.array([*ranges.values()], np.int64).reshape(-1, 2)
    edges = np.unique(bounds)
    firsts, ends = np.sort(bounds, axis=0).T
    covered = np.searchsorted(firsts, edges, "right") - np.searchsorted(ends, edges, "right")
    shared = np.flatnonzero(covered > 1)
    ends = np.minimum(edges[shared + 1], edges[shared] + MOST_SHARED)
    return [np.empty(0, np.int64), *map(np.arange, edges[shared], ends)]


def _intervals(context: TableContext, files: Sequence[TrackedFile], rows: IdentifiedRows) -> Intervals:
    """Return the intervals of snapshots in which the rows that share their id are live."""
    _, group, sizes = np.unique(rows.ids, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(sizes[group] > 1)
    shared = shared[np.argsort(rows.files[shared], kind="stable")]
    numbers, starts = np.unique(rows.files[shared], return_index=True)
    spans = _spans(context, [files[number] for number in numbers])
    parts: list[Sequence[Longs]] = [[np.empty(0, np.int64)] * 5]
    for number, chosen in zip(numbers, np.split(shared, starts)[1:], strict=True):
        of_file = spans[files[number].path]
        parts += live_intervals(of_file, chosen, rows.positions[chosen]) if of_file else ()
    return Intervals.of(parts)


def _spans(context: TableContext, files: Sequence[TrackedFile]) -> dict[tuple[str, str], list[Span]]:
    """Return by the path of each file in which snapshots it is live, and with which vector."""
    spans: dict[tuple[str, str], list[Span]] = {file.path: [] for file in files}
    for bucket in {file.bucket.place: file.bucket for file in files}.values():
        vectors = read_vectors(context, bucket, Findings(context.root))
        for version, known in zip(bucket.versions, vectors, strict=True):
            if known is None:
                continue
            for entry in version.entries:
                path, end = TrackedFile(bucket, entry.file).path, version.first + len(version.snapshots)
                if path in spans:
                    spans[path].append(Span(version.first, end, 0, False, known.get(entry.file.file_name)))
    return spans


def _report(
    context: TableContext,
    files: Sequence[TrackedFile],
    conflicts: Mapping[tuple[int, int], _Conflict],
    findings: Findings,
) -> None:
    for (file, other), conflict in conflicts.items():
        bucket = files[file].bucket
        of_bucket = Findings(context.root, bucket.partition, bucket.place.bucket)
        of_bucket.add(
            "APP-33",
            "row ids",
            context.data_path(bucket.place, files[file].meta),
            expected="each id of a live row once",
            found=f"{counted(conflict.ids, 'id')} also in {files[other].meta.file_name}, such as {conflict.example}",
            snapshots=conflict.snapshots,
        )
        for finding in of_bucket.all():
            findings.include(finding)
