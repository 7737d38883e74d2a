"""Check the deletion vectors of a bucket in all its versions. Each DV index file is read once.

Every position must be one of its data file's rows, and the vector of a file that stays live only gains positions.

Clauses: DV-2, DV-11, DVF-1 to DVF-5, DVF-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pktable.check.findings import Findings
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.vectors.deletion_vector import DeletionVector

Vectors = Mapping[str, DeletionVector]
"""The deletion vectors of a bucket by the name of their data file."""


def check_vectors(context: TableContext, bucket: BucketHistory, findings: Findings) -> list[Vectors | None]:
    """Check the vectors of every version, and return them by version; None where they could not be read."""
    known: dict[object, Vectors | None] = {}
    vectors: list[Vectors | None] = []
    for version in bucket.versions:
        vectors.append(_read(context, version, known, findings))
        _expect_positions(context, version, vectors[-1] or {}, findings)
    for (old, new), (before, after) in zip(pairwise(vectors), pairwise(bucket.versions), strict=True):
        if old is not None and new is not None and old is not new:
            _expect_growth(context, before, after, old, new, findings)
    return vectors


def _read(
    context: TableContext, version: Version, known: dict[object, Vectors | None], findings: Findings
) -> Vectors | None:
    if not version.vectors_known:
        return None
    index = version.index
    if index is None:
        return {}
    name = index.file_name, index.external_path, index.file_size, index.ranges
    if known.get(name) is None:  # a file that cannot be read is a finding of each version
        known[name] = findings.attempt(
            "DVF-5",
            lambda: context.read_vectors(index),
            snapshots=version.snapshots,
            file=context.index_path(index),
        )
    return known[name]


def _expect_positions(context: TableContext, version: Version, vectors: Vectors, findings: Findings) -> None:
    """Expect every position to be that of a row. Clauses: DV-2."""
    for entry in version.entries:
        vector = vectors.get(entry.file.file_name)
        if vector is not None and vector.max_position >= entry.file.row_count:
            assert version.index is not None
            findings.add(
                "DV-2",
                f"vector of {entry.file.file_name}",
                context.index_path(version.index),
                expected=f"positions below {entry.file.row_count}",
                found=vector.max_position,
                snapshots=version.snapshots,
            )


def _expect_growth(
    context: TableContext, before: Version, after: Version, old: Vectors, new: Vectors, findings: Findings
) -> None:
    """Expect each file that is live before and after to keep its deleted positions. Clauses: DV-11."""
    names = {entry.file.file_name for entry in before.entries}
    for name in sorted({entry.file.file_name for entry in after.entries} & names & old.keys()):
        kept = new.get(name)
        lost = old[name].positions() if kept is None else old[name].difference(kept)
        if len(lost):
            path = context.index_path(after.index) if after.index else context.paths.indexes
            findings.add(
                "DV-11",
                f"vector of {name}",
                path,
                expected=f"all deleted positions of snapshot {before.snapshots[-1]}",
                found=f"{len(lost)} of them missing, the first is {lost[0]}",
                snapshots=after.snapshots,
            )
