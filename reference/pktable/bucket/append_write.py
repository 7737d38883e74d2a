"""Write rows of an append table: files in the order of the rows, without keys, sequence numbers or row kinds.

A compaction writes files again without their deleted rows, to bring small files together and to drop deleted rows for
good. Without deletion vectors a delete does so to the files that have a row to delete.

The metadata of such a file has sequence numbers all the same. Without buckets each file counts from 0. With buckets
they go on from file to file, so that a write that lost the race for its numbers changes metadata only.

With row tracking a row keeps its id and its sequence number, which is the snapshot that wrote it, when it is written
again: the new file stores both as columns. Where a stored sequence number is null, it is that of the file.

Clauses: APP-4, APP-5, APP-6, APP-13, APP-24, APP-25, CMP-12, CMP-32, LSM-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER

from pktable.bucket.index import Vectors, merged
from pktable.bucket.reader import DataReader, without_deleted
from pktable.bucket.run_writer import FROM_COMPACTION, FROM_WRITE, RunWriter
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketChange, BucketPath, BucketState
from pktable.store.new_files import NewFiles


def write_files(
    context: TableContext,
    place: BucketPath,
    tables: Iterable[pa.Table],
    new: NewFiles,
    *,
    source: int,
    now_millis: int,
    tracked: bool,
) -> tuple[DataFileMeta, ...]:
    """Write ``tables`` (the table's columns), in order, to as many files as needed; none if there are no rows.

    ``source``: `FROM_WRITE` or `FROM_COMPACTION`. ``tracked``: whether ``tables`` have `ROW_ID` and
    `SEQUENCE_NUMBER` besides. Every other file counts its sequence numbers from 0.
    Memory holds a row group, whatever the number of rows. Clauses: APP-5.
    """
    writer = RunWriter(context, place, new, level=0, source=source, now_millis=now_millis, tracked=tracked)
    try:
        for table in tables:
            writer.write(table)
        return tuple(writer.close())
    except BaseException:
        writer.abort()
        raise


def numbered(
    context: TableContext, files: Sequence[DataFileMeta], first_sequence: int
) -> tuple[DataFileMeta, ...]:
    """Return ``files`` with sequence numbers from ``first_sequence`` on, their order kept, if the table has buckets.

    Clauses: APP-6.
    """
    if context.has_unaware_buckets:
        return tuple(files)
    done = []
    for file in files:
        last = first_sequence + file.row_count - 1
        done.append(replace(file, min_sequence_number=first_sequence, max_sequence_number=last))
        first_sequence = last + 1
    return tuple(done)


def rewrite_files(
    context: TableContext,
    state: BucketState,
    files: Sequence[DataFileMeta],
    dropped: Vectors,
    new: NewFiles,
    *,
    now_millis: int,
) -> BucketChange:
    """Write the live rows of ``files``, in order, into new files; return the change to commit.

    ``dropped``: of a statement, positions to leave out besides those that are deleted, by data file. Without them it is
    a compaction. Reads as it writes; nothing becomes visible. Raises CorruptFileError.
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

    source = FROM_WRITE if dropped else FROM_COMPACTION
    added = write_files(
        context, state.place, rows(), new, source=source, now_millis=now_millis, tracked=tracked
    )
    names = [file.file_name for file in files]
    return BucketChange(
        state.place,
        removed=tuple(files),
        added=added,
        created=tuple(new.paths),
        read_under={name: vectors[name] for name in names if name in vectors},
    )


def tracked_rows(reader: DataReader, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (position of the first row, rows) with ``columns``, `ROW_ID` and `SEQUENCE_NUMBER`, in file order.

    Raises CorruptFileError if the file neither stores ids nor has a first one. Clauses: APP-24, APP-25.
    """
    file = reader.meta
    stored = [name for name in (ROW_ID, SEQUENCE_NUMBER) if name in reader.stored.names]
    if ROW_ID not in stored and file.first_row_id is None:
        raise CorruptFileError(
            "row ids", at=reader.path, expected="a first id or a column of ids", found="none"
        )
    for position, table in reader.read([*columns, *stored]):
        if ROW_ID not in stored:
            first = (file.first_row_id or 0) + position
            table = table.append_column(
                ROW_ID, pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
            )
        if SEQUENCE_NUMBER not in stored:
            table = table.append_column(SEQUENCE_NUMBER, pa.nulls(table.num_rows, pa.int64()))
        sequences = pc.fill_null(table.column(SEQUENCE_NUMBER), file.max_sequence_number)
        table = table.drop_columns([SEQUENCE_NUMBER]).append_column(SEQUENCE_NUMBER, sequences)
        yield position, table.select([*columns, ROW_ID, SEQUENCE_NUMBER])
