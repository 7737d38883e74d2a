"""Run histories against a backend, from a test or from a command, and report what was found.

Importable without pytest. A mismatch is an `AssertionError` of the checks or any error of the table;
Hypothesis shrinks the history that led to it, and the report holds it as the text of a corpus file.
"""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test
from pktable_spec.interface import OpenTable

from model_tests.backends.tables import BACKENDS
from model_tests.histories.expectations import Stats, Watched
from model_tests.histories.history import History, Operation
from model_tests.histories.machine import TableMachine
from model_tests.histories.profiles import PROFILES, Profile
from model_tests.histories.session import Checked
from model_tests.refinement import stored_vectors

Progress = Callable[[Stats], None]


@dataclass(frozen=True)
class Report:
    """What a run did: counts, and the smallest falsifying history found, as JSON text, with its message.

    ``check``: which check found it, see `check_of`. ``steps_to_mismatch``: operations done until it was first
    found, over all histories, the one that showed it included.
    """

    backend: str
    profile: Profile
    stats: Stats
    mismatches: int
    message: str | None = None
    falsifying_history: str | None = None
    check: str | None = None
    steps_to_mismatch: int | None = None


CHECKS: dict[CodeType, str] = {
    check.__code__: name
    for owner in (Watched, Checked, stored_vectors)
    for name, check in vars(owner).items()
    if hasattr(check, "clauses")
}
"""The functions that check and say which clauses, by their code."""


def check_of(failure: BaseException) -> str | None:
    """Return the name of the check that found ``failure``; None if it is none, but ended something by accident."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(failure.__traceback__)]
    checks = {code.co_filename for code in CHECKS}
    if not isinstance(failure, AssertionError) or frames[-1].co_filename not in checks:
        return None
    return next((CHECKS[code] for code in reversed(frames) if code in CHECKS), None)


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
    stats, seen = Stats(), _Seen()

    class Machine(TableMachine):
        """The machine, telling of itself when it ends."""

        def __init__(self) -> None:
            super().__init__(open_table, profile, stats)

        def perform(self, operation: Operation) -> None:
            try:
                super().perform(operation)
            except Exception as failure:
                seen.steps_to_mismatch = seen.steps_to_mismatch or stats.steps + 1
                seen.failure, seen.history = failure, self.checked.history
                raise

        def teardown(self) -> None:
            super().teardown()
            if progress is not None:
                progress(stats)

    if profile.seed is not None:
        Machine._hypothesis_internal_use_seed = profile.seed
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_state_machine_as_test(Machine, settings=_settings(profile))
    except Exception as raised:  # whatever a table raises is a mismatch, and the history says which
        # Hypothesis ends with a run of the smallest failing history it found; should that one pass the second
        # time, because file names decide, Hypothesis complains of it, and the failure that was seen is reported.
        failure = seen.failure or raised
        return Report(
            backend,
            profile,
            stats,
            1,
            f"{type(failure).__name__}: {failure}",
            seen.history.to_json() if seen.history is not None else None,
            check_of(failure),
            seen.steps_to_mismatch,
        )
    return Report(backend, profile, stats, 0)


@dataclass
class _Seen:
    """The failure seen last, with its history, and how many steps had been done when one was seen first."""

    failure: Exception | None = None
    history: History | None = None
    steps_to_mismatch: int | None = None


class Independent(HypothesisProvider):
    """Draws as Hypothesis does, each history on its own.

    Hypothesis itself begins with small histories and follows each by up to five variations of it, so that of a
    few dozen histories half had been seen, and most were short. Shrinking is Hypothesis's as ever.
    """


INDEPENDENT = "pktable-independent"
AVAILABLE_PROVIDERS[INDEPENDENT] = Independent


def _settings(profile: Profile) -> settings:
    return settings(
        backend=INDEPENDENT,
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
