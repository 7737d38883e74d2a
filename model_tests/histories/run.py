"""Run histories against a backend, from a test or from a command, and report what was found.

Importable without pytest. A mismatch is a `CheckFailed`, or any error that the table raises. Hypothesis shrinks the
history that led to it, and the report holds it as the text of a corpus file.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test
from pktable_conform.judge.checks import CheckFailed, message_of
from pktable_conform.judge.history import History, Operation
from pktable_conform.judge.read_expectations import Stats
from pktable_spec.interface import OpenTable

from model_tests.backends.tables import BACKENDS
from model_tests.histories.failures import Failure
from model_tests.histories.machine import TableMachine
from model_tests.histories.profiles import PROFILES, Profile

Progress = Callable[[Stats], None]


@dataclass(frozen=True)
class Report:
    """The counts of a run, and the smallest falsifying history found, as JSON text, with its message.

    ``check``, ``clauses``: the check that found it and the clauses it checks; None and empty if the table raised
    another error. ``steps_to_mismatch``: operations done until it was first found, over all histories, the one that
    showed it included.
    """

    backend: str
    profile: Profile
    stats: Stats
    mismatches: int
    message: str | None = None
    falsifying_history: str | None = None
    check: str | None = None
    clauses: tuple[str, ...] = ()
    steps_to_mismatch: int | None = None

    @property
    def failure(self) -> Failure | None:
        """The falsifying history with its message, None if there is none."""
        if self.falsifying_history is None or self.message is None:
            return None
        return Failure(self.falsifying_history, self.backend, self.message, self.check)


def run_histories(
    backend: str,
    profile: Profile | str = "quick",
    progress: Progress | None = None,
    *,
    open_table: OpenTable | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Run a profile's histories on ``backend`` (model, local or spark).

    ``progress`` is called after every history, while shrinking too. ``open_table`` replaces the
    backend's own; ``options`` are table options for all histories, over those that are drawn. Raises nothing
    for a mismatch.
    """
    if isinstance(profile, str):
        profile = PROFILES[backend, profile]
    if open_table is not None:
        return _run(backend, profile, open_table, progress, options)
    with BACKENDS[backend]() as backend_open:
        return _run(backend, profile, backend_open, progress, options)


def _run(
    backend: str,
    profile: Profile,
    open_table: OpenTable,
    progress: Progress | None,
    options: Mapping[str, str],
) -> Report:
    stats, seen = Stats(), _Seen()

    class Machine(TableMachine):
        """The machine, which remembers its failure and reports its progress."""

        def __init__(self) -> None:
            super().__init__(open_table, profile, stats, options)

        def perform(self, operation: Operation) -> None:
            try:
                super().perform(operation)
            except Exception as failure:
                seen.steps_to_mismatch = seen.steps_to_mismatch or stats.steps + 1
                seen.failure, seen.history = failure, self.session.history
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
        # Hypothesis ends with a run of the smallest failing history it found. If that one passes the second time,
        # because file names decide, Hypothesis complains of it; then the failure that was seen is reported.
        failure = seen.failure or raised
        found = failure if isinstance(failure, CheckFailed) else None
        return Report(
            backend,
            profile,
            stats,
            1,
            message_of(failure),
            seen.history.to_json() if seen.history is not None else None,
            found.check if found else None,
            found.clauses if found else (),
            seen.steps_to_mismatch,
        )
    return Report(backend, profile, stats, 0)


@dataclass
class _Seen:
    """The failure seen last, with its history, and the number of steps done when the first one was seen."""

    failure: Exception | None = None
    history: History | None = None
    steps_to_mismatch: int | None = None


class Independent(HypothesisProvider):
    """Draws each history independently of those before it.

    Hypothesis itself begins with small histories and follows each by up to five variations of it. So half of a few
    dozen histories had been seen before, and most were short. Shrinking is Hypothesis's own.
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
