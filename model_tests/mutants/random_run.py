"""Random mutation testing: draw mutations of the reference and the oracle, and count how many are noticed.

1. All mutations of the modules of `AREAS` are listed, and some are drawn by a seed (`mutations`), of each area in turn.
2. Without a change, histories and tests must pass: their times set the limits of the trials. That, and which lines
   they execute, is recorded once for each state of the code (`records`), by all workers together.
3. Each mutation runs against stored scripts (`store_work`), stored and drawn histories of both kinds of table, drawn
   schedules of merge engines and of tables of every type, and runs of the simulation; one that survives runs against
   others of all that is drawn, `MORE` instead of `HISTORIES`, and then against the fast tests of its area (`trial`).
   All as far as they execute the line. The first failure kills it, and so does a hang. Those that only more histories
   notice are counted apart.
4. The survivors of both are named, unless `equivalents` says why they change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

from model_tests.mutants import equivalents
from model_tests.mutants.executed import Clean
from model_tests.mutants.mutations import Mutation, mutations, sampled
from model_tests.mutants.records import Records
from model_tests.mutants.trial import (
    ROOT,
    Bench,
    Trial,
    Work,
    folder_for_copies,
    work_of_histories,
    work_of_tests,
)

HISTORIES: Final = 25
STEPS: Final = 14
SEED: Final = 1
MORE: Final = 100
MORE_SEED: Final = SEED + 1
"""How many histories are drawn besides, by which seed, where the first ones find nothing."""
DRAWN: Final = "drawn "
"""How the names of parts begin that draw more if more are asked for."""


def _tests_in(*folders: str) -> tuple[str, ...]:
    files = (file for folder in folders for file in (ROOT / "model_tests" / folder).glob("test_*.py"))
    return tuple(sorted(file.relative_to(ROOT).as_posix() for file in files))


_TESTS: Final = (
    "model_tests/oracle/test_picks_agree.py",
    *_tests_in("format", "vectors", "refinement", "seams", "predicate", "table", "commit", "statements"),
    *_tests_in(
        "append", "changelog", "engines", "check", "damage", "buckets", "source", "stores", "warehouse"
    ),
)
_ORACLE: Final = (
    "model_tests/oracle",
    "model_tests/refinement",
    "model_tests/histories/test_refusals.py",
    "model_tests/hudi/test_write.py",
)


@dataclass(frozen=True)
class Area:
    """Modules that are mutated, and what judges them.

    ``paths``: folders or files from the root. ``backends``: those that histories run on. ``tests``: the fast tests.
    ``without``: files of these folders that belong to another area. ``records``: whether only what executes a line
    judges its change; not where nearly everything does.
    """

    name: str
    paths: tuple[str, ...]
    tests: tuple[str, ...]
    backends: tuple[str, ...] = ("local",)
    without: tuple[str, ...] = ()
    records: bool = True

    def modules(self, root: Path = ROOT) -> list[Path]:
        """Return the Python files of the area."""
        files = chain.from_iterable(
            [root / path] if path.endswith(".py") else (root / path).glob("*.py") for path in self.paths
        )
        return sorted(set(files) - {root / path for path in self.without})

    def mutations(self, root: Path = ROOT) -> list[Mutation]:
        """Return all mutations of the area."""
        return [
            mutation
            for file in self.modules(root)
            for mutation in mutations(str(file.relative_to(root)), file.read_text("utf-8"))
        ]


_LOG: Final = tuple(
    f"reference/pktable/catalog/{name}.py"
    for name in ("commit", "publish", "fences", "snapshots", "retention")
)
"""The log of snapshots, whose faults mostly show when several processes meet."""

_STATEMENTS: Final = _tests_in("statements", "append", "engines", "table")
_FILES: Final = _tests_in("format", "vectors", "table", "damage", "check", "buckets", "source", "stores")
_HUDI: Final = _tests_in("hudi")

_STAGING: Final = ("staging", "staged", "staged_write")
_TOP: Final = tuple(
    f"reference/pktable/{name}.py" for name in (*_STAGING, "dml", "merge_builder", "replay", "__main__")
)

AREAS: Final = (
    Area("lsm", ("reference/pktable/lsm",), _TESTS),
    Area("bucket", ("reference/pktable/bucket",), _TESTS),
    Area("merge", ("reference/pktable/merge",), _TESTS),
    Area("catalog", ("reference/pktable/catalog",), _TESTS, without=_LOG),
    Area("catalog, the log", _LOG, _TESTS),
    Area("staging", tuple(f"reference/pktable/{name}.py" for name in _STAGING), _TESTS),
    Area("kinds", ("reference/pktable/kinds",), _TESTS),
    Area(
        "statements",
        (
            "reference/pktable/statements",
            "reference/pktable/dml.py",
            "reference/pktable/merge_builder.py",
        ),
        _STATEMENTS,
    ),
    Area("tables", ("reference/pktable",), _TESTS, without=_TOP),
    Area("runs", ("reference/pktable/run",), _TESTS),
    Area("ingest", ("reference/pktable/ingest",), (*_STATEMENTS, *_tests_in("cli"))),
    Area("predicate", ("reference/pktable/predicate",), _tests_in("predicate", "statements", "table")),
    Area("data files", ("reference/pktable/datafile",), _FILES),
    Area("format", ("reference/pktable/format",), _FILES),
    Area("metadata", ("reference/pktable/format/metadata",), _FILES),
    Area("vectors", ("reference/pktable/format/vectors",), _FILES),
    Area("stores", ("reference/pktable/store",), _TESTS),
    Area("check", ("reference/pktable/check",), _TESTS),
    Area("hudi", ("reference/pktable_hudi",), _HUDI),
    Area("format of Hudi", ("reference/pktable_hudi/format",), _HUDI),
    Area("data source", ("reference/pktable/spark_source",), _tests_in("source")),
    Area("queries by name", ("reference/pktable/sql",), _tests_in("warehouse")),
    Area("oracle", ("spec/pktable_spec/model",), _ORACLE, backends=("model", "local"), records=False),
)


@dataclass(frozen=True)
class Verdict:
    """The end of one mutation. ``more``: that by more histories. ``more``, ``tests``: None if it was dead by then, or
    they were not asked. ``equivalent``: why it changes nothing.
    """

    area: str
    mutation: Mutation
    histories: Trial | None = None
    tests: Trial | None = None
    equivalent: str | None = None
    more: Trial | None = None

    @property
    def killed_by_histories(self) -> bool:
        return self.histories is not None and self.histories.killed_by is not None

    @property
    def killed_by_more(self) -> bool:
        """Whether histories killed it, those that were drawn besides included."""
        return self.killed_by_histories or (self.more is not None and self.more.killed_by is not None)

    @property
    def killed(self) -> bool:
        return self.killed_by_more or (self.tests is not None and self.tests.killed_by is not None)


class CleanBuildError(Exception):
    """The build without a change does not pass what mutations are judged by."""


class StaleEquivalentsError(Exception):
    """Some recorded equivalents match no mutation of the code as it is."""


Task: TypeAlias = tuple[Area, Mutation]


def draw(number: int, seed: int, areas: Sequence[Area] = AREAS) -> list[Task]:
    """Return ``number`` mutations, drawn by ``seed`` from each area in turn. Raises StaleEquivalentsError."""
    expect_no_stale_equivalent()
    drawn = [[(area, one) for one in sampled(area.mutations(), number, seed)] for area in areas]
    random.Random(seed).shuffle(drawn)
    in_turn = chain.from_iterable(zip_longest(*drawn))
    return list(islice((task for task in in_turn if task is not None), number))


def expect_no_stale_equivalent() -> None:
    """Raise StaleEquivalentsError if an equivalent no longer fits the code: it is to be looked at again."""
    recorded = equivalents.load()
    present = [
        mutation
        for module in {module for module, _, _ in recorded}
        if (ROOT / module).exists()
        for mutation in mutations(module, (ROOT / module).read_text("utf-8"))
    ]
    gone = equivalents.stale(recorded, present)
    if gone:
        shown = "; ".join(f"{module}: {text!r}, {change}" for module, text, change in gone)
        raise StaleEquivalentsError(f"remove these from {equivalents.STORED.name}, or mend them: {shown}")


Unit: TypeAlias = tuple[str, ...]
"""Some work that is recorded in one go: `OF_HISTORIES` and the backends, or `OF_TESTS` and a path."""
OF_HISTORIES: Final = "histories"
OF_TESTS: Final = "tests"


def units(tasks: Iterable[Task], *, with_tests: bool) -> list[Unit]:
    """Return what judges some mutations, each unit once."""
    areas = {area.name: area for area, _ in tasks}.values()
    histories = [(OF_HISTORIES, *area.backends) for area in areas]
    tests = [(OF_TESTS, path) for area in areas for path in area.tests if with_tests]
    return list(dict.fromkeys((*histories, *tests)))


def _work(kind: str, *named: str) -> Work:
    return work_of_tests(named) if kind == OF_TESTS else work_of_histories(HISTORIES, STEPS, SEED, named)


class Worker:
    """Judges mutations in one process. ``copies``: a folder for its copy of the tree."""

    def __init__(self, copies: Path, records: Records) -> None:
        self._copies, self._records = copies, records
        self._clean: dict[Unit, Clean] = {}

    @cached_property
    def _bench(self) -> Bench:
        return Bench(self._copies)

    def clean(self, unit: Unit) -> Clean:
        """Return the record of a unit, which is made here if there is none yet. Raises CleanBuildError."""
        if unit in self._clean:
            return self._clean[unit]
        name = ", ".join(unit)
        clean = self._records.load(name)
        if clean is None:
            areas = [area for area in AREAS if area.records]
            modules = {file.relative_to(ROOT).as_posix() for area in areas for file in area.modules()}
            trial, clean = self._bench.record(_work(*unit), 1_200, modules)
            if trial.killed_by is not None:
                raise CleanBuildError(f"{name}: the build without a change fails: {trial.killed_by}")
            self._records.store(name, clean)
        self._bench.warm_up(clean.imports)
        self._clean[unit] = clean
        return clean

    def judge(self, task: Task, *, with_tests: bool = True, with_more: bool = True) -> Verdict:
        """Run one mutation. ``with_tests``, ``with_more``: whether they are asked where histories found nothing.

        Raises CleanBuildError.
        """
        area, mutation = task
        why = equivalents.load().get(equivalents.name_of(mutation))
        if why is not None:
            return Verdict(area.name, mutation, equivalent=why)
        found = Verdict(area.name, mutation, self._trial(mutation, [(OF_HISTORIES, *area.backends)]))
        if with_more and not found.killed:
            found = replace(found, more=self._more(mutation, area.backends))
        if with_tests and not found.killed:
            found = replace(found, tests=self._trial(mutation, [(OF_TESTS, path) for path in area.tests]))
        return found

    def _more(self, mutation: Mutation, backends: Sequence[str]) -> Trial:
        """Draw other histories, in the parts that execute the changed statement. Raises CleanBuildError."""
        clean = self.clean((OF_HISTORIES, *backends))
        parts = [one for one in clean.parts(mutation.module, mutation.lines) if one.startswith(DRAWN)]
        work = work_of_histories(MORE, STEPS, MORE_SEED, backends)
        limit = 20 + 3 * clean.computed(parts) * MORE / HISTORIES
        changed = mutation.applied((ROOT / mutation.module).read_text("utf-8"))
        trial = self._bench.trial(mutation.module, changed, work, limit, parts)
        guilty = [one for one in parts if (trial.killed_by or "").startswith(f"{one}: ")]
        if guilty:  # these have not run without a change
            good = self._bench.trial(mutation.module, None, work, limit, guilty)
            if good.killed_by is not None:
                raise CleanBuildError(f"{guilty[0]}: the build without a change fails: {good.killed_by}")
        return trial

    def _trial(self, mutation: Mutation, several: Sequence[Unit]) -> Trial:
        """Do the parts of some units of one kind that execute the changed statement, the cheapest first."""
        work = _work(several[0][0], *(name for unit in several for name in unit[1:]))
        asked = [
            (self.clean(unit), self.clean(unit).parts(mutation.module, mutation.lines)) for unit in several
        ]
        asked.sort(key=lambda one: one[0].computed(one[1]))
        limit = 20 + 3 * sum(clean.computed(parts) for clean, parts in asked)
        changed = mutation.applied((ROOT / mutation.module).read_text("utf-8"))
        wanted = [part for _, parts in asked for part in parts]
        return self._bench.trial(mutation.module, changed, work, limit, wanted)


_worker: Worker
"""That of this worker process."""


def _begin(copies: Path) -> None:
    global _worker
    _worker = Worker(copies, Records())


def _record(unit: Unit) -> None:
    _worker.clean(unit)


def _judge(task: Task, with_tests: bool, with_more: bool) -> Verdict:
    return _worker.judge(task, with_tests=with_tests, with_more=with_more)


def judged(
    tasks: Sequence[Task], workers: int, *, with_tests: bool = True, with_more: bool = True
) -> Iterator[Verdict]:
    """Yield the verdict on each mutation, in order. Raises CleanBuildError."""
    with (
        folder_for_copies() as folder,
        ProcessPoolExecutor(workers, get_context("spawn"), _begin, (Path(folder),)) as pool,
    ):
        for _ in pool.map(_record, units(tasks, with_tests=with_tests)):
            pass
        yield from pool.map(partial(_judge, with_tests=with_tests, with_more=with_more), tasks)
