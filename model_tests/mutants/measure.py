"""Measure mutants: the number of steps that drawn histories take to kill each, the smallest kill, and Spark.

1. Each seed draws histories until a check fails or its budget is spent; its steps are all operations done until then.
   The same seeds draw for every mutant and for the clean build, which must get through all of its budget.
2. The shortest killing history of a mutant is made small (`shrunk`).
3. It is replayed on the local runner and, where the mutant has a form there, on Spark.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final

from pktable.watching import Progress
from pktable_conform.judge.history import History
from pktable_conform.judge.read_expectations import Stats
from pktable_spec.interface import OpenTable

from model_tests.backends.tables import local_backend, spark_backend
from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay
from model_tests.mutants import MUTANTS
from model_tests.mutants.registry import Kill, Mutant
from model_tests.mutants.shrink import shrunk

SEEDS: Final = 20
HISTORIES: Final = 40  # that a seed draws before it gives up
STEPS: Final = 14  # of a history, after its first layers
DRAWN: Final = Profile("mutants", HISTORIES, STEPS, reread_limit=1, refines=False, orders=True, shrinks=False)
STORED: Final = Profile("mutants", histories=1, steps=1, reread_limit=2, refines=False)
MEMORY: Final = "/dev/shm"


@dataclass(frozen=True)
class Run:
    """The result of one seed. ``steps``: to the kill, or all that were done. ``mutant``: None is the clean build."""

    mutant: str | None
    seed: int
    steps: int
    kill: Kill | None = None
    history: str | None = None


@dataclass
class Score:
    """The results of one mutant. ``local``, ``spark``: how its history ended there, None if it was not replayed."""

    mutant: Mutant
    runs: list[Run] = field(default_factory=list)
    history: History | None = None
    local: Kill | None = None
    spark: Kill | None = None

    @property
    def kills(self) -> list[Run]:
        return [run for run in self.runs if run.kill is not None and run.kill.meant]

    @property
    def median_steps(self) -> float | None:
        """The median over all seeds, None if half of them or more did not kill it."""
        steps = sorted(
            [run.steps for run in self.kills] + [float("inf")] * (len(self.runs) - len(self.kills))
        )
        middle = median(steps) if steps else float("inf")
        return None if middle == float("inf") else middle

    @property
    def problem(self) -> str | None:
        """Why the mutant does not measure the harness, None if it does."""
        wrong = next((run for run in self.runs if run.kill is not None and not run.kill.meant), None)
        if wrong is not None and wrong.kill is not None:
            return f"seed {wrong.seed} ended by accident: {wrong.kill.message}"
        if self.runs and self.median_steps is None:
            return f"survived {len(self.runs) - len(self.kills)} of {len(self.runs)} seeds"
        for where, kill in (("here", self.local), ("on Spark", self.spark)):
            if kill is not None and not kill.meant:
                return f"its history, {where}: {kill.message}"
        return None


def run_seed(mutant: str | None, seed: int) -> Run:
    """Draw histories with a mutant, or none, until a check fails or the budget is spent."""
    if os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK):
        tempfile.tempdir = MEMORY  # tables of a few kilobytes, by the thousand
    if mutant is None:
        report = run_histories("local", replace(DRAWN, seed=seed))
        kill = None if report.message is None else Kill(report.check, report.message, meant=False)
    else:
        fault = MUTANTS[mutant]
        with fault.inject():
            report = run_histories("local", replace(DRAWN, seed=seed, twin=fault.twin, engines=fault.engines))
        kill = None if report.message is None else fault.judge(report.check, report.message)
    steps = report.steps_to_mismatch or report.stats.steps
    return Run(mutant, seed, steps, kill, report.falsifying_history)


def replayed(history: History, open_table: OpenTable, mutant: Mutant) -> Kill | None:
    """Replay a history with a mutant; None if nothing noticed it."""
    stats = Stats()
    with mutant.inject():
        try:
            replay(history, open_table, replace(STORED, twin=mutant.twin), stats)
        except Exception as failure:  # judged by its check and message
            return replace(mutant.kill(failure), step=stats.steps + 1)  # those before it are done
    return None


def small_kill(mutant: Mutant, runs: Sequence[Run]) -> History | None:
    """Return the shortest history that killed a mutant, made small."""
    found = [History.from_json(json.loads(run.history)) for run in runs if run.history is not None]
    if not found:
        return None
    shortest = min(found, key=lambda history: len(history.operations))
    with local_backend() as open_table:

        def kills(history: History) -> bool:
            kill = replayed(history, open_table, mutant)
            return kill is not None and kill.meant

        return shrunk(shortest, kills)


def shrunk_kill(mutant: str, runs: Sequence[Run]) -> History | None:
    """`small_kill`, for a worker process."""
    return small_kill(MUTANTS[mutant], runs)


def measure(
    mutants: Sequence[Mutant], seeds: int, workers: int, progress: Progress
) -> tuple[list[Run], list[Score]]:
    """Run every mutant and the clean build with every seed; return the clean runs and the scores."""
    clean: list[Run] = []
    scores = {mutant.id: Score(mutant) for mutant in mutants}
    names: list[str | None] = [*scores, None]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {name: [pool.submit(run_seed, name, seed) for seed in range(seeds)] for name in names}
        shrinking = {}
        for name in names:
            for done, run in enumerate(waiting[name], 1):
                (clean if name is None else scores[name].runs).append(run.result())
                progress(f"{name or 'clean'}", done, seeds)
            if name is not None:
                shrinking[name] = pool.submit(shrunk_kill, name, scores[name].kills)
        for name, history in shrinking.items():
            scores[name].history = history.result()
    return clean, list(scores.values())


def replay_all(scores: Sequence[Score], progress: Progress, *, spark: bool) -> None:
    """Replay the history of each mutant here and, where it lives there, on Spark."""
    backends = [("local", local_backend)] + ([("spark", spark_backend)] if spark else [])
    for name, backend in backends:
        with backend() as open_table:
            for done, score in enumerate(scores, 1):
                if score.history is not None and (name == "local" or score.mutant.local_only is None):
                    survived = Kill(None, "nothing noticed it", meant=False)
                    found = replayed(score.history, open_table, score.mutant) or survived
                    setattr(score, name, found)
                progress(f"replayed, {name}", done, len(scores))


def stored_path(mutant: Mutant) -> Path:
    """Return where a mutant's history is stored."""
    return Path(__file__).parent / "stored" / f"{mutant.id}.json"


def stored_history(mutant: Mutant) -> History:
    """Return the stored history that kills a mutant."""
    return History.from_json(json.loads(stored_path(mutant).read_text("utf-8")))


def store(score: Score) -> None:
    """Store a mutant's small history, in the form of a corpus file."""
    assert score.history is not None, "a mutant that was killed has a history"
    why, of = json.dumps(score.mutant.title), json.dumps([score.mutant.id, *score.mutant.bugs])
    body = score.history.to_json().removeprefix("{")
    path = stored_path(score.mutant)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"why": {why},\n "of": {of},\n {body}', "utf-8")
