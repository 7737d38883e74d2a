"""Rows on their way from tasks to a commit: in the message of the task if they are few, else in a file of the table.

A file lies in ``staged/``, where no read looks. Its name begins with the token of the write, so that the commit also
finds those of tasks that failed, ran twice, or were killed. Only what a message names is read: of a task that ran twice
Spark hands over one message. Files of a write that never ends are orphans.

Clauses: CMT-12, CMT-48, CMT-56.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from pktable.format.paths import TablePaths
from pktable.store.file_io import FileIO, abort
from pktable.store.new_files import remove_quietly

FEW_BYTES: Final = 128 << 10
"""Of rows of a task that travel in its message. Thousands of messages must fit into the driver."""


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """The rows of one task. ``token``: of the write. ``partition``: the task's number, by which rows are in order.

    ``data``: the rows as an Arrow stream, or None if they are in the staged file ``name``.
    ``query``: the id of the stream, None in a batch. ``zone``: the session's time zone, None if it has not set one.
    """

    token: str
    partition: int
    data: bytes | None = None
    name: str | None = None
    query: str | None = None
    zone: str | None = None


def stage(
    batches: Iterator[pa.RecordBatch], store: FileIO, paths: TablePaths, token: str
) -> tuple[bytes | None, str | None]:
    """Return the rows as ``data`` and ``name`` of a message. On failure no file is left. Clauses: CMT-12."""
    few: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        few.append(batch)
        size += batch.nbytes
        if size > FEW_BYTES:
            name = f"{token}-{uuid.uuid4()}"
            _write(chain(few, batches), few[0].schema, store, paths.staged_rows(name))
            return None, name
    if not few:
        return None, None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, few[0].schema) as stream:
        for batch in few:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes(), None


def _write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, store: FileIO, path: str) -> None:
    sink = store.create(path)
    try:
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            for batch in batches:
                stream.write_batch(batch)
        sink.close()
    except BaseException:
        abort(sink)
        remove_quietly(store, [path])
        raise


def staged_rows(messages: Iterable[Message], store: FileIO, paths: TablePaths) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all messages, in the order of the DataFrame's partitions."""
    for message in sorted(messages, key=lambda message: message.partition):
        if message.data is not None:
            yield from pa.ipc.open_stream(message.data)
        elif message.name is not None:
            with store.open(paths.staged_rows(message.name)) as file:
                yield from pa.ipc.open_stream(file)


def remove_staged(tokens: Iterable[str], store: FileIO, paths: TablePaths) -> None:
    """Remove the staged files of some writes, as far as the store permits."""
    begins = tuple(f"{token}-" for token in tokens)
    names = [name for name in store.list_names(paths.staged) if name.startswith(begins)]
    remove_quietly(store, map(paths.staged_rows, names))
