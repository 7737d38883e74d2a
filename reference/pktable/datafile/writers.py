"""Write the rows of one data file: Parquet by row groups, ORC by stripes, Avro by blocks.

Each writer takes tables of one schema, whose rows follow each other, and says how many bytes it has passed on so far.
A small file is made in memory and stored in one piece. After an error `abort` leaves no file behind.

Arrow's library for ORC needs rows in another shape (`as_orc`):

* It has no times of the day, which are integers there, and no types of a limited length: CHAR and VARCHAR are stored
  as STRING, which readers take for them.
* Of a slice it writes the rows before it, too.
* Where a ROW is null inside of another ROW, it writes the values that lie there in the place of later ones.
* It cuts a time before 1970 off towards 1970, and stores the fraction of the second below zero, which Java's reader
  does not take.
* It writes times outside 1677 to 2262, and does not read them. `holds` says whether rows have no such time.

Clauses: META-10, META-32, META-46, META-61, META-70 to META-74, META-76.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.datafile.avro_records import avro_schema, expect_avro, records_of
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.datafile.parquet_footer import (
    FooterSink,
    has_nanoseconds,
    stored_schema,
    with_sealed_footer,
    with_times,
)
from pktable.format.arrow_values import with_masked, with_nulls_below
from pktable.format.avro import ContainerWriter
from pktable.format.types import NANOS_PER, NESTED, DataType, Field, has_variant
from pktable.store.file_io import FileIO, abort

MOST: Final = (1 << 63) - 1  # nanoseconds


def expect_orc(fields: Sequence[Field], advice: str) -> None:
    """Raise InvalidRequestError if the name of a column is the path of a part of another. Clauses: META-74.

    ``advice``: what to do, but for another name.
    """
    nested = [field.name for field in fields if field.type.root in NESTED]
    for field in fields:
        for part in nested:
            if field.name.startswith(f"{part}."):
                raise InvalidRequestError(
                    f"column {field.name!r} next to the nested column {part!r}: the library that reads ORC takes one "
                    f"for a part of the other; name it otherwise, or {advice}"
                )


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a data file with these columns has in ORC. Clauses: META-70, META-72."""
    return pa.schema([pa.field(field.name, _as_orc(field.type)) for field in schema])


def _as_orc(kind: Any) -> pa.DataType:
    if pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_as_orc(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_as_orc(kind.key_type), _as_orc(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _as_orc(part.type)) for part in kind])
    found: pa.DataType = kind
    return found


def as_orc(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows``, which ORC `holds`, as a table of ``schema`` with nothing before its first row or under a null.

    Clauses: META-72.
    """
    taken = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema])).cast(schema)
    if any(map(pa.types.is_nested, schema.types)):
        taken = taken.take(pa.array(np.arange(taken.num_rows)))
    for at, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            chunks = map(with_nulls_below, taken.column(at).chunks)
            taken = taken.set_column(at, field, pa.chunked_array(chunks, field.type))
    return taken


def holds(rows: pa.Table) -> bool:
    """Return whether the library stores every time in ``rows`` as it is. Clauses: META-76."""
    return not any(
        _is_lost(part) for column in rows.columns for chunk in column.chunks for part in _times(chunk)
    )


def _times(array: Any) -> Iterator[Any]:
    """Yield the timestamps of an array, and of its parts at any depth."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        yield array
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _times(part)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        # Only what is in the lists: a slice keeps the values of all rows.
        offsets = array.offsets
        first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(array) else (0, 0)
        for part in (array.keys, array.items) if pa.types.is_map(kind) else (array.values,):
            yield from _times(part.slice(first, last - first))


def _is_lost(times: Any) -> bool:
    """Return whether a timestamp is before 1970 with a fraction of a second, or its nanoseconds do not fit 64 bits."""
    counts = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    nanos = NANOS_PER[times.type.unit]
    cut = (counts < 0) & (counts % (NANOS_PER["s"] // nanos) != 0)
    return bool(np.any(cut | (counts > MOST // nanos) | (counts < -(MOST // nanos))))


BLOCK_BYTES: Final = 256 << 10
"""Arrow memory of the rows of an Avro block, before compression."""
STRIPE_BYTES: Final = 64 << 20
"""Bytes of a stripe of ORC, as Paimon's writer makes them."""
DICTIONARY_SHARE: Final = 0.8
"""Up to which share of different strings ORC has a dictionary of them, as Paimon's writer decides."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How files are written.

    ``row_bytes``: Arrow memory of a row group, or a stripe. ``page_rows``: of a Parquet page, None for the default.
    ``repeated``: columns that get a dictionary in Parquet. ``in_one_piece``: whether the file is made in memory.
    ``compressed``: whether it is.
    """

    zstd_level: int
    row_bytes: int
    page_rows: int | None
    in_one_piece: bool
    compressed: bool = True
    repeated: Sequence[str] = ()


class _Sink:
    """Where the bytes go: into memory, or into a file of the store."""

    def __init__(
        self, store: FileIO, path: str, change: Callable[[bytes], bytes], *, in_memory: bool
    ) -> None:
        self._store, self._path, self.change = store, path, change
        self.file = None if in_memory else store.create(path)
        self.end: Any = pa.BufferOutputStream() if in_memory else FooterSink(self.file, change)

    def size(self) -> int:
        return int(self.end.tell())

    def abort(self) -> None:
        if self.file is not None:
            self.end.abandon()
            abort(self.file)  # on an object store only this leaves no file behind

    def stored(self, change: Callable[[bytes], bytes] = bytes) -> int:
        """Store the file, whose bytes were all written, and return its size. ``change``: of the bytes in memory."""
        if self.file is None:
            data = change(self.end.getvalue().to_pybytes())
            self._store.write(self._path, data)
            return len(data)
        size = int(self.file.tell())
        self.file.close()
        return size


class FileWriter(ABC):
    """A data file that is being written. A format says how it begins, goes on and ends."""

    def __init__(
        self, store: FileIO, path: str, schema: pa.Schema, kinds: Mapping[str, DataType], recipe: Recipe
    ) -> None:
        """Begin a file. ``schema``, ``kinds``: of its columns in Arrow, and in the table."""
        self._sink = _Sink(store, path, self._change(schema), in_memory=recipe.in_one_piece)
        try:
            self._begin(path, schema, kinds, recipe)
        except BaseException:  # it has written the first bytes, or could not
            self.abort()
            raise

    def _change(self, schema: pa.Schema) -> Callable[[bytes], bytes]:
        """Return what is done to the end of a file before it is stored."""
        return bytes

    @abstractmethod
    def _begin(self, path: str, schema: pa.Schema, kinds: Mapping[str, DataType], recipe: Recipe) -> None: ...

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Append rows of the file's schema."""

    def size(self) -> int:
        """Return how many bytes were written so far; what is buffered does not count."""
        return self._sink.size()

    @abstractmethod
    def finish(self) -> int:
        """Write what is not written, and return the size of the file."""

    def abort(self) -> None:
        """Give the file up."""
        self._sink.abort()


class ParquetFile(FileWriter):
    """Parquet, with a sealed footer. Clauses: META-10, META-32, META-46."""

    def _change(self, schema: pa.Schema) -> Callable[[bytes], bytes]:
        return with_times(schema) if has_nanoseconds(schema) else bytes

    def _begin(self, path: str, schema: pa.Schema, kinds: Mapping[str, DataType], recipe: Recipe) -> None:
        options: dict[str, Any] = {"compression": "none", **PARQUET_WRITE_OPTIONS}
        options["max_rows_per_page"] = recipe.page_rows
        if recipe.compressed:
            options |= {"compression": "zstd", "compression_level": recipe.zstd_level}
            # Parts of nested columns have names of their own.
            if not any(map(pa.types.is_nested, schema.types)):
                options["use_dictionary"] = list(recipe.repeated)
        if any(map(pa.types.is_floating, schema.types)):
            # Arrow's bounds leave NaN out, and readers that order it, as Spark does, would skip it.
            exact = [field.name for field in schema if not pa.types.is_floating(field.type)]
            options["write_statistics"] = exact
        self._schema = schema
        if has_nanoseconds(schema):
            self._schema = stored_schema(schema)
            options["use_deprecated_int96_timestamps"] = True
        self._writer = pq.ParquetWriter(self._sink.end, self._schema, **options)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(with_schema(rows, self._schema), row_group_size=rows.num_rows)

    def finish(self) -> int:
        """Write what is not written, with the footer sealed, and return the size of the file."""
        if self._sink.file is None:
            pages_end = self._sink.size()
            self._writer.close()
            return self._sink.stored(lambda data: with_sealed_footer(data, pages_end, self._sink.change))
        self._sink.end.finish(self._writer)
        return self._sink.stored()


class _Later:
    """A sink that never fails at once: the library for ORC ends the process if a write fails while it closes a file.

    After an error it drops what comes, and `errors` raises it. Clauses: SAFE-5.
    """

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink, self._bytes = sink, 0
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self._error is None:
            try:
                self._sink.write(data)
            except BaseException as error:
                self._error = error
        self._bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._bytes

    def flush(self) -> None: ...

    def close(self) -> None: ...

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise the error of a write that failed by now."""
        yield
        if self._error is not None:
            raise self._error


class OrcFile(FileWriter):
    """ORC. Clauses: META-71, META-72."""

    def _begin(self, path: str, schema: pa.Schema, kinds: Mapping[str, DataType], recipe: Recipe) -> None:
        import pyarrow.orc as po  # takes a while, and most tables have no ORC

        self._schema, self._end = orc_schema(schema), _Later(self._sink.end)
        with self._end.errors():
            self._writer = po.ORCWriter(
                self._end,
                compression="zstd" if recipe.compressed else "uncompressed",
                stripe_size=min(STRIPE_BYTES, recipe.row_bytes),
                dictionary_key_size_threshold=DICTIONARY_SHARE,
            )

    def write(self, rows: pa.Table) -> None:
        with self._end.errors():
            self._writer.write(as_orc(rows, self._schema))

    def finish(self) -> int:
        with self._end.errors():
            self._writer.close()
        return self._sink.stored()


class AvroFile(FileWriter):
    """Avro. Clauses: META-71, META-73."""

    def _begin(self, path: str, schema: pa.Schema, kinds: Mapping[str, DataType], recipe: Recipe) -> None:
        self._kinds = kinds
        # The path is as unique as a marker has to be.
        level = recipe.zstd_level if recipe.compressed else None
        self._writer = ContainerWriter(avro_schema(kinds), level=level, unique=os.fsencode(path))
        self._sink.end.write(self._writer.header)

    def write(self, rows: pa.Table) -> None:
        step = max(1, int(BLOCK_BYTES / max(1.0, rows.nbytes / rows.num_rows)))
        for start in range(0, rows.num_rows, step):
            self._sink.end.write(self._writer.block(records_of(rows.slice(start, step), self._kinds)))

    def finish(self) -> int:
        return self._sink.stored()


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table``, whose columns are those of ``schema``, as one of that schema."""
    table = with_masked(table)
    if table.schema.types == schema.types:  # they differ in what may be null, and in metadata
        return pa.Table.from_arrays(table.columns, schema=schema)
    return table.cast(schema)


WRITERS: Final[Mapping[str, Any]] = {"parquet": ParquetFile, "orc": OrcFile, "avro": AvroFile}
"""The writer of each format, by the value of the option ``file.format``."""


def format_for(format: str, rows: pa.Table) -> str:
    """Return the format of a file with ``rows`` that is to be one of ``format``. Clauses: META-76."""
    return "parquet" if format == "orc" and not holds(rows) else format


def expect_storable(format: str, fields: Sequence[Field], advice: str) -> None:
    """Raise InvalidRequestError for a column that a format cannot hold. ``advice``: what to do. Clauses: META-74."""
    for field in fields if format != "parquet" else ():
        if has_variant(field.type):
            raise InvalidRequestError(f"column {field.name}: Paimon has no VARIANT in {format}; {advice}")
    if format == "orc":
        expect_orc(fields, advice)
    elif format == "avro":
        expect_avro(fields, advice)
