"""The writer of batches: tasks stage rows, and the commit writes all of them by a method of the table.

So a write of the data source is a write of `Table.upsert`, `append`, `write_changes` or `overwrite`, with the same
checks, order and commit. Nothing is visible before that, and nothing of a task that failed is part of it. The process
that commits writes all rows, with the memory that the write buffer of the table allows.

Rows are in the message of their task if they are few, else in a file in ``staged/``, where no read looks. Its name
begins with the token of the write, so that the commit also finds the files of tasks that failed, ran twice, or were
killed. Only what a message names is read: of a task that ran twice Spark hands over one message. Files of a write that
never ends are orphans. The stream writer (`stream_writer`) differs in who commits: the query, by the number of the
batch.

A DataFrame that `Table.upsert` takes is cast by Spark. In the data source the rows have left Spark already, so wall
times and points in time are cast here, in the time zone of the session.

Clauses: APP-8, TBL-4, TBL-6, TBL-8, TBL-11, TBL-24, CMT-12, CMT-48, CMT-53, CMT-56.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError, NotATableError
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pktable.catalog.changes import CommitId
from pktable.catalog.schemas import expect_table_of, find_branch, is_table_of
from pktable.format.paths import TablePaths
from pktable.format.types import TIMESTAMPS, DataType, Field
from pktable.ingest.changes import ChangeKind
from pktable.spark_source.options import Options
from pktable.spark_source.pieces import arrow_schema
from pktable.store.directories import remove_directory
from pktable.store.file_io import FileIO, abort, open_store
from pktable.store.new_files import remove_quietly

FEW_BYTES: Final = 128 << 10
"""Of rows of a task that travel in its message. Thousands of messages must fit into the driver."""


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """The rows of one task. ``token``: of the write. ``partition``: the task's number, by which rows are in order.

    ``data``: the rows as an Arrow stream, or None if they are in the staged file ``name``.
    ``query``: the id of the stream, None in a batch. ``zone``, ``mode``: the session's time zone, and its mode of
    overwrites; None if it has not set one.
    """

    token: str
    partition: int
    data: bytes | None = None
    name: str | None = None
    query: str | None = None
    zone: str | None = None
    mode: str | None = None


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


TOLD: Final = (
    "sql.streaming.queryId",
    "spark.sql.session.timeZone",
    "spark.sql.sources.partitionOverwriteMode",
)
"""What Spark tells each task of the query it works for: the last three of a `Message`."""
MODE: Final = "partitionOverwriteMode"
MODES: Final = ("static", "dynamic")


class RowWriter:
    """The part that a batch and a stream have in common."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        """Raises InvalidRequestError for columns or a table that do not fit, before a task runs."""
        self._options, self._schema, self._overwrite = options, schema, overwrite
        self._kinds = options.text("row-kind-column")
        self._token = str(uuid.uuid4())
        if overwrite and self._kinds is not None:
            raise InvalidRequestError(
                "option row-kind-column: an overwrite has rows only; leave the option out"
            )
        columns = StructType([one for one in schema if one.name != self._kinds])
        table, self._made = options.open_or_make(columns)
        self._opened = table.schema
        if self._kinds is not None and not table.stager.kind.has_keys:
            raise InvalidRequestError(
                "option row-kind-column: the table has no primary key; leave the option out"
            )
        rows = arrow_schema(schema).empty_table()
        change = ChangeKind(column=self._kinds, whole=overwrite)
        table.stage_write(with_times_of(rows, table.schema.fields, "UTC"), change)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Message:
        """Stage the rows of a task. Clauses: CMT-56."""
        store, paths = find_branch(self._options.path)
        data, name = stage(batches, store, paths, self._token)
        task = TaskContext.get()
        if task is None:  # a test
            return Message(self._token, 0, data, name)
        return Message(self._token, task.partitionId(), data, name, *map(task.getLocalProperty, TOLD))

    def _commit(
        self, messages: Sequence[Message], commit_id: CommitId | None, *, dynamic: bool = False
    ) -> None:
        """Write the staged rows and remove them. Raises as the methods of a table."""
        table = self._options.open_table()
        context = table.catalog.context
        try:
            expect_table_of(context, self._opened)
            zone = next((message.zone for message in messages if message.zone), None)

            def named(rows: pa.Table) -> pa.Table:
                # Names as the DataFrame has them, whatever Spark does to them on their way.
                return with_times_of(rows.rename_columns(self._schema.names), table.schema.fields, zone)

            schema = named(arrow_schema(self._schema).empty_table()).schema
            staged = staged_rows(messages, context.store, context.paths)
            batches = (one for batch in staged for one in named(pa.Table.from_batches([batch])).to_batches())
            rows = pa.RecordBatchReader.from_batches(schema, batches)
            if self._overwrite:
                table.overwrite(
                    rows, dynamic=dynamic and bool(context.schema.partition_keys), commit_id=commit_id
                )
            elif self._kinds is not None:
                table.write_changes(rows, row_kind=self._kinds, commit_id=commit_id)
            else:
                table.put(rows, commit_id=commit_id)
        finally:
            self._remove(messages)

    def _remove(self, messages: Sequence[Message | None]) -> None:
        """Remove the staged rows, also those of tasks that failed. Clauses: CMT-68."""
        store, paths = find_branch(self._options.path)
        tokens = {self._token, *(message.token for message in messages if message is not None)}
        remove_staged(tokens, store, paths)


class BatchWriter(RowWriter, DataSourceArrowWriter):
    """Writes a DataFrame; with ``commit-user`` and ``commit-identifier`` once, however often it is repeated."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        user, number = options.text("commit-user"), options.number("commit-identifier", 0)
        if (user is None) != (number is None):
            raise InvalidRequestError("options commit-user and commit-identifier: expected both or neither")
        self._commit_id = None if user is None or number is None else CommitId.given(CommitId(user, number))
        self._mode = options.text(MODE)
        if self._mode is not None and self._mode.lower() not in MODES:
            raise InvalidRequestError(f"option {MODE}: expected {' or '.join(MODES)}, found {self._mode!r}")

    def commit(self, messages: Sequence[Message]) -> None:
        """Commit the rows of all tasks as one write.

        As for Spark's own formats, the option goes before the setting of the session, and an overwrite is dynamic only
        where a table has partitions. Clauses: CMT-53, CMT-56, CMT-66, WH-20.
        """
        mode = self._mode or next((message.mode for message in messages if message.mode), None)
        self._commit(messages, self._commit_id, dynamic=(mode or MODES[0]).lower() == "dynamic")

    def abort(self, messages: Sequence[Message | None]) -> None:
        """Remove what tasks have staged, and the table if it was made for them. Clauses: CMT-12, CMT-68, WH-23."""
        self._remove(messages)
        try:
            table = self._options.open_table()
        except NotATableError:
            return
        is_own = self._made and is_table_of(table.catalog.context, self._opened)
        if is_own and table.catalog.snapshots.latest_id() is None:
            store, root = open_store(self._options.path, None)  # no guard, which moves no directory
            remove_directory(store, root, aside=os.path.dirname(root), last="schema")


def with_times_of(rows: pa.Table, fields: Sequence[Field], zone: str | None) -> pa.Table:
    """Return ``rows`` with wall times where ``fields`` want them, and points in time where they want those.

    ``zone``: the session's. Raises InvalidRequestError if it is needed and not known, if Arrow does not know it, or if
    the other kind of time is in an array, a map or a row.
    """
    wanted = {field.name: field.type for field in fields}
    for at, given in enumerate(rows.schema):
        kind = wanted.get(given.name)
        if kind is None or not _differs(given.type, kind):
            continue
        root = kind.root
        if root not in TIMESTAMPS:
            raise InvalidRequestError(
                f"column {given.name}: expected {kind}, found the other kind of time in it; cast the column before the "
                "write"
            )
        if zone is None:
            raise InvalidRequestError(
                f"column {given.name}: expected {root}, found the other kind of time, and the session has no time zone "
                "to cast it in; set spark.sql.session.timeZone, or cast the column"
            )
        try:
            column = rows.column(at)
            cast = _wall_times(column, zone) if root == "TIMESTAMP" else _instants(column, zone)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequestError(
                f"column {given.name}: {error}; cast the column before the write"
            ) from None
        rows = rows.set_column(at, given.name, cast)
    return rows


def _differs(given: pa.DataType, wanted: DataType) -> bool:
    """Whether a time in ``given`` is of the other kind in ``wanted``."""
    if wanted.root in TIMESTAMPS:
        return pt.is_timestamp(given) and (given.tz is None) != (wanted.root == "TIMESTAMP")
    if wanted.root == "ROW" and pt.is_struct(given):
        parts = {field.name: field.type for field in given}
        return any(_differs(parts[one.name], one.type) for one in wanted.children if one.name in parts)
    if wanted.root == "MAP" and pt.is_map(given):
        key, value = wanted.children
        return _differs(given.key_type, key.type) or _differs(given.item_type, value.type)
    if wanted.root == "ARRAY" and pt.is_list(given):
        return _differs(given.value_type, wanted.children[0].type)
    return False


def _wall_times(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone)))


def _instants(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Return wall times as points in time. One that a clock skips, or shows twice, counts as before the change."""
    near = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="earliest")
    utc = near.cast(pa.timestamp(column.type.unit, "UTC"))
    offset = pc.subtract(pc.local_timestamp(near), pc.local_timestamp(utc))
    return pc.assume_timezone(pc.subtract(column, offset), "UTC")
