"""The deletion vectors of a bucket in all its versions, each index file read once.

Clauses: DV-2, DV-11, DVF-1 to DVF-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pktable.check.findings import Findings
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.vectors.deletion_vector import DeletionVector

Vectors = Mapping[str, DeletionVector]
"""By data file."""


def check_vectors(context: TableContext, bucket: BucketHistory, found: Findings) -> list[Vectors | None]:
    """Check the vectors of every version, and return them; None where they could not be read."""
    known: dict[object, Vectors | None] = {}
    vectors: list[Vectors | None] = []
    for version in bucket.versions:
        vectors.append(_read(context, version, known, found))
        _expect_positions(context, version, vectors[-1] or {}, found)
    for (old, new), (before, after) in zip(pairwise(vectors), pairwise(bucket.versions), strict=True):
        if old is not None and new is not None and old is not new:
            _expect_growth(context, before, after, old, new, found)
    return vectors


def _read(
    context: TableContext, version: Version, known: dict[object, Vectors | None], found: Findings
) -> Vectors | None:
    if not version.vectors_known:
        return None
    index = version.index
    if index is None:
        return {}
    name = index.file_name, index.external_path, index.file_size, index.ranges
    if known.get(name) is None:  # what could not be read is found anew in each version
        known[name] = found.attempt(
            "DVF-5",
            lambda: context.read_vectors(index),
            snapshots=version.snapshots,
            file=context.index_path(index),
        )
    return known[name]


def _expect_positions(context: TableContext, version: Version, vectors: Vectors, found: Findings) -> None:
    """Clauses: DV-2."""
    for entry in version.entries:
        vector = vectors.get(entry.file.file_name)
        if vector is not None and vector.max_position >= entry.file.row_count:
            assert version.index is not None
            found.add(
                "DV-2",
                f"vector of {entry.file.file_name}",
                context.index_path(version.index),
                expected=f"positions below {entry.file.row_count}",
                found=vector.max_position,
                snapshots=version.snapshots,
            )


def _expect_growth(
    context: TableContext, before: Version, after: Version, old: Vectors, new: Vectors, found: Findings
) -> None:
    """A file that stays live loses no mark. Clauses: DV-11."""
    names = {entry.file.file_name for entry in before.entries}
    for name in sorted({entry.file.file_name for entry in after.entries} & names & old.keys()):
        kept = new.get(name)
        lost = old[name].positions() if kept is None else old[name].difference(kept)
        if len(lost):
            path = context.index_path(after.index) if after.index else context.paths.indexes
            found.add(
                "DV-11",
                f"vector of {name}",
                path,
                expected=f"the marks of snapshot {before.snapshots[-1]}",
                found=f"{len(lost)} lost, first position {lost[0]}",
                snapshots=after.snapshots,
            )
