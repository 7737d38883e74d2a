"""The command ``conform``: hold an implementation in any language against the clauses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import typer
from pktable_conform import covering
from pktable_conform import report as reports
from pktable_conform.archive import Archive
from pktable_conform.report import Outcome
from pktable_conform.run import READER, WRITER, Asked, conform
from pktable_conform.runner import Runner
from pktable_conform.writing import Wrong
from pktable_spec.errors import PkTableError

from pktable.check.findings import ERROR, NOTE
from pktable.cli.app import app
from pktable.cli.output import ReaderGoneError, printed
from pktable.cli.plain import rows_of
from pktable.cli.progress import printable, tell
from pktable.table import Table

DEFAULT_KEEP: Final = Path("conform-failures")

OWED: Final = frozenset({"DVF-13", "META-2", "META-7", "META-8", "META-10"})
"""The clauses on what a writer must write, of which a check only notes that it is not there."""


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

    def findings(self, directory: Path) -> Sequence[Wrong]:
        try:
            report = Table.open(directory).check()
        except PkTableError as error:
            return [Wrong("RD-11", str(error))]
        harms = {ERROR: True, NOTE: False}
        return [
            Wrong(one.clause, str(one), harms[one.severity])
            for one in report.findings
            if one.severity == ERROR or one.clause in OWED
        ]

    def rows(self, directory: Path, snapshot: int | None) -> list[list[str | None]]:
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
