"""The commands that change a table. Each opens it, does one thing, and prints what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import APPEND

from pktable.cli import hudi as on_hudi
from pktable.cli.app import (
    NOT_HUDI,
    DryRun,
    Names,
    OnSpark,
    Output,
    Quiet,
    StorageOptions,
    TablePath,
    Where,
    app,
    moment,
    names,
    open_hudi,
    open_table,
    pairs,
    refuse,
    spark_session,
    storage_options,
)
from pktable.cli.output import Format, counted, print_outcome, print_rows

INTERVAL: Final = 10.0
MONTH: Final = 30 * 24 * 3600.0  # in seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from pktable.table import Table

__all__ = ["OnSpark", "Output", "TablePath", "app", "spark_session"]  # for the modules of other commands


@app.command()
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
    if hudi:
        refuse("a Hudi table", option=option or None, comment=comment or None)
        keys, partition = names(primary_key), names(partition_by)
        made = on_hudi.create(path, columns, keys, partition, ordering, storage_options(storage))
        print_outcome(f"created {path}", {"table": made}, output)
        return
    refuse(NOT_HUDI, ordering=ordering)
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


@app.command()
def write(
    path: TablePath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows: .parquet, .csv or .jsonl.")],
    row_kind: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that holds +I, -U, +U, -D or 0..3.")
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Write the rows of a file: upserts, or changes by row kind.

    A dry run checks the file and its rows, and writes nothing. Result: rows, snapshot (null if none was made), dry_run.
    Of a Hudi table: rows, instant (null if there were no rows), dry_run.
    """
    if hudi := open_hudi(path, storage=storage):
        on_hudi.refuse_options(row_kind=row_kind)
        on_hudi.write(hudi, file, lambda: open_hudi(path, spark, storage=storage), dry_run, output)
        return
    from pktable.cli.files import read_rows

    table = open_table(path, storage=storage)  # the table and the file are looked at before Spark starts
    rows = read_rows(file, table.schema.fields, row_kind)
    snapshot = None
    if dry_run:
        _expect_writable(table, rows, row_kind)
    else:
        table = open_table(path, spark, storage=storage) if spark else table
        put = table.upsert if table.schema.primary_keys else table.append
        snapshot = table.write_changes(rows, row_kind=row_kind) if row_kind else put(rows)
    done = counted(rows.num_rows, "row")
    _print_change(f"{done} written", f"would write {done}", snapshot, dry_run, output, rows=rows.num_rows)


def _expect_writable(table: Table, rows: pa.Table, row_kind: str | None) -> None:
    """Raise InvalidRequestError where writing ``rows`` would do so before it writes."""
    from pktable.ingest.changes import ChangeKind, as_changes
    from pktable.kinds import kind_of

    kind_of(table.schema, table.path).require_writable(table.schema, table.catalog.context.options)
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

    A dry run counts them. Result: rows, snapshot (null if none was made), dry_run.
    Of a Hudi table: rows, instant (null if there was none to delete), dry_run.
    """
    if hudi := open_hudi(path, spark, storage=storage):
        on_hudi.delete(hudi, where, dry_run, output)
        return
    table = open_table(path, spark, storage=storage)
    snapshot = None if dry_run else table.delete(where=where)
    _print_statement("delete", table, where, snapshot, dry_run, output)


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

    A dry run counts them. Result: rows, snapshot (null if none was made), dry_run.
    """
    table = open_table(path, spark, storage=storage)
    values = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name.strip() in values:
            raise InvalidRequestError(f"--set: expected COLUMN=SQL, each column once, found {text!r}")
        values[name.strip()] = value.strip()
    snapshot = None if dry_run else table.update(values, where=where)
    _print_statement("update", table, where, snapshot, dry_run, output)


def _print_statement(
    verb: str, table: Table, where: str | None, snapshot: int | None, dry_run: bool, output: Format
) -> None:
    """Print what a statement did, after which ``snapshot`` was the latest (None: it changed nothing), or would do."""
    if dry_run:
        count = table.count(fresh=True, where=where)
    elif snapshot is None:
        count = 0
    elif table.schema.primary_keys:
        count = _rows_written(table, snapshot)
    else:
        gone = table.count(snapshot=snapshot - 1) - table.count(snapshot=snapshot)
        # An update adds as many rows as it takes away.
        count = gone or table.count(where=where, snapshot=snapshot - 1)
    done = counted(count, "row")
    _print_change(f"{done} {verb}d", f"would {verb} {done}", snapshot, dry_run, output, rows=count)


def _rows_written(table: Table, snapshot: int) -> int:
    """Return how many rows the write wrote after which ``snapshot`` was the latest."""
    log, found = table.catalog.snapshots, table.catalog.snapshots.read(snapshot)
    user = found.commit_user
    while (
        found.commit_user != user or found.commit_kind != APPEND
    ):  # its compaction follows, and others between
        found = log.read(found.id - 1)
    return found.delta_record_count


@app.command()
def compact(
    path: TablePath,
    full: Annotated[bool, typer.Option("--full", help="Rewrite everything into the last level.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until interrupted, for tables that others write.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(metavar="S", help="With --follow: seconds between compactions; 10 by default."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Compact every bucket that needs it.

    Result: snapshot (null if none was made), dry_run, and of a dry run how many buckets, files and rows would be
    compacted. With --follow: snapshots (how many were made), lost_races, store_failures (how many were survived).
    Of a Hudi table: instants (of the compactions that were executed), dry_run, and of a dry run groups and files.
    """
    if hudi := open_hudi(path, spark, storage=storage):
        on_hudi.refuse_options(full=full, follow=follow, interval=interval)
        on_hudi.compact(hudi, dry_run, output)
        return
    if interval is not None and (not follow or not 0 < interval < MONTH):
        raise InvalidRequestError(f"--interval {interval:g}: expected --follow and seconds above 0")
    if follow:
        if dry_run:
            raise InvalidRequestError("--dry-run: expected one compaction, found --follow")
        _follow(path, full, INTERVAL if interval is None else interval, output, storage, spark)
        return
    if not dry_run:
        snapshot = open_table(path, spark, storage=storage).compact(full=full)
        found = dict.fromkeys(("buckets", "files", "rows"))
        _print_change("compacted", "", snapshot, dry_run, output, **found)
        return
    planned = open_table(path, storage=storage).plan_compaction(full=full)
    files, rows = sum(bucket.files for bucket in planned), sum(bucket.rows for bucket in planned)
    would = (
        f"would compact {counted(files, 'file')} of {counted(len(planned), 'bucket')}, {counted(rows, 'row')}"
    )
    found = {"buckets": len(planned), "files": files, "rows": rows}
    _print_change("", would if planned else "nothing to do", None, dry_run, output, **found)


def _follow(
    path: str, full: bool, interval: float, output: Format, storage: Sequence[str] | None, spark: bool
) -> None:
    """Compact until interrupted, and print what was done, also if an error ends it."""
    from pktable.cli.follow import Followed, Stop, follow
    from pktable.cli.progress import note

    table, followed, stop = open_table(path, spark, storage=storage), Followed(), Stop()
    try:
        with stop.on_signals():
            note(f"compacting {path} every {interval:g} s; interrupt ends it")
            follow(
                table,
                lambda: open_table(path, spark, storage=storage),
                full=full,
                interval=interval,
                stop=stop,
                note=note,
                followed=followed,
            )
    finally:
        counts = {
            "snapshots": followed.snapshots,
            "lost_races": followed.lost_races,
            "store_failures": followed.store_failures,
        }
        survived = f"{counted(followed.lost_races, 'lost race')}, {counted(followed.store_failures, 'store failure')}"
        print_outcome(f"made {counted(followed.snapshots, 'snapshot')}; {survived}", counts, output)


@app.command()
def tag(
    path: TablePath,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the tag; without it the tags are listed."),
    ] = None,
    snapshot: Annotated[
        int | None, typer.Option(metavar="N", help="The snapshot to keep; by default the latest.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the tag, and files only it references.")
    ] = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Keep a snapshot under a name, remove a name, or list names.

    Result: tag, snapshot (null for a removed tag), deleted.
    """
    if name is None and (delete or snapshot is not None):
        raise InvalidRequestError(f"{'--delete' if delete else '--snapshot'}: expected a NAME, found none")
    if delete and snapshot is not None:
        raise InvalidRequestError(f"--delete: expected a NAME alone, found --snapshot {snapshot}")
    table = open_table(path, storage=storage)
    if name is None:
        _print_tags(table, output)
        return
    if delete:
        table.delete_tag(name)
    else:
        table.create_tag(name, snapshot=snapshot)
        snapshot = table.tags()[name].id
    sentence = f"removed tag {name}" if delete else f"tag {name} keeps snapshot {snapshot}"
    print_outcome(sentence, {"tag": name, "snapshot": snapshot, "deleted": delete}, output)


def _print_tags(table: Table, output: Format) -> None:
    import pyarrow as pa

    rows = [{"tag": tag, "snapshot": kept.id} for tag, kept in table.tags().items()]
    schema = pa.schema([("tag", pa.string()), ("snapshot", pa.int64())])
    print_rows(pa.Table.from_pylist(rows, schema=schema), output)


@app.command()
def expire(
    path: TablePath,
    retain_last: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the newest snapshots stay.")
    ],
    older_than: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only snapshots older than this: ISO text or milliseconds."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Expire the oldest snapshots; delete unreferenced files.

    Result: snapshots (the ids that expired), dry_run.
    """
    limit = moment("--older-than", older_than)
    expired = open_table(path, storage=storage).expire_snapshots(
        retain_last=retain_last, older_than=limit, dry_run=dry_run
    )
    verb = "would expire" if dry_run else "expired"
    sentence = f"{verb} {_range(expired)}" if expired else "nothing to do"
    print_outcome(sentence, {"snapshots": expired, "dry_run": dry_run}, output)


@app.command()
def rollback(
    path: TablePath,
    snapshot: Annotated[
        int | None, typer.Option(metavar="N", help="The retained snapshot to go back to.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="The tag to go back to.")] = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Go back to a snapshot or a tag; the later snapshots go.

    Result: snapshots (the ids that went). Their files are removed by `pktable clean`.
    Of a Hudi table: roll back the writes of processes that died. Result: instants (those that were rolled back).
    """
    if hudi := open_hudi(path, storage=storage):
        refuse("a Hudi table", snapshot=snapshot, tag=tag)
        on_hudi.roll_back(hudi, output)
        return
    gone = open_table(path, storage=storage).rollback(snapshot=snapshot, tag=tag)
    print_outcome(f"removed {_range(gone)}" if gone else "nothing to do", {"snapshots": gone}, output)


@app.command()
def clean(
    path: TablePath,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="Only files older than this: ISO text or milliseconds; one day by default."
        ),
    ] = None,
    retain_commits: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of a Hudi table: it stays readable as of N commits, 10 by default."
        ),
    ] = None,
    retain_versions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of a Hudi table: N base files of each file group stay."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Delete files that no snapshot, tag or branch needs.

    No write may run for longer than the limit. Result: files (how many), bytes, dry_run.
    Of a Hudi table: files of old file slices. Result: files, instant (null if nothing was deleted), dry_run.
    """
    limit = moment("--older-than", older_than)
    retention = {"retain_commits": retain_commits, "retain_versions": retain_versions}
    if hudi := open_hudi(path, storage=storage):
        refuse("a Hudi table", older_than=older_than)
        on_hudi.clean(hudi, retention, dry_run, output)
        return
    refuse(NOT_HUDI, **retention)
    found = open_table(path, storage=storage).remove_orphans(older_than=limit, dry_run=dry_run)
    size = sum(orphan.size for orphan in found)
    verb = "would delete" if dry_run else "deleted"
    sentence = f"{verb} {counted(len(found), 'file')}, {size:,} bytes" if found else "nothing to do"
    print_outcome(sentence, {"files": len(found), "bytes": size, "dry_run": dry_run}, output)


@app.command()
def archive(
    path: TablePath,
    retain_writes: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the last writes stay on the timeline.")
    ] = 20,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Shorten the timeline of a Hudi table.

    Old actions move into its history. Reads as of earlier instants are refused from then on.
    Result: actions (how many were moved).
    """
    hudi = open_hudi(path, storage=storage)
    if hudi is None:
        open_table(path, storage=storage)  # the better error if there is no table
        raise InvalidRequestError(f"{path}: archive: for Hudi tables only; use `pktable expire`")
    on_hudi.archive(hudi, retain_writes, output)


def _print_change(
    done: str, would: str, snapshot: int | None, dry_run: bool, output: Format, **fields: int | None
) -> None:
    """Print what a write, a delete or a compaction did, or would do."""
    made = "nothing to do" if snapshot is None else f"{done}, snapshot {snapshot}"
    outcome = {**fields, "snapshot": snapshot, "dry_run": dry_run}
    print_outcome(would if dry_run else made, outcome, output)


def _range(ids: Sequence[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
