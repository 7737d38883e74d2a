"""The batch reader, and the pieces that one task reads: of a snapshot's rows, or of changes.

A piece pickles and reads itself. All pieces of a read are planned at once, on one snapshot or one range of snapshots.
If that expires before they are read, they fail with the error of an expired snapshot.

Pieces of rows that need no merge are single files; small ones share a task. Changes of one bucket are one piece, so
that those of a key come in their order, also if they are of several snapshots. So are all changes if keys move between
partitions.

Clauses: RD-10, RD-12, RD-27, CHG-11, CHG-13.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pktable.bucket.changelog import ROW_KIND, read_changes
from pktable.bucket.read import by_file
from pktable.catalog.as_of import AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.change_plan import (
    ChangeRange,
    change_range,
    expect_kept,
    plan_changes,
    snapshots_between,
)
from pktable.catalog.schemas import expect_table_of
from pktable.catalog.snapshots import SnapshotLog
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.snapshot import Snapshot
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketId, ChangeRead
from pktable.predicate import Predicate, parse
from pktable.run.runner import TASK_BYTES
from pktable.run.spark.types import as_nullable, for_spark, read_schema
from pktable.scan import Split
from pktable.spark_source.options import INCREMENTAL, Options
from pktable.table import Table

logger = logging.getLogger("pktable")

RELOAD: Final = "if the table was altered after the DataFrame was made, make it again"


class Piece(Protocol):
    """Something that a task reads."""

    def read(self) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class ChangePiece:
    """Some changes of a range of snapshots, in order. ``snapshots``: those of the range as they were planned.

    ``complete``: whether they must all be there when they are read.
    """

    context: TableContext
    parts: tuple[ChangeRead, ...]
    columns: tuple[str, ...]
    predicate: Predicate | None
    wanted: ChangeRange
    snapshots: tuple[Snapshot, ...]
    complete: bool

    def read(self) -> Iterator[pa.Table]:
        """Yield the changes. Raises CorruptFileError, or SnapshotNotFoundError if the range has expired since.

        Unless they must be complete, changes of expired snapshots are left out. Clauses: CHG-13, CHG-27.
        """
        for part in self.parts:
            try:
                yield from read_changes(self.context, part, self.columns, self.predicate)
            except CorruptFileError:
                log = SnapshotLog(self.context.store, self.context.paths)
                if self.complete:
                    expect_kept(self.context, log, self.wanted, self.snapshots)
                elif not _kept(self.context, log, [one for one in self.snapshots if one.id == part.snapshot]):
                    continue
                raise


@contextmanager
def left_out() -> Iterator[None]:
    """Leave out what the block would do with a snapshot that is gone, and say so in the log."""
    try:
        yield
    except SnapshotNotFoundError as error:
        logger.warning("%s", error)


def _kept(context: TableContext, log: SnapshotLog, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return which of ``snapshots`` are still there, and say which are left out."""
    found = []
    for one in snapshots:
        with left_out():
            expect_kept(context, log, ChangeRange(one.id - 1, one.id), [one])
            found.append(one)
    return found


def row_partitions(splits: Iterable[Split]) -> list[InputPartition]:
    """Return the partitions of a read of rows. Clauses: RD-12."""
    groups: list[list[Split]] = []
    room = 0
    for split in splits:
        for part in by_file(split.part):
            piece = replace(split, part=part)
            if not groups or room < piece.size_bytes:
                groups.append([])
                room = TASK_BYTES
            groups[-1].append(piece)
            room -= piece.size_bytes
    return [InputPartition(group) for group in groups]


def change_partitions(
    catalog: Catalog,
    snapshots: Sequence[Snapshot],
    schema: StructType,
    where: str | None,
    wanted: ChangeRange,
    *,
    complete: bool = True,
    schema_id: int | None = None,
    given: TableSchema | None = None,
) -> list[InputPartition]:
    """Return the partitions of a read of the changes of ``snapshots``, which are those of the range ``wanted``.

    ``complete``: whether they must all be there when the changes are read. ``schema_id``: the schema to read them
    under, by default the schema of the last snapshot. ``given``: see `columns_of`.
    Raises InvalidRequestError, SnapshotNotFoundError, CorruptFileError. Clauses: CHG-11, CHG-12, CHG-13, RD-14.
    """
    if not snapshots:
        return []
    last = snapshots[-1].schema_id
    context = catalog.under(last if schema_id is None else schema_id, last)
    columns = columns_of(schema, context, given)
    predicate = parse(where, context.schema.fields) if where is not None else None
    try:
        parts = plan_changes(context, catalog.manifests, snapshots, wanted)
    except CorruptFileError:
        if complete:
            expect_kept(context, catalog.snapshots, wanted, snapshots)
        elif len(kept := _kept(context, catalog.snapshots, snapshots)) < len(snapshots):
            return change_partitions(
                *(catalog, kept, schema, where, wanted),
                complete=False,
                schema_id=context.schema.id,
                given=given,
            )
        raise
    groups: dict[BucketId | int | None, list[ChangeRead]] = {}
    has_order = kind_of(context.schema, context.root).has_keys
    for number, part in enumerate(parts):
        bucket_id = None if context.moves_keys else part.place.id
        groups.setdefault(bucket_id if has_order else number, []).append(part)
    return [
        InputPartition(
            [ChangePiece(context, tuple(group), columns, predicate, wanted, tuple(snapshots), complete)]
        )
        for group in groups.values()
    ]


def columns_of(
    schema: StructType, context: TableContext, given: TableSchema | None = None, *, changes: bool = True
) -> tuple[str, ...]:
    """Return the columns of the table to read for a DataFrame of ``schema``; at least one, so that rows are counted.

    ``given``: the schema of the table when the DataFrame got its columns, None if the user named them. ``changes``:
    whether the DataFrame has the kinds of changes.
    Raises InvalidRequestError for a column that the table does not have, or has with another type or id.
    """
    known = {field.name: field for field in context.schema.fields}
    names = []
    for field in schema:
        if field.name == ROW_KIND and (changes or ROW_KIND not in known):
            if ROW_KIND in known:
                raise InvalidRequestError(f"changes: the table has a column {ROW_KIND} of its own")
            continue
        if field.name not in known:
            raise InvalidRequestError(
                f"column {field.name} is not in the table; columns are {', '.join(known)}; {RELOAD}"
            )
        if given is not None and given.field(field.name).id != known[field.name].id:
            raise InvalidRequestError(f"column {field.name} is another one than it was; {RELOAD}")
        kind, wanted = as_nullable(field.dataType), read_schema([known[field.name]])[0].dataType
        if kind != wanted:
            raise InvalidRequestError(
                f"column {field.name}: expected type {wanted.simpleString()}, as the table has it, "
                f"found {kind.simpleString()}; cast the column after the read; {RELOAD}"
            )
        names.append(field.name)
    return tuple(names) or (context.schema.fields[0].name,)


def spark_batches(pieces: Sequence[Piece] | None, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``pieces`` exactly as Spark wants them for ``schema``. Rows without a kind are +I."""
    wanted = arrow_schema(schema)
    for piece in pieces or ():  # Spark makes a partition of None where there is none
        for table in piece.read():
            if ROW_KIND in wanted.names and ROW_KIND not in table.column_names:
                table = table.append_column(ROW_KIND, pa.repeat(pa.scalar("+I"), table.num_rows))
            yield from for_spark(table.select(wanted.names)).cast(wanted).to_batches()


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return ``schema`` as Spark wants it of Arrow batches."""
    make: Any = to_arrow_schema
    try:
        return make(schema, timezone="UTC")
    except TypeError:  # before pyspark 4.2, where UTC is the only one
        return make(schema)


class BatchReader(DataSourceReader):
    """Reads one snapshot, or with ``incremental-between`` the changes of a range. Has no ``pushFilters``.

    Spark fails every read of a reader that has it while ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    def __init__(self, options: Options, schema: StructType, given: TableSchema | None = None) -> None:
        """``given``: see `columns_of`."""
        self._options, self._schema, self._given = options, schema, given

    def partitions(self) -> list[InputPartition]:
        """Plan the read. Raises InvalidRequestError, SnapshotNotFoundError, CorruptFileError. Clauses: RD-27."""
        options, table = self._options, self._options.open_table()
        if self._given is not None:
            expect_table_of(table.catalog.context, self._given)
        where = options.text("filter")
        if options.mode == INCREMENTAL:
            snapshots = table.catalog.snapshots
            wanted = change_range(snapshots, *options.between)
            found = snapshots_between(table.catalog.context, snapshots, wanted)
            return change_partitions(table.catalog, found, self._schema, where, wanted, given=self._given)
        return row_partitions(self._splits(table, where))

    def _splits(self, table: Table, where: str | None) -> list[Split]:
        as_of = self._options.as_of
        changes = self._options.flag("read.changelog", False)
        columns = table.catalog.read_as_of(
            AsOf.given(**as_of),
            lambda state, context: columns_of(self._schema, context, self._given, changes=changes),
        )
        fresh = self._options.flag("fresh", False)
        return table.scan(**as_of, columns=columns, where=where, fresh=fresh).splits()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises SnapshotNotFoundError if its snapshot has expired since."""
        return spark_batches(partition.value, self._schema)
