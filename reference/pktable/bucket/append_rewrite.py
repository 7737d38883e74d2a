"""Write files of an append table again without their deleted rows.

A compaction does so to bring small files together and to drop deleted rows for good. Without deletion vectors a delete
does so to the files that have a row to delete.

Clauses: APP-4, APP-6, APP-13, APP-25, CMP-12, CMP-32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from pktable.bucket.append_vectors import merged
from pktable.bucket.append_write import write_files
from pktable.bucket.reader import DataReader, without_deleted
from pktable.bucket.row_ids import tracked_rows
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketState, FileChange
from pktable.store.new_files import NewFiles

Vectors = Mapping[str, DeletionVector]


def rewrite_files(
    context: TableContext,
    state: BucketState,
    files: Sequence[DataFileMeta],
    dropped: Vectors,
    new: NewFiles,
    *,
    source: int,
    now_millis: int,
) -> FileChange:
    """Write the live rows of ``files``, in order, into new files; return the change to commit.

    ``dropped``: positions to leave out besides those that are deleted, by data file. ``source``: `FROM_WRITE` or
    `FROM_COMPACTION`. Reads as it writes; nothing becomes visible. Raises CorruptFileError.
    """
    vectors = context.vectors(state)
    columns, tracked = list(context.schema.value_names), context.options.row_tracking

    def rows() -> Iterator[pa.Table]:
        for file in files:
            vector = vectors.get(file.file_name)
            if file.file_name in dropped:
                vector = merged(vector, dropped[file.file_name], context.vector_bits)
            reader = DataReader(context, state.place, file)
            reader.keep_encoded(columns)
            tables = tracked_rows(reader, columns) if tracked else reader.read(columns)
            for position, table in tables:
                yield without_deleted(reader.valid(table), position, vector)

    added = write_files(
        context, state.place, rows(), new, source=source, now_millis=now_millis, tracked=tracked
    )
    names = [file.file_name for file in files]
    return FileChange(
        state.place,
        removed=tuple(files),
        read_under={name: vectors[name] for name in names if name in vectors},
        added=added,
        created=tuple(new.paths),
    )
