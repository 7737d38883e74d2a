"""Check the deletion vectors of a bucket in all its versions. Each DV index file is read once.

Every position must be one of its data file's rows, and the vector of a file that stays live only gains positions.

Clauses: DV-2, DV-11, DVF-1 to DVF-5, DVF-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from pktable.check.findings import Findings
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.vectors.deletion_vector import DeletionVector

Vectors = Mapping[str, DeletionVector]
"""The deletion vectors of a bucket by the name of their data file."""


def check_vectors(context: TableContext, bucket: BucketHistory, findings: Findings) -> list[Vectors | None]:
    """Check the vectors of every version, and return them by version; None where they could not be read."""
    vectors = read_vectors(context, bucket, findings)
    for version, found in zip(bucket.versions, vectors, strict=True):
        _expect_positions(context, version, found or {}, findings)
    for (old, new), (before, after) in zip(pairwise(vectors), pairwise(bucket.versions), strict=True):
        if old is not None and new is not None and before.indexes != after.indexes and not after.apart:
            _expect_growth(context, before, after, old, new, findings)
    return vectors


def read_vectors(context: TableContext, bucket: BucketHistory, findings: Findings) -> list[Vectors | None]:
    """Return the vectors of every version; None, and a finding, where they cannot be read."""
    known: dict[object, Vectors | None] = {}
    return [_read(context, version, known, findings) for version in bucket.versions]


def _read(
    context: TableContext, version: Version, known: dict[object, Vectors | None], findings: Findings
) -> Vectors | None:
    if not version.vectors_known:
        return None
    every: dict[str, DeletionVector] = {}
    for index in version.indexes:
        name = index.file_name, index.external_path, index.file_size, index.ranges
        if known.get(name) is None:  # a file that cannot be read is a finding of each version
            known[name] = findings.attempt(
                "DVF-5",
                partial(context.read_vectors, index),
                snapshots=version.snapshots,
                file=context.index_path(index),
            )
        found = known[name]
        if found is None:
            return None
        every |= found
    return every


def _expect_positions(context: TableContext, version: Version, vectors: Vectors, findings: Findings) -> None:
    """Expect every position to be that of a row. Clauses: DV-2."""
    for entry in version.entries:
        vector = vectors.get(entry.file.file_name)
        if vector is not None and vector.max_position >= entry.file.row_count:
            findings.add(
                "DV-2",
                f"vector of {entry.file.file_name}",
                _path_of(context, version, entry.file.file_name),
                expected=f"positions below {entry.file.row_count}",
                found=vector.max_position,
                snapshots=version.snapshots,
            )


def _path_of(context: TableContext, version: Version, data_file: str) -> str:
    """Return the path of the DV index file that has the vector of a data file, or could have it."""
    for index in version.indexes:
        if any(one.data_file == data_file for one in index.ranges or ()):
            return context.index_path(index)
    return context.index_path(version.indexes[0]) if version.indexes else context.paths.indexes


def _expect_growth(
    context: TableContext, before: Version, after: Version, old: Vectors, new: Vectors, findings: Findings
) -> None:
    """Expect each file that is live before and after to keep its deleted positions. Clauses: DV-11."""
    names = {entry.file.file_name for entry in before.entries}
    for name in sorted({entry.file.file_name for entry in after.entries} & names & old.keys()):
        kept = new.get(name)
        lost = old[name].positions() if kept is None else old[name].difference(kept)
        if len(lost):
            path = _path_of(context, after, name)
            findings.add(
                "DV-11",
                f"vector of {name}",
                path,
                expected=f"all deleted positions of snapshot {before.snapshots[-1]}",
                found=f"{len(lost)} of them missing, the first is {lost[0]}",
                snapshots=after.snapshots,
            )
