"""Check the versions of a bucket by their metadata: levels, key ranges, and the files that vectors name.

Clauses: APP-4, APP-5, BKT-19, DVF-13, LSM-2, LSM-3, LSM-7, TBL-3, META-5, DV-3, DV-4, DV-5, DV-19, DVF-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import partial

from pktable_spec.options import parse_options

from pktable.check.findings import NOTE, Findings, counted, key_text
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.manifest import DataFileMeta, ManifestEntry
from pktable.kinds import kind_of
from pktable.lsm.bucket import Key

Range = tuple[Key, Key]
"""The smallest and the greatest key of a file, by its metadata."""


def check_layouts(
    context: TableContext, bucket: BucketHistory, max_level: int, findings: Findings
) -> dict[str, Range]:
    """Check every version, and return the key ranges of the files whose metadata gives a valid one."""
    ranges: dict[str, Range] = {}
    shown: dict[ManifestEntry, list[int]] = {}
    for version in bucket.versions:
        for entry in version.entries:
            shown.setdefault(entry, []).extend(version.snapshots)
    fixed = {id for id, schema in context.schemas.items() if parse_options(schema.options).bucket > 0}
    for entry, snapshots in shown.items():
        key_range = _check_entry(context, bucket, entry, max_level, fixed, snapshots, findings)
        if key_range is not None:
            ranges[entry.file.file_name] = key_range
    for version in bucket.versions:
        _check_totals(context, bucket, version, findings)
        _check_levels(context, bucket, version, ranges, findings)
        _check_vector_names(context, version, findings)
    return ranges


def _check_entry(
    context: TableContext,
    bucket: BucketHistory,
    entry: ManifestEntry,
    max_level: int,
    fixed: Set[int],
    snapshots: Sequence[int],
    findings: Findings,
) -> Range | None:
    """Check the metadata of one file for itself, and return its key range; None if that is invalid.

    ``fixed``: the ids of the schemas with a fixed number of buckets.
    """
    file, path = entry.file, context.data_path(bucket.place, entry.file)

    def expect(clause: str, what: str, holds: bool, expected: object, value: object) -> None:
        if not holds:
            findings.add(clause, what, path, expected=expected, found=value, snapshots=snapshots)

    has_keys = kind_of(context.schema, context.root).has_keys
    if has_keys:
        expect("LSM-3", "level", 0 <= file.level <= max_level, f"0 to {max_level}", file.level)
    else:
        expect("APP-4", "level", file.level == 0, 0, file.level)
    total = entry.total_buckets
    expect("TBL-3", "bucket", total < 1 or 0 <= entry.bucket < total, f"below {total}", entry.bucket)
    if file.schema_id in fixed and entry.bucket >= 0:
        expect("BKT-19", "total buckets", total > 0, "the fixed number of buckets", total)
    low, high = file.min_sequence_number, file.max_sequence_number
    expect("LSM-7", "sequence numbers", low <= high, "smallest not above greatest", f"{low} to {high}")
    if not has_keys:
        expect("APP-5", "keys", file.min_key == file.max_key == EMPTY_ROW, "empty rows", "others")
        expect("APP-5", "retractions", not file.delete_row_count, "none", file.delete_row_count)
        return None
    key_range = findings.attempt(
        "META-5",
        lambda: (context.order.smallest(file), context.order.greatest(file)),
        snapshots=snapshots,
        file=path,
    )
    if key_range is None:
        return None
    smallest, greatest = key_range
    expect("LSM-7", "keys", smallest <= greatest, "smallest not above greatest", _as_text(key_range))
    return key_range if smallest <= greatest else None


def _check_totals(context: TableContext, bucket: BucketHistory, version: Version, findings: Findings) -> None:
    """Expect the live files of a bucket to be written under one number of buckets. Clauses: BKT-19."""
    totals = {entry.total_buckets for entry in version.entries if entry.total_buckets > 0}
    if len(totals) > 1:
        findings.add(
            "BKT-19",
            "numbers of buckets",
            bucket.place.directory,
            expected="one of all live files",
            found=" and ".join(map(str, sorted(totals))),
            snapshots=version.snapshots,
        )


def _check_levels(
    context: TableContext,
    bucket: BucketHistory,
    version: Version,
    ranges: Mapping[str, Range],
    findings: Findings,
) -> None:
    """Expect each file to be live at one level, and each level above 0 to be one run. Clauses: LSM-2."""
    by_level: dict[int, list[DataFileMeta]] = {}
    level_of: dict[str, int] = {}
    for file in (entry.file for entry in version.entries):
        other = level_of.setdefault(file.file_name, file.level)
        if other != file.level:
            findings.add(
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
                findings.add(
                    "LSM-2",
                    f"key range at level {level}",
                    context.data_path(bucket.place, file),
                    expected=f"disjoint from that of {widest.file_name}",
                    found=f"{_as_text(ranges[file.file_name])} and {_as_text(ranges[widest.file_name])}",
                    snapshots=version.snapshots,
                )
            if ranges[file.file_name][1] > ranges[widest.file_name][1]:
                widest = file


def _check_vector_names(context: TableContext, version: Version, findings: Findings) -> None:
    """Expect every vector to name a live file, above level 0 in a table with a primary key, and each file once.

    A vector of no live file deletes nothing, and a reader counts a vector of no cardinality. So they are notes.
    Clauses: DV-3, DV-4, DV-5, DV-19, DVF-8, DVF-13.
    """
    levels = {entry.file.file_name: entry.file.level for entry in version.entries}
    counts = Counter(one.data_file for index in version.indexes for one in index.ranges or ())
    for index in version.indexes:
        path, ranges = context.index_path(index), index.ranges or ()
        add = partial(findings.add, file=path, snapshots=version.snapshots)
        if index.row_count != len(ranges):
            add("DVF-8", "number of vectors", expected=index.row_count, found=len(ranges))
        unstated = sum(one.cardinality is None for one in ranges)
        if unstated:  # as of Paimon before 1.0
            found = f"none of {counted(unstated, 'vector')}"
            add("DVF-13", "cardinalities", expected="one of each vector", found=found, severity=NOTE)
        for name in sorted({one.data_file for one in ranges}):
            what = f"vector of {name}"
            if name not in levels:
                add("DV-4", what, expected="a live file of the bucket", found="none", severity=NOTE)
            elif levels[name] == 0 and kind_of(context.schema, context.root).has_keys:
                add("DV-3", what, expected="a file above level 0", found="level 0")
            if counts[name] > 1:
                add("DV-5", what, expected="one", found=counts[name])


def _as_text(key_range: Range) -> str:
    return " to ".join(map(key_text, key_range))
