"""The commands that look at a table and change nothing: its rows, its files, its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pktable.cli.app import (
    Fresh,
    IgnoredOptions,
    InstantTime,
    OnSpark,
    Output,
    Quiet,
    ReadOptimized,
    SnapshotId,
    StorageOptions,
    TablePath,
    app,
    moment,
    names,
    open_catalog,
    open_table,
)
from pktable.cli.output import Format, counted, print_outcome, print_rows
from pktable.cli.progress import note, tell

if TYPE_CHECKING:
    from pktable.format.types import Field
    from pktable.table import Table

Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="T", help="As of a time: ISO text or milliseconds.")
]
TagName = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="As of a tag.")]
PartOfRows = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="Condition on rows, in Spark's SQL.")
]


@app.command()
def describe(
    path: TablePath, output: Output = Format.TABLE, storage: StorageOptions = None, quiet: Quiet = False
) -> None:
    """List the columns, keys and options of a table.

    part: column, primary key, partition key, option or comment. value: of a column its type. Of a Hudi table: its
    columns and keys.
    """
    schema = open_catalog(path, storage=storage).context.schema
    others = [("option", name, value) for name, value in schema.options.items()]
    comments = [("comment", None, schema.comment)] if schema.comment else []
    print_parts(schema.fields, schema.primary_keys, schema.partition_keys, [*others, *comments], output)


def print_parts(
    fields: Sequence[Field],
    keys: Sequence[str],
    partition: Sequence[str],
    others: Sequence[tuple[str, str | None, str]],
    output: Format,
) -> None:
    """Print what `describe` says of a table. ``others``: further rows."""
    import pyarrow as pa

    rows = [
        *(("column", field.name, str(field.type)) for field in fields),
        *(("primary key", name, None) for name in keys),
        *(("partition key", name, None) for name in partition),
        *others,
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    print_rows(pa.Table.from_arrays(columns, names=["part", "name", "value"]), output)


@app.command()
def read(
    path: TablePath,
    snapshot: SnapshotId = None,
    timestamp: Timestamp = None,
    tag: TagName = None,
    fresh: Fresh = False,
    where: PartOfRows = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
    instant: InstantTime = None,
    read_optimized: ReadOptimized = False,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="At most this many rows.")] = None,
    output: Output = Format.TABLE,
    ignore_option: IgnoredOptions = None,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Print the rows of a table, as of now or earlier."""
    time = moment("--timestamp", timestamp)
    wanted = None if columns is None else names(columns)
    table = open_table(path, spark, storage=storage, ignored=ignore_option)
    rows = table.to_arrow(
        snapshot=snapshot,
        tag=tag,
        timestamp=time,
        fresh=fresh,
        where=where,
        columns=wanted,
        limit=limit,
    )
    print_rows(rows, output)
    if not fresh:
        _note_uncompacted(table, snapshot, tag, time)


@app.command()
def changes(
    path: TablePath,
    start: Annotated[
        str, typer.Option(metavar="N|TAG", help="After this snapshot; 0 is before the first one.")
    ],
    end: Annotated[
        str | None, typer.Option(metavar="N|TAG", help="Up to this snapshot; by default the latest.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Condition on the row of each change, in Spark's SQL.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
    output: Output = Format.TABLE,
    ignore_option: IgnoredOptions = None,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Print the changes of some snapshots, as recorded.

    The column _row_kind holds +I, -U, +U or -D. `pktable write --row-kind _row_kind` applies them to another table.
    """
    table = open_table(path, storage=storage, ignored=ignore_option)
    wanted = None if columns is None else names(columns)
    found = table.changes(_place(start), None if end is None else _place(end), where=where, columns=wanted)
    print_rows(found.to_arrow(), output)


def _place(text: str) -> int | str:
    """Return the id of a snapshot, or the name of a tag, which is never a number."""
    return int(text) if text.isdecimal() and text.isascii() else text


@app.command()
def count(
    path: TablePath,
    snapshot: SnapshotId = None,
    timestamp: Timestamp = None,
    tag: TagName = None,
    fresh: Fresh = False,
    where: PartOfRows = None,
    instant: InstantTime = None,
    read_optimized: ReadOptimized = False,
    output: Output = Format.TABLE,
    ignore_option: IgnoredOptions = None,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Print the number of rows, now or as of an earlier time.

    Result: rows.
    """
    time = moment("--timestamp", timestamp)
    table = open_table(path, spark, storage=storage, ignored=ignore_option)
    rows = table.count(snapshot=snapshot, tag=tag, timestamp=time, fresh=fresh, where=where)
    print_outcome(str(rows), {"rows": rows}, output)
    if not fresh:
        _note_uncompacted(table, snapshot, tag, time)


def _note_uncompacted(table: Table, snapshot: int | None, tag: str | None, timestamp: int | None) -> None:
    from pktable.catalog.as_of import AsOf
    from pktable.catalog.read_plan import uncompacted_row_count

    left_out = table.catalog.read_as_of(
        AsOf.given(snapshot, tag, timestamp), lambda state, context: uncompacted_row_count(context, state)
    )
    if left_out:
        verb = "is" if left_out == 1 else "are"
        note(
            f"{counted(left_out, 'change')} {verb} not compacted yet and left out; use --fresh to include them"
        )


@app.command()
def files(
    path: TablePath,
    snapshot: SnapshotId = None,
    instant: InstantTime = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """List the live data files."""
    from pktable.inspect import Inspection

    print_rows(Inspection(open_catalog(path, storage=storage)).files(snapshot), output)


@app.command()
def history(
    path: TablePath,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """List the retained snapshots and what they hold.

    records: rows of all data files. vectors: data files with a deletion vector; deleted_rows: rows these delete.
    Numbers that damage hides are NULL: each damaged file is reported on standard error, and the exit code is 1.
    Of a Hudi table: its completed writes, with the files and rows that they wrote.
    """
    import pyarrow as pa

    from pktable.catalog import summaries

    found = list(summaries.history(open_catalog(path, storage=storage)))
    columns = {
        "snapshot": pa.array([one.id for one in found], pa.int64()),
        "kind": pa.array([one.kind for one in found], pa.string()),
        "time": pa.array([one.time_millis for one in found], pa.timestamp("ms", "UTC")),
        "records": pa.array([one.records for one in found], pa.int64()),
        "files": pa.array([one.files for one in found], pa.int64()),
        "vectors": pa.array([one.vectors for one in found], pa.int64()),
        "deleted_rows": pa.array([one.deleted_rows for one in found], pa.int64()),
    }
    print_rows(pa.table(columns), output)
    damaged = [one for one in found if one.damage]
    for one in damaged:
        tell(f"pktable: snapshot {one.id}: {one.damage}")
    if damaged:
        raise typer.Exit(1)
