"""Run one changed module against histories and tests, each in a process forked from one that has everything imported.

1. `Bench` copies the tree. It does work without a change, and records which parts of it execute which lines
   (`executed`); `records` keeps that. It imports what the work imported of other packages.
2. A trial writes the changed module into the copy and forks. The child forgets the packages of the repository,
   imports them from the copy, does those parts of the work that execute the line, the cheapest first, and reports the
   first failure.
3. The parent waits for the report. A child that computes or waits for longer than its limit is ended: a hang is a
   kill.

So a trial costs an import of the packages here, not a new interpreter; and a test that starts an interpreter of its
own finds the change as well.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias

from model_tests.mutants.executed import BETWEEN, OUTSIDE, Clean, Recorder, file_of
from model_tests.patience import TooSlowError

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("spec", "reference", "model_tests", "benchmarks")
FILES: Final = ("pyproject.toml", "README.md", "CHANGES.md", "LICENSE", "Makefile")
PACKAGES: Final = (
    "pktable",
    "pktable_conform",
    "pktable_hudi",
    "pktable_spec",
    "pyspark_pktable",
    "model_tests",
    "benchmarks",
)
SEEDS_TO_ONE: Final = 3
"""Seeds of the simulation to a drawn history: they take as long, and races have more forms."""
MEMORY: Final = Path("/dev/shm")
LIMIT: Final = "time limit"
BUSY: Final = 6
"""How many times as long as it computes a trial may take, on a busy machine."""
LARGEST: Final = 16 << 30
"""The bytes of address space of a child: a change that makes a loop endless must not take the machine's memory.

Some tests map a file of megabytes a thousand times.
"""

Wanted = Sequence[str] | None
Work = Callable[[Callable[[str], None], Wanted], str | None]
"""The work of a child, in parts. It calls its first argument as each part begins, does the parts that the second names
in this order (None: all), and returns the first failure, None if there is none.
"""


@dataclass(frozen=True)
class Trial:
    """The end of a trial. ``killed_by``: what failed first, None if nothing did. ``seconds``: its time."""

    killed_by: str | None
    seconds: float


def folder_for_copies() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder for benches, in memory if there is such a place."""
    place = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="pktable-mutants-", dir=place)


class Bench:
    """A copy of the tree in a new folder under ``folder``, and trials on it. To be used from one process only."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self.root = self._folder / "tree"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*", "results")
        for part in PARTS:
            shutil.copytree(root / part, self.root / part, ignore=ignored)
        for name in FILES:
            shutil.copy(root / name, self.root / name)
        paths = [str(self.root / "spec"), str(self.root / "reference"), str(self.root)]
        self._environment = {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self._folder),
        }
        self._paths = paths

    def record(self, work: Work, limit: float, modules: Collection[str] = ()) -> tuple[Trial, Clean]:
        """Do ``work`` once without a change. ``modules``: those whose executed lines are recorded."""
        trial, report = self._forked(work, limit, None, modules)
        return trial, Clean(report.get("executed", {}), report.get("seconds", {}), report.get("modules", ()))

    def warm_up(self, imports: Iterable[str]) -> None:
        """Import modules of other packages, so that no trial has to."""
        for name in imports:
            with contextlib.suppress(Exception):  # some are made by their package, and cannot be imported
                importlib.import_module(name)

    def trial(
        self, module: str, source: str | None, work: Work, limit: float, wanted: Wanted = None
    ) -> Trial:
        """Do ``work`` with the text of ``module``, a path from the root, replaced by ``source`` (None: as it is).

        ``limit``: seconds of computing, and a few times as many to wait. ``wanted``: the parts to do, in this order.
        """
        if wanted is not None and not wanted:
            return Trial(None, 0.0)
        path = self.root / module
        good = path.read_text("utf-8")
        try:
            if source is not None:
                path.write_text(source, "utf-8")
                _forget_compiled(path)
            return self._forked(work, limit, wanted)[0]
        finally:
            path.write_text(good, "utf-8")
            _forget_compiled(path)

    def _forked(
        self, work: Work, limit: float, wanted: Wanted, recorded: Collection[str] = ()
    ) -> tuple[Trial, dict[str, Any]]:
        answer = self._folder / "answer.json"
        answer.unlink(missing_ok=True)
        started = time.monotonic()
        child = get_context("fork").Process(target=self._do, args=(work, answer, wanted, recorded, limit))
        child.start()
        child.join(BUSY * limit)
        seconds = time.monotonic() - started
        if child.exitcode is None:
            assert child.pid is not None, "it was started"
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.join()
            return Trial(f"{LIMIT}: not done after {seconds:.0f} s", seconds), {}
        if child.exitcode == -signal.SIGXCPU:
            return Trial(f"{LIMIT}: not done after {limit:.0f} s of computing", seconds), {}
        if not answer.exists():
            return Trial("the process ended without a report", seconds), {}
        report = json.loads(answer.read_text("utf-8"))
        return Trial(report["killed by"], seconds), report

    def _do(self, work: Work, answer: Path, wanted: Wanted, recorded: Collection[str], limit: float) -> None:
        """Do the work of a child, and write the report."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST))
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        os.environ.update(self._environment)
        tempfile.tempdir = str(self._folder)
        os.chdir(self.root)
        sys.dont_write_bytecode = False  # of the copy, for the next trial
        sys.path[:0] = self._paths
        for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
            del sys.modules[name]
        _let_functions_be_registered_again()
        recorder = Recorder(self.root, recorded)
        try:
            with recorder.recording() if recorded else contextlib.nullcontext():
                found = work(recorder.begin, wanted)
        except BaseException as error:  # of an import, too, and whatever a changed module raises
            found = f"{type(error).__name__}: {error}"
        others = [name for name in sys.modules if name.partition(".")[0] not in PACKAGES]
        recorder.begin(OUTSIDE)
        report = {
            "killed by": found,
            "modules": others,
            "executed": recorder.executed(),
            "seconds": recorder.seconds,
        }
        answer.write_text(json.dumps(report), "utf-8")


def _let_functions_be_registered_again() -> None:
    """Let a package that is imported again register its functions with Arrow, which keeps the first ones."""
    compute: Any = importlib.import_module("pyarrow.compute")
    register = compute.register_scalar_function

    def registered(function: Any, name: str, *rest: Any) -> None:
        if name not in compute.list_functions():
            register(function, name, *rest)

    compute.register_scalar_function = registered


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def work_of_histories(number: int, steps: int, seed: int, backends: Sequence[str]) -> Work:
    """Return the work that replays the stored histories and runs, and then draws others, of all kinds of table.

    Each stored history, each run of the simulation, and all that is drawn of one kind of table are parts of it.
    ``number``, ``steps``: histories of tables with a key that are drawn, and the most steps of each.
    """

    def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
        parts = [
            *_of_scripts(),
            *_of_tables_with_a_key(number, steps, seed, backends),
            *_of_append_tables(number // len(backends), seed),
            *_of_merge_engines(number // len(backends), seed),
            *_of_stacks(seed),
            *_of_every_type(number // len(backends), seed),
            *_of_others(number // len(backends), seed),
            *_simulated(SEEDS_TO_ONE * number, seed),
        ]
        do = dict(parts)
        assert len(do) == len(parts), "each part has a name of its own"
        for part in do if wanted is None else wanted:
            begin(part)
            try:
                problem = do[part]()
            except Exception as failure:  # whatever a table raises is a failure
                problem = importlib.import_module("pktable_conform.judge.checks").message_of(failure)
            begin(BETWEEN)
            if problem is not None:
                return f"{part}: {problem}"
        return None

    return work


Part: TypeAlias = tuple[str, Callable[[], str | None]]
"""A name, and what does it and returns a failure, None if there is none."""


def _of_scripts() -> Iterator[Part]:
    """Yield scripts whose work on the store is recorded."""
    compare = importlib.import_module("model_tests.store_work.play").store_work_is_as_recorded
    for name, script in importlib.import_module("model_tests.store_work.scripts").SCRIPTS.items():
        yield f"stored script {name}", partial(_done, compare, name, script)


def _of_tables_with_a_key(number: int, steps: int, seed: int, backends: Sequence[str]) -> Iterator[Part]:
    contexts = importlib.import_module("model_tests.backends.tables").BACKENDS
    corpus = importlib.import_module("model_tests.corpus")
    mutants = importlib.import_module("model_tests.mutants.measure")
    profiles = importlib.import_module("model_tests.histories.profiles")
    run = importlib.import_module("model_tests.histories.run")
    session = importlib.import_module("model_tests.histories.session")
    stored = profiles.Profile("stored", histories=1, steps=1, reread_limit=2)
    drawn = profiles.Profile("drawn", number, steps, 2, orders=True, seed=seed, shrinks=False)
    engines = replace(drawn, histories=number // 2, engines=True)
    histories = {name: corpus.load(name) for name in corpus.names()}
    histories |= {name: mutants.stored_history(one) for name, one in mutants.MUTANTS.items()}

    def replay(history: object, backend: str) -> None:
        with contexts[backend]() as open_table:
            session.replay(history, open_table, stored)

    for backend in backends:
        for name, history in histories.items():
            yield f"stored history {name}, {backend}", partial(_done, replay, history, backend)
        yield f"drawn history, {backend}", partial(_message, run.run_histories, backend, drawn)
        yield (
            f"drawn history of merge engines, {backend}",
            partial(_message, run.run_histories, backend, engines),
        )


def _of_append_tables(number: int, seed: int) -> Iterator[Part]:
    machine = importlib.import_module("model_tests.append.machine")
    mutants = importlib.import_module("model_tests.mutants.append_tables")
    for name, one in mutants.APPEND_MUTANTS.items():
        yield (
            f"stored history {name} of append tables",
            partial(_done, machine.play, mutants.stored(one), machine.TABLES[one.table]),
        )
    for kind, options in machine.TABLES.items():
        few = number // len(machine.TABLES)
        yield f"drawn history of append tables, {kind}", partial(_done, machine.draw, options, few, seed)


def _of_merge_engines(number: int, seed: int) -> Iterator[Part]:
    schedules = importlib.import_module("model_tests.engines.schedules")
    for case, vectors in schedules.WITH_VECTORS:
        few = number // 2
        yield (
            f"drawn schedule of {case}, {'with' if vectors else 'without'} vectors",
            partial(_done, partial(schedules.draw, vectors=vectors), case, few, seed),
        )


def _of_stacks(seed: int) -> Iterator[Part]:
    stacks = importlib.import_module("model_tests.engines.stacks")
    for case, vectors, forgets in stacks.WAYS:
        play = partial(stacks.draw, vectors=vectors, forgets=forgets)
        yield f"drawn stack of {case}", partial(_done, play, case, 1, seed)


def _of_every_type(number: int, seed: int) -> Iterator[Part]:
    typed = importlib.import_module("model_tests.histories.typed")
    yield "drawn tables of every type", partial(_done, typed.draw, number, seed)


def _of_others(number: int, seed: int) -> Iterator[Part]:
    """Yield schedules in which others are faster or a process dies, of work, of options, and of changelogs."""
    for name in ("contests", "upkeep", "work"):
        schedules = importlib.import_module(f"model_tests.histories.{name}")
        yield f"drawn {name}", partial(_done, schedules.draw, number // 2, seed)
    every_option = importlib.import_module("model_tests.histories.every_option")
    yield "drawn tables with options that others leave alone", partial(_done, every_option.draw, number, seed)
    alike = importlib.import_module("model_tests.engines.alike")
    yield "drawn runs that are numbered alike", partial(_done, alike.draw, number // 4, seed)
    wrong_values = importlib.import_module("model_tests.histories.wrong_values")
    yield "values that cannot be", partial(_done, wrong_values.draw, seed)
    contests = importlib.import_module("model_tests.histories.contests")
    yield "contests on full disks", partial(_done, contests.fill_disks, seed)
    late_options = importlib.import_module("model_tests.histories.late_options")
    yield "options that come late", partial(_done, late_options.draw, seed)
    packing = importlib.import_module("model_tests.append.packing")
    yield "drawn files of append tables at the limits", partial(_done, packing.draw, number, seed)
    evolved = importlib.import_module("model_tests.append.evolved")
    yield "drawn tables with data evolution", partial(_done, evolved.draw, number, seed)
    changelogs = importlib.import_module("model_tests.changelog.schedules")
    for case in changelogs.CASES:
        yield (
            f"drawn changelog of {', '.join(case)}",
            partial(_done, changelogs.draw, *case, number // 4, seed),
        )


def _simulated(number: int, seed: int) -> Iterator[Part]:
    explore = importlib.import_module("model_tests.simulation.explore")
    preemptions = importlib.import_module("model_tests.simulation.preemptions")
    protocol = importlib.import_module("model_tests.mutants.protocol")
    for one in protocol.PROTOCOL:
        yield f"simulated script {one.id}", partial(_message, one.run)
    for jobs in protocol.WITH_OTHERS:
        yield f"interleavings of {jobs}", partial(_message, preemptions.first_bad, jobs)
    for number_of_run in range(number * seed, number * (seed + 1)):
        yield f"simulated seed {number_of_run}", partial(_message, explore.by_seed, number_of_run)


def _done(do: Callable[..., object], *arguments: object) -> None:
    do(*arguments)


def _message(do: Callable[..., Any], *arguments: object) -> str | None:
    """Do something, and return the failure that the result tells of, if it does."""
    found = do(*arguments)
    failure: str | None = getattr(found, "message", None) or getattr(found, "error", None)
    return failure


def work_of_tests(paths: Sequence[str]) -> Work:
    """Return the work that runs the fast tests under ``paths``, each a part, until one fails."""

    def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
        import pytest

        class First:
            """Runs the wanted tests, and remembers the first that failed."""

            failed: str | None = None

            def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
                if wanted is not None:
                    items[:] = [item for item in items if item.nodeid in wanted]

            def pytest_runtest_logstart(self, nodeid: str) -> None:
                begin(nodeid)

            def pytest_runtest_logfinish(self, nodeid: str) -> None:
                begin(BETWEEN)

            @pytest.hookimpl(wrapper=True)
            def pytest_runtest_makereport(
                self, item: pytest.Item, call: pytest.CallInfo[None]
            ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
                """A test that fails for want of time has found nothing."""
                report = yield
                if call.excinfo is not None and call.excinfo.typename == TooSlowError.__name__:
                    report.outcome, report.longrepr = "skipped", (item.nodeid, 0, "too slow")
                return report

            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed and self.failed is None:
                    self.failed = report.nodeid

            def pytest_collectreport(self, report: pytest.CollectReport) -> None:
                if report.failed and self.failed is None:
                    self.failed = f"the import of {report.nodeid}"

        first = First()
        quietly = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:benchmark"]
        files = paths if wanted is None else dict.fromkeys(file_of(part) for part in wanted)
        code = pytest.main([*quietly, "-m", "not spark and not deep", *files], plugins=[first])
        if first.failed is not None:
            return f"test {first.failed}"
        return (
            None
            if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
            else f"pytest: {int(code)}"
        )

    return work
