"""The commands that make a table and change its rows. Each opens it, does one thing, and prints what came of it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pktable_spec.errors import InvalidRequestError

from pktable.cli.app import (
    DryRun,
    Names,
    OnSpark,
    Output,
    Quiet,
    StorageOptions,
    TablePath,
    Where,
    app,
    names,
    open_table,
    pairs,
    storage_options,
)
from pktable.cli.output import Format, counted, print_change, print_outcome
from pktable.cli.progress import note

if TYPE_CHECKING:
    import pyarrow as pa

    from pktable.catalog.effects import Result
    from pktable.table import Table


@app.command(branches=False)
def create(
    path: TablePath,
    columns: Annotated[str, typer.Option(metavar="DDL", help='Columns, such as "id BIGINT, city STRING".')],
    primary_key: Annotated[
        str, typer.Option(metavar="A,B", help="Key columns, comma-separated; without them an append table.")
    ] = "",
    partition_by: Names = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="Table option, repeatable; `pktable options` lists them.",
        ),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Comment of the table.")] = "",
    hudi: Annotated[
        bool, typer.Option("--hudi", help="Create a merge-on-read table of Apache Hudi.")
    ] = False,
    ordering: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --hudi: the greatest value of a key wins.")
    ] = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Create an empty table.

    Result: table (its path).
    """
    from pktable.table import Table

    table = Table.create(
        path,
        columns,
        primary_key=names(primary_key),
        partition_by=names(partition_by),
        options=pairs("option", option or ()),
        comment=comment,
        storage_options=storage_options(storage),
    )
    print_outcome(f"created {path}", {"table": table.path}, output)
    note(_made(table))


def _made(table: Table) -> str:
    """Return what kind of table was made, as far as its maker may not have asked for it."""
    kept = table.options.get("deletion-vectors.enabled", "false")
    kind = (
        f"primary key {', '.join(table.schema.primary_keys)}, bucket={table.options.get('bucket', '-1')}"
        if table.stager.kind.has_keys
        else "an append table, because no --primary-key is given"
    )
    clocks = [one.name for one in table.schema.fields if one.type.root == "TIMESTAMP"]
    times = f"; {', '.join(clocks)}: TIMESTAMP is wall-clock time, TIMESTAMP_LTZ an instant" if clocks else ""
    return f"{kind}, deletion vectors {'on' if kept == 'true' else 'off'}{times}"


@app.command()
def alter(
    path: TablePath,
    add: Annotated[
        str, typer.Option(metavar="DDL", help='Columns to add, such as "note STRING, n INT".')
    ] = "",
    drop: Annotated[str, typer.Option(metavar="A,B", help="Columns to drop, comma-separated.")] = "",
    nullable: Annotated[
        str, typer.Option(metavar="A,B", help="Columns that may hold null from now on.")
    ] = "",
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Give a column another name, repeatable.")
    ] = None,
    widen: Annotated[
        list[str] | None,
        typer.Option(metavar="A=TYPE", help="Give a column a type that holds all its values, repeatable."),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(metavar="A=PLACE", help="FIRST, LAST, BEFORE B or AFTER B, repeatable."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Set an option, repeatable."),
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take back an option, repeatable.")
    ] = None,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="Comment of the table.")] = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Change columns, options or the comment of a table.

    Result: schema (the id of the table's schema after it).
    """
    table = open_table(path, storage=storage)
    before = table.schema.id
    table.alter(
        add=add or None,
        drop=names(drop),
        nullable=names(nullable),
        rename=pairs("rename", rename or (), "OLD=NEW"),
        widen=pairs("widen", widen or (), "A=TYPE"),
        move=pairs("move", move or (), "A=PLACE"),
        set_options=pairs("option", option or ()),
        reset_options=reset or (),
        comment=comment,
    )
    done = "nothing to do" if table.schema.id == before else f"the table has schema {table.schema.id}"
    print_outcome(done, {"schema": table.schema.id}, output)


class InputFormat(str, Enum):
    """How rows are written in a file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


@app.command()
def write(
    path: TablePath,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows: .parquet, .csv or .jsonl; - is standard input.")
    ],
    input_format: Annotated[
        InputFormat | None, typer.Option(help="How FILE is written; by default, its ending says so.")
    ] = None,
    row_kind: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that holds +I, -U, +U, -D or 0..3.")
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Write the rows of a file: upserts, or by row kind.

    A dry run checks the file and its rows, and writes nothing. Result: rows, snapshot (null if none was made), dry_run.
    Of a Hudi table: rows, instant (null if there were no rows), dry_run.
    """
    from pktable.cli.files import read_rows

    kind = input_format and input_format.value
    table = open_table(path, storage=storage)  # the table and the file are looked at before Spark starts
    rows = read_rows(file, table.schema.fields, row_kind, kind)
    snapshot = None
    if dry_run:
        _expect_writable(table, rows, row_kind)
    else:
        table = open_table(path, spark, storage=storage) if spark else table
        snapshot = table.write_changes(rows, row_kind=row_kind) if row_kind else table.put(rows)
    done = counted(rows.num_rows, "row")
    print_change(f"{done} written", f"would write {done}", snapshot, dry_run, output, rows=rows.num_rows)


def _expect_writable(table: Table, rows: pa.Table, row_kind: str | None) -> None:
    """Raise InvalidRequestError where writing ``rows`` would do so before it writes."""
    from pktable.ingest.changes import ChangeKind, as_changes

    table.catalog.expect_writable()
    as_changes(rows, table.schema, ChangeKind(column=row_kind))


@app.command()
def delete(
    path: TablePath,
    where: Where,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Delete rows matching a condition.

    A dry run counts them. Result: rows (null if nobody knows), snapshot (null if none was made), dry_run.
    Of a Hudi table: rows, instant (null if there was none to delete), dry_run.
    """
    table = open_table(path, spark, storage=storage)
    done = None if dry_run else table.delete(where=where)
    _print_statement("delete", table, where, done, dry_run, output)


@app.command()
def update(
    path: TablePath,
    assignments: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=SQL", help="A column and its new value, such as 'n = n + 1'."),
    ],
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Condition on rows, in Spark's SQL; without it all rows."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Update columns of rows matching a condition.

    A dry run counts them. Result: rows (null if nobody knows), snapshot (null if none was made), dry_run.
    """
    table = open_table(path, spark, storage=storage)
    values = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name.strip() in values:
            raise InvalidRequestError(f"--set: expected COLUMN=SQL, each column once, found {text!r}")
        values[name.strip()] = value.strip()
    done = None if dry_run else table.update(values, where=where)
    _print_statement("update", table, where, done, dry_run, output)


def _print_statement(
    verb: str, table: Table, where: str | None, done: Result | None, dry_run: bool, output: Format
) -> None:
    """Print what a statement did, or would do. ``done``: None if it changed nothing.

    The number of rows is not known if others committed between the write and its compaction.
    """
    count: int | None = 0
    if dry_run:
        count = table.count(fresh=True, where=where)
    elif done is not None:
        effect = done.effect
        counts = (effect.deleted, effect.updated) if effect else (None, None)
        count = counts[verb == "update"]
    rows = "rows" if count is None else counted(count, "row")
    print_change(f"{rows} {verb}d", f"would {verb} {rows}", done, dry_run, output, rows=count)
