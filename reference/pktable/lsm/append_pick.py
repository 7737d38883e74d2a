"""Which files of an append table to compact: small ones, and those with too many deleted rows.

1. A file is small if it is below 70 % of the target size. It has too many deleted rows if their share is above a
   threshold.
2. Such files are packed into groups. A group is complete when it has two files or more, and twice the target size;
   opening a file counts like so many bytes.
3. Without vectors the last group is compacted if it has enough files.
4. Files with vectors are grouped by their DV index file, since a file rewritten takes its vector with it, and their
   last group is always compacted.

A full compaction takes every small file and every file with a deleted row, whatever their number.

Clauses: APP-19, APP-20, DV-13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from pktable_spec.options import TableOptions

from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketState
from pktable.lsm.plan import SMALL_SHARE
from pktable.lsm.universal import is_above

Files = tuple[DataFileMeta, ...]

DELETE_RATIO: Final = Fraction("0.2")
"""The threshold of a table whose options give none."""


def pick_files(
    state: BucketState,
    deleted_counts: Mapping[str, int],
    options: TableOptions,
    target_bytes: int,
    *,
    full: bool,
) -> list[Files]:
    """Return groups of live files, each of which is to be written again.

    ``deleted_counts``: by data file, without the files that have none. ``target_bytes``: of a data file.
    """
    with_vector = state.files_with_vector
    threshold = DELETE_RATIO if options.delete_ratio_threshold is None else options.delete_ratio_threshold
    chosen = [
        file
        for file in state.files
        if file.file_size < target_bytes * SMALL_SHARE
        or (full and file.file_name in with_vector)
        or is_above(threshold, file, deleted_counts)
    ]
    if full:
        groups = list(_packed(chosen, options, target_bytes, fewest=1))
        return [group for group in groups if len(group) > 1 or group[0].file_name in with_vector]
    found = list(
        _packed(
            [file for file in chosen if file.file_name not in with_vector],
            options,
            target_bytes,
            fewest=options.min_compacted_files,
        )
    )
    for index in state.indexes:
        names = {one.data_file for one in index.ranges or ()}
        found += _packed([f for f in chosen if f.file_name in names], options, target_bytes, fewest=1)
    return found


def _packed(
    files: Iterable[DataFileMeta], options: TableOptions, target_bytes: int, *, fewest: int
) -> Iterator[Files]:
    """Yield groups of ``files``, smallest first; the last group only if it has ``fewest`` files. Clauses: APP-20."""
    group: list[DataFileMeta] = []
    size = 0
    for file in sorted(files, key=_by_size):
        group.append(file)
        size += file.file_size + options.open_file_cost_bytes
        if len(group) > 1 and size >= 2 * target_bytes:
            yield in_order(group)
            group, size = [], 0
    if len(group) >= max(1, fewest):
        yield in_order(group)


def in_order(files: Sequence[DataFileMeta]) -> Files:
    """Return files in the order in which a rewrite reads them: that of their numbers."""
    return tuple(sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time or 0, f.file_name)))


def _by_size(file: DataFileMeta) -> tuple[int, str]:
    return file.file_size, file.file_name
