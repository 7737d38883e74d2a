"""The commands that look after a table: compactions, tags, and what goes when it is no longer needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from pktable_spec.errors import InvalidRequestError

from pktable.cli.app import (
    DryRun,
    OnSpark,
    Output,
    Quiet,
    StorageOptions,
    TablePath,
    app,
    moment,
    open_table,
)
from pktable.cli.output import Format, counted, print_change, print_outcome, print_rows
from pktable.cli.progress import shown

INTERVAL: Final = 10.0
MONTH: Final = 30 * 24 * 3600.0  # in seconds

OfPartitions = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Condition on partition columns, for some partitions."),
]


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
    where: OfPartitions = None,
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
    if interval is not None and (not follow or not 0 < interval < MONTH):
        raise InvalidRequestError(f"--interval {interval:g}: expected --follow and seconds above 0")
    if where is not None and (follow or dry_run):
        raise InvalidRequestError("--where: expected one compaction, found --follow or --dry-run")
    if follow:
        if dry_run:
            raise InvalidRequestError("--dry-run: expected one compaction, found --follow")
        _follow(path, full, INTERVAL if interval is None else interval, output, storage, spark)
        return
    if not dry_run:
        with shown():
            snapshot = open_table(path, spark, storage=storage).compact(full=full, where=where)
        print_change("compacted", "", snapshot, dry_run, output, buckets=None, files=None, rows=None)
        return
    planned = open_table(path, storage=storage).plan_compaction(full=full)
    files, rows = sum(bucket.files for bucket in planned), sum(bucket.rows for bucket in planned)
    would = (
        f"would compact {counted(files, 'file')} of {counted(len(planned), 'bucket')}, {counted(rows, 'row')}"
    )
    sentence = would if planned else "nothing to do"
    print_change("", sentence, None, dry_run, output, buckets=len(planned), files=files, rows=rows)


@app.command()
def rescale(
    path: TablePath,
    where: OfPartitions = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Give partitions as many buckets as the option says.

    Result: snapshot (null if all partitions have that many).
    """
    with shown():
        snapshot = open_table(path, spark, storage=storage).rescale(where=where)
    sentence = "nothing to do" if snapshot is None else f"rescaled, snapshot {snapshot}"
    print_outcome(sentence, {"snapshot": snapshot}, output)


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
    retain: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long expire-tags leaves it, such as '7 d'.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the tag, and files only it references.")
    ] = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Keep a snapshot under a name; remove or list names.

    Result: tag, snapshot (null for a removed tag), deleted.
    """
    _expect_name(name, delete, "--snapshot", snapshot)
    _expect_name(name, delete, "--retain", retain)
    table = open_table(path, storage=storage)
    if name is None:
        _print_named("tag", "snapshot", {tag: kept.id for tag, kept in table.tags().items()}, output)
        return
    if delete:
        table.delete_tag(name)
    else:
        table.create_tag(name, snapshot=snapshot, time_retained=retain)
        snapshot = table.tags()[name].id
    sentence = f"removed tag {name}" if delete else f"tag {name} keeps snapshot {snapshot}"
    print_outcome(sentence, {"tag": name, "snapshot": snapshot, "deleted": delete}, output)


@app.command()
def branch(
    path: TablePath,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the branch; without it the branches are listed."),
    ] = None,
    snapshot: Annotated[
        int | None, typer.Option(metavar="N", help="The snapshot it begins with; by default the latest.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="The tag it begins with.")] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Begin without rows.")] = False,
    fast_forward: Annotated[
        bool, typer.Option("--fast-forward", help="Let the table take over what the branch has committed.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the branch.")] = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Make a branch, take it over, remove it, or list them.

    Result: branch, snapshot (its latest, null if it has none or was removed), deleted. Of --fast-forward: branch,
    snapshots (the ids that are new in the table).
    """
    given = {"--snapshot": snapshot, "--tag": tag, "--empty": empty or None}
    wanted = [*(one for one, value in given.items() if value is not None)]
    wanted += [one for one, asked in (("--fast-forward", fast_forward), ("--delete", delete)) if asked]
    if wanted and name is None:
        raise InvalidRequestError(f"{wanted[0]}: expected a NAME, found none")
    if len(wanted) > 1:
        raise InvalidRequestError(f"branch {name}: expected one of {', '.join(wanted)}")
    table = open_table(path, storage=storage)
    if name is None:
        latest = {one: found.id if found else None for one, found in table.branches().items()}
        _print_named("branch", "snapshot", latest, output)
        return
    if fast_forward:
        done = table.fast_forward(name)
        sentence = f"took over {_range(done)} of branch {name}" if done else "nothing to do"
        print_outcome(sentence, {"branch": name, "snapshots": done}, output)
        return
    kept = None
    if delete:
        table.delete_branch(name)
    else:
        table.create_branch(name, tag=tag, snapshot=snapshot, empty=empty)
        kept = table.branch(name).catalog.snapshots.latest_id()
    begins = "is empty" if kept is None else f"begins with snapshot {kept}"
    sentence = f"removed branch {name}" if delete else f"branch {name} {begins}"
    print_outcome(sentence, {"branch": name, "snapshot": kept, "deleted": delete}, output)


@app.command()
def consumer(
    path: TablePath,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the consumer; without it the consumers are listed."),
    ] = None,
    next: Annotated[
        int | None, typer.Option("--next", metavar="N", help="The snapshot whose changes it reads next.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Forget the consumer.")] = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Keep what a reader has not read; forget or list it.

    Result: consumer, next_snapshot (null for a forgotten consumer), deleted.
    """
    _expect_name(name, delete, "--next", next)
    table = open_table(path, storage=storage)
    if name is None:
        _print_named("consumer", "next_snapshot", table.consumers(), output)
        return
    if delete:
        table.delete_consumer(name)
    elif next is not None:
        table.set_consumer(name, next_snapshot=next)
    else:
        raise InvalidRequestError(f"consumer {name}: expected --next N or --delete, found neither")
    sentence = f"removed consumer {name}" if delete else f"consumer {name} reads snapshot {next} next"
    print_outcome(sentence, {"consumer": name, "next_snapshot": next, "deleted": delete}, output)


def _expect_name(name: str | None, delete: bool, option: str, value: int | str | None) -> None:
    """Raise InvalidRequestError for options of a command on one name that do not go together."""
    if name is None and (delete or value is not None):
        raise InvalidRequestError(f"{'--delete' if delete else option}: expected a NAME, found none")
    if delete and value is not None:
        raise InvalidRequestError(f"--delete: expected a NAME alone, found {option} {value}")


def _print_named(what: str, number: str, found: Mapping[str, int | None], output: Format) -> None:
    import pyarrow as pa

    rows = [{what: name, number: id} for name, id in found.items()]
    schema = pa.schema([(what, pa.string()), (number, pa.int64())])
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
    sentence = _removed("expire", _range(expired) if expired else "", dry_run)
    print_outcome(sentence, {"snapshots": expired, "dry_run": dry_run}, output)


@app.command()
def expire_tags(
    path: TablePath,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="T", help="Also all tags made before this: ISO text or milliseconds."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Delete the tags whose time is over.

    Result: tags (the names), dry_run.
    """
    limit = moment("--older-than", older_than)
    expired = open_table(path, storage=storage).expire_tags(older_than=limit, dry_run=dry_run)
    sentence = _removed("delete", ", ".join(expired), dry_run)
    print_outcome(sentence, {"tags": expired, "dry_run": dry_run}, output)


@app.command()
def expire_partitions(
    path: TablePath,
    expiration_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="The age at which they go, such as '30 d', if not as the options say."
        ),
    ] = None,
    timestamp_pattern: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="The columns of the time, such as '$day $hour:00:00'."),
    ] = None,
    timestamp_formatter: Annotated[
        str | None,
        typer.Option(
            metavar="LETTERS", help="How the time is written, in letters of Java, such as yyyyMMdd."
        ),
    ] = None,
    max_expires: Annotated[
        int | None, typer.Option(metavar="N", help="The oldest N at most; 100 by default.")
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """Remove the partitions whose values say an old time.

    Result: partitions (of each its values as text, by column), dry_run.
    """
    gone = open_table(path, storage=storage).expire_partitions(
        expiration_time,
        timestamp_pattern=timestamp_pattern,
        timestamp_formatter=timestamp_formatter,
        max_expires=max_expires,
        dry_run=dry_run,
    )
    shown = ["/".join(f"{name}={value}" for name, value in one.items()) for one in gone]
    print_outcome(
        _removed("remove", ", ".join(shown), dry_run), {"partitions": gone, "dry_run": dry_run}, output
    )


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
    found = open_table(path, storage=storage).remove_orphans(older_than=limit, dry_run=dry_run)
    size = sum(orphan.size for orphan in found)
    what = f"{counted(len(found), 'file')}, {size:,} bytes" if found else ""
    sentence = _removed("delete", what, dry_run)
    print_outcome(sentence, {"files": len(found), "bytes": size, "dry_run": dry_run}, output)


@app.command(branches=False)
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
    open_table(path, storage=storage)  # the better error if there is no table
    raise InvalidRequestError(f"{path}: archive: for Hudi tables only; use `pktable expire`")


def _removed(verb: str, what: str, dry_run: bool) -> str:
    """Return the sentence that ``what`` was removed, or would be; "" for nothing."""
    if not what:
        return "nothing to do"
    return f"would {verb} {what}" if dry_run else f"{verb}d {what}"


def _range(ids: Sequence[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
