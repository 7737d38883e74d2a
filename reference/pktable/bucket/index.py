"""Write the index files of a bucket: its deletion vectors, and any other type.

Clauses: DV-16, DVF-1, META-50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pktable_spec.vocabulary import DELETION_VECTORS

from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index
from pktable.lsm.bucket import BucketPath
from pktable.store.new_files import NewFiles


def write_index(
    context: TableContext, place: BucketPath, vectors: Mapping[str, DeletionVector], new: NewFiles
) -> IndexManifestEntry:
    """Write a DV index file with ``vectors``, by data file, and return its entry. Clauses: DV-16, DVF-1."""
    data, ranges = encode_index(vectors)
    entry = replace(write_index_file(context, place, data, DELETION_VECTORS, len(ranges), new), ranges=ranges)
    context.remember_vectors(entry, vectors)
    return entry


def write_index_file(
    context: TableContext, place: BucketPath, data: bytes, kind: str, row_count: int, new: NewFiles
) -> IndexManifestEntry:
    """Write an index file of a bucket, of the type ``kind``, and return its entry, without ranges. Clauses: META-50."""
    path = new.index_path(context.index_directory(place))
    context.store.write(path, data)
    return IndexManifestEntry(
        kind=0,
        partition=place.partition,
        bucket=place.bucket,
        index_type=kind,
        file_name=path.rpartition("/")[2],
        file_size=len(data),
        row_count=row_count,
        ranges=None,
    )
