"""Give the rows of added files their ids, when the snapshot that adds them is known.

Clauses: APP-24.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pktable_spec.vocabulary import ROW_ID

from pktable.format.metadata.manifest import ADD, ManifestEntry

FROM_COMPACTION: Final = 1  # _FILE_SOURCE


def with_row_ids(
    entries: Iterable[ManifestEntry], snapshot: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return the entries of a commit with ids and sequence numbers, and the first id that is free after it.

    ``snapshot``: its id, which is the sequence number of all rows that are new. Clauses: APP-24.
    """
    done = []
    for one in entries:
        file = one.file
        if one.kind == ADD and file.min_sequence_number == 0:
            file = replace(file, min_sequence_number=snapshot, max_sequence_number=snapshot)
        has_ids = file.first_row_id is not None or ROW_ID in (file.write_cols or ())
        if one.kind == ADD and not has_ids and file.file_source != FROM_COMPACTION:
            file, next_row_id = replace(file, first_row_id=next_row_id), next_row_id + file.row_count
        done.append(replace(one, file=file))
    return tuple(done), next_row_id
