"""The data source driven as Spark drives it, without Spark: parts are pickled on their way between processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable.spark_source.data_source import PkTableSource
from pktable.spark_source.pieces import arrow_schema
from pktable.spark_source.writer import Message
from pyspark import cloudpickle
from pyspark.sql import types as st

Row = tuple[Any, ...]


def moved(value: Any) -> Any:
    """Return ``value`` as another process gets it."""
    return cloudpickle.loads(cloudpickle.dumps(value))


def source(path: Path | str, **options: Any) -> PkTableSource:
    """Return the data source. ``options``: with _ for - and __ for a dot."""
    given = {name.replace("__", ".").replace("_", "-").lower(): str(value) for name, value in options.items()}
    return PkTableSource({"path": str(path), **given})


def read_all(reader: Any, partitions: Sequence[Any], schema: st.StructType) -> pa.Table:
    """Return the rows of all partitions, in their order."""
    wanted = arrow_schema(schema)
    batches = [batch for one in moved(partitions) for batch in moved(reader).read(one)]
    assert all(batch.schema == wanted for batch in batches)
    return pa.Table.from_batches(batches, wanted)


def read(path: Path | str, schema: st.StructType | None = None, **options: Any) -> pa.Table:
    """Return what ``spark.read`` returns."""
    found = moved(source(path, **options))
    schema = schema or found.schema()
    reader = found.reader(schema)
    return read_all(reader, reader.partitions(), schema)


class Stream:
    """A streaming query with a checkpoint: the ends of its batches, as JSON. ``restart`` forgets all the rest."""

    def __init__(self, path: Path | str, **options: Any) -> None:
        self._source = source(path, **options)
        self.ends: list[str] = []
        self.restart()

    def restart(self) -> None:
        found = moved(self._source)
        self.schema = found.schema()
        self._reader = found.streamReader(self.schema)

    def next(self, *, is_old: bool = False) -> list[Row] | None:
        """Return the rows of the next batch, None if there is none. ``is_old``: as Spark asks before 4.2."""
        start = json.loads(self._start(len(self.ends)))
        given = () if is_old else (start, self._reader.getDefaultReadLimit())
        end = json.dumps(self._reader.latestOffset(*given))
        if end == self._start(len(self.ends)):
            return None
        self.ends.append(end)
        return self.batch(-1)

    def batch(self, number: int) -> list[Row]:
        """Return the rows of a batch, which may have been read before."""
        number %= len(self.ends)
        start, end = (json.loads(one) for one in (self._start(number), self.ends[number]))
        rows = read_all(self._reader, self._reader.partitions(start, end), self.schema)
        return [tuple(row.values()) for row in rows.to_pylist()]

    def rest(self) -> list[Row]:
        """Return the rows of all further batches."""
        found = []
        while (rows := self.next()) is not None:
            found += rows
        return found

    @property
    def read_up_to(self) -> int | None:
        """The id of the snapshot that the stream has read up to."""
        id: int | None = json.loads(self._start(len(self.ends)))["snapshot"]
        return id

    def _start(self, number: int) -> str:
        return self.ends[number - 1] if number else json.dumps(self._reader.initialOffset())


def staged(writer: Any, tasks: Iterable[pa.Table]) -> list[Message]:
    """Return the messages of tasks that have written these rows."""
    messages = []
    for number, rows in enumerate(tasks):
        message = moved(writer).write(iter(rows.to_batches()))
        object.__setattr__(message, "partition", number)
        messages.append(moved(message))
    return messages


def write(
    path: Path | str, schema: st.StructType, *tasks: pa.Table, overwrite: bool = False, **options: Any
) -> None:
    """Write as ``frame.write`` does."""
    writer = moved(source(path, **options)).writer(schema, overwrite)
    moved(writer).commit(staged(writer, tasks))


class Sink:
    """A streaming query that writes: ``commit`` is called on a writer that is made for it, as Spark does."""

    def __init__(self, path: Path | str, schema: st.StructType, query: str | None, **options: Any) -> None:
        self._source, self._schema, self._query = source(path, **options), schema, query
        self.overwrite = False

    def writer(self) -> Any:
        return moved(self._source).streamWriter(self._schema, self.overwrite)

    def stage(self, *tasks: pa.Table) -> list[Message]:
        messages = staged(self.writer(), tasks)
        for message in messages:
            object.__setattr__(message, "query", self._query)
        return messages

    def write(self, number: int, *tasks: pa.Table) -> None:
        self.writer().commit(self.stage(*tasks), number)
