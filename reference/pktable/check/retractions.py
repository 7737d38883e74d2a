"""Check that every retraction kept by a compaction is deleted: no reader may take one for a row.

Clauses: DV-21.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from pktable_spec.vocabulary import VALUE_KIND

from pktable.bucket.reader import DataReader
from pktable.check.findings import Findings
from pktable.check.history import BucketHistory
from pktable.check.vectors import Vectors
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import Positions
from pktable.kinds.primary_key import hides_retractions
from pktable.lsm.bucket import BucketPath
from pktable.merge.grouping import is_add


def check_retractions(
    context: TableContext,
    bucket: BucketHistory,
    vectors: Sequence[Vectors | None],
    reliable: Set[str],
    findings: Findings,
) -> None:
    """Expect the vector of each file above level 0 to delete its retractions, where the table hides them.

    ``vectors``: by version, None where they could not be read. ``reliable``: the files whose rows can be read.
    """
    kept: dict[str, Positions] = {}
    shown: dict[str, list[int]] = {}
    for version, known in zip(bucket.versions, vectors, strict=True):
        for entry in version.entries if known is not None else ():
            file = entry.file
            if not file.level or not file.delete_row_count or file.file_name not in reliable:
                continue
            if not hides_retractions(context, file):
                continue
            if file.file_name not in kept:
                kept[file.file_name] = _retractions(context, bucket.place, file)
            assert known is not None, "nothing is looked at otherwise"
            vector = known.get(file.file_name)
            positions = kept[file.file_name]
            if vector is None or not vector.mask(file.row_count, 0)[positions].all():
                shown.setdefault(file.file_name, []).extend(version.snapshots)
    for name, snapshots in shown.items():
        findings.add(
            "DV-21",
            "retractions",
            f"{bucket.place.directory}/{name}",
            expected=f"{len(kept[name])} deleted by the vector of the file",
            found="a vector without some of them, or none",
            snapshots=snapshots,
        )


def _retractions(context: TableContext, place: BucketPath, file: DataFileMeta) -> Positions:
    """Return the positions of the retractions of a file."""
    found = [
        np.flatnonzero(~is_add(table)) + position
        for position, table in DataReader(context, place, file).read([VALUE_KIND])
    ]
    return np.concatenate(found)
