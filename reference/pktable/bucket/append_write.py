"""Write rows of an append table: files in the order of the rows, without keys, sequence numbers or row kinds.

The metadata of such a file has sequence numbers all the same. Without buckets each file counts from 0. With buckets
they go on from file to file, so that a write that lost the race for its numbers changes metadata only.

Clauses: APP-4, APP-5, APP-6, LSM-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from pktable.bucket.run_writer import RunWriter
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketPath
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
