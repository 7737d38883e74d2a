"""The page of results of random mutation testing: scores by area, and the survivors by name."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from model_tests.mutants.random_run import AREAS, HISTORIES, MORE, STEPS, Verdict
from model_tests.mutants.trial import LIMIT, SEEDS_TO_ONE

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results" / "random_mutants.md"
HEADS: Final = (
    "area",
    "mutants",
    "equivalent",
    "killed by histories",
    "killed by histories and more of them",
    "killed by histories and tests",
    "survived",
)


def lines(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """Return a line of the table for each area, for the kernel with the catalog, and for all."""
    by_area = {area.name: [one for one in verdicts if one.area == area.name] for area in AREAS}
    product = [one for one in verdicts if one.area != "oracle"]
    groups = {**by_area, "all but the oracle": product, "all": list(verdicts)}
    return [_line(name, group) for name, group in groups.items() if group]


def _line(name: str, group: Sequence[Verdict]) -> tuple[str, ...]:
    counted = [one for one in group if one.equivalent is None]
    by_histories = sum(one.killed_by_histories for one in counted)
    by_more = sum(one.killed_by_more for one in counted)
    by_either = sum(one.killed for one in counted)
    return (
        name,
        str(len(group)),
        str(len(group) - len(counted)),
        _score(by_histories, len(counted)),
        _score(by_more, len(counted)),
        _score(by_either, len(counted)),
        str(len(counted) - by_either),
    )


def _score(killed: int, of: int) -> str:
    return f"{killed} of {of}, {100 * killed / of:.0f} %" if of else ""


def named(verdict: Verdict) -> str:
    """Return a mutation by its place, its operator, and its change."""
    mutation = verdict.mutation
    return f"`{mutation.module}:{mutation.line}` {mutation.operator}: `{mutation.change}`"


def ended(verdict: Verdict) -> str:
    """Return the end of a mutation in a line."""
    if verdict.equivalent is not None:
        return f"equivalent: {verdict.equivalent}"
    for trial, who in ((verdict.histories, ""), (verdict.more, f"of {MORE} more, "), (verdict.tests, "")):
        if trial is not None and trial.killed_by is not None:
            return (who + " ".join(trial.killed_by.split()))[:150]
    return "survived"


def so_far(verdicts: Sequence[Verdict]) -> str:
    """Return how many of the mutations judged so far are killed, of those that change something."""
    counted = [one for one in verdicts if one.equivalent is None]
    by_histories = sum(one.killed_by_histories for one in counted)
    by_more = sum(one.killed_by_more for one in counted)
    of_all = f"{sum(one.killed for one in counted)} in all, of {len(counted)}"
    return f"{by_histories} by histories, {by_more} with more of them, {of_all}"


def page(
    verdicts: Sequence[Verdict], *, number: int, seed: int, areas: Sequence[str], commit: str, seconds: float
) -> str:
    """Return the page of results. ``number``: the mutants drawn, the first of which were judged; see `sampled`."""
    command = f"python -m model_tests.mutants --random {number} --seed {seed}"
    command += "".join(f" --area {area!r}" for area in areas)
    done = "all" if len(verdicts) == number else f"the first {len(verdicts)} of {number}"
    verdicts = sorted(verdicts, key=lambda verdict: verdict.mutation)
    counted = [one for one in verdicts if one.equivalent is None]
    escaped = [one for one in counted if not one.killed_by_more and one.killed]
    late = [one for one in counted if not one.killed_by_histories and one.killed_by_more]
    hung = sum(LIMIT in ended(one) for one in counted)
    return "\n".join(
        [
            "# Random mutants",
            "",
            f"Made by `{command}`",
            f"at commit {commit}; {done} were judged, in {seconds:.0f} s on one of {os.cpu_count()} cores,",
            f"Python {platform.python_version()}. Each mutant is one small change of one line.",
            f"It runs against the stored histories and {HISTORIES} drawn ones of up to {STEPS} steps on the local",
            "runner (those of the oracle on the model, too), as many of append tables, schedules of merge engines and",
            f"of tables of every type, and {SEEDS_TO_ONE * HISTORIES} runs of the simulation in addition to those of",
            f"scripts. One that survives runs against {MORE} others of all that is drawn but the simulation: what",
            "these kill is counted apart. One that survives them runs against the fast tests of its area. A mutant is",
            f"killed by the first failure, or by its limit of time ({hung} of these).",
            "",
            *_table([HEADS, *lines(verdicts)]),
            "",
            "## Survivors of histories and tests",
            "",
            *(_bullets(named(one) for one in counted if not one.killed)),
            "",
            "## Survivors of histories that more of them kill",
            "",
            *(_bullets(f"{named(one)}, by {ended(one)}" for one in late)),
            "",
            "## Survivors of histories that a test kills",
            "",
            *(_bullets(f"{named(one)}, by {ended(one)}" for one in escaped)),
            "",
            "## Equivalent",
            "",
            *(_bullets(f"{named(one)}: {one.equivalent}" for one in verdicts if one.equivalent is not None)),
            "",
        ]
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = rows
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rest)]


def _bullets(texts: Iterable[str]) -> list[str]:
    return [f"* {text}" for text in texts] or ["None."]
