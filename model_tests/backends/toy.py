"""The smallest implementation that the histories can test, and an example for one of your own.

`ToyTable` keeps everything in memory and has no deletion vectors, no staged work and no bytes: only the methods that
`TableUnderTest` asks for. It merges whenever it reads. A bucket is a list of files, newest first, each a dict from
key to (sequence number, kind, row). A compaction takes the files that the specification's picks name, puts them into
one dict, the newest last, and writes that as one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    FileInfo,
    Key,
    Query,
    Row,
    Shape,
    SnapshotInfo,
    VectorInfo,
)
from pktable_spec.model import picks
from pktable_spec.model.buckets import bucket_of
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import PickFile
from pktable_spec.vocabulary import APPEND, COMPACT, RowKind

RECORD_BYTES = 1000  # there are no bytes; sizes decide what a compaction takes


@dataclass(frozen=True)
class File:
    """A file: its number, which is its name and its age, its level, and its records by key."""

    number: int
    level: int
    records: Mapping[Key, tuple[int, RowKind, Row]]

    def info(self, bucket: BucketId) -> FileInfo:
        numbers = [number for number, _, _ in self.records.values()]
        retractions = sum(not kind.is_add for _, kind, _ in self.records.values())
        return FileInfo(
            name=str(self.number),
            bucket=bucket,
            level=self.level,
            row_count=len(self.records),
            min_key=min(self.records),
            max_key=max(self.records),
            min_sequence=min(numbers),
            max_sequence=max(numbers),
            retraction_count=retractions,
            size=RECORD_BYTES * len(self.records),
            created=self.number,
        )


Bucket = tuple[File, ...]


class ToyTable:
    """A `TableUnderTest` in memory, without any capability beyond that."""

    def __init__(self, shape: Shape, options: Mapping[str, str]) -> None:
        self.shape, self.options = shape, ModelOptions.parse(options)
        self.history: list[tuple[str, dict[BucketId, Bucket]]] = []
        self.numbers = count()

    # ------------------------------------------------------ what users do

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        buckets = self._latest()
        written: dict[BucketId, dict[Key, tuple[int, RowKind, Row]]] = {}
        numbers = {bucket: count(1 + self.highest(files)) for bucket, files in buckets.items()}
        for kind, row in changes:
            bucket = bucket_of(self.shape, row, self.options.bucket_count)
            number = next(numbers.setdefault(bucket, count()))
            written.setdefault(bucket, {})[self.shape.pick(row, self.shape.trimmed_key)] = (number, kind, row)
        for bucket, records in written.items():
            buckets[bucket] = (File(next(self.numbers), 0, records), *buckets.get(bucket, ()))
        self.history.append((APPEND, buckets))
        if not write_only:
            self._compact(list(written), full=False)

    def compact(self, *, full: bool = False) -> None:
        self._compact(list(self._latest()), full=full)

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        buckets = self._latest() if snapshot is None else self.history[snapshot - 1][1]
        lowest = 1 if self.options.deletion_vectors and not fresh else 0
        rows = [
            row
            for files in buckets.values()
            for _, kind, row in self.merged([file for file in files if file.level >= lowest]).values()
            if kind.is_add
        ]
        return query.over(self.shape, rows)[: query.limit]

    def reopen(self) -> None:
        """Do nothing: nothing is stored outside of this object."""

    def close(self) -> None:
        """Do nothing: there are no files to release."""

    # ------------------------------------------------------ what is stored

    def snapshots(self) -> Sequence[SnapshotInfo]:
        return [SnapshotInfo(number, kind) for number, (kind, _) in enumerate(self.history, 1)]

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        buckets = self.history[snapshot - 1][1]
        return [file.info(bucket) for bucket, files in buckets.items() for file in files]

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        return []

    # ----------------------------------------------------------- the parts

    def merged(self, files: Sequence[File]) -> dict[Key, tuple[int, RowKind, Row]]:
        """Return the newest record of each key in ``files``, which are given newest first."""
        newest: dict[Key, tuple[int, RowKind, Row]] = {}
        for file in reversed(files):
            newest |= file.records
        return newest

    def highest(self, files: Bucket) -> int:
        """Return the greatest sequence number in ``files``, -1 if there is none."""
        return max((number for file in files for number, _, _ in file.records.values()), default=-1)

    def compacted(self, bucket: BucketId, files: Bucket, *, full: bool) -> Bucket:
        """Return the files of a bucket after a compaction, newest first."""
        seen = {str(file.number): file for file in files}
        runs: list[list[PickFile]] = []
        for file in files:
            one = file.info(bucket)
            keys, rows = (one.min_key, one.max_key), one.row_count
            pick_file = PickFile(one.name, one.level, *keys, one.size, one.retraction_count, rows, 0)
            if file.level and runs and runs[-1][0].level == file.level:
                runs[-1].append(pick_file)
            else:
                runs.append([pick_file])
        pick = (picks.full_pick if full else picks.universal_pick)(runs, self.options)
        if pick is None:
            return files
        division = picks.divide(pick, self.options, lambda file: file.size >= self.options.large_file_size)
        upgraded = {str(file.name) for file in division.upgrades}
        gone = {str(file.name) for group in division.rewrites for file in group} | upgraded
        kept = [file for file in files if str(file.number) not in gone]
        made = [replace(seen[name], level=pick.output_level) for name in upgraded]
        for group in division.rewrites:
            names = {str(file.name) for file in group}
            records = self.merged([file for file in files if str(file.number) in names])
            if all(file.level <= pick.output_level for file in kept):
                # Nothing older is left that a retraction would have to hide.
                records = {key: record for key, record in records.items() if record[1].is_add}
            if records:
                made.append(File(next(self.numbers), pick.output_level, records))
        level_zero = [file for file in kept if file.level == 0]
        deeper = sorted(
            [*made, *(f for f in kept if f.level)], key=lambda file: (file.level, min(file.records))
        )
        return (*level_zero, *deeper)

    def _latest(self) -> dict[BucketId, Bucket]:
        return dict(self.history[-1][1]) if self.history else {}

    def _compact(self, among: Sequence[BucketId], *, full: bool) -> None:
        before = self._latest()
        after = before | {bucket: self.compacted(bucket, before[bucket], full=full) for bucket in among}
        if after != before:
            self.history.append((COMPACT, after))
