"""The commands that change a table, for tables of Apache Hudi.

The options and the sentences are those of other tables. Where these name a snapshot, an instant stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pktable_spec.errors import InvalidRequestError

from pktable.cli.output import Format, counted, print_change, print_outcome

if TYPE_CHECKING:
    import pyarrow as pa

    from pktable.format.types import Field
    from pktable.hudi.table import HudiTable

_print_change = partial(print_change, commit_name="instant")
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


def refused(command: str, path: str) -> InvalidRequestError:
    """Return the error of a command that a Hudi table does not have."""
    hint = HINTS.get(command)
    return InvalidRequestError(f"{path}: {command}: not for a Hudi table" + (f"; {hint}" if hint else ""))


def refuse_options(**options: object) -> None:
    """Raise InvalidRequestError if any of ``options``, which a Hudi table does not have, is given."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value not in (None, False):
            raise InvalidRequestError(f"{option}: not for a Hudi table; {HINTS[option]}")


def create(
    path: str,
    columns: str,
    key: Sequence[str],
    partition_by: Sequence[str],
    ordering: str | None,
    storage: dict[str, str],
) -> str:
    """Create a table, and return its path. Raises InvalidRequestError."""
    from pktable.hudi.table import HudiTable

    if not key:
        raise InvalidRequestError("--primary-key: a Hudi table needs a key, found none")
    table = HudiTable.create(
        path, columns, key=key, partition_by=partition_by, ordering=ordering, storage_options=storage
    )
    return table.path


def write(
    table: HudiTable,
    rows_of: Callable[[Sequence[Field]], pa.Table],
    writing: Callable[[], HudiTable | None],
    dry_run: bool,
    output: Format,
) -> None:
    """Upsert rows. ``rows_of``: reads those of some columns; ``writing``: opens the table, which may start Spark."""
    from pktable.hudi.writable import users

    rows = rows_of(users(table.fields))
    instant = None
    if dry_run:
        table.writer().expect_acceptable(rows)
    else:
        instant = (writing() or table).upsert(rows)
    done = counted(rows.num_rows, "row")
    _print_change(f"{done} written", f"would write {done}", instant, dry_run, output, rows=rows.num_rows)


def delete(table: HudiTable, where: str, dry_run: bool, output: Format) -> None:
    """Delete rows matching a condition."""
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


def compact(table: HudiTable, dry_run: bool, output: Format) -> None:
    """Plan a compaction of all file groups with log files, and execute every planned one."""
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


def clean(table: HudiTable, retention: dict[str, int | None], dry_run: bool, output: Format) -> None:
    """Delete the files of old file slices. ``retention``: the options of `HudiTable.clean`."""
    instant = None
    if dry_run:
        planned = table.plan_clean(**retention)
    else:
        instant = table.clean(**retention)
        planned = {} if instant is None else table.writer().cleaner().planned(instant)
    files = sum(map(len, planned.values()))
    done = counted(files, "file")
    would = f"would delete {done}" if files else "nothing to do"
    _print_change(f"deleted {done}", would, instant, dry_run, output, files=files)


def roll_back(table: HudiTable, output: Format) -> None:
    """Roll back the writes of processes that died."""
    gone = table.rollback()
    sentence = f"rolled back {_named(gone)}" if gone else "nothing to do"
    print_outcome(sentence, {"instants": gone}, output)


def archive(table: HudiTable, retain_writes: int, output: Format) -> None:
    """Move old actions from the timeline into the history."""
    count = table.archive(retain_writes=retain_writes)
    print_outcome(
        f"archived {counted(count, 'action')}" if count else "nothing to do", {"actions": count}, output
    )


def _named(instants: Sequence[str]) -> str:
    return f"instant{'s' if len(instants) > 1 else ''} {', '.join(instants)}"
