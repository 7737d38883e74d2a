"""The commands on one table. Each opens it, does one thing, and prints what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from pktable_spec.errors import InvalidRequestError

import pktable
from pktable.cli.files import read_rows
from pktable.cli.output import Format, print_rows
from pktable.table import Table

app = typer.Typer(
    help="Primary-key lake tables with deletion vectors, in Apache Paimon's format.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _named_path(path: str) -> str:
    if not path.strip():  # an unset variable of a script, never the directory it happens to run in
        raise InvalidRequestError(f"PATH: expected the directory or URI of a table, found {path!r}")
    return path


TablePath = Annotated[
    str, typer.Argument(metavar="PATH", help="Directory or URI of the table.", callback=_named_path)
]
OnSpark = Annotated[bool, typer.Option("--spark/--local", help="Work on Spark, or in this process.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", metavar="N", help="As of this snapshot.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Merge level 0 in: what compaction has not absorbed yet.")
]
Where = Annotated[str, typer.Option("--where", metavar="SQL", help="Condition on rows, in Spark's SQL.")]
Names = Annotated[str, typer.Option(metavar="A,B", help="Column names, comma-separated.")]
Output = Annotated[Format, typer.Option("--format", help="How to print rows.")]
MILLIS = re.compile(r"[0-9]{1,18}")  # as text can be anything else, and is judged as a time


def _version(asked: bool) -> None:
    if asked:
        print(f"pktable {pktable.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Primary-key lake tables with deletion vectors, in Apache Paimon's format."""


@app.command()
def create(
    path: TablePath,
    columns: Annotated[str, typer.Option(metavar="DDL", help='Columns, such as "id BIGINT, city STRING".')],
    primary_key: Names,
    partition_by: Names = "",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Table option; repeatable."),
    ] = None,
    comment: Annotated[str, typer.Option(help="Comment of the table.")] = "",
) -> None:
    """Create an empty table."""
    Table.create(
        path,
        columns,
        primary_key=_names(primary_key),
        partition_by=_names(partition_by),
        options=_options(option or []),
        comment=comment,
    )
    print(f"created {path}")


@app.command()
def write(
    path: TablePath,
    file: Annotated[Path, typer.Argument(help="Rows: .parquet, .csv or .jsonl.")],
    row_kind: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that holds +I, -U, +U, -D or 0..3.")
    ] = None,
    spark: OnSpark = False,
) -> None:
    """Write the rows of a file: upserts, or what the row kinds say."""
    table = open_table(path, spark)
    rows = read_rows(file, table.schema.fields, row_kind)
    snapshot = table.write_changes(rows, row_kind=row_kind) if row_kind else table.upsert(rows)
    _tell(snapshot, f"{rows.num_rows} rows written")


@app.command()
def delete(path: TablePath, where: Where, spark: OnSpark = False) -> None:
    """Delete the rows that a condition holds for."""
    _tell(open_table(path, spark).delete(where=where), "rows deleted")


@app.command()
def compact(
    path: TablePath,
    full: Annotated[bool, typer.Option("--full", help="Rewrite everything into the last level.")] = False,
    spark: OnSpark = False,
) -> None:
    """Compact what the strategy picks, in every bucket."""
    _tell(open_table(path, spark).compact(full=full), "compacted")


@app.command()
def read(
    path: TablePath,
    snapshot: SnapshotId = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="T", help="As of a time: ISO text or milliseconds.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="As of a tag.")] = None,
    fresh: Fresh = False,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Condition on rows, in Spark's SQL.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most this many rows.")] = None,
    output: Output = Format.TABLE,
    spark: OnSpark = False,
) -> None:
    """Print the rows of a table, now or as they were."""
    rows = open_table(path, spark).to_arrow(
        snapshot=snapshot,
        tag=tag,
        timestamp=_moment(timestamp),
        fresh=fresh,
        where=where,
        columns=None if columns is None else _names(columns),
        limit=limit,
    )
    print_rows(rows, output)


@app.command()
def tag(
    path: TablePath,
    name: Annotated[
        str | None, typer.Argument(help="Name of the tag; without it the tags are listed.")
    ] = None,
    snapshot: SnapshotId = None,
    delete: Annotated[bool, typer.Option("--delete", help="Drop the tag and what only it kept.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Keep a snapshot under a name, drop a name, or list the names."""
    if name is None and (delete or snapshot is not None):
        raise InvalidRequestError(f"{'--delete' if delete else '--snapshot'}: expected a NAME, found none")
    if delete and snapshot is not None:
        raise InvalidRequestError(f"--delete: expected a NAME alone, found --snapshot {snapshot}")
    table = open_table(path)
    if name is None:
        rows = [{"tag": tag, "snapshot": kept.id} for tag, kept in table.tags().items()]
        schema = pa.schema([("tag", pa.string()), ("snapshot", pa.int64())])
        print_rows(pa.Table.from_pylist(rows, schema=schema), output)
    elif delete:
        table.delete_tag(name)
        print(f"dropped tag {name}")
    else:
        table.create_tag(name, snapshot=snapshot)
        print(f"tag {name} keeps snapshot {table.tags()[name].id}")


@app.command()
def expire(
    path: TablePath,
    retain_last: Annotated[int, typer.Option(metavar="N", help="How many of the newest snapshots stay.")],
    older_than: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only snapshots older than this: ISO text or milliseconds."),
    ] = None,
) -> None:
    """Expire the oldest snapshots, and delete the files that then nothing needs."""
    expired = open_table(path).expire_snapshots(retain_last=retain_last, older_than=_moment(older_than))
    print(f"expired snapshots {expired[0]} to {expired[-1]}" if expired else "nothing to do")


@app.command()
def count(path: TablePath, snapshot: SnapshotId = None, fresh: Fresh = False, spark: OnSpark = False) -> None:
    """Print the number of rows."""
    print(open_table(path, spark).count(snapshot=snapshot, fresh=fresh))


@app.command()
def files(path: TablePath, snapshot: SnapshotId = None, output: Output = Format.TABLE) -> None:
    """List the live data files."""
    print_rows(open_table(path).files(snapshot), output)


@app.command()
def history(path: TablePath, output: Output = Format.TABLE) -> None:
    """List the retained snapshots: what made them and what they hold."""
    table = open_table(path)
    rows = [_history_row(table, snapshot) for snapshot in table.snapshots()]
    print_rows(pa.Table.from_pylist(rows, schema=HISTORY), output)


HISTORY = pa.schema(
    [
        ("snapshot", pa.int64()),
        ("kind", pa.string()),
        ("time", pa.timestamp("ms", "UTC")),
        ("records", pa.int64()),
        ("files", pa.int64()),
        ("vectors", pa.int64()),
        ("marked", pa.int64()),
    ]
)


def _history_row(table: Table, snapshot: Any) -> Mapping[str, Any]:
    """Return a row of `HISTORY`; ``marked``: records that vectors mark as deleted."""
    marked = [count for count in table.files(snapshot.id).column("deleted_row_count").to_pylist() if count]
    return {
        "snapshot": snapshot.id,
        "kind": snapshot.commit_kind,
        "time": snapshot.time_millis,
        "records": snapshot.total_record_count,
        "files": table.files(snapshot.id).num_rows,
        "vectors": len(marked),
        "marked": sum(marked),
    }


def open_table(path: str, on_spark: bool = False) -> Table:
    """Open a table, on a Spark session if asked. Raises InvalidRequestError."""
    return Table.open(path, spark=spark_session() if on_spark else None)


def spark_session() -> Any:
    """Connect to the server that SPARK_REMOTE names, or start Spark here. Raises InvalidRequestError without Java."""
    from pktable.run.spark import session  # takes a second to import, and Java to start

    return session.spark_session()


def _tell(snapshot: int | None, done: str) -> None:
    print("nothing to do" if snapshot is None else f"{done}, snapshot {snapshot}")


def _moment(text: str | None) -> int | str | None:
    return int(text) if text and MILLIS.fullmatch(text) else text


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _options(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name.strip():
            raise InvalidRequestError(f"option {one!r}: expected NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
