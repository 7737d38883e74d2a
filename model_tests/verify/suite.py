"""Everything that can be checked from a command: ``make verify``, also ``pktable verify``.

1. TLC checks the TLA+ models, the state graphs of the oracle, and traces of tables. Models and graphs that are
   on record are not run again (`model_tests.tlc.record`).
2. Drawn histories run on the oracle, on the local runner and on Spark, and tables of every type on the local runner;
   stored histories run on Spark.
3. The history of this checkout, and a larger stored stream if there is one, are replayed and compared by time travel.
4. Actors run over a simulated store in drawn orders, with faults; nothing may be lost, and TLC explains what they did.
5. Every mutant is injected while the history stored for it is replayed, which must fail.
6. The deep profile also fuzzes the decoders.

All but the first run side by side (`model_tests.verify.workers`), in parts where there is much of one. An absent input
is reported and is no failure. At the end tables show how much was checked and compared. A history that fails is
printed, and kept as a file if ``PKTABLE_FAILURES`` names a directory. `report` writes all of it down.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from pktable.cli.progress import Reporter
from pktable.replay import GitHistory, History, StoredStream, Summary, create_table, replay
from pktable.run.spark.session import local_session
from pktable_conform.judge.checks import message_of
from pktable_conform.judge.read_expectations import Stats
from pktable_spec.errors import InvalidRequestError
from rich.console import Console
from rich.table import Table as TextTable

from model_tests import corpus
from model_tests.backends.tables import local_backend, spark_backend
from model_tests.damage import fuzz
from model_tests.histories.failures import Failure, kept
from model_tests.histories.profiles import PROFILES, SEED, Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay as replay_history
from model_tests.histories.typed import draw
from model_tests.mutants import MUTANTS
from model_tests.mutants.measure import replayed, stored_history
from model_tests.mutants.registry import Kill
from model_tests.real_data import ROOT as SHARED
from model_tests.simulation.explore import BadRun, by_seed, shortest
from model_tests.simulation.steps import StoreTrace, traced_seed
from model_tests.tlc import suite
from model_tests.tlc.store_traces import accepts_stores
from model_tests.tlc.table_traces import traces_of
from model_tests.verify.workers import Show, Workers

CHECKOUT: Final = Path(__file__).parents[2]
STREAM: Final = SHARED / "data" / "paimon-git-history.parquet"
PROFILE_NAMES: Final = ("quick", "deep")
WIDTH: Final = 110  # of the summary where there is no terminal to ask
TRACED: Final = {"local": (20, 40), "spark": (4, 25)}  # tables and steps of each that TLC is asked to explain
TYPED: Final = {"quick": 40, "deep": 320}
"""How many schedules of tables of every type."""
SEEDS: Final = {"quick": 300, "deep": 2_400}
TRACED_SEEDS: Final = {"quick": 50, "deep": 300}
"""How many of them TLC is asked to explain."""
PART: Final = {"model": 1_000, "local": 100, "spark": 20, "seeds": 1_000}
"""How many histories of a backend, and how many seeds, one process runs."""
MUTANTS_STAGE: Final = "mutants killed"
CORPUS: Final = Profile("corpus", histories=1, steps=1, reread_limit=0, twin=False)
"""Twins are drawn on Spark, and older snapshots of stored histories read again on the local runner by `make test`."""


@dataclass(frozen=True)
class Result:
    """One line of the summary. ``real_rows``: rows of real input that were read and compared.

    ``failures``: the histories that failed.
    """

    what: str
    histories: int = 0
    steps: int = 0
    snapshots: int = 0
    reads: int = 0
    mismatches: int = 0
    real_rows: int = 0
    failures: tuple[Failure, ...] = ()

    @property
    def problem(self) -> str | None:
        """The problem, None if there is none; a check that compared nothing has not passed."""
        if self.mismatches:
            return f"{self.mismatches} mismatches"
        return None if self.snapshots and self.reads else "compared nothing"


COUNTS: Final = tuple(one.name for one in fields(Result) if one.name not in ("what", "failures"))


@dataclass
class Outcome:
    """All that came of a run.

    ``seconds``: those of each stage. ``clauses``: how often the stages that judge the implementation checked each.
    ``mutants``: how each ended, None if it survived. ``decoders``: what is wrong with them. ``said``: lines on the way.
    """

    profile: str
    checked: list[suite.Result] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    mutants: dict[str, Kill | None] = field(default_factory=dict)
    decoders: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    clauses: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    total: float = 0.0

    @property
    def killed(self) -> list[str]:
        """The mutants that the check meant for them has killed."""
        return [id for id, kill in self.mutants.items() if kill is not None and kill.meant]

    @property
    def problems(self) -> list[str]:
        """All that failed, one line each."""
        wrong = [(id, kill) for id, kill in self.mutants.items() if id not in self.killed]
        return [
            *self.decoders,
            *(f"mutant {id}: {'survived' if kill is None else kill.message}" for id, kill in wrong),
            *(f"{check.what}: {problem}" for check in self.checked for problem in check.problems),
            *(f"{result.what}: {problem}" for result in self.results if (problem := result.problem)),
        ]


class Listening(Reporter):
    """Shows progress, and remembers what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)
        super().say(message)


def main(profile: str, report: Path | None = None) -> int:
    """Check everything as a profile says, and return the exit code: 0 fine, 1 a check failed.

    ``report``: the folder where it is written down.
    """
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    started = time.monotonic()
    outcome, listening = Outcome(profile), Listening()
    with listening as show:
        outcome.checked = checked_by_tlc(show)
        outcome.seconds["TLC"] = time.monotonic() - started
        compare(outcome, show)
    outcome.said, outcome.total = listening.said, time.monotonic() - started
    console.print(tlc_summary(outcome.checked))
    console.print(summary(outcome.results))
    killed = f"{len(outcome.killed)} of {len(outcome.mutants)} mutants killed by the check meant for them"
    console.print(killed, highlight=False)
    most = sorted(outcome.seconds.items(), key=lambda one: -one[1])[:8]
    longest = ", ".join(f"{what} {spent:.0f} s" for what, spent in most)
    console.print(f"took longest: {longest}; all {outcome.total:.0f} s", highlight=False)
    if report is not None:
        from model_tests.verify.report import written  # which draws what failed

        console.print(f"report: {written(outcome, report)}", highlight=False)
    failed = outcome.problems
    console.print("\n".join(f"FAILED {one}" for one in failed) or "all checks passed", highlight=False)
    return 1 if failed else 0


def compare(outcome: Outcome, show: Reporter) -> None:
    """Run all that TLC does not check, side by side."""
    profile = outcome.profile
    with Workers(show) as workers:
        # The longest first, so that no process waits for another at the end.
        drawn = [
            [
                workers.start(drawn_histories, backend, part, PROFILES[backend, profile].histories)
                for part in parts_of(backend, profile, show)
            ]
            for backend in ("spark", "local", "model")
        ]
        stored = workers.start(stored_histories)
        real = [workers.start(real_input, what) for what in REAL_INPUT]
        seeds = [workers.start(simulated, part, profile) for part in parts(SEEDS[profile], PART["seeds"])]
        typed = workers.start(typed_tables, profile)
        mutants = workers.start(mutants_killed)
        fuzzed = workers.start(decoders_fuzzed) if profile == "deep" else None
    outcome.seconds.update(workers.seconds)
    for what, counts in workers.clauses.items():
        if what != MUTANTS_STAGE:
            outcome.clauses.update(counts)
    checks = [*map(together, drawn), typed.result(), stored.result(), *(one.result() for one in real)]
    checks.append(together(seeds))
    outcome.results = [found for found in checks if found is not None]
    outcome.mutants = mutants.result()
    outcome.decoders = fuzzed.result() if fuzzed else []


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


def parts(count: int, size: int) -> list[range]:
    """Divide ``count`` things into ranges of at most ``size``."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def parts_of(backend: str, profile: str, show: Show) -> list[Profile]:
    """Say what a profile draws on a backend, and divide it; each part draws its own histories."""
    whole = PROFILES[backend, profile]
    seed = "a fresh seed" if whole.seed is None else f"seed {whole.seed}"
    show.say(f"{backend}: {whole.histories} histories of up to {whole.steps} steps, {seed}")
    return divided(whole, PART[backend])


def divided(whole: Profile, size: int) -> list[Profile]:
    """Divide a profile into parts of at most ``size`` histories, with a seed each if it has one."""
    return [
        replace(whole, histories=len(part), seed=None if whole.seed is None else whole.seed + number)
        for number, part in enumerate(parts(whole.histories, size))
    ]


def together(parts: Sequence[Future[Result]]) -> Result:
    """Add up the results of the parts of one check."""
    results = [part.result() for part in parts]
    counts = {name: sum(getattr(one, name) for one in results) for name in COUNTS}
    failures = tuple(failure for one in results for failure in one.failures)
    return Result(results[0].what, **counts, failures=failures)


def drawn_histories(show: Show, backend: str, part: Profile, total: int) -> Result:
    """Run the histories of a part of a profile, of ``total``, on one backend."""
    what = f"histories on {backend}"
    report = run_histories(backend, part, lambda stats: show(what, stats.histories, total))
    if report.mismatches:
        show.say(f"{what}: {report.message}")
    failures = () if report.failure is None else (report.failure,)
    for failure in failures:
        show.say(kept(failure))
    return replace(counted(what, report.stats, report.mismatches), failures=failures)


def stored_histories(show: Show) -> Result:
    """Replay every stored history on Spark, which does all the work of every other one."""
    what, stats, names = "stored histories on spark", Stats(), corpus.names()
    failures: list[Failure] = []
    with spark_backend(["spark", None]) as open_table:
        for done, name in enumerate(names, 1):
            history = corpus.load(name)
            try:
                replay_history(history, open_table, CORPUS, stats)
            except Exception as error:  # whatever a table raises is a mismatch
                failure = Failure.of(history, "spark", error)
                failures.append(failure)
                show.say(f"{what}: {name}: {failure.message}")
                show.say(kept(failure))
            show(what, done, len(names))
    return replace(counted(what, stats, len(failures)), failures=tuple(failures))


def typed_tables(show: Show, profile: str) -> Result:
    """Run schedules of tables of every type."""
    what = "tables of every type"
    try:
        return counted(what, draw(TYPED[profile], SEED), 0)
    except Exception as error:  # whatever a table raises is a mismatch
        show.say(f"{what}: {message_of(error)}")
        return Result(what, mismatches=1)


def simulated(show: Show, seeds: range, profile: str) -> Result:
    """Run the simulation up to the first of ``seeds`` that goes wrong, and have TLC explain the first runs.

    Of each part of a profile's seeds TLC explains the same share.
    """
    what, total, steps, snapshots, reads = "simulated stores", SEEDS[profile], 0, 0, 0
    traced = seeds[: len(seeds) * TRACED_SEEDS[profile] // total]
    traces: dict[int, StoreTrace] = {}
    for done, seed in enumerate(seeds):
        found, trace = traced_seed(seed) if seed in traced else (by_seed(seed), None)
        if trace is not None:
            traces[seed] = trace
        if isinstance(found, BadRun):
            least = shortest(found)
            show.say(f"{what}: seed {seed}: {least.error}\n{least.as_code()}")
            return Result(what, done, steps, snapshots, reads, 1)
        steps, snapshots, reads = steps + found.steps, snapshots + found.snapshots, reads + found.reads
        show(what, done + 1, total)
    refused = 0
    for seed, verdict in zip(traces, accepts_stores(list(traces.values())), strict=True):
        if not verdict.accepted:
            refused += 1
            step = traces[seed].steps[verdict.explained]
            show.say(f"{what}: seed {seed}: step {verdict.explained + 1} is none of StoreOperations: {step}")
    return Result(what, len(seeds), steps, snapshots, reads, refused)


def counted(what: str, stats: Stats, mismatches: int) -> Result:
    return Result(what, stats.histories, stats.steps, stats.snapshots_compared, stats.reads, mismatches)


def checkout_history(show: Show) -> History | None:
    """Return the history of this checkout; None, said, where it has none."""
    try:
        history = GitHistory(CHECKOUT)
    except InvalidRequestError as error:
        show.say(f"this repository: skipped, {error}")
        return None
    if history.shallow:
        show.say("this repository: shallow, its history begins where the clone was cut")
    return history


def stored_stream(show: Show) -> History | None:
    """Return the stored stream; None, said, where it is absent."""
    if not STREAM.is_file():
        show.say(f"stored stream: skipped, expected {STREAM} (or set PKTABLE_SHARED), found none")
        return None
    return StoredStream(STREAM)


REAL_INPUT: Final[dict[str, Callable[[Show], History | None]]] = {
    "this repository": checkout_history,
    "stored stream": stored_stream,
}


def real_input(show: Show, what: str) -> Result | None:
    """Replay real input on Spark into a table of its own, and compare by time travel; None if it is absent."""
    history = REAL_INPUT[what](show)
    if history is None:
        return None
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


def mutants_killed(show: Show) -> dict[str, Kill | None]:
    """Put in each mutant, replay the history that must kill it; return how each ended, None if it survived."""
    found = {}
    with local_backend() as open_table:
        for done, mutant in enumerate(MUTANTS.values(), 1):
            found[mutant.id] = replayed(stored_history(mutant), open_table, mutant)
            show("mutants", done, len(MUTANTS))
    return found


def decoders_fuzzed(show: Show) -> list[str]:
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
