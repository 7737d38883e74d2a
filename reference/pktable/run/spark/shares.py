"""The shares of a query: the files that Spark's own scan reads, and those that the kernel reads on the executors.

* Spark's scan reads files as they are, where `native_test` says that it can.
* Many small files are read by the kernel all the same. Spark takes about 0.7 ms of processor time to open a file,
  the kernel 0.3; Spark decodes faster, which counts in files of more than some tens of kilobytes. Those of a table with
  partitions stay with Spark: filters that are added to the DataFrame later prune them by partition.

Clauses: RD-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pktable.bucket.read import BucketRead, by_file
from pktable.context import TableContext
from pktable.run.runner import Query
from pktable.run.spark.native_scan import native_test

SMALL_FILE_BYTES = 32 << 10
"""On average, of files that the kernel reads in less time than Spark does."""
MANY_FILES: Final = 64
"""Fewer are not worth a task of Python."""
FILES_A_PIECE: Final = 100
"""Of small files, so that all cores get some, and few messages do."""


def needed_columns(query: Query) -> list[str]:
    """Return the columns that a query reads, those of its condition last."""
    tested = query.predicate.columns() if query.predicate else ()
    return [*query.columns, *(name for name in tested if name not in query.columns)]


def shares(context: TableContext, query: Query) -> tuple[list[BucketRead], list[BucketRead]]:
    """Return the pieces of a query that Spark's own scan reads, and those that the kernel reads."""
    is_native = native_test(context, needed_columns(query))
    native: list[BucketRead] = []
    others: list[BucketRead] = []
    for part in query.parts:
        for piece in by_file(part):
            (native if is_native(piece) else others).append(piece)
    if len(native) >= MANY_FILES and not context.schema.partition_fields and _are_small(native):
        return [], [*others, *_joined(native)]
    return native, others


def _are_small(pieces: Sequence[BucketRead]) -> bool:
    size = sum(file.file_size for piece in pieces for file in piece.state.files)
    return size < SMALL_FILE_BYTES * len(pieces)


def _joined(pieces: Sequence[BucketRead]) -> Iterator[BucketRead]:
    """Yield pieces of several files each, which have the files of ``pieces``, one after the other."""
    held: list[BucketRead] = []
    for piece in pieces:
        if held and (len(held) >= FILES_A_PIECE or piece.state.place != held[0].state.place):
            yield _as_one(held)
            held = []
        held.append(piece)
    if held:
        yield _as_one(held)


def _as_one(pieces: Sequence[BucketRead]) -> BucketRead:
    files = tuple(file for piece in pieces for file in piece.state.files)
    return replace(pieces[0], state=replace(pieces[0].state, files=files))
