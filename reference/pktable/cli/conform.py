"""The command ``conform``: hold an implementation in any language against the clauses.

Its protocol spells a value as None or a string (`rows_of`), so that rows of all compare by ``==``. Integers are in
decimal, DATE as days and timestamps as nanoseconds since the epoch, TIME as milliseconds of the day, DECIMAL with all
digits of its scale, floats as the hexadecimal bits (every NaN as ``nan``), binaries in hexadecimal, strings as they
are. Arrays, maps and rows are JSON text: a list of the values in them, and of a map one of pairs, in the order of their
keys.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.types as pt
import typer
from pktable_conform import covering
from pktable_conform import report as reports
from pktable_conform.archive import Archive
from pktable_conform.report import Outcome
from pktable_conform.run import READER, WRITER, Asked, conform
from pktable_conform.runner import Runner
from pktable_spec.errors import PkTableError

from pktable.check.findings import ERROR
from pktable.cli.app import app
from pktable.cli.output import ReaderGoneError, printed
from pktable.cli.progress import printable, tell
from pktable.format.types import NANOS_PER
from pktable.table import Table


def rows_of(table: Any) -> list[list[str | None]]:
    """Return the rows of a pyarrow.Table as lists of plain values."""
    return [list(row) for row in zip(*(column_of(column) for column in table.columns), strict=True)]


def column_of(column: Any) -> list[str | None]:
    """Return an Arrow array as plain values."""
    kind = column.type
    if pt.is_nested(kind):
        return [
            value if value is None else _as_json(_taken_apart(value, kind)) for value in column.to_pylist()
        ]
    if pt.is_timestamp(kind):
        unit = NANOS_PER[kind.unit]
        return [
            value if value is None else str(value * unit) for value in column.cast(pa.int64()).to_pylist()
        ]
    if pt.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    if pt.is_time(kind):
        column = column.cast(pa.time32("ms")).cast(pa.int32())
    to_text = _to_text(kind)
    return [value if value is None else to_text(value) for value in column.to_pylist()]


def _as_json(parts: Any) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _taken_apart(value: Any, kind: Any) -> Any:
    """Return what Arrow makes of a value as a plain value, or a list of those in it."""
    if value is None or not pt.is_nested(kind):
        return column_of(pa.array([value], kind))[0]
    if pt.is_struct(kind):
        return [
            _taken_apart(value[kind.field(at).name], kind.field(at).type) for at in range(kind.num_fields)
        ]
    if pt.is_map(kind):
        pairs = [(_taken_apart(k, kind.key_type), _taken_apart(v, kind.item_type)) for k, v in value]
        return sorted(map(list, pairs), key=lambda pair: str(pair[0]))
    return [_taken_apart(one, kind.value_type) for one in value]


def _to_text(kind: Any) -> Callable[[Any], str]:
    if pt.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pt.is_float32(kind) or pt.is_float64(kind):
        code = ">f" if pt.is_float32(kind) else ">d"
        return lambda value: "nan" if value != value else struct.pack(code, value).hex()
    if pt.is_decimal(kind):
        return lambda value: format(value, "f")
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return lambda value: str(value.hex())
    return str


DEFAULT_KEEP: Final = Path("conform-failures")


class Mode(str, Enum):
    """The work that a runner is given."""

    READER = READER
    WRITER = WRITER
    BOTH = "both"


class Shown(str, Enum):
    """How the outcomes are printed."""

    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"


class OnDisk:
    """Reads what a runner has written, as `writing.Auditor` says."""

    def findings(self, directory: Path) -> Sequence[tuple[str, str]]:
        try:
            report = Table.open(directory).check()
        except PkTableError as error:
            return [("RD-11", str(error))]
        return [(one.clause, str(one)) for one in report.findings if one.severity == ERROR]

    def rows(self, directory: Path, snapshot: int) -> list[list[str | None]]:
        return rows_of(Table.open(directory).to_arrow(snapshot=snapshot))


@app.command("conform")
def conform_command(
    runner: Annotated[
        str, typer.Option("--runner", metavar="CMD", help="The command line that starts the runner.")
    ],
    mode: Annotated[
        Mode, typer.Option(help="Give it tables to read, histories to write, or both.")
    ] = Mode.READER,
    only: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Only this case; repeatable.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="NAME",
            help="Leave out this case or check; repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="How many seconds each answer may take.")
    ] = 60.0,
    keep: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the smallest case of each failure is written.")
    ] = DEFAULT_KEEP,
    fixtures: Annotated[
        Path | None,
        typer.Option(metavar="ZIP", help="Another archive of fixtures than the one that is shipped."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=covering.MOST,
            metavar="N",
            help="Let a writer take every step of the state graph after at most N operations, instead of after 2.",
        ),
    ] = None,
    output: Annotated[
        Shown, typer.Option("--format", help="Lines for people, JSON, or JUnit's XML.")
    ] = Shown.TABLE,
) -> None:
    """Judge an implementation in any language, whose runner answers JSON lines; exit 1 if it fails a case.

    docs/conform.md of the source repository says how a runner is written.
    """
    modes = (READER, WRITER) if mode is Mode.BOTH else (mode.value,)
    asked = Asked(modes, frozenset(only or ()), frozenset(without or ()), keep, OnDisk(), steps)
    archive, process = Archive(fixtures), Runner(runner, timeout=timeout)
    try:
        report = conform(process, archive, asked, _told if output is Shown.TABLE else _unseen)
    finally:
        process.end()
        archive.close()
    with suppress(ReaderGoneError):  # the exit code counts even if nobody reads
        if output is Shown.TABLE:
            printed([reports.summary(report)])
        else:
            printed([reports.as_json(report) if output is Shown.JSON else reports.as_junit(report)])
            tell(reports.summary(report))
    raise typer.Exit(1 if report.failed else 0)


def _told(outcome: Outcome) -> None:
    with suppress(ReaderGoneError):
        printed([printable(line) for line in reports.lines_of(outcome)])


def _unseen(outcome: Outcome) -> None:
    """Print nothing before the end."""
