"""``python -m model_tests.mutants``: put in every mutant and measure how soon the harness kills it.

The exit code is 0 if every mutant died by the check meant for it and the clean build stayed green over the same seeds
and budget, 1 otherwise, 2 if the caller named an unknown mutant.

``python -m model_tests.mutants --random N [--seed S]`` draws N small changes of the source instead (`random_run`), and
prints the score of histories, that of histories and tests, and the survivors. The exit code is 0 if all could be
judged, 1 if the clean build fails or a recorded equivalent is stale. ``--only 17`` judges the 17th of the N alone,
``--no-oracle`` those of the kernel and the catalog.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pktable.cli.progress import Reporter
from rich.console import Console
from rich.table import Table

from model_tests.mutants import MUTANTS, random_report, random_run
from model_tests.mutants.measure import HISTORIES, SEEDS, STEPS, Run, Score, measure, replay_all, store

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "mutants.md"
WIDTH = 150


def main(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds draw histories for each mutant.")] = SEEDS,
    only: Annotated[list[str] | None, typer.Option(help="A mutant by id, may be given again.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that draw side by side.")] = 2,
    spark: Annotated[bool, typer.Option(help="Replay one killing history of each on Spark.")] = True,
    write: Annotated[
        bool, typer.Option(help=f"Write the table to {RESULTS.name}, if all was measured.")
    ] = True,
    keep: Annotated[bool, typer.Option(help="Store the small killing histories.")] = False,
    random: Annotated[int, typer.Option(min=0, help="Draw so many small changes of the source instead.")] = 0,
    seed: Annotated[int, typer.Option(help="The seed that draws them.")] = random_run.SEED,
    area: Annotated[list[str] | None, typer.Option(help="An area they are drawn from, default all.")] = None,
    oracle: Annotated[bool, typer.Option(help="Draw from the oracle, too, if no area is named.")] = True,
    tests: Annotated[bool, typer.Option(help="Ask the tests, too, where histories find nothing.")] = True,
    more: Annotated[bool, typer.Option(help="Draw more histories, too, where those find nothing.")] = True,
) -> None:
    """Measure the harness: put in each bug, draw histories until a check finds it, shrink, replay on Spark."""
    if random:
        areas = area or ([] if oracle else [one.name for one in random_run.AREAS if one.name != "oracle"])
        raise typer.Exit(
            judge_random(random, seed, areas, only or [], workers, tests=tests, more=more, write=write)
        )
    unknown = [name for name in only or () if name not in MUTANTS]
    if unknown:
        print(f"expected some of {', '.join(MUTANTS)}, found {', '.join(unknown)}", file=sys.stderr)
        raise typer.Exit(2)
    chosen = [MUTANTS[name] for name in only or MUTANTS]
    started = time.monotonic()
    with Reporter() as show:
        clean, scores = measure(chosen, seeds, workers, show)
        replay_all(scores, show, spark=spark)
    seconds = time.monotonic() - started
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table(scores))
    for score in scores:
        if score.history is not None:
            console.print(f"{score.mutant.id}: {score.mutant.title}\n{score.history.to_json()}", markup=False)
    if keep:
        for score in scores:
            if score.history is not None:
                store(score)
    if write and not only:
        RESULTS.write_text(report(scores, clean, seconds), "utf-8")
    problems = [f"{score.mutant.id}: {problem}" for score in scores if (problem := score.problem)]
    problems += [
        f"clean build, seed {run.seed}: {run.kill.message}\n{run.history}" for run in clean if run.kill
    ]
    print(f"clean build: {sum(run.steps for run in clean):,} steps over {len(clean)} seeds, {seconds:.0f} s")
    print("\n".join(f"FAILED {one}" for one in problems) or f"all {len(scores)} mutants were killed")
    raise typer.Exit(1 if problems else 0)


def judge_random(
    number: int,
    seed: int,
    areas: Sequence[str],
    only: Sequence[str],
    workers: int,
    *,
    tests: bool,
    more: bool,
    write: bool,
) -> int:
    """Judge mutations drawn by ``seed``, print their scores and survivors, and return the exit code."""
    known = [one.name for one in random_run.AREAS]
    if not set(areas) <= set(known) or not all(one.isdecimal() and 0 < int(one) <= number for one in only):
        print(f"expected areas among {', '.join(known)} and numbers from 1 to {number}", file=sys.stderr)
        return 2
    started = time.monotonic()
    chosen = [one for one in random_run.AREAS if not areas or one.name in areas]
    verdicts, commit = [], _commit()
    try:
        tasks = random_run.draw(number, seed, tuple(chosen))
        if only:
            tasks = [tasks[int(one) - 1] for one in only]
        for verdict in random_run.judged(tasks, workers, with_tests=tests, with_more=more):
            verdicts.append(verdict)
            print(
                f"{len(verdicts)}/{len(tasks)} {random_report.named(verdict)}: {random_report.ended(verdict)}"
                f" ({random_report.so_far(verdicts)})",
                flush=True,
            )
            if write and tests and more and not only:  # whatever comes of the rest
                seconds = time.monotonic() - started
                text = random_report.page(
                    verdicts, number=number, seed=seed, areas=areas, commit=commit, seconds=seconds
                )
                random_report.RESULTS.write_text(text, "utf-8")
    except (random_run.CleanBuildError, random_run.StaleEquivalentsError) as error:
        print(error, file=sys.stderr)
        return 1
    for line in (random_report.HEADS, *random_report.lines(verdicts)):
        print(" | ".join(line))
    return 0


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def lines(scores: Iterable[Score]) -> list[tuple[str, ...]]:
    """Return a line of the table for each mutant."""
    return [
        (
            score.mutant.id,
            score.mutant.title,
            ", ".join(sorted({str(run.kill.check) for run in score.kills if run.kill})) or "nothing",
            "survived" if score.median_steps is None else f"{score.median_steps:g}",
            f"{len(score.kills)} of {len(score.runs)}",
            str(len(score.history.operations)) if score.history else "",
            on_spark(score),
        )
        for score in scores
    ]


HEADS = ("id", "fault", "killed by", "steps, median", "seeds", "shrunk to", "on Spark")


def on_spark(score: Score) -> str:
    """Return the result of a mutant on Spark, in words."""
    if score.mutant.local_only is not None:
        return "not there"
    if score.spark is None:
        return "not replayed"
    return f"killed, {score.mutant.spark}" if score.spark.meant else "survived"


def table(scores: Sequence[Score]) -> Table:
    """Return the scores as a table for a terminal."""
    shown = Table(title="Mutants")
    for head in HEADS:
        shown.add_column(head, justify="right" if head in ("steps, median", "shrunk to") else "left")
    for line in lines(scores):
        shown.add_row(*line)
    return shown


def report(scores: Sequence[Score], clean: Sequence[Run], seconds: float) -> str:
    """Return the page of results."""
    python = f"Python {platform.python_version()}"
    rows = ["| " + " | ".join(line) + " |" for line in (HEADS, ("---",) * len(HEADS), *lines(scores))]
    bugs = [
        f"* {score.mutant.id}: breaks {', '.join(score.mutant.clauses)}"
        + (f"; seen as {', '.join(f'<{link}>' for link in score.mutant.links)}" if score.mutant.bugs else "")
        + (f"; not on Spark: {score.mutant.local_only}" if score.mutant.local_only else "")
        for score in scores
    ]
    seeds = len(clean)
    return "\n".join(
        [
            "# Mutants",
            "",
            f"Made by `make mutants` in {seconds:.0f} s, {os.cpu_count()} cores, {python}. Each fault is put into the",
            f"reference alone; {seeds} seeds draw up to {HISTORIES} histories of up to {STEPS} steps on the local",
            "runner until a check fails. Steps are all operations until then, over all histories of the seed; a seed",
            "that spends its budget counts as more than any. The shortest killing history is shrunk, its operations",
            "counted, and it is replayed on Spark.",
            "",
            *rows,
            "",
            f"The clean build did {sum(run.steps for run in clean):,} steps with the same seeds and budget; "
            f"{sum(run.kill is not None for run in clean)} of {seeds} seeds found something.",
            "",
            "## What each stands for",
            "",
            *bugs,
            "",
        ]
    )


if __name__ == "__main__":
    typer.run(main)
