"""Everything that can be checked from a command: ``make verify``, also ``pktable verify``.

1. TLC checks the TLA+ models, the state graphs of the oracle, and traces of tables.
2. Drawn histories run on the oracle, on the local runner and on Spark; stored histories run on Spark.
3. The history of this checkout, and a larger stored stream if there is one, are replayed and compared by time travel.
4. Actors run over a simulated store in drawn orders, with faults; nothing may be lost, and TLC explains what they did.
5. Every mutant is injected while the history stored for it is replayed, which must fail.
6. The deep profile also fuzzes the decoders.

An absent input is reported and is no failure. At the end tables show how much was checked and compared. A history
that fails is printed, and kept as a file if ``PKTABLE_FAILURES`` names a directory.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pktable.cli.progress import Reporter
from pktable.replay.git_history import GitHistory
from pktable.replay.replay import History, StoredStream, Summary, create_table, replay
from pktable.run.spark.session import local_session
from pktable_spec.errors import InvalidRequestError
from rich.console import Console
from rich.table import Table as TextTable

from model_tests import corpus
from model_tests.backends.tables import local_backend, spark_backend
from model_tests.damage import fuzz
from model_tests.histories.failures import Failure, kept
from model_tests.histories.profiles import PROFILES, Profile
from model_tests.histories.read_expectations import Stats
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay as replay_history
from model_tests.mutants import MUTANTS
from model_tests.mutants.measure import replayed, stored_history
from model_tests.real_data import ROOT as SHARED
from model_tests.simulation.explore import BadRun, by_seed, shortest
from model_tests.simulation.steps import StoreTrace, traced_seed
from model_tests.tlc import suite
from model_tests.tlc.store_traces import accepts_stores
from model_tests.tlc.table_traces import traces_of

CHECKOUT: Final = Path(__file__).parents[2]
STREAM: Final = SHARED / "data" / "paimon-git-history.parquet"
PROFILE_NAMES: Final = ("quick", "deep")
WIDTH: Final = 110  # of the summary where there is no terminal to ask
TRACED: Final = {"local": (20, 40), "spark": (4, 25)}  # tables and steps of each that TLC is asked to explain
SEEDS: Final = {"quick": 300, "deep": 10_000}
TRACED_SEEDS: Final = {"quick": 50, "deep": 1_000}
"""How many of them TLC is asked to explain."""
CORPUS: Final = Profile("corpus", histories=1, steps=1, reread_limit=2)


@dataclass(frozen=True)
class Result:
    """One line of the summary. ``real_rows``: rows of real input that were read and compared."""

    what: str
    histories: int = 0
    steps: int = 0
    snapshots: int = 0
    reads: int = 0
    mismatches: int = 0
    real_rows: int = 0

    @property
    def problem(self) -> str | None:
        """The problem, None if there is none; a check that compared nothing has not passed."""
        if self.mismatches:
            return f"{self.mismatches} mismatches"
        return None if self.snapshots and self.reads else "compared nothing"


def main(profile: str) -> int:
    """Check everything as a profile says, and return the exit code: 0 fine, 1 a check failed."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    results: list[Result] = []
    with Reporter() as show:
        checked = checked_by_tlc(show)
        for backend in ("model", "local", "spark"):
            results.append(drawn_histories(backend, profile, show))
        results.append(stored_histories(show))
        for what, source in (("this repository", checkout_history), ("stored stream", stored_stream)):
            history = source(show)
            if history is not None:
                results.append(real_input(what, history, show))
        results.append(simulated(profile, show))
        killed, survived = mutants_killed(show)
        failed = decoders_fuzzed(show) if profile == "deep" else []
    console.print(tlc_summary(checked))
    console.print(summary(results))
    console.print(
        f"{killed} of {killed + len(survived)} mutants killed by the check meant for them", highlight=False
    )
    failed += [f"mutant {problem}" for problem in survived]
    failed += [f"{check.what}: {problem}" for check in checked for problem in check.problems]
    failed += [f"{result.what}: {problem}" for result in results if (problem := result.problem)]
    console.print("\n".join(f"FAILED {one}" for one in failed) or "all checks passed", highlight=False)
    return 1 if failed else 0


def checked_by_tlc(show: Reporter) -> list[suite.Result]:
    """Run every model, and hold the oracle's state graphs and the traces of every backend against TLC."""
    what = "TLC: models, graphs, traces"
    done = itertools.count(1)
    total = suite.step_count() + len(TRACED)

    def say(line: str) -> None:
        show(what, next(done), total)

    results = suite.run(say)
    for backend, (tables, steps) in TRACED.items():
        results.append(suite.accepted(f"traces of tables, {backend}", traces_of(backend, tables, steps), say))
    return results


def drawn_histories(backend: str, profile: str, show: Reporter) -> Result:
    """Run the histories of a profile on one backend."""
    chosen = PROFILES[backend, profile]
    seed = "a fresh seed" if chosen.seed is None else f"seed {chosen.seed}"
    show.say(f"{backend}: {chosen.histories} histories of up to {chosen.steps} steps, {seed}")
    what = f"histories on {backend}"
    report = run_histories(backend, chosen, lambda stats: show(what, stats.histories, chosen.histories))
    if report.mismatches:
        show.say(f"{what}: {report.message}")
    if report.failure is not None:
        show.say(kept(report.failure))
    return counted(what, report.stats, report.mismatches)


def stored_histories(show: Reporter) -> Result:
    """Replay every stored history on Spark."""
    what, stats, mismatches, names = "stored histories on spark", Stats(), 0, corpus.names()
    with spark_backend() as open_table:
        for done, name in enumerate(names, 1):
            history = corpus.load(name)
            try:
                replay_history(history, open_table, CORPUS, stats)
            except Exception as error:  # whatever a table raises is a mismatch
                mismatches += 1
                failure = Failure.of(history, "spark", error)
                show.say(f"{what}: {name}: {failure.message}")
                show.say(kept(failure))
            show(what, done, len(names))
    return counted(what, stats, mismatches)


def simulated(profile: str, show: Reporter) -> Result:
    """Run the simulation of a profile up to the first seed that goes wrong, and have TLC explain the first runs."""
    what, seeds, steps, snapshots, reads = "simulated stores", SEEDS[profile], 0, 0, 0
    traces: dict[int, StoreTrace] = {}
    for seed in range(seeds):
        found, trace = traced_seed(seed) if seed < TRACED_SEEDS[profile] else (by_seed(seed), None)
        if trace is not None:
            traces[seed] = trace
        if isinstance(found, BadRun):
            least = shortest(found)
            show.say(f"{what}: seed {seed}: {least.error}\n{least.as_code()}")
            return Result(what, seed, steps, snapshots, reads, 1)
        steps, snapshots, reads = steps + found.steps, snapshots + found.snapshots, reads + found.reads
        show(what, seed + 1, seeds)
    refused = 0
    for seed, verdict in zip(traces, accepts_stores(list(traces.values())), strict=True):
        if not verdict.accepted:
            refused += 1
            step = traces[seed].steps[verdict.explained]
            show.say(f"{what}: seed {seed}: step {verdict.explained + 1} is none of StoreOperations: {step}")
    return Result(what, seeds, steps, snapshots, reads, refused)


def counted(what: str, stats: Stats, mismatches: int) -> Result:
    return Result(what, stats.histories, stats.steps, stats.snapshots_compared, stats.reads, mismatches)


def checkout_history(show: Reporter) -> History | None:
    """Return the history of this checkout; None, said, where it has none."""
    try:
        history = GitHistory(CHECKOUT)
    except InvalidRequestError as error:
        show.say(f"this repository: skipped, {error}")
        return None
    if history.shallow:
        show.say("this repository: shallow, its history begins where the clone was cut")
    return history


def stored_stream(show: Reporter) -> History | None:
    """Return the stored stream; None, said, where it is absent."""
    if not STREAM.is_file():
        show.say(f"stored stream: skipped, expected {STREAM} (or set PKTABLE_SHARED), found none")
        return None
    return StoredStream(STREAM)


def real_input(what: str, history: History, show: Reporter) -> Result:
    """Replay real input on Spark into a table of its own, and compare by time travel."""
    with tempfile.TemporaryDirectory(prefix="pktable-verify-") as place:
        table = create_table(f"{place}/table", spark=local_session(cores="2"))
        found: Summary = replay(
            history, table, progress=lambda doing, done, total: show(f"{what}: {doing}", done, total)
        )
    if found.first is not None:
        show.say(f"{what}: {found.first}")
    return Result(
        f"replay of {what}",
        histories=1,
        steps=found.commits,
        snapshots=found.snapshots_compared,
        reads=2 * found.snapshots_compared,
        mismatches=found.mismatches,
        real_rows=found.rows_compared,
    )


def mutants_killed(show: Reporter) -> tuple[int, list[str]]:
    """Put in each mutant, replay the history that must kill it; return how many died, and what is wrong."""
    killed, wrong = 0, []
    with local_backend() as open_table:
        for done, mutant in enumerate(MUTANTS.values(), 1):
            kill = replayed(stored_history(mutant), open_table, mutant)
            if kill is not None and kill.meant:
                killed += 1
            else:
                wrong.append(f"{mutant.id}: {'survived' if kill is None else kill.message}")
            show("mutants", done, len(MUTANTS))
    return killed, wrong


def decoders_fuzzed(show: Reporter) -> list[str]:
    """Fuzz every decoder for a minute; return what is wrong."""
    show.say("decoders: fuzzed for a minute")
    return ["fuzzer: a decoder fails otherwise than it should"] if fuzz.main([]) else []


def tlc_summary(results: list[suite.Result]) -> TextTable:
    """Return what TLC checked as a table."""
    table = TextTable(title="What TLC checked")
    table.add_column("check")
    for heading in (*suite.HEADINGS, "problems"):
        table.add_column(heading, justify="right")
    for result in results:
        counts = [getattr(result, heading) for heading in suite.HEADINGS]
        table.add_row(
            result.what, *(f"{count:,}" if count else "" for count in counts), str(len(result.problems))
        )
    return table


def summary(results: list[Result]) -> TextTable:
    """Return the results as a table, with a line of totals."""
    table = TextTable(title="What was compared", show_footer=True)
    table.add_column("check", footer="total")
    columns: dict[str, Callable[[Result], int]] = {
        "histories": lambda r: r.histories,
        "steps": lambda r: r.steps,
        "snapshots": lambda r: r.snapshots,
        "reads": lambda r: r.reads,
        "real rows": lambda r: r.real_rows,
        "mismatches": lambda r: r.mismatches,
    }
    for name, value in columns.items():
        table.add_column(name, justify="right", footer=f"{sum(map(value, results)):,}")
    for result in results:
        table.add_row(result.what, *(f"{value(result):,}" for value in columns.values()))
    return table
