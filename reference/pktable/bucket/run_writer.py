"""Write one sorted run, or rows of an append table, as data files, and return the metadata of each.

Rows are gathered until they make a row group; a file is closed when it has reached its target size, so
memory stays bounded and all files of a run together are one run.

Clauses: APP-5, CHG-25, LSM-7, CMP-15, CMP-26, CMP-32, META-5 to META-8, META-10, META-27, META-32, META-46, META-71,
META-76.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.options import StatsMode
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER, VALUE_KIND

from pktable.context import TableContext
from pktable.datafile.columns import column_types, tracked_file_schema
from pktable.datafile.encoded import concatenated, encoded_as, without_unused
from pktable.datafile.writers import WRITERS, FileWriter, Recipe, format_for, with_schema
from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.stats import KEY_CODE_POINTS, SimpleStats, collect_stats, merge_stats
from pktable.format.types import DataType, Field, values_of
from pktable.lsm.bucket import BucketPath
from pktable.store.new_files import NewFiles

FROM_WRITE, FROM_COMPACTION = 0, 1  # _FILE_SOURCE
SAMPLE = 4096  # rows, that tell whether a column has values worth a dictionary
GATHERED_BYTES = 64 << 20  # of Arrow memory, that make a row group
UNCOMPRESSED_BYTES = 4 << 10
"""Arrow memory of a data file up to which compression costs more time and bytes than it saves."""
ONE_PIECE_BYTES = 1 << 20
"""A file that is to be no larger is written in one piece: Arrow makes it in two dozen, each a call of Python unless the
sink is Arrow's own.
"""


class RunWriter:
    """Takes tables in key order (columns of `file_schema`) and writes them to as many files as needed.

    Rows of an append table may be in any order.
    """

    def __init__(
        self,
        context: TableContext,
        place: BucketPath,
        new: NewFiles,
        *,
        level: int,
        source: int,
        now_millis: int,
        tracked: bool = False,
        changelog: bool = False,
    ) -> None:
        """Begin a run.

        ``tracked``: whether rows come with `ROW_ID` and `SEQUENCE_NUMBER`, in an append table. ``changelog``: whether
        the files are changelog files, in which several records of a key may follow each other. Clauses: APP-25, CHG-3.
        """
        self._context, self._place = context, place
        self._level, self._source, self._now = level, source, now_millis
        self._format = context.options.format_of(level, changelog=changelog)
        self._new_path = new.changelog_path if changelog else new.data_path
        self._stats = context.options.stats_of(changelog=changelog)
        self._schema = context.file_schema
        if tracked:
            self._schema = tracked_file_schema(context.schema, updated=source == FROM_WRITE)
        options = context.options
        # Arrow memory is more than the bytes of a file, so a file of its target size has a few row groups.
        self._enough = min(GATHERED_BYTES, options.row_group_bytes, context.target_file_bytes)
        self._enough = max(UNCOMPRESSED_BYTES, self._enough)
        self._gathered: list[pa.Table] = []
        self._gathered_bytes = 0
        self._open: _OpenFile | None = None
        self._done: list[DataFileMeta] = []

    def write(self, table: pa.Table) -> None:
        """Append rows, all of them after the ones before in key order."""
        if not table.num_rows:
            return
        self._gathered.append(table)
        self._gathered_bytes += table.nbytes
        if self._gathered_bytes >= self._enough:
            self._flush()

    def close(self) -> list[DataFileMeta]:
        """Finish the last file and return the metadata of all, in key order."""
        self._flush(tiny=self._open is None and not self._done and self._gathered_bytes <= UNCOMPRESSED_BYTES)
        self._roll()
        return self._done

    def abort(self) -> None:
        """Close an unfinished file; its path is removed with the other new files."""
        if self._open is not None:
            self._open.abort()

    def _flush(self, *, tiny: bool = False) -> None:
        if not self._gathered:
            return
        table = concatenated(self._gathered)
        table = with_schema(table, encoded_as(self._schema, table.schema.types))
        groups = max(1, self._gathered_bytes // self._enough)  # what comes at once may be many
        self._gathered, self._gathered_bytes = [], 0
        step = self._context.options.row_group_rows or -(-table.num_rows // groups)
        repeated = () if tiny else repeated_columns(self._context, table)
        for start in range(0, table.num_rows, step):
            part = table.slice(start, step)
            format = format_for(self._format, part)
            if self._open is not None and format not in (self._format, self._open.format):
                self._roll()
            if self._open is None:
                path = self._new_path(self._place.directory, format)
                kinds = column_types(self._context.schema, self._schema.names)
                self._open = _OpenFile(
                    self._context, path, table.schema, kinds, self._recipe(repeated, tiny), self._stats
                )
            self._open.write(part)
            if self._open.size() >= self._context.target_file_bytes:
                self._roll()

    def _recipe(self, repeated: Sequence[str], tiny: bool) -> Recipe:
        options = self._context.options
        in_one_piece = tiny or self._context.target_file_bytes <= ONE_PIECE_BYTES
        return Recipe(
            options.zstd_level,
            self._enough,
            options.page_rows,
            in_one_piece,
            compressed=not tiny,
            repeated=repeated,
        )

    def _roll(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish(self._level, self._source, self._now))
            self._open = None


class _OpenFile:
    """One file being written, with what its metadata must say so far.

    ``kinds``: the types of its columns. ``recipe``: how it is written. ``stats``: which statistics of values there are
    to be.
    """

    def __init__(
        self,
        context: TableContext,
        path: str,
        schema: pa.Schema,
        kinds: Mapping[str, DataType],
        recipe: Recipe,
        stats: StatsMode,
    ) -> None:
        self._context, self.path, self._stats, self._schema = context, path, stats, schema
        self.format = path.rpartition(".")[2]
        self._writer: FileWriter = WRITERS[self.format](context.store, path, schema, kinds, recipe)
        self._row_counts: list[int] = []
        self._deletes = 0
        self._sequences: list[int] = []
        self._first = self._last = b""
        self._key_stats: list[SimpleStats] = []
        self._value_stats: list[SimpleStats] = []

    def size(self) -> int:
        """Return how many bytes were written so far."""
        return self._writer.size()

    def abort(self) -> None:
        self._writer.abort()

    def write(self, table: pa.Table) -> None:
        table = without_unused(table)
        self._writer.write(table)
        if SEQUENCE_NUMBER in self._schema.names and not table.column(SEQUENCE_NUMBER).null_count:
            sequences = table.column(SEQUENCE_NUMBER).to_numpy()
            self._sequences += [int(sequences.min()), int(sequences.max())]
        else:
            self._sequences = [0, sum(self._row_counts) + table.num_rows - 1]
        if VALUE_KIND in self._schema.names:
            # -U and -D are the odd row kinds.
            self._deletes += int(np.count_nonzero(table.column(VALUE_KIND).to_numpy() & 1))
        self._first = self._first or self._key(table.slice(0, 1))
        self._last = self._key(table.slice(table.num_rows - 1, 1))
        self._row_counts.append(table.num_rows)
        self._key_stats.append(
            collect_stats(table, self._context.stored_key_fields, truncate=KEY_CODE_POINTS)
        )
        fields = stats_fields(self._context, self._stats)
        self._value_stats.append(collect_stats(table, fields, truncate=self._stats.truncate))

    def finish(self, level: int, source: int, now_millis: int) -> DataFileMeta:
        size = self._writer.finish()
        fields = stats_fields(self._context, self._stats)
        tracked = ROW_ID in self._schema.names
        every = len(fields) == len(self._context.schema.fields) and not tracked
        return DataFileMeta(
            file_name=self.path.rpartition("/")[2],
            file_size=size,
            row_count=sum(self._row_counts),
            min_key=self._first,
            max_key=self._last,
            key_stats=merge_stats(self._key_stats, self._row_counts, self._context.stored_key_fields),
            value_stats=merge_stats(self._value_stats, self._row_counts, fields),
            min_sequence_number=min(self._sequences),
            max_sequence_number=max(self._sequences),
            schema_id=self._context.schema.id,
            level=level,
            creation_time=now_millis,
            delete_row_count=self._deletes,
            file_source=source,
            value_stats_cols=None if every else tuple(field.name for field in fields),
            write_cols=tuple(self._schema.names) if tracked else None,
        )

    def _key(self, row: pa.Table) -> bytes:
        columns = zip(self._context.key_columns, self._context.key_types, strict=True)
        return encode_row(
            [values_of(row.column(name), kind)[0] for name, kind in columns], self._context.key_types
        )


def repeated_columns(context: TableContext, rows: pa.Table) -> list[str]:
    """Return the columns whose values come again, as far as a sample tells; none that is nested.

    In a table with a key, no two rows of a file have a sequence number, and one key column has hardly a value twice.
    Where values do not come again, a dictionary is built only to be given up: it costs a tenth of the time and of the
    size.
    """
    keys = {*context.key_columns, *context.schema.primary_keys}
    different = {SEQUENCE_NUMBER} if keys else set()
    if len(context.key_columns) == 1:
        different |= keys
    asked = [
        field.name
        for field in rows.schema
        if field.name not in different and not pa.types.is_nested(field.type)
    ]
    return [name for name in asked if _repeats(rows.column(name))]


def _repeats(column: pa.ChunkedArray) -> bool:
    step = max(1, len(column) // SAMPLE)
    sample: Any = column.take(pa.array(np.arange(0, len(column), step)))
    if pa.types.is_dictionary(sample.type):
        sample = sample.combine_chunks().indices
    # A null is in no dictionary: a column of mostly nulls may still have values that all differ.
    return bool(pc.count_distinct(sample).as_py() <= (len(sample) - sample.null_count) // 2)


def stats_fields(context: TableContext, stats: StatsMode) -> Sequence[Field]:
    """Return the fields whose value statistics are stored. Clauses: META-27."""
    return () if stats.name == "none" else context.schema.fields
