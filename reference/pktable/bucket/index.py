"""Write the index files of a bucket: its deletion vectors, and any other type.

A change of an append table without buckets rewrites only what it touches:

1. A DV index file is touched if it has the vector of a changed or removed file. All others stay.
2. The other vectors of the touched files are written again, into new DV index files.
3. The changed vectors go into new DV index files of their own.
4. A new file is closed when it has reached its target size.

With buckets, all vectors of the bucket are written into one new file, which may hold none.

Clauses: APP-11, APP-13, APP-14, APP-34, DV-10, DV-11, DV-16, DVF-1, DVF-14, META-50.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pktable_spec.vocabulary import DELETION_VECTORS

from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder, stored_parts
from pktable.format.vectors.index_file import encode_index
from pktable.lsm.bucket import BucketPath, BucketState
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


Vectors = Mapping[str, DeletionVector]
"""Vectors by the name of their data file."""


def changed_indexes(
    context: TableContext, state: BucketState, deleted: Vectors, removed: frozenset[str], new: NewFiles
) -> tuple[IndexManifestEntry, ...]:
    """Write the vectors of a bucket after a change, and return all of its DV index files.

    ``deleted``: positions that become deleted, by data file. ``removed``: names of files that go, none of them in
    ``deleted``. Raises CorruptFileError if the stored vectors cannot be read.
    """
    live = {file.file_name for file in state.files}
    # Other writers may have left a vector of a file that is gone; it is not written again.
    before = {name: vector for name, vector in context.vectors(state).items() if name in live}
    changed = {
        name: merged(before.get(name), vector, context.vector_bits) for name, vector in deleted.items()
    }
    gone = changed.keys() | removed
    if not deleted and not gone & before.keys():
        return state.indexes
    if not context.has_unaware_buckets:
        kept = {name: vector for name, vector in before.items() if name not in gone}
        return (write_index(context, state.place, {**kept, **changed}, new),)
    touched = [one for one in state.indexes if any(v.data_file in gone for v in one.ranges or ())]
    named = (v.data_file for one in touched for v in one.ranges or ())
    names = [name for name in named if name in before and name not in gone]
    parts = (*_rolled({name: before[name] for name in names}, context), *_rolled(changed, context))
    return (
        *(one for one in state.indexes if one not in touched),
        *(write_index(context, state.place, part, new) for part in parts),
    )


def merged(before: DeletionVector | None, deleted: DeletionVector, bits: int) -> DeletionVector:
    """Return a vector that deletes what either does. A stored vector keeps its kind. Clauses: DV-11, DVF-12."""
    builder = VectorBuilder(before or DeletionVector({}, bits))
    builder.mark(deleted.positions())
    return builder.vector()


def _rolled(vectors: Vectors, context: TableContext) -> Iterator[Vectors]:
    """Yield ``vectors`` in parts. Each part but the last reaches the target size. Clauses: APP-14."""
    part: dict[str, DeletionVector] = {}
    size = 0
    for name, vector in vectors.items():
        part[name] = vector
        size += sum(map(len, stored_parts(vector)))
        if size >= context.options.index_target_bytes:
            yield part
            part, size = {}, 0
    if part:
        yield part
