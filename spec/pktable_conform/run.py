"""A run of the kit: every case of the chosen modes is given to a runner, and becomes an outcome.

A runner that ends, says nothing or says what the protocol does not know is the ERROR of the case; the next case gets a
new process. After some such cases one after the other the rest is not asked any more.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable_conform import covering, typed, writing
from pktable_conform.archive import Archive, Case
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.expectations import OPTIONAL
from pktable_conform.judge.history import History
from pktable_conform.reading import ReadFailed, read_case
from pktable_conform.report import ERROR, FAIL, PASS, UNSUPPORTED, Outcome, Report
from pktable_conform.runner import Runner, RunnerError, Unsupported

READER, WRITER = "reader", "writer"
MOST_ERRORS: Final = 5  # of a runner, one after the other, before it is given up

Told = Callable[[Outcome], None]


@dataclass(frozen=True)
class Asked:
    """What a run is to do.

    ``modes``: of READER and WRITER. ``only``: names of cases and histories, none for all. ``without``: names of those
    to leave out, or of checks of `OPTIONAL`. ``keep``: the folder of failing cases, None for nowhere. ``steps``: take
    every step of the state graph after at most so many operations, by default those that the archive has.
    """

    modes: tuple[str, ...]
    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    keep: Path | None = None
    auditor: writing.Auditor | None = None
    steps: int | None = None


@dataclass
class _Run:
    """A run under way. ``errors``: how many cases one after the other the runner did not answer."""

    runner: Runner
    archive: Archive
    asked: Asked
    writers: writing.Writers
    errors: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    def of_case(self, case: Case) -> Outcome:
        def work() -> str:
            auditor = self.asked.auditor
            missing = read_case(self.runner, self.archive, case, auditor.rows if auditor else None)
            return f"without reads that need {missing}" if missing else ""

        return self._done(Outcome(case.name, READER, PASS), work)

    def of_history(self, name: str, history: History) -> Outcome:
        def work() -> str:
            part, missing = self.writers.part(history)
            try:
                self.writers.replay(part)
            except CheckFailed as failure:
                small, failure = writing.smallest(self.writers, part, failure)
                raise _HistoryFailedError(small, failure) from None
            return f"without columns of {missing}" if missing else ""

        return self._done(Outcome(name, WRITER, PASS), work)

    def _done(self, outcome: Outcome, work: Callable[[], str]) -> Outcome:
        began = time.monotonic()
        try:
            if self.errors >= MOST_ERRORS:
                raise RunnerError(f"not asked, after {MOST_ERRORS} errors one after the other")
            outcome = replace(outcome, message=work())
            self.errors = 0
        except ReadFailed as failure:
            outcome = self._failed(outcome, failure, failure.to_json())
        except _HistoryFailedError as found:
            outcome = self._failed(outcome, found.failure, found.kept())
        except Unsupported as missing_ones:
            outcome = replace(outcome, status=UNSUPPORTED, message=f"needs {missing_ones}")
        except RunnerError as error:
            self.errors += 1
            self.runner.end()
            outcome = replace(outcome, status=ERROR, message=f"the runner {error}")
        return replace(outcome, seconds=time.monotonic() - began)

    def _failed(self, outcome: Outcome, failure: CheckFailed, text: str) -> Outcome:
        self.errors = 0
        kept = ""
        if self.asked.keep is not None:
            self.asked.keep.mkdir(parents=True, exist_ok=True)
            path = self.asked.keep / f"{outcome.mode}-{outcome.case}.json"
            path.write_text(text, encoding="utf-8")
            kept = str(path)
        found = {"check": failure.check, "clauses": failure.clauses, "message": failure.message}
        return replace(outcome, status=FAIL, history=kept, **found)  # type: ignore[arg-type]


class _HistoryFailedError(Exception):
    """A history that failed, made small."""

    def __init__(self, history: History, failure: CheckFailed) -> None:
        super().__init__(str(failure))
        self.history, self.failure = history, failure

    def kept(self) -> str:
        """Return the history as text, with the columns and options of the table that failed."""
        options = self.failure.options or self.history.options
        return replace(self.history, options=options).to_json(columns=True)


def conform(runner: Runner, archive: Archive, asked: Asked, told: Told = lambda _: None) -> Report:
    """Give cases to a runner, and return the outcomes; ``told`` is called with each.

    Raises InvalidRequestError for names that are none, and for a runner that does not answer ``supports``.
    """
    histories = {**writing.stored(archive.histories), **dict(typed.histories())}
    if asked.steps is not None and WRITER in asked.modes:
        others = {name: one for name, one in histories.items() if not name.startswith(covering.NAME)}
        histories = {**others, **dict(covering.histories(asked.steps))}
    _expect_known(asked, archive.cases, histories)
    try:
        name = runner.supports().name
    except RunnerError as error:
        raise InvalidRequestError(f"--runner: the runner {error}") from None
    with tempfile.TemporaryDirectory(prefix="pktable-conform-") as folder:
        optional = asked.without & frozenset(OPTIONAL)
        writers = writing.Writers(runner, Path(folder), asked.auditor, optional)
        run = _Run(runner, archive, asked, writers)
        for outcome in _outcomes(run, histories):
            run.outcomes.append(outcome)
            told(outcome)
    return Report(name, archive.version, tuple(sorted(asked.without)), tuple(run.outcomes))


def _outcomes(run: _Run, histories: dict[str, History]) -> Iterator[Outcome]:
    asked = run.asked

    def chosen(name: str) -> bool:
        return name not in asked.without and (not asked.only or name in asked.only)

    if READER in asked.modes:
        yield from (run.of_case(case) for case in run.archive.cases if chosen(case.name))
    if WRITER in asked.modes:
        yield from (run.of_history(name, one) for name, one in histories.items() if chosen(name))


def _expect_known(asked: Asked, cases: Sequence[Case], histories: dict[str, History]) -> None:
    by_mode = {READER: {case.name for case in cases}, WRITER: histories.keys()}
    names = set().union(*by_mode.values())
    for option, given, known in (
        ("--case", asked.only, names),
        ("--without", asked.without, names | OPTIONAL.keys()),
    ):
        for name in sorted(given - known):
            also = f", or a check of {', '.join(OPTIONAL)}" if option == "--without" else ""
            raise InvalidRequestError(
                f"{option} {name}: expected a case of the archive{also}, found none of it"
            )
    for name in sorted(asked.only):
        modes = [mode for mode, known in by_mode.items() if name in known]
        if not {*modes} & {*asked.modes}:
            raise InvalidRequestError(
                f"--case {name}: a case of --mode {modes[0]}, found --mode {asked.modes[0]}"
            )
