"""The commands that check: ``verify`` the project, ``replay-git`` a repository."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pktable_spec.errors import InvalidRequestError

import pktable
from pktable.cli.commands import app, spark_session
from pktable.cli.progress import Reporter
from pktable.git_history import GitHistory
from pktable.replay import BATCHES, StoredStream, Summary, create_table, replay


@app.command()
def verify(
    profile: Annotated[str, typer.Option(metavar="quick|deep", help="How much to check.")] = "quick",
) -> None:
    """Check every promise: drawn histories, stored histories, and real input, on Spark."""
    if profile not in ("quick", "deep"):
        raise InvalidRequestError(f"profile: expected quick or deep, found {profile!r}")
    from pktable.spark.session import require_java

    require_java()  # before anything has begun
    raise typer.Exit(_checks().main(profile))


def _checks() -> Any:
    """Return the module of checks, which lies in a checkout of the repository and not in the package."""
    for root in (Path(pktable.__file__).parents[2], Path.cwd()):
        if (root / "model_tests" / "verify_all.py").is_file():
            sys.path.insert(0, str(root))
            try:
                return importlib.import_module("model_tests.verify_all")
            except ModuleNotFoundError as error:
                raise InvalidRequestError(f"verify: {error.name} is not installed; run make verify") from None
    raise InvalidRequestError("verify: expected a checkout of the repository here, found no model_tests/")


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
    if table is None or (repository is None) == (stream is None):
        raise InvalidRequestError("replay-git: expected REPOSITORY TABLE, or --stream FILE.parquet TABLE")
    history = StoredStream(stream) if stream is not None else GitHistory(repository or ".")
    if history.shallow:
        print("the repository is shallow: its history begins where the clone was cut", file=sys.stderr)
    with Reporter() as show:
        target = create_table(table, spark=spark_session() if spark else None)
        summary = replay(history, target, batches=batches, progress=show)
    print(told(summary))
    raise typer.Exit(1 if summary.mismatches else 0)


def told(summary: Summary) -> str:
    """Return a summary in one paragraph."""
    text = (
        f"{summary.commits} commits, {summary.changes} changes; {summary.snapshots_compared} snapshots "
        f"compared, {summary.rows_compared} rows read, {summary.rows} at the end; "
        f"{summary.mismatches} mismatches"
    )
    return text if summary.first is None else f"{text}\nfirst mismatch: {summary.first}"
