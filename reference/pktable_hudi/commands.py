"""The commands of `pktable` for tables of Apache Hudi. `pktable.cli` calls `run` where a table is one.

A command has the name, the options and the sentences that it has for other tables. Where these name a snapshot, an
instant stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from pktable.cli.app import external_roots, names, option_of, spark_session, storage_options
from pktable.cli.output import Format, counted, print_change, print_outcome, print_rows
from pktable_spec.errors import InvalidRequestError

from pktable_hudi.table import HudiTable
from pktable_hudi.writable import users

if TYPE_CHECKING:
    from pathlib import Path

    from pktable.cli.checks import Severity
    from pktable.cli.commands import InputFormat

_print_change = partial(print_change, commit_name="instant")
Storage = Sequence[str]

HINTS: Final = {
    "changes": "read it as of two instants",
    "expire": "use `pktable clean --retain-commits N`",
    "tag": "Hudi's savepoints are not implemented",
    "update": "read the rows, change them, and use `pktable write`",
    "--row-kind": "use `pktable write` for the rows that stay, and `pktable delete --where` for the others",
    "--full": "a compaction takes all log files anyway",
    "--follow": "each compaction ends the writes that are running; use `pktable compact` between them",
    "--interval": "it belongs to --follow",
}
"""The remedy for a command or an option that a Hudi table does not have."""

UNUSED: Final = {"hudi", "quiet"}
"""Parameters that have had their effect before a command runs."""


def run(command: str, given: Mapping[str, Any]) -> None:
    """Run a command. ``given``: the path, and the options that the user gave, by their parameters.

    Raises InvalidRequestError for a command or an option that a Hudi table does not have.
    """
    if command not in COMMANDS:
        raise InvalidRequestError(_refused(f"{given['path']}: {command}", HINTS.get(command)))
    asked = {name: value for name, value in given.items() if name not in UNUSED}
    others = [option_of(name) for name in asked if name not in signature(COMMANDS[command]).parameters]
    if others:
        raise InvalidRequestError(_refused(", ".join(others), HINTS.get(others[0])))
    COMMANDS[command](**asked)


def _refused(what: str, hint: str | None) -> str:
    return f"{what}: not for a Hudi table" + (f"; {hint}" if hint else "")


def _opened(path: str, storage: Storage, spark: bool = False) -> HudiTable:
    return HudiTable.open(
        path,
        spark=spark_session() if spark else None,
        storage_options=storage_options(storage),
        external_roots=external_roots(),
    )


def create(
    path: str,
    columns: str,
    primary_key: str = "",
    partition_by: str = "",
    ordering: str | None = None,
    storage: Storage = (),
    output: Format = Format.TABLE,
) -> None:
    """Create an empty table."""
    if not names(primary_key):
        raise InvalidRequestError("--primary-key: a Hudi table needs a key, found none")
    table = HudiTable.create(
        path,
        columns,
        key=names(primary_key),
        partition_by=names(partition_by),
        ordering=ordering,
        storage_options=storage_options(storage),
    )
    print_outcome(f"created {path}", {"table": table.path}, output)


# Looking at a table


def describe(path: str, storage: Storage = (), output: Format = Format.TABLE) -> None:
    """List the columns and keys."""
    from pktable.cli.queries import print_parts

    table = _opened(path, storage)
    print_parts(table.fields, table.settings.key_fields, table.settings.partition_fields, [], output)


def read(
    path: str,
    where: str | None = None,
    columns: str | None = None,
    instant: str | None = None,
    read_optimized: bool = False,
    limit: int | None = None,
    storage: Storage = (),
    spark: bool = False,
    output: Format = Format.TABLE,
) -> None:
    """Print the rows as of an instant."""
    found = _opened(path, storage, spark).to_arrow(
        instant=instant,
        read_optimized=read_optimized,
        where=where,
        columns=None if columns is None else names(columns),
        limit=limit,
    )
    print_rows(found, output)


def count(
    path: str,
    where: str | None = None,
    instant: str | None = None,
    read_optimized: bool = False,
    storage: Storage = (),
    spark: bool = False,
    output: Format = Format.TABLE,
) -> None:
    """Print the number of rows as of an instant."""
    table = _opened(path, storage, spark)
    rows = table.count(instant=instant, read_optimized=read_optimized, where=where)
    print_outcome(str(rows), {"rows": rows}, output)


def files(
    path: str, instant: str | None = None, storage: Storage = (), output: Format = Format.TABLE
) -> None:
    """List the base files and log files as of an instant."""
    print_rows(_opened(path, storage).files(instant), output)


def history(path: str, storage: Storage = (), output: Format = Format.TABLE) -> None:
    """List the completed writes."""
    print_rows(_opened(path, storage).history(), output)


def check(
    path: str,
    metadata_only: bool = False,
    severity: Severity | None = None,
    strict: bool = False,
    storage: Storage = (),
    output: Format = Format.TABLE,
) -> None:
    """Report every violated rule."""
    from pktable.cli.checks import Severity, end_with, progress_shown

    with progress_shown() as show:
        report = _opened(path, storage).check(reads_rows=not metadata_only, progress=show)
    end_with(report, severity or Severity.NOTE, strict, output)


# Changing its rows


def write(
    path: str,
    file: Path,
    input_format: InputFormat | None = None,
    dry_run: bool = False,
    storage: Storage = (),
    spark: bool = False,
    output: Format = Format.TABLE,
) -> None:
    """Upsert the rows of a file. The table and the file are looked at before Spark starts."""
    from pktable.cli.files import read_rows

    table = _opened(path, storage)
    rows = read_rows(file, users(table.fields), None, input_format and input_format.value)
    instant = None
    if dry_run:
        table.writer().expect_acceptable(rows)
    else:
        instant = (_opened(path, storage, spark) if spark else table).upsert(rows)
    done = counted(rows.num_rows, "row")
    _print_change(f"{done} written", f"would write {done}", instant, dry_run, output, rows=rows.num_rows)


def delete(
    path: str,
    where: str,
    dry_run: bool = False,
    storage: Storage = (),
    spark: bool = False,
    output: Format = Format.TABLE,
) -> None:
    """Delete rows matching a condition."""
    table = _opened(path, storage, spark)
    if dry_run:
        instant, count = None, table.count(where=where)
    else:
        instant = table.delete(where=where)
        count = _deleted_count(table, instant)
    done = counted(count, "row")
    _print_change(f"{done} deleted", f"would delete {done}", instant, dry_run, output, rows=count)


def _deleted_count(table: HudiTable, instant: str | None) -> int:
    timeline = table.timeline()
    return sum(timeline.metadata(one).deleted_count for one in timeline.completed if one.time == instant)


# Looking after it


def compact(
    path: str,
    dry_run: bool = False,
    storage: Storage = (),
    spark: bool = False,
    output: Format = Format.TABLE,
) -> None:
    """Plan a compaction of all file groups with log files, and execute every planned one."""
    table = _opened(path, storage, spark)
    instants: list[str] = []
    groups = files = None
    if dry_run:
        chosen = table.writer().compactor().chosen()
        groups, files = len(chosen), sum(len(one.logs) for one in chosen)
        would = f"would compact {counted(files, 'log file')} of {counted(groups, 'file group')}"
        sentence = would if groups else "nothing to do"
    else:
        instants = table.compact()
        sentence = f"compacted, {_named(instants)}" if instants else "nothing to do"
    fields = {"groups": groups, "files": files, "instants": instants, "dry_run": dry_run}
    print_outcome(sentence, fields, output)


def clean(
    path: str,
    retain_commits: int | None = None,
    retain_versions: int | None = None,
    dry_run: bool = False,
    storage: Storage = (),
    output: Format = Format.TABLE,
) -> None:
    """Delete the files of old file slices."""
    table, instant = _opened(path, storage), None
    retention = {"retain_commits": retain_commits, "retain_versions": retain_versions}
    if dry_run:
        planned = table.plan_clean(**retention)
    else:
        instant = table.clean(**retention)
        planned = {} if instant is None else table.writer().cleaner().planned(instant)
    files = sum(map(len, planned.values()))
    done = counted(files, "file")
    would = f"would delete {done}" if files else "nothing to do"
    _print_change(f"deleted {done}", would, instant, dry_run, output, files=files)


def rollback(path: str, storage: Storage = (), output: Format = Format.TABLE) -> None:
    """Roll back the writes of processes that died."""
    gone = _opened(path, storage).rollback()
    sentence = f"rolled back {_named(gone)}" if gone else "nothing to do"
    print_outcome(sentence, {"instants": gone}, output)


def archive(path: str, retain_writes: int = 20, storage: Storage = (), output: Format = Format.TABLE) -> None:
    """Move old actions from the timeline into the history."""
    moved = _opened(path, storage).archive(retain_writes=retain_writes)
    sentence = f"archived {counted(moved, 'action')}" if moved else "nothing to do"
    print_outcome(sentence, {"actions": moved}, output)


def _named(instants: Sequence[str]) -> str:
    return f"instant{'s' if len(instants) > 1 else ''} {', '.join(instants)}"


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    one.__name__: one
    for one in (
        *(create, describe, read, count, files, history, check),
        *(write, delete, compact, clean, rollback, archive),
    )
}
