"""Random mutation testing: draw mutations of the kernel, the catalog and the oracle, and count how many are noticed.

1. All mutations of the modules of `AREAS` are listed, and some are drawn by a seed (`mutations`).
2. Without a change, histories and tests must pass: their times set the limits of the trials.
3. Each mutation runs against stored and drawn histories of both kinds of table, drawn schedules of merge engines and
   of tables of every type, and runs of the simulation; one that survives runs against the fast tests of its area
   (`trial`). Both as far as they execute the line. The first failure kills it, and so does a hang.
4. The survivors of both are named, unless `equivalents` says why they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

from model_tests.mutants import equivalents
from model_tests.mutants.executed import Executed, parts_that_execute
from model_tests.mutants.mutations import Mutation, mutations, sampled
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

_KERNEL: Final = (
    "model_tests/format/test_bucket.py",
    "model_tests/table/test_keys.py",
    "model_tests/table/test_edges.py",
    "model_tests/table/test_reading.py",
    "model_tests/table/test_conformance.py",
    "model_tests/vectors",
    "model_tests/refinement",
    "model_tests/oracle/test_picks_agree.py",
    "model_tests/table/test_schema_changes.py",
    "model_tests/table/test_foreign.py",
    "model_tests/table/test_damage.py",
    "model_tests/table/test_windows.py",
    "model_tests/seams",
    "model_tests/engines/test_laws.py",
    "model_tests/engines/test_schedules.py",
    "model_tests/engines/test_sequence_field.py",
    "model_tests/append/test_writing.py",
    "model_tests/append/test_deleting.py",
    "model_tests/append/test_compacting.py",
    "model_tests/changelog/test_recording.py",
)
_CATALOG: Final = (
    "model_tests/format/test_manifest.py",
    "model_tests/format/test_snapshot.py",
    "model_tests/format/test_schema.py",
    "model_tests/format/test_stats.py",
    "model_tests/table/test_commit.py",
    "model_tests/table/test_expiry.py",
    "model_tests/table/test_history.py",
    "model_tests/table/test_times.py",
    "model_tests/table/test_definition.py",
    "model_tests/table/test_schema_changes.py",
    "model_tests/table/test_partition_pruning.py",
    "model_tests/table/test_reading.py",
    "model_tests/table/test_edges.py",
    "model_tests/table/test_foreign.py",
    "model_tests/vectors",
    "model_tests/cli/test_cli_rows.py",
    "model_tests/seams/test_scan.py",
    "model_tests/seams/test_stores.py",
    "model_tests/seams/test_retry.py",
    "model_tests/table/test_races.py",
    "model_tests/append/test_writing.py",
    "model_tests/append/test_deleting.py",
    "model_tests/append/test_compacting.py",
    "model_tests/append/test_row_tracking.py",
    "model_tests/statements/test_isolation.py",
)
_PROTOCOL: Final = (*_CATALOG, "model_tests/table/test_expiry_races.py", "model_tests/commit")
_ORACLE: Final = ("model_tests/oracle", "model_tests/refinement", "model_tests/histories/test_refusals.py")


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

AREAS: Final = (
    Area("lsm", ("reference/pktable/lsm",), _KERNEL),
    Area("bucket", ("reference/pktable/bucket",), _KERNEL),
    Area("merge", ("reference/pktable/merge",), _KERNEL),
    Area("catalog", ("reference/pktable/catalog",), _CATALOG, without=_LOG),
    Area("catalog, the log", _LOG, _PROTOCOL),
    Area("staging", ("reference/pktable/staging.py", "reference/pktable/staged.py"), _PROTOCOL),
    Area("oracle", ("spec/pktable_spec/model",), _ORACLE, backends=("model", "local"), records=False),
)


@dataclass(frozen=True)
class Verdict:
    """The end of one mutation. ``tests``: None if histories had killed it. ``equivalent``: why it changes nothing."""

    area: str
    mutation: Mutation
    histories: Trial | None = None
    tests: Trial | None = None
    equivalent: str | None = None

    @property
    def killed_by_histories(self) -> bool:
        return self.histories is not None and self.histories.killed_by is not None

    @property
    def killed(self) -> bool:
        return self.killed_by_histories or (self.tests is not None and self.tests.killed_by is not None)


class CleanBuildError(Exception):
    """The build without a change does not pass what mutations are judged by."""


class StaleEquivalentsError(Exception):
    """Some recorded equivalents match no mutation of the code as it is."""


Task: TypeAlias = tuple[Area, Mutation]


def draw(number: int, seed: int, areas: Sequence[Area] = AREAS) -> list[Task]:
    """Return ``number`` mutations of the areas, drawn by ``seed``. Raises StaleEquivalentsError."""
    expect_no_stale_equivalent()
    area_of = {mutation: area for area in areas for mutation in area.mutations()}
    return [(area_of[mutation], mutation) for mutation in sampled(list(area_of), number, seed)]


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


_copies: Path
"""The folder for the bench of this worker process."""


def _begin(folder: Path) -> None:
    global _copies
    _copies = folder


@cache
def _bench() -> Bench:
    return Bench(_copies)


@dataclass(frozen=True)
class _Judge:
    """Some work without a change: its limit in seconds of computing, and the lines that its parts execute."""

    work: Work
    limit: float
    executed: Executed

    def trial(self, mutation: Mutation, changed: str) -> Trial:
        """Do the parts of the work that execute the changed statement, with the change."""
        wanted = None
        if mutation.module in self.executed:
            wanted = parts_that_execute(self.executed, mutation.module, mutation.lines)
        return _bench().trial(mutation.module, changed, self.work, self.limit, wanted)


@cache
def _histories(backends: tuple[str, ...]) -> _Judge:
    return _judge(work_of_histories(HISTORIES, STEPS, SEED, backends), f"histories on {', '.join(backends)}")


@cache
def _tests(paths: tuple[str, ...]) -> _Judge:
    return _judge(work_of_tests(paths), "tests")


def _judge(work: Work, what: str) -> _Judge:
    modules = {file.relative_to(ROOT).as_posix() for area in AREAS if area.records for file in area.modules()}
    clean = _bench().warm_up(work, 1_200, modules)
    if clean.trial.killed_by is not None:
        raise CleanBuildError(f"{what}: the build without a change fails: {clean.trial.killed_by}")
    return _Judge(work, 20 + 3 * clean.computed, clean.executed)


def judge(task: Task, with_tests: bool = True) -> Verdict:
    """Run one mutation, in a worker process. ``with_tests``: whether tests are asked where histories found nothing."""
    area, mutation = task
    why = equivalents.load().get(equivalents.name_of(mutation))
    if why is not None:
        return Verdict(area.name, mutation, equivalent=why)
    changed = mutation.applied((ROOT / mutation.module).read_text("utf-8"))
    histories = _histories(area.backends).trial(mutation, changed)
    if histories.killed_by is not None or not with_tests:
        return Verdict(area.name, mutation, histories)
    tests = _tests(area.tests).trial(mutation, changed)
    return Verdict(area.name, mutation, histories, tests)


def judged(tasks: Sequence[Task], workers: int, *, with_tests: bool = True) -> Iterator[Verdict]:
    """Yield the verdict on each mutation, in order. Raises CleanBuildError."""
    with (
        folder_for_copies() as folder,
        ProcessPoolExecutor(workers, get_context("spawn"), _begin, (Path(folder),)) as pool,
    ):
        yield from pool.map(partial(judge, with_tests=with_tests), tasks)
