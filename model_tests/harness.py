"""Run histories against a backend, from a test or from a command, and report what was found.

Importable without pytest. A mismatch is an `AssertionError` of the checks or any error of the table;
Hypothesis shrinks the history that led to it, and the report holds it as the text of a corpus file.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from pktable_spec.interface import OpenTable

from model_tests.adapters import BACKENDS
from model_tests.machine import TableMachine
from model_tests.profiles import PROFILES, Profile
from model_tests.watched import Stats

Progress = Callable[[Stats], None]


@dataclass(frozen=True)
class Report:
    """What a run did: counts, and the smallest falsifying history found, as JSON text, with its message."""

    backend: str
    profile: Profile
    stats: Stats
    mismatches: int
    message: str | None = None
    falsifying_history: str | None = None


def run_histories(
    backend: str,
    profile: Profile | str = "quick",
    progress: Progress | None = None,
    *,
    open_table: OpenTable | None = None,
) -> Report:
    """Run a profile's histories on ``backend`` (model, local or spark).

    ``progress`` is called after every history, while shrinking too. ``open_table`` replaces the
    backend's own. Raises nothing for a mismatch.
    """
    if isinstance(profile, str):
        profile = PROFILES[backend, profile]
    if open_table is not None:
        return _run(backend, profile, open_table, progress)
    with BACKENDS[backend]() as backend_open:
        return _run(backend, profile, backend_open, progress)


def _run(backend: str, profile: Profile, open_table: OpenTable, progress: Progress | None) -> Report:
    stats, last = Stats(), Last()

    class Machine(TableMachine):
        """The machine, telling of itself when it ends."""

        def __init__(self) -> None:
            super().__init__(open_table, profile, stats)

        def teardown(self) -> None:
            last.machine = self
            super().teardown()
            if progress is not None:
                progress(stats)

    if profile.seed is not None:
        Machine._hypothesis_internal_use_seed = profile.seed
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_state_machine_as_test(Machine, settings=_settings(profile))
    except Exception as failure:  # whatever a table raises is a mismatch, and the history says which
        assert last.machine is not None
        # Hypothesis ends with a run of the smallest failing history it found.
        checked = getattr(last.machine, "checked", None)
        text = checked.history.to_json() if checked is not None else None
        return Report(backend, profile, stats, 1, f"{type(failure).__name__}: {failure}", text)
    return Report(backend, profile, stats, 0)


@dataclass
class Last:
    """The machine that ran last."""

    machine: TableMachine | None = None


def _settings(profile: Profile) -> settings:
    return settings(
        max_examples=profile.histories,
        stateful_step_count=profile.steps,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if profile.shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
