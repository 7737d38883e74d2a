"""The commands that check something: ``check`` a table, ``verify`` the project, ``replay-git`` a repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import pyarrow as pa
import typer
from pktable_spec.clauses import requirements
from pktable_spec.errors import InvalidRequestError

import pktable
from pktable.check.findings import ERROR, NOTE, Finding
from pktable.check.walk import Report
from pktable.cli.app import (
    OnSpark,
    Quiet,
    StorageOptions,
    TablePath,
    app,
    external_roots,
    open_table,
    spark_session,
    storage_options,
)
from pktable.cli.output import Format, ReaderGoneError, print_rows
from pktable.cli.progress import Reporter, printable, tell
from pktable.replay import BATCHES, GitHistory, StoredStream, Summary, create_table, replay
from pktable.table import check as check_table
from pktable.watching import Progress


class Severity(str, Enum):
    """The severities of findings."""

    ERROR = ERROR
    NOTE = NOTE


FINDINGS = pa.schema(
    [
        ("severity", pa.string()),
        ("clause", pa.string()),
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("file", pa.string()),
        ("what", pa.string()),
        ("expected", pa.string()),
        ("found", pa.string()),
        ("snapshots", pa.list_(pa.int64())),
    ]
)


@app.command()
def check(
    path: TablePath,
    snapshot: Annotated[
        int | None, typer.Option(metavar="N", help="Check only this snapshot; by default all, and the tags.")
    ] = None,
    metadata_only: Annotated[
        bool, typer.Option("--metadata-only", help="Check metadata and vectors only; open no data file.")
    ] = False,
    severity: Annotated[
        Severity, typer.Option(help="Report errors and notes, or errors only.")
    ] = Severity.NOTE,
    repair: Annotated[
        bool, typer.Option("--repair", help="First repair what can be without a loss: strays and hints.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for notes, too.")] = False,
    output: Annotated[
        Format,
        typer.Option("--format", help="Lines for people, or rows for programs with the summary on stderr."),
    ] = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Report what breaks a rule in a table, written by pktable or by anyone; exit 1 if there is an error.

    Notes, such as files that nothing refers to, are reported and fail only with --strict. Each data file is read once.
    """
    if repair:
        for line in open_table(path, storage=storage).repair() or ["nothing to repair"]:
            tell(line)
    with progress_shown() as show:
        report = check_table(
            path,
            storage_options=storage_options(storage),
            spark=spark_session() if spark else None,
            snapshot=snapshot,
            reads_rows=not metadata_only,
            external_roots=external_roots(),
            progress=show,
        )
    end_with(report, severity, strict, output)


def progress_shown() -> AbstractContextManager[Progress]:
    """Return a context whose function shows on standard error how far a check is."""
    return Reporter() if sys.stderr.isatty() else nullcontext(_unseen)


def end_with(report: Report, severity: Severity, strict: bool, output: Format) -> NoReturn:
    """Print what a check has found, and end the command with the exit code that `check` promises."""
    findings = [one for one in report.findings if severity is Severity.NOTE or one.severity == ERROR]
    with suppress(BrokenPipeError, ReaderGoneError):  # the exit code counts even if nobody reads the findings
        if output is Format.TABLE:
            for line in _lines(findings):
                print(printable(line))
            print(report.summary(findings))
        else:
            rows = [asdict(finding) for finding in findings]
            print_rows(pa.Table.from_pylist(rows, schema=FINDINGS), output)
    if output is not Format.TABLE:
        tell(report.summary(findings))
    raise typer.Exit(1 if report.errors or (strict and findings) else 0)


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each finding, and below the first of each clause what this says."""
    seen = set()
    for finding in findings:
        yield str(finding)
        if finding.clause not in seen and finding.clause in requirements():
            yield f"    {finding.clause}: {requirements()[finding.clause]}"
        seen.add(finding.clause)


def _unseen(what: str, done: int, total: int) -> None:
    """Show no progress, where standard error is not a terminal."""


@app.command()
def verify(
    profile: Annotated[str, typer.Option(metavar="quick|deep", help="How much to check.")] = "quick",
) -> None:
    """Run the verification suite: TLC models, random and stored histories, mutants, real data.

    The suite is part of the source repository: this runs `make verify` there.
    """
    if profile not in ("quick", "deep"):
        raise InvalidRequestError(f"profile: expected quick or deep, found {profile!r}")
    from pktable.run.spark.session import require_java

    require_java()  # before anything has begun
    command = ["make", "--no-print-directory", "-C", str(_checkout()), "verify", f"PROFILE={profile}"]
    try:
        failed = subprocess.run(command, check=False).returncode
    except FileNotFoundError:
        raise InvalidRequestError("verify: make is not on PATH; install make") from None
    raise typer.Exit(1 if failed else 0)


def _checkout() -> Path:
    """Return the root of the source repository: where this package lies, or the current directory."""
    for root in (Path(pktable.__file__).parents[2], Path.cwd()):
        if (root / "Makefile").is_file() and (root / "spec" / "clauses").is_dir():
            return root
    raise InvalidRequestError(
        "verify: the verification suite is part of the source repository; run this command in a clone of it"
    )


@app.command("replay-git")
def replay_git(
    repository: Annotated[
        str | None, typer.Argument(metavar="REPOSITORY", help="A local git repository.")
    ] = None,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Where to create the table.")] = None,
    stream: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="A stored stream instead of a repository.")
    ] = None,
    batches: Annotated[
        int, typer.Option(min=1, metavar="N", help="About how many writes to make.")
    ] = BATCHES,
    spark: Annotated[bool, typer.Option("--spark/--local", help="Work on Spark, or in this process.")] = True,
) -> None:
    """Replay a repository's history into a new table, and check the table against git by time travel."""
    if stream is not None and table is None:
        repository, table = None, repository
    if not table or (repository is None) == (stream is None):
        raise InvalidRequestError("replay-git: give REPOSITORY TABLE, or --stream FILE.parquet TABLE")
    history = StoredStream(stream) if stream is not None else GitHistory(repository or ".")
    if history.shallow:
        tell("the repository is shallow: its history begins where the clone was cut")
    with Reporter() as show:
        target = create_table(table, spark=spark_session() if spark else None)
        summary = replay(history, target, batches=batches, progress=show)
    with suppress(BrokenPipeError):
        print(_result(summary))
    raise typer.Exit(1 if summary.mismatches else 0)


def _result(summary: Summary) -> str:
    """Return the result of a replay in a line, and in a second one the first mismatch, if there is one."""
    text = (
        f"{summary.commits} commits, {summary.changes} changes; {summary.snapshots_compared} snapshots "
        f"compared, {summary.rows_compared} rows read, {summary.rows} at the end; "
        f"{summary.mismatches} mismatches"
    )
    return text if summary.first is None else f"{text}\nfirst mismatch: {summary.first}"
