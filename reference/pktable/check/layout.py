"""The versions of a bucket, from metadata alone: levels, key ranges, and what vectors name.

Clauses: LSM-2, LSM-3, LSM-7, TBL-3, META-5, DV-3, DV-4, DV-5, DVF-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pktable.check.findings import Findings
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, ManifestEntry
from pktable.lsm.runs import Key

Range = tuple[Key, Key]
"""The smallest and the greatest key of a file."""


def check_layouts(
    context: TableContext, bucket: BucketHistory, max_level: int, found: Findings
) -> dict[str, Range]:
    """Check every version, and return the key ranges of the files whose metadata tells one."""
    ranges: dict[str, Range] = {}
    shown: dict[ManifestEntry, list[int]] = {}
    for version in bucket.versions:
        for entry in version.entries:
            shown.setdefault(entry, []).extend(version.snapshots)
    for entry, snapshots in shown.items():
        key_range = _check_entry(context, bucket, entry, max_level, snapshots, found)
        if key_range is not None:
            ranges[entry.file.file_name] = key_range
    for version in bucket.versions:
        _check_levels(context, bucket, version, ranges, found)
        _check_vector_names(context, version, found)
    return ranges


def _check_entry(
    context: TableContext,
    bucket: BucketHistory,
    entry: ManifestEntry,
    max_level: int,
    snapshots: Sequence[int],
    found: Findings,
) -> Range | None:
    """Check what metadata says of one file against itself, and return its key range."""
    file, path = entry.file, context.data_path(bucket.place, entry.file)

    def expect(clause: str, what: str, holds: bool, expected: object, value: object) -> None:
        if not holds:
            found.add(clause, what, path, expected=expected, found=value, snapshots=snapshots)

    expect("LSM-3", "level", 0 <= file.level <= max_level, f"0 to {max_level}", file.level)
    total = entry.total_buckets
    expect("TBL-3", "bucket", total < 1 or 0 <= entry.bucket < total, f"below {total}", entry.bucket)
    low, high = file.min_sequence_number, file.max_sequence_number
    expect("LSM-7", "sequence numbers", low <= high, "smallest not above greatest", f"{low} to {high}")
    key_range = found.attempt(
        "META-5",
        lambda: (context.order.smallest(file), context.order.greatest(file)),
        snapshots=snapshots,
        file=path,
    )
    if key_range is None:
        return None
    smallest, greatest = key_range
    expect("LSM-7", "keys", smallest <= greatest, "smallest not above greatest", f"{smallest} to {greatest}")
    return key_range if smallest <= greatest else None


def _check_levels(
    context: TableContext,
    bucket: BucketHistory,
    version: Version,
    ranges: Mapping[str, Range],
    found: Findings,
) -> None:
    """A file is live at one level, and the files above level 0 are one run each. Clauses: LSM-2."""
    by_level: dict[int, list[DataFileMeta]] = {}
    level_of: dict[str, int] = {}
    for file in (entry.file for entry in version.entries):
        other = level_of.setdefault(file.file_name, file.level)
        if other != file.level:
            found.add(
                "LSM-2",
                "levels",
                context.data_path(bucket.place, file),
                expected="live at one level",
                found=f"at {min(other, file.level)} and {max(other, file.level)}",
                snapshots=version.snapshots,
            )
        if file.level > 0 and file.file_name in ranges:
            by_level.setdefault(file.level, []).append(file)
    for level, of_level in by_level.items():
        of_level.sort(key=lambda file: ranges[file.file_name])
        widest = of_level[0]
        for file in of_level[1:]:
            if ranges[file.file_name][0] <= ranges[widest.file_name][1]:
                found.add(
                    "LSM-2",
                    f"key range at level {level}",
                    context.data_path(bucket.place, file),
                    expected=f"disjoint from that of {widest.file_name}",
                    found=f"{_spelled(ranges[file.file_name])} and {_spelled(ranges[widest.file_name])}",
                    snapshots=version.snapshots,
                )
            if ranges[file.file_name][1] > ranges[widest.file_name][1]:
                widest = file


def _check_vector_names(context: TableContext, version: Version, found: Findings) -> None:
    """Every vector names one live file above level 0. Clauses: DV-3, DV-4, DV-5, DVF-8."""
    if version.index is None:
        return
    path, ranges = context.index_path(version.index), version.index.ranges or ()

    def add(clause: str, what: str, expected: object, value: object) -> None:
        found.add(clause, what, path, expected=expected, found=value, snapshots=version.snapshots)

    if version.index.row_count != len(ranges):
        add("DVF-8", "number of vectors", version.index.row_count, len(ranges))
    levels = {entry.file.file_name: entry.file.level for entry in version.entries}
    names: Sequence[str] = [one.data_file for one in ranges]
    for name in sorted(set(names)):
        if name not in levels:
            add("DV-4", f"vector of {name}", "a live file of the bucket", "none")
        elif levels[name] == 0:
            add("DV-3", f"vector of {name}", "a file above level 0", "level 0")
        if names.count(name) > 1:
            add("DV-5", f"vector of {name}", "one", names.count(name))


def _spelled(key_range: Range) -> str:
    low, high = (", ".join(map(str, key)) for key in key_range)
    return f"[{low}] to [{high}]"
